//! A journal in memory, for tests.

use std::sync::{Arc, Mutex, MutexGuard};

use async_trait::async_trait;
use sendoff_core::Timestamp;
use sendoff_core::journal::{Append, Ask, Holder, Position, Query, Recorded};

use super::error::{AppendError, Conflict, DecideError};
use super::publish::Desk;
use super::store::{Found, JournalStore, Mark, Page, Receipt, TailLook, TailRow, TailSource};
use crate::lock::lock;
use crate::store::StoreError;

/// A journal that lasts as long as its last clone. One append is made after another.
#[derive(Debug, Clone, Default)]
pub struct MemoryJournal(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    facts: Mutex<Facts>,
    desk: Mutex<Desk>,
}

/// What was appended and has not gone since.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) kept: Vec<Recorded>,
    /// The last position that was taken, also where its fact is gone.
    pub(super) head: Position,
}

impl MemoryJournal {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets what came after a position, as a server does that lost its last commits: the next fact
    /// gets a position that was given before.
    pub fn lose_after(&self, position: Position) {
        let (mut desk, mut facts) = (self.desk(), self.facts());
        facts.kept.retain(|fact| fact.position <= position);
        facts.head = facts.head.min(position);
        desk.lose_after(position);
    }

    /// Its cursors.
    pub(super) fn desk(&self) -> MutexGuard<'_, Desk> {
        lock(&self.0.desk)
    }

    /// Its facts. Whoever needs its cursors too takes those first.
    pub(super) fn facts(&self) -> MutexGuard<'_, Facts> {
        lock(&self.0.facts)
    }

    fn page(&self, query: &Query, page: Page) -> Found {
        let facts = self.facts();
        let range =
            facts.kept.iter().filter(|f| f.position > page.after && f.position <= page.up_to);
        let (mut found, mut bytes) = (Found::default(), 0);
        for fact in range.filter(|fact| query.selects(fact)) {
            bytes += fact.event().size();
            let fits = bytes <= page.bytes || found.facts.is_empty();
            if !fits || found.facts.len() == page.limit {
                found.more = true;
                break;
            }
            found.facts.push(fact.clone());
        }
        found
    }
}

#[async_trait]
impl JournalStore for MemoryJournal {
    async fn append(&self, append: &Append) -> Result<Vec<Receipt>, AppendError> {
        let mut facts = self.facts();
        let receipt = |known: &Recorded, fresh| Receipt {
            position: known.position,
            recorded_at: known.recorded_at,
            fresh,
        };
        let known: Vec<_> = append
            .facts()
            .iter()
            .filter_map(|new| facts.kept.iter().find(|known| known.fact.id() == new.id()))
            .collect();
        if !known.is_empty() {
            let same = append.facts().iter().zip(&known).all(|(new, known)| {
                let (new_event, event) = (new.event(), known.event());
                new.tags() == known.tags()
                    && new_event.event_type() == event.event_type()
                    && new_event.content_type() == event.content_type()
                    && new_event.payload() == event.payload()
            });
            if same && known.len() == append.facts().len() {
                return Ok(known.into_iter().map(|known| receipt(known, false)).collect());
            }
            return Err(AppendError::IdTaken);
        }
        if let Some(condition) = append.condition() {
            let excluded =
                |fact: &&Recorded| fact.position > condition.after && condition.query.selects(fact);
            if let Some(fact) = facts.kept.iter().find(excluded) {
                return Err(Conflict::Fact { position: fact.position }.into());
            }
        }
        let recorded_at = Timestamp::now();
        let mut receipts = Vec::new();
        for fact in append.facts() {
            let position = facts.head.next();
            facts.head = position;
            let recorded = Recorded { position, recorded_at, fact: fact.clone() };
            receipts.push(receipt(&recorded, true));
            facts.kept.push(recorded);
        }
        Ok(receipts)
    }

    async fn mark(&self, _: &Query) -> Result<Mark, DecideError> {
        Ok(self.head().await?.into())
    }

    async fn read(&self, query: &Query, page: Page) -> Result<Found, StoreError> {
        Ok(self.page(query, page))
    }

    async fn head(&self) -> Result<Position, StoreError> {
        Ok(self.facts().head)
    }

    async fn holders(&self) -> Result<Vec<Holder>, StoreError> {
        Ok(Vec::new())
    }

    async fn tail(&self) -> Result<Box<dyn TailSource>, StoreError> {
        Ok(Box::new(self.clone()))
    }
}

#[async_trait]
impl TailSource for MemoryJournal {
    async fn look(&mut self, ask: Ask, page: Page) -> Result<TailLook, StoreError> {
        let Found { facts, more, .. } = self.page(&Query::all(), page);
        let head = self.head().await?;
        let row = |fact: Recorded| TailRow { position: fact.position, recorded: Ok(fact) };
        Ok(TailLook::alone(ask, head, facts.into_iter().map(row).collect(), !more))
    }
}
