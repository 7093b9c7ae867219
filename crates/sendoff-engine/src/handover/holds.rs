use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::{EventId, Lane, limits};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::{Deadline, Ticket};
use crate::lock::lock;
use crate::store::Held;

/// What this node holds: every event from the moment it enters a lane until its settlement is
/// written, with the token to settle it by and the time until which the hold is certain.
///
/// It is also the tracker of what is in flight: an event that is here already is not taken in a
/// second time, so it never runs twice at once.
#[derive(Debug)]
pub(crate) struct Holds {
    table: Mutex<Table>,
    /// A hold with less left than this is not taken in: it might run out before anybody has looked.
    /// As long as a statement may take; see [`ending`](Self::ending).
    horizon: Duration,
    /// After this long in work a run counts as stuck: no longer extended, so that others may have the
    /// row. It is not taken in here again while the run goes on, or one event could have every worker.
    ttl: Option<Duration>,
    /// Some entry or give-up came or went.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Table {
    rows: BTreeMap<EventId, Hold>,
    runs: u64,
    /// Held by us and wanted by nobody here: to be made visible again.
    unwanted: VecDeque<Held>,
    /// Give-ups that found no room there.
    overflow: u64,
    /// Whether one of them could be delivered here, so that it is worth a look once it is visible.
    ring: bool,
}

#[derive(Debug)]
struct Hold {
    run: Run,
    lane: Lane,
    /// None once the database said somebody else has the row, while our run goes on.
    held: Option<Held>,
    until: Deadline,
    admitted: Instant,
    /// None while it waits in its lane.
    started: Option<Instant>,
}

/// The answer to somebody who brings an event.
#[derive(Debug)]
pub(crate) enum Admission {
    /// It is taken in.
    Ticket(Ticket),
    /// It is here already; the newer hold serves the run that is under way.
    InFlight,
    /// Too little is left of its hold, which is given up.
    TooLate,
    /// A run of it is stuck here: its hold is given up, for others.
    Stuck,
}

/// Tells two stays of one event apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run(u64);

/// What give-ups may pile up to; beyond it the holds run out by themselves.
const UNWANTED: usize = 50 * limits::BATCH_ROWS;

impl Table {
    fn give_up(&mut self, held: Held) {
        if self.unwanted.len() < UNWANTED {
            self.unwanted.push_back(held);
        } else {
            self.overflow += 1;
        }
    }
}

impl Holds {
    pub(crate) fn new(horizon: Duration, ttl: Option<Duration>) -> Self {
        Self { table: Mutex::default(), horizon, ttl, changed: Notify::new() }
    }

    /// Takes an event in, unless it is here already or comes too late.
    pub(crate) fn admit(self: &Arc<Self>, held: Held, until: Deadline, lane: Lane) -> Admission {
        if until.is_within(self.horizon) {
            self.give_up(held);
            return Admission::TooLate;
        }
        let now = Instant::now();
        let mut table = lock(&self.table);
        table.runs += 1;
        let run = Run(table.runs);
        let hold = Hold { run, lane, held: Some(held), until, admitted: now, started: None };
        match table.rows.entry(held.id) {
            Entry::Vacant(vacant) => {
                vacant.insert(hold);
            }
            Entry::Occupied(here) if self.is_stuck(here.get(), now) => {
                // Nobody here is told to look for it: this node would find it again and again.
                table.give_up(held);
                drop(table);
                self.changed.notify_waiters();
                return Admission::Stuck;
            }
            Entry::Occupied(mut here) => {
                let here = here.get_mut();
                (here.held, here.until) = (Some(held), until);
                return Admission::InFlight;
            }
        }
        Admission::Ticket(Ticket::new(self.clone(), held.id, run))
    }

    /// Starts a run, if the row is certainly ours now.
    pub(super) fn start(&self, id: EventId, run: Run) -> bool {
        let mut table = lock(&self.table);
        let Some(hold) = table.rows.get_mut(&id).filter(|hold| hold.run == run) else {
            return false;
        };
        if hold.held.is_none() || hold.until.is_past() {
            return false;
        }
        hold.started = Some(Instant::now());
        true
    }

