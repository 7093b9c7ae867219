//! Decides which pair works when, and writes their cursors together. One task; whatever waits for
//! somebody else is a task of its own and comes back as an event.
//!
//! `feeding` keeps the journal's end at hand, `running` is what pairs do with it, `failing` what follows
//! where they cannot, `aside` what they come back to, `storing` how far they are, and `leading` whose
//! they are.

mod failing;
mod feeding;
mod leading;
mod parked;
mod running;
mod storing;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::journal::publish::PairId;
use sendoff_core::journal::{Position, Recorded};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use self::feeding::{Feeding, NOBODY_WAITS, SeenEnd, fed};
use super::look::LookAtPairs;
use super::options::PublishOptions;
use super::pair::{Doing, Held, Pair};
use super::past::{Page, Past, Wanted};
use super::statistics::Counts;
use super::store::{Cursor, Move, Moved, Parked, PublishStore, Seen};
use super::window::Window;
use super::work::{Again, CatchUp, Probed, Ran};
use crate::appetite::Appetite;
use crate::journal::handle::Journal;
use crate::lead::{Member, NodeCard, Roster, Terms};
use crate::store::StoreError;

/// The pause after a statement failed.
const FAILED_PAUSE: Duration = Duration::from_millis(200);

/// What came of something that was under way.
enum Event {
    Ran {
        pair: usize,
        epoch: i64,
        facts: Vec<Arc<Recorded>>,
        up_to: Position,
        ran: Ran,
    },
    Probed {
        pair: usize,
        epoch: i64,
        /// The fact that had failed.
        position: Position,
        error: String,
        probed: Probed,
    },
    Read(Wanted, Result<Page, StoreError>),
    Decided(Position, Result<(), StoreError>),
    Retried {
        pair: usize,
        tried: Result<Vec<Again>, StoreError>,
    },
    Wrote {
        moves: Vec<(usize, Move)>,
        made: Result<Vec<Moved>, StoreError>,
    },
    Took(Vec<Seen>, Result<Vec<Cursor>, StoreError>),
    Gave(Vec<(usize, i64)>, Result<(), StoreError>),
    /// When it was asked for, and what is due.
    Due(Instant, Result<Vec<Parked>, StoreError>),
}

pub(super) struct Node<S> {
    journal: Journal<S>,
    options: Arc<PublishOptions>,
    owner: Arc<str>,
    pairs: Vec<Pair>,
    by_id: BTreeMap<PairId, usize>,
    window: Window,
    past: Past,
    catch_up: Arc<CatchUp>,
    counts: Counts,
    events: JoinSet<Event>,
    feed: Option<Feeding>,
    feed_not_before: Instant,
    feed_pause: Duration,
    feed_appetite: Arc<Mutex<Appetite>>,
    /// How far it has read; 0 where that is worth nothing.
    read_to: Arc<AtomicU64>,
    seen_end: SeenEnd,
    look_at: watch::Sender<Instant>,
    roster: Roster,
    /// Stores cursors.
    writing: Statement,
    /// Takes pairs; free since the last one ended, however it did.
    taking: Statement,
    give_not_before: Instant,
    /// Asks for what was parked and is due.
    asking: Statement,
    origin: Instant,
    /// The shortest interval of any pair.
    shortest: Duration,
    /// Until when it waits for what is under way; none until it is told to stop.
    stop_by: Option<Instant>,
}

/// A statement of which one at a time is under way.
#[derive(Debug, Clone, Copy)]
enum Statement {
    UnderWay,
    Free {
        /// When the next one may begin.
        from: Instant,
    },
}

impl Statement {
    fn may_begin(self, now: Instant) -> bool {
        self.free_from().is_some_and(|from| from <= now)
    }

    fn free_from(self) -> Option<Instant> {
        match self {
            Self::UnderWay => None,
            Self::Free { from } => Some(from),
        }
    }
}

impl<S: PublishStore> Node<S> {
    pub(super) fn new(
        journal: Journal<S>,
        options: Arc<PublishOptions>,
        owner: Arc<str>,
        pairs: Vec<Pair>,
        counts: Counts,
    ) -> Self {
        let now = Instant::now();
        let intervals = pairs.iter().map(|pair| pair.options.interval);
        let shortest = intervals.min().unwrap_or(NOBODY_WAITS);
        let appetite = options.appetite();
        let PublishOptions { renew, lease, leadership, .. } = *options;
        let terms = Terms { sharing: leadership.sharing(), renew, lease };
        let roster = Roster::new(Arc::clone(&owner), terms);
        let by_id = pairs.iter().enumerate().map(|(at, pair)| ((*pair.id).clone(), at)).collect();
        Self {
            journal,
            owner,
            by_id,
            window: Window::new(options.window_rows, options.window_bytes),
            past: Past::new(options.window_rows, options.window_bytes),
            catch_up: Arc::new(CatchUp::new(appetite)),
            counts,
            events: JoinSet::new(),
            feed: None,
            feed_not_before: now,
            feed_pause: FAILED_PAUSE,
            feed_appetite: Arc::new(Mutex::new(appetite)),
            read_to: Arc::default(),
            seen_end: SeenEnd::default(),
            look_at: watch::Sender::new(now),
            roster,
            writing: Statement::Free { from: now },
            taking: Statement::Free { from: now },
            give_not_before: now,
            asking: Statement::Free { from: now },
            origin: now,
            shortest,
            stop_by: None,
            pairs,
            options,
        }
    }

