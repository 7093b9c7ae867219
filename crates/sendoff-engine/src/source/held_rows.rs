//! The holds of one batch of a relay: extended while it runs, released when it is dropped.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::{EventId, Lane, Timestamp};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};
use tracing::debug;

use super::beside::beside;
use super::{Admission, Deadline, Holds, Ticket};
use crate::lock::lock;
use crate::relay::RelayStore;
use crate::settle::{
    Answer, Answers, ExtendedPart, Extender, FIRST_PAUSE, InTurn, Item, SettledBatch, Settling,
    Terms, Turn, Unit,
};
use crate::store::{Claimed, Held, Outcome, Settlement, StoreError};

/// The holds of one batch, and when their rows were due.
///
/// Dropped with holds still in it, it releases them by itself where a runtime is there to do it.
pub(crate) struct HeldRows {
    store: Arc<dyn RelayStore>,
    terms: Terms,
    holds: Arc<Holds>,
    table: Mutex<Table>,
    extender: tokio::sync::Mutex<Extender>,
    /// A row that somebody has locked while its hold ends.
    turn: Mutex<Turn>,
}

#[derive(Default)]
struct Table {
    rows: BTreeMap<EventId, HeldRow>,
    /// The pause before rows are extended that could not be the last time.
    again: Option<Duration>,
}

struct HeldRow {
    ticket: Ticket,
    was_due: Timestamp,
}

impl HeldRows {
    /// Takes rows in that were claimed. Those that are in flight in another batch already are taken
    /// out of `rows`: the newer hold serves that batch, and its settlement.
    pub(crate) fn new(
        store: Arc<dyn RelayStore>,
        terms: Terms,
        holds: Arc<Holds>,
        rows: &mut Vec<Claimed>,
        until: Deadline,
    ) -> Self {
        let mut table = Table::default();
        rows.retain(|row| {
            let admission = holds.admit(row.held(), until, Lane::Cold);
            let Admission::Ticket(ticket) = admission else {
                debug!(event.id = %row.id, "claimed again, and in flight already");
                return false;
            };
            table.rows.insert(row.id, HeldRow { ticket, was_due: row.was_due });
            true
        });
        let (table, extender) = (Mutex::new(table), tokio::sync::Mutex::default());
        Self { store, terms, holds, table, extender, turn: Mutex::default() }
    }

    /// Whether the row is certainly ours now (I1).
    pub(crate) fn is_held(&self, id: EventId) -> bool {
        let table = lock(&self.table);
        let held = table.rows.get(&id).and_then(|row| row.ticket.held_until());
        held.is_some_and(|(_, until)| !until.is_past())
    }

    /// Holds everything for longer, and says how many rows were lost to others.
    ///
    /// Must be awaited to its end: otherwise nobody knows the tokens any more, and the holds are
    /// given up for lost.
    pub(crate) async fn extend(&self) -> Result<usize, StoreError> {
        self.extend_within(self.terms.hold).await
    }

    /// Keeps the holds while `work` is under way, but releases at `release_at` what is still `waiting`
    /// then, and says how many that were. Does what is `due` beside it, when that says.
    pub(crate) async fn held_while<T, D: Future<Output = ()>>(
        &self,
        work: impl Future<Output = T>,
        release_at: Instant,
        waiting: impl Fn() -> Vec<EventId>,
        due: impl Fn() -> Option<Instant>,
        does: impl Fn() -> D,
    ) -> (T, usize) {
        let release_at = Mutex::new(Some(release_at));
        let extend_at = Mutex::new(self.next_extension());
        let released = AtomicUsize::new(0);
        let next = || {
            let others = [*lock(&release_at), due()];
            others.into_iter().flatten().fold(*lock(&extend_at), Instant::min)
        };
        // One after the other: what is being extended has no token that it could be released by.
        let chore = || async {
            let now = Instant::now();
            if lock(&release_at).take_if(|at| *at <= now).is_some() {
                released.store(self.release(&waiting()), Ordering::Relaxed);
            } else if *lock(&extend_at) > now {
                // What is due may have been put off meanwhile.
                if due().is_some_and(|at| at <= now) {
                    does().await;
                }
            } else {
                // What went wrong is in the log.
                let _ = self.extend_within(self.terms.hold * 3 / 4).await;
                *lock(&extend_at) = self.next_extension();
            }
        };
        let answer = beside(work, next, chore).await;
        (answer, released.load(Ordering::Relaxed))
    }

    /// Early enough for a second try, and soon where something could not be extended.
    fn next_extension(&self) -> Instant {
        // Soon, too, where a row is waited for: others may be to wait for after it.
        let waits = lock(&self.turn).row().map(|_| FIRST_PAUSE);
        let again = waits.or(lock(&self.table).again);
        Instant::now() + again.unwrap_or(self.terms.hold / 3)
    }

    /// Puts these rows back before the others are done, without waiting for it, and says how many.
    fn release(&self, ids: &[EventId]) -> usize {
        let mut table = lock(&self.table);
        let rows: Vec<HeldRow> = ids.iter().filter_map(|id| table.rows.remove(id)).collect();
        drop(table);
        self.restore(rows)
    }

