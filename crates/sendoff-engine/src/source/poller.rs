//! Claims visible rows into the cold lane, as many as fit.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::{EventId, Lane, Paused, Waited, report};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::key_looks::KeysFound;
use super::{
    Admission, Ask, Asking, Deadline, Fair, Handover, KeyLooks, KeyTurn, Parcel, Speed, Ticket,
    Turns, Wanted,
};
use crate::appetite::Portion;
use crate::dispatch::{Due, Route, deferred_for};
use crate::lock::lock;
use crate::operate::{Failed, Streak};
use crate::options::{MIB, OutboxOptions};
use crate::settle::{Completion, Completions};
use crate::store::{
    Answer, Claim, Claimed, Claims, EventKind, Except, OutboxStore, Outcome, StoreError, Suspects,
    check_ready, first_contact, within,
};

/// Claims visible rows into the cold lane: the way of every event that did not take the hot one.
#[derive(Clone)]
pub(crate) struct Poller {
    pub(crate) store: Arc<dyn OutboxStore>,
    pub(crate) handover: Arc<Handover>,
    pub(crate) completions: Completions,
    pub(crate) options: Arc<OutboxOptions>,
    pub(crate) owner: Arc<str>,
    pub(crate) asking: Arc<Asking>,
    /// The same for handlers that are slow; see [`Speed`]. What one of them has seen is not what another
    /// claim has.
    pub(crate) slow_asking: Arc<Asking>,
    /// What shares claims among tenants, where they are shared.
    pub(crate) fair: Option<Arc<Fair>>,
    /// The same for handlers that are slow.
    pub(crate) slow_fair: Option<Arc<Fair>>,
    /// Keys with something to deliver, where that is kept in order.
    pub(crate) keys: Arc<KeyLooks>,
    /// One suspect at a time, also when somebody polls by hand.
    pub(crate) suspecting: Arc<tokio::sync::Mutex<()>>,
    /// When suspects of handlers have theirs that always have as many runs as they may.
    pub(crate) busy_turns: Arc<Mutex<Turns>>,
    /// Whether writers were told to ring.
    pub(crate) armed: Arc<AtomicBool>,
    pub(crate) stop: CancellationToken,
}

/// How a look at the table ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pass {
    /// Nothing more was visible, but for events of handlers that were left out.
    Drained { left_out: Vec<Route> },
    /// A whole batch came; there may be more.
    Full,
    /// The cold lane has no room for a batch; there may be more.
    NoRoom,
}

impl Pass {
    fn is_drained(&self) -> bool {
        matches!(self, Self::Drained { .. })
    }
}

/// How far a look goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// From where the last one came to, if looks from the beginning are slow.
    Onward,
    /// Over all there is.
    Whole,
}

/// What is not asked for.
#[derive(Debug, Default)]
struct Excluded {
    kinds: Vec<(String, String)>,
    types: Vec<String>,
}

impl Excluded {
    fn kinds(&self) -> Vec<EventKind<'_>> {
        self.kinds.iter().map(EventKind::from).collect()
    }

    fn types(&self) -> Vec<&str> {
        self.types.iter().map(String::as_str).collect()
    }
}

fn owned(kind: EventKind<'_>) -> (String, String) {
    (kind.aggregate_type.to_owned(), kind.event_type.to_owned())
}

/// The most bytes of one claim, where the cold lane holds four times as many.
const CLAIM_BYTES: usize = 16 * MIB;

/// Intervals between the turns of suspects whose handlers are always busy.
const BUSY_TURNS: u32 = 6;

/// Failed passes in a row wait this long at first, then twice as long each time, up to the interval.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

impl Poller {
    /// When suspects of busy handlers have their turns.
    pub(crate) fn busy_turns(options: &OutboxOptions) -> Turns {
        Turns::new(options.poll_interval.saturating_mul(BUSY_TURNS), Instant::now())
    }

    /// How a poller of this configuration asks.
    pub(crate) fn asking(options: &OutboxOptions, store: Arc<dyn OutboxStore>) -> Asking {
        let rows = options.poll_batch.min(options.cold_capacity);
        // Less than the lane, so that it is filled up while it is worked off.
        let most = Portion { rows, bytes: CLAIM_BYTES.min(options.cold_bytes.div_ceil(4)) };
        Asking::new(store, most, options.poll_interval, options.statement_limit())
    }

    /// What shares claims of this configuration among tenants.
    pub(crate) fn fair(options: &OutboxOptions) -> Option<Arc<Fair>> {
        let fair = |fair| Arc::new(Fair::new(fair, options.statement_limit()));
        options.fair.as_ref().map(fair)
    }

