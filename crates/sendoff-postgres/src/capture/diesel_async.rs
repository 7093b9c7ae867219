//! `diesel-async`: its connection, in a transaction of ours or in one of diesel's own.
//!
//! diesel has no type for a transaction: a closure ends it, and the connection counts how deep it is. So a
//! guard is the connection itself, borrowed, which goes on counting ([`DieselTransaction`]); one that ends at
//! another depth than it began at is rolled back. diesel takes a COMMIT that was answered with a rollback for a
//! success; the proof is the insert just before it, or, without events, the mark. What was written inside a
//! closure of diesel's is confirmed by the store after `release`.
//!
//! ```no_run
//! # use diesel_async::{AsyncPgConnection, RunQueryDsl};
//! # async fn example(
//! #     outbox: sendoff_engine::Outbox<sendoff_postgres::PostgresStore>,
//! #     mut conn: AsyncPgConnection,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! let mut tx = outbox.begin(&mut conn).await?;
//! diesel::sql_query("insert into orders values (4711)").execute(&mut **tx).await?;
//! tx.emit(("order.placed", r#"{"order":4711}"#))?;
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! ```no_run
//! # use diesel_async::{AsyncConnection, AsyncPgConnection, RunQueryDsl};
//! # async fn example(
//! #     outbox: sendoff_engine::Outbox<sendoff_postgres::PostgresStore>,
//! #     mut conn: AsyncPgConnection,
//! # ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! let staged = conn
//!     .transaction(async |conn| {
//!         diesel::sql_query("insert into orders values (4711)").execute(conn).await?;
//!         let staged = outbox.write(conn, ("order.placed", r#"{"order":4711}"#)).await?;
//!         Ok::<_, Box<dyn std::error::Error + Send + Sync>>(staged)
//!     })
//!     .await?;
//! staged.release();
//! # Ok(())
//! # }
//! ```

use std::fmt;
use std::io::Write;
use std::num::NonZeroU32;
use std::ops::{Deref, DerefMut};
use std::pin::pin;
use std::task::{Context, Waker};

use ::diesel::QueryResult;
use ::diesel::deserialize::{self, FromSql, QueryableByName};
use ::diesel::pg::{Pg, PgValue};
use ::diesel::query_builder::{AstPass, Query, QueryFragment, QueryId};
use ::diesel::result::{DatabaseErrorKind, Error};
use ::diesel::row::NamedRow;
use ::diesel::serialize::{self, IsNull, Output, ToSql};
use ::diesel::sql_types::{
    Array, BigInt, Bool, Bytea, HasSqlType, Integer, Interval, Jsonb, Nullable, SmallInt, Text,
    Timestamptz, Untyped, Uuid,
};
use ::diesel_async::{
    AnsiTransactionManager, AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection,
    TransactionManager,
};
use ::tokio_postgres::types::Type;
use futures_util::future::join;
use sendoff_core::Token;
use sendoff_engine::capture::{
    Begin, BeginError, BoxFuture, Capture, Commit, CommitError, CommitMark, InsertResult, Inserted,
    Join, JoinError, Nest, Nesting, Part, Release, WriteError,
};
use sendoff_engine::store::{Born, NewRow};

use super::draft::Draft;
use super::insert::is_key;
use super::join::{self, Ask};
use super::params::Params;
use crate::encoded::{Encoded, encode};
use crate::options::Doorbell;
use crate::sql::Sql;
use crate::store::PostgresStore;
use crate::wire::{At, Xid};

/// The type proves nothing here; outside a transaction the server inserts nothing, and the answer is
/// [`WriteError::NoTransaction`].
impl Capture<AsyncPgConnection> for PostgresStore {
    async fn insert(&self, conn: &mut AsyncPgConnection, rows: &[NewRow]) -> InsertResult {
        self.check_open().map_err(|_| WriteError::Closed)?;
        match Draft::whole(rows)? {
            Some(draft) => Ok(insert_one(self, conn, &draft).await.map_err(Refusal::told)?.born),
            None => Ok(Vec::new()),
        }
    }
}

impl<'c> Capture<DieselTransaction<'c>> for PostgresStore {
    async fn insert(&self, tx: &mut DieselTransaction<'c>, rows: &[NewRow]) -> InsertResult {
        self.insert(&mut **tx, rows).await
    }
}

