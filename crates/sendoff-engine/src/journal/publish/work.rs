//! One pair's work: what it does besides deciding.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use sendoff_core::journal::{Ask, Position, Query, Recorded, Topic};
use sendoff_core::{Failure, FailureClass, Jitter, limits};
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use super::options::PairOptions;
use super::publisher::{Publisher, Stopped};
use super::store::{Parked, PublishStore, Retried};
use super::window::Row;
use crate::journal::store::{Page, TailSource};
use crate::store::StoreError;

/// A run of a publisher.
#[derive(Debug, Default)]
pub(super) struct Ran {
    /// So many facts are durable.
    pub(super) done: usize,
    /// What stopped it.
    pub(super) failed: Option<Failed>,
}

/// A failure, as it is stored.
#[derive(Debug, Clone)]
pub(super) struct Failed {
    pub(super) class: FailureClass,
    pub(super) error: String,
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        let report = failure.report();
        let error = limits::truncate(&report, limits::ERROR_CHARS).replace('\0', "\u{fffd}");
        Self { class: failure.class(), error }
    }
}

impl Failed {
    /// Whether it says itself that it is the target's fault.
    fn is_outage(&self) -> bool {
        matches!(self.class, FailureClass::RetryAfter { counted: false, .. })
    }
}

/// What a probe behind a fact found.
#[derive(Debug)]
pub(super) struct Probed {
    /// The facts it tried that failed, in order.
    pub(super) failed: Vec<(Position, Failed)>,
    /// The one behind them that was published; none if there was none.
    pub(super) passed: Option<Arc<Recorded>>,
}

/// A fact that was set aside and tried again.
#[derive(Debug)]
pub(super) struct Again {
    /// What became of it; none where the pair is another's by now.
    pub(super) outcome: Option<Retried>,
    /// The fact, where there is one.
    pub(super) fact: Option<Arc<Recorded>>,
}

/// Publishes facts, if the publisher is well.
pub(super) async fn publish(
    publisher: &dyn Publisher,
    facts: &[Arc<Recorded>],
    options: &PairOptions,
) -> Ran {
    let publish = async {
        if !publisher.is_healthy().await {
            return Err(Failure::unavailable(options.interval, Unhealthy).into());
        }
        publisher.publish_batch(facts).await
    };
    let ran = timeout(options.publish_timeout, AssertUnwindSafe(publish).catch_unwind()).await;
    let stopped = match ran {
        Ok(Ok(Ok(()))) => return Ran { done: facts.len(), failed: None },
        Ok(Ok(Err(stopped))) => stopped,
        Ok(Err(_)) => Stopped::behind(0, Panicked),
        Err(_) => Stopped::behind(0, TooSlow(options.publish_timeout)),
    };
    let done = stopped.done.min(facts.len().saturating_sub(1));
    Ran { done, failed: Some(stopped.failure.into()) }
}

/// Publishes facts one by one until one of them can be.
pub(super) async fn probe(
    publisher: &dyn Publisher,
    facts: &[Arc<Recorded>],
    options: &PairOptions,
) -> Probed {
    let (mut failed, started) = (Vec::new(), Instant::now());
    for fact in facts {
        let ran = publish(publisher, std::slice::from_ref(fact), options).await;
        let Some(failure) = ran.failed else {
            return Probed { failed, passed: Some(Arc::clone(fact)) };
        };
        let down = failure.is_outage();
        failed.push((fact.position, failure));
        if down || started.elapsed() >= options.publish_timeout {
            break;
        }
    }
    Probed { failed, passed: None }
}

/// Reads what the window does not reach back to, for pairs that lag. One connection for all of them.
#[derive(Default)]
pub(super) struct CatchUp(Mutex<Option<Box<dyn TailSource>>>);

