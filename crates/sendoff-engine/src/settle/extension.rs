//! Extends holds in statements that the database can answer in time.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use sendoff_core::{EventId, report};
use tracing::warn;

use super::fit::{Fit, halves};
use crate::source::Deadline;
use crate::store::{Extended, Held, SettleStore, StoreError, within};

/// Extends holds in statements of a size that the database answers in time.
#[derive(Debug, Default)]
pub(crate) struct Extender {
    fit: Fit,
    /// Where the last look ended early: the next one begins after it, so that one part that fails
    /// does not keep the others from being extended.
    after: Option<EventId>,
}

/// What became of the holds that were to be extended.
#[derive(Debug, Default)]
pub(crate) struct Extension {
    /// Rows that somebody has locked: their holds are as they were.
    pub(crate) busy: Vec<Held>,
    /// Why nothing further was tried.
    pub(crate) failed: Option<StoreError>,
}

/// Holds that are extended, or lost.
#[derive(Debug)]
pub(crate) struct ExtendedPart {
    pub(crate) asked: Vec<Held>,
    pub(crate) held: Vec<Held>,
    pub(crate) until: Deadline,
}

impl Extender {
    /// Extends all of `holds`, until the database does not answer: part by part, each of what `begin` leaves of it when its
    /// turn has come and keeps until it was answered. What was decided of a part is told to `answered` at once.
    pub(crate) async fn extend<P: AsRef<[Held]>>(
        &mut self,
        store: &dyn SettleStore,
        mut holds: Vec<Held>,
        (hold, limit): (Duration, Duration),
        mut begin: impl FnMut(Vec<Held>) -> P,
        mut answered: impl FnMut(ExtendedPart),
    ) -> Extension {
        holds.sort_unstable_by_key(|held| held.id);
        if let Some(after) = self.after.take() {
            let first = holds.partition_point(|held| held.id <= after);
            holds.rotate_left(first);
        }
        let mut extension = Extension::default();
        let mut parts: VecDeque<Vec<Held>> =
            holds.chunks(self.fit.rows()).map(<[Held]>::to_vec).collect();
        while let Some(part) = parts.pop_front() {
            let begun = begin(part);
            let part = begun.as_ref();
            if part.is_empty() {
                continue;
            }
            let until = Deadline::after(hold);
            match within(limit, store.extend(part, hold)).await {
                Ok(answer) => {
                    self.fit.answered(part.len());
                    answered(extension.take(part.to_vec(), answer, until));
                }
                // Nothing was changed: whose fault it is shows when it is alone.
                Err(StoreError::Refused(_) | StoreError::Busy(_)) if part.len() > 1 => {
                    let part = part.to_vec();
                    halves(part).into_iter().rev().for_each(|half| parts.push_front(half));
                }
                Err(StoreError::Busy(_)) => extension.busy.extend(part),
                Err(error @ StoreError::Refused(_)) => {
                    for held in part {
                        warn!(event.id = %held.id, error = report(&error), "hold not extended");
                    }
                }
                Err(error) => {
                    if matches!(error, StoreError::Timeout) {
                        self.fit.too_long(part.len());
                    }
                    warn!(error = report(&error), holds = part.len(), "holds not extended");
                    self.after = part.last().map(|held| held.id);
                    extension.failed = Some(error);
                    break;
                }
            }
        }
        extension
    }
}

impl Extension {
    fn take(&mut self, mut asked: Vec<Held>, answer: Extended, until: Deadline) -> ExtendedPart {
        let Extended { held, busy } = answer;
        let busy: BTreeSet<EventId> = busy.into_iter().collect();
        self.busy.extend(asked.extract_if(.., |held| busy.contains(&held.id)));
        let lost = asked.len().saturating_sub(held.len());
        if lost > 0 {
            warn!(lost, "holds lost to others");
        }
        ExtendedPart { asked, held, until }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use async_trait::async_trait;
    use futures_util::FutureExt;
    use sendoff_core::{Lane, Timestamp, Token, limits};
    use tokio::sync::{mpsc, oneshot};

    use super::*;
    use crate::memory::MemoryStore;
    use crate::source::{Admission, Holds, Joining, Ticket};
    use crate::store::{ClaimStore, Delegates, Settled, Settlement};

    /// A statement under way, and how it is answered.
    type Statement = (Vec<Held>, oneshot::Sender<()>);

    /// Whose extensions are answered when the test says so.
    struct Slow {
        memory: MemoryStore,
        statements: mpsc::UnboundedSender<Statement>,
    }

    impl Delegates<dyn ClaimStore> for Slow {
        fn delegate(&self) -> &dyn ClaimStore {
            &self.memory
        }
    }

    #[async_trait]
    impl SettleStore for Slow {
        async fn settle(&self, batch: &[Settlement]) -> Result<Settled, StoreError> {
            self.memory.settle(batch).await
        }

        async fn extend(&self, holds: &[Held], _: Duration) -> Result<Extended, StoreError> {
            let (answer, answered) = oneshot::channel();
            self.statements.send((holds.to_vec(), answer)).expect("the test listens");
            answered.await.expect("the test answers");
            Ok(Extended { held: holds.to_vec(), busy: Vec::new() })
        }
    }

    fn admit(holds: &Arc<Holds>, number: usize, lasts: Duration) -> Ticket {
        let id = EventId::from_bytes((number as u128).to_be_bytes());
        let held = Held::row(id, Token::new(Timestamp::from_micros(1)));
        match holds.admit(held, Deadline::after(lasts), Lane::Cold) {
            Admission::Ticket(ticket) => ticket,
            refused => panic!("{refused:?}"),
        }
    }

    /// Other statements may wait for its own transaction.
    #[tokio::test(start_paused = true)]
    async fn a_run_that_settles_itself_waits_for_the_statement_about_its_row_and_no_other() {
        let second = Duration::from_secs(1);
        let holds = Arc::new(Holds::new(2 * second, None));
        // Two of them in the second statement.
        let tickets: Vec<_> =
            (0..limits::BATCH_ROWS + 2).map(|number| admit(&holds, number, 3 * second)).collect();
        assert!(tickets.iter().all(Ticket::may_start));
        tokio::time::advance(2 * second).await;
        let (first, last) = (tickets[0].id(), tickets[limits::BATCH_ROWS + 1].id());

        let (statements, mut sent) = mpsc::unbounded_channel();
        let store = Slow { memory: MemoryStore::new(), statements };
        let by = Arc::clone(&holds);
        let extending = tokio::spawn(async move {
            let renew = |part| by.renew(part);
            let answered = |part: ExtendedPart| by.extended(&part.asked, &part.held, part.until);
            let terms = (8 * second, second);
            let ending = by.ending(|_| false);
            Extender::default().extend(&store, ending, terms, renew, answered).await
        });

        let (part, answer) = sent.recv().await.expect("the first statement");
        assert!(part.iter().any(|held| held.id == first));
        let later = holds.join(last).now_or_never();
        assert!(
            matches!(later, Some(Joining::By { .. })),
            "nothing is under way about it: {later:?}"
        );
        let mut joins = Box::pin(holds.join(first));
        assert_eq!((&mut joins).now_or_never(), None, "its own statement is under way");
        answer.send(()).expect("it waits");

        let (part, answer) = sent.recv().await.expect("the second statement");
        assert!(part.iter().all(|held| held.id != last), "its token was told");
        assert!(matches!(joins.now_or_never(), Some(Joining::By { .. })));
        answer.send(()).expect("it waits");
        assert!(extending.await.expect("it ends").failed.is_none());
    }
}
