//! An inbox: what a consumer saw already, remembered in the transaction of the effect.
//!
//! Delivery is at least once; an event may come a second time, from an outbox as from any broker. Whoever
//! remembers its id in the transaction that makes the effect, and leaves the effect out where the id is there
//! already, has each effect exactly once.

use sendoff_core::{Consumer, EventId, InvalidEvent, limits};

use crate::capture::{
    Begin, BeginBlocking, BeginError, Commit, CommitBlocking, CommitError, Join, JoinBlocking,
    JoinError, Part,
};
use crate::store::{Cutoff, RetainStore, StoreError, Trail};

/// What consumers saw, on a store. Cheap: it is the store and nothing else.
///
/// The table is `inbox`, made by the store's `migrate` beside those of the outbox. It works whether or not an
/// outbox delivers from the same database.
///
/// ```
/// use sendoff_core::EventId;
/// use sendoff_engine::Inbox;
/// use sendoff_engine::memory::MemoryStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = MemoryStore::new();
/// let inbox = Inbox::new(store.clone());
/// let id = EventId::generate();
///
/// let mut tx = store.transaction()?;
/// assert!(inbox.once(&mut tx, "billing", id).await?, "the effect is to be made");
/// tx.commit()?;
///
/// let mut tx = store.transaction()?;
/// assert!(!inbox.once(&mut tx, "billing", id).await?, "it was made already");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Inbox<S> {
    store: S,
}

/// Why nobody can say whether an event was seen. Roll the transaction back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OnceError {
    /// The consumer's name is not acceptable; no SQL was sent.
    #[error(transparent)]
    Consumer(#[from] InvalidEvent),
    /// The database did not answer it.
    #[error(transparent)]
    Join(#[from] JoinError),
}

/// What became of an event that was to be processed once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processed<T> {
    /// The effect was made and committed.
    First(T),
    /// It was made before; nothing was done.
    Again,
}

/// Why an event was not processed. Unless the commit is [unknown](CommitError::Unknown), nothing was done; and
/// either way it may be processed again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProcessError<E> {
    /// No transaction could be begun.
    #[error(transparent)]
    Begin(BeginError),
    /// Nobody can say whether it was seen.
    #[error(transparent)]
    Once(OnceError),
    /// The effect failed, and was rolled back.
    #[error("the effect failed, and was rolled back")]
    Effect(#[source] E),
    /// It was not committed, or nobody knows.
    #[error(transparent)]
    Commit(CommitError),
}

impl<S> Inbox<S> {
    /// The inbox of a store.
    pub fn new(store: S) -> Self {
        Self { store }
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Remembers in `tx` that `consumer` saw an event: `true` the first time, `false` ever after, until it is
    /// [forgotten](Self::forget). It is remembered if and only if `tx` commits.
    ///
    /// `tx` is any transaction that events can be written into; of a guard, pass what is in it: `&mut *tx`.
    /// While another transaction is open that saw the same event, this one waits for its end, for a bounded
    /// time: on PostgreSQL 10 seconds, or the session's `lock_timeout` where that is shorter; on MySQL and
    /// MariaDB its `innodb_lock_wait_timeout`; on SQLite the connection's busy timeout. After that it is
    /// [`Busy`](JoinError::Busy).
    pub async fn once<Tx: ?Sized>(
        &self,
        tx: &mut Tx,
        consumer: &str,
        id: EventId,
    ) -> Result<bool, OnceError>
    where
        S: Join<Tx>,
    {
        let consumer = Consumer::new(consumer)?;
        Ok(self.store.join(tx, &Part::Once { consumer, id }).await?)
    }

    /// Makes an effect in a transaction of its own, unless `consumer` saw the event before: begins on `conn`,
    /// asks [`once`](Self::once), runs `effect`, commits. An effect that fails, or is dropped, is rolled back.
    ///
    /// ```no_run
    /// # use sendoff_core::EventId;
    /// # use sendoff_engine::Inbox;
    /// # use sendoff_engine::capture::{Begin, BeginError, Commit, Join};
    /// # async fn example<S, P>(inbox: Inbox<S>, pool: P, id: EventId) -> Result<(), Box<dyn std::error::Error>>
    /// # where S: Begin<P> + Commit<<S as Begin<P>>::Tx> + Join<<S as Begin<P>>::Tx> {
    /// let effect = async |tx: &mut _| {
    ///     // Change your data on `tx`.
    /// #   let _: &mut S::Tx = tx;
    ///     Ok::<_, std::io::Error>(())
    /// };
    /// inbox.process(pool, "billing", id, effect).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn process<Conn, T, E>(
        &self,
        conn: Conn,
        consumer: &str,
        id: EventId,
        effect: impl AsyncFnOnce(&mut S::Tx) -> Result<T, E>,
    ) -> Result<Processed<T>, ProcessError<E>>
    where
        S: Begin<Conn> + Commit<<S as Begin<Conn>>::Tx> + Join<<S as Begin<Conn>>::Tx>,
    {
        Consumer::new(consumer).map_err(|invalid| ProcessError::Once(invalid.into()))?;
        let mut tx = self.store.begin(conn).await.map_err(ProcessError::Begin)?;
        let made = match self.once(&mut tx, consumer, id).await {
            Ok(true) => effect(&mut tx).await.map_err(ProcessError::Effect),
            Ok(false) => {
                // There is nothing to undo; an answer that is lost changes nothing.
                let _ = self.store.rollback(tx).await;
                return Ok(Processed::Again);
            }
            Err(error) => Err(ProcessError::Once(error)),
        };
        match made {
            Ok(made) => {
                self.store.commit(tx, &[]).await.map_err(ProcessError::Commit)?;
                Ok(Processed::First(made))
            }
            Err(error) => {
                // The first error is the one to tell.
                let _ = self.store.rollback(tx).await;
                Err(error)
            }
        }
    }

