//! `sqlx`: its transactions, from a pool or a single connection.

use ::sqlx::error::ErrorKind;
use ::sqlx::query::Query;
use ::sqlx::sqlite::{SqliteArguments, SqliteConnection, SqlitePool};
use ::sqlx::{AssertSqlSafe, Connection, Error, Executor, Row, Sqlite, Transaction};
use sendoff_core::{EventId, Status, Timestamp, Token};
use sendoff_engine::capture::{
    Begin, BeginError, BoxFuture, Capture, Commit, CommitError, InsertResult, Join, JoinError,
    Nest, Nesting, Part, Release, WriteError,
};
use sendoff_engine::store::{Born, NewRow};

use super::ROWS_PER_STATEMENT;
use crate::durable::PRAGMA;
use crate::file::{unjoinable, unwritable};
use crate::options::Retention;
use crate::rows::Draft;
use crate::store::SqliteStore;

/// A transaction that begins by reading cannot always go on to write.
const BEGIN: &str = "begin immediate";

impl<'c> Capture<Transaction<'c, Sqlite>> for SqliteStore {
    async fn insert(&self, tx: &mut Transaction<'c, Sqlite>, rows: &[NewRow]) -> InsertResult {
        self.check_open().map_err(unwritable)?;
        check_transaction(tx).await?;
        warn_of(self, tx).await.map_err(refused)?;
        let now = self.now();
        let drafts: Vec<_> = rows.iter().map(|row| Draft::new(row, now)).collect();
        // One statement, however many there are: a future dropped between two would leave the first of
        // them in the transaction.
        let inserted = if drafts.len() <= ROWS_PER_STATEMENT {
            insert_few(self, tx, &drafts).await
        } else {
            insert_many(self, tx, &drafts).await
        };
        inserted.map_err(refused)?;
        Ok(drafts.iter().map(Draft::born).collect())
    }
}

impl<'c> Join<Transaction<'c, Sqlite>> for SqliteStore {
    async fn join(
        &self,
        tx: &mut Transaction<'c, Sqlite>,
        part: &Part<'_>,
    ) -> Result<bool, JoinError> {
        self.check_open().map_err(unjoinable)?;
        if !is_open(tx).await.map_err(not_joined)? {
            return Err(JoinError::NoTransaction);
        }
        let now = self.now().as_micros();
        match *part {
            Part::Once { consumer, id } => {
                // Safe: our own file, with the checked table name in it.
                let once = ::sqlx::query(AssertSqlSafe(self.sql().once.clone()));
                let once = once.bind(consumer.as_str().to_owned()).bind(id.as_bytes().to_vec());
                let seen = once.bind(now).execute(&mut **tx).await.map_err(not_joined)?;
                warn_of(self, tx).await.map_err(not_joined)?;
                Ok(seen.rows_affected() > 0)
            }
            Part::Done { id, token, .. } => {
                settle_in(self, tx, id, token, now).await.map_err(not_joined)
            }
            Part::Moved(_) => Err(JoinError::NotHere),
        }
    }
}

/// As the store's own thread settles a row that is held by itself.
async fn settle_in(
    store: &SqliteStore,
    tx: &mut Transaction<'_, Sqlite>,
    id: EventId,
    token: Token,
    now: i64,
) -> Result<bool, Error> {
    /// By the token.
    const PROOF: i64 = 0;
    let sql = store.sql();
    // Safe, as all here: our own files, with checked names in them.
    let settle = match store.retention() {
        Retention::DeleteWhenDone => ::sqlx::query(AssertSqlSafe(sql.settle_delete.clone())),
        Retention::Keep(_) => ::sqlx::query(AssertSqlSafe(sql.settle_done.clone())),
    };
    let held = settle.bind(id.as_bytes().to_vec()).bind(token.due_at().as_micros()).bind(PROOF);
    let held = match store.retention() {
        Retention::DeleteWhenDone => held,
        Retention::Keep(_) => held.bind(now),
    };
    let Some(row) = held.fetch_optional(&mut **tx).await? else { return Ok(false) };
    let tally = ::sqlx::query(AssertSqlSafe(sql.tally.clone()));
    let tally = tally.bind(row.try_get_unchecked::<String, _>(0)?).bind(Status::Done.code());
    tally.bind(1_i64).bind(now).execute(&mut **tx).await?;
    if let Some(key) = row.try_get_unchecked::<Option<String>, _>(1)? {
        let wake = ::sqlx::query(AssertSqlSafe(sql.key_wake.clone()));
        wake.bind(key).bind(now).execute(&mut **tx).await?;
    }
    Ok(true)
}

