//! By hand on mysql_async: lock in one text, write in the next, as one would.

use std::fmt::Write;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row, Statement, TxOpts};
use sendoff_engine::relay::ClaimMode;
use uuid::Uuid;

use super::Content;
use crate::ground::mysql::Ground;
use crate::load::{Trace, Writer, Writers};
use crate::order;
use crate::work::{By, Drain, End};

const INSERT_BUSINESS: &str = include_str!("../../sql/mysql/insert_business.sql");
const INSERT: &str = include_str!("../../sql/mysql/insert.sql");

const CLAIM: &str = include_str!("../../sql/mysql/claim.sql");
const HOLD: &str = include_str!("../../sql/mysql/hold.sql");
const LOCK: &str = include_str!("../../sql/mysql/lock.sql");
const LOCK_VISIBLE: &str = include_str!("../../sql/mysql/lock_visible.sql");
const DONE: &str = include_str!("../../sql/mysql/settle_done.sql");
const DELETE: &str = include_str!("../../sql/mysql/settle_delete.sql");
const TALLY: &str = include_str!("../../sql/mysql/tally.sql");

pub(super) async fn writers(ground: &Ground, content: Content, clients: usize) -> Result<Writers> {
    let mut writers = Writers::new();
    for _ in 0..clients {
        let mut conn = ground.connect().await?;
        let business = conn.prep(INSERT_BUSINESS).await?;
        let event = match content {
            Content::Business => None,
            Content::WithEvent => Some(conn.prep(INSERT).await?),
        };
        writers.push(Box::new(ByHand { conn, business, event }));
    }
    Ok(writers)
}

struct ByHand {
    conn: Conn,
    business: Statement,
    event: Option<Statement>,
}

#[async_trait]
impl Writer for ByHand {
    async fn write(&mut self, number: u64, trace: &Trace) -> Result<()> {
        let mut tx = self.conn.start_transaction(TxOpts::new()).await?;
        tx.exec_drop(&self.business, (number,)).await?;
        if let Some(event) = &self.event {
            let id = Uuid::now_v7();
            let shard = id.as_bytes()[15] % 64;
            let values = (id.as_bytes(), order::EVENT_TYPE, shard, order::payload(number));
            tx.exec_drop(event, values).await?;
        }
        trace.called(number);
        tx.commit().await?;
        trace.replied(number);
        Ok(())
    }
}

/// Claim or lock a batch, do nothing with it, mark it; on each connection, until nothing is left.
pub(super) async fn drain(ground: &Ground, drain: &Drain) -> Result<Duration> {
    let mut loops: Vec<BoxFuture<'static, Result<u64>>> = Vec::new();
    for _ in 0..drain.connections {
        let hand = Hand { conn: ground.connect_relay().await?, batch: drain.batch, end: drain.end };
        loops.push(match drain.by {
            By::Relay(ClaimMode::Locked) => hand.locked().boxed(),
            By::Outbox | By::Relay(ClaimMode::Held) => hand.held().boxed(),
        });
    }
    super::timed(loops, drain).await
}

struct Hand {
    conn: Conn,
    batch: usize,
    end: End,
}

impl Hand {
    async fn held(mut self) -> Result<u64> {
        let claim = self.look(CLAIM);
        let mut delivered = 0;
        loop {
            let ids = self.rows(&claim).await?;
            if ids.is_empty() {
                self.conn.query_drop("commit").await?;
                return Ok(delivered);
            }
            let hold = statement(HOLD)
                .replace(":owner", "'by hand'")
                .replace(":until", "utc_timestamp(6) + interval 30 second");
            self.conn.query_drop(with_ids(&hold, &ids)).await?;
            let lock = with_ids(&statement(LOCK), &ids);
            let held = self.rows(&lock).await?;
            ensure!(held.len() == ids.len(), "{} of {} rows are held", held.len(), ids.len());
            self.settle(&ids).await?;
            delivered += ids.len() as u64;
        }
    }

    async fn locked(mut self) -> Result<u64> {
        let lock = self.look(LOCK_VISIBLE);
        let mut delivered = 0;
        loop {
            let ids = self.rows(&lock).await?;
            if ids.is_empty() {
                self.conn.query_drop("rollback").await?;
                return Ok(delivered);
            }
            self.settle(&ids).await?;
            delivered += ids.len() as u64;
        }
    }

    fn look(&self, sql: &str) -> String {
        statement(sql)
            .replace(":owner", "'by hand'")
            .replace(":skip_recent", "0")
            .replace(":since", "timestamp'1000-01-01 00:00:00'")
            .replace(":limit", &self.batch.to_string())
    }

    /// The ids of what a text finds; the handler has seen every row.
    async fn rows(&mut self, text: &str) -> Result<Vec<Vec<u8>>> {
        let mut result = self.conn.query_iter(text).await?;
        let mut ids = Vec::new();
        loop {
            let rows: Vec<Row> = result.collect().await?;
            for mut row in rows {
                let Some(id) = row.take(0) else { bail!("a row without an id") };
                std::hint::black_box(&row);
                ids.push(id);
            }
            if result.is_empty() {
                return Ok(ids);
            }
        }
    }

    async fn settle(&mut self, ids: &[Vec<u8>]) -> Result<()> {
        let end = match self.end {
            End::Keep => DONE,
            End::Delete => DELETE,
        };
        let counted = format!("('{}',1,{})", order::EVENT_TYPE, ids.len());
        let text = format!(
            "{};\n{};\ncommit",
            with_ids(&statement(end), ids),
            statement(TALLY).replace(":rows", &counted),
        );
        Ok(self.conn.query_drop(text).await?)
    }
}

/// A statement of the store without its comments, for the database that we are in.
fn statement(sql: &str) -> String {
    let lines = sql.lines().filter(|line| !line.starts_with("--"));
    lines.collect::<Vec<_>>().join("\n").replace("sendoff.", "").trim_end().to_owned()
}

/// Ids go in as `in (…)` or as a table of JSON, in their order.
fn with_ids(statement: &str, ids: &[Vec<u8>]) -> String {
    let hex = |id: &Vec<u8>| {
        id.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    };
    let mut ids: Vec<String> = ids.iter().map(hex).collect();
    ids.sort_unstable();
    statement
        .replace(":ids", &format!("x'{}'", ids.join("',x'")))
        .replace(":list", &format!("'[\"{}\"]'", ids.join("\",\"")))
}
