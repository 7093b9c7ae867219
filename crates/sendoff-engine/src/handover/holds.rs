use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Mutex;
use std::time::Duration;

use sendoff_core::{EventId, Lane, limits};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::lock::lock;
use crate::store::Held;

/// What this node holds: every event from the moment it enters a lane until its settlement is
/// written, with the token to settle it by and the local time until which the hold is certain.
///
/// It is also the tracker of what is in flight: an event that is here already is not taken in a
/// second time, so it never runs twice at once.
#[derive(Debug)]
pub(crate) struct Holds {
    table: Mutex<Table>,
    /// Holds are extended when they end within this time, so one with less left is not taken in: it
    /// might run out before anybody has looked.
    horizon: Duration,
    /// After this long an entry counts as stuck: no longer extended, and taken in anew.
    ttl: Option<Duration>,
    /// Some entry or give-up came or went.
    changed: Notify,
}

#[derive(Debug, Default)]
struct Table {
    rows: BTreeMap<EventId, Hold>,
    /// Rows of the cold lane among them.
    cold: usize,
    runs: u64,
    /// Held by us and wanted by nobody here: to be made visible again.
    unwanted: Vec<Held>,
}

#[derive(Debug)]
struct Hold {
    run: Run,
    lane: Lane,
    /// None once the database said somebody else has the row, while our run goes on.
    held: Option<Held>,
    /// Counted from the *sending* of the statement that made the hold, so that a node that was
    /// stopped in between delivers nothing it has lost.
    until: Instant,
    since: Instant,
}

/// The answer to somebody who brings an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is taken in.
    Run(Run),
    /// It is here already; the newer hold serves the run that is under way.
    InFlight,
    /// Too little is left of its hold, which is given up.
    TooLate,
}

/// Tells two stays of one event apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run(u64);

/// What give-ups may pile up to; beyond it the holds run out by themselves.
const UNWANTED: usize = 10 * limits::BATCH_ROWS;

impl Holds {
    pub(crate) fn new(horizon: Duration, ttl: Option<Duration>) -> Self {
        Self { table: Mutex::default(), horizon, ttl, changed: Notify::new() }
    }

    /// Takes an event in, unless it is here already or comes too late.
    pub(crate) fn admit(&self, held: Held, until: Instant, lane: Lane) -> Admission {
        let now = Instant::now();
        if until < now + self.horizon {
            self.give_up(held);
            return Admission::TooLate;
        }
        let mut table = lock(&self.table);
        table.runs += 1;
        let run = Run(table.runs);
        let hold = Hold { run, lane, held: Some(held), until, since: now };
        match table.rows.entry(held.id) {
            Entry::Vacant(vacant) => {
                vacant.insert(hold);
            }
            Entry::Occupied(mut here) if self.is_stuck(here.get(), now) => {
                let was = here.insert(hold);
                table.cold -= usize::from(was.lane == Lane::Cold);
            }
            Entry::Occupied(mut here) => {
                let here = here.get_mut();
                (here.held, here.until) = (Some(held), until);
                return Admission::InFlight;
            }
        }
        table.cold += usize::from(lane == Lane::Cold);
        Admission::Run(run)
    }

    /// Whether the run may start: the row is certainly ours now (I1). If not, it is forgotten.
    pub(crate) fn may_start(&self, id: EventId, run: Run) -> bool {
        let now = Instant::now();
        let certain = lock(&self.table)
            .rows
            .get(&id)
            .is_some_and(|hold| hold.run == run && hold.held.is_some() && now < hold.until);
        if !certain {
            self.forget(id, run);
        }
        certain
    }

    /// What to settle the run by; `None` if its hold was lost.
    pub(crate) fn held(&self, id: EventId, run: Run) -> Option<Held> {
        lock(&self.table).rows.get(&id).filter(|hold| hold.run == run).and_then(|hold| hold.held)
    }

    /// The run is over and settled.
    pub(crate) fn forget(&self, id: EventId, run: Run) {
        let mut table = lock(&self.table);
        if table.rows.get(&id).is_some_and(|hold| hold.run == run) {
            let was = table.rows.remove(&id);
            table.cold -= usize::from(was.is_some_and(|hold| hold.lane == Lane::Cold));
            drop(table);
            self.changed.notify_waiters();
        }
    }

    /// The holds that end soon and should be extended.
    pub(crate) fn ending(&self) -> Vec<Held> {
        let now = Instant::now();
        let table = lock(&self.table);
        let ending = |hold: &&Hold| hold.until < now + self.horizon && !self.is_stuck(hold, now);
        table.rows.values().filter(ending).filter_map(|hold| hold.held).collect()
    }

    /// The database's answer to an extension of `asked`.
    pub(crate) fn extended(&self, asked: &[Held], extended: &[Held], until: Instant) {
        let mut table = lock(&self.table);
        let answers: BTreeMap<_, _> = extended.iter().map(|held| (held.id, held)).collect();
        for asked in asked {
            let Some(hold) = table.rows.get_mut(&asked.id) else { continue };
            // A claim since then may have given a newer hold; the answer is not about that one.
            if hold.held != Some(*asked) {
                continue;
            }
            match answers.get(&asked.id) {
                Some(&&held) => (hold.held, hold.until) = (Some(held), until),
                None => hold.held = None,
            }
        }
    }