    pub(super) fn held(&self, id: EventId, run: Run) -> Option<Held> {
        lock(&self.table).rows.get(&id).filter(|hold| hold.run == run).and_then(|hold| hold.held)
    }

    /// Ends a stay, and returns what was still held.
    pub(super) fn forget(&self, id: EventId, run: Run) -> Option<Held> {
        let mut table = lock(&self.table);
        if table.rows.get(&id).is_none_or(|hold| hold.run != run) {
            return None;
        }
        let was = table.rows.remove(&id);
        drop(table);
        self.changed.notify_waiters();
        was.and_then(|hold| hold.held)
    }

    /// The holds that end soon and should be extended: early enough for one statement that is lost,
    /// and another one.
    pub(crate) fn ending(&self) -> Vec<Held> {
        let now = Instant::now();
        let early = self.horizon * 3 / 2;
        let table = lock(&self.table);
        let ending = |hold: &&Hold| hold.until.is_within(early) && !self.is_stuck(hold, now);
        table.rows.values().filter(ending).filter_map(|hold| hold.held).collect()
    }

    /// The database's answer to an extension of `asked`.
    pub(crate) fn extended(&self, asked: &[Held], extended: &[Held], until: Deadline) {
        let answers: BTreeMap<_, _> = extended.iter().map(|held| (held.id, *held)).collect();
        for asked in asked {
            let answer = answers.get(&asked.id).copied();
            let mut table = lock(&self.table);
            // A claim since then may have given a newer hold; the answer is not about that one.
            match table.rows.get_mut(&asked.id).filter(|hold| hold.held == Some(*asked)) {
                Some(hold) if answer.is_some() => (hold.held, hold.until) = (answer, until),
                Some(hold) => hold.held = None,
                None => {
                    drop(table);
                    answer.into_iter().for_each(|held| self.give_up(held));
                }
            }
        }
    }

    /// Held by us, and no lane takes it.
    pub(crate) fn give_up(&self, held: Held) {
        let mut table = lock(&self.table);
        table.ring = true;
        table.give_up(held);
        drop(table);
        self.changed.notify_waiters();
    }

    /// Whether something was given up lately that could be delivered here as well.
    pub(crate) fn rings(&self) -> bool {
        let mut table = lock(&self.table);
        let rings = table.ring;
        table.ring &= !table.unwanted.is_empty();
        rings
    }

    /// What was given up, the oldest first and at most `limit` of it.
    pub(crate) fn take_unwanted(&self, limit: usize) -> Vec<Held> {
        let unwanted = &mut lock(&self.table).unwanted;
        let count = unwanted.len().min(limit);
        unwanted.drain(..count).collect()
    }

