//! Waiting for a moment.

use tokio::time::{Instant, sleep_until};

/// Waits until `at`, and not at all where that has come.
///
/// A timer counts whole milliseconds and rounds up: asked to sleep until now, it sleeps for one. Once
/// for each batch, that is a third of a relay's time.
pub(crate) async fn until(at: Instant) {
    if Instant::now() < at {
        sleep_until(at).await;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_has_come_is_not_waited_for() {
        let now = Instant::now();
        assert_eq!(until(now).now_or_never(), Some(()));
        let later = now + Duration::from_millis(3);
        assert_eq!(until(later).now_or_never(), None);
        until(later).await;
        assert_eq!(Instant::now(), later);
    }
}
