use std::time::Duration;

use sendoff_core::journal::{Append, Position};
use sendoff_engine::journal::{AppendError, Journal, MemoryJournal, Receipt};
use sendoff_testkit::journal::{Ending, JournalHarness, PublishHarness, async_trait};

struct InMemory(Journal<MemoryJournal>);

#[async_trait]
impl JournalHarness for InMemory {
    type Store = MemoryJournal;

    fn journal(&self) -> &Journal<MemoryJournal> {
        &self.0
    }

    async fn append_in(
        &self,
        append: &Append,
        open: Duration,
        ending: Ending,
    ) -> Result<Vec<Receipt>, AppendError> {
        // It has no transactions of others: what is rolled back was never there.
        tokio::time::sleep(open).await;
        match ending {
            Ending::Commit => self.0.append_as(append).await,
            Ending::RollBack => Ok(Vec::new()),
        }
    }
}

#[async_trait]
impl PublishHarness for InMemory {
    async fn elsewhere(&self) -> Journal<MemoryJournal> {
        Journal::new(self.0.store().clone())
    }

    async fn sql(&self, _: &str) -> bool {
        false
    }

    async fn lose_after(&self, position: Position) {
        self.0.store().lose_after(position);
    }
}

sendoff_testkit::journal_suite!(InMemory(Journal::new(MemoryJournal::new())));

/// Holds J3 to J9, J11 and J12.
mod publish {
    use super::*;

    sendoff_testkit::publish_suite!(InMemory(Journal::new(MemoryJournal::new())));
}
