//! What is answered, as JSON. The document of the routes describes each of these.

use sendoff_core::Timestamp;
use sendoff_core::journal::Position;
use sendoff_engine::journal::publish::{Cursor, Parked};
use serde::Serialize;

use crate::page::{Last, cut};

/// A publisher with one of its topics.
#[derive(Debug, Serialize)]
pub(crate) struct Pair {
    topic: String,
    publisher: String,
    status: &'static str,
    position: Position,
    lag: u64,
    errors: u32,
    last_error: Option<String>,
    leader: Option<String>,
    epoch: i64,
    published_at: Option<String>,
}

impl Pair {
    fn new(cursor: Cursor, head: Position) -> Self {
        Self {
            topic: cursor.pair.topic().to_owned(),
            publisher: cursor.pair.publisher().to_owned(),
            status: cursor.status.as_str(),
            position: cursor.position,
            lag: head.since(cursor.position),
            errors: cursor.errors,
            last_error: cursor.last_error,
            leader: cursor.leader,
            epoch: cursor.epoch,
            published_at: cursor.published_at.map(time),
        }
    }
}

/// Pairs, and the journal's end by which their lag is counted.
#[derive(Debug, Serialize)]
pub(crate) struct Pairs {
    head: Position,
    pairs: Vec<Pair>,
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
#[derive(Debug, Serialize)]
pub(crate) struct PairLag {
    topic: String,
    publisher: String,
    status: &'static str,
    position: Position,
    lag: u64,
}

/// How far the pairs lag.
#[derive(Debug, Serialize)]
pub(crate) struct Lag {
    head: Position,
    longest: u64,
    pairs: Vec<PairLag>,
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
            status: cursor.status.as_str(),
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

/// A change that was made, and how things are since.
#[derive(Debug, Serialize)]
pub(crate) struct Changed {
    pub(crate) changed: u64,
    pub(crate) now: Pairs,
}

/// A change of facts that are parked.
#[derive(Debug, Serialize)]
pub(crate) struct ChangedFacts {
    pub(crate) changed: u64,
}

/// A fact that is parked.
#[derive(Debug, Serialize)]
pub(crate) struct ParkedFact {
    topic: String,
    publisher: String,
    position: Position,
    attempts: u32,
    parked_at: String,
    next_at: Option<String>,
    error: Option<String>,
}

/// Facts that are parked.
#[derive(Debug, Serialize)]
pub(crate) struct ParkedFacts {
    parked: Vec<ParkedFact>,
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
