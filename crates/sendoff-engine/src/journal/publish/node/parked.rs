//! What was parked, tried again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::report;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::{Event, Node, Statement};
use crate::journal::publish::pair::{Doing, Pair};
use crate::journal::publish::store::{Parked, PublishStore, Retried};
use crate::journal::publish::work::{Again, retry_parked};
use crate::store::{StoreError, within};

/// Facts of a pair that are tried again in one go.
const DUE: usize = 20;
/// How often to look for them.
const DUE_INTERVAL: Duration = Duration::from_secs(1);

impl<S: PublishStore> Node<S> {
    pub(super) fn ask_for_due(&mut self, now: Instant) {
        let leads = self.pairs.iter().any(Pair::workable);
        if !self.asking.may_begin(now) || !leads {
            return;
        }
        self.asking = Statement::UnderWay;
        let (journal, owner) = (self.journal.clone(), Arc::clone(&self.owner));
        let limit = self.options.statement_limit();
        self.events.spawn(async move {
            let due = within(limit, journal.store().due(&owner, DUE)).await;
            Event::Due(now, due)
        });
    }

    pub(super) fn on_due(&mut self, asked: Instant, parked: Result<Vec<Parked>, StoreError>) {
        self.asking = Statement::Free { from: asked + DUE_INTERVAL };
        let parked = match parked {
            Ok(parked) => parked,
            Err(error) => {
                warn!(error = report(&error), "what was parked cannot be read");
                return;
            }
        };
        let fit = self.roster.is_fit(Instant::now()) && !self.is_stopping();
        let mut by_pair = BTreeMap::<usize, Vec<Parked>>::new();
        for parked in parked {
            if let Some(&at) = self.by_id.get(&parked.pair) {
                by_pair.entry(at).or_default().push(parked);
            }
        }
        for (at, parked) in by_pair {
            let pair = &mut self.pairs[at];
            // While the target is unavailable there is no point.
            let free = fit && pair.doing == Doing::Waiting && pair.workable();
            let Some(epoch) = pair.held.as_ref().map(|held| held.epoch).filter(|_| free) else {
                continue;
            };
            pair.doing = Doing::Working;
            let (outlet, limit) = (pair.outlet(), self.options.statement_limit());
            let (journal, owner) = (self.journal.clone(), Arc::clone(&self.owner));
            self.events.spawn(async move {
                let (store, leads) = (journal.store(), (&*owner, epoch));
                let retry = retry_parked(store, &outlet, leads, &parked, limit);
                Event::Retried { pair: at, tried: retry.await }
            });
        }
    }

    pub(super) fn on_retried(&mut self, at: usize, tried: Result<Vec<Again>, StoreError>) {
        let pair = &mut self.pairs[at];
        pair.doing = Doing::Waiting;
        let id = &pair.id;
        let tried = tried.unwrap_or_else(|error| {
            warn!(pair = %id, error = report(&error), "a retry could not be stored");
            Vec::new()
        });
        let mut disables = None;
        for Again { outcome, fact, disabled } in tried {
            disables = disables.or(disabled);
            match outcome {
                Some(Retried::Published) => {
                    info!(pair = %id, "a fact that was parked is published");
                    self.counts.published(id, fact.as_slice());
                }
                Some(Retried::Failed { error, .. }) => {
                    debug!(pair = %id, error, "a fact that was parked failed again");
                    self.counts.failed(id, 1);
                }
                None => self.counts.fenced(id),
            }
        }
        if let Some((position, error)) = disables {
            pair.stop(position, error);
        }
    }
}
