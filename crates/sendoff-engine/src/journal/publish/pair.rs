//! A pair on this node: what it has published, what of that is stored, and when it is next.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::Sink;
use sendoff_core::journal::publish::{CursorStatus, PairId, Probes, Run};
use sendoff_core::journal::{Position, Recorded, Topic};
use tokio::time::Instant;
use tracing::{error, info, warn};

use super::complaint::{Complaint, Waits};
use super::options::PairOptions;
use super::store::{Cursor, Move, Moved};
use super::tries::Tries;
use super::work::{Failed, Outlet, Ran};
use crate::sink::{Door, Outage, shielded};

/// Batches that may be published before their cursor is stored. A database that answers slowly must
/// not cost more repetitions than that after a crash.
const UNSTORED: u32 = 8;
/// How long a cursor that passed only what is not for it may be stored late.
const IDLE_STORE: Duration = Duration::from_secs(5);

/// The first pause of a cursor whose row somebody has locked; each further one is twice as long.
const BUSY_PAUSE: Duration = Duration::from_millis(10);
/// The longest, so that the pair soon goes on when the lock is gone.
const LONGEST_BUSY_PAUSE: Duration = Duration::from_secs(1);
/// So many times in a row are long: half a second. A node that stops waits no longer.
const LOCKED_FOR_LONG: u32 = 7;

pub(super) struct Pair {
    pub(super) id: Arc<PairId>,
    pub(super) key: i64,
    pub(super) topic: Arc<Topic>,
    pub(super) sink: Arc<dyn Sink>,
    pub(super) door: Door,
    pub(super) options: PairOptions,
    pub(super) held: Option<Held>,
    pub(super) doing: Doing,
    pub(super) due: Instant,
    /// When it looks for itself; what others' looks bring may make it due earlier.
    pub(super) poll_at: Instant,
    /// Polls in vain, one after the other.
    pub(super) empty: u32,
    pub(super) trouble: Trouble,
    /// How often facts of it have failed.
    pub(super) tries: Arc<Tries>,
    /// What was said of that.
    pub(super) complaint: Complaint,
}

/// What a pair does: one thing at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// It waits until it is due, or until there is something for it.
    Waiting,
    /// It waits after a failure: nothing new makes it go on earlier.
    Resting,
    /// A run, a probe or a retry of it is under way; also one from when it was led before.
    Working,
}

/// Where a run stopped.
pub(super) struct Stop<'a> {
    /// The fact that failed, or the first one that was not published.
    pub(super) position: Position,
    /// None where its row is no fact any more.
    pub(super) fact: Option<&'a Arc<Recorded>>,
    /// Where its batch ended; none where it was published by itself.
    pub(super) batch_end: Option<Position>,
}

/// What is known of a failure that lasts.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Trouble {
    /// How often the fact after the cursor has failed by itself.
    pub(super) attempts: u32,
    /// Since when nothing was published, and how long the target is left alone for it.
    pub(super) outage: Option<Outage>,
    /// Since when nothing was published although the target did not say that it is unavailable.
    pub(super) since: Option<Instant>,
    /// How often later facts were tried meanwhile, and up to which.
    pub(super) probes: Probes,
    pub(super) probed_up_to: Position,
    /// Facts up to here are published one by one, to find the one that fails.
    pub(super) alone_up_to: Position,
    /// How many were parked since something was published.
    pub(super) parked_in_a_row: u32,
}

impl Trouble {
    /// For how long nothing was published.
    pub(super) fn lasted(&self, now: Instant) -> Duration {
        self.outage.map_or(Duration::ZERO, |outage| outage.lasted(now))
    }

    /// Something was published: only which facts are to be published alone is still worth knowing.
    pub(super) fn is_over(&mut self) {
        *self = Self { alone_up_to: self.alone_up_to, ..Self::default() };
    }
}

