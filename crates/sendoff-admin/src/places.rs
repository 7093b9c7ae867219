//! Who may be connected at once, and who goes where there is no room.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};

/// How long a connection may be silent, however many others wait: long enough for a request that was
/// sent at once.
const GRACE: Duration = Duration::from_millis(20);

/// Room for so many connections. Where it is full, the oldest that has not shown a right to be there
/// makes way: who only holds connections open keeps nobody waiting.
pub(crate) struct Places {
    room: Arc<Semaphore>,
    /// Those that were silent when somebody last looked, the oldest first.
    silent: Mutex<VecDeque<Silent>>,
}

struct Silent {
    since: Instant,
    heard: Heard,
    cut: Arc<Notify>,
}

/// Whether a connection has made a request that was let in.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heard(Arc<AtomicBool>);

impl Heard {
    /// It has.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// A connection's place. It is free again when this is dropped.
pub(crate) struct Place {
    pub(crate) heard: Heard,
    /// Told when somebody else needs the place.
    pub(crate) cut: Arc<Notify>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        // Nobody has to be cut who is gone.
        self.heard.set();
    }
}

impl Places {
    pub(crate) fn new(count: usize) -> Self {
        Self { room: Arc::new(Semaphore::new(count)), silent: Mutex::default() }
    }

    /// A place, at the cost of whoever was silent for longest; where nobody is silent, when one is free.
    pub(crate) async fn take(&self) -> Option<Place> {
        let mut free = std::pin::pin!(Arc::clone(&self.room).acquire_owned());
        let permit = match self.oldest() {
            Some((since, cut)) => tokio::select! {
                biased;
                permit = &mut free => permit,
                () = sleep_until(since + GRACE) => {
                    cut.notify_one();
                    free.await
                }
            },
            None => free.await,
        };
        let (heard, cut) = (Heard::default(), Arc::new(Notify::new()));
        let silent = Silent { since: Instant::now(), heard: heard.clone(), cut: Arc::clone(&cut) };
        self.silent().push_back(silent);
        Some(Place { heard, cut, _permit: permit.ok()? })
    }

    fn oldest(&self) -> Option<(Instant, Arc<Notify>)> {
        let mut silent = self.silent();
        silent.retain(|connection| !connection.heard.is_set());
        silent.front().map(|oldest| (oldest.since, Arc::clone(&oldest.cut)))
    }

    fn silent(&self) -> MutexGuard<'_, VecDeque<Silent>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_oldest_silent_one_makes_way_and_nobody_who_was_heard() {
        let places = Places::new(2);
        let (first, second) = (places.take().await.unwrap(), places.take().await.unwrap());
        first.heard.set();
        let told = async |place: &Place| timeout(GRACE, place.cut.notified()).await.is_ok();
        let mut waiting = std::pin::pin!(places.take());
        assert!(timeout(GRACE / 2, &mut waiting).await.is_err(), "it may just have sent something");
        assert!(timeout(GRACE, &mut waiting).await.is_err());
        assert!(told(&second).await && !told(&first).await);
        drop(second);
        waiting.await.unwrap().heard.set();
        let third = places.take().await.unwrap();
        third.heard.set();
        let mut waiting = std::pin::pin!(places.take());
        assert!(timeout(GRACE * 10, &mut waiting).await.is_err(), "nobody is silent");
        drop(first);
        assert!(waiting.await.is_some());
    }
}
