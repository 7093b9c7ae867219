//! Looks that stand in for a bell, where a database has none.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::Paused;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::lock::lock;
use crate::store::StoreError;

/// After a look that failed: the database has other troubles.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// So many of the rows that are visible are told apart, those that became so last: enough to see that there
/// is another one, however many wait that nobody may take.
pub const SIGHT_ROWS: usize = 64;

/// What a look saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sight {
    /// The rows that became visible last, at most [`SIGHT_ROWS`], by whatever tells them apart.
    pub visible: BTreeSet<i64>,
    /// What is paused.
    pub paused: Paused,
}

impl Sight {
    /// Whether a row is visible that was not before. What was seen and is still there waits for somebody else,
    /// or is paused: ringing for it again would be in vain.
    fn has_more_than(&self, before: &Self) -> bool {
        !self.visible.is_subset(&before.visible)
    }
}

/// Looks every so often whether there is work, and what is paused, while somebody wants to know: one look for
/// all who wait, in a task of its own, so that nobody who stops waiting leaves a statement behind.
pub struct Lookout {
    interval: Duration,
    board: Arc<Board>,
    task: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Board {
    /// How many wait.
    waiting: AtomicUsize,
    /// Somebody does.
    some: Notify,
    /// There is work: for one of those who wait, or for the next who does.
    rung: Notify,
    /// How often what is paused changed.
    repaused: watch::Sender<u64>,
}

/// Somebody who waits.
struct Waiting<'b>(&'b Board);

impl<'b> Waiting<'b> {
    fn on(board: &'b Board) -> Self {
        board.waiting.fetch_add(1, Ordering::Relaxed);
        board.some.notify_one();
        Self(board)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Lookout {
    /// Nothing is looked at before somebody [keeps](Self::keep) it.
    pub fn every(interval: Duration) -> Self {
        Self { interval, board: Arc::default(), task: Mutex::default() }
    }

    /// Looks from now on, while somebody waits, in a task on the current runtime. `look` answers nothing once
    /// its store is gone, and that is the end of it.
    pub fn keep<F>(&self, look: impl Fn() -> F + Send + 'static)
    where
        F: Future<Output = Option<Result<Sight, StoreError>>> + Send + 'static,
    {
        let mut task = lock(&self.task);
        // One that ended went down with its runtime.
        if task.as_ref().is_none_or(JoinHandle::is_finished) {
            *task = Some(tokio::spawn(run(self.board.clone(), self.interval, look)));
        }
    }

    /// Waits until there is work that was not there before. Cancel-safe: a ring is kept until it is heard.
    pub async fn rung(&self) {
        let _waiting = Waiting::on(&self.board);
        self.board.rung.notified().await;
    }

    /// Waits until what is paused changes. Cancel-safe.
    pub async fn repaused(&self) {
        let _waiting = Waiting::on(&self.board);
        // The sender is ours, and so it is there.
        let _ = self.board.repaused.subscribe().changed().await;
    }

    /// Looks no more.
    pub fn end(&self) {
        if let Some(task) = lock(&self.task).take() {
            task.abort();
        }
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        self.end();
    }
}

impl fmt::Debug for Lookout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookout").field("interval", &self.interval).finish_non_exhaustive()
    }
}

async fn run<F>(board: Arc<Board>, interval: Duration, look: impl Fn() -> F)
where
    F: Future<Output = Option<Result<Sight, StoreError>>>,
{
    let mut before = Sight::default();
    let mut is_first = true;
    loop {
        while board.waiting.load(Ordering::Relaxed) == 0 {
            board.some.notified().await;
        }
        match look().await {
            None => return,
            Some(Ok(now)) => {
                if now.has_more_than(&before) {
                    board.rung.notify_one();
                }
                // Whoever waits has looked by himself when he began to.
                if !std::mem::take(&mut is_first) && now.paused != before.paused {
                    board.repaused.send_modify(|changes| *changes += 1);
                }
                before = now;
                sleep(interval).await;
            }
            // What it is, others say who wait for more than a hint.
            Some(Err(_)) => sleep(AFTER_FAILURE).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::time::{Instant, timeout};

    use super::*;

    const INTERVAL: Duration = Duration::from_millis(400);

    /// What looks see, and how many were made.
    #[derive(Clone, Default)]
    struct World(Arc<Mutex<(Sight, usize, bool)>>);

    impl World {
        fn lookout(&self) -> Lookout {
            let lookout = Lookout::every(INTERVAL);
            let world = self.clone();
            lookout.keep(move || {
                let mut world = lock(&world.0);
                world.1 += 1;
                let sight = if world.2 { Err(StoreError::Timeout) } else { Ok(world.0.clone()) };
                async { Some(sight) }
            });
            lookout
        }

        fn shows(&self, rows: impl IntoIterator<Item = i64>) {
            lock(&self.0).0.visible = rows.into_iter().collect();
        }

        fn looks(&self) -> usize {
            lock(&self.0).1
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_rings_once_for_each_row_that_becomes_visible() {
        let world = World::default();
        let lookout = world.lookout();
        assert!(timeout(10 * INTERVAL, lookout.rung()).await.is_err(), "there is nothing");
        world.shows([7]);
        let began = Instant::now();
        lookout.rung().await;
        assert!(began.elapsed() <= INTERVAL);
        assert!(timeout(10 * INTERVAL, lookout.rung()).await.is_err(), "it was rung for");
        world.shows([7, 9]);
        lookout.rung().await;
        world.shows([9]);
        assert!(timeout(10 * INTERVAL, lookout.rung()).await.is_err(), "one of them is gone");
        world.shows([7, 9]);
        lookout.rung().await;
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_looks_while_nobody_waits_and_one_look_is_enough_for_all() {
        let world = World::default();
        let lookout = world.lookout();
        sleep(100 * INTERVAL).await;
        assert_eq!(world.looks(), 0);
        let many = futures_util::future::join_all((0..20).map(|_| lookout.rung()));
        assert!(timeout(10 * INTERVAL, many).await.is_err());
        let looks = world.looks();
        assert!((9..=12).contains(&looks), "{looks} looks");
        sleep(100 * INTERVAL).await;
        assert!(world.looks() <= looks + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_ring_that_nobody_waits_for_is_kept_and_all_hear_of_a_pause() {
        let world = World::default();
        let lookout = world.lookout();
        let both = async || {
            tokio::join!(biased; lookout.repaused(), lookout.repaused());
        };
        assert!(timeout(3 * INTERVAL, both()).await.is_err());
        let paused = async {
            world.shows([1]);
            lock(&world.0).0.paused = Paused::ALL;
        };
        tokio::join!(biased; both(), paused);
        assert_eq!(lookout.rung().now_or_never(), Some(()), "it saw the row as well");
    }

    #[tokio::test(start_paused = true)]
    async fn looks_that_fail_are_made_less_often_and_a_store_that_is_gone_ends_them() {
        let world = World::default();
        lock(&world.0).2 = true;
        let lookout = world.lookout();
        assert!(timeout(10 * AFTER_FAILURE, lookout.rung()).await.is_err());
        assert!(world.looks() <= 11, "{}", world.looks());
        let gone = Lookout::every(INTERVAL);
        gone.keep(|| async { None });
        assert!(timeout(INTERVAL, gone.rung()).await.is_err());
        assert!(lock(&gone.task).as_ref().unwrap().is_finished());
    }
}
