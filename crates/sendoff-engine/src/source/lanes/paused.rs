//! What operators paused: it waits in the table, and not here.

use std::sync::Arc;

use sendoff_core::Paused;
use tokio::time::Instant;

use super::{Lanes, Parcel, Queues};
use crate::dispatch::Route;
use crate::lock::lock;

impl Queues {
    /// Whether an operator paused this event or its handler, or the handler was removed.
    pub(super) fn is_off(&self, parcel: &Parcel) -> bool {
        let handler = &self.handlers[parcel.route.number()];
        handler.is_off || handler.is_gone() || self.off.has_type(parcel.delivery.event_type())
    }

    /// Whether an event waits in the table and not in a lane: it is paused, or its target is unavailable.
    pub(super) fn waits_in_table(&self, parcel: &Parcel) -> bool {
        self.is_off(parcel) || self.handlers[parcel.route.number()].circuit.is_open()
    }
}

impl Lanes {
    /// From now on this is paused, and with it these handlers, and nothing else: what waits of it is released,
    /// and nothing is taken for it. Runs go on to their end.
    pub(crate) fn pause(&self, paused: &Arc<Paused>, routes: &[Route]) -> usize {
        let mut queues = lock(&self.queues);
        queues.off = paused.clone();
        let now = Instant::now();
        for (number, handler) in queues.handlers.iter_mut().enumerate() {
            let is_off = paused.is_all() || routes.contains(&Route::of_number(number));
            if std::mem::replace(&mut handler.is_off, is_off) && !is_off {
                // Whoever resumed it has looked after its target.
                handler.circuit.try_now(now);
            }
        }
        let out = queues.take_out(|handler, out| match handler.is_off {
            true => handler.take_all(out),
            // What nobody handles has no queue for each type.
            false => {
                handler.take_meant(|parcel| paused.has_type(parcel.delivery.event_type()), out)
            }
        });
        let out = self.taken_out(queues, out);
        let count = out.len();
        out.into_iter().for_each(|parcel| parcel.ticket.leave_to_others());
        count
    }

    /// Whether an event waits in the table and not here: it is paused, or its target is unavailable.
    pub(crate) fn waits_in_table(&self, parcel: &Parcel) -> bool {
        lock(&self.queues).waits_in_table(parcel)
    }
}
