//! Cursors, who leads them, and what was parked.
//!
//! Whatever belongs together is written in one transaction. They need not wait for the disk: a cursor
//! that is lost to a power failure only causes another delivery, and never outlives a fact.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row};
use sendoff_core::journal::Position;
use sendoff_core::journal::publish::{CursorStatus, PairId};
use sendoff_core::{Timestamp, Undecodable, limits};
use sendoff_engine::journal::publish::{
    Change, ChangeParked, Cursor, Move, Moved, Parked, ParkedChange, ParkedPage, PublishStore,
    Retried, Seen, Survey, TriedAgain, Which,
};
use sendoff_engine::lead::{Beat, Membership, NodeCard, NodeSeen};
use sendoff_engine::store::{StoreError, frame};

use super::sql::Sql;
use super::store::SqliteJournal;
use crate::error::failed;
use crate::rows::all as columns;

/// How long a node is remembered after its death.
const REMEMBERED: Duration = Duration::from_secs(60 * 60);

#[async_trait]
impl PublishStore for SqliteJournal {
    async fn check_ready(&self) -> Result<(), StoreError> {
        self.check_ready().await
    }

    async fn register(&self, pairs: &[(PairId, Position)]) -> Result<(), StoreError> {
        let pairs = pairs.to_vec();
        self.note(move |conn, sql, now| {
            let mut register = conn.prepare_cached(&sql.register)?;
            for (pair, position) in &pairs {
                let position = i64::from(*position);
                register.execute((pair.topic(), pair.publisher(), position, now.as_micros()))?;
            }
            Ok(())
        })
        .await
    }

    async fn join(&self, card: &NodeCard) -> Result<Box<dyn Membership>, StoreError> {
        let joining = card.clone();
        self.note(move |conn, sql, now| {
            let (owner, now) = (&*joining.owner, now.as_micros());
            conn.prepare_cached(&sql.forget)?.execute((owner, now, micros(REMEMBERED)))?;
            // A set of numbers always serialises.
            let knows = serde_json::to_string(&joining.knows).unwrap_or_default();
            let params = (owner, now, micros(joining.lease), knows);
            conn.prepare_cached(&sql.join)?.execute(params).map(drop)
        })
        .await?;
        Ok(Box::new(SqliteMember { journal: self.clone(), owner: Arc::clone(&card.owner) }))
    }

    async fn survey(&self) -> Result<Survey, StoreError> {
        let now = self.now().as_micros();
        self.look(move |conn, sql| {
            let nodes = all(conn, &sql.nodes, [now], |row| {
                let knows: String = row.get(1)?;
                let knows = serde_json::from_str(&knows).map_err(|error| out_of_range(1, error))?;
                Ok(NodeSeen::restore(row.get(0)?, knows, row.get(2)?, row.get(3)?))
            })?;
            Ok(Survey { nodes, cursors: all(conn, &sql.cursors, [], cursor)? })
        })
        .await
    }

    async fn take(&self, owner: &str, wanted: &[Seen]) -> Result<Vec<Cursor>, StoreError> {
        let (owner, wanted) = (owner.to_owned(), wanted.to_vec());
        self.note(move |conn, sql, now| {
            let mut take = conn.prepare_cached(&sql.take)?;
            let mut taken = Vec::new();
            for Seen { pair, leader, epoch } in &wanted {
                let (topic, publisher) = (pair.topic(), pair.publisher());
                let params = (&owner, now.as_micros(), topic, publisher, leader, epoch);
                for cursor in take.query_map(params, cursor)? {
                    taken.push(cursor?);
                }
            }
            Ok(taken)
        })
        .await
    }

    async fn give(&self, owner: &str, pairs: &[(Arc<PairId>, i64)]) -> Result<(), StoreError> {
        let (owner, pairs) = (owner.to_owned(), pairs.to_vec());
        self.note(move |conn, sql, now| {
            let mut give = conn.prepare_cached(&sql.give)?;
            for (pair, epoch) in &pairs {
                let now = now.as_micros();
                give.execute((&owner, now, pair.topic(), pair.publisher(), epoch))?;
            }
            Ok(())
        })
        .await
    }

    async fn advance(&self, owner: &str, moves: &[Move]) -> Result<Vec<Moved>, StoreError> {
        let (owner, moves) = (owner.to_owned(), moves.to_vec());
        self.note(move |conn, sql, now| {
            moves.iter().map(|next| advance(conn, sql, now, &owner, next)).collect()
        })
        .await
    }

    async fn due(&self, owner: &str, each: usize) -> Result<Vec<Parked>, StoreError> {
        let params = (owner.to_owned(), self.now().as_micros(), many(each));
        self.look(move |conn, sql| all(conn, &sql.due, params, parked)).await
    }

    async fn settle_parked(&self, tried: TriedAgain<'_>) -> Result<bool, StoreError> {
        let TriedAgain { owner, epoch, parked, outcome } = tried;
        let (owner, parked, outcome) = (owner.to_owned(), parked.clone(), outcome.clone());
        self.note(move |conn, sql, now| {
            let (topic, publisher) = (parked.pair.topic(), parked.pair.publisher());
            let mut leads = conn.prepare_cached(&sql.leads)?;
            if !leads.query_row((&owner, topic, publisher, epoch), |row| row.get(0))? {
                return Ok(false);
            }
            let position = i64::from(parked.position);
            match &outcome {
                Retried::Published => {
                    let mut forget = conn.prepare_cached(&sql.parked_discard)?;
                    forget.execute((topic, publisher, position))?;
                }
                Retried::Failed { attempts, delay, error } => {
                    let next_at = delay.map(|delay| later(now, delay));
                    let mut again = conn.prepare_cached(&sql.parked_failed)?;
                    again.execute((topic, publisher, position, attempts, next_at, kept(error)))?;
                }
            }
            Ok(true)
        })
        .await
    }

