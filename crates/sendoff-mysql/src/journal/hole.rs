//! Runs of numbers that nobody brings any more, too long to be filled: one row stands for all of them.
//!
//! Closing a run locks the gap between the rows around it, so that nobody can insert meanwhile, and
//! fails where somebody has. Whoever took one of its numbers and had no row yet inserts it when the run
//! is closed, finds that after its insert, undoes it, and takes other numbers.

use mysql_async::Conn;
use sendoff_core::journal::Position;
use sendoff_engine::store::StoreError;

use super::facts;
use super::tail::Gap;
use crate::error::failed;
use crate::link::last_rows;
use crate::rows::maybe;
use crate::sql::{Sql, Statement};
use crate::wire::Literal;

/// Up to where the run goes that a gap begins in; none where it begins in none.
pub(super) async fn end(
    conn: &mut Conn,
    sql: &Sql,
    (first, _): Gap,
) -> Result<Option<Position>, StoreError> {
    let text = sql.journal.hole.with(&[("number", &Literal::position(first))]);
    let rows = last_rows(conn, &text).await.map_err(failed)?;
    rows.first().map(|row| facts::position(row, 0)).transpose()
}

/// As much of the beginning of a gap as nobody seems to have.
pub(super) async fn free(
    conn: &mut Conn,
    sql: &Sql,
    (first, last): Gap,
) -> Result<Option<Gap>, StoreError> {
    let text = sql
        .journal
        .hole_taken
        .with(&[("first", &Literal::position(first)), ("last", &Literal::position(last))]);
    let rows = last_rows(conn, &text).await.map_err(failed)?;
    let taken = rows.first().filter(|row| maybe(row, 0).is_some());
    let Some(taken) = taken.map(|row| facts::position(row, 0)).transpose()? else {
        return Ok(Some((first, last)));
    };
    let before = taken.get().checked_sub(1).and_then(|number| Position::new(number).ok());
    Ok(before.filter(|before| *before >= first).map(|before| (first, before)))
}

/// The text that begins to close a run, all but its last number, which becomes a void.
pub(super) fn open(sql: &Sql, run: Gap) -> String {
    with(&sql.journal.hole_open, run)
}

/// The text that closes it, or fails.
pub(super) fn close(sql: &Sql, run: Gap) -> String {
    with(&sql.journal.hole_close, run)
}

fn with(statement: &Statement, (first, end): Gap) -> String {
    let last = Literal::number(i64::from(end) - 1);
    let (first, end) = (Literal::position(first), Literal::position(end));
    statement.with(&[("first", &first), ("last", &last), ("end", &end)])
}
