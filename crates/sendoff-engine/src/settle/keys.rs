//! Writes what became of events whose keys are held, and of the keys.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::order::Ending;
use sendoff_core::{limits, report};
use tokio::time::Instant;
use tracing::warn;

use super::{Carry, Fate, Over, Pace, Unit, decided};
use crate::source::{Deadline, Handover, KeyEnd};
use crate::store::{ExtendKeys, ExtendedKeys, HeldKey, OutboxStore, Outcome, RunEnd, within};

/// The part of the settlement writer that is for keys. Rows of a key and its end go into one statement, whole
/// or not at all.
pub(super) struct KeyWriter {
    store: Arc<dyn OutboxStore>,
    handover: Arc<Handover>,
    owner: Arc<str>,
    limit: Duration,
    carry: Carry<KeyEnd>,
}

/// How an extension of keys went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeysExtended {
    All,
    /// Some are locked by somebody else.
    Busy,
    /// The database did not answer.
    Failed,
}

impl KeyWriter {
    pub(super) fn new(
        store: Arc<dyn OutboxStore>,
        handover: Arc<Handover>,
        owner: Arc<str>,
        pace: &Pace,
    ) -> Self {
        let carry = Carry::new(pace.waits(), pace.refusals);
        Self { store, handover, owner, limit: pace.statement_limit, carry }
    }

    /// When something is to be sent again.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.carry.next_at()
    }

    /// Whether something is to be written.
    pub(super) fn is_busy(&self) -> bool {
        self.carry.next_at().is_some() || self.handover.keys.has_ends()
    }

    /// Waits for something new to write, while that is taken.
    pub(super) async fn has_work(&self, takes: bool) {
        if takes && self.carry.takes_more() {
            self.handover.keys.ends().await;
        } else {
            std::future::pending().await
        }
    }

    /// Sends what is to be written. Answers how many events were fenced.
    pub(super) async fn send(&mut self) -> usize {
        let now = Instant::now();
        let mut batch = self.carry.due(now);
        if self.carry.takes_more() {
            let room = self.carry.fit().saturating_sub(batch.iter().map(Unit::rows).sum());
            batch.extend(self.handover.keys.take_ends(room));
        }
        // One end of a key at a time: they are told apart by their keys.
        let mut keys = BTreeSet::new();
        let (batch, later): (Vec<_>, Vec<_>) =
            batch.into_iter().partition(|end| keys.insert(end.id()));
        self.carry.add(later, now);
        if batch.is_empty() {
            return 0;
        }
        let ends: Vec<RunEnd> = batch.iter().map(KeyEnd::run_end).collect();
        let answer = within(self.limit, self.store.settle_runs(&self.owner, &ends)).await;
        let over = self.carry.answered(batch, decided(&answer), Instant::now());
        over.into_iter().map(|over| self.finish(over)).sum()
    }

    fn finish(&self, Over { item: end, fate }: Over<KeyEnd>) -> usize {
        let Handover { keys, alarm, observer, waiters, .. } = &*self.handover;
        keys.written(&end, fate == Fate::Applied);
        if fate == Fate::Applied {
            match end.ending {
                Ending::Free => alarm.ring(),
                Ending::After(delay) => alarm.ring_after(delay),
                Ending::HeldOn | Ending::Exhausted => {}
            }
            let dead = |outcome: &Outcome| matches!(outcome, Outcome::Dead { .. });
            let dead = end.rows.iter().filter(|row| dead(&row.outcome)).count();
            if dead > 0 {
                observer.tell(|metrics| metrics.dead(dead as u64));
            }
        }
        let fenced = if fate == Fate::Fenced { end.rows.len() } else { 0 };
        for row in end.rows {
            if fate == Fate::Applied {
                waiters.settled(row.ticket.id(), &row.outcome);
            }
            if let Some(held) = row.ticket.held() {
                row.ticket.settled(held);
            }
        }
        fenced
    }

    /// Extends the holds that end soon.
    pub(super) async fn extend(&self, hold: Duration) -> KeysExtended {
        let Handover { keys, holds, .. } = &*self.handover;
        let ending = keys.ending(|id| holds.has_stuck(id));
        let mut extended = KeysExtended::All;
        for asked in ending.chunks(limits::BATCH_ROWS) {
            let until = Deadline::after(hold);
            let extend = ExtendKeys { owner: &self.owner, keys: asked, hold };
            match within(self.limit, self.store.extend_keys(&extend)).await {
                Ok(answer) => {
                    if !answer.busy.is_empty() {
                        extended = KeysExtended::Busy;
                    }
                    self.extended(asked, answer, until);
                }
                Err(error) => {
                    warn!(error = report(&error), keys = asked.len(), "keys not extended");
                    return KeysExtended::Failed;
                }
            }
        }
        extended
    }

    fn extended(&self, asked: &[HeldKey], answer: ExtendedKeys, until: Deadline) {
        let held: BTreeSet<_> = answer.held.into_iter().collect();
        let busy: BTreeSet<_> = answer.busy.into_iter().collect();
        self.handover.keys.extended(asked, &held, &busy, until);
    }
}
