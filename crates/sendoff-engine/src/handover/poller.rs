use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{Delivery, Lane, report};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::{Admission, Deadline, Handover, Parcel, Ticket};
use crate::config::OutboxConfig;
use crate::settle::{Completion, Completions};
use crate::store::{Claim, Claimed, Held, OutboxStore, Outcome, StoreError, Suspects};

/// Claims visible rows into the cold lane: the way of every event that did not take the hot one.
#[derive(Clone)]
pub(crate) struct Poller {
    pub(crate) store: Arc<dyn OutboxStore>,
    pub(crate) handover: Arc<Handover>,
    pub(crate) completions: Completions,
    pub(crate) config: Arc<OutboxConfig>,
    pub(crate) owner: Arc<str>,
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

/// Failed passes in a row wait this long at first, then twice as long each time, up to the interval.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

impl Poller {
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
                    pause = (pause * 2).min(self.config.poll_interval.max(FIRST_PAUSE));
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
        let mut suspects_at = Instant::now() + self.config.poll_interval;
        while !stop.is_cancelled() {
            let pass = self.pass().await?;
            if *armed && pass != Pass::Drained {
                *armed = false;
                self.bounded(self.store.disarm()).await?;
            }
            if pass == Pass::Drained || Instant::now() >= suspects_at {
                suspects_at = Instant::now() + self.config.poll_interval;
                let found = self.one_suspect().await?;
                if found || pass != Pass::Drained {
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
            if pass == Pass::NoRoom {
                let room = self.handover.lanes.wait_for_cold_room(self.config.poll_batch);
                let _ = stop.run_until_cancelled(room).await;
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

    /// One claim, of as much as fits a batch.
    async fn pass(&self) -> Result<Pass, StoreError> {
        let batch = self.config.poll_batch.min(self.handover.lanes.cold_limit());
        if self.handover.lanes.cold_room() < batch {
            return Ok(Pass::NoRoom);
        }
        let claimed = self.claim(batch, Suspects::Skip).await?;
        let pass = if claimed.len() < batch { Pass::Drained } else { Pass::Full };
        for (row, until) in claimed {
            self.take_in(row, until).await;
        }
        Ok(pass)
    }

    /// Takes what is visible and fits the cold lane, for a caller who polls by hand. Answers whether
    /// it came to the end of it.
    pub(crate) async fn poll_once(&self) -> Result<bool, StoreError> {
        loop {
            match self.pass().await? {
                Pass::Full => {}
                Pass::NoRoom => return Ok(false),
                Pass::Drained => break,
            }
        }
        while self.one_suspect().await? {}
        Ok(true)
    }

    /// Runs one suspect, while nothing else of the cold lane is held: an event that kills the
    /// process must not take its neighbours' attempts with it. Answers whether one was run.
    ///
    /// Both waits are bounded, since nothing else is claimed meanwhile: a neighbour that takes its
    /// time puts the suspect off to another day, and a suspect that hangs is left to hang.
    async fn one_suspect(&self) -> Result<bool, StoreError> {
        let _one = self.suspecting.lock().await;
        if !self.handover.lanes.is_open() {
            return Ok(false);
        }
        let Some((row, until)) = self.claim(1, Suspects::Only).await?.pop() else {
            return Ok(false);
        };
        let id = row.id;
        let held = Held::row(id, row.token);
        let admission = self.handover.holds.admit(held, until, Lane::Cold);
        let Admission::Ticket(ticket) = admission else { return Ok(false) };
        let patience = self.config.poll_interval.min(self.config.hold);
        let alone = self.handover.holds.alone(id, patience);
        if self.stop.run_until_cancelled(alone).await != Some(true) {
            return Ok(false);
        }
        warn!(event.id = %id, attempts = row.attempts, "lost with its holder before: runs alone");
        self.hand_over(row, ticket).await;
        let gone = self.handover.holds.gone(id, self.config.hold);
        let _ = self.stop.run_until_cancelled(gone).await;
        Ok(true)
    }

    async fn claim(
        &self,
        limit: usize,
        suspects: Suspects,
    ) -> Result<Vec<(Claimed, Deadline)>, StoreError> {
        let claim = Claim {
            skip_recent: self.config.skip_recent,
            suspects,
            ..Claim::new(&self.owner, limit, self.config.hold)
        };
        let until = Deadline::after(self.config.hold);
        let claimed = self.bounded(self.store.claim(&claim)).await?;
        Ok(claimed.into_iter().map(|row| (row, until)).collect())
    }

    async fn bounded<T>(
        &self,
        statement: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let limit = self.config.statement_limit();
        timeout(limit, statement).await.unwrap_or(Err(StoreError::Timeout))
    }

    async fn take_in(&self, row: Claimed, until: Deadline) {
        let held = Held::row(row.id, row.token);
        if let Admission::Ticket(ticket) = self.handover.holds.admit(held, until, Lane::Cold) {
            self.hand_over(row, ticket).await;
        }
    }

    /// Into the lane, or to its end where it can go no further.
    async fn hand_over(&self, row: Claimed, ticket: Ticket) {
        let attempt = row.attempt();
        let max_attempts = self.config.max_attempts;
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
            let error = format!("its holder vanished {max_attempts} times");
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
        if self.handover.lanes.offer(Parcel { delivery, attempt, ticket, age }).is_ok() {
            self.handover.metrics.cold_enqueued();
        }
    }
}