    /// Waits until the tables were looked at and found as they should be, or until told to stop: nothing
    /// is claimed from tables of which nobody knows what they are.
    pub(crate) async fn wait_for_database(&self) {
        let fair = self.fair.is_some();
        let look = || self.bounded(check_ready(&*self.store, fair));
        let _ = self.stop.run_until_cancelled(first_contact(look)).await;
    }

    /// Polls until told to stop. A claim that is under way then is finished first, so that its rows
    /// are known and can be released.
    pub(crate) async fn run(self) {
        let stop = &self.stop;
        let mut pause = FIRST_PAUSE;
        let mut streak = Streak::default();
        self.armed.store(false, Ordering::Relaxed);
        while !stop.is_cancelled() {
            match self.cycle().await {
                Ok(left_out) => {
                    pause = FIRST_PAUSE;
                    if let Some(after) = streak.over(Instant::now()) {
                        info!(?after, "the database is back: events are claimed");
                    }
                    let _ = stop.run_until_cancelled(self.idle(&left_out)).await;
                }
                Err(error) => {
                    if let Some(Failed { since, failures }) = streak.failed(Instant::now()) {
                        error!(error = report(&error), ?since, failures, "poll failed");
                    }
                    // Whatever the bell was told may be lost with the connection.
                    self.armed.store(false, Ordering::Relaxed);
                    let _ = stop.run_until_cancelled(tokio::time::sleep(pause)).await;
                    pause = (pause * 2).min(self.options.poll_interval.max(FIRST_PAUSE));
                }
            }
        }
    }

    /// Empties the table of what is visible, as fast as the lane takes it: the interval is for
    /// idling, not a rate limit. Suspects have their turn when nothing else is left, and once an
    /// interval under endless load; so have handlers that are slow. The bell is armed before the last
    /// look, and disarmed only by more work than fits one batch: then nobody has to ring. Answers for
    /// whom nothing was claimed.
    async fn cycle(&self) -> Result<Vec<Route>, StoreError> {
        let stop = &self.stop;
        let mut turns = Turns::new(self.options.poll_interval, Instant::now());
        let mut key_turn = KeyTurn::default();
        let mut keys_first = false;
        while !stop.is_cancelled() {
            // In turns: who comes second finds the lane full while the other has enough to fill it.
            let first = match keys_first && key_turn.is_due(Instant::now()) {
                true => self.keys_pass(&mut key_turn).await?,
                false => None,
            };
            keys_first &= first.is_none();
            let pass = self.pass(Reach::Onward, Speed::Usual).await;
            if matches!(pass, Err(StoreError::Refused(_))) {
                // Rows that refuse are no reason to keep suspects waiting.
                self.suspects_in_turn().await?;
            }
            let pass = pass?;
            keys_first |= pass == Pass::Full;
            let keys = match (first, pass.is_drained()) {
                (Some(found), _) => found,
                (None, false) if pass == Pass::NoRoom => KeysFound::NoRoom,
                (None, false) if !key_turn.is_due(Instant::now()) => KeysFound::Drained,
                (None, _) => self.keys_pass(&mut key_turn).await?.unwrap_or(KeysFound::Drained),
            };
            let drained = pass.is_drained() && keys != KeysFound::More;
            if !drained && self.armed.swap(false, Ordering::Relaxed) {
                self.bounded(self.store.disarm()).await?;
            }
            let began = Instant::now();
            if let Pass::Drained { left_out } = pass {
                if keys == KeysFound::More && !turns.is_due(began) {
                    continue;
                }
                let Some(left_out) = self.slow_pass(Reach::Onward, left_out).await? else {
                    continue;
                };
                let found = self.one_suspect().await?;
                turns.over(began, Instant::now());
                if found || keys == KeysFound::More {
                    continue;
                }
                if keys == KeysFound::NoRoom {
                    self.until_keys_have_room(turns.next_at()).await;
                    continue;
                }
                if !self.armed.load(Ordering::Relaxed) && self.bounded(self.store.arm()).await? {
                    self.armed.store(true, Ordering::Relaxed);
                    continue;
                }
                return Ok(left_out);
            }
            if turns.is_due(began) {
                self.slow_pass(Reach::Onward, self.handlers()).await?;
                self.suspects_in_turn().await?;
                turns.over(began, Instant::now());
            } else if pass == Pass::NoRoom {
                let room = self.handover.lanes.room_for(self.asking.portion());
                // A probe that cannot begin although it may is not waited for.
                let probe = self.handover.lanes.probe_at().filter(|at| *at > Instant::now());
                let turn = turns.next_at();
                let turn = tokio::time::sleep_until(probe.map_or(turn, |probe| probe.min(turn)));
                tokio::select! {
                    biased;
                    () = stop.cancelled() => {}
                    () = room => {}
                    () = turn => {}
                }
            }
        }
        Ok(Vec::new())
    }

