//! Settling an event in the transaction of its effect.

use sendoff_core::{Delivery, EventId, Holding, Origin};

use crate::capture::{Join, JoinBlocking, JoinError, Part};
use crate::outbox::Outbox;
use crate::source::{Holds, Joining};

/// Why an event was not settled in a transaction. Roll that back, and fail the handler: the event comes again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettleInError {
    /// This outbox does not deliver the event now: it came from a relay, a replay or a journal, or its run is
    /// over.
    #[error("this outbox does not run a handler for event {0} now")]
    NotRunning(EventId),
    /// Others may have the event: its hold was lost, or ran out before the transaction came to it.
    #[error("the hold on event {0} was lost: somebody else may deliver it")]
    Lost(EventId),
    /// An event with an ordering key is settled with its key, and not in a transaction of its own. Use an
    /// [`Inbox`](crate::Inbox).
    #[error("event {0} has an ordering key, with which it is settled; use an inbox instead")]
    Ordered(EventId),
    /// The event has several handlers ([`fan_out`](crate::fan_out)), and is delivered when all of them are done.
    /// Use an [`Inbox`](crate::Inbox).
    #[error(
        "event {0} has several handlers, and is delivered when all are done; use an inbox instead"
    )]
    Shared(EventId),
    /// Somebody has the event's row locked.
    #[error("somebody has the row of event {0} locked")]
    Locked(EventId),
    /// The database did not carry it out.
    #[error(transparent)]
    Join(#[from] JoinError),
}

impl<S> Outbox<S> {
    /// Marks the event of a running handler as delivered in `tx`, the transaction of its effect: both commit, or
    /// neither does. So the effect is made exactly once, without an inbox, where it lives in the database of
    /// the outbox.
    ///
    /// Call it in a handler of this outbox, with a transaction on the same database, and commit after it. From
    /// here on the event's hold is not extended, and its row is locked by `tx`: nobody else can have it before
    /// that ends. Where `tx` commits, the event is delivered, whatever the handler says afterwards. Where it does not,
    /// the event comes again: a handler that fails is settled as usual, and one that says that it succeeded is
    /// taken to have failed.
    ///
    /// # Errors
    ///
    /// Whatever it is, roll `tx` back and fail the handler. One that makes its effect in another way then, such as with an
    /// [`Inbox`](crate::Inbox), may say that it succeeded, but not after a [`Driver`](JoinError::Driver) error: what became of the row
    /// is not known then.
    pub async fn settle_in<Tx: ?Sized>(
        &self,
        delivery: &Delivery,
        tx: &mut Tx,
    ) -> Result<(), SettleInError>
    where
        S: Join<Tx>,
    {
        let holds = self.holds_of(delivery)?;
        let joining = holds.join(delivery.id()).await;
        let part = done(delivery, joining)?;
        let answer = self.store().join(tx, &part).await;
        carried_out(delivery.id(), holds, joining, answer)
    }

    /// [`settle_in`](Self::settle_in) for a driver that blocks, in a [`blocking`](crate::blocking) handler.
    ///
    /// # Panics
    ///
    /// Where it is called on a thread that must not block, as every call that waits in that way.
    pub fn settle_in_blocking<Tx: ?Sized>(
        &self,
        delivery: &Delivery,
        tx: &Tx,
    ) -> Result<(), SettleInError>
    where
        S: JoinBlocking<Tx>,
    {
        let holds = self.holds_of(delivery)?;
        let joining = holds.join_blocking(delivery.id());
        let part = done(delivery, joining)?;
        let answer = self.store().join_blocking(tx, &part);
        carried_out(delivery.id(), holds, joining, answer)
    }

    /// Where to ask about an event that can be settled in this way.
    fn holds_of(&self, delivery: &Delivery) -> Result<&Holds, SettleInError> {
        let id = delivery.id();
        let holds = match (delivery.origin.whole(), self.engine()) {
            (Origin::Row(_), Some(engine)) => engine.holds(),
            _ => return Err(SettleInError::NotRunning(id)),
        };
        match delivery.ordering_key() {
            Some(_) => Err(SettleInError::Ordered(id)),
            None if delivery.is_for_one_of_several() => Err(SettleInError::Shared(id)),
            None => Ok(holds),
        }
    }
}

/// The part of the transaction that marks the event, by what it is held by.
fn done(delivery: &Delivery, joining: Joining) -> Result<Part<'static>, SettleInError> {
    let (id, created_at) = (delivery.id(), delivery.created_at);
    match joining {
        Joining::By { held, .. } => match held.by {
            Holding::Row(token) => Ok(Part::Done { id, token, created_at }),
            Holding::Lock | Holding::Key(_) => Err(SettleInError::Ordered(id)),
        },
        Joining::Lost => Err(SettleInError::Lost(id)),
        Joining::NotRunning => Err(SettleInError::NotRunning(id)),
        Joining::Locked => Err(SettleInError::Locked(id)),
    }
}

fn carried_out(
    id: EventId,
    holds: &Holds,
    joining: Joining,
    answer: Result<bool, JoinError>,
) -> Result<(), SettleInError> {
    if let (Joining::By { run, .. }, true) = (joining, changed_nothing(&answer)) {
        holds.not_joined(id, run);
    }
    match answer? {
        true => Ok(()),
        false => Err(SettleInError::Lost(id)),
    }
}

/// Whether it is proved that the transaction leaves the row as it was, whatever its end is.
fn changed_nothing(answer: &Result<bool, JoinError>) -> bool {
    match answer {
        Ok(is_done) => !is_done,
        // The statement was not sent, or it is undone, or all that its transaction did is.
        Err(
            JoinError::NoTransaction
            | JoinError::Busy(_)
            | JoinError::LostRace(_)
            | JoinError::NotHere
            | JoinError::Closed,
        ) => true,
        // Also a link that broke before the answer came.
        Err(JoinError::Driver(_)) => false,
    }
}
