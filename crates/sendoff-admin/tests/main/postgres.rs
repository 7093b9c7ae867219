//! A journal in a schema of its own.

use std::env;
use std::net::SocketAddr;

use sendoff_core::{EventId, Ident};
use sendoff_engine::journal::Journal;
use sendoff_postgres::{JournalOptions, PostgresJournal, PostgresOptions, PostgresStore};
use tokio_postgres::{Client, NoTls};

pub(crate) struct Place {
    url: String,
    schema: String,
}

impl Place {
    /// On the server the environment names. Without one a test fails in CI; elsewhere it is over.
    pub(crate) fn new() -> Option<Self> {
        let Ok(url) = env::var("SENDOFF_POSTGRES_URL") else {
            let ci = env::var("CI").is_ok_and(|ci| ci == "true");
            assert!(!ci, "SENDOFF_POSTGRES_URL is not set");
            eprintln!("SKIPPED: SENDOFF_POSTGRES_URL is not set");
            return None;
        };
        let schema = format!("t_{}", EventId::generate().to_string().replace('-', ""));
        Some(Self { url, schema })
    }

    /// Reached by this URL.
    pub(crate) async fn journal_at(&self, url: &str) -> Journal<PostgresJournal> {
        let schema = Some(Ident::new(&*self.schema).unwrap());
        let server = PostgresOptions { schema, ..PostgresOptions::default() };
        let options = JournalOptions { server, ..JournalOptions::default() };
        let store = PostgresJournal::connect_with(url, options).await.unwrap();
        store.migrate().await.unwrap();
        Journal::new(store)
    }

    pub(crate) async fn journal(&self) -> Journal<PostgresJournal> {
        self.journal_at(&self.url).await
    }

    pub(crate) async fn outbox(&self) -> PostgresStore {
        let schema = Some(Ident::new(&*self.schema).unwrap());
        let options = PostgresOptions { schema, ..PostgresOptions::default() };
        let store = PostgresStore::connect_with(&self.url, options).await.unwrap();
        store.migrate().await.unwrap();
        store
    }

    /// The URL of the same server at another address.
    pub(crate) fn through(&self, address: SocketAddr) -> String {
        let (before, rest) = self.url.split_once('@').unwrap();
        let (_, after) = rest.split_once('/').unwrap();
        format!("{before}@{address}/{after}")
    }

    pub(crate) fn server(&self) -> SocketAddr {
        let (_, rest) = self.url.split_once('@').unwrap();
        rest.split('/').next().unwrap().parse().unwrap()
    }

    /// A session in the schema.
    pub(crate) async fn client(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(&self.url, NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(&format!("set search_path = {}", self.schema)).await.unwrap();
        client
    }

    /// Drops the schema. One that a failed test leaves behind goes with the server.
    pub(crate) async fn drop(self) {
        let drop = format!("drop schema {} cascade", self.schema);
        self.client().await.batch_execute(&drop).await.unwrap();
    }
}
