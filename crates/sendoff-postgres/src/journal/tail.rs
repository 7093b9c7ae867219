//! Looking at the journal's end, on a connection of one's own.

use async_trait::async_trait;
use futures_util::future::join;
use sendoff_core::Timestamp;
use sendoff_core::journal::{Ask, HolderId, Position, Sequence, Server};
use sendoff_engine::journal::{Page, TailLook, TailRow, TailSource};
use sendoff_engine::store::StoreError;
use tokio_postgres::{Error, Row, Statement as Prepared};

use super::facts;
use super::store::PostgresJournal;
use crate::connect::Opened;
use crate::error::failed;
use crate::link::{Kept, Params, query_unnamed};
use crate::rows::get;
use crate::sql::Statement;

/// One connection, until it is lost: whoever has a tail must not be given another server unawares.
pub(super) struct PostgresTail {
    journal: PostgresJournal,
    opened: Opened,
    prepared: Option<Statements>,
    /// Whether rows were large lately.
    large: bool,
}

struct Statements {
    holders: Prepared,
    rows: Prepared,
    large_rows: Prepared,
}

impl PostgresTail {
    pub(super) async fn open(journal: PostgresJournal) -> Result<Self, StoreError> {
        let opened = journal.connector().open(None).await;
        let opened = opened.map_err(|error| StoreError::Unavailable(error.into()))?;
        let prepare = async |statement: &Statement| {
            opened.client.prepare_typed(&statement.text, statement.types).await.map_err(failed)
        };
        let sql = journal.sql();
        let prepared = match Kept::from(journal.options().server.doorbell) {
            Kept::Unnamed => None,
            Kept::Prepared => Some(Statements {
                holders: prepare(&sql.journal.holders).await?,
                rows: prepare(&sql.journal.tail).await?,
                large_rows: prepare(&sql.journal.tail_large).await?,
            }),
        };
        Ok(Self { journal, opened, prepared, large: false })
    }

    /// Either statement leaves with the first poll of its future, so that the order in which they are
    /// polled is the order in which they are carried out.
    async fn query(
        &self,
        statement: &Statement,
        prepared: Option<&Prepared>,
        params: Params<'_>,
    ) -> Result<Vec<Row>, Error> {
        let client = &self.opened.client;
        match prepared {
            Some(prepared) => client.query(prepared, params).await,
            None => query_unnamed(client, statement, params).await,
        }
    }

    /// The state, and rows: each of no more than its share of the bytes, or as many large ones as fit.
    async fn rows(&self, page: Page, large: bool) -> Result<Vec<Row>, Error> {
        let (sql, prepared) = (self.journal.sql(), self.prepared.as_ref());
        let (statement, prepared, bytes) = if large {
            let prepared = prepared.map(|known| &known.large_rows);
            (&sql.journal.tail_large, prepared, page.bytes)
        } else {
            (&sql.journal.tail, prepared.map(|known| &known.rows), page.share())
        };
        let (after, up_to) = (i64::from(page.after), i64::from(page.up_to));
        let (limit, bytes) = (count(page.limit), count(bytes));
        let params: Params<'_> = &[&after, &limit, &bytes, &up_to];
        self.query(statement, prepared, params).await
    }

    async fn holders(&self) -> Result<Vec<Row>, Error> {
        let prepared = self.prepared.as_ref().map(|known| &known.holders);
        self.query(&self.journal.sql().journal.holders, prepared, &[]).await
    }
}

#[async_trait]
impl TailSource for PostgresTail {
    async fn look(&mut self, ask: Ask, page: Page) -> Result<TailLook, StoreError> {
        self.journal.check_open()?;
        let rows = self.rows(page, self.large);
        let (holders, rows) = match ask {
            Ask::Rows => (None, rows.await.map_err(failed)?),
            Ask::HoldersThenRows => {
                // Statements of their own, each with its own snapshot: the second begins when the
                // first is over.
                let (holders, rows) = join(self.holders(), rows).await;
                (Some(names(&holders.map_err(failed)?)?), rows.map_err(failed)?)
            }
        };
        let rows = if !self.large && any_too_large(&rows)? {
            self.large = true;
            self.rows(page, true).await.map_err(failed)?
        } else {
            rows
        };
        let mut rows = rows.into_iter();
        let state = rows.next().ok_or_else(|| StoreError::Refused(Gone.into()))?;
        let state = State::of(&state)?;
        let (mut facts, mut complete) = (Vec::new(), true);
        // Each row is let go when its fact is taken from it: not everything is in memory twice.
        for row in rows {
            if facts::fits(&row, 1)? {
                facts.push(tail_row(&row)?);
            } else {
                complete = false;
            }
        }
        self.large &= !complete || is_large(&facts, page);
        Ok(TailLook {
            server: state.server,
            sequence: state.sequence,
            head: state.head,
            holders,
            proved: Position::START,
            undecided: None,
            complete: complete && facts.len() < page.limit,
            rows: facts,
        })
    }
}

/// A number that fits into the database's.
pub(super) fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn names(rows: &[Row]) -> Result<Vec<HolderId>, StoreError> {
    rows.iter().map(|row| get::<String>(row, 0).map(HolderId::new)).collect()
}

/// Whether a row has more than its share of the bytes.
fn any_too_large(rows: &[Row]) -> Result<bool, StoreError> {
    for row in rows.iter().skip(1) {
        if !facts::fits(row, 1)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a fact has about as much as its share of the bytes, or more.
fn is_large(facts: &[TailRow], page: Page) -> bool {
    let sizes = facts.iter().filter_map(|row| row.recorded.as_ref().ok());
    sizes.map(|fact| fact.event().size()).any(|size| size > page.share() / 2)
}

fn tail_row(row: &Row) -> Result<TailRow, StoreError> {
    Ok(TailRow { position: facts::position(row, 1)?, recorded: facts::recorded(row, 1) })
}

/// The first row of `tail`.
struct State {
    server: Server,
    sequence: Sequence,
    head: Position,
}

impl State {
    fn of(row: &Row) -> Result<Self, StoreError> {
        let state: Vec<i64> = get(row, 0)?;
        let &[started_at, in_recovery, cache, increment, cycles, head] = &*state else {
            return Err(StoreError::Refused(Gone.into()));
        };
        let started_at = Timestamp::from_micros(started_at);
        Ok(Self {
            server: Server { started_at, in_recovery: in_recovery != 0 },
            sequence: Sequence { cache, increment, cycles: cycles != 0 },
            head: Position::try_from(head).map_err(|error| StoreError::Refused(error.into()))?,
        })
    }
}

/// The journal's sequence is gone.
#[derive(Debug, thiserror::Error)]
#[error("the journal's sequence is not there: migrate first")]
struct Gone;
