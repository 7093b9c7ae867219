//! Settles one batch of a relay, and keeps trying what the database did not take.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{Attempt, EventId, limits};
use tokio::time::{Instant, timeout};
use tracing::debug;

use super::{
    Carry, Ended, Fate, InTurn, Item, Over, Refusals, Turn, Unit, Waits, decided, put_off, send,
};
use crate::relay::RelayStore;
use crate::source::{Deadline, Holds, Ticket};
use crate::store::{Held, Outcome, Settled, StoreError};
use crate::until::until;

/// What holds of a relay live by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) hold: Duration,
    /// How long a statement may take.
    pub(crate) limit: Duration,
    pub(crate) refusals: Refusals,
}

/// What becomes of an event, and the run that it ends; none where nothing ran.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) outcome: Outcome,
    pub(crate) attempt: Option<Attempt>,
}

pub(crate) type Answers = BTreeMap<EventId, Answer>;

/// What became of a batch of settlements.
#[derive(Debug, Default)]
pub(crate) struct SettledBatch {
    /// What was written, or may have been.
    pub(crate) written: Vec<Outcome>,
    /// No longer ours: somebody else has them, or they are terminal.
    pub(crate) fenced: usize,
    /// The same, of rows that were only to be put back.
    pub(crate) gone: usize,
    /// Not written yet, or not at all.
    pub(crate) unsettled: usize,
}

impl SettledBatch {
    pub(crate) fn add(&mut self, other: Self) {
        self.written.extend(other.written);
        self.fenced += other.fenced;
        self.gone += other.gone;
        self.unsettled += other.unsettled;
    }

    /// Where a settlement is counted that came too late. What was only to be put back was not delivered here,
    /// and is not delivered twice.
    pub(crate) fn too_late(&mut self, outcome: &Outcome) -> &mut usize {
        if outcome.is_released() { &mut self.gone } else { &mut self.fenced }
    }
}

/// The settlements of one batch on their way into the database.
pub(crate) struct Settling {
    store: Arc<dyn RelayStore>,
    hold: Duration,
    limit: Duration,
    holds: Arc<Holds>,
    /// When the holds end.
    until: Vec<Deadline>,
    carry: Carry<Item<Ticket>>,
    /// A row that somebody has locked while its hold ends.
    turn: Turn,
    settled: SettledBatch,
    refused: Vec<Held>,
    /// What the database said when it was last unavailable.
    failed: Option<StoreError>,
}

/// Why no more settlements were sent.
enum End {
    AllOver,
    /// What is left waits for rows of its own, not for the database.
    Waiting,
    /// The holds have ended, and the database does not answer.
    TooLate,
}

/// How long whoever commits waits for rows that somebody has locked. After that they are settled
/// beside whatever comes next.
const PATIENCE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Of so many rows answers are kept when the holds have ended, and somebody has the rows locked.
pub(crate) const KEPT: usize = 10 * limits::BATCH_ROWS;

impl Settling {
    pub(crate) fn new(
        store: Arc<dyn RelayStore>,
        terms: Terms,
        holds: Arc<Holds>,
        until: Vec<Deadline>,
        items: Vec<Item<Ticket>>,
        turn: Turn,
    ) -> Self {
        let Terms { hold, limit, refusals } = terms;
        let waits = Waits { row: hold / 40, database: LONGEST_PAUSE };
        let mut carry = Carry::new(waits, refusals);
        carry.add(items, Instant::now());
        let (settled, refused) = (SettledBatch::default(), Vec::new());
        Self { store, hold, limit, holds, until, carry, turn, settled, refused, failed: None }
    }

    /// Sends until the database has taken everything, or does not answer until the holds are over: a
    /// settlement that fails is not a failed delivery. Rows that are locked for longer are waited for
    /// by a task of their own, beyond their holds: they have run, and if it is this consumer that
    /// claims them again, they are settled by that claim.
    pub(crate) async fn run(mut self) -> Result<SettledBatch, StoreError> {
        let end = self.send(Some(PATIENCE)).await?;
        let left = self.carry.ids().len();
        match (end, self.failed.take()) {
            (End::TooLate, Some(error)) => return Err(error),
            (End::Waiting, _) => {
                debug!(rows = left, "somebody has rows of this batch locked; it waits for them");
                let settled = std::mem::take(&mut self.settled);
                // Nobody waits for it: it ends with the locks, or when others have the rows.
                tokio::spawn(async move {
                    let _ = self.send(None).await;
                });
                return Ok(SettledBatch { unsettled: settled.unsettled + left, ..settled });
            }
            (End::AllOver | End::TooLate, _) => {}
        }
        self.settled.unsettled += left;
        Ok(self.settled)
    }

