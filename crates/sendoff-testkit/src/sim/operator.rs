//! Somebody who looks at what is dead and decides, and at what is old and deletes it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use sendoff_core::order::{AfterDead, KeyFate};
use sendoff_core::{AuditNote, Death, EventId, Letter, LetterAct, LetterFate, LetterFilter};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::store::{
    ChangeLetters, Cutoff, LetterPage, LetterStore, ParkStore, Purge, ResumeKey, RetainStore,
    StoreError,
};
use tokio::time::sleep;

use super::node::Cast;
use crate::history::{Decision, Entry, History, WriteOutcome};

/// What a dead event means for its key in the world of this seed, if somebody is there to look at it. In two of
/// five worlds there is, but never in those of the seeds that once found something without.
pub(super) fn presence(seed: u64) -> Option<AfterDead> {
    match seed % 5 {
        2 => Some(AfterDead::Park),
        4 => Some(AfterDead::Skip),
        _ => None,
    }
}

/// Works at the database itself: what the network does to nodes is nothing to it.
#[derive(Debug, Clone)]
pub(super) struct Operator {
    table: MemoryStore,
    history: History,
    cast: Cast,
    note: Arc<AuditNote>,
    healed: Arc<AtomicBool>,
    found: Arc<Mutex<Found>>,
}

/// What it came across.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Events that were dead and should not have been.
    pub(super) innocents: BTreeSet<EventId>,
    /// Deleted ones of whose commit no writer had said anything.
    pub(super) resolved: BTreeSet<EventId>,
}

/// The rows of whose commit the history says nothing, although they are there.
pub(super) fn unknown(history: &History, table: &MemoryStore) -> Vec<EventId> {
    let mut known = BTreeSet::new();
    for entry in history.entries() {
        match entry {
            Entry::Written { outcome: WriteOutcome::Unknown, .. } => {}
            Entry::Written { id, .. } => drop(known.insert(id)),
            _ => {}
        }
    }
    table.rows().iter().map(|row| row.event.id()).filter(|id| !known.contains(id)).collect()
}

impl Operator {
    pub(super) fn of(table: &MemoryStore, history: &History, cast: &Cast) -> Self {
        Self {
            table: table.clone(),
            history: history.clone(),
            cast: cast.clone(),
            note: Arc::new(AuditNote::new("ada", "seen to").expect("it is good")),
            healed: Arc::default(),
            found: Arc::default(),
        }
    }

    /// From now on nothing is deleted or done again that nobody waits for.
    pub(super) fn heal(&self) {
        self.healed.store(true, Ordering::Relaxed);
    }

    pub(super) fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks now and then, for as long as the world lasts.
    pub(super) async fn work(self, mut random: Rng) {
        loop {
            sleep(Duration::from_millis(random.u64(300..6_000))).await;
            self.decide(&mut random).await.expect("a table in memory answers");
            if !self.healed.load(Ordering::Relaxed) && random.u8(..3) == 0 {
                self.purge(&mut random).await.expect("a table in memory answers");
            }
        }
    }

    /// Looks at each dead letter; some it leaves for the next time.
    async fn decide(&self, random: &mut Rng) -> Result<(), StoreError> {
        let everything = LetterFilter::default();
        let page = LetterPage::first(&everything, 20);
        for letter in self.table.letters(&page).await? {
            if !self.cast.part(letter.id).is_doomed() {
                self.found().innocents.insert(letter.id);
            }
            let key = self.parks(&letter).await?;
            if key.is_none() && self.healed.load(Ordering::Relaxed) {
                continue;
            }
            match (random.u8(..8), key) {
                (0, _) => {}
                (1, Some(key)) => self.resume(&key, letter.id).await?,
                (1 | 2, _) => self.change(LetterAct::Discard, letter.id, false).await?,
                (draw, _) => self.change(LetterAct::Requeue, letter.id, draw < 7).await?,
            }
        }
        Ok(())
    }

    /// The key that waits for what becomes of this one.
    async fn parks(&self, letter: &Letter) -> Result<Option<String>, StoreError> {
        let rows = self.table.rows();
        let row = rows.iter().find(|row| row.event.id() == letter.id);
        let Some(key) = row.and_then(|row| row.event.ordering_key()) else { return Ok(None) };
        let standing = self.table.key_standing(key).await?;
        let waits = standing.parking().is_some_and(|parking| parking.event == letter.id);
        Ok(waits.then(|| key.to_owned()))
    }

    async fn resume(&self, key: &str, id: EventId) -> Result<(), StoreError> {
        let resume = ResumeKey { key, event: Some(id), note: &self.note };
        if matches!(self.table.resume_key(&resume).await?, KeyFate::Resumed { .. }) {
            self.history.decided(id, Decision::Resumed);
        }
        Ok(())
    }

    /// Requeues or discards one; `mended` says whether what made it fail is no more.
    async fn change(&self, act: LetterAct, id: EventId, mended: bool) -> Result<(), StoreError> {
        let deaths = [Death::of(id)];
        let change = ChangeLetters { act, deaths: &deaths, note: &self.note };
        if self.table.change_letters(&change).await? == [LetterFate::Done] {
            if mended {
                self.cast.mend(id);
            }
            self.history.decided(
                id,
                match act {
                    LetterAct::Requeue => Decision::Requeued,
                    LetterAct::Discard => Decision::Discarded,
                },
            );
        }
        Ok(())
    }

    /// Deletes some of what ended a while ago.
    async fn purge(&self, random: &mut Rng) -> Result<(), StoreError> {
        let cutoff = Cutoff::Age(Duration::from_secs(random.u64(..20)));
        let purge = Purge { cutoff, dead: random.bool(), limit: random.usize(1..30) };
        let (before, unknown) = (self.table.rows(), unknown(&self.history, &self.table));
        self.table.purge(&purge).await?;
        let left: BTreeSet<_> = self.table.rows().iter().map(|row| row.event.id()).collect();
        for row in before.iter().filter(|row| !left.contains(&row.event.id())) {
            let id = row.event.id();
            // Nobody will be able to tell later.
            if unknown.contains(&id) {
                self.history.committed(&row.event);
                self.found().resolved.insert(id);
            }
            self.history.decided(id, Decision::Purged);
        }
        Ok(())
    }
}
