//! The shield between us and code that is not ours: handlers, interceptors, policies, hooks, metrics,
//! publishers, and the errors they answer with.
//!
//! Whatever such code does, the task that calls it goes on. It may panic where it is called, where its
//! future is polled, where that future is dropped (at a timeout, at a stop), and where an error of it is
//! printed or dropped; every one of these happens behind the shield.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use sendoff_core::Failure;

use crate::settle::storable;

/// Runs code that is not ours. A panic is a failure like any other, and nobody else's problem.
pub(crate) fn shielded<T>(code: impl FnOnce() -> T) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(code)).map_err(panicked)
}

/// Drops a value that is not ours.
pub(crate) fn discard<T>(value: T) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        // What was thrown may panic when it is dropped, as the value did. It is leaked instead: a few
        // bytes, for code that is wrong in this way twice.
        std::mem::forget(panic);
    }
}

/// A future that is not ours. It answers with what `make` and its future answer, or with the failure
/// that a panic in either of them is.
pub(crate) fn shield<F: Future + ?Sized>(make: impl FnOnce() -> Pin<Box<F>>) -> Shield<F> {
    match shielded(make) {
        Ok(running) => Shield { running: Some(running), failed: None },
        Err(panic) => Shield { running: None, failed: Some(panic) },
    }
}

/// See [`shield`]. Cancel-safe as far as the future in it is; dropping it never panics.
#[must_use = "a future does nothing unless it is awaited"]
pub(crate) struct Shield<F: ?Sized> {
    /// None once it is over.
    running: Option<Pin<Box<F>>>,
    /// Why it could not even begin.
    failed: Option<Failure>,
}

impl<F: Future + ?Sized> Future for Shield<F> {
    type Output = Result<F::Output, Failure>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(failed) = self.failed.take() {
            return Poll::Ready(Err(failed));
        }
        let Some(running) = &mut self.running else { return Poll::Pending };
        let polled = shielded(|| running.as_mut().poll(cx));
        let ended = match polled {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(panic) => Err(panic),
        };
        discard(self.running.take());
        Poll::Ready(ended)
    }
}

impl<F: ?Sized> Drop for Shield<F> {
    fn drop(&mut self) {
        discard(self.running.take());
    }
}

/// A failure as it is stored.
pub(crate) fn error_text(failure: &Failure) -> String {
    storable(&shielded(|| failure.report()).unwrap_or_else(|panic| panic.report()))
}

/// The same of a failure that nobody needs any more: its error is dropped behind the shield.
pub(crate) fn last_words(failure: Failure) -> String {
    let text = error_text(&failure);
    discard(failure);
    text
}

fn panicked(panic: Box<dyn Any + Send>) -> Failure {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    let failure = Failure::retry(format!("panicked: {text}"));
    discard(panic);
    failure
}

#[cfg(test)]
mod tests {
    use std::fmt;
    use std::future::{Ready, pending, ready};
    use std::panic::panic_any;

    use super::*;

    /// Panics when it is dropped.
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic_any("dropped");
        }
    }

    /// Panics when it is printed, and when it is dropped.
    #[derive(Debug)]
    struct Unspeakable;

    impl fmt::Display for Unspeakable {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic_any("printed");
        }
    }

    impl std::error::Error for Unspeakable {}

    impl Drop for Unspeakable {
        fn drop(&mut self) {
            panic_any("dropped");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_future_may_panic_where_it_is_made_polled_or_dropped() {
        let made = shield(|| -> Pin<Box<Ready<()>>> { panic_any("made") }).await;
        assert_eq!(made.unwrap_err().report(), "panicked: made");

        let polled = shield(|| Box::pin(async { panic_any("polled") })).await;
        assert_eq!(polled.map(|(): ()| ()).unwrap_err().report(), "panicked: polled");

        let hangs = shield(|| {
            Box::pin(async {
                let _bomb = Bomb;
                pending::<()>().await;
            })
        });
        let limit = std::time::Duration::from_secs(1);
        assert!(tokio::time::timeout(limit, hangs).await.is_err());

        // What it keeps until it is dropped, after its end.
        let bomb = Bomb;
        let ended = shield(|| {
            let mut bomb = Some(bomb);
            Box::pin(std::future::poll_fn(move |_| {
                let _ = bomb.as_mut();
                Poll::Ready(7)
            }))
        });
        assert_eq!(ended.await.unwrap(), 7);
        assert_eq!(shield(|| Box::pin(ready(8))).await.unwrap(), 8);
    }

    #[test]
    fn what_a_panic_throws_and_what_an_error_prints_may_panic_too() {
        let thrown = shielded(|| panic_any(Bomb)).map(|(): ()| ());
        assert_eq!(thrown.unwrap_err().report(), "panicked: no message");
        assert_eq!(last_words(Failure::retry(Unspeakable)), "panicked: printed");
        assert_eq!(last_words(Failure::retry("a\0b")), "a b");
    }
}
