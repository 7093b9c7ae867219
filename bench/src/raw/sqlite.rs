//! By hand on rusqlite, with the statements of the store.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use async_trait::async_trait;
use rusqlite::{Connection, Transaction, TransactionBehavior};
use sendoff_core::Timestamp;
use sendoff_core::limits::BATCH_ROWS;
use sendoff_engine::OutboxOptions;
use sendoff_engine::store::frame::text;
use tokio::sync::mpsc;
use tokio::task::block_in_place;
use uuid::Uuid;

use super::Content;
use crate::ground::sqlite::{Ground, Synchronous};
use crate::load::{Trace, Writer, Writers};
use crate::order;
use crate::work::{Drain, End, GRACE, Hot};

const INSERT_BUSINESS: &str = include_str!("../../sql/sqlite/insert_business.sql");
const INSERT: &str = include_str!("../../../crates/sendoff-sqlite/sql/outbox/insert.sql");
const HOLD: &str = include_str!("../../../crates/sendoff-sqlite/sql/outbox/hold.sql");
const SETTLE: &str = include_str!("../../../crates/sendoff-sqlite/sql/outbox/settle.sql");
static DONE: LazyLock<String> = LazyLock::new(|| text(SETTLE, &["settle_done"]));
static DELETE: LazyLock<String> = LazyLock::new(|| text(SETTLE, &["settle_delete"]));
static CLAIM: LazyLock<String> = LazyLock::new(|| {
    text(include_str!("../../../crates/sendoff-sqlite/sql/outbox/claim.sql"), &["claim"])
});

const OWNER: &str = "by hand";

/// A held row: its id, its token and the number of its order.
struct Held {
    id: [u8; 16],
    token: i64,
    number: u64,
}

struct ByHand {
    conn: Connection,
    content: Content,
    /// Where committed events go; without it they are due for anybody.
    handover: Option<mpsc::Sender<Held>>,
}

pub(super) fn writers(ground: &Ground, content: Content, clients: usize) -> Result<Writers> {
    (0..clients).map(|_| Ok(Box::new(ByHand::new(ground, content, None)?) as _)).collect()
}

impl ByHand {
    fn new(
        ground: &Ground,
        content: Content,
        handover: Option<mpsc::Sender<Held>>,
    ) -> Result<Self> {
        Ok(Self { conn: ground.connect(Synchronous::Full)?, content, handover })
    }

    fn transact(&mut self, number: u64, trace: &Trace) -> Result<Option<Held>> {
        let tx = self.conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        tx.prepare_cached(INSERT_BUSINESS)?.execute([i64::try_from(number)?])?;
        let mut held = None;
        if self.content == Content::WithEvent {
            let hold = self.handover.as_ref().map(|_| GRACE);
            held = Some(insert(&tx, number, hold)?);
        }
        trace.called(number);
        tx.commit()?;
        trace.replied(number);
        Ok(held)
    }
}

fn insert(tx: &Transaction<'_>, number: u64, hold: Option<Duration>) -> Result<Held> {
    let (id, now) = (Uuid::now_v7().into_bytes(), Timestamp::now());
    let token = now.saturating_add(hold.unwrap_or_default()).as_micros();
    let now = now.as_micros();
    tx.prepare_cached(INSERT)?.execute(rusqlite::params![
        id,
        order::EVENT_TYPE,
        "__GLOBAL__",
        None::<&str>,
        None::<&str>,
        None::<&str>,
        id[15] % 64,
        "application/json",
        now,
        token,
        now,
        hold.map(|_| OWNER),
        None::<&str>,
        order::payload(number),
    ])?;
    Ok(Held { id, token, number })
}

#[async_trait]
impl Writer for ByHand {
    async fn write(&mut self, number: u64, trace: &Trace) -> Result<()> {
        let held = block_in_place(|| self.transact(number, trace))?;
        if let (Some(handover), Some(held)) = (&self.handover, held) {
            handover.send(held).await?;
        }
        Ok(())
    }
}

/// Commit, tell a handler through a channel, mark in batches.
pub(super) fn hot(ground: &Ground, clients: usize, trace: Trace) -> Result<Hot> {
    let capacity = OutboxOptions::default().hot_capacity;
    let (handover, mut committed) = mpsc::channel::<Held>(capacity);
    let (completions, mut handled) = mpsc::channel(capacity);
    let mut writers = Writers::new();
    for _ in 0..clients {
        let writer = ByHand::new(ground, Content::WithEvent, Some(handover.clone()))?;
        writers.push(Box::new(writer));
    }
    tokio::spawn(async move {
        while let Some(held) = committed.recv().await {
            trace.handled(held.number);
            if completions.send(held).await.is_err() {
                return;
            }
        }
    });
    let mut conn = ground.connect(Synchronous::Normal)?;
    let marking = tokio::task::spawn_blocking(move || {
        let (mut batch, mut marked) = (Vec::new(), 0);
        while handled.blocking_recv_many(&mut batch, BATCH_ROWS) > 0 {
            marked += settle(&mut conn, &batch, End::Keep)?;
            batch.clear();
        }
        anyhow::Ok(marked)
    });
    Ok(Hot { writers, finish: super::all_marked(marking) })
}

/// One connection: SQLite has one writer, and the store one thread.
pub(super) fn drain(ground: &Ground, drain: &Drain) -> Result<Duration> {
    let mut conn = ground.connect(Synchronous::Normal)?;
    block_in_place(|| {
        let started = Instant::now();
        let mut delivered = 0;
        loop {
            let held = claim(&mut conn, drain.batch)?;
            if held.is_empty() {
                break;
            }
            delivered += settle(&mut conn, &held, drain.end)?;
        }
        let took = started.elapsed();
        ensure!(delivered == drain.rows, "{delivered} of {} rows were delivered", drain.rows);
        Ok(took)
    })
}

fn claim(conn: &mut Connection, batch: usize) -> Result<Vec<Held>> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let now = Timestamp::now();
    let token = now.saturating_add(OutboxOptions::default().hold).as_micros();
    let now = now.as_micros();
    let found = tx
        .prepare_cached(&CLAIM)?
        .query_map((now, now, 0, 0, i64::try_from(batch)?, OWNER), |row| {
            let (seq, id, payload) = (row.get(0)?, row.get(1)?, row.get::<_, Vec<u8>>(10)?);
            // The handler: it has seen the bytes.
            std::hint::black_box(payload);
            Ok((seq, id))
        })?
        .collect::<rusqlite::Result<Vec<(i64, [u8; 16])>>>()?;
    let mut hold = tx.prepare_cached(HOLD)?;
    let mut held = Vec::with_capacity(found.len());
    for (seq, id) in found {
        hold.execute((seq, token, OWNER, 0, 0))?;
        held.push(Held { id, token, number: 0 });
    }
    drop(hold);
    tx.commit()?;
    Ok(held)
}

/// One transaction for all of them; how many were still held.
fn settle(conn: &mut Connection, batch: &[Held], end: End) -> Result<u64> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let now = Timestamp::now().as_micros();
    let mut settled = 0;
    for Held { id, token, .. } in batch {
        settled += match end {
            // Not by a lock of this transaction: by the token.
            End::Keep => tx.prepare_cached(&DONE)?.execute((id, token, now, false))?,
            End::Delete => tx.prepare_cached(&DELETE)?.execute((id, token, false))?,
        };
    }
    tx.commit()?;
    Ok(settled as u64)
}
