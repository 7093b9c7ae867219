//! `sqlx`: its transactions, from a pool or a single connection, and its connection inside a
//! transaction begun by hand.
//!
//! sqlx does not pipeline, so the insert and COMMIT are a round trip each, and so is the mark that a
//! transaction needs which wrote nothing before. It also answers `Ok` to a COMMIT that the server
//! turned into a rollback. The proof is what came just before it: in a transaction that cannot commit
//! any more, the insert fails, or, without events, the mark does. Nothing can run in between, because
//! whoever commits has the transaction by value and with it the only way to its connection.
//!
//! Compiled for each version of sqlx, which is the module around it: `sqlx_08.rs`, `sqlx_09.rs`.

use ::tokio_postgres::error::SqlState;
use ::tokio_postgres::types::{FromSql, Type as Kind};
use sendoff_core::{BoxError, Token};
use sendoff_engine::capture::{
    Begin, BeginError, Capture, CommitError, InsertResult, Inserted, Join, JoinError, Part,
    WriteError,
};
use sendoff_engine::store::{Born, NewRow, StoreError};

use super::driver::encode::IsNull;
use super::driver::error::BoxDynError;
use super::driver::postgres::types::Oid;
use super::driver::postgres::{
    PgArgumentBuffer, PgConnection, PgDatabaseError, PgRow, PgSeverity, PgTypeInfo,
};
use super::driver::{self, Encode, Error, Executor, Postgres, Row, Transaction, Type, ValueRef};
use super::ours;
use super::shared::{SqlxStore, begin_on};
use crate::capture::draft::Draft;
use crate::capture::insert::{is_key, was_over};
use crate::capture::join::{self, Ask};
use crate::capture::params::Params;
use crate::encoded::{Encoded, encode};
use crate::error::explained;
use crate::options::Doorbell;
use crate::sql::{Sql, Statement};
use crate::store::PostgresStore;
use crate::wire::{At, Xid};

impl SqlxStore for PostgresStore {
    type Driver = Postgres;

    fn check_open(&self) -> Result<(), StoreError> {
        self.check_open()
    }

    async fn insert_rows(&self, conn: &mut PgConnection, rows: &[NewRow]) -> InsertResult {
        Ok(insert_all(self, conn, Draft::whole(rows)?).await?.born)
    }

    async fn insert_last(
        &self,
        conn: &mut PgConnection,
        rows: &[NewRow],
    ) -> Result<Inserted, CommitError> {
        if rows.is_empty() {
            let open = is_open(self, conn).await;
            if !open.map_err(|error| CommitError::RolledBack(error.into()))? {
                return Err(CommitError::RolledBack(WriteError::NoTransaction.into()));
            }
            return Ok(Inserted::default());
        }
        let drafts = Draft::all(rows).map_err(CommitError::Refused)?;
        insert_all(self, conn, drafts).await.map_err(|error| match error {
            WriteError::Driver(source) if is_lost(&*source) => CommitError::RolledBack(source),
            refused => CommitError::Refused(refused),
        })
    }

    async fn take_part(&self, conn: &mut PgConnection, part: &Part<'_>) -> Result<bool, JoinError> {
        let wanted = Ask::new(self, part)?;
        let mut answer = answered(self, conn, &wanted).await?;
        // It knew of no transaction. One that wrote nothing yet has to be marked first.
        if answer.is_none() {
            mark(self.sql(), conn).await.map_err(not_joined)?;
            answer = answered(self, conn, &wanted).await?;
        }
        answer.ok_or(JoinError::NoTransaction)
    }

    /// After an ordinary error (a deferred constraint, a lost race) the session goes on.
    fn is_rolled_back(error: &Error) -> bool {
        refusal(error).is_some_and(|refusal| matches!(refusal.severity(), PgSeverity::Error))
    }
}

async fn answered(
    store: &PostgresStore,
    conn: &mut PgConnection,
    wanted: &Ask<'_>,
) -> Result<Option<bool>, JoinError> {
    let params = encode(&wanted.params(), wanted.statement.types).map_err(JoinError::Driver)?;
    let rows = ask(conn, wanted.statement, params, store.doorbell()).await.map_err(not_joined)?;
    rows.first().map(|row| get(row, 0, &Kind::BOOL)).transpose().map_err(JoinError::Driver)
}

fn not_joined(error: Error) -> JoinError {
    let code = refusal(&error).map(|refusal| SqlState::from_code(refusal.code()));
    join::refused(code, error)
}

/// Outside a transaction nothing is done, and the answer is [`JoinError::NoTransaction`].
impl Join<PgConnection> for PostgresStore {
    async fn join(&self, conn: &mut PgConnection, part: &Part<'_>) -> Result<bool, JoinError> {
        self.take_part(conn, part).await
    }
}

/// The type proves nothing here, and sqlx counts only the transactions it began itself. Outside a
/// transaction the server inserts nothing, and the answer is [`WriteError::NoTransaction`].
impl Capture<PgConnection> for PostgresStore {
    async fn insert(&self, conn: &mut PgConnection, rows: &[NewRow]) -> InsertResult {
        self.insert_rows(conn, rows).await
    }
}

impl<'c> Begin<&'c mut PgConnection> for PostgresStore {
    type Tx = Transaction<'c, Postgres>;

    async fn begin(&self, conn: &'c mut PgConnection) -> Result<Self::Tx, BeginError> {
        begin_on(self, conn).await
    }
}

