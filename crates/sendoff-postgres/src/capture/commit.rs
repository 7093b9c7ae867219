//! Ending a transaction of ours: insert, commit, and know that it happened.

use ::tokio_postgres::error::{Error, Severity, SqlState};
use ::tokio_postgres::{Client, Transaction};
use futures_util::future::{join, join3};
use sendoff_engine::capture::{CommitError, CommitMark, Inserted, SendError, WriteError};
use sendoff_engine::store::{Born, NewRow, SendStore};

use super::draft::{Draft, Line};
use super::insert::{Insert, Statements, insert_one, mark, refused, send, send_one};
use crate::error::is_lost_race;
use crate::store::PostgresStore;

/// A transaction that rolls back when it is dropped.
pub(super) trait Uncommitted {
    fn client(&self) -> &Client;

    /// COMMIT was sent. Dropped, the transaction would send a ROLLBACK after it, and the server would
    /// log a warning.
    fn commit_was_sent(self);
}

impl Uncommitted for Transaction<'_> {
    fn client(&self) -> &Client {
        Transaction::client(self)
    }

    fn commit_was_sent(self) {
        // It owns nothing but a reference.
        std::mem::forget(self);
    }
}

/// Inserts `rows` and commits, the last statement and COMMIT in one round trip.
///
/// The driver hides how COMMIT was answered, and answers `Ok` where the server rolled back. So the
/// proof is what was sent just before it on the same connection: in a transaction that cannot
/// commit, the statement before COMMIT fails.
pub(super) async fn commit(
    store: &PostgresStore,
    tx: impl Uncommitted,
    insert: &Insert,
    rows: &[NewRow],
) -> Result<Vec<Born>, CommitError> {
    store.check_open().map_err(|_| CommitError::Refused(WriteError::Closed))?;
    if tx.client().is_closed() {
        return Err(CommitError::RolledBack("the connection was lost before COMMIT".into()));
    }
    let unknown = CommitMark::of(rows);
    // Where something fails before COMMIT is sent, dropping the transaction rolls it back.
    let mut born = Vec::new();
    let answer = match (rows, insert) {
        ([row], Insert::Prepared(statements)) => {
            let line = Line::new(row).map_err(CommitError::Refused)?;
            finish_one(store, tx.client(), statements, &line, unknown).await
        }
        (rows, insert) => {
            let mut drafts = Draft::all(rows).map_err(CommitError::Refused)?;
            let last = drafts.pop();
            for draft in &drafts {
                let inserted = insert_one(store, tx.client(), insert, draft).await;
                born.extend(inserted.map_err(CommitError::Refused)?);
            }
            finish(store, tx.client(), insert, last.as_ref(), unknown).await
        }
    };
    tx.commit_was_sent();
    let last = answer?;
    Ok(if born.is_empty() {
        last
    } else {
        born.extend(last);
        born
    })
}

/// A transaction of our own: BEGIN, insert and COMMIT in one round trip. All of it leaves with the first
/// poll, so that statements of others on the same connection come before or after it.
async fn alone(
    store: &PostgresStore,
    client: &Client,
    draft: &Draft<'_>,
    unknown: CommitMark,
) -> Result<Vec<Born>, CommitError> {
    let begin = client.batch_execute("begin");
    let rest = finish(store, client, &Insert::Unnamed, Some(draft), unknown);
    match join(begin, rest).await {
        // Without it nothing was inserted.
        (Err(error), Err(_)) if error.code().is_some() => {
            Err(CommitError::RolledBack(error.into()))
        }
        (_, finished) => finished,
    }
}

impl SendStore for PostgresStore {
    async fn send(&self, rows: &[NewRow]) -> Result<Vec<Born>, SendError> {
        self.check_open()?;
        let Some(draft) = Draft::whole(rows)? else { return Ok(Vec::new()) };
        let unknown = CommitMark::of(rows);
        let lent = self.links().sends.lend().await?;
        let sent = alone(self, lent.client(), &draft, unknown).await;
        lent.answered();
        Ok(sent?)
    }
}

/// The usual transaction: one event. Two statements, one round trip.
async fn finish_one(
    store: &PostgresStore,
    client: &Client,
    statements: &Statements,
    line: &Line<'_>,
    unknown: CommitMark,
) -> Result<Vec<Born>, CommitError> {
    let commit = client.batch_execute("commit");
    match join(send_one(store, client, statements, line), commit).await {
        (Ok(inserted), committed) => inserted.committed(unknown, committed, is_ordinary),
        (Err(error), _) => Err(not_inserted(store, error, unknown)),
    }
}

async fn finish(
    store: &PostgresStore,
    client: &Client,
    insert: &Insert,
    draft: Option<&Draft<'_>>,
    unknown: CommitMark,
) -> Result<Vec<Born>, CommitError> {
    let commit = client.batch_execute("commit");
    let (marked, inserted, committed) = match draft {
        Some(draft) => join3(mark(store, client), send(store, client, insert, draft), commit).await,
        None => {
            let (marked, open, committed) =
                join3(mark(store, client), is_open(store, client), commit).await;
            let nothing = open.map(|open| open.then(Inserted::default));
            match nothing.transpose() {
                Some(inserted) => (marked, inserted, committed),
                None => return Err(CommitError::RolledBack(WriteError::NoTransaction.into())),
            }
        }
    };
    if let Err(error) = marked {
        return Err(not_inserted(store, error, unknown));
    }
    let inserted = match inserted {
        Ok(inserted) => inserted,
        Err(error) => return Err(not_inserted(store, error, unknown)),
    };
    if draft.is_some() && inserted.born.is_empty() {
        return Err(CommitError::Refused(WriteError::NoTransaction));
    }
    inserted.committed(unknown, committed, is_ordinary)
}

/// Whether a transaction is open, for a commit without events.
async fn is_open(store: &PostgresStore, client: &Client) -> Result<bool, Error> {
    let rows = client.query_typed(&store.sql().is_in_transaction.text, &[]).await?;
    rows.first().map_or(Ok(false), |row| row.try_get(0))
}

/// What it means that a statement before COMMIT failed: a refusal aborted the transaction.
fn not_inserted(store: &PostgresStore, error: Error, unknown: CommitMark) -> CommitError {
    match error.code() {
        None => CommitError::Unknown { mark: unknown, source: error.into() },
        Some(code) if *code == SqlState::IN_FAILED_SQL_TRANSACTION || is_lost_race(code) => {
            CommitError::RolledBack(error.into())
        }
        Some(_) => CommitError::Refused(refused(store, error)),
    }
}

/// Whether it is an ordinary refusal, after which the session goes on.
fn is_ordinary(error: &Error) -> bool {
    let severity = error.as_db_error().and_then(|refusal| refusal.parsed_severity());
    severity == Some(Severity::Error)
}
