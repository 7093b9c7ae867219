//! What is paused, as far as this node knows, and how it hears of changes.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::poll;
use sendoff_core::{Pause, Paused, report};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::lock::lock;
use crate::operate::Observer;
use crate::rarely::Rarely;
use crate::store::{Answer, OutboxStore, PAUSE_LOOK, PauseStore, WakeStore, paused, within};

/// What is paused, as this node saw it last. Before its first look it knows nothing, and takes everything
/// for paused: what an operator stopped must not be delivered because a node was just started.
#[derive(Debug)]
pub(crate) struct Pauses {
    seen: Mutex<Seen>,
    /// Whether anything is paused: asked for every write.
    any: AtomicBool,
    /// Whether somebody looks again and again.
    watched: AtomicBool,
    /// Rings in a row for which nothing was found.
    in_vain: AtomicU32,
    /// Handlers that this node could not pause although their targets want no more, and what was said of that.
    refused: Mutex<HashMap<String, Rarely>>,
}

#[derive(Debug)]
struct Seen {
    paused: Arc<Paused>,
    at: Option<Instant>,
}

impl Default for Pauses {
    fn default() -> Self {
        let seen = Seen { paused: Arc::new(Paused::ALL), at: None };
        let (any, watched) = (AtomicBool::new(true), AtomicBool::new(false));
        let (in_vain, refused) = (AtomicU32::new(0), Mutex::default());
        Self { seen: Mutex::new(seen), any, watched, in_vain, refused }
    }
}

/// While something is paused a ring is likely to be for an event of it, which nobody may take. So a node
/// that was rung for sleeps on for so long, and is not rung for meanwhile.
const RING_PAUSE: Duration = Duration::from_millis(300);

/// So does one that was rung for so often in a row in vain: what is written is for other nodes. It stays armed,
/// since they share the bell.
const IN_VAIN: u32 = 8;

impl Pauses {
    /// What is paused.
    pub(crate) fn now(&self) -> Arc<Paused> {
        lock(&self.seen).paused.clone()
    }

    /// Whether anything is.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Whether a look was made.
    fn is_known(&self) -> bool {
        lock(&self.seen).at.is_some()
    }

    /// Looks at the store. Answers what is paused if that is not what was seen before.
    pub(crate) async fn look<S: PauseStore + ?Sized>(
        &self,
        store: &S,
    ) -> Answer<Option<Arc<Paused>>> {
        let pauses = store.pauses().await?;
        let now = paused(&pauses);
        let mut seen = lock(&self.seen);
        let is_first = seen.at.replace(Instant::now()).is_none();
        if !is_first && *seen.paused == now {
            return Ok(None);
        }
        let before = if is_first { Paused::default() } else { (*seen.paused).clone() };
        seen.paused = Arc::new(now);
        self.any.store(!seen.paused.is_empty(), Ordering::Relaxed);
        let now = seen.paused.clone();
        drop(seen);
        say(&before, &now, &pauses);
        Ok(Some(now))
    }

    /// A handler could not be paused. Where that is to be said, how often it could not since it last was.
    pub(crate) fn was_refused(&self, handler: &str) -> Option<u64> {
        let mut refused = lock(&self.refused);
        refused.entry(handler.to_owned()).or_default().again(Instant::now())
    }

    /// It could.
    pub(crate) fn was_granted(&self, handler: &str) {
        lock(&self.refused).remove(handler);
    }

    /// Whether it could not the last time that this node asked for it.
    pub(crate) fn is_refused(&self, handler: &str) -> bool {
        lock(&self.refused).contains_key(handler)
    }

    /// The same where nobody else looks, and the last look is too old to be believed.
    pub(crate) async fn look_if_old<S: PauseStore + ?Sized>(
        &self,
        store: &S,
    ) -> Answer<Option<Arc<Paused>>> {
        let is_new = || lock(&self.seen).at.is_some_and(|at| at.elapsed() < PAUSE_LOOK);
        if self.watched.load(Ordering::Relaxed) || is_new() {
            return Ok(None);
        }
        self.look(store).await
    }

