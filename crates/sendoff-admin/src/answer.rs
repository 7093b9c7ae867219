//! What is answered, as JSON. The comments on types and fields are their descriptions in the document
//! of the routes.

use sendoff_core::Timestamp;
use sendoff_core::journal::Position;
use sendoff_core::journal::publish::CursorStatus;
use sendoff_engine::journal::publish::{Cursor, Parked};
use serde::Serialize;
use utoipa::ToSchema;

use crate::page::{Last, cut};

/// Whether it is worked; FAILED needs a reset.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
enum Status {
    Active,
    Paused,
    Failed,
}

impl From<CursorStatus> for Status {
    fn from(status: CursorStatus) -> Self {
        match status {
            CursorStatus::Active => Self::Active,
            CursorStatus::Paused => Self::Paused,
            CursorStatus::Failed => Self::Failed,
        }
    }
}

/// A publisher with one of its topics.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Pair {
    topic: String,
    publisher: String,
    #[schema(inline)]
    status: Status,
    /// Everything up to here was published, parked, or is not for it.
    #[schema(value_type = u64)]
    position: Position,
    /// Positions between it and the head.
    lag: u64,
    /// Failures since something was published.
    #[schema(value_type = u64)]
    errors: u32,
    /// Why, the last time.
    #[schema(required)]
    last_error: Option<String>,
    /// The node that leads it, dead or alive.
    #[schema(required)]
    leader: Option<String>,
    /// Fencing epoch: grows each time the pair changes hands.
    #[schema(minimum = 0)]
    epoch: i64,
    /// When something was published last.
    #[schema(required, format = DateTime)]
    published_at: Option<String>,
    /// The fact that it waits at, if the last run failed.
    #[schema(required, value_type = Option<u64>)]
    waits_at: Option<Position>,
    /// Since when it waits there.
    #[schema(required, format = DateTime)]
    waits_since: Option<String>,
}

impl Pair {
    fn new(cursor: Cursor, head: Position) -> Self {
        Self {
            topic: cursor.pair.topic().to_owned(),
            publisher: cursor.pair.publisher().to_owned(),
            status: cursor.status.into(),
            position: cursor.position,
            lag: head.since(cursor.position),
            errors: cursor.errors,
            last_error: cursor.last_error,
            leader: cursor.leader,
            epoch: cursor.epoch,
            published_at: cursor.published_at.map(time),
            waits_at: cursor.waits_at.map(|at| at.position),
            waits_since: cursor.waits_at.map(|at| time(at.since)),
        }
    }
}

/// Pairs in the order of their names.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Pairs {
    /// The last position that was taken.
    #[schema(value_type = u64)]
    head: Position,
    pairs: Vec<Pair>,
    /// What to ask for as `after` to have the next page; null on the last one.
    #[schema(required)]
    next: Option<String>,
}

impl Pairs {
    /// The first of them.
    pub(crate) fn new(cursors: Vec<Cursor>, head: Position, limit: usize) -> Self {
        let (cursors, next) = page(cursors, limit);
        let pairs = cursors.into_iter().map(|cursor| Pair::new(cursor, head)).collect();
        Self { head, pairs, next }
    }
}

/// How far a pair lags.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct PairLag {
    topic: String,
    publisher: String,
    #[schema(inline)]
    status: Status,
    /// Everything up to here was published, parked, or is not for it.
    #[schema(value_type = u64)]
    position: Position,
    /// Positions between it and the head.
    lag: u64,
}

/// How far the pairs lag.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Lag {
    /// The last position that was taken.
    #[schema(value_type = u64)]
    head: Position,
    /// The longest lag of all pairs that were asked for, on whatever page.
    longest: u64,
    pairs: Vec<PairLag>,
    /// What to ask for as `after` to have the next page; null on the last one.
    #[schema(required)]
    next: Option<String>,
}

impl Lag {
    /// The first of those after `after`; the longest lag is that of all.
    pub(crate) fn new(
        cursors: Vec<Cursor>,
        after: Option<&Last>,
        head: Position,
        limit: usize,
    ) -> Self {
        let lag = |cursor: &Cursor| head.since(cursor.position);
        let longest = cursors.iter().map(lag).max().unwrap_or(0);
        let (cursors, next) = page(following(cursors, after), limit);
        let pair = |cursor: Cursor| PairLag {
            topic: cursor.pair.topic().to_owned(),
            publisher: cursor.pair.publisher().to_owned(),
            status: cursor.status.into(),
            position: cursor.position,
            lag: lag(&cursor),
        };
        Self { head, longest, pairs: cursors.into_iter().map(pair).collect(), next }
    }
}

/// Those after the last one of the page before. They come in the order of their names.
pub(crate) fn following(mut cursors: Vec<Cursor>, after: Option<&Last>) -> Vec<Cursor> {
    cursors.sort_by(|one, other| one.pair.cmp(&other.pair));
    if let Some(last) = after.map(Last::pair) {
        cursors.retain(|cursor| cursor.pair > last);
    }
    cursors
}

fn page(cursors: Vec<Cursor>, limit: usize) -> (Vec<Cursor>, Option<String>) {
    let (cursors, more) = cut(cursors, limit);
    let last = cursors.last().filter(|_| more);
    let next = last.map(|cursor| Last::new(&cursor.pair, Position::START).to_text());
    (cursors, next)
}

/// A change that was made.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Changed {
    /// Pairs that were meant.
    pub(crate) changed: u64,
    pub(crate) now: Pairs,
}

/// A change of facts that were parked.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ChangedFacts {
    /// Facts that were meant.
    pub(crate) changed: u64,
}

/// A fact that was parked.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ParkedFact {
    topic: String,
    publisher: String,
    /// Where it is in the journal.
    #[schema(value_type = u64)]
    position: Position,
    /// How often it was tried.
    #[schema(value_type = u64)]
    attempts: u32,
    /// Since when it is parked.
    #[schema(format = DateTime)]
    parked_at: String,
    /// When it is tried again; null if not by itself.
    #[schema(required, format = DateTime)]
    next_at: Option<String>,
    /// Why, the last time.
    #[schema(required)]
    error: Option<String>,
}

/// Facts that were parked.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ParkedFacts {
    parked: Vec<ParkedFact>,
    /// What to ask for as `after` to have the next page; null on the last one.
    #[schema(required)]
    next: Option<String>,
}

impl ParkedFacts {
    /// The first of them.
    pub(crate) fn new(parked: Vec<Parked>, limit: usize) -> Self {
        let (parked, more) = cut(parked, limit);
        let last = parked.last().filter(|_| more);
        let next = last.map(|parked| Last::new(&parked.pair, parked.position).to_text());
        let fact = |parked: Parked| ParkedFact {
            topic: parked.pair.topic().to_owned(),
            publisher: parked.pair.publisher().to_owned(),
            position: parked.position,
            attempts: parked.attempts,
            parked_at: time(parked.parked_at),
            next_at: parked.next_at.map(time),
            error: parked.error,
        };
        Self { parked: parked.into_iter().map(fact).collect(), next }
    }
}

fn time(time: Timestamp) -> String {
    time.to_string()
}
