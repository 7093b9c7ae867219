//! A schema of one's own on the server that the environment names.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::program::{Running, sendoff};

pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) schema: String,
    runtime: tokio::runtime::Runtime,
}

impl Place {
    /// `None`, said aloud, where no server is named.
    pub(crate) fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let Ok(url) = std::env::var("SENDOFF_POSTGRES_URL") else {
            assert!(std::env::var("CI").is_err(), "SENDOFF_POSTGRES_URL is not set");
            eprintln!("SKIPPED: SENDOFF_POSTGRES_URL is not set");
            return None;
        };
        let (pid, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::SeqCst));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Some(Self { url, schema: format!("cli_{pid}_{count}"), runtime })
    }

    /// The program, told of the database by its environment.
    pub(crate) fn sendoff(&self, arguments: &[&str]) -> Command {
        self.sendoff_at(&self.url, arguments)
    }

    pub(crate) fn sendoff_at(&self, url: &str, arguments: &[&str]) -> Command {
        let mut command = sendoff(arguments);
        command.env("SENDOFF_DATABASE_URL", url).env("SENDOFF_SCHEMA", &self.schema);
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        Running::start(self.sendoff(arguments)).ended()
    }

    pub(crate) fn sql(&self, statements: &str) {
        self.with(async |client| client.batch_execute(statements).await.unwrap());
    }

    pub(crate) fn number(&self, query: &str) -> i64 {
        self.with(async |client| client.query_one(query, &[]).await.unwrap().get(0))
    }

    /// A connection that stays open.
    pub(crate) fn client(&self) -> tokio_postgres::Client {
        self.block_on(async {
            let connected = tokio_postgres::connect(&self.url, tokio_postgres::NoTls).await;
            let (client, connection) = connected.unwrap();
            tokio::spawn(connection);
            client
        })
    }

    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    fn with<T>(&self, work: impl AsyncFnOnce(&tokio_postgres::Client) -> T) -> T {
        self.runtime.block_on(async {
            let connected = tokio_postgres::connect(&self.url, tokio_postgres::NoTls).await;
            let (client, connection) = connected.unwrap();
            let driving = tokio::spawn(connection);
            let path = format!("set search_path = {}", self.schema);
            client.batch_execute(&path).await.unwrap();
            let answer = work(&client).await;
            drop(client);
            driving.await.unwrap().unwrap();
            answer
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.sql(&format!("drop schema if exists {} cascade", self.schema));
    }
}
