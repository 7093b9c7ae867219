//! Sendoff on MariaDB and MySQL.

use std::time::Duration;

use anyhow::{Result, bail};
use async_trait::async_trait;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Statement};
use sendoff_engine::Outbox;
use sendoff_mysql::{MysqlStore, Retention};

use super::{drain_store, emit_and_commit};
use crate::ground::mysql::Ground;
use crate::load::{Trace, Writer, Writers};
use crate::work::{Drain, Way};

const INSERT_BUSINESS: &str = include_str!("../../sql/mysql/insert_business.sql");

struct Guarded {
    outbox: Outbox<MysqlStore>,
    conn: Conn,
    business: Statement,
}

#[async_trait]
impl Writer for Guarded {
    async fn write(&mut self, number: u64, trace: &Trace) -> Result<()> {
        let mut tx = self.outbox.begin(&mut self.conn).await?;
        tx.exec_drop(&self.business, (number,)).await?;
        emit_and_commit(tx, number, 0, trace).await
    }
}

pub(super) async fn writers(ground: &Ground, way: Way, clients: usize) -> Result<Writers> {
    if way != Way::Guard {
        bail!("{way} is not measured on MariaDB and MySQL");
    }
    let outbox = Outbox::writer_only(ground.open(Retention::default()).await?);
    let mut writers = Writers::new();
    for _ in 0..clients {
        let mut conn = ground.connect().await?;
        let business = conn.prep(INSERT_BUSINESS).await?;
        writers.push(Box::new(Guarded { outbox: outbox.clone(), conn, business }));
    }
    Ok(writers)
}

pub(super) async fn drain(ground: &Ground, drain: &Drain, lap: u64) -> Result<Vec<Duration>> {
    let store = ground.open(drain.retention()).await?;
    let took = drain_store(store.clone(), drain, lap).await?;
    store.close().await;
    Ok(took)
}
