use std::time::Duration;

use sendoff_core::journal::Append;
use sendoff_engine::journal::{AppendError, Journal, MemoryJournal, Receipt};
use sendoff_testkit::journal::{Ending, JournalHarness, async_trait};

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

sendoff_testkit::journal_suite!(InMemory(Journal::new(MemoryJournal::new())));
