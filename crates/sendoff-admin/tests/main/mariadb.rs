//! An outbox in a database of its own.

use std::env;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use sendoff_core::EventId;
use sendoff_mysql::MysqlStore;

pub(crate) struct Place {
    url: String,
    database: String,
}

impl Place {
    /// On the server the environment names. Without one a test fails in CI; elsewhere it is over.
    pub(crate) async fn new() -> Option<Self> {
        let Ok(server) = env::var("SENDOFF_MARIADB_URL") else {
            let ci = env::var("CI").is_ok_and(|ci| ci == "true");
            assert!(!ci, "SENDOFF_MARIADB_URL is not set");
            eprintln!("SKIPPED: SENDOFF_MARIADB_URL is not set");
            return None;
        };
        let database = format!("t_{}", EventId::generate().to_string().replace('-', ""));
        let (host, _) = server.rsplit_once('/').unwrap();
        let url = format!("{host}/{database}");
        let mut conn = Conn::new(Opts::from_url(&server).unwrap()).await.unwrap();
        conn.query_drop(format!("create database {database}")).await.unwrap();
        Some(Self { url, database })
    }

    pub(crate) async fn outbox(&self) -> MysqlStore {
        let store = MysqlStore::connect(&self.url).await.unwrap();
        store.migrate().await.unwrap();
        store
    }

    pub(crate) async fn conn(&self) -> Conn {
        Conn::new(Opts::from_url(&self.url).unwrap()).await.unwrap()
    }

    /// Drops the database. One that a failed test leaves behind goes with the server.
    pub(crate) async fn drop(self) {
        let drop = format!("drop database {}", self.database);
        self.conn().await.query_drop(drop).await.unwrap();
    }
}
