use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{Delivery, EventId, Lane, report};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, warn};

use super::{Admission, Ask, Asking, Deadline, Handover, Parcel, Ticket, Turns};
use crate::appetite::Portion;
use crate::options::{MIB, OutboxOptions};
use crate::settle::{Completion, Completions};
use crate::store::{Claim, Claimed, Claims, Held, OutboxStore, Outcome, StoreError, Suspects};

/// Claims visible rows into the cold lane: the way of every event that did not take the hot one.
#[derive(Clone)]
pub(crate) struct Poller {
    pub(crate) store: Arc<dyn OutboxStore>,
    pub(crate) handover: Arc<Handover>,
    pub(crate) completions: Completions,
    pub(crate) options: Arc<OutboxOptions>,
    pub(crate) owner: Arc<str>,
    pub(crate) asking: Arc<Asking>,
    /// One suspect at a time, also when somebody polls by hand.
    pub(crate) suspecting: Arc<tokio::sync::Mutex<()>>,
    pub(crate) stop: CancellationToken,
}

/// How a look at the table ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// Nothing more was visible.
    Drained,
    /// A whole batch came; there may be more.
    Full,
    /// The cold lane has no room for a batch; there may be more.
    NoRoom,
}

/// How far a look goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// From where the last one came to, if looks from the beginning are slow.
    Onward,
    /// Over all there is.
    Whole,
}

/// The most bytes of one claim, where the cold lane holds four times as many.
const CLAIM_BYTES: usize = 16 * MIB;

/// Failed passes in a row wait this long at first, then twice as long each time, up to the interval.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

impl Poller {
    /// How a poller of this configuration asks.
    pub(crate) fn asking(options: &OutboxOptions, store: Arc<dyn OutboxStore>) -> Asking {
        let rows = options.poll_batch.min(options.cold_capacity);
        // Less than the lane, so that it is filled up while it is worked off.
        let most = Portion { rows, bytes: CLAIM_BYTES.min(options.cold_bytes.div_ceil(4)) };
        Asking::new(store, most, options.poll_interval, options.statement_limit())
    }

    /// Polls until told to stop. A claim that is under way then is finished first, so that its rows
    /// are known and can be given up.
    pub(crate) async fn run(self) {
        let stop = &self.stop;
        let mut pause = FIRST_PAUSE;
        let mut armed = false;
        while !stop.is_cancelled() {
            match self.cycle(&mut armed).await {
                Ok(()) => {
                    pause = FIRST_PAUSE;
                    let _ = stop.run_until_cancelled(self.idle()).await;
                }
                Err(error) => {
                    error!(error = report(&error), "poll failed");
                    // Whatever the bell was told may be lost with the connection.
                    armed = false;
                    let _ = stop.run_until_cancelled(tokio::time::sleep(pause)).await;
                    pause = (pause * 2).min(self.options.poll_interval.max(FIRST_PAUSE));
                }
            }
        }
    }

    /// Empties the table of what is visible, as fast as the lane takes it: the interval is for
    /// idling, not a rate limit. Suspects have their turn when nothing else is left, and once an
    /// interval under endless load. The bell is armed before the last look, and disarmed only by
    /// more work than fits one batch: then nobody has to ring.
    async fn cycle(&self, armed: &mut bool) -> Result<(), StoreError> {
        let stop = &self.stop;
        let mut turns = Turns::new(self.options.poll_interval, Instant::now());
        while !stop.is_cancelled() {
            let pass = self.pass(Reach::Onward).await;
            if matches!(pass, Err(StoreError::Refused(_))) {
                // Rows that refuse are no reason to keep suspects waiting.
                self.suspects_in_turn().await?;
            }
            let pass = pass?;
            if *armed && pass != Pass::Drained {
                *armed = false;
                self.bounded(self.store.disarm()).await?;
            }
            let began = Instant::now();
            if pass == Pass::Drained {
                let found = self.one_suspect().await?;
                turns.over(began, Instant::now());
                if found {
                    continue;
                }
                if !*armed {
                    *armed = self.bounded(self.store.arm()).await?;
                    if *armed {
                        continue;
                    }
                }
                return Ok(());
            }
            if turns.is_due(began) {
                self.suspects_in_turn().await?;
                turns.over(began, Instant::now());
            } else if pass == Pass::NoRoom {
                let room = self.handover.lanes.wait_for_cold_room(self.asking.portion());
                let turn = tokio::time::sleep_until(turns.next_at());
                tokio::select! {
                    biased;
                    () = stop.cancelled() => {}
                    () = room => {}
                    () = turn => {}
                }
            }
        }
        Ok(())
    }

