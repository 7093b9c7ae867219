//! A journal's connections, shared out by what they are for: whoever waits for a lock takes a few of
//! them at most, and makes nobody wait who does not want that lock.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use sendoff_core::journal::Append;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout_at};

use crate::store::StoreError;

/// Connections for the statements of nodes that publish. None of them waits for a row, so a few are
/// enough for any number of pairs.
const PUBLISHING: usize = 2;
/// Kept from decisions, so that other keys are appended to.
const KEPT_FOR_APPENDS: usize = 2;
/// Kept from appends and decisions, so that the journal can be read.
const KEPT_FOR_READS: usize = 1;

/// What a connection is lent for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A node's own: being alive, taking pairs, storing how far they are, where the journal ends. On
    /// connections apart from all others.
    Publish,
    /// Waits for nobody. May have every connection.
    Read,
    /// An append, or a change by an operator, which may wait for somebody's lock. One connection is
    /// left to reads.
    Append,
    /// A decision, which wants locks alone and waits for its turn. A quarter of the connections, and
    /// at least two, are left to appends and reads.
    Decide,
}

impl Purpose {
    /// What an append is: a condition wants locks alone, as a decision does.
    pub fn of(append: &Append) -> Self {
        if append.condition().is_some() { Self::Decide } else { Self::Append }
    }
}

/// Until when a caller waits for others: first for a connection, then for their locks.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    until: Instant,
}

impl Patience {
    /// So long from now on.
    pub fn of(time: Duration) -> Self {
        Self { until: Instant::now() + time }
    }

    /// What is left of it.
    pub fn left(self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("others had every connection of the journal for too long")]
struct NoPlace;

/// A journal's connections, each used by one at a time. Where there is only one, all purposes share
/// it.
#[derive(Debug)]
pub struct Lending<L> {
    shared: Shelf<L>,
    publishing: Shelf<L>,
    appends: Semaphore,
    decisions: Semaphore,
}

impl<L> Lending<L> {
    /// So many for the journal, and a few more for publishing.
    pub fn new(count: usize, mut link: impl FnMut() -> L) -> Self {
        let appends = count.saturating_sub(KEPT_FOR_READS).max(1);
        let decisions = count.saturating_sub(KEPT_FOR_APPENDS.max(count / 4)).max(1);
        Self {
            shared: Shelf::new(count, &mut link),
            publishing: Shelf::new(PUBLISHING, &mut link),
            appends: Semaphore::new(appends),
            decisions: Semaphore::new(decisions),
        }
    }

    /// A connection that nobody uses, until it is dropped. Cancel-safe.
    ///
    /// # Errors
    /// [`Closed`](StoreError::Closed) once it is. [`Busy`](StoreError::Busy) where an append or a decision
    /// has no patience left; what waits for nobody's locks waits for as long as its caller does.
    pub async fn lend(
        &self,
        purpose: Purpose,
        patience: Patience,
    ) -> Result<Lent<'_, L>, StoreError> {
        match purpose {
            Purpose::Publish | Purpose::Read => self.place(purpose).await,
            Purpose::Append | Purpose::Decide => timeout_at(patience.until, self.place(purpose))
                .await
                .unwrap_or_else(|_| Err(StoreError::Busy(NoPlace.into()))),
        }
    }

    async fn place(&self, purpose: Purpose) -> Result<Lent<'_, L>, StoreError> {
        let (shelf, limits): (_, &[&Semaphore]) = match purpose {
            Purpose::Publish => (&self.publishing, &[]),
            Purpose::Read => (&self.shared, &[]),
            Purpose::Append => (&self.shared, &[&self.appends]),
            // In this order, so that who waits for its share keeps nothing of a larger one.
            Purpose::Decide => (&self.shared, &[&self.decisions, &self.appends]),
        };
        let mut permits = Vec::with_capacity(3);
        for limit in limits.iter().copied().chain([&shelf.permits]) {
            permits.push(limit.acquire().await.map_err(|_| StoreError::Closed)?);
        }
        let at = shelf.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        // There are as many as there are permits.
        let at = at.ok_or(StoreError::Closed)?;
        Ok(Lent { shelf, at, _permits: permits })
    }

    /// Lends nothing any more, and answers what there is to be closed.
    pub fn close(&self) -> impl Iterator<Item = &L> {
        for permits in
            [&self.decisions, &self.appends, &self.shared.permits, &self.publishing.permits]
        {
            permits.close();
        }
        self.shared.links.iter().chain(&self.publishing.links)
    }
}

#[derive(Debug)]
struct Shelf<L> {
    links: Vec<L>,
    /// The last one used is the first to be used again, so that those nobody needs are never opened.
    free: Mutex<Vec<usize>>,
    permits: Semaphore,
}

