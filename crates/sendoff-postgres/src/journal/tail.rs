//! Looking at the journal's end, on a connection of one's own.

use std::sync::Arc;

use async_trait::async_trait;
use sendoff_core::Timestamp;
use sendoff_core::journal::{Ask, HolderId, Position, Sequence, Server};
use sendoff_engine::journal::{Armed, Page, TailLook, TailRow, TailSource};
use sendoff_engine::store::StoreError;
use tokio_postgres::{Error, Row, Statement as Prepared};

use super::facts;
use super::store::PostgresJournal;
use crate::connect::Opened;
use crate::error::failed;
use crate::link::{Kept, Params, query_unnamed};
use crate::options::Doorbell;
use crate::rows::get;
use crate::sql::Statement;
use crate::wake::{Rings, listen_to};

/// One connection, until it is lost: whoever has a tail must not be given another server unawares. The
/// doorbell is heard on the same one, so that no ring is lost but with the tail.
pub(super) struct PostgresTail {
    journal: PostgresJournal,
    opened: Opened,
    prepared: Option<Statements>,
    /// Whether rows were large lately.
    large: bool,
    bell: TailBell,
}

/// A tail's part of the doorbell.
#[derive(Default)]
struct TailBell {
    rings: Arc<Rings>,
    listens: bool,
    /// Whether appends ring, and for long enough, by what the last look saw.
    armed: bool,
}

/// What appends ring for is said again when less than so many seconds of it are left: tails look at least
/// every minute.
const RINGS_LEFT: i64 = 120;

struct Statements {
    holders: Prepared,
    head: Prepared,
    rows: Prepared,
    large_rows: Prepared,
}

impl PostgresTail {
    pub(super) async fn open(journal: PostgresJournal) -> Result<Self, StoreError> {
        let bell = TailBell::default();
        let opened = journal.connector().open(Some(Arc::clone(&bell.rings))).await;
        let opened = opened.map_err(|error| StoreError::Unavailable(error.into()))?;
        let prepare = async |statement: &Statement| {
            opened.client.prepare_typed(&statement.text, statement.types).await.map_err(failed)
        };
        let sql = journal.sql();
        let prepared = match Kept::from(journal.options().server.doorbell) {
            Kept::Unnamed => None,
            Kept::Prepared => Some(Statements {
                holders: prepare(&sql.journal.holders).await?,
                head: prepare(&sql.journal.head).await?,
                rows: prepare(&sql.journal.tail).await?,
                large_rows: prepare(&sql.journal.tail_large).await?,
            }),
        };
        Ok(Self { journal, opened, prepared, large: false, bell })
    }

    /// Each statement leaves with the first poll of its future, so that the order in which they are
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

    async fn head(&self) -> Result<Vec<Row>, Error> {
        let prepared = self.prepared.as_ref().map(|known| &known.head);
        self.query(&self.journal.sql().journal.head, prepared, &[]).await
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
        // This look sees what they rang for.
        self.bell.rings.hear();
        let kept = self.journal.kept();
        let head_then_rows = kept.in_order(self.head(), self.rows(page, self.large));
        let (holders, (head, rows)) = match ask {
            Ask::Rows => (None, head_then_rows.await),
            Ask::HoldersThenRows => {
                // Statements of their own, each with its own snapshot: the second begins when the
                // first is over.
                let (holders, others) = kept.in_order(self.holders(), head_then_rows).await;
                (Some(names(&holders.map_err(failed)?)?), others)
            }
        };
        let (head, rows) = (head.map_err(failed)?, rows.map_err(failed)?);
        let rows = if !self.large && any_too_large(&rows)? {
            self.large = true;
            self.rows(page, true).await.map_err(failed)?
        } else {
            rows
        };
        let mut rows = rows.into_iter();
        let state = rows.next().ok_or_else(|| StoreError::Refused(Gone.into()))?;
        let state = State::of(&state)?;
        self.bell.armed = state.rings_left > RINGS_LEFT;
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
        let head = head.first().ok_or_else(|| StoreError::Refused(Gone.into()))?;
        // What came after the head was read is there to be seen, and so it was taken.
        let head =
            facts.last().map_or(Position::START, |row| row.position).max(facts::position(head, 0)?);
        Ok(TailLook {
            server: state.server,
            sequence: state.sequence,
            head,
            holders,
            proved: Position::START,
            undecided: None,
            complete: complete && facts.len() < page.limit,
            rows: facts,
        })
    }

    async fn arm(&mut self) -> Result<Armed, StoreError> {
        self.journal.check_open()?;
        if self.journal.options().server.doorbell == Doorbell::Off {
            return Ok(Armed::NoBell);
        }
        if self.bell.listens && self.bell.armed {
            return Ok(Armed::Already);
        }
        let mut is_new = !self.bell.listens;
        if is_new {
            let channel = self.journal.names().journal_channel();
            listen_to(&self.opened.client, &channel).await.map_err(failed)?;
            self.bell.listens = true;
        }
        if !self.bell.armed {
            let arm = &self.journal.sql().journal.arm;
            let said = query_unnamed(&self.opened.client, arm, &[]).await.map_err(failed)?;
            // A role that may not say so hears what others are rung for.
            is_new |= !said.is_empty();
        }
        Ok(if is_new { Armed::FromNow } else { Armed::Already })
    }

    async fn disarm(&mut self) -> Result<(), StoreError> {
        let disarm = &self.journal.sql().journal.disarm;
        query_unnamed(&self.opened.client, disarm, &[]).await.map(drop).map_err(failed)
    }

    async fn rung(&mut self) {
        self.bell.rings.rung().await;
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
    /// For how many seconds appends ring.
    rings_left: i64,
}

impl State {
    fn of(row: &Row) -> Result<Self, StoreError> {
        let state: Vec<i64> = get(row, 0)?;
        let &[started_at, in_recovery, cache, increment, cycles, rings_left] = &*state else {
            return Err(StoreError::Refused(Gone.into()));
        };
        let started_at = Timestamp::from_micros(started_at);
        Ok(Self {
            server: Server { started_at, in_recovery: in_recovery != 0 },
            sequence: Sequence { cache, increment, cycles: cycles != 0 },
            rings_left,
        })
    }
}

/// The journal's sequence is gone.
#[derive(Debug, thiserror::Error)]
#[error("the journal's sequence is not there: migrate first")]
struct Gone;