impl CatchUp {
    /// Rows behind `after`, up to a position up to which everything is decided, and how far they go.
    pub(super) async fn read<S: PublishStore>(
        &self,
        store: &S,
        after: Position,
        up_to: Position,
        limit: usize,
    ) -> Result<(Vec<Row>, Position), StoreError> {
        let mut source = self.0.lock().await;
        // Taken out, so that it is gone where this future is dropped or fails.
        let mut looking = match source.take() {
            Some(known) => known,
            None => store.tail().await?,
        };
        let look = looking.look(Ask::Rows, after, limit).await?;
        *source = Some(looking);
        let full = !look.complete;
        let last = look.rows.last().map(|row| row.position);
        let rows: Vec<_> =
            look.rows.into_iter().take_while(|row| row.position <= up_to).map(Row::from).collect();
        let reaches = match last {
            Some(last) if full => last.min(up_to),
            _ => up_to,
        };
        Ok((rows, reaches))
    }

    /// The next facts of a topic behind a position, up to `floor`; those of one page.
    pub(super) async fn others<S: PublishStore>(
        &self,
        store: &S,
        topic: &Topic,
        mut after: Position,
        floor: Position,
    ) -> Result<Vec<Arc<Recorded>>, StoreError> {
        while after < floor {
            let (rows, up_to) = self.read(store, after, floor, limits::BATCH_ROWS).await?;
            let facts: Vec<_> = rows
                .into_iter()
                .filter_map(|row| row.fact.ok())
                .filter(|fact| topic.selects(&fact.fact))
                .collect();
            if !facts.is_empty() {
                return Ok(facts);
            }
            after = up_to;
        }
        Ok(Vec::new())
    }
}

/// Tries facts again that were set aside, and writes what became of each. Ends at an outage, and before it takes too long: what is new waits meanwhile.
pub(super) async fn retry_parked<S: PublishStore>(
    store: &S,
    publisher: &dyn Publisher,
    options: &PairOptions,
    (owner, epoch): (&str, i64),
    parked: &[Parked],
) -> Result<Vec<Again>, StoreError> {
    let (mut tried, started) = (Vec::new(), Instant::now());
    for parked in parked {
        let (fact, failed) = publish_again(store, publisher, options, parked.position).await?;
        let outage = failed.as_ref().is_some_and(Failed::is_outage);
        let outcome = match failed {
            None => Retried::Published,
            Some(Failed { class, error }) => {
                let (attempts, delay) = after_retry(parked.attempts, class, options);
                Retried::Failed { attempts, delay, error }
            }
        };
        let written = store.settle_parked(owner, epoch, parked, &outcome).await?;
        tried.push(Again { outcome: written.then_some(outcome), fact });
        if outage || !written || started.elapsed() >= options.interval {
            break;
        }
    }
    Ok(tried)
}

/// The fact at a position, and why it could not be published.
async fn publish_again<S: PublishStore>(
    store: &S,
    publisher: &dyn Publisher,
    options: &PairOptions,
    position: Position,
) -> Result<(Option<Arc<Recorded>>, Option<Failed>), StoreError> {
    let before = Position::new(position.get().saturating_sub(1)).unwrap_or(Position::START);
    match store.read(&Query::all(), Page { after: before, up_to: position, limit: 1 }).await {
        // What retention removed is nobody's any more.
        Ok(facts) if facts.is_empty() => Ok((None, None)),
        Ok(facts) => {
            let facts: Vec<_> = facts.into_iter().map(Arc::new).collect();
            let failed = publish(publisher, &facts, options).await.failed;
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
    let policy = || options.parked_retry.delay(next.saturating_sub(options.max_attempts), jitter);
    match class {
        FailureClass::RetryAfter { delay, counted: false } => {
            (attempts, Some(delay.max(options.parked_retry.delay(1, jitter))))
        }
        _ if next >= options.max_attempts.saturating_add(options.parked_attempts) => (next, None),
        FailureClass::RetryAfter { delay, counted: true } => (next, Some(delay.max(policy()))),
        FailureClass::Retry | FailureClass::Dead => (next, Some(policy())),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the publisher says that it is not healthy")]
struct Unhealthy;

#[derive(Debug, thiserror::Error)]
#[error("the publisher panicked")]
struct Panicked;

#[derive(Debug, thiserror::Error)]
#[error("nothing was published within {0:?}")]
struct TooSlow(Duration);
