//! Several handlers for one event.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use sendoff_core::{Delivery, EventId, Failure, FailureClass};

use super::deadline::in_time;
use super::handler::{AnyHandler, Handler, HandlerResult};
use super::shield::{shield, shielded};
use crate::lock::lock;

/// So many events of which some handlers are done are remembered. Of further ones the oldest is forgotten,
/// and its handlers run again.
const REMEMBERED: usize = 10_000;

/// Several handlers for one event; see [`fan_out`].
#[derive(Clone)]
pub struct FanOut(Arc<Inner>);

struct Inner {
    handlers: Vec<(String, AnyHandler)>,
    /// Which of them need not run again, for events that are not done by all.
    over: Mutex<BTreeMap<EventId, Vec<Over>>>,
}

/// How a handler ended that does not run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    No,
    Done,
    /// It said that no retry can help.
    Dead,
}

/// Several handlers for one event, each under a name: all of them run, at once, and the event is done when
/// all are done.
///
/// Each runs at least once. While the event is tried again on this node, those that succeeded or said that
/// no retry can help are left out; after a restart, or on another node, all run again. An event of which
/// one handler says the latter is dead, once the others are done. The time limit, the circuit and the
/// number of runs are those of all together; one of them may have [a shorter time](crate::deadline) by itself. None of several can [settle](crate::Outbox::settle_in) the event in
/// a transaction of its own. Where each should go on by itself, whatever the others do,
/// append to a journal and give each a publisher.
///
/// ```
/// use sendoff_core::Delivery;
/// use sendoff_engine::memory::MemoryStore;
/// use sendoff_engine::{AnyHandler, HandlerResult, Outbox, fan_out};
///
/// async fn mail(_: Delivery) -> HandlerResult {
///     Ok(())
/// }
/// async fn audit(_: Delivery) -> HandlerResult {
///     Ok(())
/// }
///
/// let both = fan_out([("mail", AnyHandler::new(mail)), ("audit", AnyHandler::new(audit))]);
/// let outbox = Outbox::builder(MemoryStore::new()).on("order.placed", both);
/// # drop(outbox);
/// ```
pub fn fan_out<N: Into<String>>(handlers: impl IntoIterator<Item = (N, AnyHandler)>) -> FanOut {
    let handlers = handlers.into_iter().map(|(name, handler)| (name.into(), handler)).collect();
    FanOut(Arc::new(Inner { handlers, over: Mutex::default() }))
}

impl Handler for FanOut {
    async fn handle(&self, delivery: Delivery) -> HandlerResult {
        let id = delivery.id();
        let before = self.0.over_of(id);
        let run = |at: usize| {
            let (handler, mut delivery) = (&self.0.handlers[at].1, delivery.clone());
            if self.0.handlers.len() > 1 {
                delivery = delivery.for_one_of_several();
            }
            async move {
                let limit = shielded(|| handler.deadline()).unwrap_or_default();
                let run = shield(|| Box::pin(handler.handle(delivery)));
                let ended = in_time(limit, run).await.flatten();
                // At once: the others may take longer than there is time.
                match &ended {
                    Ok(()) => self.0.is_over(id, at, Over::Done),
                    Err(failure) if failure.class() == FailureClass::Dead => {
                        self.0.is_over(id, at, Over::Dead);
                    }
                    Err(_) => {}
                }
                (at, ended)
            }
        };
        let left = (0..self.0.handlers.len()).filter(|at| before[*at] == Over::No);
        let ended = join_all(left.map(run)).await;
        let failed: Vec<_> = ended
            .into_iter()
            .filter_map(|(at, ended)| Some((self.0.handlers[at].0.clone(), ended.err()?)))
            .collect();
        self.0.answer(id, failed)
    }

    fn runs_at_most(&self) -> Option<NonZeroUsize> {
        self.0.handlers.iter().filter_map(|(_, handler)| handler.runs_at_most()).min()
    }
}

impl Inner {
    fn over_of(&self, id: EventId) -> Vec<Over> {
        let over = lock(&self.over).get(&id).cloned();
        over.unwrap_or_else(|| vec![Over::No; self.handlers.len()])
    }