    /// Whether nothing is held.
    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.table).rows.is_empty()
    }

    /// Whether something was given up.
    pub(crate) fn has_unwanted(&self) -> bool {
        !lock(&self.table).unwanted.is_empty()
    }

    /// How many were given up since the last call for which there was no room.
    pub(crate) fn take_overflow(&self) -> u64 {
        std::mem::take(&mut lock(&self.table).overflow)
    }

    /// Everything still here, at the end: given up or in a run that was cut off.
    pub(crate) fn take_all(&self) -> Vec<Held> {
        let mut table = std::mem::take(&mut *lock(&self.table));
        table.unwanted.extend(table.rows.into_values().filter_map(|hold| hold.held));
        table.unwanted.into()
    }

    /// How long the oldest event here has been here.
    pub(crate) fn oldest(&self) -> Duration {
        let table = lock(&self.table);
        let oldest = table.rows.values().map(|hold| hold.admitted).min();
        oldest.map(|admitted| admitted.elapsed()).unwrap_or_default()
    }

    /// Waits until something was given up.
    pub(crate) async fn unwanted(&self) {
        loop {
            let changed = self.changed.notified();
            if self.has_unwanted() {
                return;
            }
            changed.await;
        }
    }

    /// Waits, for at most `patience`, until no event of the cold lane is held but `id`, save those
    /// that have been in work for `patience`: one that hangs must not keep the others
    /// waiting for ever. Answers whether it came to that.
    pub(crate) async fn alone(&self, id: EventId, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        loop {
            let changed = self.changed.notified();
            let company = |(&other, hold): (&EventId, &Hold)| {
                let hangs = hold.started.is_some_and(|started| started.elapsed() >= patience);
                other != id && hold.lane == Lane::Cold && !hangs
            };
            if !lock(&self.table).rows.iter().any(company) {
                return true;
            }
            if Instant::now() >= deadline {
                return false;
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = sleep_until(deadline) => {}
            }
        }
    }

    /// Waits, for at most `patience`, until an event is no longer held.
    pub(crate) async fn gone(&self, id: EventId, patience: Duration) {
        let gone = async {
            loop {
                let changed = self.changed.notified();
                if !lock(&self.table).rows.contains_key(&id) {
                    return;
                }
                changed.await;
            }
        };
        let _ = tokio::time::timeout(patience, gone).await;
    }

    fn is_stuck(&self, hold: &Hold, now: Instant) -> bool {
        match (self.ttl, hold.started) {
            (Some(ttl), Some(started)) => now.duration_since(started) >= ttl,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use sendoff_core::{Timestamp, Token};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn held(token: i64) -> Held {
        Held::row(EventId::from_bytes([7; 16]), Token::new(Timestamp::from_micros(token)))
    }

    fn id() -> EventId {
        held(0).id
    }

    /// Holds that are extended in their last two seconds.
    fn holds(ttl: Option<Duration>) -> Arc<Holds> {
        Arc::new(Holds::new(2 * SECOND, ttl))
    }

    fn admit(holds: &Arc<Holds>, token: i64, lasts: Duration) -> Ticket {
        match holds.admit(held(token), Deadline::after(lasts), Lane::Cold) {
            Admission::Ticket(ticket) => ticket,
            refused => panic!("{refused:?}"),
        }
    }

    /// Holds D3.
    #[tokio::test(start_paused = true)]
    async fn an_event_in_flight_is_not_taken_in_twice_but_its_run_gets_the_newer_hold() {
        let holds = holds(None);
        let end = Deadline::after(9 * SECOND);
        let ticket = admit(&holds, 1, 9 * SECOND);
        assert!(matches!(holds.admit(held(2), end, Lane::Cold), Admission::InFlight));
        assert_eq!(ticket.held(), Some(held(2)));
        ticket.settled(held(2));
        assert!(holds.take_unwanted(usize::MAX).is_empty(), "what is settled is not given up");
        assert!(matches!(holds.admit(held(3), end, Lane::Hot), Admission::Ticket(_)));
    }

    /// A settled row can be due, and be claimed again, before the settlement's reply is here.
    #[tokio::test(start_paused = true)]
    async fn a_claim_that_overtakes_the_reply_to_a_settlement_is_given_up() {
        let holds = holds(None);
        let ticket = admit(&holds, 1, 9 * SECOND);
        let claimed = holds.admit(held(2), Deadline::after(9 * SECOND), Lane::Cold);
        assert!(matches!(claimed, Admission::InFlight));
        ticket.settled(held(1));
        assert_eq!(holds.take_unwanted(usize::MAX), [held(2)]);
    }

    /// Holds D3: others may have it, and this node does not lose a second worker to it.
    #[tokio::test(start_paused = true)]
    async fn with_a_ttl_a_stuck_run_is_not_extended_and_its_event_not_taken_in_again() {
        let holds = holds(Some(5 * SECOND));
        let stuck = admit(&holds, 1, 6 * SECOND);
        assert!(stuck.may_start());
        tokio::time::advance(5 * SECOND).await;
        assert!(holds.ending().is_empty(), "a stuck run is not extended");
        let again = holds.admit(held(2), Deadline::after(9 * SECOND), Lane::Cold);
        assert!(matches!(again, Admission::Stuck));
        assert_eq!(holds.take_unwanted(usize::MAX), [held(2)]);
        assert!(!holds.rings(), "it is for others");
        assert_eq!(stuck.held(), Some(held(1)), "and settles by a token that is over");
        drop(stuck);
        assert!(holds.rings());
        admit(&holds, 3, 9 * SECOND);
    }

    /// Holds D3: the wait in a lane is not work.
    #[tokio::test(start_paused = true)]
    async fn what_has_not_started_is_never_stuck() {
        let holds = holds(Some(SECOND));
        let _waits = admit(&holds, 1, 3 * SECOND);
        tokio::time::advance(2 * SECOND).await;
        assert_eq!(holds.ending(), [held(1)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_may_not_start_once_its_hold_ran_out() {
        let holds = holds(None);
        let ticket = admit(&holds, 1, 3 * SECOND);
        assert!(ticket.may_start());
        tokio::time::advance(3 * SECOND).await;
        assert!(!ticket.may_start());
    }

    #[tokio::test(start_paused = true)]
    async fn a_ticket_that_is_dropped_gives_its_hold_up() {
        let holds = holds(None);
        drop(admit(&holds, 1, 9 * SECOND));
        assert_eq!(holds.take_unwanted(usize::MAX), [held(1)]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_hold_that_might_run_out_before_it_is_extended_is_given_up() {
        let holds = holds(None);
        let soon = Deadline::after(2 * SECOND);
        assert!(matches!(holds.admit(held(1), soon, Lane::Hot), Admission::TooLate));
        assert_eq!(holds.take_unwanted(usize::MAX), [held(1)]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_extension_that_was_refused_takes_the_hold_away_but_not_the_run() {
        let holds = holds(None);
        let ticket = admit(&holds, 1, 3 * SECOND);
        tokio::time::advance(2 * SECOND).await;
        let asked = holds.ending();
        assert_eq!(asked, [held(1)]);
        let end = Deadline::after(9 * SECOND);
        holds.extended(&asked, &[], end);
        assert_eq!(ticket.held(), None);
        assert!(matches!(holds.admit(held(5), end, Lane::Cold), Admission::InFlight));
        holds.extended(&asked, &[], end);
        assert_eq!(ticket.held(), Some(held(5)), "a late answer about an old hold");
    }

    #[tokio::test(start_paused = true)]
    async fn an_extension_nobody_waits_for_any_more_is_given_up() {
        let holds = holds(None);
        admit(&holds, 1, 3 * SECOND).settled(held(1));
        holds.extended(&[held(1)], &[held(2)], Deadline::after(9 * SECOND));
        assert_eq!(holds.take_unwanted(usize::MAX), [held(2)]);
    }

    #[tokio::test(start_paused = true)]
    async fn being_alone_waits_for_the_others_but_not_for_one_that_hangs() {
        let holds = holds(None);
        let other = EventId::from_bytes([9; 16]);
        let company = admit(&holds, 1, 90 * SECOND);
        assert!(!holds.alone(other, SECOND).await, "it waits in its lane");
        assert!(holds.alone(id(), SECOND).await, "one is no company to itself");
        assert!(company.may_start());
        tokio::time::advance(2 * SECOND).await;
        assert!(holds.alone(other, SECOND).await, "it has been in work for longer than that");
        let settle = async { company.settled(held(1)) };
        tokio::join!(biased; holds.gone(id(), 9 * SECOND), settle);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_given_up_is_bounded_and_taken_once() {
        let holds = holds(None);
        for token in 0..(UNWANTED as i64 + 5) {
            holds.give_up(held(token));
        }
        holds.unwanted().await;
        assert_eq!(holds.take_unwanted(7).len(), 7);
        assert_eq!(holds.take_unwanted(usize::MAX).len(), UNWANTED - 7);
        assert_eq!((holds.take_overflow(), holds.take_overflow()), (5, 0));
        assert!(holds.take_all().is_empty());
    }
}