/// A pair that this node leads.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) epoch: i64,
    pub(super) taken: Instant,
    /// What is stored, as far as anybody here knows.
    pub(super) stored: Position,
    /// Everything up to here was published, parked, or is not for it.
    pub(super) at: Position,
    pub(super) status: CursorStatus,
    /// Failures since something was published.
    pub(super) errors: u32,
    /// Which fact it waits at, if the last run failed.
    pub(super) waits_at: Option<Position>,
    pub(super) next: Next,
    pub(super) sent: Sent,
    /// Batches that are not stored.
    pub(super) unstored: u32,
    pub(super) wrote: Instant,
    /// How often in a row its row was locked by somebody when it was to be stored.
    locked: u32,
    /// When it may be stored again after that.
    pub(super) store_not_before: Instant,
    /// It is to be given up as soon as nothing is under way. Not a matter of what is sent: a pair that is
    /// being given up may be wanted back before the answer is there.
    pub(super) leaving: bool,
    /// A run that is over, and of which only the cursor tells what became. Until it does, `stored` and `at` are
    /// where it would be if the last of the transactions in question had committed.
    pub(super) unproved: Option<Unproved>,
}

/// A run that settled facts in transactions of its own.
#[derive(Debug)]
pub(super) struct Unproved {
    facts: Vec<Arc<Recorded>>,
    up_to: Position,
    ran: Ran,
    /// Where the cursor was before.
    stored: Position,
    /// Whether a transaction did not commit.
    rolled_back: bool,
}

impl Unproved {
    /// Where the cursor is if the last transaction committed of those that are left.
    fn candidate(&self) -> Option<Position> {
        let settled = self.ran.settled.last()?;
        Some(self.facts.get(settled.checked_sub(1)?)?.position)
    }
}

/// What came of a run, once that is known.
#[derive(Debug)]
pub(super) struct Proved {
    pub(super) facts: Vec<Arc<Recorded>>,
    pub(super) up_to: Position,
    pub(super) ran: Ran,
}

/// What has to happen between a pair and its row.
#[derive(Debug, Default)]
pub(super) enum Next {
    /// Nothing.
    #[default]
    Nothing,
    /// This is to be stored.
    Store(Move),
    /// It is to be read again. What is known of it cannot be relied on: nothing begins until then, and
    /// what was under way does not count.
    Read,
}

/// The statement about a pair's row that is under way: one at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    Nothing,
    /// Its cursor is being stored.
    Move,
    /// It is being given up.
    Give,
}

impl Next {
    /// What is to be stored, once.
    fn take_move(&mut self) -> Option<Move> {
        match std::mem::take(self) {
            Self::Store(next) => Some(next),
            other => {
                *self = other;
                None
            }
        }
    }
}

impl Held {
    pub(super) fn new(cursor: &Cursor, now: Instant) -> Self {
        Self {
            epoch: cursor.epoch,
            taken: now,
            stored: cursor.position,
            at: cursor.position,
            status: cursor.status,
            errors: cursor.errors,
            waits_at: cursor.waits_at.map(|at| at.position),
            next: Next::Nothing,
            sent: Sent::Nothing,
            unstored: 0,
            wrote: now,
            locked: 0,
            store_not_before: now,
            leaving: false,
            unproved: None,
        }
    }

    /// From now on nothing that is known of it counts. A database that lost its last commits gives their
    /// positions again, so not even what is to be stored may be stored.
    pub(super) fn doubt(&mut self) {
        self.next = Next::Read;
        self.unstored = 0;
        self.unproved = None;
    }

    /// Whether what is known of it cannot be relied on.
    pub(super) fn is_stale(&self) -> bool {
        matches!(self.next, Next::Read)
    }

    /// Somebody has locked its row: it is stored later, and nobody else waits for that.
    fn pause(&mut self, now: Instant) {
        let factor = 1_u32.checked_shl(self.locked).unwrap_or(u32::MAX);
        self.store_not_before = now + BUSY_PAUSE.saturating_mul(factor).min(LONGEST_BUSY_PAUSE);
        self.locked = self.locked.saturating_add(1);
    }

    /// Whether its row is locked for so long that a node which stops leaves it as it is: who takes it
    /// publishes again what is not stored.
    pub(super) fn is_locked_for_long(&self) -> bool {
        self.locked >= LOCKED_FOR_LONG
    }

    /// Whether nothing of it is on its way to the table.
    pub(super) fn is_stored(&self) -> bool {
        self.sent != Sent::Move && !matches!(self.next, Next::Store(_))
    }
}

