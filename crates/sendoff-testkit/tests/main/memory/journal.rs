use sendoff_core::journal::Position;
use sendoff_engine::journal::publish::SettleInError;
use sendoff_engine::journal::{Journal, MemoryJournal};
use sendoff_engine::memory::MemoryStore;
use sendoff_testkit::journal::{
    Answers, Deed, Ending, JournalHarness, Projecting, PublishHarness, async_trait,
};

struct InMemory(Journal<MemoryJournal>);

impl JournalHarness for InMemory {
    type Store = MemoryJournal;

    fn journal(&self) -> &Journal<MemoryJournal> {
        &self.0
    }

    /// It has no transactions of others: what is rolled back was never there.
    async fn transact(&self, steps: &[Deed], ending: Ending) -> Answers {
        let mut appends = Vec::new();
        for step in steps {
            match step {
                Deed::Append(append) => appends.push(append),
                Deed::Wait(time) => tokio::time::sleep(*time).await,
                Deed::Sql(sql) => panic!("it knows no SQL: {sql}"),
                Deed::Move(moving) => panic!("it has no transactions of others: {moving:?}"),
            }
        }
        let mut answers = Vec::new();
        for append in appends {
            answers.push(match ending {
                Ending::Commit => self.0.append_as(append).await,
                Ending::RollBack => Ok(Vec::new()),
            });
        }
        answers
    }
}

#[async_trait]
impl PublishHarness for InMemory {
    async fn elsewhere(&self) -> Journal<MemoryJournal> {
        Journal::new(self.0.store().clone())
    }

    async fn settle_in(&self, projecting: &Projecting) -> Result<(), SettleInError> {
        let Projecting { facts, effect, ending } = projecting;
        let mut tx = MemoryStore::new().transaction().unwrap();
        self.0.settle_in(facts, &mut tx).await?;
        if *ending == Ending::Commit {
            tx.commit().unwrap();
            self.0.append_as(effect).await.unwrap();
        }
        Ok(())
    }

    async fn sql(&self, _: &str) -> bool {
        false
    }

    async fn lose_after(&self, position: Position) {
        self.0.store().lose_after(position);
    }
}

sendoff_testkit::journal_suite!(InMemory(Journal::new(MemoryJournal::new())));

/// Holds J3, J4, J5, J6, J7, J8, J9, J11 and J12.
mod publish {
    use super::*;

    sendoff_testkit::publish_suite!(InMemory(Journal::new(MemoryJournal::new())));
}

mod retention {
    use super::*;

    sendoff_testkit::journal_retain_suite!(InMemory(Journal::new(MemoryJournal::new())));
}
