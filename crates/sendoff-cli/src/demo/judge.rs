//! Follows every event and says whether it went as promised.

use std::sync::Arc;

use anyhow::Context;
use sendoff_testkit::history::{
    Entry, Expectations, Fault, FaultKind, History, WriteOutcome, check,
};

use super::book::Book;
use super::handler::node;
use super::place::Desk;
use super::record::{FileRecord, Received};

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
    desk: Box<dyn Desk>,
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
    pub(crate) fn new(desk: Box<dyn Desk>, book: Arc<Book>) -> Self {
        Self { desk, book, order: 0, row: 0, found: Found::default() }
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
    pub(crate) fn forget(&mut self, record: &FileRecord) -> anyhow::Result<()> {
        self.desk.forget_orders(self.order)?;
        record.clear()?;
        Ok(())
    }

    pub(crate) fn found(&self) -> &Found {
        &self.found
    }

    /// The table of orders is the truth about what was committed. Answers how many there are.
    fn resolve(&mut self, history: &History) -> anyhow::Result<u64> {
        let orders = self.desk.orders_after(self.order)?;
        for order in &orders {
            self.order = order.number;
            let (id, digest, outcome) = (order.id, order.digest, WriteOutcome::Committed);
            history.push(Entry::Written { id, key: None, digest, outcome, seq: None });
        }
        Ok(orders.len() as u64)
    }

    fn rows_stand(&mut self, history: &History) -> anyhow::Result<()> {
        for row in self.desk.rows_after(self.row)? {
            self.row = row.seq;
            history.stands(row.id, row.status, row.attempts);
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