    /// Held by us, and no lane takes it.
    pub(crate) fn give_up(&self, held: Held) {
        let mut table = lock(&self.table);
        if table.unwanted.len() < UNWANTED {
            table.unwanted.push(held);
            drop(table);
            self.changed.notify_waiters();
        }
    }

    /// What was given up since the last call.
    pub(crate) fn take_unwanted(&self) -> Vec<Held> {
        std::mem::take(&mut lock(&self.table).unwanted)
    }

    /// Everything still here, at the end: given up or in a run that was cut off.
    pub(crate) fn take_all(&self) -> Vec<Held> {
        let mut table = std::mem::take(&mut *lock(&self.table));
        table.unwanted.extend(table.rows.into_values().filter_map(|hold| hold.held));
        table.unwanted
    }

    /// Waits until something was given up.
    pub(crate) async fn unwanted(&self) {
        self.wait_until(|table| !table.unwanted.is_empty()).await;
    }

    /// Waits until at most so many events of the cold lane are held.
    pub(crate) async fn cold_falls_to(&self, count: usize) {
        self.wait_until(|table| table.cold <= count).await;
    }

    async fn wait_until(&self, done: impl Fn(&Table) -> bool) {
        loop {
            let changed = self.changed.notified();
            if done(&lock(&self.table)) {
                return;
            }
            changed.await;
        }
    }

    fn is_stuck(&self, hold: &Hold, now: Instant) -> bool {
        self.ttl.is_some_and(|ttl| now.duration_since(hold.since) >= ttl)
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
    fn holds(ttl: Option<Duration>) -> Holds {
        Holds::new(2 * SECOND, ttl)
    }

    fn admit(holds: &Holds, token: i64, lasts: Duration) -> Run {
        match holds.admit(held(token), Instant::now() + lasts, Lane::Cold) {
            Admission::Run(run) => run,
            refused => panic!("{refused:?}"),
        }
    }

    /// Holds D3.
    #[tokio::test(start_paused = true)]
    async fn an_event_in_flight_is_not_taken_in_twice_but_its_run_gets_the_newer_hold() {
        let holds = holds(None);
        let end = Instant::now() + 9 * SECOND;
        let run = admit(&holds, 1, 9 * SECOND);
        assert_eq!(holds.admit(held(2), end, Lane::Cold), Admission::InFlight);
        assert_eq!(holds.held(id(), run), Some(held(2)));
        holds.forget(id(), run);
        assert!(matches!(holds.admit(held(3), end, Lane::Hot), Admission::Run(_)));
    }

    /// Holds D3.
    #[tokio::test(start_paused = true)]
    async fn with_a_ttl_a_stuck_run_is_replaced_and_cannot_settle_any_more() {
        let holds = holds(Some(5 * SECOND));
        let stuck = admit(&holds, 1, 6 * SECOND);
        tokio::time::advance(5 * SECOND).await;
        assert!(holds.ending().is_empty(), "a stuck run is not extended");
        let fresh = admit(&holds, 2, 9 * SECOND);
        assert_eq!((holds.held(id(), stuck), holds.held(id(), fresh)), (None, Some(held(2))));
        holds.forget(id(), stuck);
        assert!(holds.held(id(), fresh).is_some(), "the stuck run must not end the fresh one");
    }

    #[tokio::test(start_paused = true)]
    async fn a_run_may_not_start_once_its_hold_ran_out() {
        let holds = holds(None);
        let run = admit(&holds, 1, 3 * SECOND);
        assert!(holds.may_start(id(), run));
        tokio::time::advance(3 * SECOND).await;
        assert!(!holds.may_start(id(), run));
        assert_eq!(holds.held(id(), run), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_hold_that_might_run_out_before_it_is_extended_is_given_up() {
        let holds = holds(None);
        let soon = Instant::now() + 2 * SECOND - Duration::from_micros(1);
        assert_eq!(holds.admit(held(1), soon, Lane::Hot), Admission::TooLate);
        assert_eq!(holds.take_unwanted(), [held(1)]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_extension_that_was_refused_takes_the_hold_away_but_not_the_run() {
        let holds = holds(None);
        let run = admit(&holds, 1, 3 * SECOND);
        tokio::time::advance(2 * SECOND).await;
        let asked = holds.ending();
        assert_eq!(asked, [held(1)]);
        holds.extended(&asked, &[], Instant::now() + 9 * SECOND);
        assert_eq!(holds.held(id(), run), None);
        let end = Instant::now() + 9 * SECOND;
        assert_eq!(holds.admit(held(5), end, Lane::Cold), Admission::InFlight);
        holds.extended(&asked, &[], Instant::now());
        assert_eq!(holds.held(id(), run), Some(held(5)), "a late answer about an old hold");
    }

    #[tokio::test(start_paused = true)]
    async fn the_cold_lane_is_empty_once_its_last_run_is_settled() {
        let holds = holds(None);
        let run = admit(&holds, 1, 9 * SECOND);
        let settle = async { holds.forget(id(), run) };
        tokio::join!(biased; holds.cold_falls_to(0), settle);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_given_up_is_bounded_and_taken_once() {
        let holds = holds(None);
        for token in 0..(UNWANTED as i64 + 5) {
            holds.give_up(held(token));
        }
        holds.unwanted().await;
        assert_eq!(holds.take_unwanted().len(), UNWANTED);
        assert!(holds.take_all().is_empty());
    }
}