/// Diesel does not tell the server's code: what waited too long for another transaction is
/// [`Driver`](JoinError::Driver) here.
impl Join<AsyncPgConnection> for PostgresStore {
    async fn join(&self, conn: &mut AsyncPgConnection, part: &Part<'_>) -> Result<bool, JoinError> {
        let Ask { statement, params } = Ask::new(self, part)?;
        let params: Vec<_> = params.iter().map(|param| param as _).collect();
        let params = encode(&params, statement.types).map_err(JoinError::Driver)?;
        let asked = Ours { text: &statement.text, params, doorbell: self.doorbell() };
        let (marked, answers) = asked.load_marked::<Answer>(self.sql(), conn).await;
        let answers = marked.and(answers).map_err(not_joined)?;
        answers.into_iter().next().map(|answer| answer.0).ok_or(JoinError::NoTransaction)
    }
}

impl<'c> Join<DieselTransaction<'c>> for PostgresStore {
    async fn join(
        &self,
        tx: &mut DieselTransaction<'c>,
        part: &Part<'_>,
    ) -> Result<bool, JoinError> {
        self.join(&mut **tx, part).await
    }
}

fn not_joined(error: Error) -> JoinError {
    match error {
        Error::DatabaseError(DatabaseErrorKind::SerializationFailure, _) => {
            JoinError::LostRace(error.into())
        }
        error => join::refused(None, error),
    }
}

/// A transaction on diesel's connection, or a savepoint in one. Queries of diesel run on it
/// (`.execute(&mut **tx)`), closures of its `transaction` too.
///
/// Dropped before its end, it rolls the whole transaction back, with all that its savepoints are in.
pub struct DieselTransaction<'c> {
    conn: &'c mut AsyncPgConnection,
    /// How deep it is; none once it is being ended.
    depth: Option<NonZeroU32>,
}

impl<'c> DieselTransaction<'c> {
    async fn begin(conn: &'c mut AsyncPgConnection) -> Result<Self, BeginError> {
        let begun = AnsiTransactionManager::begin_transaction(&mut *conn).await;
        begun.map_err(|error| BeginError(error.into()))?;
        let depth = depth(conn).map_err(|error| BeginError(error.into()))?;
        Ok(Self { conn, depth })
    }

    /// The connection, if it is as deep as when this was begun, which from here on is ended by hand.
    fn end(&mut self) -> Result<&mut AsyncPgConnection, CommitError> {
        let now = depth(self.conn).map_err(|error| CommitError::RolledBack(error.into()))?;
        // A closure that was dropped half-way left its savepoint open, and the next end would be that one's.
        if now.is_none() || now != self.depth {
            return Err(CommitError::RolledBack(WriteError::NoTransaction.into()));
        }
        self.depth = None;
        Ok(self.conn)
    }
}

impl Deref for DieselTransaction<'_> {
    type Target = AsyncPgConnection;

    fn deref(&self) -> &AsyncPgConnection {
        self.conn
    }
}

impl DerefMut for DieselTransaction<'_> {
    fn deref_mut(&mut self) -> &mut AsyncPgConnection {
        self.conn
    }
}

impl fmt::Debug for DieselTransaction<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DieselTransaction").field("depth", &self.depth).finish_non_exhaustive()
    }
}

impl Drop for DieselTransaction<'_> {
    fn drop(&mut self) {
        if self.depth.is_none() {
            return;
        }
        {
            let mut conn = &*self.conn;
            // It leaves with its first poll, before whatever is sent next; nobody waits for the answer.
            let rollback = pin!(conn.batch_execute("rollback"));
            let _ = rollback.poll(&mut Context::from_waker(Waker::noop()));
        }
        // diesel would go on counting.
        *AnsiTransactionManager::transaction_manager_status_mut(&mut *self.conn) =
            Default::default();
    }
}

/// How many transactions and savepoints diesel has open; an error where it lost count.
fn depth(conn: &mut AsyncPgConnection) -> QueryResult<Option<NonZeroU32>> {
    AnsiTransactionManager::transaction_manager_status_mut(conn).transaction_depth()
}

/// Await it to its end: diesel gives a connection up whose `BEGIN` was dropped on the way.
impl<'c> Begin<&'c mut AsyncPgConnection> for PostgresStore {
    type Tx = DieselTransaction<'c>;

