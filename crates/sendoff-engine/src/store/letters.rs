//! What the engine asks of a store about dead letters, and about what operators did.

use async_trait::async_trait;
use bytes::Bytes;
use sendoff_core::{
    AuditAction, AuditNote, Death, EventId, Letter, LetterAct, LetterFate, LetterFilter,
    LetterOrder, LetterPosition, Status, Timestamp,
};

use super::StoreError;

/// Dead letters: seen, requeued, discarded, and what was done to them.
///
/// Looking never reads delivered rows: dead ones have an index of their own, in the order in which they
/// died, and are walked along it.
#[async_trait]
pub trait LetterStore: Send + Sync + 'static {
    /// The time by the database's clock.
    async fn clock(&self) -> Result<Timestamp, StoreError>;

    /// A page of dead letters, in its order.
    async fn letters(&self, page: &LetterPage<'_>) -> Result<Vec<Letter>, StoreError>;

    /// How many letters a page has, counted up to its limit, which may be large.
    async fn count_letters(&self, page: &LetterPage<'_>) -> Result<u64, StoreError>;

    /// One event as it stands, dead or not; where a table in partitions has its id twice, the one that was
    /// written last.
    async fn record(
        &self,
        id: EventId,
        payload: PayloadWanted,
    ) -> Result<Option<EventRecord>, StoreError>;

    /// Requeues or discards these letters in one short transaction, and says what became of each, in their
    /// order. Ids come once each, and no more than [`LETTERS`](sendoff_core::limits::LETTERS).
    ///
    /// Only DEAD rows are touched, and of those that name their death only the ones that died then. Never
    /// waits for a row that somebody has locked (I11): such a letter is [busy](LetterFate::Busy). Each that
    /// was changed has an entry in the audit, of the same transaction. It commits durably where the store
    /// can see to that, also where other statements of the store do not.
    ///
    /// What is requeued is NEW and due now, with no attempts and losses, held by nobody, and waits for
    /// nothing; its last error stays. Nodes that sleep are woken where the store has a bell. Counters by type
    /// count what ended, and stay as they are.
    async fn change_letters(
        &self,
        change: &ChangeLetters<'_>,
    ) -> Result<Vec<LetterFate>, StoreError>;

    /// What operators did, the latest first.
    async fn audit(&self, page: &AuditPage) -> Result<Vec<AuditEntry>, StoreError>;
}

/// A part of the dead letters.
#[derive(Debug, Clone, Copy)]
pub struct LetterPage<'a> {
    /// Which are meant.
    pub filter: &'a LetterFilter,
    /// In which order.
    pub order: LetterOrder,
    /// Only those that come after this one, in that order.
    pub after: Option<LetterPosition>,
    /// Only those that died at this time or earlier.
    pub until: Option<Timestamp>,
    /// At most so many.
    pub limit: usize,
}

impl<'a> LetterPage<'a> {
    /// The first of them, the oldest before the others.
    pub const fn first(filter: &'a LetterFilter, limit: usize) -> Self {
        Self { filter, order: LetterOrder::OldestFirst, after: None, until: None, limit }
    }

    /// The same letters where they are only counted: in whichever order, there are as many.
    #[must_use]
    pub fn to_count(&self) -> Self {
        Self { order: LetterOrder::OldestFirst, ..*self }
    }

    /// The first and the last time at which a letter of this page can have died: what an index is walked
    /// between.
    pub fn died_between(&self) -> (Timestamp, Timestamp) {
        let before = |to: Timestamp| Timestamp::from_micros(to.as_micros().saturating_sub(1));
        let after = self.after.map(|after| after.died_at);
        let (from, to) = match self.order {
            LetterOrder::OldestFirst => (after, None),
            LetterOrder::NewestFirst => (None, after),
        };
        let first = [self.filter.died_from, from].into_iter().flatten().max();
        let last = [self.filter.died_to.map(before), self.until, to].into_iter().flatten().min();
        (first.unwrap_or(EARLIEST), last.unwrap_or(LATEST))
    }

    /// The place after which it begins, in its order; beyond all others where it begins with the first.
    pub fn begins_after(&self) -> LetterPosition {
        self.after.unwrap_or(match self.order {
            LetterOrder::OldestFirst => LetterPosition { died_at: EARLIEST, seq: i64::MIN },
            LetterOrder::NewestFirst => LetterPosition { died_at: LATEST, seq: i64::MAX },
        })
    }

