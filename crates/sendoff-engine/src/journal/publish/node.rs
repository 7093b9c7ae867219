//! Decides which pair works when, and writes their cursors together. One task; whatever waits for
//! somebody else is a task of its own and comes back as an event.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::journal::publish::{
    CursorStatus, Node as Peer, PairId, Run, Seat, Step, after_failed_run, balance,
};
use sendoff_core::journal::{Position, Recorded};
use sendoff_core::{FailureClass, Jitter, limits, report};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, error, info, warn};

use super::feed::{Fed, Feed};
use super::member::{Member, Round};
use super::metrics::Shielded;
use super::options::PublishOptions;
use super::pair::{Held, Pair};
use super::past::{Page, Past, Wanted};
use super::service::Tally;
use super::store::{Cursor, Move, NodeCard, Park, Parked, PublishStore, Retried, Seen, Survey};
use super::window::{Cut, Window};
use super::work::{Again, CatchUp, Failed, Probed, Ran, probe, publish, retry_parked};
use crate::journal::handle::Journal;
use crate::store::StoreError;

/// Facts of a pair that were set aside and are tried again in one go.
const DUE: usize = 20;
/// How often to look for them.
const DUE_INTERVAL: Duration = Duration::from_secs(1);
/// The pause after a statement failed.
const FAILED_PAUSE: Duration = Duration::from_millis(200);
/// The longest pause before the journal's end is read again; some errors need somebody to mend them.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// When to look for something new where no pair waits for it.
const NOBODY_WAITS: Duration = Duration::from_secs(60);
/// The pause of a pair whose target refuses everything.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);

/// What came of something that was under way.
enum Event {
    Ran { pair: usize, epoch: i64, facts: Vec<Arc<Recorded>>, up_to: Position, ran: Ran },
    Probed { pair: usize, epoch: i64, suspect: Failed, at: Position, probed: Probed },
    Read(Wanted, Result<Page, StoreError>),
    Retried { pair: usize, tried: Result<Vec<Again>, StoreError> },
    Wrote { moves: Vec<(usize, Move)>, made: Result<Vec<bool>, StoreError> },
    Took(Vec<Seen>, Result<Vec<Cursor>, StoreError>),
    Gave(Vec<(usize, i64)>, Result<(), StoreError>),
    Due(Result<Vec<Parked>, StoreError>),
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
    metrics: Shielded,
    tally: Arc<Tally>,
    events: JoinSet<Event>,
    feed: Option<Feeding>,
    feed_not_before: Instant,
    feed_pause: Duration,
    look_at: watch::Sender<Instant>,
    /// Until when others believe that this node is alive; none until it joined.
    fit_until: Option<Instant>,
    writing: bool,
    write_not_before: Instant,
    taking: bool,
    asking: bool,
    ask_not_before: Instant,
    origin: Instant,
    /// The shortest interval of any pair.
    shortest: Duration,
    stopping: bool,
}

/// The feed's task and what it tells; both end when this is dropped.
struct Feeding {
    told: mpsc::Receiver<Fed>,
    begun: bool,
    _task: JoinSet<()>,
}

