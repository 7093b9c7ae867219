//! Dead letters: seen, counted, requeued and discarded by people.

mod sweep;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{
    AuditNote, Death, EventId, InvalidFilter, Letter, LetterAct, LetterCount, LetterFate,
    LetterFilter, LetterOrder, LetterPosition, Timestamp, limits,
};
use tokio::time::sleep;
use tracing::info;

pub use sweep::{LetterSweep, SweepError, SweepOptions, Swept};

use crate::options::OptionsError;
use crate::store::{
    Answer, AuditEntry, AuditPage, ChangeLetters, EventRecord, LetterPage, LetterStore,
    PayloadWanted, StoreError, within,
};

/// How long an answer of the database is waited for.
pub(super) const ANSWER: Duration = Duration::from_secs(30);

/// After how long what is busy is asked for again: nodes, and operators who do the same, have a row locked
/// for a moment; people for longer.
pub(super) const AGAIN: [Duration; 3] =
    [Duration::from_millis(20), Duration::from_millis(60), Duration::from_millis(180)];

/// Letters that are counted unless somebody asks for more: beyond that the exact number is worth less than
/// the time.
const COUNTED: u64 = 10_000;

/// Letters that can be counted: a mistake of units beyond that.
const MOST_COUNTED: u64 = 10_000_000;

/// Entries of the audit that are shown with an event.
const SHOWN_ENTRIES: usize = 100;

/// The dead letters of an outbox, wherever its nodes run. Cheap to clone.
///
/// Whatever it does, it does to DEAD rows alone, in short transactions, beside nodes that deliver. Each
/// change is remembered, with who did it and why, in the transaction that makes it.
///
/// ```
/// use std::sync::Arc;
/// use sendoff_core::{AuditNote, LetterAct, LetterFilter};
/// use sendoff_engine::memory::MemoryStore;
/// use sendoff_engine::{DeadLetters, SweepOptions};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let letters = DeadLetters::new(Arc::new(MemoryStore::new())); // or `outbox.dead_letters()`
/// let mails = LetterFilter { event_type: Some("mail.wanted".into()), ..LetterFilter::default() };
///
/// println!("{} are dead", letters.count(&mails).await?);
/// let note = AuditNote::new("ada", "the mail server is back")?;
/// let swept = letters.sweep(LetterAct::Requeue, mails, note, SweepOptions::default())?.run().await?;
/// assert!(swept.finished);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct DeadLetters {
    store: Arc<dyn LetterStore>,
    answer: Duration,
}

/// Why dead letters could not be seen or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LettersError {
    /// The filter was refused, before anything was asked of the database.
    #[error(transparent)]
    Filter(#[from] InvalidFilter),
    /// An option was refused.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// More events were named than one act takes.
    #[error("{count} events were named; one act takes {limit} at most")]
    TooMany {
        /// How many were named.
        count: usize,
        /// How many may be.
        limit: usize,
    },
    /// The database did not do it. Where it did not answer in time, it may have been done all the same:
    /// then the audit says so.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A part of the dead letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letters {
    /// Them, in the order that was asked for.
    pub letters: Vec<Letter>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<LetterPosition>,
}

/// An event, and what operators did to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownEvent {
    /// Its row; `None` where it was discarded or forgotten, and only the audit remembers it.
    pub record: Option<EventRecord>,
    /// What was done to it, the latest first; the last hundred entries.
    pub audit: Vec<AuditEntry>,
}

/// A part of what operators did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    /// The entries, the latest first.
    pub entries: Vec<AuditEntry>,
    /// Before which entry the next page begins; `None` at the end.
    pub next: Option<i64>,
}

impl DeadLetters {
    /// The dead letters of a store.
    pub fn new(store: Arc<dyn LetterStore>) -> Self {
        Self { store, answer: ANSWER }
    }

    /// How long each answer of the database is waited for; 30 s if nothing is said.
    #[must_use]
    pub fn answer_within(mut self, limit: Duration) -> Self {
        self.answer = limit;
        self
    }

