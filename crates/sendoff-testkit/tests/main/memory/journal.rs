use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::journal::publish::{CursorStatus, PairId};
use sendoff_core::journal::{Append, Position};
use sendoff_engine::journal::publish::{
    Change, Move, NodeCard, Park, ParkedChange, PublishStore, Seen, Which,
};
use sendoff_engine::journal::{AppendError, Journal, MemoryJournal, Receipt};
use sendoff_testkit::journal::{
    Ending, JournalHarness, PublishHarness, RetainHarness, async_trait,
};

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

/// Holds J3, J4, J5, J6, J7, J8, J9, J11 and J12.
mod publish {
    use super::*;

    sendoff_testkit::publish_suite!(InMemory(Journal::new(MemoryJournal::new())));
}

#[async_trait]
impl RetainHarness for InMemory {
    async fn put_cursor(&self, pair: &PairId, position: Position, status: CursorStatus) {
        let (store, which) = (self.0.store(), Which::pair(pair));
        store.register(&[(pair.clone(), position)]).await.unwrap();
        store.change(&which, Change::MoveTo(position)).await.unwrap();
        store.change(&which, Change::Reset).await.unwrap();
        match status {
            CursorStatus::Active => {}
            CursorStatus::Paused => drop(store.change(&which, Change::Pause).await.unwrap()),
            CursorStatus::Failed => self.advance(pair, true, None).await,
        }
    }

    async fn set_aside(&self, pair: &PairId, position: Position, aside: bool) {
        if aside {
            self.advance(pair, false, Some(position)).await;
        } else {
            let (store, which) = (self.0.store(), Which::pair(pair));
            store.change_parked(&which, Some(position), ParkedChange::Discard).await.unwrap();
        }
    }
}

impl InMemory {
    /// As whoever leads the pair does, for a moment.
    async fn advance(&self, pair: &PairId, fails: bool, park: Option<Position>) {
        let store = self.0.store();
        let card = NodeCard {
            owner: Arc::from("test"),
            knows: BTreeSet::new(),
            renew: Duration::from_secs(1),
            lease: Duration::from_secs(3),
        };
        let member = store.join(&card).await.unwrap();
        let survey = store.survey().await.unwrap();
        let cursor = survey.cursors.iter().find(|cursor| cursor.pair == *pair).unwrap();
        let (leader, epoch) = (cursor.leader.clone(), cursor.epoch);
        let seen = Seen { pair: Arc::new(pair.clone()), leader, epoch };
        let taken = store.take("test", &[seen]).await.unwrap();
        let next = Move {
            pair: Arc::new(pair.clone()),
            epoch: taken[0].epoch,
            from: cursor.position,
            to: cursor.position,
            published: false,
            errors: 1,
            last_error: None,
            fails,
            parked: park
                .map(|position| Park {
                    position,
                    attempts: 1,
                    delay: Duration::ZERO,
                    error: "no".into(),
                })
                .into_iter()
                .collect(),
        };
        assert_eq!(store.advance("test", &[next]).await.unwrap(), [true]);
        store.give("test", &[(Arc::new(pair.clone()), taken[0].epoch)]).await.unwrap();
        member.leave().await.unwrap();
    }
}

mod retention {
    use super::*;

    sendoff_testkit::journal_retain_suite!(InMemory(Journal::new(MemoryJournal::new())));
}
