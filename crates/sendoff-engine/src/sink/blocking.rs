//! Handlers that block their thread.

use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::{Delivery, EventId, Failure};
use tokio::task::JoinHandle;

use super::{Handler, HandlerResult};
use crate::lock::lock;

/// A handler that blocks its thread; see [`blocking`].
#[derive(Debug)]
pub struct Blocking<F> {
    function: Arc<F>,
    threads: Arc<Threads>,
}

/// Makes a handler of a function that blocks, on tokio's threads for blocking work.
///
/// A handler timeout ends the wait for it, not the function itself: nothing can stop a thread. Such a
/// thread is left behind, and its worker goes on. While it runs, its event is not begun a second time
/// here but put off, which counts no attempt, so that another node may have it; and once 64 threads were
/// left behind, every event is put off until one of them returns.
pub fn blocking<F>(function: F) -> Blocking<F>
where
    F: Fn(Delivery) -> HandlerResult + Send + Sync + 'static,
{
    Blocking { function: Arc::new(function), threads: Arc::default() }
}

impl<F> Handler for Blocking<F>
where
    F: Fn(Delivery) -> HandlerResult + Send + Sync + 'static,
{
    async fn handle(&self, delivery: Delivery) -> HandlerResult {
        let (function, id) = (self.function.clone(), delivery.id());
        let thread = self.threads.enter(id).map_err(|why| Failure::unavailable(PUT_OFF, why))?;
        let task = tokio::task::spawn_blocking(move || {
            let _thread = thread;
            function(delivery)
        });
        let mut wait = Wait { task, threads: &self.threads, id, over: false };
        let ended = (&mut wait.task).await;
        wait.over = true;
        match ended {
            Ok(result) => result,
            // The worker isolates panics of every kind of handler in one place.
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Threads that one handler may leave behind. The runtime has 512 unless told otherwise, and the
/// application's files and name lookups need them too.
const MOST_LEFT: usize = 64;
/// When to ask again whether a thread has returned; long enough for another node to take the event.
const PUT_OFF: Duration = Duration::from_secs(30);

/// The runs of one handler that have not returned, and whether they were left behind.
#[derive(Debug, Default)]
struct Threads(Mutex<BTreeMap<EventId, bool>>);

/// Why a run was not begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
enum NotBegun {
    #[error("an earlier run of this event, which took too long, has not returned yet")]
    StillRuns,
    #[error("{MOST_LEFT} runs of this handler, which took too long, have not returned yet")]
    TooManyLeft,
}

impl Threads {
    fn enter(self: &Arc<Self>, id: EventId) -> Result<Thread, NotBegun> {
        let mut runs = lock(&self.0);
        if runs.contains_key(&id) {
            return Err(NotBegun::StillRuns);
        }
        if runs.values().filter(|left| **left).count() >= MOST_LEFT {
            return Err(NotBegun::TooManyLeft);
        }
        runs.insert(id, false);
        Ok(Thread { threads: self.clone(), id })
    }
}

/// A run, wherever it is: gone with the closure that it is of, also where that never began.
struct Thread {
    threads: Arc<Threads>,
    id: EventId,
}

impl Drop for Thread {
    fn drop(&mut self) {
        lock(&self.threads.0).remove(&self.id);
    }
}

/// Somebody who waits for a run.
struct Wait<'t> {
    task: JoinHandle<HandlerResult>,
    threads: &'t Threads,
    id: EventId,
    over: bool,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        if let Some(left) = lock(&self.threads.0).get_mut(&self.id) {
            *left = true;
        }
        // One that no thread has begun yet never begins.
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_not_begun_twice_and_what_is_left_behind_is_bounded() {
        let threads = Arc::new(Threads::default());
        let first = threads.enter(EventId::from_bytes([0; 16])).unwrap();
        assert_eq!(threads.enter(first.id).err(), Some(NotBegun::StillRuns));
        let left: Vec<_> = (1..=MOST_LEFT)
            .map(|n| {
                let thread = threads.enter(EventId::from_bytes([n as u8; 16])).unwrap();
                lock(&threads.0).insert(thread.id, true);
                thread
            })
            .collect();
        let next = EventId::from_bytes([99; 16]);
        assert_eq!(threads.enter(next).err(), Some(NotBegun::TooManyLeft));
        drop(left);
        assert!(threads.enter(next).is_ok());
        drop(first);
    }
}