    async fn begin(&self, conn: &'c mut AsyncPgConnection) -> Result<Self::Tx, BeginError> {
        self.check_open().map_err(|error| BeginError(error.into()))?;
        // It would be a savepoint, and its release no commit.
        if depth(conn).map_err(|error| BeginError(error.into()))?.is_some() {
            return Err(BeginError("a transaction is open on this connection already".into()));
        }
        DieselTransaction::begin(conn).await
    }
}

/// The insert is the last statement before COMMIT, and nobody else can send one in between: where it
/// succeeded, the transaction could commit.
impl<'c> Commit<DieselTransaction<'c>> for PostgresStore {
    async fn commit(
        &self,
        mut tx: DieselTransaction<'c>,
        rows: &[NewRow],
    ) -> Result<Vec<Born>, CommitError> {
        let inserted = match insert_last(self, &tx, rows).await {
            Ok(inserted) => inserted,
            Err(error) => {
                // The first error is the one to tell.
                let _ = self.rollback(tx).await;
                return Err(error);
            }
        };
        let mark = CommitMark::new(rows.iter().map(|row| row.event.id()).collect());
        let ended = AnsiTransactionManager::commit_transaction(tx.end()?).await;
        inserted.committed(mark, ended, is_rolled_back)
    }

    async fn rollback(&self, mut tx: DieselTransaction<'c>) -> Result<(), CommitError> {
        // One that fails here still cannot commit: the server undoes it when the connection closes.
        let ended = AnsiTransactionManager::rollback_transaction(tx.end()?).await;
        ended.map_err(|error| CommitError::RolledBack(error.into()))
    }
}

impl<'t, 'c> Nest<'t, DieselTransaction<'c>> for PostgresStore {
    type Nested = DieselTransaction<'t>;

    fn savepoint(&'t self, tx: &'t mut DieselTransaction<'c>) -> Nesting<'t, Self::Nested> {
        Box::pin(async move {
            // A savepoint that was dropped took the transaction with it. The next would be a transaction of
            // its own, and its release a commit.
            if depth(tx.conn).map_err(|error| BeginError(error.into()))? != tx.depth {
                return Err(BeginError(WriteError::NoTransaction.into()));
            }
            DieselTransaction::begin(tx.conn).await
        })
    }
}

impl<'t> Release<'t, DieselTransaction<'t>> for PostgresStore {
    fn release(
        &'t self,
        mut nested: DieselTransaction<'t>,
    ) -> BoxFuture<'t, Result<(), CommitError>> {
        Box::pin(async move {
            let ended = AnsiTransactionManager::commit_transaction(nested.end()?).await;
            ended.map_err(|error| CommitError::RolledBack(error.into()))
        })
    }

    fn roll_back_to(
        &'t self,
        nested: DieselTransaction<'t>,
    ) -> BoxFuture<'t, Result<(), CommitError>> {
        Box::pin(async move { self.rollback(nested).await })
    }
}

/// Whatever makes the COMMIT after it a proof.
async fn insert_last(
    store: &PostgresStore,
    conn: &AsyncPgConnection,
    rows: &[NewRow],
) -> Result<Inserted, CommitError> {
    store.check_open().map_err(|_| CommitError::Refused(WriteError::Closed))?;
    let mut all = Inserted::default();
    if rows.is_empty() {
        let open = is_open(store, conn).await;
        return match open.map_err(|error| CommitError::RolledBack(error.into()))? {
            true => Ok(all),
            false => Err(CommitError::RolledBack(WriteError::NoTransaction.into())),
        };
    }
    for draft in Draft::all(rows).map_err(CommitError::Refused)? {
        let inserted = insert_one(store, conn, &draft).await.map_err(|refusal| match refusal {
            Refusal::Over(error) => CommitError::RolledBack(error.into()),
            Refusal::Insert(error) => CommitError::Refused(error),
        })?;
        all.born.extend(inserted.born);
        all.xid = inserted.xid;
    }
    Ok(all)
}

