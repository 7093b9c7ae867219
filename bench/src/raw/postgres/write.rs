//! A transaction with a business row and, if wanted, an event.

use std::time::SystemTime;

use anyhow::Result;
use async_trait::async_trait;
use futures_util::future::try_join;
use tokio::sync::mpsc;
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use crate::ground::postgres::Ground;
use crate::load::{Trace, Writer, Writers};
use crate::order;
use crate::raw::Content;
use crate::work::{Clients, GRACE};

pub(in crate::raw) const INSERT: &str = include_str!("../../../sql/postgres/insert.sql");
pub(in crate::raw) const INSERT_BUSINESS: &str =
    include_str!("../../../sql/postgres/insert_business.sql");

/// How the event's row travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::raw) enum Trips {
    /// In one round trip with COMMIT.
    Pipelined,
    /// In one of its own.
    Stepwise,
}

/// A row that committed, on its way to the handler.
pub(super) struct Committed {
    pub(super) number: u64,
    pub(super) id: Uuid,
    pub(super) token: SystemTime,
}

pub(super) type Handover = mpsc::Sender<Committed>;

pub(in crate::raw) async fn writers(
    ground: &Ground,
    trips: Trips,
    content: Content,
    Clients { count, keys }: Clients,
) -> Result<Writers> {
    let mut writers = Writers::new();
    for _ in 0..count {
        let writer = ByHand::new(ground, trips, content, None).await?;
        writers.push(Box::new(ByHand { keys, ..writer }));
    }
    Ok(writers)
}

pub(super) struct ByHand {
    client: Client,
    business: Statement,
    event: Option<Statement>,
    trips: Trips,
    keys: u64,
    /// Where committed events go; without it they are due for anybody.
    handover: Option<Handover>,
}

impl ByHand {
    pub(super) async fn new(
        ground: &Ground,
        trips: Trips,
        content: Content,
        handover: Option<Handover>,
    ) -> Result<Self> {
        let client = ground.connect().await?;
        let business = client.prepare(INSERT_BUSINESS).await?;
        let event = match content {
            Content::Business => None,
            Content::WithEvent => Some(client.prepare(INSERT).await?),
        };
        Ok(Self { client, business, event, trips, keys: 0, handover })
    }

    async fn insert(&self, statement: &Statement, number: u64) -> Result<(Uuid, SystemTime)> {
        let id = Uuid::now_v7();
        let shard = i16::from(id.as_bytes()[15] % 64);
        let (hold, owner) = match self.handover {
            Some(_) => (GRACE.as_secs_f64(), Some("by hand")),
            None => (0.0, None),
        };
        let (payload, key) = (order::payload(number), order::key(number, self.keys));
        let row = self
            .client
            .query_one(statement, &[&id, &order::EVENT_TYPE, &shard, &hold, &owner, &payload, &key])
            .await?;
        Ok((id, row.try_get(0)?))
    }

    async fn commit(&self) -> Result<()> {
        Ok(self.client.batch_execute("commit").await?)
    }
}

#[async_trait]
impl Writer for ByHand {
    async fn write(&mut self, number: u64, trace: &Trace) -> Result<()> {
        self.client.batch_execute("begin").await?;
        self.client.execute(&self.business, &[&i64::try_from(number)?]).await?;
        let Some(statement) = &self.event else {
            return self.commit().await;
        };
        let (id, token) = match self.trips {
            Trips::Pipelined => {
                trace.called(number);
                try_join(self.insert(statement, number), self.commit()).await?.0
            }
            Trips::Stepwise => {
                let inserted = self.insert(statement, number).await?;
                trace.called(number);
                self.commit().await?;
                inserted
            }
        };
        trace.replied(number);
        if let Some(handover) = &self.handover {
            handover.send(Committed { number, id, token }).await?;
        }
        Ok(())
    }
}