    /// A look found something: rings are not in vain.
    pub(crate) fn found(&self) {
        self.in_vain.store(0, Ordering::Relaxed);
    }

    /// Waits until somebody rings; while something is paused, for a while longer, with the bell disarmed.
    /// Cancel-safe: `armed` says what the bell was told.
    pub(crate) async fn rung<S: WakeStore + ?Sized>(
        &self,
        store: &S,
        armed: &AtomicBool,
        limit: Duration,
    ) -> Answer<()> {
        store.rung().await;
        let in_vain = self.in_vain.fetch_add(1, Ordering::Relaxed) >= IN_VAIN;
        if !self.any() {
            if in_vain {
                sleep(RING_PAUSE).await;
            }
            return Ok(());
        }
        if armed.swap(false, Ordering::Relaxed) {
            within(limit, store.disarm()).await?;
        }
        sleep(RING_PAUSE).await;
        Ok(())
    }
}

/// Says what changed.
fn say(before: &Paused, now: &Paused, pauses: &[Pause]) {
    let (before, now): (Vec<_>, Vec<_>) = (before.scopes().collect(), now.scopes().collect());
    let is_new = |pause: &&Pause| !before.contains(&pause.scope);
    for Pause { scope, actor, reason, .. } in pauses.iter().filter(is_new) {
        warn!(%scope, actor, reason, "paused: nothing of it is delivered until it is resumed");
    }
    for scope in before.iter().filter(|scope| !now.contains(scope)) {
        info!(%scope, "resumed: it is delivered again");
    }
}

/// What a component does when it hears what is paused from now on.
type Apply = Arc<dyn Fn(&Arc<Paused>) + Send + Sync>;

/// Sees to it that a node knows what is paused.
#[derive(Clone)]
pub(crate) struct PauseWatch {
    pub(crate) store: Arc<dyn OutboxStore>,
    pub(crate) pauses: Arc<Pauses>,
    pub(crate) observer: Observer,
    /// How often to look where nothing is heard.
    pub(crate) interval: Duration,
    /// How long a look may take.
    pub(crate) limit: Duration,
    pub(crate) apply: Apply,
}

/// Until it is dropped, somebody looks again and again.
struct Watched<'p>(&'p Pauses);

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.0.watched.store(false, Ordering::Relaxed);
    }
}

impl PauseWatch {
    /// Carries out what is known by now.
    pub(crate) fn begin(&self) {
        self.carry_out(&self.pauses.now());
    }

    fn carry_out(&self, paused: &Arc<Paused>) {
        (self.apply)(paused);
        if self.pauses.is_known() {
            let scopes: Vec<_> = paused.scopes().collect();
            self.observer.tell(|metrics| metrics.paused(&scopes));
        }
    }

    /// Looks until it is dropped.
    pub(crate) async fn run(self) {
        let Self { store, pauses, interval, limit, .. } = &self;
        pauses.watched.store(true, Ordering::Relaxed);
        let _watched = Watched(pauses);
        let mut fails = false;
        loop {
            // It listens before it looks, so that nothing comes between; and a look is made to its end.
            let mut changed = pin!(store.pauses_changed());
            let has_changed = poll!(changed.as_mut()).is_ready();
            let wait = match within(*limit, pauses.look(&**store)).await {
                Ok(paused) => {
                    fails = false;
                    if let Some(paused) = paused {
                        self.carry_out(&paused);
                    }
                    *interval
                }
                Err(error) => {
                    if !std::mem::replace(&mut fails, true) {
                        warn!(error = report(&error), "could not see what is paused: as before");
                    }
                    PAUSE_LOOK
                }
            };
            if has_changed && !fails {
                continue;
            }
            tokio::select! {
                biased;
                () = changed, if !has_changed => {}
                () = sleep(wait) => {}
            }
        }
    }
}
