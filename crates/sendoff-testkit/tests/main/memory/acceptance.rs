//! The store in memory, as an application's test double.

use sendoff_core::{Event, EventId};
use sendoff_engine::Outbox;
use sendoff_engine::memory::MemoryStore;
use sendoff_testkit::acceptance::{End, Face, OutboxHarness, async_trait};

struct InMemory(MemoryStore);

#[async_trait]
impl OutboxHarness for InMemory {
    type Store = MemoryStore;

    fn store(&self) -> MemoryStore {
        self.0.clone()
    }

    async fn write(
        &self,
        outbox: &Outbox<MemoryStore>,
        face: Face,
        events: &[Event],
        end: End,
    ) -> Vec<EventId> {
        match face {
            Face::Guard => end.guard(outbox.begin(&self.0).await.unwrap(), events).await,
            Face::Own => {
                let mut tx = self.0.transaction().unwrap();
                let staged = outbox.write_all(&mut tx, events).await.unwrap();
                if end.commits() {
                    tx.commit().unwrap();
                } else {
                    tx.rollback();
                }
                end.receipt(staged)
            }
        }
    }
}

sendoff_testkit::acceptance_suite!(InMemory(MemoryStore::new()));
