//! Waiting for a row that somebody has locked, in the database's own queue.
//!
//! A hold that cannot be extended runs out. Once the lock is gone, whoever is first has the row: a claim of
//! another node, which would deliver it a second time, or its holder, who waits in the queue for locks.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{EventId, report};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tracing::debug;

use crate::source::{Deadline, Holds};
use crate::store::{ExtendInTurn, Extended, Held, SettleStore, StoreError, within};

/// The turn of one row at a time. While it is waited for, nothing is sent about that row: nobody knows the
/// token that it will have.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    waiting: Option<Waiting>,
    /// The row that was waited for last. If there are others, it is their turn next.
    last: Option<EventId>,
}

#[derive(Debug)]
struct Waiting {
    id: EventId,
    task: JoinHandle<Ended>,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The row is held again, or is somebody else's: its lock is gone, and perhaps others with it.
    Free,
    /// It is locked still, after it was waited for.
    Locked,
    /// Nothing is known of it, or nothing waited.
    Unknown,
}

/// What a turn is waited for with.
#[derive(Clone)]
pub(crate) struct InTurn {
    pub(crate) store: Arc<dyn SettleStore>,
    pub(crate) holds: Arc<Holds>,
    pub(crate) hold: Duration,
    /// How long a statement may take.
    pub(crate) limit: Duration,
}

/// The longest that one statement waits in the queue.
const LONGEST: Duration = Duration::from_secs(1);
/// So many statements wait for one row, one right after the other. Then another one may have its turn.
const STATEMENTS: u32 = 10;

impl Turn {
    /// The row that is waited for.
    pub(crate) fn row(&self) -> Option<EventId> {
        let waiting = self.waiting.as_ref().filter(|waiting| !waiting.task.is_finished());
        waiting.map(|waiting| waiting.id)
    }

    /// Waits for the turn of one of these rows, which are busy, unless one is waited for already.
    pub(crate) fn wait(&mut self, mut busy: Vec<Held>, by: InTurn) {
        if self.row().is_some() {
            return;
        }
        busy.sort_unstable_by_key(|held| held.id);
        let next = busy.iter().find(|held| Some(held.id) > self.last);
        let Some(held) = next.or(busy.first()).copied() else { return };
        self.last = Some(held.id);
        let Some(renewing) = by.holds.renew_in_turn(held) else { return };
        let task = tokio::spawn(async move {
            let _renewing = renewing;
            by.wait(held).await
        });
        self.waiting = Some(Waiting { id: held.id, task });
    }

    /// Until the turn is over; for ever where nothing is waited for. Cancel-safe.
    pub(crate) async fn over(&mut self) -> Ended {
        let Some(waiting) = &mut self.waiting else { return pending().await };
        let ended = (&mut waiting.task).await.unwrap_or(Ended::Unknown);
        self.waiting = None;
        ended
    }
}

impl InTurn {
    async fn wait(self, held: Held) -> Ended {
        let mut ended = Ended::Unknown;
        for _ in 0..STATEMENTS {
            ended = self.wait_once(held).await;
            if ended != Ended::Locked {
                break;
            }
        }
        ended
    }

    async fn wait_once(&self, held: Held) -> Ended {
        let Self { store, holds, hold, limit } = self;
        let patience = LONGEST.min(*limit / 2);
        // Before it is sent, as of every hold: it may have to wait first.
        let (sent, until) = (Instant::now(), Deadline::after(*hold));
        let turn = ExtendInTurn { held, hold: *hold, patience };
        let answer = within(*limit, store.extend_in_turn(turn)).await;
        match answer {
            Ok(Extended { held: renewed, busy }) if busy.is_empty() => {
                debug!(event.id = %held.id, renewed = !renewed.is_empty(), "a row is free again");
                holds.extended(&[held], &renewed, until);
                Ended::Free
            }
            // Unless nobody waited for it, which a store need not.
            Ok(_) | Err(StoreError::Busy(_)) if sent.elapsed() * 2 >= patience => Ended::Locked,
            Ok(_) => Ended::Unknown,
            Err(error) => {
                debug!(event.id = %held.id, error = report(&error), "a row's turn did not come");
                Ended::Unknown
            }
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // Whoever wanted the row is gone.
        self.task.abort();
    }
}
