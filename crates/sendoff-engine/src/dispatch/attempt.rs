//! One run of code that is not ours.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures_util::FutureExt;
use sendoff_core::{Delivery, Failure, limits};

use super::{AnyHandler, Handler, HandlerResult};

/// Runs a handler. A panic is a failed attempt like any other, and so is one that takes too long.
pub(crate) async fn attempt(
    handler: &AnyHandler,
    delivery: Delivery,
    limit: Option<Duration>,
) -> HandlerResult {
    let run = AssertUnwindSafe(handler.handle(delivery)).catch_unwind();
    let ended = match limit {
        None => run.await,
        Some(limit) => match tokio::time::timeout(limit, run).await {
            Ok(ended) => ended,
            Err(_) => {
                let text = format!("handler did not finish within {limit:?}");
                return Err(Failure::retry(text));
            }
        },
    };
    ended.unwrap_or_else(|panic| Err(panicked(&*panic)))
}

/// A failure as it is stored.
pub(crate) fn error_text(failure: &Failure) -> String {
    // Errors are others' code as well.
    let error = shielded(|| failure.report()).unwrap_or_else(|panic| panic.report());
    // NUL cannot be stored as text everywhere, and an error may quote anything.
    let error = error.replace('\0', "\u{fffd}");
    limits::truncate(&error, limits::ERROR_CHARS).to_owned()
}

/// Runs code that is not ours.
pub(crate) fn shielded<T>(code: impl FnOnce() -> T) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(code)).map_err(|panic| panicked(&*panic))
}

/// A panic is a failed attempt like any other, and nobody else's problem.
fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    Failure::retry(format!("panicked: {text}"))
}
