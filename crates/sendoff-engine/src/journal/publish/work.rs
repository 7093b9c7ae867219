//! One pair's work: what it does besides deciding.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::journal::publish::PublishRun;
use sendoff_core::journal::{Ask, Position, Query, Recorded, Topic};
use sendoff_core::{Delivery, Failure, FailureClass, Jitter, Sink, limits};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::options::PairOptions;
use super::settle_in::Settling;
use super::store::{Parked, PublishStore, Retried, TriedAgain};
use super::tries::Tries;
use super::window::Row;
use crate::appetite::{Appetite, Portion};
use crate::journal::store::{Page, TailLook, TailSource};
use crate::sink::{Door, discard, last_words};
use crate::store::{StoreError, within};

/// A run of a publisher.
#[derive(Debug, Default)]
pub(super) struct Ran {
    /// So many facts are durable.
    pub(super) done: usize,
    /// What stopped it.
    pub(super) failed: Option<Failed>,
    /// How many of its facts each transaction of its own was to settle, the fewest first. What became of that,
    /// only the cursor tells.
    pub(super) settled: Vec<usize>,
}

impl Ran {
    /// The same, once it is known that its transactions have settled the first `done` facts, and whether one of
    /// them was rolled back. What they settled is published, whatever the publisher says; and what they did not
    /// settle is not, and comes again.
    pub(super) fn proved(self, done: usize, rolled_back: bool) -> Self {
        let settled = Vec::new();
        if rolled_back {
            let failed = self.failed.or_else(|| Some(Failure::retry(NotCommitted).into()));
            return Self { done, failed, settled };
        }
        // A failure of what was settled came too late, and one of a fact after others that were not settled comes again
        // in its turn.
        let failed = self.failed.filter(|_| self.done == done);
        Self { done, failed, settled }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the publisher says that it succeeded, but its transaction did not commit")]
struct NotCommitted;

/// A failure, as it is stored.
#[derive(Debug, Clone)]
pub(super) struct Failed {
    pub(super) class: FailureClass,
    /// Whether its target wants no more.
    pub(super) disables: bool,
    pub(super) error: String,
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        // The error is the publisher's: it may panic where it is printed, or where it is dropped.
        let (class, disables) = (failure.class(), failure.disables());
        Self { class, disables, error: last_words(failure) }
    }
}

impl Failed {
    /// Whether it says itself that it is the target's fault.
    pub(super) fn is_unavailable(&self) -> bool {
        matches!(self.class, FailureClass::Unavailable { .. })
    }
}

/// What was found out about facts that failed.
#[derive(Debug)]
pub(super) enum Probed {
    /// What comes after them could not be published either: the target is unavailable.
    Unavailable {
        /// Tries that failed.
        tries: usize,
        /// The later fact that was tried.
        later: Option<Position>,
    },
    /// Something could.
    Well {
        /// All that was published, in the order it was.
        published: Vec<Arc<Recorded>>,
        /// What failed again, although the target is well, in the order of positions.
        poison: Vec<(Position, Failed)>,
        /// Tries that failed.
        failed: usize,
        /// Everything up to here is among them.
        up_to: Position,
    },
}

/// Which facts after one that fails were tried, and failed as well.
#[derive(Debug, Clone, Copy)]
pub(super) struct TriedLater {
    /// Those up to here.
    pub(super) up_to: Position,
    /// How often any of them was.
    pub(super) times: usize,
}

/// A fact that was parked and tried again.
#[derive(Debug)]
pub(super) struct Again {
    /// What became of it; none where the pair is another's by now.
    pub(super) outcome: Option<Retried>,
    /// The fact, where there is one.
    pub(super) fact: Option<Arc<Recorded>>,
    /// Where and why its target wants no more, if it does.
    pub(super) disabled: Option<(Position, String)>,
}

/// Where a pair publishes, and what is known of it.
#[derive(Clone)]
pub(super) struct Outlet {
    pub(super) sink: Arc<dyn Sink>,
    pub(super) door: Door,
    pub(super) tries: Arc<Tries>,
    pub(super) options: PairOptions,
}

impl Outlet {
    /// Publishes facts, if the sink is healthy.
    pub(super) async fn publish(&self, facts: &[Arc<Recorded>]) -> Ran {
        self.publish_in(facts, None).await
    }

    /// The same in a run that settles facts in transactions of its own.
    pub(super) async fn publish_settling(
        &self,
        facts: &[Arc<Recorded>],
        settling: Settling,
    ) -> Ran {
        let ran = self.publish_in(facts, Some(&settling.run)).await;
        Ran { settled: settling.end(), ..ran }
    }

