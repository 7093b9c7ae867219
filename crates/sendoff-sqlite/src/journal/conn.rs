//! A connection to the file, whether it blocks or is awaited: what searching and appending need of it.
//!
//! What is decided is written once, as futures. Those of a connection that blocks never wait, and
//! [`at_once`] has their answer.

use std::future::{Future, ready};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql, params_from_iter};
use sendoff_engine::journal::AppendError;

/// A parameter.
#[derive(Clone, Copy)]
pub(super) enum Value<'a> {
    Null,
    Integer(i64),
    Text(&'a str),
    Blob(&'a [u8]),
}

impl<'a> From<Option<&'a str>> for Value<'a> {
    fn from(text: Option<&'a str>) -> Self {
        text.map_or(Self::Null, Self::Text)
    }
}

impl<'a> From<Option<&'a [u8; 16]>> for Value<'a> {
    fn from(id: Option<&'a [u8; 16]>) -> Self {
        id.map_or(Self::Null, |id| Self::Blob(id))
    }
}

/// A connection.
pub(super) trait Conn {
    type Error;

    /// Runs a statement; all that ours answer is numbers.
    fn rows(
        &mut self,
        statement: &str,
        params: &[Value<'_>],
    ) -> impl Future<Output = Result<Vec<Vec<i64>>, Self::Error>> + Send;

    /// What a failure means to an append.
    fn refused(error: Self::Error) -> AppendError;
}

/// rusqlite's, which blocks.
pub(super) struct Blocking<'c>(pub(super) &'c Connection);

impl Conn for Blocking<'_> {
    type Error = rusqlite::Error;

    fn rows(
        &mut self,
        statement: &str,
        params: &[Value<'_>],
    ) -> impl Future<Output = rusqlite::Result<Vec<Vec<i64>>>> + Send {
        ready(rows(self.0, statement, params))
    }

    fn refused(error: rusqlite::Error) -> AppendError {
        super::append::refused(error)
    }
}

fn rows(
    conn: &Connection,
    statement: &str,
    params: &[Value<'_>],
) -> rusqlite::Result<Vec<Vec<i64>>> {
    let mut statement = conn.prepare_cached(statement)?;
    let columns = statement.column_count();
    let mut rows = statement.query(params_from_iter(params))?;
    let mut numbers = Vec::new();
    while let Some(row) = rows.next()? {
        numbers.push((0..columns).map(|column| row.get(column)).collect::<Result<_, _>>()?);
    }
    Ok(numbers)
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// What a future answers that never waits.
///
/// # Panics
///
/// If it does.
pub(super) fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => unreachable!("a connection that blocks was awaited"),
    }
}