    /// A page of dead letters: up to `limit`, and no more than [`LETTERS`](limits::LETTERS).
    ///
    /// Pages are continued by where the last one ended, so that letters that come and go between two pages
    /// neither repeat nor hide any other. A filter that few letters meet reads all of them.
    pub async fn list(
        &self,
        filter: &LetterFilter,
        order: LetterOrder,
        after: Option<LetterPosition>,
        limit: usize,
    ) -> Result<Letters, LettersError> {
        filter.check()?;
        let limit = limit.clamp(1, limits::LETTERS);
        // One more, which says whether there is another page.
        let page = LetterPage { filter, order, after, until: None, limit: limit + 1 };
        let mut letters = self.page(&page).await?;
        let more = letters.len() > limit;
        letters.truncate(limit);
        let next = letters.last().filter(|_| more).map(Letter::position);
        Ok(Letters { letters, next })
    }

    /// How many letters there are, counted up to 10,000.
    pub async fn count(&self, filter: &LetterFilter) -> Result<LetterCount, LettersError> {
        self.count_up_to(filter, COUNTED).await
    }

    /// The same, counted up to `most`, and to ten million at most.
    pub async fn count_up_to(
        &self,
        filter: &LetterFilter,
        most: u64,
    ) -> Result<LetterCount, LettersError> {
        filter.check()?;
        Ok(self.counted(filter, None, most).await?)
    }

    /// An event as it stands, dead or not, and what operators did to it; `None` if there is neither a row
    /// nor an entry in the audit. Its payload is read only where it is [wanted](PayloadWanted).
    pub async fn show(
        &self,
        id: EventId,
        payload: PayloadWanted,
    ) -> Result<Option<ShownEvent>, LettersError> {
        let record = within(self.answer, self.store.record(id, payload)).await?;
        let page = AuditPage { event: Some(id), before: None, limit: SHOWN_ENTRIES };
        let audit = within(self.answer, self.store.audit(&page)).await?;
        let known = record.is_some() || !audit.is_empty();
        Ok(known.then_some(ShownEvent { record, audit }))
    }

    /// Lets these events be tried again, as if they had never been: NEW, due now, without attempts. Says
    /// what became of each, in their order; one that was named twice is answered twice.
    ///
    /// # Errors
    ///
    /// [`TooMany`](LettersError::TooMany) for more than [`LETTERS`](limits::LETTERS).
    pub async fn requeue(
        &self,
        ids: &[EventId],
        note: &AuditNote,
    ) -> Result<Vec<(EventId, LetterFate)>, LettersError> {
        self.act(LetterAct::Requeue, ids, note).await
    }

    /// Deletes these events: they will not be delivered. Says what became of each, in their order.
    ///
    /// # Errors
    ///
    /// [`TooMany`](LettersError::TooMany) for more than [`LETTERS`](limits::LETTERS).
    pub async fn discard(
        &self,
        ids: &[EventId],
        note: &AuditNote,
    ) -> Result<Vec<(EventId, LetterFate)>, LettersError> {
        self.act(LetterAct::Discard, ids, note).await
    }

    /// Requeues or discards all letters that a filter means, batch by batch; nothing is done before it
    /// [runs](LetterSweep::run).
    pub fn sweep(
        &self,
        act: LetterAct,
        filter: LetterFilter,
        note: AuditNote,
        options: SweepOptions,
    ) -> Result<LetterSweep, LettersError> {
        LetterSweep::new(self.clone(), act, filter, note, options)
    }

    /// What operators did, the latest first: up to `limit` entries, and no more than
    /// [`LETTERS`](limits::LETTERS), of one event or of all, before the entry of that number.
    pub async fn audit(
        &self,
        event: Option<EventId>,
        before: Option<i64>,
        limit: usize,
    ) -> Result<Audit, LettersError> {
        let limit = limit.clamp(1, limits::LETTERS);
        let page = AuditPage { event, before, limit: limit + 1 };
        let mut entries = within(self.answer, self.store.audit(&page)).await?;
        let more = entries.len() > limit;
        entries.truncate(limit);
        let next = entries.last().filter(|_| more).map(|entry| entry.seq);
        Ok(Audit { entries, next })
    }