impl Pair {
    /// What publishing needs of it.
    pub(super) fn outlet(&self) -> Outlet {
        let (sink, tries) = (Arc::clone(&self.sink), Arc::clone(&self.tries));
        Outlet { sink, door: self.door.clone(), tries, options: self.options.clone() }
    }

    /// Whether a run of it may begin.
    pub(super) fn is_ready(&self, now: Instant) -> bool {
        self.doing != Doing::Working && self.due <= now && self.workable() && self.may_settle()
    }

    /// Whether its publisher could move the cursor itself, if it is one that does: only from where it is stored.
    fn may_settle(&self) -> bool {
        !self.options.settles_in || self.held.as_ref().is_some_and(Held::is_stored)
    }

    /// How many facts its next run has. Who settles facts itself is called once in a run, so that all that
    /// were delivered before are settled.
    pub(super) fn run_of(&self, after: Position) -> usize {
        let most = if after < self.trouble.alone_up_to { 1 } else { self.options.run_of() };
        if !self.options.settles_in {
            return most;
        }
        most.min(shielded(|| self.sink.batch_size()).map_or(1, |size| size.max(1)))
    }

    /// Whether it is this node's to work, and active.
    pub(super) fn workable(&self) -> bool {
        self.held.as_ref().is_some_and(|held| {
            held.status == CursorStatus::Active
                && !held.is_stale()
                && !held.leaving
                && held.sent != Sent::Give
                && held.unstored < UNSTORED
        })
    }

    /// Forgets what it knew of failures: the past is another leader's, or an operator's wish.
    pub(super) fn begin_afresh(&mut self, now: Instant) {
        (self.due, self.poll_at) = (now, now);
        if self.doing == Doing::Resting {
            self.doing = Doing::Waiting;
        }
        self.empty = 0;
        self.trouble = Trouble::default();
        self.tries = Arc::default();
    }

    /// Notes a failure, and says what is known of it by now.
    pub(super) fn note_failure(
        &mut self,
        failed: &Failed,
        stop: &Stop<'_>,
        others: bool,
        now: Instant,
    ) -> Run {
        let (trouble, pauses) = (&mut self.trouble, self.options.unavailable.pauses());
        match &mut trouble.outage {
            Some(outage) => outage.goes_on(pauses),
            none => *none = Some(Outage::begin(pauses, now)),
        }
        // A target that is unavailable says nothing of its facts: no attempt, and no time in which they
        // failed.
        if failed.is_unavailable() {
            trouble.since = None;
        } else {
            trouble.since.get_or_insert(now);
            // From now on by itself, so that nobody is given what comes after it with it.
            let alone_up_to = stop.batch_end.unwrap_or(stop.position);
            trouble.alone_up_to = trouble.alone_up_to.max(alone_up_to);
            if stop.batch_end.is_none() {
                trouble.attempts = trouble.attempts.saturating_add(1);
                trouble.probes.failed();
            }
        }
        Run {
            class: failed.class,
            alone: stop.batch_end.is_none(),
            attempts: trouble.attempts,
            failing_for: trouble.since.map_or(Duration::ZERO, |since| now.duration_since(since)),
            pause: trouble.outage.map_or(Duration::ZERO, |outage| outage.pause()),
            others,
            probes: trouble.probes,
        }
    }

    /// It waits after a failure at a position.
    pub(super) fn rest(
        &mut self,
        position: Position,
        delay: Duration,
        error: String,
        now: Instant,
    ) {
        self.doing = if delay.is_zero() { Doing::Waiting } else { Doing::Resting };
        self.due = now + delay;
        let lasted = self.trouble.lasted(now);
        let waits =
            Waits { pair: &self.id, position, lasted, next_try: delay, error: error.as_str() };
        self.complaint.waits(&waits, now);
        self.waits_at(Some(position));
        self.store(|next| next.last_error = Some(error));
    }

    pub(super) fn waits_at(&mut self, position: Option<Position>) {
        if let Some(held) = &mut self.held {
            held.waits_at = position;
        }
    }

