//! A database on a MariaDB or MySQL server.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use sendoff_mysql::{MysqlOptions, MysqlStore, Retention};
use serde_json::{Value, json};

use super::{Rows, with_database};
use crate::contest::progress;
use crate::order;

const BUSINESS: &str = include_str!("../../sql/mysql/business.sql");
const PENDING: &str = include_str!("../../sql/mysql/pending.sql");

/// Rows in one statement of `fill`.
const FILL_ROWS: u64 = 1_000;

/// What the store sets in its own sessions, as far as it decides about speed.
const RELAY_SETTINGS: &str = "set session transaction isolation level read committed; \
     set session /*M!100600 in_predicate_conversion_threshold = 0, */ \
     innodb_lock_wait_timeout = 10";

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
        connect(server).await?.query_drop(format!("create database {name}")).await?;
        let ground = Self::existing(with_database(server, name));
        ground.open(Retention::default()).await?.migrate().await?;
        let mut conn = ground.connect().await?;
        conn.query_drop(BUSINESS).await?;
        warn_if_not_durable(&mut conn).await?;
        Ok(ground)
    }

    /// A database that is there already.
    pub(crate) fn existing(url: String) -> Self {
        Self { url, filled: AtomicU64::new(0) }
    }

    /// Removes a database of ours.
    pub(crate) async fn drop(server: &str, name: &str) -> Result<()> {
        Ok(connect(server).await?.query_drop(format!("drop database if exists {name}")).await?)
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) async fn open(&self, retention: Retention) -> Result<MysqlStore> {
        let options = MysqlOptions { retention, ..MysqlOptions::default() };
        Ok(MysqlStore::connect_with(&self.url, options).await?)
    }

    /// A connection of its own.
    pub(crate) async fn connect(&self) -> Result<Conn> {
        connect(&self.url).await
    }

    /// A connection for claims and settlements, set as the store sets its own.
    pub(crate) async fn connect_relay(&self) -> Result<Conn> {
        let mut conn = self.connect().await?;
        conn.query_drop(RELAY_SETTINGS).await?;
        Ok(conn)
    }

    pub(super) async fn snapshot(&self) -> Result<Conn> {
        let mut conn = self.connect().await?;
        conn.query_drop("start transaction with consistent snapshot").await?;
        Ok(conn)
    }

    pub(super) async fn clear(&self) -> Result<()> {
        let mut conn = self.connect().await?;
        for table in ["outbox_event", "outbox_key", "outbox_tally", "bench_order"] {
            conn.query_drop(format!("truncate table {table}")).await?;
        }
        Ok(())
    }

    pub(super) async fn fill(&self, rows: Rows) -> Result<()> {
        let count = rows.count();
        let first = self.filled.fetch_add(count, Ordering::Relaxed);
        let mut conn = self.connect().await?;
        for start in (first..first + count).step_by(usize::try_from(FILL_ROWS)?) {
            let numbers = start..(start + FILL_ROWS).min(first + count);
            conn.query_drop(filling(numbers, rows)?).await?;
        }
        conn.query_drop("analyze table outbox_event").await?;
        Ok(())
    }

    pub(super) async fn has_pending(&self) -> Result<bool> {
        let pending: Option<bool> = self.connect().await?.query_first(PENDING).await?;
        pending.context("no answer")
    }

    pub(super) async fn settings(&self) -> Result<Value> {
        let mut conn = self.connect().await?;
        let mut settings = json!({ "store": "mysql" });
        let names = ["version", "innodb_flush_log_at_trx_commit", "innodb_buffer_pool_size"];
        for name in names {
            settings[name] = variable(&mut conn, name).await?.into();
        }
        Ok(settings)
    }
}

/// Ids grow with time as real ones do, so that the primary key grows at its end.
fn filling(numbers: std::ops::Range<u64>, rows: Rows) -> Result<String> {
    let mut text = String::from(
        "insert into outbox_event (event_id, event_type, aggregate_type, shard, content_type, \
         occurred_at, due_at, created_at, done_at, status, payload, ordering_key) values ",
    );
    let (due, done) = match rows {
        Rows::Due(_) => ("utc_timestamp(6) - interval 1 minute", "null"),
        Rows::InLine { .. } => ("date'9998-01-01'", "null"),
        Rows::Done(_) => ("null", "utc_timestamp(6)"),
    };
    let (from, status) = (numbers.start, rows.status());
    for number in numbers {
        let comma = if number == from { "" } else { "," };
        let (shard, payload) = (number % 64, String::from_utf8(order::payload(number))?);
        let key = match rows.keys() {
            0 => "null".to_owned(),
            keys => format!("'key-{}'", number % keys),
        };
        write!(
            text,
            "{comma}(x'{:012x}7{:03x}8{number:015x}','{}','__GLOBAL__',{shard},'application/json',\
             utc_timestamp(6) - interval 1 minute,{due},utc_timestamp(6) - interval 1 minute,\
             {done},{status},'{payload}',{key})",
            1_700_000_000_000_u64 + number,
            number % 0x1000,
            order::EVENT_TYPE,
        )?;
    }
    Ok(text)
}

async fn connect(url: &str) -> Result<Conn> {
    let url = url.replacen("mariadb:", "mysql:", 1);
    let opts = Opts::from_url(&url).context("the address of the server is no URL")?;
    Conn::new(opts).await.context("no connection to the server")
}

async fn warn_if_not_durable(conn: &mut Conn) -> Result<()> {
    let name = "innodb_flush_log_at_trx_commit";
    if variable(conn, name).await? != "1" {
        progress(format_args!("{name} is not 1: these are not the figures of a durable server"));
    }
    Ok(())
}

async fn variable(conn: &mut Conn, name: &str) -> Result<String> {
    let value: Option<String> =
        conn.query_first(format!("select cast(@@global.{name} as char)")).await?;
    value.with_context(|| format!("no variable {name}"))
}