    fn is_over(&self, id: EventId, at: usize, how: Over) {
        let mut over = lock(&self.over);
        if over.len() >= REMEMBERED && !over.contains_key(&id) {
            over.pop_first();
        }
        over.entry(id).or_insert_with(|| vec![Over::No; self.handlers.len()])[at] = how;
    }

    /// What becomes of the event, by what failed in this run and what was over before.
    fn answer(&self, id: EventId, failed: Vec<(String, Failure)>) -> HandlerResult {
        let over = self.over_of(id);
        let names = |how| {
            let named = self.handlers.iter().zip(&over).filter(move |(_, over)| **over == how);
            named.map(|((name, _), _)| name.clone())
        };
        if over.contains(&Over::No) && !failed.is_empty() {
            return Err(together(failed, self.handlers.len()));
        }
        lock(&self.over).remove(&id);
        match over.contains(&Over::Dead) {
            false => Ok(()),
            true if failed.is_empty() => {
                let dead: Vec<_> = names(Over::Dead).collect();
                Err(Failure::dead(format!("failed for good before: {}", dead.join(", "))))
            }
            true => {
                let failure = NotAll { failed, of: self.handlers.len() };
                Err(Failure::dead(failure))
            }
        }
    }
}

/// One failure of several that are to be tried again: the attempt counts unless every target is
/// unavailable, or one wants no more, and the longest delay that was asked for is kept.
fn together(failed: Vec<(String, Failure)>, of: usize) -> Failure {
    let (mut counts, mut longest) = (false, Duration::ZERO);
    for (_, failure) in &failed {
        match failure.class() {
            FailureClass::Retry => counts = true,
            FailureClass::RetryAfter { delay } => (counts, longest) = (true, longest.max(delay)),
            FailureClass::Unavailable { delay } => longest = longest.max(delay),
            FailureClass::Dead => {}
        }
    }
    let disables = failed.iter().any(|(_, failure)| failure.disables());
    let error = NotAll { failed, of };
    match counts {
        // All of them are paused with it, so that its events wait: whose attempt counted then would not.
        _ if disables => Failure::disable(error),
        true if longest.is_zero() => Failure::retry(error),
        true => Failure::retry_after(longest, error),
        false => Failure::unavailable(longest, error),
    }
}

/// Some handlers of several failed.
#[derive(Debug)]
struct NotAll {
    failed: Vec<(String, Failure)>,
    of: usize,
}

impl fmt::Display for NotAll {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} handlers failed", self.failed.len(), self.of)?;
        for (at, (name, failure)) in self.failed.iter().enumerate() {
            let before = if at == 0 { ": " } else { "; " };
            write!(f, "{before}{name}: {}", failure.report())?;
        }
        Ok(())
    }
}

impl std::error::Error for NotAll {}