    /// [`once`](Self::once) for a driver that blocks.
    pub fn once_blocking<Tx: ?Sized>(
        &self,
        tx: &Tx,
        consumer: &str,
        id: EventId,
    ) -> Result<bool, OnceError>
    where
        S: JoinBlocking<Tx>,
    {
        let consumer = Consumer::new(consumer)?;
        Ok(self.store.join_blocking(tx, &Part::Once { consumer, id })?)
    }

    /// [`process`](Self::process) for a driver that blocks.
    pub fn process_blocking<Conn, T, E>(
        &self,
        conn: Conn,
        consumer: &str,
        id: EventId,
        effect: impl FnOnce(&mut S::Tx) -> Result<T, E>,
    ) -> Result<Processed<T>, ProcessError<E>>
    where
        S: BeginBlocking<Conn>
            + CommitBlocking<<S as BeginBlocking<Conn>>::Tx>
            + JoinBlocking<<S as BeginBlocking<Conn>>::Tx>,
    {
        Consumer::new(consumer).map_err(|invalid| ProcessError::Once(invalid.into()))?;
        let mut tx = self.store.begin_blocking(conn).map_err(ProcessError::Begin)?;
        let made = match self.once_blocking(&tx, consumer, id) {
            Ok(true) => effect(&mut tx).map_err(ProcessError::Effect),
            Ok(false) => {
                let _ = self.store.rollback_blocking(tx);
                return Ok(Processed::Again);
            }
            Err(error) => Err(ProcessError::Once(error)),
        };
        match made {
            Ok(made) => {
                self.store.commit_blocking(tx, &[]).map_err(ProcessError::Commit)?;
                Ok(Processed::First(made))
            }
            Err(error) => {
                let _ = self.store.rollback_blocking(tx);
                Err(error)
            }
        }
    }
}

impl<S: RetainStore> Inbox<S> {
    /// Forgets what was seen before the cutoff, in transactions of at most `batch` rows (1,000 are the most),
    /// until nothing is left. Answers how many there were.
    ///
    /// Keep ids for longer than an event may still come again: longer than the outbox or broker retries it,
    /// and than operators go back to requeue or replay it.
    pub async fn forget(&self, cutoff: Cutoff, batch: usize) -> Result<u64, StoreError> {
        let batch = batch.clamp(1, limits::BATCH_ROWS);
        let mut forgotten = 0;
        loop {
            let gone = self.store.forget(Trail::Seen, cutoff, batch).await?;
            forgotten += gone;
            if gone < batch as u64 {
                return Ok(forgotten);
            }
        }
    }
}