    async fn publish_in(&self, facts: &[Arc<Recorded>], run: Option<&Arc<PublishRun>>) -> Ran {
        let attempts = self.tries.next(facts);
        let delivery = |(fact, attempt)| {
            let delivery = Delivery::of_fact(fact, attempt);
            match run {
                Some(run) => delivery.in_run(run),
                None => delivery,
            }
        };
        let deliveries: Vec<_> = facts.iter().zip(attempts).map(delivery).collect();
        let verdicts = self.door.deliver(&*self.sink, &deliveries).await;
        // In order: whatever was delivered after one that failed is delivered again.
        let done = verdicts.iter().take_while(|verdict| verdict.is_ok()).count();
        let mut rest = verdicts.into_iter().skip(done);
        let failed = rest.next().and_then(Result::err).map(Failed::from);
        rest.for_each(discard);
        self.tries.done(&facts[..done]);
        if let Some(fact) = facts.get(done)
            && failed.as_ref().is_some_and(|failed| !failed.is_unavailable())
        {
            self.tries.failed(fact.position);
        }
        Ran { done, failed, settled: Vec::new() }
    }

    async fn publish_one(&self, fact: &Arc<Recorded>) -> Option<Failed> {
        self.publish(slice::from_ref(fact)).await.failed
    }

    /// Finds out whether a fact that failed is poison: tries it once more, and then, at once, one of those
    /// after it. If that can be published, what failed before is tried again: the target may have come
    /// back between the two, and only what fails before and after something else did not is poison.
    pub(super) async fn probe(
        &self,
        suspect: Arc<Recorded>,
        after: &[Arc<Recorded>],
        tried: TriedLater,
    ) -> Probed {
        // The first that was not tried: it overtakes nothing but what was. Where there is none, each in
        // its turn.
        let untried = after.iter().position(|fact| fact.position > tried.up_to);
        let Some(at) = untried.or_else(|| tried.times.checked_rem(after.len())) else {
            // Nothing was there to read.
            return Probed::Unavailable { tries: 0, later: None };
        };
        // The lowest first: while a target is unavailable nothing overtakes it.
        let Some(failure) = self.publish_one(&suspect).await else {
            let up_to = suspect.position;
            return Probed::Well { published: vec![suspect], poison: vec![], failed: 0, up_to };
        };
        if failure.is_unavailable() {
            return Probed::Unavailable { tries: 1, later: None };
        }
        let (between, later) = (&after[..at], &after[at]);
        if self.publish_one(later).await.is_some() {
            return Probed::Unavailable { tries: 2, later: Some(later.position) };
        }
        let (mut published, mut poison) = (vec![Arc::clone(later)], Vec::new());
        for fact in [&suspect].into_iter().chain(between) {
            match self.publish_one(fact).await {
                None => published.push(Arc::clone(fact)),
                Some(failure) => poison.push((fact.position, failure)),
            }
        }
        let failed = 1 + poison.len();
        Probed::Well { published, poison, failed, up_to: later.position }
    }
}

/// Reads what the window does not reach back to, for pairs that lag. One connection for all of them.
pub(super) struct CatchUp(Mutex<Reading>);

struct Reading {
    source: Option<Box<dyn TailSource>>,
    appetite: Appetite,
}

impl CatchUp {
    pub(super) fn new(appetite: Appetite) -> Self {
        Self(Mutex::new(Reading { source: None, appetite }))
    }

    /// Rows after a position, up to one up to which everything is decided, and how far they go: as many
    /// as come in time, and `most` at most.
    pub(super) async fn read<S: PublishStore>(
        &self,
        store: &S,
        (after, up_to): (Position, Position),
        most: usize,
        limit: Duration,
    ) -> Result<(Vec<Row>, Position), StoreError> {
        let mut reading = self.0.lock().await;
        let asked = reading.appetite.portion();
        let page = Page { after, up_to, limit: asked.rows.min(most), bytes: asked.bytes };
        // Taken out, so that it is gone where this future is dropped or fails.
        let known = reading.source.take();
        let began = Instant::now();
        let look = timeout(limit, look(store, known, page)).await;
        let Ok(look) = look else {
            reading.appetite.timed_out(asked);
            return Err(StoreError::Timeout);
        };
        let (source, look) = look?;
        reading.source = Some(source);
        let last = look.rows.last().map(|row| row.position);
        let rows: Vec<_> =
            look.rows.into_iter().take_while(|row| row.position <= up_to).map(Row::from).collect();
        let got = Portion { rows: rows.len(), bytes: rows.iter().map(Row::bytes).sum() };
        reading.appetite.answered(got, began.elapsed(), limit);
        // A look that ended early says how far it is decided; nothing may be taken for passed after it.
        let reaches = match last {
            _ if look.complete => up_to,
            Some(last) => last.max(look.proved).min(up_to),
            None => after.max(look.proved).min(up_to),
        };
        Ok((rows, reaches))
    }