    /// Waits until there may be work.
    async fn idle(&self) {
        tokio::select! {
            biased;
            () = self.handover.alarm.wait() => {}
            () = self.store.rung() => {}
        }
    }

    /// One claim, of as much as fits a batch; or two, where the first left something out.
    async fn pass(&self, reach: Reach) -> Result<Pass, StoreError> {
        loop {
            let portion = self.fitting(self.asking.portion());
            if !self.handover.lanes.cold_room().covers(portion) {
                return Ok(Pass::NoRoom);
            }
            let ask = match reach {
                Reach::Onward => self.asking.next(),
                Reach::Whole => self.asking.next_whole(),
            };
            let ask = ask.with(portion);
            let (until, epoch) = (Deadline::after(self.options.hold), self.store.epoch());
            let _look = self.handover.holds.looks.begin();
            let claimed = self.claim(&ask, Suspects::Skip).await;
            let claimed = claimed.inspect_err(|error| self.asking.failed(&ask, error))?;
            let full = self.asking.answered(&ask, &claimed.rows) || claimed.cut;
            for row in claimed.rows {
                self.take_in(row, until, epoch).await;
            }
            if full {
                return Ok(Pass::Full);
            }
            match self.asking.hidden_for(&ask) {
                // What became visible late is left out no longer: now from the beginning.
                Some(Duration::ZERO) => {}
                Some(later) => {
                    self.handover.alarm.ring_after(later);
                    return Ok(Pass::Drained);
                }
                None => return Ok(Pass::Drained),
            }
        }
    }

    /// What the cold lane takes of a portion, now.
    fn fitting(&self, portion: Portion) -> Portion {
        Portion { rows: portion.rows.min(self.handover.lanes.cold_limit()), ..portion }
    }

    /// Takes what is visible and fits the cold lane, for a caller who polls by hand. Answers whether
    /// it came to the end of it.
    pub(crate) async fn poll_once(&self) -> Result<bool, StoreError> {
        loop {
            match self.pass(Reach::Whole).await? {
                Pass::Full => {}
                Pass::NoRoom => return Ok(false),
                Pass::Drained => break,
            }
        }
        while self.one_suspect().await? {}
        Ok(true)
    }

    /// Suspects one after the other, for about an interval: the first has waited for the lane to
    /// drain, and those after it need not.
    async fn suspects_in_turn(&self) -> Result<(), StoreError> {
        let end = Instant::now() + self.options.poll_interval;
        while self.one_suspect().await? && Instant::now() < end && !self.stop.is_cancelled() {}
        Ok(())
    }

