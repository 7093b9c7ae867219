//! A database of one's own on the server that the environment names.

use std::env;
use std::io::Write;
use std::net::SocketAddr;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};
use sendoff_core::EventId;
use sendoff_engine::capture::{Begin, Commit};
use sendoff_engine::store::{Born, NewRow};
use sendoff_mysql::{MysqlOptions, MysqlStore};
use sendoff_testkit::proxy::Proxy;
pub(crate) use sendoff_testkit::steps::{by, claim, due, event, hold_of, refusal, settle_one};

pub(crate) const MARIADB: &str = "SENDOFF_MARIADB_URL";
pub(crate) const MYSQL: &str = "SENDOFF_MYSQL_URL";

/// The server's URL. Without one a test fails in CI; elsewhere it says so and is over. MySQL itself is
/// asked for only where it was started.
fn url_of(variable: &str) -> String {
    let ci = env::var("CI").is_ok_and(|ci| ci == "true");
    for name in [variable, MARIADB] {
        if let Ok(url) = env::var(name) {
            return url;
        }
        assert!(!ci || name == MYSQL, "{name} is not set");
        // Not `eprintln!`, which a test runner may capture.
        let _ = writeln!(std::io::stderr(), "SKIPPED: {name} is not set");
        // A process for each test may end for the lack of one server; otherwise it must go on, and
        // does so on the other.
        if env::var_os("NEXTEST").is_some() {
            std::process::exit(0);
        }
    }
    // Nothing in this program can be tested without a server.
    std::process::exit(0);
}

/// A database that is dropped at the end.
pub(crate) struct Place {
    server: String,
    pub(crate) url: String,
    pub(crate) database: String,
}

impl Place {
    pub(crate) async fn new() -> Self {
        Self::on(MARIADB).await
    }

    pub(crate) async fn on(variable: &str) -> Self {
        Self::at(url_of(variable)).await
    }

    /// On the server of this URL.
    pub(crate) async fn at(server: String) -> Self {
        let id = EventId::generate().to_string().replace('-', "");
        let database = format!("t_{id}");
        let (host, _) = server.rsplit_once('/').unwrap();
        let url = format!("{host}/{database}");
        let place = Self { server, url, database };
        let mut conn = connect(&place.server).await;
        // Not ours: a text of a statement that has no character set of its own gets the database's.
        let create = format!("create database {} character set latin1", place.database);
        conn.query_drop(create).await.unwrap();
        conn.disconnect().await.unwrap();
        place
    }

    /// A database that another process made, and drops.
    pub(crate) fn of_another(url: String) -> std::mem::ManuallyDrop<Self> {
        let (server, database) = (url.clone(), url.rsplit_once('/').unwrap().1.to_owned());
        std::mem::ManuallyDrop::new(Self { server, url, database })
    }

    pub(crate) async fn store(&self) -> MysqlStore {
        self.store_with(MysqlOptions::default()).await
    }

    pub(crate) async fn store_with(&self, options: MysqlOptions) -> MysqlStore {
        let store = MysqlStore::connect_with(&self.url, options).await.unwrap();
        store.migrate().await.unwrap();
        store
    }

    /// The application's own connection.
    pub(crate) async fn conn(&self) -> Conn {
        connect(&self.url).await
    }

    /// Runs statements in this database.
    pub(crate) async fn run(&self, sql: &str) {
        self.conn().await.query_drop(sql).await.unwrap();
    }

    /// Runs a script as the client `mysql` does.
    pub(crate) async fn run_script(&self, script: &str) {
        let mut conn = self.conn().await;
        for statement in statements(script) {
            conn.query_drop(statement).await.unwrap();
        }
        conn.disconnect().await.unwrap();
    }

    /// One number.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        self.conn().await.query_first(sql).await.unwrap().unwrap()
    }

    pub(crate) async fn rows(&self) -> i64 {
        self.number("select count(*) from outbox_event").await
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let (server, database) = (self.server.clone(), self.database.clone());
        // Away from the test's runtime, which cannot be blocked, nor awaited here.
        let clean = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut conn = connect(&server).await;
                // The test's own connections may hold locks, and its runtime is not there to close them.
                let others = format!(
                    "select id from information_schema.processlist where db = '{database}'"
                );
                for session in conn.query::<u64, _>(others).await.unwrap_or_default() {
                    let _ = conn.query_drop(format!("kill {session}")).await;
                }
                let drop = format!("set lock_wait_timeout = 5; drop database if exists {database}");
                let _ = conn.query_drop(drop).await;
                let _ = conn.disconnect().await;
            });
        });
        let _ = clean.join();
    }
}

/// The statements of a script as the client `mysql` sends them.
pub(crate) fn statements(script: &str) -> Vec<String> {
    let (mut statements, mut statement, mut end) = (Vec::new(), String::new(), ";");
    for line in script.lines() {
        if let Some(other) = line.strip_prefix("delimiter ") {
            end = other;
            continue;
        }
        statement.push_str(line);
        statement.push('\n');
        if line.ends_with(end) && !line.trim_start().starts_with("--") {
            statements.push(statement.trim().trim_end_matches(end).to_owned());
            statement.clear();
        }
    }
    statements
}

/// Where the server of a URL is.
pub(crate) fn port(url: &str) -> SocketAddr {
    let port = Opts::from_url(url).unwrap().tcp_port();
    format!("127.0.0.1:{port}").parse().unwrap()
}

/// The URL of the same database, by way of a proxy.
pub(crate) fn by_way_of(url: &str, proxy: &Proxy) -> String {
    url_at(url, proxy.address())
}

/// The URL of the same database at another port of this host.
pub(crate) fn url_at(url: &str, server: SocketAddr) -> String {
    let from = format!(":{}/", Opts::from_url(url).unwrap().tcp_port());
    url.replace(&from, &format!(":{}/", server.port()))
}

pub(crate) async fn connect(url: &str) -> Conn {
    try_connect(url).await.unwrap()
}

pub(crate) async fn try_connect(url: &str) -> Result<Conn, mysql_async::Error> {
    Conn::new(OptsBuilder::from_opts(Opts::from_url(url)?).prefer_socket(false)).await
}

/// Writes rows in a transaction of their own.
pub(crate) async fn write(store: &MysqlStore, conn: &mut Conn, rows: &[NewRow]) -> Vec<Born> {
    let tx = store.begin(conn).await.unwrap();
    store.commit(tx, rows).await.unwrap()
}
