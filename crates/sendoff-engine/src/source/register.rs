//! Says which events this node handles, and hears of those that others do.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::{Unroutable, limits, report};
use tokio::time::{Instant, sleep};
use tracing::{debug, warn};

use crate::dispatch::{Elsewhere, FollowUp, Kind, Unknown};
use crate::lock::lock;
use crate::store::{Answer, EventKind, REGISTERED, RegisterStore, within};

/// How often at most a node says so; and at least three times while it is believed.
const OFTEN: Duration = Duration::from_secs(60);

/// For how long others believe it where they are told nothing of how long: as by default.
const BELIEVED: Duration = Duration::from_secs(15 * 60);

/// A node among others. Cheap to clone; clones are the same.
#[derive(Clone)]
pub(crate) struct Register {
    store: Arc<dyn RegisterStore>,
    /// What this node handles, as it is written down.
    mine: Arc<[Kind]>,
    unknown: Arc<Unknown>,
    unroutable: Unroutable,
    /// How long a statement may take.
    limit: Duration,
    /// When it was said last, or tried to.
    said: Arc<Mutex<Option<Instant>>>,
}

impl Register {
    pub(crate) fn new(
        store: Arc<dyn RegisterStore>,
        mine: Vec<Kind>,
        follow_up: &FollowUp,
        limit: Duration,
    ) -> Self {
        let (unknown, unroutable) = (follow_up.unknown().clone(), follow_up.unroutable());
        // Under any other name there can be no event.
        let can_be = |(about, of): &Kind| {
            let names = about.chars().count() <= limits::AGGREGATE_TYPE_CHARS
                && of.chars().count() <= limits::EVENT_TYPE_CHARS;
            names && !about.contains('\0') && !of.contains('\0')
        };
        let mine = mine.into_iter().filter(can_be).take(REGISTERED).collect();
        Self { store, mine, unknown, unroutable, limit, said: Arc::default() }
    }

    /// For how long a node is believed that says nothing more, and how often it says something.
    fn pace(&self) -> (Duration, Duration) {
        let believed = match self.unroutable {
            Unroutable::Defer { at_most, .. } => at_most,
            _ => BELIEVED,
        };
        (believed, (believed / 3).min(OFTEN))
    }

    /// Says and hears, unless that was lately. Where it fails the node goes on with what it knows: nothing
    /// depends on it but what becomes of events that it has no handler for.
    pub(crate) async fn look_if_old(&self) {
        let (_, often) = self.pace();
        let was_lately = lock(&self.said).is_some_and(|said| said.elapsed() < often.mul_f64(0.8));
        if !was_lately {
            self.look().await;
        }
    }

    async fn look(&self) {
        *lock(&self.said) = Some(Instant::now());
        match within(self.limit, self.ask()).await {
            Ok(true) => debug!("what other nodes handle has changed"),
            Ok(false) => {}
            Err(error) => {
                warn!(error = report(&error), "could not see what other nodes handle: as before")
            }
        }
    }

    async fn ask(&self) -> Answer<bool> {
        let mine = self.mine.iter();
        let mine: Vec<_> = mine
            .map(|(aggregate_type, event_type)| EventKind { aggregate_type, event_type })
            .collect();
        let registered = self.store.register(&mine, self.pace().0).await?;
        Ok(self.unknown.know(Elsewhere::of(registered, &self.mine)))
    }

    /// Until it is dropped.
    pub(crate) async fn run(self) {
        loop {
            self.look_if_old().await;
            sleep(self.pace().1.mul_f64(0.9 + 0.1 * fastrand::f64())).await;
        }
    }
}