impl<S: PublishStore> Node<S> {
    pub(super) fn new(
        journal: Journal<S>,
        options: Arc<PublishOptions>,
        owner: Arc<str>,
        pairs: Vec<Pair>,
        metrics: Shielded,
        tally: Arc<Tally>,
    ) -> Self {
        let now = Instant::now();
        let intervals = pairs.iter().map(|pair| pair.options.interval);
        let shortest = intervals.min().unwrap_or(NOBODY_WAITS);
        let by_id = pairs.iter().enumerate().map(|(at, pair)| ((*pair.id).clone(), at)).collect();
        Self {
            journal,
            owner,
            by_id,
            window: Window::new(options.window_rows, options.window_bytes),
            past: Past::new(options.window_rows, options.window_bytes),
            catch_up: Arc::default(),
            metrics,
            tally,
            events: JoinSet::new(),
            feed: None,
            feed_not_before: now,
            feed_pause: FAILED_PAUSE,
            look_at: watch::Sender::new(now),
            fit_until: None,
            writing: false,
            write_not_before: now,
            taking: false,
            asking: false,
            ask_not_before: now,
            origin: now,
            shortest,
            stopping: false,
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
                journal: self.journal.clone(),
                options: Arc::clone(&self.options),
                card,
                tell,
                stop: leave.clone(),
            }
            .run(),
        );
        let mut drained = None;
        loop {
            self.act();
            if self.stopping && self.is_quiet() {
                break;
            }
            let wake = self.next_wake();
            let hungry = self.is_hungry();
            tokio::select! {
                biased;
                () = stop.cancelled(), if !self.stopping => {
                    self.stopping = true;
                    drained = Some(Instant::now() + self.options.drain_timeout);
                    self.pairs.iter_mut().filter_map(|pair| pair.held.as_mut())
                        .for_each(|held| held.leaving = true);
                }
                () = sleep_until(drained.unwrap_or(wake)), if drained.is_some() => {
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
        if !self.stopping {
            self.keep_fed(now);
            if self.is_fit(now) {
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
        self.give();
        self.schedule_look();
    }

    /// Whether nobody may have taken this node's place. Before each run, so that a node that was
    /// stopped begins nothing that is another's by now.
    fn is_fit(&self, now: Instant) -> bool {
        self.fit_until.is_some_and(|until| now < until)
    }

    /// Whether nothing is left to be done.
    fn is_quiet(&self) -> bool {
        self.events.is_empty() && self.pairs.iter().all(|pair| pair.held.is_none())
    }

    /// When to look again, if nothing happens before.
    fn next_wake(&self) -> Instant {
        let pairs = self.pairs.iter().filter(|pair| !pair.busy && pair.workable());
        let due = pairs.map(|pair| pair.due).min();
        let now = Instant::now();
        let later = now + self.options.renew;
        // What is due and could not begin waits for an event, or for the next round.
        let mut wake = due.filter(|due| *due > now).map_or(later, |due| due.min(later));
        if self.feed.is_none() && self.feed_not_before > now {
            wake = wake.min(self.feed_not_before);
        }
        if self.write_not_before > now {
            wake = wake.min(self.write_not_before);
        }
        wake
    }

    // ---- the feed ----

    /// Keeps a feed while there is a pair to feed.
    fn keep_fed(&mut self, now: Instant) {
        let leads = self.pairs.iter().any(|pair| pair.held.is_some());
        if !leads {
            self.feed = None;
            return;
        }
        if self.feed.is_some() || now < self.feed_not_before {
            return;
        }
        let held = self.pairs.iter().filter_map(|pair| pair.held.as_ref());
        if held.clone().any(|held| held.stale) {
            // Their positions are worth nothing; the next round brings them.
            return;
        }
        let (tell, told) = mpsc::channel(1);
        let feed = Feed {
            journal: self.journal.clone(),
            options: Arc::clone(&self.options),
            pairs_at: held.map(|held| held.at).collect(),
            tell,
            look_at: self.look_at.subscribe(),
            interval: self.shortest,
        };
        let mut task = JoinSet::new();
        task.spawn(feed.run());
        self.feed = Some(Feeding { told, begun: false, _task: task });
    }

    /// Whether more rows are wanted: the fastest pair decides, and who is slower reads for itself.
    fn is_hungry(&self) -> bool {
        let Some(feed) = &self.feed else { return false };
        let enough = self.options.window_rows / 2;
        let held = self.pairs.iter().filter_map(|pair| pair.held.as_ref());
        let fastest = held.map(|held| held.at).max();
        !feed.begun || fastest.is_some_and(|at| self.window.rows_behind(at) <= enough)
    }

    fn on_fed(&mut self, fed: Option<Fed>) {
        match fed {
            Some(Fed::From(position)) => {
                self.window.begin(position);
                self.feed_pause = FAILED_PAUSE;
                if let Some(feed) = &mut self.feed {
                    feed.begun = true;
                }
                self.wake_eager();
            }
            Some(Fed::Rows(rows, up_to)) => {
                let any = !rows.is_empty();
                self.window.extend(rows, up_to);
                if any {
                    self.wake_eager();
                }
            }
            Some(Fed::Lost(error)) => {
                warn!(error = report(&error), "the journal's end cannot be read; trying again");
                self.lose_feed();
            }
            None => self.lose_feed(),
        }
    }

    /// Positions in memory are worth nothing after a link was lost: the database may have lost its
    /// last commits, and give their positions again.
    fn lose_feed(&mut self) {
        self.feed = None;
        self.past.forget();
        self.feed_not_before = Instant::now() + self.feed_pause;
        self.feed_pause = (self.feed_pause * 2).min(LONGEST_PAUSE);
        for held in self.pairs.iter_mut().filter_map(|pair| pair.held.as_mut()) {
            held.stale = true;
        }
    }

    fn wake_eager(&mut self) {
        let now = Instant::now();
        for pair in self.pairs.iter_mut().filter(|pair| pair.options.eager && !pair.resting) {
            pair.due = pair.due.min(now);
        }
    }

    /// Tells the feed when the first pair wants to know whether there is something new.
    fn schedule_look(&mut self) {
        let waiting = |pair: &&Pair| pair.workable() && !pair.resting && !pair.busy;
        let first = self.pairs.iter().filter(waiting).map(|pair| pair.due).min();
        // Where nobody waits, whoever begins to will say so.
        let due = first.unwrap_or_else(|| Instant::now() + NOBODY_WAITS);
        self.look_at.send_if_modified(|at| {
            let changed = first.map_or(*at < Instant::now(), |first| *at != first);
            if changed {
                *at = due;
            }
            changed
        });
    }

    // ---- a pair's run ----

    /// Begins a pair's next run.
    fn begin(&mut self, at: usize, now: Instant) {
        let feeding = self.feed.as_ref().is_some_and(|feed| feed.begun);
        let pair = &mut self.pairs[at];
        let Some(held) = &pair.held else { return };
        if !feeding {
            pair.due = now + FAILED_PAUSE;
            return;
        }
        let most = if held.at < pair.trouble.alone_up_to { 1 } else { pair.options.run_of() };
        let floor = self.window.floor();
        loop {
            let pair = &mut self.pairs[at];
            let Some(held) = &mut pair.held else { return };
            let (after, topic) = (held.at, &pair.topic);
            let Some(cut) =
                self.window.cut(after, topic, most).or_else(|| self.past.cut(after, topic, most))
            else {
                // It begins when the page is there; where that fails, when it asks again.
                self.past.want(after, floor);
                pair.due = now + FAILED_PAUSE;
                break;
            };
            if cut.passes_only() && cut.up_to < floor {
                held.at = cut.up_to;
                continue;
            }
            if after < floor {
                self.past.want(after, floor);
            }
            self.run_cut(at, cut, now);
            break;
        }
        self.read_past();
    }

    /// Publishes what was cut, or goes idle.
    fn run_cut(&mut self, at: usize, cut: Cut, now: Instant) {
        let pair = &mut self.pairs[at];
        let Some(held) = &mut pair.held else { return };
        let epoch = held.epoch;
        if let Some(error) = cut.broken {
            let failed = Failed { class: FailureClass::Dead, error };
            self.on_failed(at, &failed, cut.up_to, None, now);
            return;
        }
        if cut.facts.is_empty() {
            held.at = cut.up_to;
            pair.empty = pair.empty.saturating_add(1);
            pair.due = pair.idle_until(now, self.origin);
            return;
        }
        pair.busy = true;
        pair.resting = false;
        let (publisher, options) = (Arc::clone(&pair.publisher), pair.options.clone());
        let Cut { facts, up_to, .. } = cut;
        self.events.spawn(async move {
            let ran = publish(&*publisher, &facts, &options).await;
            Event::Ran { pair: at, epoch, facts, up_to, ran }
        });
    }

    /// Reads the next page that the window does not reach back to.
    fn read_past(&mut self) {
        let Some(wanted) = self.past.next() else { return };
        let (after, most) = (wanted.after, wanted.most);
        let (journal, catch_up) = (self.journal.clone(), Arc::clone(&self.catch_up));
        let (floor, limit) = (self.window.floor(), self.options.store_timeout);
        self.events.spawn(async move {
            let read = catch_up.read(journal.store(), after, floor, most);
            let rows = timeout(limit, read).await.unwrap_or(Err(StoreError::Timeout));
            Event::Read(wanted, rows.map(|(rows, up_to)| Page { after, up_to, rows }))
        });
    }

    fn on_event(&mut self, event: Event) {
        let now = Instant::now();
        match event {
            Event::Ran { pair, epoch, facts, up_to, ran } => {
                self.pairs[pair].busy = false;
                if self.leads(pair, epoch) {
                    self.on_ran(pair, &facts, up_to, &ran, now);
                } else {
                    // Another has the pair by now, and what was published here does not count.
                    self.count_fenced(&self.pairs[pair].id);
                }
            }
            Event::Probed { pair, epoch, suspect, at, probed } => {
                self.pairs[pair].busy = false;
                if self.leads(pair, epoch) {
                    self.on_probed(pair, &suspect, at, probed, now);
                }
            }
            Event::Read(wanted, page) => self.on_read(wanted, page, now),
            Event::Retried { pair, tried } => self.on_retried(pair, tried),
            Event::Wrote { moves, made } => self.on_wrote(moves, made, now),
            Event::Took(wanted, taken) => self.on_took(&wanted, taken, now),
            Event::Gave(pairs, given) => self.on_gave(&pairs, given),
            Event::Due(parked) => self.on_due(parked),
        }
    }

    /// Whether the node still has the pair, as it had it when something of it began. Where the cursor
    /// is by now decides whether it counts.
    fn leads(&self, at: usize, epoch: i64) -> bool {
        self.pairs[at].held.as_ref().is_some_and(|held| held.epoch == epoch)
    }

    fn on_read(&mut self, wanted: Wanted, page: Result<Page, StoreError>, now: Instant) {
        match page {
            Ok(page) => {
                self.past.add(wanted, page);
                let floor = self.window.floor();
                for pair in self.pairs.iter_mut().filter(|pair| !pair.resting) {
                    if pair.held.as_ref().is_some_and(|held| held.at < floor) {
                        pair.due = pair.due.min(now);
                    }
                }
                self.read_past();
            }
            Err(error) => {
                warn!(error = report(&error), "the journal cannot be read; trying again");
                self.past.forget();
            }
        }
    }

    fn on_ran(
        &mut self,
        at: usize,
        facts: &[Arc<Recorded>],
        up_to: Position,
        ran: &Ran,
        now: Instant,
    ) {
        let pair = &mut self.pairs[at];
        let Some(held) = &mut pair.held else { return };
        if ran.done > 0 {
            let whole = ran.failed.is_none();
            held.at = if whole { up_to } else { facts[ran.done - 1].position };
            held.errors = 0;
            held.unstored += 1;
            pair.empty = 0;
            pair.due = now;
            pair.trouble.attempts = 0;
            pair.trouble.since = None;
            pair.trouble.parked_in_a_row = 0;
            pair.store(|next| {
                next.published = true;
                next.last_error = None;
            });
            let id = Arc::clone(&pair.id);
            self.count_published(&id, &facts[..ran.done]);
        }
        if let Some(failed) = &ran.failed {
            let (position, last) = (facts[ran.done].position, facts[facts.len() - 1].position);
            let alone = facts.len() == 1;
            self.on_failed(at, failed, position, (!alone).then_some(last), now);
        }
    }

    /// What follows a failure at a position; `batch_end` is where its batch ended, if it was one.
    fn on_failed(
        &mut self,
        at: usize,
        failed: &Failed,
        position: Position,
        batch_end: Option<Position>,
        now: Instant,
    ) {
        self.count_failed(&self.pairs[at].id, 1);
        let (others, lagging) = self.others_behind(at, position);
        let pair = &mut self.pairs[at];
        let Some(held) = &mut pair.held else { return };
        held.errors = held.errors.saturating_add(1);
        let trouble = &mut pair.trouble;
        let since = *trouble.since.get_or_insert(now);
        match batch_end {
            Some(end) => trouble.alone_up_to = trouble.alone_up_to.max(end),
            None => trouble.attempts = trouble.attempts.saturating_add(1),
        }
        let run = Run {
            class: failed.class,
            alone: batch_end.is_none(),
            attempts: trouble.attempts,
            failing_for: now.duration_since(since),
            others: lagging.is_some() || !others.is_empty(),
        };
        let (options, jitter) = (&pair.options, Jitter::new(fastrand::f64()));
        let mut step =
            after_failed_run(run, options.poison, &*options.retry, options.max_attempts, jitter);
        if step == Step::Park && trouble.parked_in_a_row >= options.parked_in_a_row {
            step = Step::Rest(REFUSED_PAUSE);
        }
        debug!(pair = %pair.id, %position, ?step, error = failed.error, "publishing failed");
        let error = failed.error.clone();
        match step {
            Step::Rest(delay) => {
                pair.resting = !delay.is_zero();
                pair.due = now + delay;
                pair.store(|next| next.last_error = Some(error));
            }
            Step::Fail => {
                error!(pair = %pair.id, %position, error, "the pair stopped as FAILED; reset it");
                held.status = CursorStatus::Failed;
                pair.store(|next| {
                    next.fails = true;
                    next.last_error = Some(error);
                });
            }
            Step::Park => {
                let parked = vec![(position, failed.clone())];
                self.park(at, parked, position, false, now);
            }
            Step::Probe => {
                pair.busy = true;
                let epoch = held.epoch;
                let (publisher, options) = (Arc::clone(&pair.publisher), pair.options.clone());
                let (suspect, topic) = (failed.clone(), Arc::clone(&pair.topic));
                let (journal, catch_up) = (self.journal.clone(), Arc::clone(&self.catch_up));
                self.events.spawn(async move {
                    let mut facts = Vec::new();
                    if let Some(floor) = lagging {
                        let behind = catch_up.others(journal.store(), &topic, position, floor);
                        facts = behind.await.unwrap_or_default();
                    }
                    facts.extend(others);
                    let probed = probe(&*publisher, &facts, &options).await;
                    Event::Probed { pair: at, epoch, suspect, at: position, probed }
                });
            }
        }
    }

    /// What could be tried behind a fact, from memory, and up to where it would have to be read first.
    fn others_behind(
        &self,
        at: usize,
        position: Position,
    ) -> (Vec<Arc<Recorded>>, Option<Position>) {
        let (pair, floor) = (&self.pairs[at], self.window.floor());
        let cut = self.window.cut(position.max(floor), &pair.topic, pair.options.batch);
        (cut.map_or_else(Vec::new, |cut| cut.facts), (position < floor).then_some(floor))
    }

    fn on_probed(
        &mut self,
        at: usize,
        suspect: &Failed,
        position: Position,
        probed: Probed,
        now: Instant,
    ) {
        self.count_failed(&self.pairs[at].id, probed.failed.len());
        if let Some(passed) = probed.passed {
            let up_to = passed.position;
            self.count_published(&self.pairs[at].id, &[passed]);
            let mut parked = vec![(position, suspect.clone())];
            parked.extend(probed.failed);
            self.park(at, parked, up_to, true, now);
            return;
        }
        // Nothing can be published: it is the target's fault, and ends when it is back.
        let pair = &mut self.pairs[at];
        let attempts = pair.trouble.attempts;
        let delay = pair.options.retry.delay(attempts, Jitter::new(fastrand::f64()));
        pair.resting = true;
        pair.due = now + delay.min(limits::DELAY);
        pair.store(|next| next.last_error = Some(suspect.error.clone()));
    }

    /// Sets facts aside, and goes on behind them.
    fn park(
        &mut self,
        at: usize,
        parked: Vec<(Position, Failed)>,
        up_to: Position,
        published: bool,
        now: Instant,
    ) {
        let pair = &mut self.pairs[at];
        let Some(held) = &mut pair.held else { return };
        let count = parked.len();
        held.at = up_to;
        held.unstored += 1;
        if published {
            held.errors = 0;
            pair.trouble.parked_in_a_row = 0;
            pair.trouble.since = None;
        }
        pair.trouble.parked_in_a_row += u32::try_from(count).unwrap_or(u32::MAX);
        let tried = std::mem::take(&mut pair.trouble.attempts);
        pair.due = now;
        pair.resting = false;
        let delay = pair.options.parked_retry.delay(1, Jitter::new(fastrand::f64()));
        let last_error = parked.last().map(|(_, failed)| failed.error.clone());
        let mut attempts = tried.max(1);
        let parks: Vec<_> = parked
            .into_iter()
            .map(|(position, failed)| {
                error!(pair = %pair.id, %position, error = failed.error, "a fact was set aside");
                // Those that a probe tried were tried once.
                let attempts = std::mem::replace(&mut attempts, 1);
                Park { position, attempts, delay, error: failed.error }
            })
            .collect();
        pair.store(|next| {
            next.published |= published;
            next.last_error = last_error;
            next.parked.extend(parks);
        });
        self.metrics.tell(|metrics| metrics.parked(&pair.id, count));
        self.tally.parked(&pair.id, count);
    }

    // ---- what was set aside ----

    fn ask_for_due(&mut self, now: Instant) {
        let leads = self.pairs.iter().any(Pair::workable);
        if self.asking || now < self.ask_not_before || !leads {
            return;
        }
        self.asking = true;
        self.ask_not_before = now + DUE_INTERVAL;
        let (journal, owner) = (self.journal.clone(), Arc::clone(&self.owner));
        let limit = self.options.store_timeout;
        self.events.spawn(async move {
            let due = timeout(limit, journal.store().due(&owner, DUE)).await;
            Event::Due(due.unwrap_or(Err(StoreError::Timeout)))
        });
    }

    fn on_due(&mut self, parked: Result<Vec<Parked>, StoreError>) {
        self.asking = false;
        let parked = match parked {
            Ok(parked) => parked,
            Err(error) => {
                warn!(error = report(&error), "what was set aside cannot be read");
                return;
            }
        };
        let fit = self.is_fit(Instant::now()) && !self.stopping;
        let mut by_pair = BTreeMap::<usize, Vec<Parked>>::new();
        for parked in parked {
            if let Some(&at) = self.by_id.get(&parked.pair) {
                by_pair.entry(at).or_default().push(parked);
            }
        }
        for (at, parked) in by_pair {
            let pair = &mut self.pairs[at];
            // While the target is away there is no point.
            let free = fit && !pair.busy && !pair.resting && pair.workable();
            let Some(epoch) = pair.held.as_ref().map(|held| held.epoch).filter(|_| free) else {
                continue;
            };
            pair.busy = true;
            let (publisher, options) = (Arc::clone(&pair.publisher), pair.options.clone());
            let (journal, owner) = (self.journal.clone(), Arc::clone(&self.owner));
            self.events.spawn(async move {
                let leads = (&*owner, epoch);
                let retry = retry_parked(journal.store(), &*publisher, &options, leads, &parked);
                Event::Retried { pair: at, tried: retry.await }
            });
        }
    }

    fn on_retried(&mut self, at: usize, tried: Result<Vec<Again>, StoreError>) {
        let pair = &mut self.pairs[at];
        pair.busy = false;
        let id = Arc::clone(&pair.id);
        let tried = tried.unwrap_or_else(|error| {
            warn!(pair = %id, error = report(&error), "a retry could not be stored");
            Vec::new()
        });
        for Again { outcome, fact } in tried {
            match outcome {
                Some(Retried::Published) => {
                    info!(pair = %id, "a fact that was set aside is published");
                    self.count_published(&id, fact.as_slice());
                }
                Some(Retried::Failed { error, .. }) => {
                    debug!(pair = %id, error, "a fact that was set aside failed again");
                    self.count_failed(&id, 1);
                }
                None => self.count_fenced(&id),
            }
        }
    }

    // ---- what is counted ----

    fn count_published(&self, pair: &PairId, facts: &[Arc<Recorded>]) {
        if !facts.is_empty() {
            self.metrics.tell(|metrics| metrics.published(pair, facts.len()));
            self.tally.published(pair, facts);
        }
    }

    fn count_failed(&self, pair: &PairId, runs: usize) {
        for _ in 0..runs {
            self.metrics.tell(|metrics| metrics.failed(pair));
            self.tally.failed(pair);
        }
    }

    fn count_fenced(&self, pair: &PairId) {
        self.metrics.tell(|metrics| metrics.fenced(pair));
        self.tally.fenced();
    }

    // ---- cursors ----

    /// Stores whatever is to be stored, together, one statement at a time.
    fn write(&mut self, now: Instant) {
        if self.writing || now < self.write_not_before {
            return;
        }
        let numbered = self.pairs.iter_mut().enumerate();
        let moves: Vec<_> = numbered
            .filter_map(|(at, pair)| Some((at, pair.take_move()?)))
            .take(limits::BATCH_ROWS)
            .collect();
        if moves.is_empty() {
            return;
        }
        self.writing = true;
        let (journal, owner) = (self.journal.clone(), Arc::clone(&self.owner));
        let limit = self.options.store_timeout;
        self.events.spawn(async move {
            let plain: Vec<_> = moves.iter().map(|(_, next)| next.clone()).collect();
            let made = timeout(limit, journal.store().advance(&owner, &plain)).await;
            Event::Wrote { moves, made: made.unwrap_or(Err(StoreError::Timeout)) }
        });
    }

    fn on_wrote(
        &mut self,
        moves: Vec<(usize, Move)>,
        made: Result<Vec<bool>, StoreError>,
        now: Instant,
    ) {
        self.writing = false;
        match made {
            Ok(made) => {
                for ((at, moved), made) in moves.into_iter().zip(made) {
                    self.pairs[at].wrote(&moved, made, now);
                    if !made {
                        info!(pair = %moved.pair, from = %moved.from, to = %moved.to,
                              "a cursor was not moved: it is another's, or somewhere else");
                        self.count_fenced(&moved.pair);
                    }
                }
            }
            Err(error) => {
                warn!(error = report(&error), "cursors could not be stored; trying again");
                self.write_not_before = now + FAILED_PAUSE;
                for (at, moved) in moves {
                    self.pairs[at].not_wrote(moved);
                }
            }
        }
    }

    // ---- leadership ----

    fn on_round(&mut self, round: &Round) {
        let now = Instant::now();
        if round.joined {
            // The session was another: nothing that was known before can be relied on.
            for held in self.pairs.iter_mut().filter_map(|pair| pair.held.as_mut()) {
                held.stale = true;
            }
        }
        // What others allow this node counts from when it said that it is alive.
        self.fit_until = Some(round.beat_sent + self.options.renew * 2);
        self.compare(&round.survey, round.survey_sent, now);
        if !self.stopping {
            self.share(&round.survey);
        }
        for pair in &self.pairs {
            let Some(held) = &pair.held else { continue };
            let lag = round.head.since(held.at);
            self.metrics.tell(|metrics| metrics.lag(&pair.id, lag));
        }
        self.count_leading();
    }

    fn count_leading(&self) {
        let leading = self.pairs.iter().filter(|pair| pair.held.is_some()).count();
        self.metrics.tell(|metrics| metrics.leading(leading));
        self.tally.leading(leading);
    }

    /// Compares what is in the table with what is in memory. The table wins.
    fn compare(&mut self, survey: &Survey, sent: Instant, now: Instant) {
        let mut seen = vec![false; self.pairs.len()];
        for cursor in &survey.cursors {
            let Some(&at) = self.by_id.get(&cursor.pair) else { continue };
            seen[at] = true;
            let pair = &mut self.pairs[at];
            let Some(held) = &mut pair.held else { continue };
            if held.taken > sent {
                continue;
            }
            if cursor.leader.as_deref() != Some(&*self.owner) || cursor.epoch != held.epoch {
                info!(pair = %pair.id, "another node leads the pair");
                pair.held = None;
                self.metrics.tell(|metrics| metrics.gave(&pair.id));
                continue;
            }
            // What is on its way, or was when it was asked, is not in what was seen.
            let settled = held.is_stored() && held.wrote < sent && !pair.busy;
            if settled && (held.stale || cursor.position != held.stored) {
                let fresh =
                    Held { status: held.status, taken: held.taken, ..Held::new(cursor, now) };
                *held = Held { leaving: held.leaving, ..fresh };
                pair.begin_afresh(now);
            }
            let Some(held) = &mut pair.held else { continue };
            if settled && cursor.status != held.status {
                info!(pair = %pair.id, status = %cursor.status, "the pair's status was changed");
                held.status = cursor.status;
                held.errors = cursor.errors;
                pair.begin_afresh(now);
            } else if held.status == CursorStatus::Active && cursor.status != CursorStatus::Active {
                // Stopping need not wait for anything.
                held.status = cursor.status;
            }
        }
        for (pair, _) in self.pairs.iter_mut().zip(seen).filter(|(_, seen)| !seen) {
            // Somebody deleted its row.
            if pair.held.as_ref().is_some_and(|held| held.taken <= sent) {
                pair.held = None;
            }
        }
    }

    /// Takes what nobody has and is this node's share, and gives up what is not.
    fn share(&mut self, survey: &Survey) {
        let Some(me) = survey.nodes.iter().position(|node| node.owner == *self.owner) else {
            return;
        };
        let nodes: Vec<_> =
            survey.nodes.iter().map(|node| Peer { knows: node.knows.clone() }).collect();
        let owners: BTreeMap<_, _> =
            survey.nodes.iter().enumerate().map(|(at, node)| (node.owner.as_str(), at)).collect();
        let seats: Vec<_> = survey
            .cursors
            .iter()
            .map(|cursor| Seat {
                key: cursor.pair.key(),
                leader: cursor.leader.as_deref().and_then(|leader| owners.get(leader).copied()),
            })
            .collect();
        let plan = balance(self.options.leadership, &nodes, &seats, me);
        let mut leaving = vec![false; self.pairs.len()];
        for at in plan.give {
            if let Some(&pair) = self.by_id.get(&survey.cursors[at].pair) {
                leaving[pair] = true;
            }
        }
        for (pair, leaving) in self.pairs.iter_mut().zip(leaving) {
            if let Some(held) = &mut pair.held {
                held.leaving = leaving;
            }
        }
        let wanted: Vec<_> = plan
            .take
            .into_iter()
            .map(|at| &survey.cursors[at])
            .filter_map(|cursor| {
                let pair = &self.pairs[*self.by_id.get(&cursor.pair)?];
                // While something of it is under way from the last time, it is not taken again.
                (pair.held.is_none() && !pair.busy).then(|| Seen {
                    pair: Arc::clone(&pair.id),
                    leader: cursor.leader.clone(),
                    epoch: cursor.epoch,
                })
            })
            .collect();
        if wanted.is_empty() || self.taking {
            return;
        }
        self.taking = true;
        let (journal, owner) = (self.journal.clone(), Arc::clone(&self.owner));
        let limit = self.options.store_timeout;
        self.events.spawn(async move {
            let taken = timeout(limit, journal.store().take(&owner, &wanted)).await;
            Event::Took(wanted, taken.unwrap_or(Err(StoreError::Timeout)))
        });
    }

    fn on_took(&mut self, wanted: &[Seen], taken: Result<Vec<Cursor>, StoreError>, now: Instant) {
        self.taking = false;
        let taken = match taken {
            Ok(taken) => taken,
            Err(error) => {
                warn!(error = report(&error), "pairs could not be taken; trying again");
                return;
            }
        };
        for cursor in taken {
            let Some(&at) = self.by_id.get(&cursor.pair) else { continue };
            let before = wanted.iter().find(|seen| *seen.pair == cursor.pair);
            let failover = before.is_some_and(|seen| seen.leader.is_some());
            let pair = &mut self.pairs[at];
            info!(pair = %pair.id, epoch = cursor.epoch, position = %cursor.position, failover,
                  "this node leads the pair");
            let mut held = Held::new(&cursor, now);
            held.leaving = self.stopping;
            pair.held = Some(held);
            pair.begin_afresh(now);
            self.metrics.tell(|metrics| metrics.took(&pair.id, failover));
            self.tally.took(failover);
        }
        self.count_leading();
    }

    /// Gives up what is to be given up, once nothing of it is under way: whoever takes it begins
    /// exactly where this node ended.
    fn give(&mut self) {
        let mut giving = Vec::new();
        for (at, pair) in self.pairs.iter_mut().enumerate() {
            let Some(held) = &mut pair.held else { continue };
            let unstored = held.at > held.stored && !held.stale;
            if held.leaving && !held.giving && !pair.busy && held.is_stored() && !unstored {
                held.giving = true;
                giving.push((at, held.epoch));
            }
        }
        if giving.is_empty() {
            return;
        }
        let named: Vec<_> =
            giving.iter().map(|(at, epoch)| (Arc::clone(&self.pairs[*at].id), *epoch)).collect();
        let (journal, owner) = (self.journal.clone(), Arc::clone(&self.owner));
        let limit = self.options.store_timeout;
        self.events.spawn(async move {
            let given = timeout(limit, journal.store().give(&owner, &named)).await;
            Event::Gave(giving, given.unwrap_or(Err(StoreError::Timeout)))
        });
    }

    fn on_gave(&mut self, pairs: &[(usize, i64)], given: Result<(), StoreError>) {
        for &(at, epoch) in pairs {
            let pair = &mut self.pairs[at];
            let Some(held) = pair.held.as_mut().filter(|held| held.epoch == epoch) else {
                continue;
            };
            held.giving = false;
            if given.is_ok() || self.stopping {
                pair.held = None;
                self.metrics.tell(|metrics| metrics.gave(&pair.id));
            }
        }
        self.count_leading();
        if let Err(error) = given {
            warn!(error = report(&error), "pairs could not be given up; their lease runs out");
        }
    }
}

/// What the feed tells; never, where there is none.
async fn fed(feed: &mut Option<Feeding>) -> Option<Fed> {
    match feed {
        Some(feed) => feed.told.recv().await,
        None => std::future::pending().await,
    }
}