impl<L> Shelf<L> {
    fn new(count: usize, link: &mut impl FnMut() -> L) -> Self {
        Self {
            links: (0..count).map(|_| link()).collect(),
            free: Mutex::new((0..count).rev().collect()),
            permits: Semaphore::new(count),
        }
    }
}

/// A connection on loan: given back when it is dropped, also with the future that has it.
#[derive(Debug)]
pub struct Lent<'l, L> {
    shelf: &'l Shelf<L>,
    at: usize,
    /// Freed after the connection is back on its shelf.
    _permits: Vec<SemaphorePermit<'l>>,
}

impl<L> Lent<'_, L> {
    /// The connection.
    pub fn link(&self) -> &L {
        &self.shelf.links[self.at]
    }
}

impl<L> Drop for Lent<'_, L> {
    fn drop(&mut self) {
        let free = self.shelf.free.lock();
        free.unwrap_or_else(PoisonError::into_inner).push(self.at);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::task::unconstrained;

    use super::*;

    fn long() -> Patience {
        Patience::of(Duration::from_secs(60))
    }

    /// Borrows for a purpose until one would wait.
    fn all<'l>(lending: &'l Lending<usize>, purpose: Purpose) -> Vec<Lent<'l, usize>> {
        let next = || unconstrained(lending.lend(purpose, long())).now_or_never();
        std::iter::from_fn(next).map(Result::unwrap).collect()
    }

    fn numbered(count: usize) -> Lending<usize> {
        let mut number = 0;
        Lending::new(count, || {
            number += 1;
            number
        })
    }

    #[tokio::test]
    async fn decisions_leave_some_to_appends_and_those_one_to_reads() {
        for (count, decisions, appends) in
            [(1, 1, 0), (2, 1, 0), (3, 1, 1), (4, 2, 1), (8, 6, 1), (16, 12, 3), (1_000, 750, 249)]
        {
            let lending = numbered(count);
            let deciding = all(&lending, Purpose::Decide);
            assert_eq!(deciding.len(), decisions, "of {count}");
            let appending = all(&lending, Purpose::Append);
            assert_eq!(appending.len(), appends, "of {count}");
            let reading = all(&lending, Purpose::Read);
            assert_eq!(deciding.len() + appending.len() + reading.len(), count);
            assert_eq!(all(&lending, Purpose::Publish).len(), PUBLISHING);
        }
    }

    #[tokio::test]
    async fn who_waits_for_its_share_takes_nothing_of_another_s() {
        let lending = numbered(8);
        let mut deciding = all(&lending, Purpose::Decide);
        let waiting: Vec<_> = (0..20)
            .map(|_| {
                let mut next = Box::pin(lending.lend(Purpose::Decide, long()));
                assert!((&mut next).now_or_never().is_none());
                next
            })
            .collect();
        assert_eq!(all(&lending, Purpose::Append).len(), 1);
        assert_eq!(all(&lending, Purpose::Read).len(), 2);
        drop(waiting);
        // The one used last is the next to be used.
        let last = *deciding.pop().unwrap().link();
        let next = lending.lend(Purpose::Decide, long()).now_or_never();
        assert_eq!(*next.unwrap().unwrap().link(), last);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_connection_has_less_patience_for_locks() {
        let lending = numbered(3);
        let deciding = all(&lending, Purpose::Decide);
        let patience = Patience::of(Duration::from_secs(5));
        let later = async {
            tokio::time::sleep(Duration::from_secs(3)).await;
            drop(deciding);
        };
        let (lent, ()) = tokio::join!(lending.lend(Purpose::Decide, patience), later);
        assert_eq!(patience.left(), Duration::from_secs(2));
        // The next one has none left.
        let busy = lending.lend(Purpose::Decide, patience).await;
        assert!(matches!(busy, Err(StoreError::Busy(_))), "{busy:?}");
        assert_eq!(patience.left(), Duration::ZERO);
        drop(lent);
        assert!(lending.lend(Purpose::Decide, patience).await.is_ok(), "for nobody need be waited");
    }

    #[tokio::test]
    async fn nothing_is_lent_once_it_is_closed() {
        let lending = numbered(3);
        assert_eq!(lending.close().count(), 3 + PUBLISHING);
        for purpose in [Purpose::Publish, Purpose::Read, Purpose::Append, Purpose::Decide] {
            let lent = lending.lend(purpose, long()).now_or_never().unwrap();
            assert!(matches!(lent, Err(StoreError::Closed)), "{purpose:?}");
        }
    }
}
