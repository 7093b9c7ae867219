//! What became of each delivery, written back: batched, fenced, and in one order.
//!
//! `carry.rs` decides what is sent again and when, `refusal.rs` what a settlement becomes that the
//! database refuses, `extension.rs` keeps holds, `turn.rs` those whose rows are locked; the outbox's
//! writer and the relay's batches share them.

mod batch;
mod carry;
mod extension;
mod fit;
mod item;
mod key_batch;
mod keys;
mod overtaken;
mod refusal;
mod text;
mod turn;
mod writer;

use std::time::Duration;

use sendoff_core::limits;
use tracing::error;

pub(crate) use batch::{Answer, Answers, KEPT, SettledBatch, Settling, Terms};
use carry::Decided;
pub(crate) use carry::{Carry, Waits};
pub(crate) use extension::{ExtendedPart, Extender};
pub(crate) use item::{
    Completion, Completions, FIRST_PAUSE, Fate, Item, Over, Trouble, Unit, completions,
};
pub(crate) use key_batch::KeySettling;
pub(crate) use refusal::{AfterRefusal, Refusals};
pub(crate) use text::storable;
pub(crate) use turn::{Ended, InTurn, Turn};
pub(crate) use writer::{Pace, SettleWriter};

use crate::store::{Held, SettleStore, Settled, Settlement, StoreError, within};

/// One settlement statement, which may take no longer than `limit`.
pub(crate) async fn send<B>(
    store: &dyn SettleStore,
    batch: &[Item<B>],
    limit: Duration,
) -> Result<Settled, StoreError> {
    let settlements: Vec<Settlement> = batch.iter().map(|item| item.settlement.clone()).collect();
    within(limit, store.settle(&settlements)).await
}

/// The answer to a statement, as what is carried takes it.
fn decided<S: Clone, Id>(answer: &Result<S, StoreError>) -> Result<Decided<Id>, &StoreError>
where
    Decided<Id>: From<S>,
{
    answer.as_ref().map(|settled| settled.clone().into())
}

/// The database refuses whatever could be written about these events. It will deliver them again,
/// but seldom: they are held for as long as a hold may be.
pub(crate) async fn put_off(store: &dyn SettleStore, refused: Vec<Held>, limit: Duration) {
    for Held { id, .. } in &refused {
        error!(
            event.id = %id,
            "the database refuses to record what became of this event: it comes again, but seldom"
        );
    }
    if !refused.is_empty() {
        let terms = (limits::HOLD, limit);
        Extender::default().extend(store, refused, terms, |part| part, drop).await;
    }
}