    async fn act(
        &self,
        act: LetterAct,
        ids: &[EventId],
        note: &AuditNote,
    ) -> Result<Vec<(EventId, LetterFate)>, LettersError> {
        let (count, limit) = (ids.len(), limits::LETTERS);
        if count > limit {
            return Err(LettersError::TooMany { count, limit });
        }
        let mut seen = HashSet::new();
        let deaths: Vec<_> =
            ids.iter().filter(|id| seen.insert(**id)).map(|id| Death::of(*id)).collect();
        let fates = self.change(act, &deaths, note).await?;
        let done = fates.iter().filter(|fate| **fate == LetterFate::Done).count();
        told(act, note, done);
        let fate = |id: &EventId| {
            let found = deaths.iter().position(|death| death.id == *id);
            found.and_then(|at| fates.get(at)).copied().unwrap_or(LetterFate::NotFound)
        };
        Ok(ids.iter().map(|id| (*id, fate(id))).collect())
    }

    /// Changes letters, and says what became of each. What is busy is asked for a few times more: somebody
    /// who was about to do the same has done it by then, and it can be said what.
    async fn change(
        &self,
        act: LetterAct,
        deaths: &[Death],
        note: &AuditNote,
    ) -> Answer<Vec<LetterFate>> {
        let mut fates = self.change_once(act, deaths, note).await?;
        for pause in AGAIN {
            let busy: Vec<usize> =
                (0..fates.len()).filter(|at| fates[*at] == LetterFate::Busy).collect();
            if busy.is_empty() {
                break;
            }
            sleep(pause).await;
            let again: Vec<Death> = busy.iter().map(|at| deaths[*at]).collect();
            // What was done before is done, and must be told, whatever becomes of the rest.
            let Ok(told) = self.change_once(act, &again, note).await else { break };
            busy.into_iter().zip(told).for_each(|(at, fate)| fates[at] = fate);
        }
        Ok(fates)
    }

    async fn change_once(
        &self,
        act: LetterAct,
        deaths: &[Death],
        note: &AuditNote,
    ) -> Answer<Vec<LetterFate>> {
        if deaths.is_empty() {
            return Ok(Vec::new());
        }
        let change = ChangeLetters { act, deaths, note };
        let fates = within(self.answer, self.store.change_letters(&change)).await?;
        if fates.len() != deaths.len() {
            return Err(StoreError::Refused("the store did not answer for each letter".into()));
        }
        Ok(fates)
    }

    async fn page(&self, page: &LetterPage<'_>) -> Answer<Vec<Letter>> {
        within(self.answer, self.store.letters(page)).await
    }

    async fn counted(
        &self,
        filter: &LetterFilter,
        until: Option<Timestamp>,
        most: u64,
    ) -> Answer<LetterCount> {
        let most = most.min(MOST_COUNTED);
        let limit = usize::try_from(most).unwrap_or(usize::MAX).saturating_add(1);
        let order = LetterOrder::OldestFirst;
        let page = LetterPage { filter, order, after: None, until, limit };
        let found = within(self.answer, self.store.count_letters(&page)).await?;
        Ok(LetterCount::found(found, most))
    }

    async fn clock(&self) -> Answer<Timestamp> {
        within(self.answer, self.store.clock()).await
    }
}

/// Says in the log what an operator did.
fn told(act: LetterAct, note: &AuditNote, letters: impl tracing::Value) {
    let action = act.action().name();
    info!(action, letters, actor = note.actor(), "an operator changed dead letters");
}

impl fmt::Debug for DeadLetters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeadLetters").field("answer", &self.answer).finish_non_exhaustive()
    }
}