impl fmt::Debug for FanOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.0.handlers.iter().map(|(name, _)| name);
        f.debug_tuple("FanOut").field(&names.collect::<Vec<_>>()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use sendoff_core::{Event, Lane, Origin, Timestamp};

    use super::*;

    fn delivery() -> Delivery {
        let (created_at, origin) = (Timestamp::now(), Origin::Row(Lane::Cold));
        Delivery { event: Event::json("e", &1).unwrap(), created_at, attempt: 1, origin }
    }

    /// Fails with these, one in each run, then succeeds; and says how often it ran.
    fn fails(with: &'static [fn() -> Failure]) -> (AnyHandler, Arc<AtomicUsize>) {
        let runs = Arc::new(AtomicUsize::new(0));
        let count = runs.clone();
        let handler = AnyHandler::new(move |_: Delivery| {
            let failure = with.get(count.fetch_add(1, Ordering::Relaxed)).map(|make| make());
            async move { failure.map_or(Ok(()), Err) }
        });
        (handler, runs)
    }

    fn ran(runs: &[&Arc<AtomicUsize>]) -> Vec<usize> {
        runs.iter().map(|runs| runs.load(Ordering::Relaxed)).collect()
    }

    /// Holds D13.
    #[tokio::test]
    async fn an_event_is_done_when_all_are_and_who_succeeded_does_not_run_again() {
        let ((once, first), (twice, second)) = (fails(&[]), fails(&[|| Failure::retry("busy")]));
        let both = fan_out([("once", once), ("twice", twice)]);
        let delivery = delivery();
        let failure = both.handle(delivery.clone()).await.unwrap_err();
        assert_eq!(failure.class(), FailureClass::Retry);
        assert_eq!(failure.report(), "1 of 2 handlers failed: twice: busy");
        assert!(both.handle(delivery.clone()).await.is_ok());
        assert_eq!(ran(&[&first, &second]), [1, 2]);
        assert!(both.handle(delivery).await.is_ok());
        assert_eq!(ran(&[&first, &second]), [2, 3], "nothing is kept of what is done");
    }

    /// Holds D13.
    #[tokio::test]
    async fn one_that_can_never_be_keeps_no_other_from_it_and_the_event_is_dead_then() {
        let (never, first) = fails(&[|| Failure::dead("no such customer")]);
        let (late, second) = fails(&[|| Failure::unavailable(Duration::from_secs(2), "away")]);
        let both = fan_out([("never", never), ("late", late)]);
        let delivery = delivery();
        let failure = both.handle(delivery.clone()).await.unwrap_err();
        let delay = Duration::from_secs(2);
        assert_eq!(failure.class(), FailureClass::Unavailable { delay });
        let failure = both.handle(delivery).await.unwrap_err();
        assert_eq!(failure.class(), FailureClass::Dead);
        assert_eq!(failure.report(), "failed for good before: never");
        assert_eq!(ran(&[&first, &second]), [1, 2]);
    }

    #[tokio::test]
    async fn one_whose_target_wants_no_more_stops_all_of_them() {
        let (gone, _) = fails(&[|| Failure::disable("it wants no more")]);
        let (busy, _) = fails(&[|| Failure::retry("busy")]);
        let both = fan_out([("gone", gone), ("busy", busy)]);
        let failure = both.handle(delivery()).await.unwrap_err();
        assert!(failure.disables(), "{failure:?}");
        assert_eq!(failure.report(), "2 of 2 handlers failed: gone: it wants no more; busy: busy");
    }

    #[tokio::test]
    async fn a_panic_of_one_is_its_own_and_the_longest_delay_is_kept() {
        let panics = AnyHandler::new(|_: Delivery| async { panic!("told to") });
        let (asks, asked) = fails(&[|| Failure::retry_after(Duration::from_secs(3), "slow down")]);
        let (done, ran_once) = fails(&[]);
        let all = fan_out([("panics", panics), ("asks", asks), ("done", done)]);
        let failure = all.handle(delivery()).await.unwrap_err();
        assert_eq!(failure.class(), FailureClass::RetryAfter { delay: Duration::from_secs(3) });
        let text = failure.report();
        assert!(text.starts_with("2 of 3") && text.contains("panics: panicked: told to"), "{text}");
        assert_eq!(ran(&[&asked, &ran_once]), [1, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_has_less_time_than_the_others_keeps_none_of_them_from_theirs() {
        let second = Duration::from_secs(1);
        let (slow, _) = fails(&[]);
        let slow = AnyHandler::new(move |delivery: Delivery| {
            let slow = slow.clone();
            async move {
                tokio::time::sleep(2 * second).await;
                slow.handle(delivery).await
            }
        });
        let hangs = crate::deadline(second, |_: Delivery| std::future::pending());
        let both = fan_out([("slow", slow), ("hangs", AnyHandler::new(hangs))]);
        let failure = both.handle(delivery()).await.unwrap_err();
        let told = "1 of 2 handlers failed: hangs: handler did not finish within 1s";
        assert_eq!(failure.report(), told);
    }

    #[tokio::test]
    async fn what_is_remembered_is_bounded() {
        let (done, _) = fails(&[]);
        let all = fan_out([("done", done)]);
        for _ in 0..REMEMBERED + 5 {
            all.0.is_over(EventId::generate(), 0, Over::Done);
        }
        assert_eq!(lock(&all.0.over).len(), REMEMBERED);
    }
}
