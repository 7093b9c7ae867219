//! What is answered about dead letters, as JSON. The comments on types and fields are their descriptions in
//! the document of the routes.

use sendoff_core::{EventId, Letter, LetterAct, LetterCount, LetterPosition, Timestamp};
use sendoff_engine::store::{AuditEntry, EventRecord};
use sendoff_engine::{Audit, Letters, Swept};
use serde::Serialize;
use utoipa::ToSchema;

use crate::page::After;

/// Where an event stands.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
enum Status {
    New,
    Done,
    Retry,
    Dead,
}

impl From<sendoff_core::Status> for Status {
    fn from(status: sendoff_core::Status) -> Self {
        match status {
            sendoff_core::Status::New => Self::New,
            sendoff_core::Status::Done => Self::Done,
            sendoff_core::Status::Retry => Self::Retry,
            sendoff_core::Status::Dead => Self::Dead,
        }
    }
}

/// An event that no attempt is left for.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeadLetter {
    event_id: String,
    /// Its number in the table.
    seq: i64,
    event_type: String,
    aggregate_type: String,
    #[schema(required)]
    aggregate_id: Option<String>,
    #[schema(required)]
    tenant_id: Option<String>,
    /// Attempts that were counted.
    #[schema(value_type = u64)]
    attempts: u32,
    #[schema(format = DateTime)]
    created_at: String,
    /// When it died, by the database's clock.
    #[schema(format = DateTime)]
    died_at: String,
    /// Why, the last time.
    #[schema(required)]
    last_error: Option<String>,
}

impl From<Letter> for DeadLetter {
    fn from(letter: Letter) -> Self {
        Self {
            event_id: letter.id.to_string(),
            seq: letter.seq,
            event_type: letter.event_type,
            aggregate_type: letter.aggregate_type,
            aggregate_id: letter.aggregate_id,
            tenant_id: letter.tenant_id,
            attempts: letter.attempts,
            created_at: letter.created_at.to_string(),
            died_at: letter.died_at.to_string(),
            last_error: letter.last_error,
        }
    }
}

/// Dead letters, in the order in which they died.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DeadLetterPage {
    letters: Vec<DeadLetter>,
    /// What to ask for as `after` to have the next page; null on the last one.
    #[schema(required)]
    next: Option<String>,
}

impl From<Letters> for DeadLetterPage {
    fn from(page: Letters) -> Self {
        let next = page
            .next
            .map(|LetterPosition { died_at, seq }| After::written(&(died_at.as_micros(), seq)));
        Self { letters: page.letters.into_iter().map(Into::into).collect(), next }
    }
}

/// An event as it stands, column by column, and what operators did to it.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EventDetail {
    event_id: String,
    /// Its number in the table.
    seq: i64,
    event_type: String,
    aggregate_type: String,
    #[schema(required)]
    aggregate_id: Option<String>,
    #[schema(required)]
    tenant_id: Option<String>,
    #[schema(required)]
    ordering_key: Option<String>,
    #[schema(value_type = u64)]
    shard: u32,
    #[schema(inline)]
    status: Status,
    /// Attempts that were counted.
    #[schema(value_type = u64)]
    attempts: u32,
    /// Holders in a row who vanished with it.
    #[schema(value_type = u64)]
    losses: u32,
    #[schema(format = DateTime)]
    occurred_at: String,
    #[schema(format = DateTime)]
    created_at: String,
    /// When it is due, or until when it is held; null where it is in line, and waits for its key. Of one that
    /// ended it means nothing.
    #[schema(required, format = DateTime)]
    due_at: Option<String>,
    /// When it ended: was done, or dead.
    #[schema(required, format = DateTime)]
    done_at: Option<String>,
    /// Since when it waits for a target that is unavailable.
    #[schema(required, format = DateTime)]
    unavailable_since: Option<String>,
    /// Since when it waits for a node that has a handler for it.
    #[schema(required, format = DateTime)]
    unroutable_since: Option<String>,
    /// When it first became due, if it was delayed.
    #[schema(required, format = DateTime)]
    delayed_until: Option<String>,
    /// Who holds it, or held it last.
    #[schema(required)]
    locked_by: Option<String>,
    /// Why, the last time.
    #[schema(required)]
    last_error: Option<String>,
    /// Its headers as they are stored, which is JSON.
    #[schema(required)]
    headers: Option<String>,
    content_type: String,
    payload_bytes: u64,
    /// Its payload, if it was asked for: text if it is UTF-8, else hexadecimal digits.
    #[schema(required)]
    payload: Option<String>,
    /// Whether the payload is in hexadecimal digits.
    payload_is_hex: bool,
    /// What operators did to it, the latest first; the last hundred entries.
    audit: Vec<AuditEntryView>,
}

