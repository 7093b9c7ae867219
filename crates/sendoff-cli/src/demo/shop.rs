//! The application: places orders, each with its event in one transaction.

use std::sync::Arc;

use anyhow::Context;
use rusqlite::Connection;
use sendoff::sqlite::SqliteStore;
use sendoff::{Event, EventId, IntoEvent, Outbox};
use sendoff_testkit::history::Digest;
use serde::Serialize;

use super::book::Book;
use super::chance::Chance;
use super::quota::Quota;
use super::tally::Tally;

const PLACE: &str = include_str!("sql/place.sql");
const IS_PLACED: &str = include_str!("sql/is_placed.sql");

/// A database that refuses an order this often will not take it (a full disk, say).
const REFUSALS: u32 = 5;

#[derive(Debug, Serialize, Event)]
#[event(type = "order.placed", aggregate = "order")]
pub(crate) struct OrderPlaced {
    #[event(aggregate_id)]
    order: u64,
    customer: String,
    total_cents: u32,
    note: &'static str,
}

#[derive(Debug)]
pub(crate) struct Shop {
    pub(crate) outbox: Outbox<SqliteStore>,
    pub(crate) quota: Arc<Quota>,
    pub(crate) book: Arc<Book>,
    pub(crate) tally: Arc<Tally>,
    pub(crate) chance: Chance,
}

impl Shop {
    /// Places orders until there are no more to place. Blocks.
    pub(crate) fn write(&self) -> anyhow::Result<()> {
        let mut conn = self.outbox.store().connect()?;
        while let Some(ticket) = self.quota.take() {
            self.place(&mut conn, ticket.order)?;
        }
        Ok(())
    }

    /// Tries until the order is committed: one that is rolled back is placed again, as a new event.
    fn place(&self, conn: &mut Connection, order: u64) -> anyhow::Result<()> {
        let (mut tries, mut refusals) = (0, 0);
        loop {
            tries += 1;
            match self.try_to_place(conn, order, tries) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => {
                    refusals += 1;
                    if refusals == REFUSALS {
                        return Err(error.context(format!("order {order} was not taken")));
                    }
                }
            }
        }
    }

    /// Whether it was committed.
    fn try_to_place(&self, conn: &mut Connection, order: u64, tries: u32) -> anyhow::Result<bool> {
        let placed = OrderPlaced {
            order,
            customer: format!("customer-{}", order % 97),
            total_cents: self.chance.total_cents(order),
            note: "leave it with the neighbours",
        };
        let event = (&placed).into_event()?;
        let history = self.book.page();
        // Before the transaction: the event may be delivered before the commit's answer is heard.
        history.unknown(&event);
        let ended = self.transact(conn, &event, &placed, tries);
        let committed = match ended {
            Ok(committed) => committed,
            Err(_) => is_placed(conn, event.id()).context("the outcome of a commit")?,
        };
        if committed {
            history.committed(&event);
            self.tally.written();
            return Ok(true);
        }
        history.rolled_back(&event);
        self.tally.rolled_back();
        ended
    }

    fn transact(
        &self,
        conn: &mut Connection,
        event: &Event,
        placed: &OrderPlaced,
        tries: u32,
    ) -> anyhow::Result<bool> {
        let OrderPlaced { order, customer, total_cents, .. } = placed;
        let digest = Digest::of(event).as_u64().cast_signed();
        let mut tx = self.outbox.begin_blocking(conn)?;
        tx.prepare_cached(PLACE)?.execute((
            order,
            event.id().as_bytes(),
            digest,
            customer,
            total_cents,
        ))?;
        tx.emit(event)?;
        if self.chance.rolls_back(*order, tries) {
            tx.rollback()?;
            return Ok(false);
        }
        tx.commit()?;
        Ok(true)
    }
}

fn is_placed(conn: &Connection, id: EventId) -> rusqlite::Result<bool> {
    conn.prepare_cached(IS_PLACED)?.query_row([id.as_bytes()], |row| row.get(0))
}