/// Why a part of a transaction was not carried out.
pub(crate) fn not_joined(error: Error) -> JoinError {
    /// SQLite's codes: the file is locked; and what was read is not the latest any more.
    const BUSY: [&str; 2] = ["5", "261"];
    const SNAPSHOT: &str = "517";
    let code = error.as_database_error().and_then(|refusal| refusal.code());
    match code.as_deref() {
        Some(SNAPSHOT) => JoinError::LostRace(error.into()),
        Some(code) if BUSY.contains(&code) => JoinError::Busy(error.into()),
        _ => JoinError::Driver(error.into()),
    }
}

impl Begin<&SqlitePool> for SqliteStore {
    type Tx = Transaction<'static, Sqlite>;

    async fn begin(&self, pool: &SqlitePool) -> Result<Self::Tx, BeginError> {
        self.check_open().map_err(|error| BeginError(error.into()))?;
        pool.begin_with(BEGIN).await.map_err(|error| BeginError(error.into()))
    }
}

impl<'c> Begin<&'c mut SqliteConnection> for SqliteStore {
    type Tx = Transaction<'c, Sqlite>;

    async fn begin(&self, conn: &'c mut SqliteConnection) -> Result<Self::Tx, BeginError> {
        self.check_open().map_err(|error| BeginError(error.into()))?;
        // sqlx's thread rolls back what was dropped, and may not have come to it.
        if conn.is_in_transaction() {
            conn.ping().await.map_err(|error| BeginError(error.into()))?;
        }
        // sqlx would refuse too, and on the way roll back the transaction that is open.
        if conn.is_in_transaction() {
            return Err(BeginError("a transaction is open on this connection already".into()));
        }
        conn.begin_with(BEGIN).await.map_err(|error| BeginError(error.into()))
    }
}

/// Only for what [`Begin`] returned: to sqlx a savepoint has the same type, and releasing one proves
/// nothing.
impl<'c> Commit<Transaction<'c, Sqlite>> for SqliteStore {
    async fn commit(
        &self,
        mut tx: Transaction<'c, Sqlite>,
        rows: &[NewRow],
    ) -> Result<Vec<Born>, CommitError> {
        let born = if rows.is_empty() {
            Vec::new()
        } else {
            match self.insert(&mut tx, rows).await {
                Ok(born) => born,
                Err(error) => {
                    self.rollback(tx).await?;
                    return Err(CommitError::Refused(error));
                }
            }
        };
        // sqlx answers Ok to a commit where, by its own count, nothing is open.
        if !tx.is_in_transaction() {
            return Err(CommitError::RolledBack(WriteError::NoTransaction.into()));
        }
        // Where COMMIT is refused (BUSY and its like), dropping the transaction rolls it back.
        tx.commit().await.map_err(|error| CommitError::RolledBack(error.into()))?;
        Ok(born)
    }

    async fn rollback(&self, mut tx: Transaction<'c, Sqlite>) -> Result<(), CommitError> {
        if check_transaction(&mut tx).await.is_err() {
            return Ok(());
        }
        tx.rollback().await.map_err(|error| CommitError::RolledBack(error.into()))
    }
}

impl<'t, 'c> Nest<'t, Transaction<'c, Sqlite>> for SqliteStore {
    type Nested = Transaction<'t, Sqlite>;

    fn savepoint(&'t self, tx: &'t mut Transaction<'c, Sqlite>) -> Nesting<'t, Self::Nested> {
        Box::pin(async move {
            // Without a transaction around it a savepoint would be one, and its release a commit.
            check_transaction(tx).await.map_err(|error| BeginError(error.into()))?;
            tx.begin().await.map_err(|error| BeginError(error.into()))
        })
    }
}

impl<'t> Release<'t, Transaction<'t, Sqlite>> for SqliteStore {
    fn release(
        &'t self,
        nested: Transaction<'t, Sqlite>,
    ) -> BoxFuture<'t, Result<(), CommitError>> {
        Box::pin(async move {
            nested.commit().await.map_err(|error| CommitError::RolledBack(error.into()))
        })
    }

    fn roll_back_to(
        &'t self,
        nested: Transaction<'t, Sqlite>,
    ) -> BoxFuture<'t, Result<(), CommitError>> {
        Box::pin(async move {
            nested.rollback().await.map_err(|error| CommitError::RolledBack(error.into()))
        })
    }
}

