//! The application: places orders, each with its event in one transaction.

use std::sync::Arc;

use anyhow::Context;
use sendoff::{Event, IntoEvent};
use serde::Serialize;

use super::book::Book;
use super::chance::Chance;
use super::place::{Desk, End, NewOrder};
use super::quota::Quota;
use super::tally::Tally;

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
    pub(crate) quota: Arc<Quota>,
    pub(crate) book: Arc<Book>,
    pub(crate) tally: Arc<Tally>,
    pub(crate) chance: Chance,
}

impl Shop {
    /// Places orders until there are no more to place. Blocks.
    pub(crate) fn write(&self, desk: &mut dyn Desk) -> anyhow::Result<()> {
        while let Some(ticket) = self.quota.take() {
            self.place(desk, ticket.order)?;
        }
        Ok(())
    }

    /// Tries until the order is committed: one that is rolled back is placed again, as a new event.
    fn place(&self, desk: &mut dyn Desk, order: u64) -> anyhow::Result<()> {
        let (mut tries, mut refusals) = (0, 0);
        loop {
            tries += 1;
            match self.try_to_place(desk, order, tries) {
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
    fn try_to_place(&self, desk: &mut dyn Desk, order: u64, tries: u32) -> anyhow::Result<bool> {
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
        let end = if self.chance.rolls_back(order, tries) { End::RollBack } else { End::Commit };
        let OrderPlaced { customer, total_cents, .. } = &placed;
        let order = NewOrder { number: order, customer, total_cents: *total_cents, event: &event };
        let ended = desk.transact(&order, end);
        let committed = match ended {
            Ok(()) => end == End::Commit,
            Err(_) => desk.is_placed(event.id()).context("the outcome of a commit")?,
        };
        if committed {
            history.committed(&event);
            self.tally.written();
            return Ok(true);
        }
        history.rolled_back(&event);
        self.tally.rolled_back();
        ended.map(|()| false)
    }
}
