//! Marking rows as delivered.

use std::time::SystemTime;

use anyhow::{Result, ensure};
use tokio_postgres::{Client, Statement};
use uuid::Uuid;

use crate::ground::postgres::Ground;
use crate::work::End;

const KEEP: &str = include_str!("../../../sql/postgres/settle_keep.sql");
const DELETE: &str = include_str!("../../../sql/postgres/settle_delete.sql");

/// A connection that settles.
pub(super) struct Settler {
    client: Client,
    statement: Statement,
}

impl Settler {
    pub(super) async fn new(ground: &Ground, end: End) -> Result<Self> {
        let client = ground.connect_relay().await?;
        let text = match end {
            End::Keep => KEEP,
            End::Delete => DELETE,
        };
        let statement = client.prepare(text).await?;
        Ok(Self { client, statement })
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// One statement for all of them.
    pub(super) async fn settle(&self, ids: &[Uuid], tokens: &[SystemTime]) -> Result<()> {
        let changed = self.client.execute(&self.statement, &[&ids, &tokens]).await?;
        ensure!(changed == ids.len() as u64, "{changed} of {} rows were settled", ids.len());
        Ok(())
    }
}
