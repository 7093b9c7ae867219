//! `diesel-async`: its connection inside a transaction.
//!
//! Only `write`, no guard: diesel has no type for a transaction, and a closure ends it. What was
//! written is confirmed by the store after `release`, since diesel too takes a COMMIT that was
//! answered with a rollback for a success.
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

use std::io::Write;

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
use ::diesel_async::{AsyncPgConnection, RunQueryDsl, SimpleAsyncConnection};
use ::tokio_postgres::types::Type;
use futures_util::future::join;
use sendoff_core::Token;
use sendoff_engine::capture::{Capture, InsertResult, WriteError};
use sendoff_engine::store::{Born, NewRow};

use super::draft::Draft;
use super::insert::is_key;
use super::params::Params;
use crate::encoded::Encoded;
use crate::options::Doorbell;
use crate::sql::Sql;
use crate::store::PostgresStore;
use crate::wire::At;

/// The type proves nothing here; outside a transaction the server inserts nothing, and the answer is
/// [`WriteError::NoTransaction`].
impl Capture<AsyncPgConnection> for PostgresStore {
    async fn insert(&self, conn: &mut AsyncPgConnection, rows: &[NewRow]) -> InsertResult {
        self.check_open().map_err(|_| WriteError::Closed)?;
        match Draft::whole(rows)? {
            Some(draft) => insert_one(self, conn, &draft).await,
            None => Ok(Vec::new()),
        }
    }
}

async fn insert_one(
    store: &PostgresStore,
    conn: &AsyncPgConnection,
    draft: &Draft<'_>,
) -> InsertResult {
    let params = Params::new(store, draft);
    let statement = params.statement(store);
    let params = params.encoded(statement)?;
    let insert = Ours { text: &statement.text, params, doorbell: store.doorbell() };
    let rows = insert.load_marked::<Times>(store.sql(), conn).await;
    let rows = rows.map_err(|error| refused(store, error))?;
    // All or none: a statement of rows without any was run outside a transaction.
    if rows.is_empty() {
        return Err(WriteError::NoTransaction);
    }
    let held = draft.locked_by.iter().map(Option::is_some);
    let born = |(times, held): (Times, bool)| Born {
        created_at: times.created_at.0,
        token: held.then(|| Token::new(times.due_at.0)),
    };
    Ok(rows.into_iter().zip(held).map(born).collect())
}

/// Our statement as one of diesel's, so that the connection keeps it prepared: it would prepare an
/// `sql_query` again for every write.
pub(crate) struct Ours<'a> {
    pub(crate) text: &'a str,
    pub(crate) params: Vec<Encoded>,
    pub(crate) doorbell: Doorbell,
}

impl Ours<'_> {
    /// Marks the transaction as open, and sends the statement in the same round trip.
    pub(crate) async fn load_marked<T>(
        self,
        sql: &Sql,
        conn: &AsyncPgConnection,
    ) -> QueryResult<Vec<T>>
    where
        T: QueryableByName<Pg> + Send + 'static,
    {
        // Pipelined, and in this order: the mark leaves with its first poll.
        let (mut first, mut second) = (conn, conn);
        let mark = first.batch_execute(&sql.in_transaction.text);
        let (marked, rows) = join(mark, RunQueryDsl::load::<T>(self, &mut second)).await;
        marked.and(rows)
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
}

impl QueryableByName<Pg> for Times {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> deserialize::Result<Self> {
        Ok(Self {
            created_at: NamedRow::get::<Timestamptz, _>(row, "created_at")?,
            due_at: NamedRow::get::<Timestamptz, _>(row, "due_at")?,
        })
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