    /// It stops at a fact, until somebody resets it.
    pub(super) fn stop(&mut self, position: Position, error: String) {
        error!(pair = %self.id, %position, error, "the pair stopped as FAILED; reset it");
        if let Some(held) = &mut self.held {
            held.status = CursorStatus::Failed;
        }
        self.waits_at(Some(position));
        self.store(|next| {
            next.fails = true;
            next.last_error = Some(error);
        });
    }

    /// Something was published.
    pub(super) fn goes_on(&mut self, now: Instant) {
        let Some(held) = &mut self.held else { return };
        (held.errors, held.waits_at) = (0, None);
        // Those of a batch that failed are published one by one first, up to the one it failed for.
        if held.at >= self.trouble.alone_up_to {
            self.complaint.goes_on(&self.id, held.at, now);
        }
        self.trouble.is_over();
    }

    /// Puts a move after what is to be stored already.
    pub(super) fn store(&mut self, change: impl FnOnce(&mut Move)) {
        let Some(held) = &mut self.held else { return };
        if let Next::Nothing = held.next {
            held.next = Next::Store(Move {
                pair: Arc::clone(&self.id),
                epoch: held.epoch,
                from: held.stored,
                to: held.at,
                published: false,
                errors: held.errors,
                last_error: None,
                waits_at: held.waits_at,
                fails: false,
                parked: Vec::new(),
            });
        }
        let Next::Store(next) = &mut held.next else { return };
        next.to = held.at;
        (next.errors, next.waits_at) = (held.errors, held.waits_at);
        change(next);
    }

    /// Takes what is to be stored, from where the cursor is by then.
    pub(super) fn take_move(&mut self, now: Instant) -> Option<Move> {
        let held = self.held.as_mut()?;
        if held.sent != Sent::Nothing || now < held.store_not_before {
            return None;
        }
        let mut next = held.next.take_move()?;
        next.from = held.stored;
        held.sent = Sent::Move;
        Some(next)
    }

    /// What a write made of a move.
    pub(super) fn wrote(&mut self, moved: Move, made: Moved, now: Instant) {
        let Some(held) = self.held.as_mut().filter(|held| held.epoch == moved.epoch) else {
            return;
        };
        if made == Moved::Busy {
            held.pause(now);
            if held.locked == LOCKED_FOR_LONG {
                warn!(pair = %self.id, "somebody has locked the pair's cursor; trying again");
            }
            return self.not_wrote(moved);
        }
        held.sent = Sent::Nothing;
        held.wrote = now;
        held.locked = 0;
        let Moved::Made(stands) = made else { return held.doubt() };
        held.stored = moved.to;
        held.unstored = u32::from(matches!(held.next, Next::Store(_)));
        if held.status == CursorStatus::Active {
            // Somebody paused it: stopping need not wait for the next round.
            held.status = stands;
        }
    }

    /// A write that nobody knows the end of, or that was not made: it is made again, with what has come
    /// since.
    pub(super) fn not_wrote(&mut self, mut moved: Move) {
        let Some(held) = self.held.as_mut().filter(|held| held.epoch == moved.epoch) else {
            return;
        };
        held.sent = Sent::Nothing;
        if held.is_stale() {
            return;
        }
        if let Some(later) = held.next.take_move() {
            moved.to = later.to;
            moved.published |= later.published;
            moved.fails |= later.fails;
            (moved.errors, moved.waits_at) = (later.errors, later.waits_at);
            moved.last_error = later.last_error.or(moved.last_error);
            moved.parked.extend(later.parked);
        }
        held.next = Next::Store(moved);
    }

    /// A run is over that settled facts in transactions of its own: asks the cursor what became of them, by a move
    /// that is made only if it is there. Nothing else of the pair goes on before that is known.
    pub(super) fn prove(&mut self, facts: Vec<Arc<Recorded>>, up_to: Position, ran: Ran) {
        let Some(held) = &mut self.held else { return };
        let stored = held.stored;
        held.unproved = Some(Unproved { facts, up_to, ran, stored, rolled_back: false });
        self.ask_cursor();
    }

    fn ask_cursor(&mut self) {
        let Some(held) = &mut self.held else { return };
        let Some(there) = held.unproved.as_ref().and_then(Unproved::candidate) else { return };
        (held.stored, held.at) = (there, there);
        held.next = Next::Store(Move::asks(Arc::clone(&self.id), held.epoch, there));
    }

