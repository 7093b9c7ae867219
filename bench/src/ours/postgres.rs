//! Sendoff on PostgreSQL.

use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use sendoff_engine::Outbox;
use sendoff_postgres::{PostgresStore, PreparedClient, Retention};
use sqlx::{Connection, PgConnection};
use tokio_postgres::{Client, Statement};

use super::{Timed, drain_store, emit_and_commit, hot_outbox};
use crate::ground::postgres::Ground;
use crate::load::{Trace, Writer, Writers};
use crate::order;
use crate::work::{Clients, Drain, Hot, Way};

const INSERT_BUSINESS: &str = include_str!("../../sql/postgres/insert_business.sql");
const EMIT: &str = include_str!("../../sql/postgres/emit.sql");

/// The guard, on a connection that knows the insert.
struct Guarded {
    outbox: Outbox<Timed<PostgresStore>>,
    client: PreparedClient,
    business: Statement,
    keys: u64,
}

async fn guarded(
    ground: &Ground,
    outbox: &Outbox<Timed<PostgresStore>>,
    Clients { count, keys }: Clients,
) -> Result<Writers> {
    let mut writers = Writers::new();
    for _ in 0..count {
        let client = ground.connect().await?;
        let business = client.prepare(INSERT_BUSINESS).await?;
        let client = outbox.store().store.prepare(client).await?;
        writers.push(Box::new(Guarded { outbox: outbox.clone(), client, business, keys }));
    }
    Ok(writers)
}

#[async_trait]
impl Writer for Guarded {
    async fn write(&mut self, number: u64, trace: &Trace) -> Result<()> {
        let mut tx = self.outbox.begin(&mut self.client).await?;
        tx.execute(&self.business, &[&i64::try_from(number)?]).await?;
        tx.emit(order::event_of(number, self.keys)?)?;
        trace.called(number);
        tx.commit().await?;
        Ok(())
    }
}

/// The function in the database.
struct Emitting {
    client: Client,
    business: Statement,
    emit: Statement,
    keys: u64,
}

#[async_trait]
impl Writer for Emitting {
    async fn write(&mut self, number: u64, trace: &Trace) -> Result<()> {
        let tx = self.client.transaction().await?;
        tx.execute(&self.business, &[&i64::try_from(number)?]).await?;
        let key = order::key(number, self.keys);
        tx.execute(&self.emit, &[&order::EVENT_TYPE, &order::payload(number), &key]).await?;
        trace.called(number);
        tx.commit().await?;
        trace.replied(number);
        Ok(())
    }
}

/// The guard on sqlx's connection.
struct Sqlx {
    outbox: Outbox<PostgresStore>,
    conn: PgConnection,
    keys: u64,
}

#[async_trait]
impl Writer for Sqlx {
    async fn write(&mut self, number: u64, trace: &Trace) -> Result<()> {
        let mut tx = self.outbox.begin(&mut self.conn).await?;
        sqlx::query(INSERT_BUSINESS).bind(i64::try_from(number)?).execute(&mut **tx).await?;
        emit_and_commit(tx, number, self.keys, trace).await
    }
}

pub(super) async fn writers(ground: &Ground, way: Way, clients: Clients) -> Result<Writers> {
    let Clients { count, keys } = clients;
    match way {
        Way::Guard => {
            let store = ground.open(Retention::default()).await?;
            let outbox = Outbox::writer_only(Timed { store, trace: Trace::default() });
            guarded(ground, &outbox, clients).await
        }
        Way::SqlFunction => {
            let mut writers = Writers::new();
            for _ in 0..count {
                let client = ground.connect().await?;
                let business = client.prepare(INSERT_BUSINESS).await?;
                let emit = client.prepare(EMIT).await?;
                writers.push(Box::new(Emitting { client, business, emit, keys }));
            }
            Ok(writers)
        }
        Way::Sqlx => {
            let outbox = Outbox::writer_only(ground.open(Retention::default()).await?);
            let mut writers = Writers::new();
            for _ in 0..count {
                let conn = PgConnection::connect(ground.url()).await?;
                writers.push(Box::new(Sqlx { outbox: outbox.clone(), conn, keys }));
            }
            Ok(writers)
        }
    }
}

pub(super) async fn hot(ground: &Ground, clients: Clients, trace: Trace) -> Result<Hot> {
    let (outbox, finish) = hot_outbox(ground.open(Retention::default()).await?, trace).await?;
    Ok(Hot { writers: guarded(ground, &outbox, clients).await?, finish })
}

pub(super) async fn drain(ground: &Ground, drain: &Drain, lap: u64) -> Result<Vec<Duration>> {
    let store = ground.open(drain.retention()).await?;
    let took = drain_store(store.clone(), drain, lap).await?;
    store.close().await;
    Ok(took)
}