    /// Runs one suspect, while nothing else of the cold lane is held: an event that kills the
    /// process must not take its neighbours' attempts with it. Answers whether one was run.
    ///
    /// Every wait is bounded, since nothing else is claimed meanwhile. The lane gets some time to
    /// drain; what still waits in it then goes back to the table; and what is in work for as long
    /// again hangs, and is no company. A suspect that hangs is left to hang.
    async fn one_suspect(&self) -> Result<bool, StoreError> {
        let _one = self.suspecting.lock().await;
        if !self.handover.lanes.is_open() {
            return Ok(false);
        }
        let (until, epoch) = (Deadline::after(self.options.hold), self.store.epoch());
        let ask = Ask::whole(Portion::ONE);
        let look = self.handover.holds.looks.begin();
        let Some(row) = self.claim(&ask, Suspects::Only).await?.rows.pop() else {
            return Ok(false);
        };
        let id = row.id;
        let held = Held::row(id, row.token);
        let admission = self.handover.holds.admit(held, until, Lane::Cold);
        drop(look);
        let Admission::Ticket(ticket) = admission else { return Ok(false) };
        if !row.can_run(self.options.max_attempts) {
            // It ends, and need not be alone for that.
            self.hand_over(row, ticket, epoch).await;
            return Ok(true);
        }
        if self.stop.run_until_cancelled(self.alone(id)).await != Some(true) {
            return Ok(false);
        }
        warn!(event.id = %id, attempts = row.attempts, "lost with its holder before: runs alone");
        self.hand_over(row, ticket, epoch).await;
        let gone = self.handover.holds.gone(id, self.options.hold);
        let _ = self.stop.run_until_cancelled(gone).await;
        Ok(true)
    }

    /// Waits until nothing of the cold lane is in work beside `id`.
    async fn alone(&self, id: EventId) -> bool {
        let Handover { holds, lanes, .. } = &*self.handover;
        let patience = self.options.poll_interval.min(self.options.hold);
        if holds.alone(id, patience).await {
            return true;
        }
        let recalled = lanes.recall_cold();
        debug!(recalled = recalled.len(), "released, so that a suspect can run alone");
        drop(recalled);
        holds.alone(id, patience).await
    }

    async fn claim(&self, ask: &Ask, suspects: Suspects) -> Result<Claims, StoreError> {
        let claim = Claim {
            bytes: ask.portion.bytes,
            from: ask.from,
            skip_recent: self.options.skip_recent,
            suspects,
            ..Claim::new(&self.owner, ask.portion.rows, self.options.hold)
        };
        self.bounded(self.store.claim(&claim)).await
    }

    async fn bounded<T>(
        &self,
        statement: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let limit = self.options.statement_limit();
        timeout(limit, statement).await.unwrap_or(Err(StoreError::Timeout))
    }

    async fn take_in(&self, row: Claimed, until: Deadline, epoch: u64) {
        let held = Held::row(row.id, row.token);
        if let Admission::Ticket(ticket) = self.handover.holds.admit(held, until, Lane::Cold) {
            self.hand_over(row, ticket, epoch).await;
        }
    }

    /// Into the lane, or to its end where it can go no further.
    async fn hand_over(&self, row: Claimed, ticket: Ticket, epoch: u64) {
        let attempt = row.attempt();
        let max_attempts = self.options.max_attempts;
        let event = match row.event {
            Ok(event) => event,
            Err(undecodable) => {
                let error = report(&undecodable);
                error!(event.id = %row.id, error, "stored row cannot be decoded");
                let outcome = Outcome::Dead { attempts: attempt.uncounted(), error };
                return self.completions.send(Completion { ticket, attempt, outcome }).await;
            }
        };
        if attempt.is_exhausted(max_attempts) {
            let error = format!("its {max_attempts} attempts are used up by holders who vanished");
            let outcome = Outcome::Dead { attempts: max_attempts, error };
            return self.completions.send(Completion { ticket, attempt, outcome }).await;
        }
        let delivery = Delivery {
            event,
            created_at: row.created_at,
            attempt: attempt.number,
            lane: Lane::Cold,
        };
        let age = row.claimed_at.since(row.created_at);
        // A parcel the lane does not take is dropped, and its ticket gives the hold up.
        if self.handover.lanes.offer(Parcel { delivery, attempt, ticket, age, epoch }).is_ok() {
            self.handover.metrics.cold_enqueued();
        }
    }
}