/// Inserts drafts, statement by statement. The first that fails aborts the transaction, and with it the
/// ones before.
async fn insert_all(
    store: &PostgresStore,
    conn: &mut PgConnection,
    drafts: impl IntoIterator<Item = Draft<'_>>,
) -> Result<Inserted, WriteError> {
    store.check_open().map_err(|_| WriteError::Closed)?;
    let mut all = Inserted::default();
    for draft in drafts {
        let mut inserted = send(store, conn, &draft).await?;
        // All or none: without any, the statement knew of no transaction. One that wrote nothing yet
        // has to be marked first.
        if inserted.born.is_empty() {
            mark(store.sql(), conn).await.map_err(|error| refused(store, error))?;
            inserted = send(store, conn, &draft).await?;
        }
        if inserted.born.is_empty() {
            return Err(WriteError::NoTransaction);
        }
        all.born.append(&mut inserted.born);
        all.xid = inserted.xid;
    }
    Ok(all)
}

/// Marks the transaction as open. In a round trip of its own: two statements in one would have a
/// transaction of their own, and the mark would mean nothing.
pub(crate) async fn mark(sql: &Sql, conn: &mut PgConnection) -> Result<(), Error> {
    let text = sql.in_transaction.text.as_str();
    // Safe: our own file.
    conn.execute(ours(text)).await?;
    Ok(())
}

/// Whether a transaction is open and can commit, for a commit without events.
async fn is_open(store: &PostgresStore, conn: &mut PgConnection) -> Result<bool, Error> {
    mark(store.sql(), conn).await?;
    let text = store.sql().is_in_transaction.text.as_str();
    // Safe: our own file.
    conn.fetch_one(ours(text)).await?.try_get(0)
}

async fn send(
    store: &PostgresStore,
    conn: &mut PgConnection,
    draft: &Draft<'_>,
) -> Result<Inserted, WriteError> {
    let params = Params::new(store, draft);
    let form = params.form();
    let statement = form.statement(store);
    let params = params.encoded(form, statement)?;
    let rows = ask(conn, statement, params, store.doorbell()).await;
    let rows = rows.map_err(|error| refused(store, error))?;
    let held = draft.locked_by.iter().map(Option::is_some);
    let born = rows.iter().zip(held).map(|(row, held)| {
        let (At(created_at), At(due_at)) =
            (get(row, 0, &Kind::TIMESTAMPTZ)?, get(row, 1, &Kind::TIMESTAMPTZ)?);
        Ok(Born { created_at, token: held.then(|| Token::new(due_at)) })
    });
    let born = born.collect::<Result<_, BoxError>>().map_err(WriteError::Driver)?;
    let xid = rows.first().map(|row| get(row, 2, &Kind::TEXT)).transpose();
    let xid = xid.map_err(WriteError::Driver)?.map(|Xid(xid)| xid);
    Ok(Inserted { born, xid })
}

/// Sends one of our statements.
pub(crate) async fn ask(
    conn: &mut PgConnection,
    statement: &Statement,
    params: Vec<Encoded>,
    doorbell: Doorbell,
) -> Result<Vec<PgRow>, Error> {
    // Safe: our own file, with checked names in it.
    let query = driver::query(ours(statement.text.as_str()));
    let query = query.persistent(doorbell == Doorbell::On);
    params.into_iter().fold(query, |query, param| query.bind(param)).fetch_all(conn).await
}

pub(crate) fn get<'r, T: FromSql<'r>>(
    row: &'r PgRow,
    column: usize,
    kind: &Kind,
) -> Result<T, BoxError> {
    let value = row.try_get_raw(column)?;
    T::from_sql_nullable(kind, if value.is_null() { None } else { Some(value.as_bytes()?) })
}

impl Type<Postgres> for Encoded {
    fn type_info() -> PgTypeInfo {
        // Only until `produces` is asked, which knows better.
        PgTypeInfo::with_oid(Oid(0))
    }
}

impl Encode<'_, Postgres> for Encoded {
    fn encode_by_ref(&self, out: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        let Some(bytes) = &self.bytes else { return Ok(IsNull::Yes) };
        out.extend_from_slice(bytes);
        Ok(IsNull::No)
    }

    fn produces(&self) -> Option<PgTypeInfo> {
        Some(PgTypeInfo::with_oid(Oid(self.kind.oid())))
    }

    fn size_hint(&self) -> usize {
        self.bytes.as_ref().map_or(0, |bytes| bytes.len())
    }
}

pub(crate) fn refusal(error: &Error) -> Option<&PgDatabaseError> {
    error.as_database_error()?.try_downcast_ref()
}

fn refused(store: &PostgresStore, error: Error) -> WriteError {
    let duplicate = refusal(&error)
        .is_some_and(|refusal| refusal.code() == "23505" && is_key(store, refusal.constraint()));
    if duplicate {
        return WriteError::DuplicateId;
    }
    let code = refusal(&error).map(|refusal| SqlState::from_code(refusal.code()));
    WriteError::Driver(explained(code.as_ref(), error))
}

/// Whether the transaction was lost before our insert: it had failed, lost a race, or its connection
/// is gone. COMMIT was not sent.
fn is_lost(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    let Some(error) = error.downcast_ref::<Error>() else { return false };
    refusal(error).is_none_or(|refusal| was_over(refusal.code()))
}
