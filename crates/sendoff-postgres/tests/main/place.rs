//! A schema of one's own on the server that the environment names.

use std::env;
use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use sendoff_core::{Event, EventId, Ident};
use sendoff_engine::capture::{CommitError, WriteError};
use sendoff_engine::store::Outcome;
use sendoff_engine::store::{
    Birth, Born, Claim, ClaimStore, Claimed, Held, NewRow, SettleStore, Settlement,
};
use sendoff_postgres::{PostgresOptions, PostgresStore};
use sendoff_testkit::proxy::Proxy;
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
                client
                    .batch_execute(&format!(
                        // A test that failed may have left a lock behind; its own word matters more.
                        "set lock_timeout = '10s'; drop schema if exists {schema} cascade"
                    ))
                    .await
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
    let config: Config = url.parse().unwrap();
    let (user, database) = (config.get_user().unwrap(), config.get_dbname().unwrap());
    format!("postgres://{user}@{}/{database}", proxy.address())
}

pub(crate) async fn connect(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

pub(crate) fn event() -> Event {
    Event::json_text("order.placed", "{}").unwrap()
}

pub(crate) fn due(event: Event) -> NewRow {
    NewRow { event, birth: Birth::Due }
}

pub(crate) fn by(owner: &str) -> Claim<'_> {
    Claim::new(owner, 1_000, Duration::from_secs(30))
}

pub(crate) fn hold_of(claimed: &Claimed) -> Held {
    Held::row(claimed.id, claimed.token)
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

pub(crate) async fn claim(store: &PostgresStore, owner: &str) -> Vec<Claimed> {
    store.claim(&by(owner)).await.unwrap().rows
}

pub(crate) async fn settle_one(store: &PostgresStore, held: Held, outcome: Outcome) -> bool {
    !store.settle(&[Settlement { held, outcome }]).await.unwrap().applied.is_empty()
}

pub(crate) fn refusal(error: CommitError) -> WriteError {
    match error {
        CommitError::Refused(refused) => refused,
        other => WriteError::Driver(other.into()),
    }
}