impl EventDetail {
    pub(super) fn new(record: EventRecord, audit: Vec<AuditEntry>) -> Self {
        let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
        let (payload, payload_is_hex) = match record.payload {
            None => (None, false),
            Some(bytes) => match String::from_utf8(bytes.to_vec()) {
                Ok(text) => (Some(text), false),
                Err(_) => (Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect()), true),
            },
        };
        Self {
            event_id: record.id.to_string(),
            seq: record.seq,
            event_type: record.event_type,
            aggregate_type: record.aggregate_type,
            aggregate_id: record.aggregate_id,
            tenant_id: record.tenant_id,
            ordering_key: record.ordering_key,
            shard: record.shard,
            status: record.status.into(),
            attempts: record.attempts,
            losses: record.losses,
            occurred_at: record.occurred_at.to_string(),
            created_at: record.created_at.to_string(),
            due_at: time(record.due_at),
            done_at: time(record.done_at),
            unavailable_since: time(record.unavailable_since),
            unroutable_since: time(record.unroutable_since),
            delayed_until: time(record.delayed_until),
            locked_by: record.locked_by,
            last_error: record.last_error,
            headers: record.headers,
            content_type: record.content_type,
            payload_bytes: record.payload_bytes,
            payload,
            payload_is_hex,
            audit: audit.into_iter().map(Into::into).collect(),
        }
    }
}

/// What was done.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
enum Done {
    Requeued,
    Discarded,
}

/// A letter that was requeued or discarded.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TreatedLetter {
    event_id: String,
    #[schema(inline)]
    done: Done,
}

impl TreatedLetter {
    pub(super) fn new(id: EventId, act: LetterAct) -> Self {
        let done = match act {
            LetterAct::Requeue => Done::Requeued,
            LetterAct::Discard => Done::Discarded,
        };
        Self { event_id: id.to_string(), done }
    }
}

/// What became of many letters.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SweptLetters {
    /// Whether they were only counted.
    dry_run: bool,
    /// How many there were before, counted up to 10,000.
    found: u64,
    /// Whether that is all of them.
    exact: bool,
    /// How many were requeued, or discarded.
    done: u64,
    /// How many are as they were, because somebody had them locked.
    busy: u64,
    /// How many somebody else changed meanwhile.
    passed: u64,
    /// Whether it came to the end. If not, ask again with `began`.
    finished: bool,
    /// What to ask for as `began` to go on: what died later is left alone.
    #[schema(required, format = DateTime)]
    began: Option<String>,
}

impl SweptLetters {
    pub(super) fn foretold(found: LetterCount) -> Self {
        Self { dry_run: true, ..Self::new(found, Swept::default()) }
    }

    pub(super) fn new(found: LetterCount, swept: Swept) -> Self {
        let Swept { began, done, busy, passed, finished, .. } = swept;
        Self {
            dry_run: false,
            found: found.counted(),
            exact: found.is_exact(),
            done,
            busy,
            passed,
            finished,
            began: began.map(|time| time.to_string()),
        }
    }
}

/// What an operator did.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AuditEntry)]
pub(crate) struct AuditEntryView {
    /// Its number: later ones have higher numbers.
    seq: i64,
    /// When, by the database's clock.
    #[schema(format = DateTime)]
    at: String,
    /// What: requeue, discard, pause, resume.
    action: &'static str,
    /// By whom.
    actor: String,
    /// Why.
    reason: String,
    /// The event it was done to.
    #[schema(required)]
    event_id: Option<String>,
    /// The type of that event.
    #[schema(required)]
    event_type: Option<String>,
    /// The attempts it had used by then.
    #[schema(required, value_type = Option<u64>)]
    attempts: Option<u32>,
    /// Its last error by then.
    #[schema(required)]
    last_error: Option<String>,
    /// What it was done to, where that is no event.
    #[schema(required)]
    subject: Option<String>,
}

impl From<AuditEntry> for AuditEntryView {
    fn from(entry: AuditEntry) -> Self {
        Self {
            seq: entry.seq,
            at: entry.at.to_string(),
            action: entry.action.name(),
            actor: entry.actor,
            reason: entry.reason,
            event_id: entry.event.map(|id| id.to_string()),
            event_type: entry.event_type,
            attempts: entry.attempts,
            last_error: entry.last_error,
            subject: entry.subject,
        }
    }
}

/// What operators did, the latest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditEntries {
    entries: Vec<AuditEntryView>,
    /// What to ask for as `after` to have the next page; null on the last one.
    #[schema(required)]
    next: Option<String>,
}

impl From<Audit> for AuditEntries {
    fn from(audit: Audit) -> Self {
        let next = audit.next.map(|before| After::written(&before));
        Self { entries: audit.entries.into_iter().map(Into::into).collect(), next }
    }
}