    /// Holds for longer what has no more than this left.
    async fn extend_within(&self, left: Duration) -> Result<usize, StoreError> {
        let asked: Vec<Held> = {
            let table = lock(&self.table);
            let held = table.rows.values().filter_map(|row| row.ticket.held_until());
            let in_turn = lock(&self.turn).row();
            held.filter(|(held, until)| until.is_within(left) && in_turn != Some(held.id))
                .map(|(held, _)| held)
                .collect()
        };
        let Terms { hold, limit, .. } = self.terms;
        let mut lost = 0;
        let answered = |part: ExtendedPart| {
            self.holds.extended(&part.asked, &part.held, part.until);
            lost += part.asked.len().saturating_sub(part.held.len());
        };
        let mut extender = self.extender.lock().await;
        let terms = (hold, limit);
        // Runs of a relay do not settle their events themselves.
        let extension = extender.extend(&*self.store, asked, terms, |part| part, answered).await;
        let mut table = lock(&self.table);
        let incomplete = !extension.busy.is_empty() || extension.failed.is_some();
        table.again = incomplete.then(|| {
            let twice = table.again.map_or(FIRST_PAUSE, |again| again * 2);
            twice.min(hold / 8)
        });
        drop(table);
        let (store, holds) = (self.store.clone(), self.holds.clone());
        lock(&self.turn).wait(extension.busy, InTurn { store, holds, hold, limit });
        extension.failed.map_or(Ok(lost), Err)
    }

    /// Settles each row by its answer, and puts back what has none.
    pub(crate) async fn settle(&self, answers: Answers) -> Result<SettledBatch, StoreError> {
        let rows = std::mem::take(&mut lock(&self.table).rows);
        self.settle_rows(rows, answers).await
    }

    /// The same of some of them, before the others are done: those that have an answer, and those that
    /// are to be put back.
    pub(crate) async fn settle_some(
        &self,
        answers: Answers,
        put_back: &[EventId],
    ) -> Result<SettledBatch, StoreError> {
        let rows = {
            let mut table = lock(&self.table);
            let some = answers.keys().chain(put_back);
            some.filter_map(|id| table.rows.remove_entry(id)).collect()
        };
        self.settle_rows(rows, answers).await
    }

    async fn settle_rows(
        &self,
        rows: BTreeMap<EventId, HeldRow>,
        mut answers: Answers,
    ) -> Result<SettledBatch, StoreError> {
        if rows.values().any(|row| row.ticket.held().is_none()) {
            // Lost to others, unless it was a claim of ours that is not answered yet.
            let claims = self.holds.looks.over(self.holds.looks.mark());
            let _ = timeout(self.terms.limit, claims).await;
        }
        let (mut items, mut lost) = (Vec::with_capacity(rows.len()), SettledBatch::default());
        let mut until = Vec::with_capacity(rows.len());
        for (id, HeldRow { ticket, was_due }) in rows {
            let restored = Outcome::Restored { due_at: was_due };
            let restored = Answer { outcome: restored, attempt: None };
            let Answer { outcome, attempt } = answers.remove(&id).unwrap_or(restored);
            let Some((held, end)) = ticket.held_until() else {
                *lost.too_late(&outcome) += 1;
                continue;
            };
            until.push(end);
            items.push(Item::new(held, outcome, attempt, ticket));
        }
        let (store, holds) = (self.store.clone(), self.holds.clone());
        let turn = {
            let mut turn = lock(&self.turn);
            let is_mine = |id| items.iter().any(|item: &Item<Ticket>| item.id() == id);
            if turn.row().is_some_and(is_mine) {
                std::mem::take(&mut *turn)
            } else {
                Turn::default()
            }
        };
        let settling = Settling::new(store, self.terms, holds, until, items, turn);
        let mut settled = settling.run().await?;
        settled.add(lost);
        Ok(settled)
    }
}

impl HeldRows {
    /// Puts rows back as they were, without waiting for it, and says how many.
    fn restore(&self, rows: impl IntoIterator<Item = HeldRow>) -> usize {
        let restore = |HeldRow { ticket, was_due }: HeldRow| {
            let held = ticket.held()?;
            ticket.settled(held);
            Some(Settlement { held, outcome: Outcome::Restored { due_at: was_due } })
        };
        let batch: Vec<_> = rows.into_iter().filter_map(restore).collect();
        let count = batch.len();
        let Ok(runtime) = Handle::try_current() else { return count };
        if batch.is_empty() {
            return 0;
        }
        let (store, limit) = (self.store.clone(), self.terms.limit);
        // Bounded, and nobody waits for it: what it does not reach runs out.
        runtime.spawn(async move {
            let given_up = timeout(limit, store.settle(&batch)).await;
            if !matches!(given_up, Ok(Ok(_))) {
                debug!(rows = batch.len(), "holds that were released are left to run out");
            }
        });
        count
    }
}

impl Drop for HeldRows {
    fn drop(&mut self) {
        let rows = std::mem::take(&mut lock(&self.table).rows);
        self.restore(rows.into_values());
    }
}
