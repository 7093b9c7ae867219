//! Work that is told to end, ends in order, and says how far it is.

use std::pin::pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

/// Does some work, and tells it when `stop` is ready; then waits until it has ended.
pub(crate) async fn told<W: Future>(
    stop: impl Future<Output = ()>,
    work: impl FnOnce(CancellationToken) -> W,
) -> W::Output {
    let told = CancellationToken::new();
    let mut work = pin!(work(told.clone()));
    tokio::select! {
        biased;
        // First: what is told before it begins does nothing.
        () = stop => {
            told.cancel();
            work.await
        }
        ended = &mut work => ended,
    }
}

/// Whether work was told to end. Asked between two steps, it also lets whoever tells have a turn: a store may
/// answer so quickly that nobody else ever has one.
pub(crate) async fn is_told(told: &CancellationToken) -> bool {
    tokio::task::yield_now().await;
    told.is_cancelled()
}

/// Who is told after every transaction, if anybody is.
pub(crate) struct Progress<T>(Option<Arc<Tell<T>>>);

type Tell<T> = dyn Fn(&T) + Send + Sync;

impl<T> Progress<T> {
    /// Nobody is told.
    pub(crate) const NOBODY: Self = Self(None);

    pub(crate) fn to(tell: impl Fn(&T) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    pub(crate) fn tell(&self, so_far: &T) {
        if let Some(tell) = &self.0 {
            tell(so_far);
        }
    }
}

// Not derived, which would ask the same of what is told.
impl<T> Clone for Progress<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn work_ends_by_itself_or_when_it_is_told() {
        assert_eq!(told(pending(), |_| ready(1)).await, 1);
        let ends_when_told = |told: CancellationToken| async move {
            told.cancelled().await;
            2
        };
        assert_eq!(told(ready(()), ends_when_told).await, 2);
    }
}
