//! Says which events this node handles, and hears of those that others do.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::{Unroutable, limits, report};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use crate::dispatch::{Elsewhere, FollowUp, Kind, Unknown};
use crate::lock::lock;
use crate::store::{Answer, EventKind, REGISTERED, RegisterStore, within};

/// How often a node says so.
const OFTEN: Duration = Duration::from_secs(60);

/// For how long others believe it at least: so often it may fail, or be late.
const BELIEVED: Duration = OFTEN.saturating_mul(3);

/// When it tries again where it failed.
const FAILED_PAUSE: Duration = Duration::from_secs(5);

/// A node among others. Cheap to clone; clones are the same.
#[derive(Clone)]
pub(crate) struct Register {
    store: Arc<dyn RegisterStore>,
    /// Answers what this node handles, as it is written down.
    mine: Mine,
    unknown: Arc<Unknown>,
    unroutable: Unroutable,
    /// How long a statement may take.
    limit: Duration,
    /// When to say it again.
    next: Arc<Mutex<Option<Instant>>>,
    /// Held while it is said: whoever is about to take something meanwhile hears it first.
    asking: Arc<tokio::sync::Mutex<()>>,
    /// It is to be said at once.
    hurry: Arc<Notify>,
}

/// What a node handles, which may change.
pub(crate) type Mine = Arc<dyn Fn() -> Vec<Kind> + Send + Sync>;

impl Register {
    pub(crate) fn new(
        store: Arc<dyn RegisterStore>,
        mine: Mine,
        follow_up: &FollowUp,
        limit: Duration,
    ) -> Self {
        let (unknown, unroutable) = (follow_up.unknown().clone(), follow_up.unroutable());
        let (next, asking, hurry) = (Arc::default(), Arc::default(), Arc::default());
        Self { store, mine, unknown, unroutable, limit, next, asking, hurry }
    }

    /// For how long a node is believed that says nothing more: as long as what nobody handles may wait.
    fn believed(&self) -> Duration {
        match self.unroutable {
            Unroutable::Defer { at_most, .. } => at_most.max(BELIEVED),
            _ => BELIEVED,
        }
    }

    /// Says and hears, unless that was lately; if somebody is about it, this waits for that. Where it fails the node goes on with what it knows: nothing
    /// depends on it but what becomes of events that it has no handler for.
    pub(crate) async fn look_if_old(&self) {
        let _asking = self.asking.lock().await;
        if lock(&self.next).is_none_or(|next| Instant::now() >= next) {
            self.look().await;
        }
    }

    async fn look(&self) {
        self.ask_again_in(FAILED_PAUSE);
        match within(self.limit, self.ask()).await {
            Ok(is_news) => {
                self.ask_again_in(OFTEN.mul_f64(0.9 + 0.1 * fastrand::f64()));
                if is_news {
                    debug!("what other nodes handle has changed");
                }
            }
            Err(error) => {
                warn!(error = report(&error), "could not see what other nodes handle: as before")
            }
        }
    }

    fn ask_again_in(&self, pause: Duration) {
        *lock(&self.next) = Some(Instant::now() + pause);
    }

    async fn ask(&self) -> Answer<bool> {
        let mine = (self.mine)();
        let told = mine.iter().filter(|kind| can_be(kind)).take(REGISTERED);
        let told: Vec<_> = told.map(EventKind::from).collect();
        let registered = self.store.register(&told, self.believed()).await?;
        Ok(self.unknown.know(Elsewhere::of(registered, &mine)))
    }

    /// Until it is dropped.
    pub(crate) async fn run(self) {
        loop {
            self.look_if_old().await;
            let next = lock(&self.next).unwrap_or_else(Instant::now);
            tokio::select! {
                biased;
                () = self.hurry.notified() => {}
                () = sleep_until(next) => {}
            }
        }
    }

    /// What this node handles has changed: says so at once.
    pub(crate) fn has_changed(&self) {
        *lock(&self.next) = None;
        self.hurry.notify_one();
    }
}

/// Under any other name there can be no event.
fn can_be((about, of): &Kind) -> bool {
    let fits = about.chars().count() <= limits::AGGREGATE_TYPE_CHARS
        && of.chars().count() <= limits::EVENT_TYPE_CHARS;
    fits && !about.contains('\0') && !of.contains('\0')
}
