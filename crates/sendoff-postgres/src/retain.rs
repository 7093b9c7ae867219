//! Deletes rows that are over, and adds counters up, on PostgreSQL.

use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{Status, limits, report};
use sendoff_engine::store::{Cutoff, Purge, Purged, RetainStore, StoreError, Trail};

use tracing::debug;

use crate::link::Params;
use crate::rows;
use crate::store::PostgresStore;
use crate::wire::{At, Span};

/// Parts that one statement adds up: a second of a busy server's settlements, and a few milliseconds
/// of work.
const FOLDED: i64 = 10_000;

/// How many settlements there are for each that folds.
const SELDOM: u32 = 10_000;

impl PostgresStore {
    /// Folds in the background after one settlement of many, by chance, so that the parts do not pile
    /// up either where no engine looks after the outbox, or where no process lives long.
    pub(crate) fn fold_sometimes(&self) {
        if fastrand::u32(..SELDOM) != 0 {
            return;
        }
        let store = self.clone();
        tokio::spawn(async move {
            for _ in 0..FOLDS {
                match store.fold().await {
                    Ok(0) => return,
                    Ok(_) => {}
                    Err(error) => return debug!(error = report(&error), "could not fold"),
                }
            }
        });
    }
}

/// The age and the moment that a statement takes, of which the moment counts.
fn times(cutoff: Cutoff) -> (Span, Option<At>) {
    match cutoff {
        Cutoff::Age(age) => (Span(age), None),
        Cutoff::Before(moment) => (Span(Duration::ZERO), Some(At(moment).in_calendar())),
    }
}

/// Statements of one such time: what is left after them is left for the next.
const FOLDS: usize = 100;

#[async_trait]
impl RetainStore for PostgresStore {
    fn keeps(&self) -> Option<Duration> {
        self.retention().keeps()
    }

    async fn purge(&self, purge: &Purge) -> Result<Purged, StoreError> {
        self.check_open()?;
        let limit = purge.limit.min(limits::BATCH_ROWS) as i64;
        let (age, moment) = times(purge.cutoff);
        let params: Params<'_> = &[&age, &limit, &purge.dead, &moment];
        let mut purged = Purged::default();
        for row in self.links().upkeep.query(&self.sql().purge, params).await? {
            if rows::get::<i16>(&row, 0)? == Status::Dead.code() {
                purged.dead += 1;
            } else {
                purged.done += 1;
            }
        }
        Ok(purged)
    }

    async fn fold(&self) -> Result<u64, StoreError> {
        self.check_open()?;
        let params: Params<'_> = &[&FOLDED, &Span(limits::TALLY)];
        let folded = self.links().upkeep.query(&self.sql().fold, params).await?;
        let parts = folded.first().map_or(Ok(0), |row| rows::get::<i64>(row, 0))?;
        Ok(u64::try_from(parts).unwrap_or(0))
    }

    async fn forget(&self, trail: Trail, cutoff: Cutoff, limit: usize) -> Result<u64, StoreError> {
        self.check_open()?;
        let statement = match trail {
            Trail::Seen => &self.sql().forget_seen,
            Trail::Audit => &self.sql().forget_audit,
        };
        let limit = limit.min(limits::BATCH_ROWS) as i64;
        let (age, moment) = times(cutoff);
        let params: Params<'_> = &[&age, &limit, &moment];
        let gone = self.links().upkeep.query(statement, params).await?;
        let gone = gone.first().map_or(Ok(0), |row| rows::get::<i64>(row, 0))?;
        Ok(u64::try_from(gone).unwrap_or(0))
    }

    async fn purgeable(&self, purge: &Purge) -> Result<Purged, StoreError> {
        self.check_open()?;
        let limit = i64::try_from(purge.limit).unwrap_or(i64::MAX);
        let (age, moment) = times(purge.cutoff);
        let params: Params<'_> = &[&age, &limit, &purge.dead, &moment];
        let found = self.links().upkeep.query(&self.sql().purgeable, params).await?;
        let Some(row) = found.first() else { return Ok(Purged::default()) };
        let count =
            |column| rows::get::<i64>(row, column).map(|count| u64::try_from(count).unwrap_or(0));
        Ok(Purged { done: count(0)?, dead: count(1)? })
    }
}
