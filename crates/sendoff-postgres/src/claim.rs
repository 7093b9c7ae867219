use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{EventId, limits};
use sendoff_engine::store::{Claim, ClaimStore, Claimed, Held, StoreError, Suspects};

use crate::rows::{self, Placed};
use crate::store::PostgresStore;
use crate::wire::{At, Id, Span};

#[async_trait]
impl ClaimStore for PostgresStore {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Vec<Claimed>, StoreError> {
        self.check_open()?;
        let limit = claim.limit.min(limits::BATCH_ROWS) as i64;
        if limit == 0 {
            return Ok(Vec::new());
        }
        let statement = match claim.suspects {
            Suspects::Skip => &self.sql().claim,
            Suspects::Only => &self.sql().claim_suspects,
        };
        let (hold, skip_recent) = (Span(claim.hold), Span(claim.skip_recent));
        let window = claim.window.map(Span);
        let rows = self
            .links()
            .claims
            .query(statement, &[&claim.owner, &limit, &hold, &skip_recent, &window])
            .await?;
        let mut placed: Vec<Placed> = rows.iter().map(rows::claimed).collect::<Result<_, _>>()?;
        // An UPDATE returns its rows in whichever order it came by them.
        placed.sort_unstable_by_key(|row| row.place);
        Ok(placed.into_iter().map(|row| row.claimed).collect())
    }

    async fn confirm(&self, holds: &[Held]) -> Result<Vec<EventId>, StoreError> {
        self.check_open()?;
        if holds.is_empty() {
            return Ok(Vec::new());
        }
        let (ids, tokens) = columns(holds);
        let rows = self.links().claims.query(&self.sql().confirm, &[&ids, &tokens]).await?;
        rows.iter().map(|row| rows::get(row, 0).map(|Id(id)| id)).collect()
    }

    async fn rescue(&self, longest: Duration) -> Result<u64, StoreError> {
        self.check_open()?;
        let rescued = self.links().upkeep.query(&self.sql().rescue, &[&Span(longest)]).await?;
        Ok(rescued.len() as u64)
    }
}

/// Holds as two arrays.
pub(crate) fn columns(holds: &[Held]) -> (Vec<Id>, Vec<At>) {
    holds.iter().map(|held| (Id(held.id), At::from(held.by.token()))).unzip()
}