    /// One look for keys, and one for those of slow handlers. Nothing where the lane has no room for any.
    async fn keys_pass(&self, turn: &mut KeyTurn) -> Result<Option<KeysFound>, StoreError> {
        if !self.store.keeps_order() {
            return Ok(Some(KeysFound::Drained));
        }
        let began = Instant::now();
        let mut found = None;
        for (speed, asking) in [(Speed::Usual, &self.asking), (Speed::Slow, &self.slow_asking)] {
            let Some(wanted) = self.handover.lanes.wanted(asking.portion(), speed) else {
                continue;
            };
            let Some(excluded) = self.excluded(&wanted.except) else { continue };
            let (kinds, types) = (excluded.kinds(), excluded.types());
            let except = Except { kinds: &kinds, types: &types };
            match self.keys.look(&wanted, except, speed).await? {
                KeysFound::Drained => found = found.or(Some(KeysFound::Drained)),
                KeysFound::NoRoom => {
                    found = Some(KeysFound::NoRoom);
                    break;
                }
                KeysFound::More => found = Some(KeysFound::More),
            }
        }
        if let Some(found) = found {
            turn.looked(began, Instant::now(), found != KeysFound::Drained);
        }
        Ok(found)
    }

    /// Keys are full: waits until half of what may be in hand is over, or for a turn of others.
    async fn until_keys_have_room(&self, turn: Instant) {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            () = self.handover.keys.has_room() => {}
            () = self.handover.alarm.wait_for(turn.saturating_duration_since(Instant::now())) => {}
        }
    }

    /// Waits until there may be work, also for handlers that were left out.
    async fn idle(&self, left_out: &[Route]) {
        tokio::select! {
            biased;
            () = self.handover.alarm.wait() => {}
            () = self.rung() => {}
            () = self.wanted_again(left_out) => {}
        }
    }

    async fn rung(&self) {
        let limit = self.options.statement_limit();
        let rung = self.handover.pauses.rung(&*self.store, &self.armed, limit).await;
        if let Err(error) = rung {
            warn!(error = report(&error), "could not disarm the bell");
        }
    }

    /// From now on this is paused, and nothing else.
    pub(crate) fn pause(&self, paused: &Arc<Paused>) {
        let Handover { lanes, handlers, alarm, .. } = &*self.handover;
        let released = lanes.pause(paused, &handlers.now().paused(paused));
        if released > 0 {
            info!(released, "released: what was not begun of what is paused");
        }
        // What was left out may lie before what was seen since.
        self.asking.put_back();
        self.slow_asking.put_back();
        self.keys.again();
        alarm.ring();
    }

    /// This node has other handlers from now on, which have queues already: what waits for them in the table
    /// is looked for.
    pub(crate) fn look_again(&self) {
        self.handover.unknown.look_again();
        self.pause(&self.handover.pauses.now());
        self.handover.alarm.ring_after(deferred_for(self.options.handler.unroutable));
    }

    async fn wanted_again(&self, left_out: &[Route]) {
        let (usual, slow) = (self.asking.portion(), self.slow_asking.portion());
        self.handover.lanes.wanted_again(left_out, usual, slow).await;
    }

    /// One claim, of as much as fits a batch; or two, where the first did not begin at the beginning.
    async fn pass(&self, reach: Reach, speed: Speed) -> Result<Pass, StoreError> {
        let (asking, fair) = match speed {
            Speed::Usual => (&self.asking, &self.fair),
            Speed::Slow => (&self.slow_asking, &self.slow_fair),
        };
        let mut fair = fair.as_deref();
        loop {
            let wanted = self.handover.lanes.wanted(asking.portion(), speed);
            let Some(Wanted { mut portion, except: left_out }) = wanted else {
                return Ok(Pass::NoRoom);
            };
            if let Some(fair) = fair.take() {
                portion = match self.shared(fair, portion, &left_out).await? {
                    Some(rest) => rest,
                    None => return Ok(Pass::Full),
                };
            }
            let ask = match reach {
                Reach::Onward => asking.next(),
                Reach::Whole => asking.next_whole(),
            };
            let ask = ask.with(portion);
            let (until, epoch) = (Deadline::after(self.options.hold), self.store.epoch());
            let _look = self.handover.holds.looks.begin();
            let claimed = self.claim(&ask, Suspects::Skip, &left_out).await;
            let claimed = claimed.inspect_err(|error| asking.failed(&ask, error))?;
            let full = asking.answered(&ask, &claimed.rows) || claimed.cut;
            if !claimed.rows.is_empty() {
                self.handover.pauses.found();
            }
            for row in claimed.rows {
                self.take_in(row, until, epoch).await;
            }
            if full {
                return Ok(Pass::Full);
            }
            match asking.hidden_for(&ask) {
                // What became visible late is left out no longer: now from the beginning.
                Some(Duration::ZERO) => {}
                Some(later) => {
                    self.handover.alarm.ring_after(later);
                    return Ok(Pass::Drained { left_out });
                }
                None => return Ok(Pass::Drained { left_out }),
            }
        }
    }

    /// Claims what tenants have of a portion, each its share. Answers what is left of it for whomever; nothing,
    /// if it is full.
    async fn shared(
        &self,
        fair: &Fair,
        portion: Portion,
        left_out: &[Route],
    ) -> Result<Option<Portion>, StoreError> {
        let (until, epoch) = (Deadline::after(self.options.hold), self.store.epoch());
        let _look = self.handover.holds.looks.begin();
        let Some(excluded) = self.excluded(left_out) else { return Ok(Some(portion)) };
        let (kinds, types) = (excluded.kinds(), excluded.types());
        let except = Except { kinds: &kinds, types: &types };
        let claim = self.claim_of(&Ask::whole(portion), Suspects::Skip, except);
        let rows = fair.claim(&*self.store, &claim, portion).await?;
        let rest = (!portion.is_filled_by(&rows)).then(|| portion.without(&rows));
        if !rows.is_empty() {
            self.handover.pauses.found();
        }
        for row in rows {
            self.take_in(row, until, epoch).await;
        }
        Ok(rest)
    }

    /// A claim for those of these handlers that are slow, if one of them has room. Answers for which
    /// nothing was claimed; nothing, if there may be more.
    async fn slow_pass(
        &self,
        reach: Reach,
        mut left_out: Vec<Route>,
    ) -> Result<Option<Vec<Route>>, StoreError> {
        let wanted = self.handover.lanes.wanted(self.slow_asking.portion(), Speed::Slow);
        let is_for = |wanted: &Wanted| left_out.iter().any(|route| !wanted.except.contains(route));
        if !wanted.as_ref().is_some_and(is_for) {
            return Ok(Some(left_out));
        }
        match self.pass(reach, Speed::Slow).await? {
            Pass::Full => Ok(None),
            Pass::NoRoom => Ok(Some(left_out)),
            Pass::Drained { left_out: still } => {
                left_out.retain(|route| still.contains(route));
                Ok(Some(left_out))
            }
        }
    }

    /// All of them.
    fn handlers(&self) -> Vec<Route> {
        self.handover.handlers.now().routes().collect()
    }

    /// Takes what is visible and fits the cold lane, for a caller who polls by hand. Answers whether
    /// it came to the end of it.
    pub(crate) async fn poll_once(&self) -> Result<bool, StoreError> {
        let left_out = loop {
            match self.pass(Reach::Whole, Speed::Usual).await? {
                Pass::Full => {}
                Pass::NoRoom => return Ok(false),
                Pass::Drained { left_out } => {
                    if let Some(left_out) = self.slow_pass(Reach::Whole, left_out).await? {
                        break left_out;
                    }
                }
            }
        };
        let mut turn = KeyTurn::default();
        let keys = loop {
            match self.keys_pass(&mut turn).await? {
                Some(KeysFound::More) => {}
                Some(KeysFound::NoRoom) => break false,
                Some(KeysFound::Drained) | None => break true,
            }
        };
        while self.one_suspect().await? {}
        Ok(keys && left_out.is_empty())
    }

    /// Suspects one after the other, for about an interval: the first has waited for the lane to
    /// drain, and those after it need not.
    async fn suspects_in_turn(&self) -> Result<(), StoreError> {
        let end = Instant::now() + self.options.poll_interval;
        while self.one_suspect().await? && Instant::now() < end && !self.stop.is_cancelled() {}
        Ok(())
    }

    /// Runs one suspect, while nothing else of the cold lane is held: an event that kills the
    /// process must not take its neighbours' attempts with it. Answers whether one was run.
    ///
    /// Every wait is bounded, since nothing else is claimed meanwhile. The lane gets some time to
    /// drain; what still waits in it then goes back to the table; and what is in work for as long
    /// again hangs, and is no company. A suspect that hangs is left to hang. Nobody waits for a suspect
    /// of a handler that cannot begin it: it is left out, or left to others.
    async fn one_suspect(&self) -> Result<bool, StoreError> {
        let _one = self.suspecting.lock().await;
        if !self.handover.lanes.is_open() {
            return Ok(false);
        }
        let (until, epoch) = (Deadline::after(self.options.hold), self.store.epoch());
        let ask = Ask::whole(Portion::ONE);
        let look = self.handover.holds.looks.begin();
        let left_out = self.too_busy_for_suspects();
        let Some(row) = self.claim(&ask, Suspects::Only, &left_out).await?.rows.pop() else {
            drop(look);
            return self.one_suspect_key(&left_out).await;
        };
        if self.is_stray(&row) {
            self.take_in(row, until, epoch).await;
            return Ok(true);
        }
        let id = row.id;
        let admission = self.handover.holds.admit(row.held(), until, Lane::Cold);
        drop(look);
        let Admission::Ticket(ticket) = admission else { return Ok(false) };
        if !row.can_run(self.options.retry.max_attempts) {
            // It ends, and need not be alone for that.
            self.hand_over(row, ticket, epoch).await;
            return Ok(true);
        }
        if self.stop.run_until_cancelled(self.alone(id)).await != Some(true) {
            return Ok(false);
        }
        warn!(event.id = %id, attempts = row.attempts, "lost with its holder before: runs alone");
        if !self.hand_over(row, ticket, epoch).await {
            // Nothing is taken for its handler: nor would the next one be.
            return Ok(false);
        }
        Ok(self.runs_alone(id).await)
    }

    /// The same for a key, with the first of its events.
    async fn one_suspect_key(&self, left_out: &[Route]) -> Result<bool, StoreError> {
        if !self.store.keeps_order() {
            return Ok(false);
        }
        let Some(excluded) = self.excluded(left_out) else { return Ok(false) };
        let (kinds, types) = (excluded.kinds(), excluded.types());
        let epoch = self.store.epoch();
        let suspect = self.keys.suspect(Except { kinds: &kinds, types: &types }).await?;
        let Some((key, until, run)) = suspect else { return Ok(false) };
        let Some(row) = run.rows.first() else {
            self.keys.give_back(&key, until);
            return Ok(false);
        };
        let (id, attempts) = (row.id, row.attempts);
        if row.can_run(self.options.retry.max_attempts) {
            if self.stop.run_until_cancelled(self.alone(id)).await != Some(true) {
                self.keys.give_back(&key, until);
                return Ok(false);
            }
            warn!(event.id = %id, attempts, "lost with its holder before: runs alone");
        }
        self.keys.begin(&key, until, run, epoch);
        // Nothing may be taken for its handler: nor would the next one be.
        Ok(self.handover.holds.has(id) && self.runs_alone(id).await)
    }

    /// Waits for a suspect that was handed over, and answers whether it was begun.
    async fn runs_alone(&self, id: EventId) -> bool {
        let Handover { holds, lanes, .. } = &*self.handover;
        let patience = self.patience();
        let _ = self.stop.run_until_cancelled(holds.gone(id, patience)).await;
        if !holds.is_begun(id) {
            // Every worker is busy, or its handler has become so.
            lanes.recall_cold().into_iter().for_each(|parcel| parcel.ticket.leave_to_others());
            return false;
        }
        let rest = self.options.hold.saturating_sub(patience);
        let _ = self.stop.run_until_cancelled(holds.gone(id, rest)).await;
        true
    }

    /// Handlers whose suspects are left out: nobody should wait for one of these. A handler that merely has
    /// much to do has its turn now and then, or its suspects would wait for ever; and one that is alone
    /// keeps nobody else waiting, and is left out only while nothing is taken for it.
    fn too_busy_for_suspects(&self) -> Vec<Route> {
        let Handover { handlers, lanes, .. } = &*self.handover;
        if handlers.now().count() <= 1 {
            return lanes.shut();
        }
        let now = Instant::now();
        let mut turns = lock(&self.busy_turns);
        if !turns.is_due(now) {
            return lanes.busy();
        }
        turns.over(now, now);
        lanes.stuck(self.patience())
    }

    /// How long others are waited for on behalf of a suspect, at each step.
    fn patience(&self) -> Duration {
        self.options.poll_interval.min(self.options.hold)
    }

    /// Waits until nothing of the cold lane is in work beside `id`.
    async fn alone(&self, id: EventId) -> bool {
        let Handover { holds, lanes, .. } = &*self.handover;
        let patience = self.patience();
        if holds.alone(id, patience).await {
            return true;
        }
        let _clearing = lanes.clear_cold();
        holds.alone(id, patience).await
    }

    async fn claim(
        &self,
        ask: &Ask,
        suspects: Suspects,
        left_out: &[Route],
    ) -> Result<Claims, StoreError> {
        let Some(excluded) = self.excluded(left_out) else { return Ok(Claims::default()) };
        let (kinds, types) = (excluded.kinds(), excluded.types());
        let claim = self.claim_of(ask, suspects, Except { kinds: &kinds, types: &types });
        self.bounded(self.store.claim(&claim)).await
    }

    fn claim_of<'c>(&'c self, ask: &Ask, suspects: Suspects, except: Except<'c>) -> Claim<'c> {
        Claim {
            bytes: ask.portion.bytes,
            from: ask.from,
            skip_recent: self.options.skip_recent,
            except,
            suspects,
            ..Claim::new(&self.owner, ask.portion.rows, self.options.hold)
        }
    }

    /// What is not asked for: what is paused, what these handlers have no room for, what is left to others.
    /// None if that is everything.
    fn excluded(&self, left_out: &[Route]) -> Option<Excluded> {
        let Handover { handlers, pauses, unknown, .. } = &*self.handover;
        let (paused, strange) = (pauses.now(), unknown.strange(Instant::now()));
        if paused.is_all() {
            return None;
        }
        let handlers = handlers.now();
        let mut routes = handlers.paused(&paused);
        routes.extend(left_out.iter().filter(|route| !routes.contains(route)).collect::<Vec<_>>());
        if handlers.is_beyond_claims(&routes) {
            // What it has no room for would be claimed again and again.
            return None;
        }
        let mut excluded = Excluded::default();
        excluded.kinds.extend(handlers.kinds_of(&routes).into_iter().map(owned));
        excluded.kinds.extend(handlers.seen_of(&routes));
        excluded.kinds.extend(strange.kinds().map(owned));
        excluded.types.extend(paused.types().chain(strange.types()).map(str::to_owned));
        Some(excluded)
    }

    async fn bounded<T>(&self, asked: impl Future<Output = Answer<T>>) -> Answer<T> {
        let limit = self.options.statement_limit();
        within(limit, asked).await
    }

    async fn take_in(&self, row: Claimed, until: Deadline, epoch: u64) {
        if self.is_stray(&row) {
            // Its turn is decided by its key: released, it is in line.
            self.keys.again();
            return self.handover.holds.release(row.held());
        }
        let admission = self.handover.holds.admit(row.held(), until, Lane::Cold);
        if let Admission::Ticket(ticket) = admission {
            self.hand_over(row, ticket, epoch).await;
        }
    }

    /// Whether a row has a key, and no place in its line yet.
    fn is_stray(&self, row: &Claimed) -> bool {
        row.event.as_ref().is_ok_and(|event| self.handover.key_of(event).is_some())
    }

    fn due(&self, row: Claimed) -> Result<Due, Outcome> {
        Due::of(row, self.options.retry.max_attempts, self.options.handler.after_dead)
    }

    /// Into the lane, or to its end where it can go no further. Answers whether it went either way.
    async fn hand_over(&self, row: Claimed, ticket: Ticket, epoch: u64) -> bool {
        let attempt = row.attempt();
        let Due { delivery, attempt, waited } = match self.due(row) {
            Ok(due) => due,
            Err(outcome) => {
                self.completions.send(Completion { ticket, attempt, outcome }).await;
                return true;
            }
        };
        let waited = (waited != Waited::default()).then(|| Box::new(waited));
        let route = self.handover.handlers.now().route_of(&delivery.event);
        match self.handover.lanes.offer(Parcel { delivery, attempt, ticket, route, waited, epoch })
        {
            Ok(()) => {
                self.handover.observer.tell(|metrics| metrics.cold_enqueued());
                true
            }
            // There was room when it was claimed; somebody who polled by hand was quicker, or every
            // worker is stuck by now.
            Err(parcel) => {
                parcel.ticket.leave_to_others();
                false
            }
        }
    }
}