/// Whether a transaction is open and can commit, for a commit without events.
async fn is_open(store: &PostgresStore, mut conn: &AsyncPgConnection) -> QueryResult<bool> {
    conn.batch_execute(&store.sql().in_transaction.text).await?;
    let text = &store.sql().is_in_transaction.text;
    let asked = Ours { text, params: Vec::new(), doorbell: store.doorbell() };
    let answers = RunQueryDsl::load::<Answer>(asked, &mut conn).await?;
    Ok(answers.iter().any(|answer| answer.0))
}

/// Whether a COMMIT that failed did not commit: a constraint or a lost race means that, and anything else nothing
/// that is certain.
fn is_rolled_back(error: &Error) -> bool {
    use DatabaseErrorKind as Kind;
    matches!(
        error,
        Error::DatabaseError(
            Kind::CheckViolation
                | Kind::ExclusionViolation
                | Kind::ForeignKeyViolation
                | Kind::NotNullViolation
                | Kind::RestrictViolation
                | Kind::SerializationFailure
                | Kind::UniqueViolation,
            _,
        )
    )
}

/// Why nothing was inserted.
enum Refusal {
    /// The transaction was lost before our insert: it had failed, or its connection is gone.
    Over(Error),
    Insert(WriteError),
}

impl Refusal {
    fn told(self) -> WriteError {
        match self {
            Self::Over(error) => WriteError::Driver(error.into()),
            Self::Insert(error) => error,
        }
    }
}

async fn insert_one(
    store: &PostgresStore,
    conn: &AsyncPgConnection,
    draft: &Draft<'_>,
) -> Result<Inserted, Refusal> {
    let params = Params::new(store, draft);
    let form = params.form();
    let statement = form.statement(store);
    let params = params.encoded(form, statement).map_err(Refusal::Insert)?;
    let insert = Ours { text: &statement.text, params, doorbell: store.doorbell() };
    let (marked, rows) = insert.load_marked::<Times>(store.sql(), conn).await;
    marked.map_err(Refusal::Over)?;
    let mut rows = rows.map_err(|error| Refusal::Insert(refused(store, error)))?;
    // All or none: a statement of rows without any was run outside a transaction.
    if rows.is_empty() {
        return Err(Refusal::Insert(WriteError::NoTransaction));
    }
    let xid = rows.iter_mut().find_map(|times| times.xid.take()).map(|Xid(xid)| xid);
    let held = draft.locked_by.iter().map(Option::is_some);
    let born = |(times, held): (Times, bool)| Born {
        created_at: times.created_at.0,
        token: held.then(|| Token::new(times.due_at.0)),
    };
    Ok(Inserted { born: rows.into_iter().zip(held).map(born).collect(), xid })
}

/// Our statement as one of diesel's, so that the connection keeps it prepared: it would prepare an
/// `sql_query` again for every write.
pub(crate) struct Ours<'a> {
    pub(crate) text: &'a str,
    pub(crate) params: Vec<Encoded>,
    pub(crate) doorbell: Doorbell,
}

impl Ours<'_> {
    /// Marks the transaction as open, and sends the statement in the same round trip. Answers both.
    pub(crate) async fn load_marked<T>(
        self,
        sql: &Sql,
        conn: &AsyncPgConnection,
    ) -> (QueryResult<()>, QueryResult<Vec<T>>)
    where
        T: QueryableByName<Pg> + Send + 'static,
    {
        // Pipelined, and in this order: the mark leaves with its first poll.
        let (mut first, mut second) = (conn, conn);
        let mark = first.batch_execute(&sql.in_transaction.text);
        join(mark, RunQueryDsl::load::<T>(self, &mut second)).await
    }
}

impl QueryFragment<Pg> for Ours<'_> {
    fn walk_ast<'b>(&'b self, mut out: AstPass<'_, 'b, Pg>) -> QueryResult<()> {
        if self.doorbell == Doorbell::Off {
            out.unsafe_to_cache_prepared();
        }
        let mut parts = self.text.split('$');
        out.push_sql(parts.next().unwrap_or_default());
        for part in parts {
            // Diesel numbers parameters as they come, so each is pushed where it is named.
            let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            let (number, rest) = part.split_at(end);
            let param = number
                .parse()
                .ok()
                .and_then(|number: usize| self.params.get(number.checked_sub(1)?));
            let param = param.ok_or_else(|| wrong("a parameter that is not there"))?;
            push(&mut out, param)?;
            out.push_sql(rest);
        }
        Ok(())
    }
}