/// sqlx counts the transactions it began itself; a ROLLBACK sent as text is invisible to it, and the
/// insert would then commit itself. SQLite can be asked: it refuses to begin inside a transaction.
pub(crate) async fn is_open(tx: &mut Transaction<'_, Sqlite>) -> Result<bool, Error> {
    if tx.execute("begin").await.is_err() {
        return Ok(true);
    }
    tx.execute("rollback").await.map(|_| false)
}

async fn check_transaction(tx: &mut Transaction<'_, Sqlite>) -> Result<(), WriteError> {
    if is_open(tx).await.map_err(refused)? { Ok(()) } else { Err(WriteError::NoTransaction) }
}

/// Says so once where the caller's connection does not commit durably.
async fn warn_of(store: &SqliteStore, tx: &mut Transaction<'_, Sqlite>) -> Result<(), Error> {
    if store.durability().asks() {
        let synchronous = ::sqlx::query_scalar(PRAGMA).fetch_one(&mut **tx).await?;
        store.durability().learn(synchronous);
    }
    Ok(())
}

async fn insert_few(
    store: &SqliteStore,
    tx: &mut Transaction<'_, Sqlite>,
    drafts: &[Draft<'_>],
) -> Result<(), Error> {
    if drafts.is_empty() {
        return Ok(());
    }
    // Safe: our own file, with the checked table name in it, and its last line repeated.
    let mut query = ::sqlx::query(AssertSqlSafe(store.sql().insert(drafts.len())));
    for draft in drafts {
        query = bind(query, draft);
    }
    query.execute(&mut **tx).await?;
    Ok(())
}

/// More rows than there are variables for, in two of them.
async fn insert_many(
    store: &SqliteStore,
    tx: &mut Transaction<'_, Sqlite>,
    drafts: &[Draft<'_>],
) -> Result<(), Error> {
    let mut bytes = Vec::new();
    let mut append = |part: &[u8]| {
        let begins = bytes.len() + 1;
        bytes.extend_from_slice(part);
        begins
    };
    let rows: Vec<_> = drafts
        .iter()
        .map(|draft| {
            let event = draft.event;
            serde_json::json!([
                append(event.id.as_bytes()),
                event.event_type,
                event.aggregate_type,
                event.aggregate_id,
                event.tenant_id,
                event.ordering_key,
                draft.shard,
                event.content_type,
                event.occurred_at.as_micros(),
                draft.due_at.as_micros(),
                draft.created_at.as_micros(),
                draft.locked_by,
                draft.headers,
                append(&event.payload),
                event.payload.len(),
                draft.delayed_until.map(Timestamp::as_micros),
            ])
        })
        .collect();
    let rows = serde_json::Value::from(rows).to_string();
    // Safe: our own file, with the checked table name in it.
    let query = ::sqlx::query(AssertSqlSafe(store.sql().insert_many.clone()));
    query.bind(rows).bind(bytes).execute(&mut **tx).await?;
    Ok(())
}

type Insert<'q> = Query<'q, Sqlite, SqliteArguments>;

/// Binds one row in the order of the statement's columns.
fn bind<'q>(query: Insert<'q>, draft: &Draft<'_>) -> Insert<'q> {
    let event = draft.event;
    query
        .bind(event.id.as_bytes().to_vec())
        .bind(event.event_type.clone())
        .bind(event.aggregate_type.clone())
        .bind(event.aggregate_id.clone())
        .bind(event.tenant_id.clone())
        .bind(event.ordering_key.clone())
        .bind(i64::from(draft.shard))
        .bind(event.content_type.clone().into_owned())
        .bind(event.occurred_at.as_micros())
        .bind(draft.due_at.as_micros())
        .bind(draft.created_at.as_micros())
        .bind(draft.locked_by.map(str::to_owned))
        .bind(draft.headers.clone())
        .bind(event.payload.to_vec())
        .bind(draft.delayed_until.map(Timestamp::as_micros))
}

fn refused(error: Error) -> WriteError {
    match error.as_database_error().map(|database| database.kind()) {
        Some(ErrorKind::UniqueViolation) => WriteError::DuplicateId,
        _ => WriteError::Driver(error.into()),
    }
}
