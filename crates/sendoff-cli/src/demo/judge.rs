//! Follows every event and says whether it went as promised.

use std::sync::Arc;

use anyhow::Context;
use rusqlite::Connection;
use sendoff::{EventId, Status};
use sendoff_testkit::history::{
    Digest, Entry, Expectations, Fault, FaultKind, History, WriteOutcome, check,
};

use super::book::Book;
use super::handler::node;
use super::record::{Received, Record};

const ORDERS_AFTER: &str = include_str!("sql/orders_after.sql");
const ROWS_AFTER: &str = include_str!("sql/rows_after.sql");
const FORGET_ORDERS: &str = include_str!("sql/forget_orders.sql");

/// Broken promises that are told one by one; the rest is counted.
const TOLD: usize = 20;

/// Attempts an event has.
pub(crate) const MAX_ATTEMPTS: u32 = 10;

/// Whether there was time for everything to be delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Yes: nothing may be owed any more.
    Drained,
    /// Stopped before that.
    Early,
}

#[derive(Debug)]
pub(crate) struct Judge {
    conn: Connection,
    book: Arc<Book>,
    /// The last order and the last row that were judged.
    order: u64,
    row: i64,
    found: Found,
}

/// What all windows came to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Found {
    pub(crate) written: u64,
    pub(crate) rolled_back: u64,
    pub(crate) delivered: u64,
    pub(crate) duplicates: u64,
    pub(crate) unexplained: u64,
    pub(crate) lost: u64,
    pub(crate) phantoms: u64,
    pub(crate) dead: u64,
    pub(crate) pending: u64,
    pub(crate) violations: u64,
    pub(crate) told: Vec<String>,
}

impl Judge {
    pub(crate) fn new(conn: Connection, book: Arc<Book>) -> Self {
        Self { conn, book, order: 0, row: 0, found: Found::default() }
    }

    /// Learns what earlier runs received, and that each of them ended in whatever way: that explains
    /// a second delivery of what was on its way then. Answers the number of the run that begins.
    pub(crate) fn recall(&self, earlier: &[Received]) -> u32 {
        let history = self.book.page();
        let mut run = earlier.first().map_or(0, |first| first.run);
        for received in earlier {
            if received.run != run {
                run = received.run;
                history.fault(Fault::everywhere(FaultKind::Restart));
            }
            let Received { id, attempt, digest, .. } = *received;
            let entry = Entry::Started { node: node(run).into(), id, attempt, digest };
            let started = history.push(entry);
            history.push(Entry::Finished { started, ok: true });
        }
        if run > 0 {
            history.fault(Fault::everywhere(FaultKind::Restart));
        }
        run + 1
    }

    /// Judges everything since the last time. Nobody places orders meanwhile, and nothing is owed
    /// if it was drained.
    ///
    /// An event of an earlier window that still came again would have no order on this page, and be
    /// told as a phantom: under the wrong name, but told.
    pub(crate) fn judge(&mut self, ended: Ended) -> anyhow::Result<()> {
        let history = self.book.turn();
        let orders = self.resolve(&history).context("the orders could not be read")?;
        self.rows_stand(&history).context("the outbox could not be read")?;
        let expected = Expectations {
            healed: ended == Ended::Drained,
            max_attempts: Some(MAX_ATTEMPTS),
            ..Expectations::default()
        };
        let verdict = check(&history, &expected);
        let found = &mut self.found;
        found.written += verdict.written;
        found.rolled_back += verdict.rolled_back;
        found.delivered += verdict.delivered;
        found.duplicates += verdict.duplicates;
        found.unexplained += verdict.unexplained;
        found.lost += verdict.lost;
        found.phantoms += verdict.phantoms;
        found.dead += verdict.dead;
        found.pending += verdict.pending;
        verdict.violations.iter().for_each(|violation| found.violated(violation.to_string()));
        // A commit is never taken back by the history, so one that lied shows here.
        for _ in orders..verdict.written {
            found.violated("a commit was reported whose order is not in the table".to_owned());
        }
        Ok(())
    }

    /// Deletes what was judged, from a file nobody will see again.
    pub(crate) fn forget(&self, record: &Record) -> anyhow::Result<()> {
        self.conn.execute(FORGET_ORDERS, [self.order])?;
        record.clear()?;
        Ok(())
    }

    pub(crate) fn found(&self) -> &Found {
        &self.found
    }

    /// The table of orders is the truth about what was committed. Answers how many there are.
    fn resolve(&mut self, history: &History) -> rusqlite::Result<u64> {
        let mut orders = self.conn.prepare_cached(ORDERS_AFTER)?;
        let mut rows = orders.query([self.order])?;
        let mut count = 0;
        while let Some(row) = rows.next()? {
            self.order = row.get(0)?;
            let id = EventId::from_bytes(row.get(1)?);
            let digest = Digest::from_u64(row.get::<_, i64>(2)?.cast_unsigned());
            let outcome = WriteOutcome::Committed;
            history.push(Entry::Written { id, key: None, digest, outcome, seq: None });
            count += 1;
        }
        Ok(count)
    }

    fn rows_stand(&mut self, history: &History) -> rusqlite::Result<()> {
        let mut all = self.conn.prepare_cached(ROWS_AFTER)?;
        let mut rows = all.query([self.row])?;
        while let Some(row) = rows.next()? {
            self.row = row.get(0)?;
            // The table's check allows the four of them only.
            if let Ok(status) = Status::try_from(row.get::<_, i64>(2)?) {
                history.stands(EventId::from_bytes(row.get(1)?), status, row.get(3)?);
            }
        }
        Ok(())
    }
}

impl Found {
    fn violated(&mut self, violation: String) {
        self.violations += 1;
        if self.told.len() < TOLD {
            self.told.push(violation);
        }
    }
}
