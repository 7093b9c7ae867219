//! Retention in memory, for tests.

use async_trait::async_trait;
use sendoff_core::Timestamp;
use sendoff_core::journal::retain::{Follower, Followers, Wanted, release};
use sendoff_core::journal::{Position, Recorded};

use super::store::{Keeping, PurgeFacts, PurgedFacts, RetainJournalStore};
use crate::journal::memory::MemoryJournal;
use crate::journal::publish::Desk;
use crate::store::StoreError;

#[async_trait]
impl RetainJournalStore for MemoryJournal {
    async fn followers(&self) -> Result<Followers, StoreError> {
        let desk = self.desk();
        Ok(seen(&desk, self.facts().head))
    }

    async fn keeping(&self) -> Result<Keeping, StoreError> {
        Ok(Keeping::Rows)
    }

    async fn purge_facts(&self, purge: &PurgeFacts) -> Result<PurgedFacts, StoreError> {
        let desk = self.desk();
        let mut facts = self.facts();
        let over = over(purge, passed(&desk, facts.head));
        let mut purged = PurgedFacts::default();
        facts.kept.retain(|fact| {
            let goes = over(fact) && purged.facts < purge.limit as u64;
            if goes {
                purged = PurgedFacts { facts: purged.facts + 1, last: fact.position };
            }
            !goes
        });
        Ok(purged)
    }

    async fn purgeable_facts(&self, purge: &PurgeFacts) -> Result<u64, StoreError> {
        let desk = self.desk();
        let facts = self.facts();
        let over = over(purge, passed(&desk, facts.head));
        Ok(facts.kept.iter().filter(|fact| over(fact)).take(purge.limit).count() as u64)
    }
}

fn seen(desk: &Desk, head: Position) -> Followers {
    let follower = |cursor: &crate::journal::publish::Cursor| Follower {
        pair: cursor.pair.clone(),
        position: cursor.position,
        status: cursor.status,
    };
    let mut parked: Vec<_> = desk.set_aside().cloned().collect();
    parked.dedup_by(|later, first| later.0 == first.0);
    Followers {
        now: Timestamp::now(),
        head,
        cursors: desk.cursors().map(follower).collect(),
        parked,
    }
}

/// Up to where everybody is.
fn passed(desk: &Desk, head: Position) -> Position {
    release(Wanted { last: Some(0), aged: None }, &seen(desk, head)).up_to
}

fn over(purge: &PurgeFacts, passed: Position) -> impl Fn(&Recorded) -> bool {
    let PurgeFacts { after, up_to, before, .. } = *purge;
    move |fact| {
        fact.position > after
            && fact.position <= up_to.min(passed)
            && before.is_none_or(|before| fact.recorded_at < before)
    }
}
