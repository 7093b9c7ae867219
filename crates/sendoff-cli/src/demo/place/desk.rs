//! What the demo does with its database.

use std::fmt;

use sendoff::{Event, EventId, Status};
use sendoff_testkit::history::Digest;

use crate::demo::stand::Stand;

/// A connection to the demo's database. It blocks: for threads that may.
pub(crate) trait Desk: fmt::Debug + Send {
    /// Writes an order and its event in one transaction, and ends that.
    fn transact(&mut self, order: &NewOrder<'_>, end: End) -> anyhow::Result<()>;

    /// Whether an order with this event was committed.
    fn is_placed(&mut self, id: EventId) -> anyhow::Result<bool>;

    /// What earlier runs left.
    fn earlier(&mut self) -> anyhow::Result<Earlier>;

    /// What the outbox still owes.
    fn stand(&mut self) -> anyhow::Result<Stand>;

    /// Orders after this number, in their order.
    fn orders_after(&mut self, number: u64) -> anyhow::Result<Vec<PlacedOrder>>;

    /// Rows of the outbox after this sequence number, in their order.
    fn rows_after(&mut self, seq: i64) -> anyhow::Result<Vec<OutboxRow>>;

    /// Deletes orders up to this number.
    fn forget_orders(&mut self, up_to: u64) -> anyhow::Result<()>;
}

/// An order to write, and its event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NewOrder<'a> {
    pub(crate) number: u64,
    pub(crate) customer: &'a str,
    pub(crate) total_cents: u32,
    pub(crate) event: &'a Event,
}

impl NewOrder<'_> {
    /// Databases have no unsigned numbers.
    pub(super) fn number(&self) -> i64 {
        self.number.cast_signed()
    }

    pub(super) fn digest(&self) -> i64 {
        Digest::of(self.event).as_u64().cast_signed()
    }
}

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Commit,
    RollBack,
}

/// An order that was committed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlacedOrder {
    pub(crate) number: u64,
    pub(crate) id: EventId,
    pub(crate) digest: Digest,
}

impl PlacedOrder {
    pub(super) fn new(number: i64, id: [u8; 16], digest: i64) -> Self {
        Self {
            number: number.cast_unsigned(),
            id: EventId::from_bytes(id),
            digest: Digest::from_u64(digest.cast_unsigned()),
        }
    }
}

/// How a row of the outbox stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OutboxRow {
    pub(crate) seq: i64,
    pub(crate) id: EventId,
    pub(crate) status: Status,
    pub(crate) attempts: u32,
}

/// What the database held when the demo began.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Earlier {
    pub(crate) written: u64,
    pub(crate) last_order: u64,
    pub(crate) dead: u64,
}