    /// Whether a letter is on it, or on one that follows.
    pub(crate) fn has(&self, letter: &Letter) -> bool {
        let (first, last) = self.died_between();
        let (position, after) = (letter.position(), self.begins_after());
        let follows = match self.order {
            LetterOrder::OldestFirst => position > after,
            LetterOrder::NewestFirst => position < after,
        };
        follows && (first..=last).contains(&letter.died_at) && self.filter.means(letter)
    }
}

const EARLIEST: Timestamp = Timestamp::from_micros(i64::MIN);
const LATEST: Timestamp = Timestamp::from_micros(i64::MAX);

/// What is to be done to letters.
#[derive(Debug, Clone, Copy)]
pub struct ChangeLetters<'a> {
    /// What.
    pub act: LetterAct,
    /// To which.
    pub deaths: &'a [Death],
    /// By whom and why.
    pub note: &'a AuditNote,
}

/// Whether the payload of an event is read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PayloadWanted {
    /// It may be large, and secret.
    #[default]
    No,
    /// It is wanted.
    Yes,
}

/// An event's row, column by column, whether or not it can be delivered. Text that cannot be read is a
/// replacement character (`U+FFFD`), and a time that cannot be is the earliest there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRecord {
    /// Its id.
    pub id: EventId,
    /// Its number in the table.
    pub seq: i64,
    /// Its type.
    pub event_type: String,
    /// The kind of aggregate; [`GLOBAL_AGGREGATE`](sendoff_core::GLOBAL_AGGREGATE) for none.
    pub aggregate_type: String,
    /// The aggregate.
    pub aggregate_id: Option<String>,
    /// The tenant.
    pub tenant_id: Option<String>,
    /// The key whose events are delivered in order.
    pub ordering_key: Option<String>,
    /// The shard of that key.
    pub shard: u32,
    /// What its payload is.
    pub content_type: String,
    /// Its headers, as they are stored: JSON, if it is any.
    pub headers: Option<String>,
    /// Where it stands.
    pub status: Status,
    /// Attempts counted so far.
    pub attempts: u32,
    /// Holders in a row who vanished with it.
    pub losses: u32,
    /// When it happened.
    pub occurred_at: Timestamp,
    /// When it is due, or until when it is held; `None` where it is in line, and waits for its key. Of an event
    /// that ended it means nothing, and may be absent.
    pub due_at: Option<Timestamp>,
    /// When it was written.
    pub created_at: Timestamp,
    /// When it ended: was done, or dead.
    pub done_at: Option<Timestamp>,
    /// Since when it waits for a target that is unavailable.
    pub unavailable_since: Option<Timestamp>,
    /// Since when it waits for a node that has a handler for it.
    pub unroutable_since: Option<Timestamp>,
    /// When it first became due, if it was delayed.
    pub delayed_until: Option<Timestamp>,
    /// Who holds it, or held it last.
    pub locked_by: Option<String>,
    /// The last error.
    pub last_error: Option<String>,
    /// Bytes of its payload.
    pub payload_bytes: u64,
    /// Its payload, if it was asked for.
    pub payload: Option<Bytes>,
}

/// A part of the audit.
#[derive(Debug, Clone, Copy, Default)]
pub struct AuditPage {
    /// Only what was done to this event.
    pub event: Option<EventId>,
    /// Only what was done before this entry.
    pub before: Option<i64>,
    /// At most so many.
    pub limit: usize,
}

/// What an operator did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Its number: later ones have higher numbers.
    pub seq: i64,
    /// When, by the database's clock.
    pub at: Timestamp,
    /// What was done.
    pub action: AuditAction,
    /// By whom.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// The event it was done to.
    pub event: Option<EventId>,
    /// The type of that event.
    pub event_type: Option<String>,
    /// The attempts it had used by then.
    pub attempts: Option<u32>,
    /// Its last error by then.
    pub last_error: Option<String>,
    /// What it was done to, where that is no event.
    pub subject: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    #[test]
    fn a_page_lies_between_the_narrowest_of_its_bounds() {
        let filter = LetterFilter {
            died_from: Some(at(10)),
            died_to: Some(at(50)),
            ..LetterFilter::default()
        };
        let after = Some(LetterPosition { died_at: at(20), seq: 7 });
        let page = LetterPage { after, until: Some(at(40)), ..LetterPage::first(&filter, 1) };
        assert_eq!(page.died_between(), (at(20), at(40)));
        let page = LetterPage { order: LetterOrder::NewestFirst, ..page };
        assert_eq!(page.died_between(), (at(10), at(20)));
        let page = LetterPage { after: None, until: None, ..page };
        assert_eq!(page.died_between(), (at(10), at(49)));
        let everything = LetterFilter::default();
        let page = LetterPage { filter: &everything, ..page };
        assert_eq!(page.died_between(), (EARLIEST, LATEST));
    }
}
