//! The journal behind the routes, whatever database it is in.

use async_trait::async_trait;
use sendoff_core::journal::Position;
use sendoff_engine::journal::Journal;
use sendoff_engine::journal::publish::{
    ChangeParked, Cursor, Parked, ParkedChange, ParkedPage, PublishStore, To, Which,
};
use sendoff_engine::store::StoreError;

/// What the routes ask for. Behind it routes are compiled once, and a program may serve any store.
#[async_trait]
pub(crate) trait Desk: Send + Sync + 'static {
    /// Where these pairs are, and then the last position that was taken: what comes between is lag.
    async fn standing(&self, which: &Which) -> Result<(Vec<Cursor>, Position), StoreError>;

    /// Answers how many pairs were meant.
    async fn operate(&self, which: &Which, operation: Operation) -> Result<u64, StoreError>;

    /// What is parked.
    async fn parked(&self, page: ParkedPage<'_>) -> Result<Vec<Parked>, StoreError>;

    /// Answers how many facts were meant.
    async fn change_parked(&self, change: ChangeParked<'_>) -> Result<u64, StoreError>;
}

/// What is done to pairs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Operation {
    Pause,
    Resume,
    Reset,
    Rewind(To),
}

#[async_trait]
impl<S: PublishStore> Desk for Journal<S> {
    async fn standing(&self, which: &Which) -> Result<(Vec<Cursor>, Position), StoreError> {
        let cursors = self.publishers().cursors(which).await?;
        Ok((cursors, Self::head(self).await?))
    }

    async fn operate(&self, which: &Which, operation: Operation) -> Result<u64, StoreError> {
        let publishers = self.publishers();
        match operation {
            Operation::Pause => publishers.pause(which).await,
            Operation::Resume => publishers.resume(which).await,
            Operation::Reset => publishers.reset(which).await,
            Operation::Rewind(to) => publishers.rewind(which, to).await,
        }
    }

    async fn parked(&self, page: ParkedPage<'_>) -> Result<Vec<Parked>, StoreError> {
        self.publishers().parked(page.which, page.after, page.limit).await
    }

    async fn change_parked(&self, change: ChangeParked<'_>) -> Result<u64, StoreError> {
        let ChangeParked { which, position, change } = change;
        let publishers = self.publishers();
        match change {
            ParkedChange::Retry => publishers.retry_parked(which, position).await,
            ParkedChange::Discard => publishers.discard_parked(which, position).await,
        }
    }
}