fn push<'b>(out: &mut AstPass<'_, 'b, Pg>, param: &'b Encoded) -> QueryResult<()> {
    match *param.kind {
        Type::BOOL => out.push_bind_param::<Bool, _>(param),
        Type::BOOL_ARRAY => out.push_bind_param::<Array<Bool>, _>(param),
        Type::BYTEA => out.push_bind_param::<Bytea, _>(param),
        Type::BYTEA_ARRAY => out.push_bind_param::<Array<Bytea>, _>(param),
        Type::INT2 => out.push_bind_param::<SmallInt, _>(param),
        Type::INT2_ARRAY => out.push_bind_param::<Array<SmallInt>, _>(param),
        Type::INT4 => out.push_bind_param::<Integer, _>(param),
        Type::INT4_ARRAY => out.push_bind_param::<Array<Integer>, _>(param),
        Type::INT8 => out.push_bind_param::<BigInt, _>(param),
        Type::INTERVAL => out.push_bind_param::<Interval, _>(param),
        Type::INTERVAL_ARRAY => out.push_bind_param::<Array<Interval>, _>(param),
        Type::JSONB => out.push_bind_param::<Nullable<Jsonb>, _>(param),
        Type::JSONB_ARRAY => out.push_bind_param::<Array<Nullable<Jsonb>>, _>(param),
        Type::TEXT => out.push_bind_param::<Nullable<Text>, _>(param),
        Type::TEXT_ARRAY => out.push_bind_param::<Array<Nullable<Text>>, _>(param),
        Type::TIMESTAMPTZ => out.push_bind_param::<Nullable<Timestamptz>, _>(param),
        Type::TIMESTAMPTZ_ARRAY => out.push_bind_param::<Array<Timestamptz>, _>(param),
        Type::UUID => out.push_bind_param::<Uuid, _>(param),
        Type::UUID_ARRAY => out.push_bind_param::<Array<Nullable<Uuid>>, _>(param),
        _ => Err(wrong("a parameter of a type that no statement has")),
    }
}

fn wrong(what: &'static str) -> Error {
    Error::QueryBuilderError(what.into())
}

impl<Kind> ToSql<Kind, Pg> for Encoded
where
    Pg: HasSqlType<Kind>,
{
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        let Some(bytes) = &self.bytes else { return Ok(IsNull::Yes) };
        out.write_all(bytes)?;
        Ok(IsNull::No)
    }
}

/// Told apart by its text.
impl QueryId for Ours<'_> {
    type QueryId = ();

    const HAS_STATIC_QUERY_ID: bool = false;
}

impl Query for Ours<'_> {
    type SqlType = Untyped;
}

/// What the server made of a row.
struct Times {
    created_at: At,
    due_at: At,
    xid: Option<Xid>,
}

impl QueryableByName<Pg> for Times {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> deserialize::Result<Self> {
        Ok(Self {
            created_at: NamedRow::get::<Timestamptz, _>(row, "created_at")?,
            due_at: NamedRow::get::<Timestamptz, _>(row, "due_at")?,
            xid: Some(NamedRow::get::<Text, _>(row, "xid")?),
        })
    }
}

impl FromSql<Text, Pg> for Xid {
    fn from_sql(value: PgValue<'_>) -> deserialize::Result<Self> {
        <Xid as ::tokio_postgres::types::FromSql<'_>>::from_sql(&Type::TEXT, value.as_bytes())
    }
}

/// Yes or no.
struct Answer(bool);

impl QueryableByName<Pg> for Answer {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> deserialize::Result<Self> {
        Ok(Self(NamedRow::get::<Bool, _>(row, "answer")?))
    }
}

impl FromSql<Timestamptz, Pg> for At {
    fn from_sql(value: PgValue<'_>) -> deserialize::Result<Self> {
        <At as ::tokio_postgres::types::FromSql<'_>>::from_sql(&Type::TIMESTAMPTZ, value.as_bytes())
    }
}

fn refused(store: &PostgresStore, error: Error) -> WriteError {
    match error {
        Error::DatabaseError(DatabaseErrorKind::UniqueViolation, refusal)
            if is_key(store, refusal.constraint_name()) =>
        {
            WriteError::DuplicateId
        }
        error => WriteError::Driver(error.into()),
    }
}
