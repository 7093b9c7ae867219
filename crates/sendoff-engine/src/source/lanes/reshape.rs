//! Handlers that come and go while the lanes are at work.

use sendoff_core::Lane;

use super::waiting::{Fill, HandlerQueue};
use super::{Demand, Lanes};
use crate::lock::lock;

impl Lanes {
    /// From now on there are these handlers, in the order of their routes; none in the place of one that was
    /// removed. What waits for such a one, or for nobody, is released; runs go on to their end.
    pub(crate) fn reshape(&self, demands: &[Option<Demand>]) {
        let there = demands.iter().flatten().count();
        let share = self.all.share(there);
        let mut queues = lock(&self.queues);
        for (at, demand) in demands.iter().enumerate() {
            let share = demand.map_or(share, |demand| share.of(demand, self.all.workers, there));
            match queues.handlers.get_mut(at + 1) {
                Some(known) => known.reshape(share, *demand, self.circuit),
                None => queues.handlers.push(HandlerQueue::new(share, *demand, self.circuit)),
            }
        }
        if let Some(nobody) = queues.handlers.first_mut() {
            nobody.reshape_nobody(share);
        }
        let mut out = Vec::new();
        for (number, handler) in queues.handlers.iter_mut().enumerate() {
            if number == 0 || handler.is_gone() {
                handler.take_all(&mut out);
            }
        }
        let has = |lane| {
            let queue = move |handler: &HandlerQueue| {
                let queue = handler.queue(lane);
                (queue.part, queue.has())
            };
            queues.handlers.iter().map(queue)
        };
        let hot = Fill::of(self.all.hot, has(Lane::Hot));
        let cold = Fill::of(self.all.cold, has(Lane::Cold));
        (queues.hot, queues.cold) = (hot, cold);
        let out = self.taken_out(queues, out);
        out.into_iter().for_each(|parcel| parcel.ticket.leave_to_others());
    }
}