    /// The next facts of a topic after a position, in order and without one left out, up to `floor`; not
    /// many more than `most`, and whether there are no more.
    pub(super) async fn others<S: PublishStore>(
        &self,
        store: &S,
        topic: &Topic,
        (mut after, floor): (Position, Position),
        most: usize,
        limit: Duration,
    ) -> Result<(Vec<Arc<Recorded>>, bool), StoreError> {
        let mut facts = Vec::new();
        while facts.len() < most && after < floor {
            let (rows, up_to) = self.read(store, (after, floor), limits::BATCH_ROWS, limit).await?;
            for row in rows {
                match row.fact {
                    Ok(fact) if topic.selects(&fact.fact) => facts.push(fact),
                    Ok(_) => {}
                    // What is after it has to wait until it is parked.
                    Err(_) => return Ok((facts, false)),
                }
            }
            if up_to <= after {
                return Ok((facts, false));
            }
            after = up_to;
        }
        Ok((facts, after >= floor))
    }
}

/// A look at a page, on the connection that is known or on a new one.
async fn look<S: PublishStore>(
    store: &S,
    known: Option<Box<dyn TailSource>>,
    page: Page,
) -> Result<(Box<dyn TailSource>, TailLook), StoreError> {
    let mut source = match known {
        Some(known) => known,
        None => store.tail().await?,
    };
    let look = source.look(Ask::Rows, page).await?;
    Ok((source, look))
}

/// Tries facts again that were parked, and writes what became of each. Ends at an outage, and before
/// it takes too long: what is new waits meanwhile.
pub(super) async fn retry_parked<S: PublishStore>(
    store: &S,
    outlet: &Outlet,
    (owner, epoch): (&str, i64),
    parked: &[Parked],
    limit: Duration,
) -> Result<Vec<Again>, StoreError> {
    let (mut tried, started) = (Vec::new(), Instant::now());
    for parked in parked {
        let (fact, failed) = publish_again(store, outlet, parked, limit).await?;
        let outage = failed.as_ref().is_some_and(Failed::is_unavailable);
        let disabled = failed.as_ref().filter(|failed| failed.disables);
        let disabled = disabled.map(|failed| (parked.position, failed.error.clone()));
        let outcome = match failed {
            None => Retried::Published,
            Some(Failed { class, error, .. }) => {
                let (attempts, delay) = after_retry(parked.attempts, class, &outlet.options);
                Retried::Failed { attempts, delay, error }
            }
        };
        let again = TriedAgain { owner, epoch, parked, outcome: &outcome };
        let written = within(limit, store.settle_parked(again)).await?;
        tried.push(Again { outcome: written.then_some(outcome), fact, disabled });
        if outage || !written || started.elapsed() >= outlet.options.interval {
            break;
        }
    }
    Ok(tried)
}

/// The fact at a position, and why it could not be published.
async fn publish_again<S: PublishStore>(
    store: &S,
    outlet: &Outlet,
    &Parked { position, attempts, .. }: &Parked,
    limit: Duration,
) -> Result<(Option<Arc<Recorded>>, Option<Failed>), StoreError> {
    let before = Position::new(position.get().saturating_sub(1)).unwrap_or(Position::START);
    let (all, page) = (Query::all(), Page::first(before, position));
    let read = within(limit, store.read(&all, page)).await;
    match read.map(|found| found.facts) {
        // What retention removed is nobody's any more.
        Ok(facts) if facts.is_empty() => Ok((None, None)),
        Ok(facts) => {
            let facts: Vec<_> = facts.into_iter().map(Arc::new).collect();
            outlet.tries.learn(position, attempts);
            let failed = outlet.publish(&facts).await.failed;
            Ok((facts.into_iter().next(), failed))
        }
        // It cannot be read: then it cannot be published either.
        Err(StoreError::Refused(error)) => Ok((None, Some(Failure::dead(error).into()))),
        Err(error) => Err(error),
    }
}

/// How often it was tried by then, and when again.
fn after_retry(
    attempts: u32,
    class: FailureClass,
    options: &PairOptions,
) -> (u32, Option<Duration>) {
    let jitter = Jitter::new(fastrand::f64());
    let next = attempts.saturating_add(1);
    let policy =
        || options.parked_policy().delay(next.saturating_sub(options.retry.max_attempts), jitter);
    match class {
        FailureClass::Unavailable { delay } => {
            (attempts, Some(delay.max(options.parked_policy().delay(1, jitter))))
        }
        _ if next >= options.retry.max_attempts.saturating_add(options.parked.max_attempts) => {
            (next, None)
        }
        FailureClass::RetryAfter { delay } => (next, Some(delay.max(policy()))),
        FailureClass::Retry | FailureClass::Dead => (next, Some(policy())),
    }
}