    /// The cursor's answer to that. Nothing where the move was another, or where nothing is known yet.
    pub(super) fn proved(&mut self, moved: &Move, made: Moved, now: Instant) -> Option<Proved> {
        let held = self.held.as_mut().filter(|held| held.epoch == moved.epoch)?;
        if made == Moved::Busy {
            return None;
        }
        let mut run = held.unproved.take()?;
        held.sent = Sent::Nothing;
        (held.wrote, held.locked) = (now, 0);
        let done = match made {
            Moved::Made(stands) => {
                if held.status == CursorStatus::Active {
                    held.status = stands;
                }
                run.ran.settled.last().copied().unwrap_or_default()
            }
            Moved::Fenced | Moved::Busy => {
                run.rolled_back = true;
                run.ran.settled.pop();
                if run.candidate().is_some() {
                    held.unproved = Some(run);
                    self.ask_cursor();
                    return None;
                }
                (held.stored, held.at) = (run.stored, run.stored);
                0
            }
        };
        let Unproved { facts, up_to, ran, rolled_back, .. } = run;
        let ran = ran.proved(done, rolled_back);
        if rolled_back && let Some(fact) = facts.get(ran.done) {
            self.tries.learn(fact.position, 1);
        }
        Some(Proved { facts, up_to, ran })
    }

    /// Stores a position that passed only what is not for the pair, once it is old enough.
    pub(super) fn store_idle(&mut self, now: Instant) {
        let late = self.held.as_ref().is_some_and(|held| {
            held.at > held.stored
                && held.is_stored()
                && !held.is_stale()
                && (held.leaving || now.duration_since(held.wrote) >= IDLE_STORE)
        });
        if late && self.doing != Doing::Working {
            self.store(|_| {});
        }
    }

    /// After a look that found nothing for it. Only those that it made itself make it slower: what is for
    /// others says nothing about how often there is something for it.
    pub(super) fn found_nothing(&mut self, now: Instant, origin: Instant) {
        if now >= self.poll_at {
            self.empty = self.empty.saturating_add(1);
            self.poll_at = self.idle_until(now, origin);
        }
        self.due = self.poll_at;
    }

    /// When it is next, after a poll in vain. All pairs of an interval poll together, so that one look
    /// serves them all.
    fn idle_until(&self, now: Instant, origin: Instant) -> Instant {
        let delay = self.options.idle.delay(self.options.interval, self.empty);
        let since = now.duration_since(origin).as_nanos();
        let step = delay.as_nanos().max(1);
        let next = (since / step + 1).saturating_mul(step);
        let next = u64::try_from(next).map_or(Duration::MAX, Duration::from_nanos);
        origin.checked_add(next).unwrap_or(now + delay)
    }

    /// Compares what was seen in the table with what is in memory; the table wins. Says whether the pair
    /// is still led.
    pub(super) fn compare(
        &mut self,
        cursor: &Cursor,
        owner: &str,
        sent: Instant,
        now: Instant,
    ) -> bool {
        let Some(held) = &mut self.held else { return false };
        if held.taken > sent {
            return true;
        }
        if cursor.leader.as_deref() != Some(owner) || cursor.epoch != held.epoch {
            self.held = None;
            return false;
        }
        // What is on its way, or was when it was asked, is not in what was seen.
        let settled = held.is_stored() && held.wrote < sent && self.doing != Doing::Working;
        let moved = held.is_stale() || cursor.position != held.stored;
        let changed = cursor.status != held.status || cursor.errors != held.errors;
        if settled && (moved || changed) {
            if changed {
                info!(pair = %self.id, status = %cursor.status, "the pair was changed");
            }
            let at = if moved { cursor.position } else { held.at };
            let Held { taken, leaving, sent, .. } = *held;
            *held = Held { taken, leaving, sent, at, ..Held::new(cursor, now) };
            self.begin_afresh(now);
        } else if held.status == CursorStatus::Active && cursor.status != CursorStatus::Active {
            // Stopping need not wait for anything.
            held.status = cursor.status;
        }
        true
    }
}