    /// Until it is told to stop and nothing is under way any more.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let leave = CancellationToken::new();
        let (tell, mut rounds) = mpsc::channel(1);
        let mut member = JoinSet::new();
        let card = NodeCard {
            owner: Arc::clone(&self.owner),
            knows: self.pairs.iter().map(|pair| pair.key).collect(),
            renew: self.options.renew,
            lease: self.options.lease,
        };
        member.spawn(
            Member {
                look: LookAtPairs {
                    journal: self.journal.clone(),
                    options: Arc::clone(&self.options),
                    read_to: Arc::clone(&self.read_to),
                },
                card,
                limit: self.options.statement_limit(),
                tell,
                changed: self.journal.operated().subscribe(),
                stop: leave.clone(),
            }
            .run(),
        );
        loop {
            self.act();
            if self.is_stopping() && self.is_quiet() {
                break;
            }
            let wake = self.next_wake();
            let (hungry, stop_by) = (self.is_hungry(), self.stop_by);
            tokio::select! {
                biased;
                () = stop.cancelled(), if stop_by.is_none() => {
                    self.stop_by = Some(Instant::now() + self.options.node.drain_timeout);
                    self.pairs.iter_mut().filter_map(|pair| pair.held.as_mut())
                        .for_each(|held| held.leaving = true);
                }
                () = sleep_until(stop_by.unwrap_or(wake)), if stop_by.is_some() => {
                    warn!("publishing was cut off: what was under way will be published again");
                    break;
                }
                Some(event) = self.events.join_next() => match event {
                    Ok(event) => self.on_event(event),
                    // Publishers' panics are caught where they run.
                    Err(error) => error!(%error, "a task of publishing ended"),
                },
                Some(round) = rounds.recv() => self.on_round(&round),
                fed = fed(&mut self.feed), if hungry => self.on_fed(fed),
                () = sleep_until(wake) => {}
            }
        }
        self.events.abort_all();
        leave.cancel();
        while member.join_next().await.is_some() {}
        info!(owner = &*self.owner, "publishing ended");
    }

    /// Begins whatever can be begun.
    fn act(&mut self) {
        let now = Instant::now();
        if !self.is_stopping() {
            self.keep_fed(now);
            if self.roster.is_fit(now) {
                for at in 0..self.pairs.len() {
                    if self.pairs[at].is_ready(now) {
                        self.begin(at, now);
                    }
                }
                self.ask_for_due(now);
            }
        }
        self.pairs.iter_mut().for_each(|pair| pair.store_idle(now));
        self.write(now);
        if self.is_stopping() {
            self.leave_locked();
        }
        self.give(now);
        self.schedule_look();
    }

    fn is_stopping(&self) -> bool {
        self.stop_by.is_some()
    }

    /// Whether nothing is left to be done.
    fn is_quiet(&self) -> bool {
        self.events.is_empty() && self.pairs.iter().all(|pair| pair.held.is_none())
    }

    /// When to look again, if nothing happens before.
    fn next_wake(&self) -> Instant {
        let pairs =
            self.pairs.iter().filter(|pair| pair.doing != Doing::Working && pair.workable());
        let due = pairs.map(|pair| pair.due).min();
        let now = Instant::now();
        let later = now + self.options.renew;
        // What is due and could not begin waits for an event, or for the next round.
        let mut wake = due.filter(|due| *due > now).map_or(later, |due| due.min(later));
        if self.feed.is_none() && self.feed_not_before > now {
            wake = wake.min(self.feed_not_before);
        }
        let held = self.pairs.iter().filter_map(|pair| pair.held.as_ref());
        let paused = held.map(|held| held.store_not_before);
        let paused = paused.chain(self.writing.free_from()).chain([self.give_not_before]);
        for not_before in paused {
            if not_before > now {
                wake = wake.min(not_before);
            }
        }
        wake
    }

    fn on_event(&mut self, event: Event) {
        let now = Instant::now();
        match event {
            Event::Ran { pair, epoch, facts, up_to, ran } => {
                self.pairs[pair].doing = Doing::Waiting;
                if !self.leads(pair, epoch) {
                    // Another has the pair by now, or it is somewhere else: this does not count.
                    self.counts.fenced(&self.pairs[pair].id);
                } else if ran.settled.is_empty() {
                    self.on_ran(pair, &facts, up_to, &ran, now);
                } else {
                    self.pairs[pair].prove(facts, up_to, ran);
                }
            }
            Event::Probed { pair, epoch, position, error, probed } => {
                self.pairs[pair].doing = Doing::Waiting;
                if self.leads(pair, epoch) {
                    self.on_probed(pair, (position, error), probed, now);
                }
            }
            Event::Read(wanted, page) => self.on_read(wanted, page),
            Event::Decided(from, decided) => self.on_decided(from, decided),
            Event::Retried { pair, tried } => self.on_retried(pair, tried),
            Event::Wrote { moves, made } => self.on_wrote(moves, made, now),
            Event::Took(wanted, taken) => self.on_took(&wanted, taken, now),
            Event::Gave(pairs, given) => self.on_gave(&pairs, given, now),
            Event::Due(asked, parked) => self.on_due(asked, parked),
        }
    }

    /// Whether the node still has the pair, as it had it when something of it began, and what it knew
    /// of it still counts.
    fn leads(&self, at: usize, epoch: i64) -> bool {
        self.pairs[at].held.as_ref().is_some_and(|held| held.epoch == epoch && !held.is_stale())
    }

    /// From now on nothing counts that was read: neither where pairs are, nor what is after them. The
    /// database may have lost its last commits, and give their positions again.
    fn doubt_all(&mut self) {
        self.feed = None;
        self.past.forget();
        self.read_to.store(0, Ordering::Release);
        self.pairs.iter_mut().filter_map(|pair| pair.held.as_mut()).for_each(Held::doubt);
    }
}
