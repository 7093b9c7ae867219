//! The way of a committed event into the hot lane, and what happens when it is full.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::{Attempt, Delivery, Event, Lane, Origin, Timestamp, Token};
use tokio::time::Instant;
use tracing::warn;

use super::confirm::Doubtful;
use super::{
    Admission, Alarm, Confirmer, Deadline, Drawn, Holds, Keys, Lanes, Link, Next, Parcel, Pauses,
};
use crate::dispatch::{Roster, Route, Unknown};
use crate::lock::lock;
use crate::operate::{Observer, Waiters};
use crate::settle::{Completion, Completions};
use crate::store::{Confirmed, EventKind, Held, OutboxStore};

/// Where events come in: the lanes, the holds, and the way from a commit into them.
pub(crate) struct Handover {
    pub(crate) lanes: Lanes,
    pub(crate) holds: Arc<Holds>,
    /// What is ordered goes through its key.
    pub(crate) keys: Arc<Keys>,
    pub(crate) handlers: Arc<Roster>,
    pub(crate) alarm: Alarm,
    pub(crate) confirmer: Confirmer,
    pub(crate) observer: Observer,
    pub(crate) drops: Drops,
    pub(crate) pauses: Arc<Pauses>,
    /// What nobody here handles.
    pub(crate) unknown: Arc<Unknown>,
    /// Who waits until events are over.
    pub(crate) waiters: Arc<Waiters>,
    /// Asked for its epoch, and whether it keeps order.
    pub(crate) store: Arc<dyn OutboxStore>,
}

/// A row born held, on its way from its commit to the hot lane.
#[derive(Debug, Clone)]
pub(crate) struct HotRow {
    pub(crate) event: Event,
    pub(crate) created_at: Timestamp,
    pub(crate) token: Token,
    pub(crate) until: Deadline,
    /// Over which links its commit is known.
    pub(crate) epoch: u64,
}

/// What was certain before the INSERT of a row was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp {
    /// Until when it will be held.
    pub(crate) until: Deadline,
    /// Which links were there.
    pub(crate) epoch: u64,
}

impl HotRow {
    pub(crate) fn held(&self) -> Held {
        Held::row(self.event.id(), self.token)
    }
}

impl Handover {
    /// Offers a row whose commit is proved to the hot lane. Never fails the writer (G8): a row that
    /// does not fit is released, and some poller delivers it. One that is ordered is looked at first: others
    /// of its key may come before it.
    pub(crate) fn offer_hot(&self, row: HotRow) {
        if self.key_of(&row.event).is_some() {
            return self.confirm(vec![row]);
        }
        if let Some(parcel) = self.admit(row) {
            self.offer(parcel);
        }
    }

    /// The same of a row of a key, of which it is known by now what comes before it.
    pub(super) fn offer_in_order(&self, row: HotRow, confirmed: &Confirmed) {
        let Some(key) = self.key_of(&row.event) else { return self.offer_hot(row) };
        let Some(parcel) = self.admit(row) else { return };
        if confirmed.parked {
            return parcel.ticket.leave_to_others();
        }
        let ticket = parcel.ticket.through(&self.keys, key.clone());
        let parcel = Box::new(Parcel { ticket, ..parcel });
        let mut next = self.keys.offer(parcel, &key, &confirmed.below);
        if let Some(Link::Parcel(parcel)) = next.start.take() {
            self.offer(*parcel);
        }
        self.follow(next);
    }

    /// The key of an event, where that is kept in order.
    pub(crate) fn key_of(&self, event: &Event) -> Option<Arc<str>> {
        event.ordering_key().filter(|_| self.store.keeps_order()).map(Arc::from)
    }

    /// An event is over: what is to be written of it goes to the settlement writer, and the next of its key
    /// begins.
    pub(crate) async fn complete(&self, completions: &Completions, completion: Completion) {
        let Some(key) = completion.ticket.key().cloned() else {
            return completions.send(completion).await;
        };
        completion.ticket.run_is_over();
        let mut next = self.keys.over(&key, completion);
        let row = next.row.take();
        self.follow(next);
        if let Some(row) = row {
            completions.send(row).await;
        }
    }

    /// Lets the next event of a key begin, and those go that do not follow.
    pub(crate) fn follow(&self, next: Next) {
        self.begin(next, |parcel| self.lanes.offer_next(parcel));
    }

    /// The first event of a key that was just taken begins, where there is room for it: it may be the one by which
    /// is tried whether a target is back.
    pub(crate) fn begin_key(&self, next: Next) {
        self.begin(next, |parcel| self.lanes.offer(parcel));
    }

    fn begin(&self, mut next: Next, offer: impl Fn(Parcel) -> Result<(), Parcel>) {
        loop {
            drop(std::mem::take(&mut next.dropped));
            match next.start.take() {
                None => return,
                Some(Link::Parcel(parcel)) => {
                    if let Err(parcel) = offer(*parcel) {
                        // Not at once again, by whoever looks next.
                        if let Some(key) = parcel.ticket.key() {
                            self.keys.put_off(key);
                        }
                        parcel.ticket.leave_to_others();
                    }
                    return;
                }
                Some(Link::End(completion)) => {
                    let Some(key) = completion.ticket.key().cloned() else { return };
                    next = self.keys.over(&key, *completion);
                }
            }
        }
    }

