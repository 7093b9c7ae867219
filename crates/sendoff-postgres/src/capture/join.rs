//! Taking part in a transaction that the caller holds, whichever driver it is of.

use ::tokio_postgres::Client;
use ::tokio_postgres::error::SqlState;
use ::tokio_postgres::types::ToSql;
use futures_util::future::join;
use sendoff_core::BoxError;
use sendoff_engine::capture::{CursorMove, JoinError, Part};

use super::insert::mark;
use super::literal::time;
use crate::error::{explained, is_lost_race};
use crate::link::query_unnamed;
use crate::options::Retention;
use crate::sql::Statement;
use crate::store::PostgresStore;
use crate::wire::At;

/// The statement for a part, and its parameters, which are texts. It answers with one row, or with none where
/// it knew of no transaction.
pub(super) struct Ask<'s> {
    pub(super) statement: &'s Statement,
    pub(super) params: Vec<String>,
}

impl<'s> Ask<'s> {
    /// Unless the store is closed.
    pub(super) fn new(store: &'s PostgresStore, part: &Part<'_>) -> Result<Self, JoinError> {
        store.check_open().map_err(|_| JoinError::Closed)?;
        let sql = store.sql();
        Ok(match *part {
            Part::Once { consumer, id } => {
                Self { statement: &sql.once, params: vec![consumer.to_string(), id.to_string()] }
            }
            Part::Done { id, token, .. } => {
                let keep = !matches!(store.retention(), Retention::DeleteWhenDone);
                let params = vec![id.to_string(), time(At(token.due_at())), keep.to_string()];
                Self { statement: &sql.settle_in, params }
            }
            Part::Moved(CursorMove { pair, owner, epoch, from, to }) => {
                let names = [pair.topic(), pair.publisher(), owner].map(str::to_owned);
                let numbers = [epoch, from.into(), to.into()].map(|number: i64| number.to_string());
                let params = names.into_iter().chain(numbers).collect();
                Self { statement: &sql.journal.move_in, params }
            }
        })
    }

    pub(super) fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.params.iter().map(|param| param as _).collect()
    }
}

/// Through tokio-postgres, in one round trip.
pub(super) async fn take_part(
    store: &PostgresStore,
    client: &Client,
    part: &Part<'_>,
) -> Result<bool, JoinError> {
    let ask = Ask::new(store, part)?;
    let params = ask.params();
    let asked = query_unnamed(client, ask.statement, &params);
    let (marked, rows) = join(mark(store, client), asked).await;
    let rows = marked.and(rows).map_err(|error| refused(error.code().cloned(), error))?;
    let row = rows.first().ok_or(JoinError::NoTransaction)?;
    row.try_get(0).map_err(|error| JoinError::Driver(error.into()))
}

/// By the server's code, where the driver tells it.
pub(super) fn refused(code: Option<SqlState>, source: impl Into<BoxError>) -> JoinError {
    match code {
        Some(SqlState::LOCK_NOT_AVAILABLE) => JoinError::Busy(source.into()),
        Some(SqlState::NO_ACTIVE_SQL_TRANSACTION) => JoinError::NoTransaction,
        Some(code) if is_lost_race(&code) => JoinError::LostRace(source.into()),
        code => JoinError::Driver(explained(code.as_ref(), source)),
    }
}
