//! A schema of one's own on the server that the environment names.

use std::env;
use std::io::Write;
use std::net::SocketAddr;

use sendoff_core::{EventId, Ident};
use sendoff_engine::store::{Born, NewRow};
use sendoff_postgres::{PostgresOptions, PostgresStore};
use sendoff_testkit::proxy::Proxy;
pub(crate) use sendoff_testkit::steps::{by, claim, due, event, hold_of, refusal, settle_one};
use tokio_postgres::{Client, Config, NoTls};

use crate::pooler::Pooler;

pub(crate) const SERVER: &str = "SENDOFF_POSTGRES_URL";
pub(crate) const NEWER_SERVER: &str = "SENDOFF_POSTGRES18_URL";

/// The server's URL. Without one a test fails in CI; elsewhere it says so and is over.
fn url_of(variable: &str) -> String {
    let ci = env::var("CI").is_ok_and(|ci| ci == "true");
    for name in [variable, SERVER] {
        if let Ok(url) = env::var(name) {
            return url;
        }
        assert!(!ci, "{name} is not set");
        // Not `eprintln!`, which a test runner may capture.
        let _ = writeln!(std::io::stderr(), "SKIPPED: {name} is not set");
    }
    // Nothing in this program can be tested without a server.
    std::process::exit(0);
}

/// A schema that is dropped at the end.
pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) schema: String,
    /// What stands between us and the server; it goes last.
    _pooler: Option<Pooler>,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self::on(SERVER)
    }

    pub(crate) fn on(variable: &str) -> Self {
        Self::in_schema(url_of(variable), own_schema())
    }

    pub(crate) fn in_schema(url: String, schema: String) -> Self {
        Self { url, schema, _pooler: None }
    }

    /// On the usual server, behind a pooler.
    pub(crate) fn pooled() -> Self {
        let pooler = Pooler::start(&url_of(SERVER));
        Self { url: pooler.url(), schema: own_schema(), _pooler: Some(pooler) }
    }

    pub(crate) fn options(&self) -> PostgresOptions {
        PostgresOptions {
            schema: Some(Ident::new(&*self.schema).unwrap()),
            ..PostgresOptions::default()
        }
    }

    pub(crate) async fn store(&self) -> PostgresStore {
        self.store_with(self.options()).await
    }

    pub(crate) async fn store_with(&self, options: PostgresOptions) -> PostgresStore {
        let store = PostgresStore::connect_with(&self.url, options).await.unwrap();
        store.migrate().await.unwrap();
        store
    }

    /// The application's own connection.
    pub(crate) async fn client(&self) -> Client {
        connect(&self.url).await.unwrap()
    }

    /// Runs statements in this schema.
    pub(crate) async fn run(&self, sql: &str) {
        let client = self.client().await;
        client.batch_execute(&format!("set search_path = {}; {sql}", self.schema)).await.unwrap();
    }

    /// One number.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let client = self.client().await;
        client.batch_execute(&format!("set search_path = {}", self.schema)).await.unwrap();
        client.query_one(sql, &[]).await.unwrap().get(0)
    }

    pub(crate) async fn rows(&self) -> i64 {
        self.number("select count(*) from outbox_event").await
    }

    /// Ends the sessions for which a condition holds, and says how many there were.
    pub(crate) async fn end_sessions(&self, condition: &str) -> i64 {
        let end = "select count(pg_terminate_backend(pid)) from pg_stat_activity where";
        self.number(&format!("{end} {condition}")).await
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let (url, schema) = (self.url.clone(), self.schema.clone());
        // Away from the test's runtime, which cannot be blocked, nor awaited here.
        let clean = std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let client = connect(&url).await?;
                let drop = |patience| {
                    format!(
                        "begin; set local lock_timeout = '{patience}';
                         drop schema if exists {schema} cascade; commit"
                    )
                };
                if client.batch_execute(&drop("200ms")).await.is_ok() {
                    return Ok(());
                }
                // The test's own connections hold locks, and its runtime is not there to close them.
                let end = format!(
                    "rollback;
                     select pg_terminate_backend(pid) from pg_locks
                       join pg_class c on c.oid = relation
                       join pg_database d on d.oid = database
                      where relnamespace = '{schema}'::regnamespace
                        and datname = current_database() and pid <> pg_backend_pid()"
                );
                client.batch_execute(&end).await?;
                client.batch_execute(&drop("10s")).await
            })
        });
        let _ = clean.join();
    }
}

fn own_schema() -> String {
    format!("t_{}", EventId::generate().to_string().replace('-', ""))
}

/// Where the server of a URL is.
pub(crate) fn port(url: &str) -> SocketAddr {
    let config: Config = url.parse().unwrap();
    format!("127.0.0.1:{}", config.get_ports()[0]).parse().unwrap()
}

/// The URL of the same database, by way of a proxy.
pub(crate) fn by_way_of(url: &str, proxy: &Proxy) -> String {
    url_at(url, proxy.address())
}

/// The URL of the same database at another address.
pub(crate) fn url_at(url: &str, server: SocketAddr) -> String {
    let config: Config = url.parse().unwrap();
    let (user, database) = (config.get_user().unwrap(), config.get_dbname().unwrap());
    format!("postgres://{user}@{server}/{database}")
}

pub(crate) async fn connect(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Writes rows in a transaction of their own.
pub(crate) async fn write(
    store: &PostgresStore,
    client: &mut Client,
    rows: &[NewRow],
) -> Vec<Born> {
    use sendoff_engine::capture::Commit;
    let tx = client.transaction().await.unwrap();
    store.commit(tx, rows).await.unwrap()
}