    fn admit(&self, row: HotRow) -> Option<Parcel> {
        let held = row.held();
        let Admission::Ticket(ticket) = self.holds.admit(held, row.until, Lane::Hot) else {
            return None;
        };
        let delivery = Delivery {
            event: row.event,
            created_at: row.created_at,
            attempt: 1,
            origin: Origin::Row(Lane::Hot),
        };
        let (attempt, route) = (Attempt::next(0), self.handlers.now().route_of(&delivery.event));
        Some(Parcel { delivery, attempt, ticket, route, waited: None, epoch: row.epoch })
    }

    fn offer(&self, parcel: Parcel) {
        let (route, held) = (parcel.route, parcel.ticket.held());
        match self.lanes.offer(parcel) {
            Ok(()) => self.observer.tell(|metrics| metrics.hot_enqueued()),
            // The lane is not full: what waits for a target or is paused waits in the table.
            Err(parcel) if self.lanes.waits_in_table(&parcel) => parcel.ticket.leave_to_others(),
            Err(parcel) => {
                held.into_iter().for_each(|held| self.count_hot_drop(held));
                // Dropped with its parcel, a ticket releases the hold and has the poller look for the row;
                // in vain, where that has no room for it either.
                if !self.lanes.takes_cold(route) {
                    parcel.ticket.leave_to_others();
                }
            }
        }
    }

    /// Queues rows of a transaction that somebody else committed for the proof that they did.
    pub(crate) fn confirm(&self, rows: Vec<HotRow>) {
        for row in rows {
            let held = row.held();
            if self.confirmer.submit(Doubtful::Row(row)).is_err() {
                self.holds.release(held);
                self.count_hot_drop(held);
            }
        }
    }

    /// The next events to run, or `None` once the lanes are closed and empty. What came in before a
    /// link was lost is confirmed once more first: a commit that the server which answers now never
    /// got must not be delivered. Cancel-safe.
    pub(crate) async fn next(&self) -> Option<Drawn<'_>> {
        loop {
            let Drawn { first, mut rest, run } = self.lanes.take().await?;
            let epoch = self.store.epoch();
            for doubtful in rest.extract_if(.., |parcel| parcel.epoch != epoch) {
                self.confirm_again(doubtful);
            }
            if first.epoch == epoch {
                return Some(Drawn { first, rest, run });
            }
            self.confirm_again(first);
            if !rest.is_empty() {
                return Some(Drawn { first: rest.remove(0), rest, run });
            }
        }
    }

    fn confirm_again(&self, parcel: Parcel) {
        if parcel.ticket.goes_by_key() {
            // Read again, after its key was taken again.
            return parcel.ticket.leave_to_others();
        }
        // One that does not fit is dropped, and its ticket releases it.
        let _ = self.confirmer.submit(Doubtful::Parcel(parcel));
    }

    /// Puts a parcel back into its lane that was confirmed once more.
    pub(super) fn offer_again(&self, parcel: Parcel) {
        let (held, lane) = (parcel.ticket.held(), parcel.delivery.lane());
        match (self.lanes.offer(parcel), held, lane) {
            (Err(parcel), ..) if self.lanes.waits_in_table(&parcel) => {
                parcel.ticket.leave_to_others();
            }
            (Err(_), Some(held), Some(Lane::Hot)) => self.count_hot_drop(held),
            _ => {}
        }
    }

    /// Whether an event that is written now waits in the table from the beginning: it is paused, or others
    /// handle it.
    pub(crate) fn is_for_the_table(&self, event: &Event) -> bool {
        let is_others = || {
            self.handlers.now().route_of(event) == Route::NOBODY
                && self.unknown.is_elsewhere(EventKind::of(event))
        };
        self.is_paused(event) || is_others()
    }

    fn is_paused(&self, event: &Event) -> bool {
        // Nearly always no, and then this is all.
        self.pauses.any() && {
            let paused = self.pauses.now();
            let handlers = self.handlers.now();
            let route = handlers.route_of(event);
            paused.has_type(event.event_type()) || handlers.is_paused(route, &paused)
        }
    }

    fn count_hot_drop(&self, held: Held) {
        if self.lanes.is_closed() {
            return;
        }
        self.observer.tell(|metrics| metrics.hot_dropped());
        if let Some(count) = self.drops.count() {
            warn!(event.id = %held.id, count, "hot lane full: left to the poller");
        }
    }
}

/// Counts what is dropped, and says now and then how much it was: under overload a line for every
/// event would be the next overload.
#[derive(Debug, Default)]
pub(crate) struct Drops(Mutex<(Option<Instant>, u64)>);

const EVERY: Duration = Duration::from_secs(1);

impl Drops {
    /// One more. Answers how many there were since the last answer, at most once a second.
    fn count(&self) -> Option<u64> {
        let mut drops = lock(&self.0);
        drops.1 += 1;
        if drops.0.is_some_and(|last| last.elapsed() < EVERY) {
            return None;
        }
        drops.0 = Some(Instant::now());
        Some(std::mem::take(&mut drops.1))
    }
}