    async fn send(&mut self, patience: Option<Duration>) -> Result<End, StoreError> {
        let began = Instant::now();
        while let Some(at) = self.carry.next_at() {
            let now = Instant::now();
            let pause = at.saturating_duration_since(now);
            let given_up = self.failed.is_some() || self.holds.len() > KEPT;
            if given_up && self.until.iter().all(|until| until.is_within(pause)) {
                return Ok(End::TooLate);
            }
            let impatient = patience.is_some_and(|patience| at > now && at > began + patience);
            if impatient && self.carry.takes_more() {
                return Ok(End::Waiting);
            }
            tokio::select! {
                biased;
                ended = self.turn.over() => {
                    // One that is locked still is waited for again as soon as it is found busy.
                    if ended != Ended::Unknown {
                        self.carry.hurry(Instant::now());
                    }
                    continue;
                }
                () = until(at) => {}
            }
            let mut batch = self.carry.due(Instant::now());
            let waits = |item: &mut Item<Ticket>| self.turn.row() == Some(item.id());
            let waiting = batch.extract_if(.., waits).collect();
            self.carry.put_back(waiting, Instant::now());
            if batch.is_empty() {
                continue;
            }
            for item in &mut batch {
                item.bearer.held().into_iter().for_each(|held| item.go_by(held));
            }
            let answer = send(&*self.store, &batch, self.limit).await;
            if let Ok(Settled { busy, .. }) = &answer {
                self.wait_for_turn(&batch, busy);
            }
            let over = self.carry.answered(batch, decided(&answer), Instant::now());
            self.end_all(over).await;
            match answer {
                Err(StoreError::Closed) => return Err(StoreError::Closed),
                Err(StoreError::Refused(_) | StoreError::Busy(_)) | Ok(_) => self.failed = None,
                Err(error) => self.failed = Some(error),
            }
            put_off(&*self.store, std::mem::take(&mut self.refused), self.limit).await;
        }
        Ok(End::AllOver)
    }

    /// Nobody extends these holds any more: one that ends while its row is locked is waited for.
    fn wait_for_turn(&mut self, batch: &[Item<Ticket>], busy: &[EventId]) {
        let ends = |item: &&Item<Ticket>| {
            let until = item.bearer.held_until();
            until.is_some_and(|(_, until)| until.is_within(self.limit * 3 / 2))
        };
        let busy = batch.iter().filter(|item| busy.contains(&item.id())).filter(ends);
        let busy = busy.map(|item| item.settlement.held).collect();
        let (store, holds) = (self.store.clone(), self.holds.clone());
        self.turn.wait(busy, InTurn { store, holds, hold: self.hold, limit: self.limit });
    }

    async fn end_all(&mut self, over: Vec<Over<Item<Ticket>>>) {
        let unchanged = |fate| matches!(fate, Fate::Fenced | Fate::InDoubt);
        if over.iter().any(|over| unchanged(over.fate)) {
            // A claim of ours may have overtaken it, and not be answered yet.
            let claims = self.holds.looks.over(self.holds.looks.mark());
            let _ = timeout(self.limit, claims).await;
        }
        for Over { mut item, fate } in over {
            let newer = item.bearer.held().filter(|held| *held != item.settlement.held);
            match newer {
                Some(newer) if unchanged(fate) => {
                    item.go_by(newer);
                    self.carry.add(vec![item], Instant::now());
                }
                _ => self.end(item, fate),
            }
        }
    }

    fn end(&mut self, item: Item<Ticket>, fate: Fate) {
        let Item { settlement, bearer, .. } = item;
        bearer.settled(settlement.held);
        match fate {
            // After a lost reply our own first try may have been carried out.
            Fate::Applied | Fate::InDoubt => self.settled.written.push(settlement.outcome),
            Fate::Fenced => *self.settled.too_late(&settlement.outcome) += 1,
            Fate::Closed => self.settled.unsettled += 1,
            Fate::Refused => {
                self.settled.unsettled += 1;
                // What is left runs out by itself.
                if !settlement.outcome.is_released() {
                    self.refused.push(settlement.held);
                }
            }
        }
    }
}
