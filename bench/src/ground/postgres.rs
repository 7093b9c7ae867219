//! A database on a PostgreSQL server.

use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use sendoff_postgres::{PostgresOptions, PostgresStore, Retention};
use serde_json::{Value, json};
use tokio_postgres::{Client, Config, NoTls};

use super::{Rows, with_database};
use crate::contest::progress;

const RELAY_SETTINGS: &str = include_str!("../../sql/postgres/relay_settings.sql");
const BUSINESS: &str = include_str!("../../sql/postgres/business.sql");
const FILL: &str = include_str!("../../sql/postgres/fill.sql");
const PENDING: &str = include_str!("../../sql/postgres/pending.sql");

/// A database of ours.
#[derive(Debug)]
pub(crate) struct Ground {
    url: String,
    /// Numbers the rows that were made, so that ids are never used twice.
    filled: AtomicU64,
}

impl Ground {
    /// Makes a database of this name, which is ours, with empty tables.
    pub(crate) async fn create(server: &str, name: &str) -> Result<Self> {
        connect(server).await?.batch_execute(&format!("create database {name}")).await?;
        let ground = Self::existing(with_database(server, name));
        let client = ground.connect().await?;
        ground.open(Retention::default()).await?.migrate().await?;
        client.batch_execute(BUSINESS).await?;
        warn_if_not_durable(&client).await?;
        Ok(ground)
    }

    /// A database that is there already.
    pub(crate) fn existing(url: String) -> Self {
        Self { url, filled: AtomicU64::new(0) }
    }

    /// Removes a database of ours.
    pub(crate) async fn drop(server: &str, name: &str) -> Result<()> {
        let drop = format!("drop database if exists {name} with (force)");
        Ok(connect(server).await?.batch_execute(&drop).await?)
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) async fn open(&self, retention: Retention) -> Result<PostgresStore> {
        let options = PostgresOptions { retention, ..PostgresOptions::default() };
        Ok(PostgresStore::connect_with(&self.url, options).await?)
    }

    /// A connection of its own.
    pub(crate) async fn connect(&self) -> Result<Client> {
        connect(&self.url).await
    }

    /// A connection for claims and settlements, set as the store sets its own.
    pub(crate) async fn connect_relay(&self) -> Result<Client> {
        let client = self.connect().await?;
        client.batch_execute(RELAY_SETTINGS).await?;
        Ok(client)
    }

    pub(super) async fn snapshot(&self) -> Result<Client> {
        let client = self.connect().await?;
        let seen = "begin isolation level repeatable read; select from outbox_event limit 1";
        client.batch_execute(seen).await?;
        Ok(client)
    }

    pub(super) async fn clear(&self) -> Result<()> {
        let client = self.connect().await?;
        client.batch_execute("truncate outbox_event, outbox_key, bench_order").await?;
        calm(&client).await
    }

    pub(super) async fn fill(&self, rows: Rows) -> Result<()> {
        let count = rows.count();
        if count == 0 {
            return Ok(());
        }
        let first = self.filled.fetch_add(count, Ordering::Relaxed);
        let client = self.connect().await?;
        let (count, first) = (i64::try_from(count)?, i64::try_from(first)?);
        let keys = i64::try_from(rows.keys())?;
        client.execute(FILL, &[&count, &first, &rows.status(), &keys]).await?;
        calm(&client).await
    }

    pub(super) async fn compact(&self) -> Result<()> {
        Ok(self.connect().await?.batch_execute("vacuum full outbox_event").await?)
    }

    pub(super) async fn has_pending(&self) -> Result<bool> {
        Ok(self.connect().await?.query_one(PENDING, &[]).await?.try_get(0)?)
    }

    pub(super) async fn settings(&self) -> Result<Value> {
        let client = self.connect().await?;
        let mut settings = json!({ "store": "postgres", "relay_synchronous_commit": "off" });
        for name in ["server_version", "fsync", "synchronous_commit", "shared_buffers"] {
            settings[name] = setting(&client, name).await?.into();
        }
        Ok(settings)
    }
}

async fn connect(url: &str) -> Result<Client> {
    let mut config: Config = url.parse().context("the address of the server is no URL")?;
    config.application_name("sendoff-bench");
    let (client, connection) =
        config.connect(NoTls).await.context("no connection to the server")?;
    // Ends with its client; an error reaches whoever waits for an answer.
    tokio::spawn(connection);
    Ok(client)
}

/// What the last round left to do is done before the next one begins, and counts for nobody.
async fn calm(client: &Client) -> Result<()> {
    client.batch_execute("vacuum analyze outbox_event").await?;
    client.batch_execute("vacuum analyze bench_order").await?;
    client.batch_execute("checkpoint").await.context("a checkpoint needs a superuser")?;
    Ok(())
}

async fn warn_if_not_durable(client: &Client) -> Result<()> {
    for name in ["fsync", "synchronous_commit"] {
        if setting(client, name).await? == "off" {
            progress(format_args!("{name} is off: these are not the figures of a durable server"));
        }
    }
    Ok(())
}

async fn setting(client: &Client, name: &str) -> Result<String> {
    Ok(client.query_one("select current_setting($1)", &[&name]).await?.try_get(0)?)
}
