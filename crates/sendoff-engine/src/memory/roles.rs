//! The store traits. Each call is one locked look at the table; none awaits anything but a lock that it asked to
//! wait for.

use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{EventId, Timestamp};

use tokio::time::timeout;

use super::store::MemoryStore;
use crate::store::{
    Claim, ClaimStore, Claims, Counts, Cutoff, ExtendInTurn, Extended, Held, InspectStore,
    Lateness, Purge, Purged, RetainStore, Row, SettleStore, Settled, Settlement, StoreError,
    TenantWalk, TenantsFound, TopicCounts, Trail, WakeStore,
};

#[async_trait]
impl ClaimStore for MemoryStore {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claims, StoreError> {
        Ok(self.with(|table, now| table.claim(claim, now))?.into())
    }

    async fn confirm(&self, holds: &[Held]) -> Result<Vec<EventId>, StoreError> {
        Ok(self.with(|table, _| table.confirm(holds))?)
    }

    async fn rescue(&self, longest: Duration) -> Result<u64, StoreError> {
        Ok(self.with(|table, now| table.rescue(longest, now))?)
    }

    async fn check_fair(&self) -> Result<(), StoreError> {
        Ok(self.with(|_, _| ())?)
    }

    async fn tenants(&self, walk: &TenantWalk<'_>) -> Result<TenantsFound, StoreError> {
        Ok(self.with(|table, now| table.tenants(walk, now))?)
    }
}

#[async_trait]
impl SettleStore for MemoryStore {
    async fn settle(&self, batch: &[Settlement]) -> Result<Settled, StoreError> {
        let keep = self.keep().is_some();
        Ok(self.with(|table, now| table.settle(batch, keep, now))?)
    }

    async fn extend(&self, holds: &[Held], hold: Duration) -> Result<Extended, StoreError> {
        Ok(self.with(|table, now| table.extend(holds, hold, now))?)
    }

    async fn extend_in_turn(&self, turn: ExtendInTurn) -> Result<Extended, StoreError> {
        let ExtendInTurn { held, hold, patience } = turn;
        let answered = self.with(|table, now| table.extend_in_turn(held, hold, now))?;
        let busy = Extended { busy: vec![held.id], ..Extended::default() };
        Ok(timeout(patience, answered).await.map_or(busy, Result::unwrap_or_default))
    }
}

#[async_trait]
impl InspectStore for MemoryStore {
    async fn check_ready(&self) -> Result<(), StoreError> {
        Ok(self.with(|_, _| ())?)
    }

    async fn find(&self, id: EventId) -> Result<Option<Row>, StoreError> {
        let found = self.with(|table, _| {
            table.get(id).map(|entry| entry.event().map(|event| Row { event, ..entry.row.clone() }))
        })?;
        found.transpose().map_err(|undecodable| StoreError::Refused(undecodable.into()))
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        Ok(self.with(|table, _| table.counts())?)
    }

    async fn topics(&self) -> Result<Vec<TopicCounts>, StoreError> {
        Ok(self.with(|table, now| table.topics(now))?)
    }

    async fn peek(&self, limit: usize) -> Result<Vec<Row>, StoreError> {
        Ok(self.with(|table, _| table.peek(limit))?)
    }

    async fn lateness(&self) -> Result<Lateness, StoreError> {
        Ok(self.with(|table, now| table.lateness(now))?)
    }

    async fn first_due(&self) -> Result<Timestamp, StoreError> {
        Ok(self.with(|table, now| table.first_due(now))?)
    }
}

impl WakeStore for MemoryStore {}

#[async_trait]
impl RetainStore for MemoryStore {
    fn keeps(&self) -> Option<Duration> {
        self.keep()
    }

    async fn purge(&self, purge: &Purge) -> Result<Purged, StoreError> {
        Ok(self.with(|table, now| table.purge(purge, now))?)
    }

    async fn forget(&self, trail: Trail, cutoff: Cutoff, limit: usize) -> Result<u64, StoreError> {
        Ok(self.with(|table, now| match trail {
            Trail::Seen => table.forget_seen(cutoff.at(now), limit),
            Trail::Audit => table.forget_audit(cutoff.at(now), limit),
        })?)
    }

    async fn purgeable(&self, purge: &Purge) -> Result<Purged, StoreError> {
        Ok(self.with(|table, now| table.over(purge, now).1)?)
    }
}
