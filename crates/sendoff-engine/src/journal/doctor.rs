//! Finding out what [`sendoff_core::journal::doctor`] judges.

use std::collections::{BTreeMap, BTreeSet};

use sendoff_core::journal::doctor::{Checkup, Leader, PairCheckup, ParkedCount};
use sendoff_core::journal::publish::PairId;
use sendoff_core::journal::{Ask, Holder, Position};
use sendoff_core::limits;

use super::handle::Journal;
use super::publish::{PublishStore, Publishers, Which};
use super::store::{JournalStore, Page};
use crate::store::StoreError;

/// Facts that were parked and are counted, page by page: beyond that the number is worth less than
/// the time.
const PAGES: usize = 10;

impl<S: JournalStore> Journal<S> {
    /// Finds out what a tail relies on and who holds it back. Changes nothing.
    pub async fn checkup(&self) -> Result<Checkup, StoreError> {
        let mut source = self.bounded(self.store().tail()).await?;
        // After everything: what the rows are does not matter here.
        let look = source.look(Ask::Rows, Page::first(Position::END, Position::END));
        let look = self.bounded(look).await?;
        let holders = self.holders().await?;
        // Last, so that nothing seems to be from the future.
        let vitals = self.bounded(self.store().vitals()).await?;
        let (server, sequence, head) = (look.server, look.sequence, look.head);
        Ok(Checkup { server, sequence, head, vitals, holders, pairs: Vec::new() })
    }

    /// What a holder's session was last told to do, where the database knows and this role may know.
    /// The text may hold values: show it only to whoever asks for it.
    pub async fn doing(&self, holder: &Holder) -> Result<Option<String>, StoreError> {
        self.bounded(self.store().doing(holder)).await
    }
}

impl<S: PublishStore> Publishers<S> {
    /// Finds out how these pairs are, and what [`Journal::checkup`] does. Changes nothing.
    pub async fn checkup(&self, which: &Which) -> Result<Checkup, StoreError> {
        let survey = self.journal().bounded(self.store().survey()).await?;
        let parked = self.count_parked(which).await?;
        // After the cursors: what comes between is lag, never less than none.
        let mut checkup = self.journal().checkup().await?;
        let alive: BTreeSet<_> = survey.nodes.into_iter().map(|node| node.owner).collect();
        let cursors = survey.cursors.into_iter().filter(|cursor| which.means(&cursor.pair));
        checkup.pairs = cursors
            .map(|cursor| PairCheckup {
                parked: parked.get(&cursor.pair).copied().unwrap_or_default(),
                lag: checkup.head.since(cursor.position),
                leader: match cursor.leader {
                    None => Leader::None,
                    Some(owner) if alive.contains(&owner) => Leader::Alive(owner),
                    Some(owner) => Leader::Gone(owner),
                },
                pair: cursor.pair,
                status: cursor.status,
                position: cursor.position,
                errors: cursor.errors,
                last_error: cursor.last_error,
                waits_at: cursor.waits_at,
                published_at: cursor.published_at,
            })
            .collect();
        Ok(checkup)
    }

    async fn count_parked(
        &self,
        which: &Which,
    ) -> Result<BTreeMap<PairId, ParkedCount>, StoreError> {
        let mut counts: BTreeMap<PairId, ParkedCount> = BTreeMap::new();
        let mut last: Option<(PairId, Position)> = None;
        for _ in 0..PAGES {
            let after = last.as_ref().map(|(pair, position)| (pair, *position));
            let page = self.parked(which, after, limits::BATCH_ROWS).await?;
            let full = page.len() >= limits::BATCH_ROWS;
            for parked in page {
                let count = counts.entry(parked.pair.clone()).or_default();
                if parked.next_at.is_some() {
                    count.retried += 1;
                } else {
                    count.given_up += 1;
                }
                last = Some((parked.pair, parked.position));
            }
            if !full {
                return Ok(counts);
            }
        }
        counts.values_mut().for_each(|count| count.more = true);
        Ok(counts)
    }
}
