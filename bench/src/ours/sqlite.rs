//! Sendoff on SQLite.

use std::time::Duration;

use anyhow::{Result, bail};
use async_trait::async_trait;
use rusqlite::Connection;
use sendoff_engine::Outbox;
use sendoff_sqlite::{Retention, SqliteStore};
use tokio::task::block_in_place;

use super::{Timed, drain_store, hot_outbox};
use crate::ground::sqlite::Ground;
use crate::load::{Trace, Writer, Writers};
use crate::order;
use crate::work::{Drain, Hot, Way};

const INSERT_BUSINESS: &str = include_str!("../../sql/sqlite/insert_business.sql");

struct Guarded {
    outbox: Outbox<Timed<SqliteStore>>,
    conn: Connection,
}

fn guarded(outbox: &Outbox<Timed<SqliteStore>>, clients: usize) -> Result<Writers> {
    let guarded = |_| {
        let conn = outbox.store().store.connect()?;
        Ok(Box::new(Guarded { outbox: outbox.clone(), conn }) as _)
    };
    (0..clients).map(guarded).collect()
}

impl Guarded {
    fn transact(&mut self, number: u64, trace: &Trace) -> Result<()> {
        let mut tx = self.outbox.begin_blocking(&mut self.conn)?;
        tx.prepare_cached(INSERT_BUSINESS)?.execute([i64::try_from(number)?])?;
        tx.emit(order::event(number)?)?;
        trace.called(number);
        tx.commit()?;
        Ok(())
    }
}

#[async_trait]
impl Writer for Guarded {
    async fn write(&mut self, number: u64, trace: &Trace) -> Result<()> {
        block_in_place(|| self.transact(number, trace))
    }
}

pub(super) async fn writers(ground: &Ground, way: Way, clients: usize) -> Result<Writers> {
    if way != Way::Guard {
        bail!("{way} is not measured on SQLite");
    }
    let store = ground.open(Retention::default()).await?;
    guarded(&Outbox::writer_only(Timed { store, trace: Trace::default() }), clients)
}

pub(super) async fn hot(ground: &Ground, clients: usize, trace: Trace) -> Result<Hot> {
    let (outbox, finish) = hot_outbox(ground.open(Retention::default()).await?, trace).await?;
    Ok(Hot { writers: guarded(&outbox, clients)?, finish })
}

pub(super) async fn drain(ground: &Ground, drain: &Drain, lap: u64) -> Result<Vec<Duration>> {
    let store = ground.open(drain.retention()).await?;
    let took = drain_store(store.clone(), drain, lap).await?;
    store.close().await;
    Ok(took)
}