    async fn change(&self, which: &Which, change: Change) -> Result<u64, StoreError> {
        let (word, to) = change.in_words();
        let Which { topic, publisher } = which.clone();
        self.note(move |conn, sql, now| {
            let params = (now.as_micros(), topic, publisher, word, to);
            Ok(conn.prepare_cached(&sql.change)?.execute(params)? as u64)
        })
        .await
    }

    async fn parked(&self, page: ParkedPage<'_>) -> Result<Vec<Parked>, StoreError> {
        let ParkedPage { which, after, limit } = page;
        let last = after.map(|(pair, at)| (pair.clone(), i64::from(at)));
        let Which { topic, publisher } = which.clone();
        self.look(move |conn, sql| {
            let pair = last.as_ref().map(|(pair, _)| pair);
            let params = (
                topic,
                publisher,
                pair.map(PairId::topic),
                pair.map(PairId::publisher),
                last.as_ref().map(|(_, at)| at),
                many(limit),
            );
            all(conn, &sql.parked_list, params, parked)
        })
        .await
    }

    async fn change_parked(&self, change: ChangeParked<'_>) -> Result<u64, StoreError> {
        let ChangeParked { which, position, change } = change;
        let Which { topic, publisher } = which.clone();
        let position = position.map(i64::from);
        self.note(move |conn, sql, now| {
            let changed = match change {
                ParkedChange::Discard => conn
                    .prepare_cached(&sql.parked_discard)?
                    .execute((topic, publisher, position))?,
                ParkedChange::Retry => conn.prepare_cached(&sql.parked_retry)?.execute((
                    topic,
                    publisher,
                    position,
                    now.as_micros(),
                ))?,
            };
            Ok(changed as u64)
        })
        .await
    }
}

/// Moves one cursor, and parks what it leaves if it moved.
fn advance(
    conn: &Connection,
    sql: &Sql,
    now: Timestamp,
    owner: &str,
    next: &Move,
) -> rusqlite::Result<Moved> {
    let (topic, publisher) = (next.pair.topic(), next.pair.publisher());
    let params = (
        owner,
        now.as_micros(),
        topic,
        publisher,
        next.epoch,
        i64::from(next.from),
        i64::from(next.to),
        next.published,
        next.errors,
        next.last_error.as_deref().map(kept),
        next.fails,
        next.waits_at.map(i64::from),
    );
    let mut advance = conn.prepare_cached(&sql.advance)?;
    let Some(stands) = advance.query_row(params, |row| status(row, 0)).optional()? else {
        return Ok(Moved::Fenced);
    };
    let mut park = conn.prepare_cached(&sql.park)?;
    for aside in &next.parked {
        park.execute((
            topic,
            publisher,
            i64::from(aside.position),
            now.as_micros(),
            later(now, aside.delay),
            aside.attempts,
            kept(&aside.error),
        ))?;
    }
    Ok(Moved::Made(stands))
}

fn status(row: &Row<'_>, column: usize) -> rusqlite::Result<CursorStatus> {
    let text: String = row.get(column)?;
    text.parse::<CursorStatus>().map_err(|error| out_of_range(column, error))
}

/// A node. There is no session: only its silence tells of its death.
struct SqliteMember {
    journal: SqliteJournal,
    owner: Arc<str>,
}

#[async_trait]
impl Membership for SqliteMember {
    async fn beat(&mut self) -> Result<Beat, StoreError> {
        let owner = Arc::clone(&self.owner);
        let known = self.journal.note(move |conn, sql, now| {
            conn.prepare_cached(&sql.beat)?.execute((&*owner, now.as_micros()))
        });
        if known.await? == 0 {
            return Err(StoreError::Unavailable(Forgotten.into()));
        }
        Ok(Beat::Written)
    }

    async fn leave(self: Box<Self>) -> Result<(), StoreError> {
        let owner = Arc::clone(&self.owner);
        let leave = self.journal.note(move |conn, sql, _| {
            conn.prepare_cached(&sql.leave)?.execute([&*owner]).map(drop)
        });
        leave.await
    }
}

#[derive(Debug, thiserror::Error)]
#[error("this node is not in the table of nodes any more")]
struct Forgotten;

/// Every row of a statement.
fn all<T>(
    conn: &Connection,
    statement: &str,
    params: impl rusqlite::Params,
    row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, StoreError> {
    let run = || conn.prepare_cached(statement)?.query_map(params, row)?.collect();
    let rows: rusqlite::Result<Vec<T>> = run();
    rows.map_err(failed)
}

/// A row of `cursors` and `cursor_take`.
fn cursor(row: &Row<'_>) -> rusqlite::Result<Cursor> {
    frame::cursor::cursor(&mut columns(row)).map_err(unreadable)
}

/// A row of `parked_due` and `parked_list`.
fn parked(row: &Row<'_>) -> rusqlite::Result<Parked> {
    frame::cursor::parked(&mut columns(row)).map_err(unreadable)
}

fn unreadable(error: Undecodable) -> rusqlite::Error {
    rusqlite::Error::UserFunctionError(error.into())
}

/// What a column holds although its table does not allow it.
fn out_of_range(
    column: usize,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Null, Box::new(error))
}

fn many(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

fn later(now: Timestamp, delay: Duration) -> i64 {
    now.saturating_add(delay.min(limits::DELAY)).as_micros()
}

/// The part of an error's text that is stored.
fn kept(error: &str) -> &str {
    limits::truncate(error, limits::ERROR_CHARS)
}
