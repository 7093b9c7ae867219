use std::pin::pin;

use futures_util::future::{Either, select};
use tokio::time::{Instant, sleep_until};

/// Awaits `work`, and meanwhile does `chore` whenever its time comes. A chore that was begun is never
/// dropped half-way: it may be a statement whose answer must be known.
pub(crate) async fn beside<T, C: Future>(
    work: impl Future<Output = T>,
    next: impl Fn() -> Instant,
    chore: impl Fn() -> C,
) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            answer = &mut work => return answer,
            () = sleep_until(next()) => {}
        }
        let begun = pin!(chore());
        if let Either::Left((answer, begun)) = select(work.as_mut(), begun).await {
            begun.await;
            return answer;
        }
    }
}
