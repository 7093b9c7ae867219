//! What to claim: as much as there is room for, whosever it is.

use sendoff_core::Lane;

use super::Queues;
use super::waiting::HandlerQueue;
use crate::appetite::Portion;
use crate::dispatch::Route;

/// Which handlers a claim is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speed {
    /// Those that begin their events in time; the others where none of these has room.
    Usual,
    /// Those whose events waited too long lately, and which take few at once: by themselves, or claims
    /// for all would be as small.
    Slow,
}

/// What to claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// No more than fits, whoever handles it: nothing is claimed in vain, and claimed again.
    pub(crate) portion: Portion,
    /// Nothing for these handlers.
    pub(crate) except: Vec<Route>,
}

impl Queues {
    /// The handlers. What nobody handles is over at once and asks for nothing, unless there is nothing
    /// else.
    fn asking(&self) -> impl Iterator<Item = (Route, &HandlerQueue)> {
        let nobody = usize::from(self.handlers.iter().skip(1).any(|handler| !handler.is_gone()));
        let routes = |(number, handler)| (Route::of_number(number), handler);
        let there = |(_, handler): &(usize, &HandlerQueue)| !handler.is_gone();
        self.handlers.iter().enumerate().skip(nobody).filter(there).map(routes)
    }

    pub(super) fn wanted(&self, portion: Portion, speed: Speed) -> Option<Wanted> {
        let wants = |handler: &HandlerQueue| self.wants(handler, portion).is_some();
        let is_usual = |handler: &HandlerQueue| !handler.is_slow();
        let slow = match speed {
            Speed::Slow => true,
            Speed::Usual => !self.asking().any(|(_, handler)| is_usual(handler) && wants(handler)),
        };
        let nobody = self.handlers.first().map(|nobody| self.room(nobody, Lane::Cold))?;
        let mut wanted = Wanted { portion: least(portion, nobody), except: Vec::new() };
        let mut any = false;
        for (route, handler) in self.asking() {
            match self.wants(handler, portion).filter(|_| is_usual(handler) != slow) {
                Some(room) => {
                    any = true;
                    wanted.portion = least(wanted.portion, room);
                }
                None => wanted.except.push(route),
            }
        }
        (any && wanted.portion.rows > 0 && wanted.portion.bytes > 0).then_some(wanted)
    }

    /// Whether a claim would be made for a handler for which none was: of one portion, or of the other if
    /// it is slow.
    pub(super) fn wants_again(&self, route: Route, usual: Portion, slow: Portion) -> bool {
        let handler = &self.handlers[route.number()];
        let portion = if handler.is_slow() { slow } else { usual };
        self.wants(handler, portion).is_some()
    }

    /// Whether a handler takes events that were claimed.
    pub(super) fn takes_cold(&self, route: Route) -> bool {
        let room = self.room(&self.handlers[route.number()], Lane::Cold);
        room.rows > 0 && room.bytes > 0
    }

    /// How much a handler can take, if that is worth a claim: not for each place that becomes free.
    fn wants(&self, handler: &HandlerQueue, portion: Portion) -> Option<Portion> {
        let (room, part) = (self.room(handler, Lane::Cold), handler.queue(Lane::Cold).part);
        // Where a part of the lane is its own, half of that, so that it need not run empty before.
        let (rows, bytes) = match part.own.count {
            0 => (portion.rows, portion.bytes.min(part.most.bytes)),
            own => {
                (portion.rows.min(own).div_ceil(2), portion.bytes.min(part.own.bytes).div_ceil(2))
            }
        };
        let rows = match part.own.count {
            // Its own is all that it can count on while others fill the rest of the lane.
            own if handler.is_slow() && own > 0 => portion.rows.min(own),
            _ if handler.is_slow() => portion.rows,
            _ => rows,
        };
        let enough = Portion { rows: rows.clamp(1, handler.cold_limit()), bytes: bytes.max(1) };
        room.covers(enough).then_some(room)
    }
}

fn least(one: Portion, other: Portion) -> Portion {
    Portion { rows: one.rows.min(other.rows), bytes: one.bytes.min(other.bytes) }
}
