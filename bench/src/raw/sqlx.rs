//! By hand on sqlx: statement by statement, as it has no other way.

use anyhow::Result;
use async_trait::async_trait;
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use super::Content;
use super::postgres::{INSERT, INSERT_BUSINESS};
use crate::ground::postgres::Ground;
use crate::load::{Trace, Writer, Writers};
use crate::order;
use crate::work::Clients;

pub(super) async fn writers(
    ground: &Ground,
    content: Content,
    clients: Clients,
) -> Result<Writers> {
    let Clients { count, keys } = clients;
    let mut writers = Writers::new();
    for _ in 0..count {
        let conn = PgConnection::connect(ground.url()).await?;
        writers.push(Box::new(ByHand { conn, content, keys }));
    }
    Ok(writers)
}

struct ByHand {
    conn: PgConnection,
    content: Content,
    keys: u64,
}

#[async_trait]
impl Writer for ByHand {
    async fn write(&mut self, number: u64, trace: &Trace) -> Result<()> {
        let mut tx = self.conn.begin().await?;
        sqlx::query(INSERT_BUSINESS).bind(i64::try_from(number)?).execute(&mut *tx).await?;
        if self.content == Content::WithEvent {
            let id = Uuid::now_v7();
            sqlx::query(INSERT)
                .bind(id)
                .bind(order::EVENT_TYPE)
                .bind(i16::from(id.as_bytes()[15] % 64))
                .bind(0.0)
                .bind(None::<&str>)
                .bind(order::payload(number))
                .bind(order::key(number, self.keys))
                .execute(&mut *tx)
                .await?;
        }
        trace.called(number);
        tx.commit().await?;
        trace.replied(number);
        Ok(())
    }
}
