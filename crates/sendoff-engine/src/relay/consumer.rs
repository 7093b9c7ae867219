//! Takes batches of due events, held or locked.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use sendoff_core::{Event, Holding, RetryPolicy, limits, report};
use tokio::time::Instant;
use tracing::warn;

use super::batch::{Batch, PutBack, Source};
use super::options::{ClaimMode, RelayOptions};
use super::routing::{LeftOut, Narrow, Routing, takes_all};
use crate::appetite::Portion;
use crate::dispatch::{Company, Due, FollowUp, Place, Strange};
use crate::lock::lock;
use crate::options::{HandlerOptions, OptionsError, RetryOptions};
use crate::owner::owner;
use crate::settle::{Refusals, Terms};
use crate::sink::shielded_policy;
use crate::source::{
    Ask, Asking, Breadth, Deadline, Fair, HeldKeys, HeldRows, Holds, KeyTurn, Locked, Mine, Pauses,
    Register, Turns, Walk, is_cut,
};
use crate::store::{
    Answer, Claim, Claimed, Claims, Except, KeyRun, Lock, LockStore, LockedRows, OutboxStore,
    Outcome, RunsWanted, StoreError, Suspects, TakeKeys, within,
};

/// Everything a relay asks of a store.
pub trait RelayStore: OutboxStore + LockStore {}

impl<S: OutboxStore + LockStore> RelayStore for S {}

/// Takes due events in batches. Cheap to clone; clones are one consumer.
///
/// ```
/// use sendoff_engine::memory::MemoryStore;
/// use sendoff_engine::relay::{Consumer, RelayOptions};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let consumer = Consumer::new(MemoryStore::new(), RelayOptions::default())?;
/// while let Some(mut batch) = consumer.fetch().await? {
///     let ids: Vec<_> = batch.records().map(|record| record.id()).collect();
///     for id in ids {
///         batch.ack(id)?;
///     }
///     batch.commit().await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Consumer(Arc<Inner>);

struct Inner {
    store: Arc<dyn RelayStore>,
    options: RelayOptions,
    owner: Arc<str>,
    follow_up: FollowUp,
    company: Company,
    asking: Arc<Asking>,
    /// What shares claims among tenants, where they are shared.
    fair: Option<Fair>,
    pauses: Arc<Pauses>,
    /// Of whoever fetches by hand, and takes everything.
    register: OnceLock<Register>,
    /// What is in flight by holds, from its claim until its settlement is over.
    holds: Arc<Holds>,
    /// How long a suspect waits to be alone.
    patience: Duration,
    turns: Mutex<Turns>,
    /// Looks so far.
    looks: AtomicU32,
    /// Where to look for rows in line.
    walk: Mutex<Walk>,
    breadth: Mutex<Breadth>,
    /// When to, beside other rows.
    key_turn: Mutex<KeyTurn>,
    /// When rows that the last look left out can be asked for.
    hidden_until: Mutex<Option<Instant>>,
}

/// So often a look is without a window, and for suspects first: neither hides a row for good.
const WIDE_LOOK: u32 = 8;

impl Consumer {
    /// A consumer of this store, with the exponential back-off that `options` describes.
    pub fn new(store: impl RelayStore, options: RelayOptions) -> Result<Self, OptionsError> {
        let retry = options.retry;
        Self::with_retry(store, options, retry)
    }

    /// Like [`new`](Self::new), with a retry policy of one's own.
    pub fn with_retry(
        store: impl RelayStore,
        options: RelayOptions,
        retry: impl RetryPolicy + 'static,
    ) -> Result<Self, OptionsError> {
        // Whoever fetches may have the other batches open, and must not wait for long.
        let patience = options.poll_interval.min(options.hold / 2);
        Self::with(Arc::new(store), options, Arc::new(retry), patience)
    }

    pub(super) fn with(
        store: Arc<dyn RelayStore>,
        options: RelayOptions,
        retry: Arc<dyn RetryPolicy>,
        patience: Duration,
    ) -> Result<Self, OptionsError> {
        options.validate()?;
        let mut random = fastrand::Rng::new();
        let owner = owner(options.node.name.as_deref(), random.u64(..));
        let follow_up = FollowUp::new(
            shielded_policy(retry, options.retry.max),
            options.retry.max_attempts,
            &options.handler,
            Arc::new(Mutex::new(random)),
        );
        let most = Portion { rows: options.batch, bytes: options.batch_bytes };
        let (interval, limit) = (options.poll_interval, options.statement_limit());
        Ok(Self(Arc::new(Inner {
            asking: Arc::new(Asking::new(store.clone(), most, interval, limit)),
            fair: options.fair.as_ref().map(|fair| Fair::new(fair, limit)),
            patience,
            turns: Mutex::new(Turns::new(interval, Instant::now())),
            company: Company::default(),
            holds: Arc::new(Holds::unreleased()),
            pauses: Arc::default(),
            register: OnceLock::new(),
            looks: AtomicU32::new(0),
            walk: Mutex::new(Walk::new(Instant::now())),
            breadth: Mutex::new(Breadth::new(limits::BATCH_ROWS)),
            key_turn: Mutex::default(),
            hidden_until: Mutex::default(),
            store,
            options,
            owner,
            follow_up,
        })))
    }

    /// The next due events; `None` if there are none. A batch is never empty.
    ///
    /// In mode [`Held`](ClaimMode::Held) an event that was lost with its holder twice comes alone,
    /// while no other batch of this consumer is open that is younger than a
    /// [`hold`](RelayOptions::hold).
    ///
    /// Where a look at the whole table is slow, rows that became visible late can take up to a
    /// [`poll_interval`](RelayOptions::poll_interval) to be seen.
    ///
    /// Cancel-safe in mode [`Locked`](ClaimMode::Locked); in the other, rows of a fetch that nobody
    /// received are visible again when their hold ends.
    pub async fn fetch(&self) -> Result<Option<Batch>, StoreError> {
        self.0.register.get_or_init(|| self.register(Arc::new(takes_all))).look_if_old().await;
        self.fetch_for(None).await
    }

    /// The same for handlers: nothing for those that have all the runs they may have; and what one
    /// transaction locks is one handler's, or another's events would wait for it.
    pub(super) async fn fetch_for(
        &self,
        routing: Option<&Routing>,
    ) -> Result<Option<Batch>, StoreError> {
        self.look_at_pauses().await?;
        if self.0.pauses.now().is_all() {
            return Ok(None);
        }
        loop {
            let look = self.0.looks.fetch_add(1, Ordering::Relaxed);
            let wide = look % WIDE_LOOK == WIDE_LOOK - 1;
            // Every other look is for what is ordered first, so that neither waits for the other.
            let keys_first = look % 2 == 1 && lock(&self.0.key_turn).is_due(Instant::now());
            let mut fetched = match keys_first {
                true => self.0.key_batch_in_turn(routing).await?,
                false => None,
            };
            if fetched.is_none() {
                fetched = match self.0.options.mode {
                    ClaimMode::Locked => self.0.locked(wide, routing).await?,
                    ClaimMode::Held => self.0.held_batch(wide, routing).await?,
                };
            }
            if fetched.is_none() && !keys_first {
                fetched = self.0.key_batch_in_turn(routing).await?;
            }
            match fetched {
                // All of its rows are dead before anybody saw them, or in flight already: on to
                // the next ones.
                Some(batch) if batch.records.is_empty() => {
                    batch.commit().await?;
                }
                fetched => return Ok(fetched),
            }
        }
    }

    /// What makes it one of several nodes, which handle these kinds.
    pub(super) fn register(&self, mine: Mine) -> Register {
        let Inner { store, follow_up, options, .. } = &*self.0;
        Register::new(store.clone(), mine, follow_up, options.statement_limit())
    }

    /// There are other handlers: what there was none for, or was left out, is looked for again.
    pub(super) fn look_again(&self) {
        self.0.follow_up.unknown().look_again();
        self.paused_anew();
    }

    /// Looks at what is paused, where nobody else does and the last look is too old.
    pub(super) async fn look_at_pauses(&self) -> Result<(), StoreError> {
        if self.bounded(self.0.pauses.look_if_old(&*self.0.store)).await?.is_some() {
            self.paused_anew();
        }
        Ok(())
    }

    /// Looks at what is paused now.
    pub(super) async fn see_pauses(&self) -> Result<(), StoreError> {
        if self.bounded(self.0.pauses.look(&*self.0.store)).await?.is_some() {
            self.paused_anew();
        }
        Ok(())
    }

    /// What is paused is not what it was: what was left out may lie before what was seen since.
    pub(super) fn paused_anew(&self) {
        self.0.asking.put_back();
        lock(&self.0.walk).again(Instant::now());
    }

    pub(super) fn pauses(&self) -> &Arc<Pauses> {
        &self.0.pauses
    }

    /// How long until rows that the last look left out can be asked for, once.
    pub(super) fn hidden_for(&self) -> Option<Duration> {
        let until = lock(&self.0.hidden_until).take();
        until.map(|until| until.saturating_duration_since(Instant::now()))
    }

    pub(super) fn options(&self) -> &RelayOptions {
        &self.0.options
    }

    pub(super) fn store(&self) -> &Arc<dyn RelayStore> {
        &self.0.store
    }

    pub(super) async fn bounded<T>(&self, asked: impl Future<Output = Answer<T>>) -> Answer<T> {
        self.0.bounded(asked).await
    }
}

impl Inner {
    async fn locked(
        &self,
        wide: bool,
        routing: Option<&Routing>,
    ) -> Result<Option<Batch>, StoreError> {
        let place = self.company.join(self.options.hold).await;
        let mut ask = self.ask(wide);
        let mut window = self.options.window.filter(|_| !wide);
        let mut narrow = Narrow::default();
        let (paused, strange) = (self.pauses.now(), self.strange());
        loop {
            let left_out = narrow.left_out(routing, &paused);
            let left_out = left_out.and(&strange);
            let lock = Lock {
                except: left_out.except(),
                bytes: ask.portion.bytes,
                window,
                from: ask.from,
                skip_recent: self.options.skip_recent,
                ..Lock::new(ask.portion.rows)
            };
            let found = self.bounded(self.store.lock(&lock)).await;
            let found = found.inspect_err(|error| self.asking.failed(&ask, error))?.map(taken);
            let claimed = found.as_ref().map_or(&[][..], |(_, claimed)| claimed);
            let cut = found.as_ref().is_some_and(|(rows, _)| rows.is_cut());
            let full = self.asking.answered(&ask, claimed) || cut || narrow.is_narrow();
            if narrow.is_narrow() {
                // What was left out is there as it was.
                self.asking.put_back();
            }
            let one = routing.and_then(|routing| routing.one_of_several(claimed));
            if one.is_some_and(|one| narrow.to(one)) {
                if let Some((rows, _)) = found {
                    self.bounded(rows.rollback()).await?;
                }
                continue;
            }
            if window.is_some() && !full {
                // A look with a window that is not full hides nothing: look again without it. A
                // second transaction beside the first would be another connection.
                window = None;
                if let Some((rows, _)) = found {
                    self.bounded(rows.rollback()).await?;
                }
                continue;
            }
            if let Some((rows, claimed)) = found {
                let locked = Source::Locked(self.locked_by(rows, &claimed));
                return Ok(Some(self.batch(claimed, full, locked, place)));
            }
            if narrow.widen() {
                // Others were quicker with what that handler has.
                continue;
            }
            match self.left_out(&ask) {
                Some(wider) => ask = wider,
                None => return Ok(None),
            }
        }
    }

    async fn held_batch(
        &self,
        wide: bool,
        routing: Option<&Routing>,
    ) -> Result<Option<Batch>, StoreError> {
        let their_turn = lock(&self.turns).is_due(Instant::now());
        if (wide || their_turn)
            && let Some(suspect) = self.suspect(routing).await?
        {
            return Ok(Some(suspect));
        }
        let place = self.company.join(self.options.hold).await;
        let window = self.options.window.filter(|_| !wide);
        let (paused, strange) = (self.pauses.now(), self.strange());
        let left_out = LeftOut::of(routing, &paused);
        let left_out = left_out.and(&strange);
        let except = left_out.except();
        // Counted from before the first of its statements.
        let until = Deadline::after(self.options.hold);
        let look = self.holds.looks.begin();
        let shared = self.shared(except).await?;
        let most = self.asking.portion();
        if most.is_filled_by(&shared) {
            let mut rows = shared;
            let held = self.held_rows(&mut rows, until);
            drop(look);
            return Ok(Some(self.batch(rows, true, Source::Held(held), place)));
        }
        let ask = self.ask(wide);
        let ask = ask.with(ask.portion.without(&shared));
        let (mut rows, mut full) = match self.look(&ask, window, except).await {
            Err(error) if !shared.is_empty() => {
                warn!(error = report(&error), "the look for whomever's rows failed");
                (Vec::new(), true)
            }
            looked => looked?,
        };
        if window.is_some() && !full {
            let rest = ask.with(ask.portion.without(&rows));
            match self.look(&rest, None, except).await {
                Ok((older, filled)) => {
                    rows.extend(older);
                    full = filled;
                }
                Err(error) if rows.is_empty() && shared.is_empty() => return Err(error),
                Err(error) => warn!(error = report(&error), "the look beyond the window failed"),
            }
        }
        if rows.is_empty()
            && shared.is_empty()
            && let Some(wider) = self.left_out(&ask)
        {
            (rows, full) = self.look(&wider, None, except).await?;
        }
        if !shared.is_empty() {
            rows.extend(shared);
            rows.sort_by_key(|row| row.was_due);
        }
        let claimed = rows.len();
        let held = self.held_rows(&mut rows, until);
        drop(look);
        if claimed == 0 {
            drop(place);
            return if wide || their_turn { Ok(None) } else { self.suspect(routing).await };
        }
        Ok(Some(self.batch(rows, full, Source::Held(held), place)))
    }

    /// What tenants have of a batch, each its share, where that is wanted.
    async fn shared(&self, except: Except<'_>) -> Result<Vec<Claimed>, StoreError> {
        let Some(fair) = &self.fair else { return Ok(Vec::new()) };
        let portion = self.asking.portion();
        let claim = Claim { except, ..self.claim_of(portion) };
        fair.claim(&*self.store, &claim, portion).await
    }

    async fn key_batch_in_turn(
        &self,
        routing: Option<&Routing>,
    ) -> Result<Option<Batch>, StoreError> {
        let began = Instant::now();
        let batch = self.key_batch(routing).await?;
        lock(&self.key_turn).looked(began, Instant::now(), batch.is_some());
        Ok(batch)
    }

    /// Events of keys that are held for this batch, in order. In mode `Locked` too: an entry is all that is
    /// written for a run, and a transaction that keeps it locked would stand in the way of others' looks.
    async fn key_batch(&self, routing: Option<&Routing>) -> Result<Option<Batch>, StoreError> {
        if !self.store.keeps_order() {
            return Ok(None);
        }
        let (paused, strange) = (self.pauses.now(), self.strange());
        let left_out = LeftOut::of(routing, &paused);
        let left_out = left_out.and(&strange);
        let Portion { rows, bytes } = self.asking.portion();
        let take = TakeKeys {
            owner: &self.owner,
            limit: lock(&self.breadth).keys(1).min(rows),
            run: u32::try_from(rows).unwrap_or(u32::MAX),
            hold: self.options.hold,
            except: left_out.except(),
            suspects: Suspects::Skip,
            walk: Some(lock(&self.walk).next(Instant::now())),
        };
        let until = Deadline::after(self.options.hold);
        let mut taken = self.bounded(self.store.take_keys(&take)).await?;
        let more = lock(&self.walk).walked(taken.walked, Instant::now());
        let mut is_suspect = false;
        if taken.keys.is_empty() && !more {
            is_suspect = true;
            let suspects = TakeKeys { limit: 1, suspects: Suspects::Only, walk: None, ..take };
            taken = self.bounded(self.store.take_keys(&suspects)).await?;
        }
        if taken.keys.is_empty() {
            return Ok(None);
        }
        let share = u32::try_from(rows.div_ceil(taken.keys.len())).unwrap_or(u32::MAX);
        taken.keys.iter_mut().for_each(|key| key.run = key.run.min(share).max(1));
        let wanted = RunsWanted { keys: &taken.keys, bytes };
        let (read, failed) = match self.bounded(self.store.runs(&wanted)).await {
            Ok(read) => (read, None),
            // The keys are let go, and it is said.
            Err(error) => (Vec::new(), Some(error)),
        };
        let mut runs: BTreeMap<Arc<str>, KeyRun> =
            read.into_iter().map(|run| (run.key.clone(), run)).collect();
        let runs = taken.keys.into_iter().map(|key| {
            let nothing = KeyRun { key: key.key.clone(), rows: Vec::new(), whole: false };
            let run = runs.remove(&key.key).unwrap_or(nothing);
            (key, run)
        });
        let runs: Vec<_> = runs.collect();
        let cut = runs.iter().filter(|(key, run)| is_cut(key, run, share)).count();
        lock(&self.breadth).read(runs.len(), cut, rows);
        let (keys, rows) = HeldKeys::new(
            self.store.clone(),
            self.owner.clone(),
            self.terms(),
            &self.holds,
            runs,
            until,
        );
        if let Some(error) = failed {
            return Err(error);
        }
        let place = match is_suspect {
            // Dropped where that does not come to pass in time, its key is let go.
            true => self.company.alone(self.patience, self.options.hold).await,
            false => Some(self.company.join(self.options.hold).await),
        };
        let Some(place) = place else { return Ok(None) };
        Ok(Some(self.batch(rows, more, Source::Keys(keys), place)))
    }

    /// One event that may kill its process, while nothing else of this consumer is in work. Put back
    /// where that does not come to pass in time.
    async fn suspect(&self, routing: Option<&Routing>) -> Result<Option<Batch>, StoreError> {
        let (paused, strange) = (self.pauses.now(), self.strange());
        let left_out = LeftOut::of(routing, &paused);
        let left_out = left_out.and(&strange);
        let began = Instant::now();
        let until = Deadline::after(self.options.hold);
        let look = self.holds.looks.begin();
        let claim = Claim {
            suspects: Suspects::Only,
            except: left_out.except(),
            ..self.claim_of(Portion::ONE)
        };
        let mut rows = self.bounded(self.store.claim(&claim)).await?.rows;
        let held = self.held_rows(&mut rows, until);
        drop(look);
        let place = match &rows[..] {
            [row] if row.can_run(self.options.retry.max_attempts) => {
                self.company.alone(self.patience, self.options.hold).await
            }
            // It ends, and need not be alone for that.
            [_] => Some(self.company.join(Duration::ZERO).await),
            _ => None,
        };
        lock(&self.turns).over(began, Instant::now());
        let [row] = &rows[..] else { return Ok(None) };
        let Some(place) = place else {
            held.settle(BTreeMap::new()).await?;
            self.asking.put_back();
            return Ok(None);
        };
        let (id, attempts) = (row.id, row.attempts);
        warn!(event.id = %id, attempts, "lost with its holder before: comes alone");
        Ok(Some(self.batch(rows, false, Source::Held(held), place)))
    }

    /// What to ask for. A look beyond a window hides nothing.
    fn ask(&self, wide: bool) -> Ask {
        if wide && self.options.window.is_some() {
            self.asking.next_whole()
        } else {
            self.asking.next()
        }
    }

    /// What nobody here handles, and is left to others.
    fn strange(&self) -> Strange {
        self.follow_up.unknown().strange(Instant::now())
    }

    /// The look to make after one that found nothing, if it left something out that can be asked for
    /// now.
    fn left_out(&self, ask: &Ask) -> Option<Ask> {
        let hidden_for = self.asking.hidden_for(ask)?;
        if hidden_for.is_zero() {
            return Some(self.asking.next_whole());
        }
        *lock(&self.hidden_until) = Some(Instant::now() + hidden_for);
        None
    }

    /// Claims what was asked for, and says whether there may be more.
    async fn look(
        &self,
        ask: &Ask,
        window: Option<Duration>,
        except: Except<'_>,
    ) -> Result<(Vec<Claimed>, bool), StoreError> {
        let claim = Claim { from: ask.from, window, except, ..self.claim_of(ask.portion) };
        match self.bounded(self.store.claim(&claim)).await {
            Ok(Claims { rows, cut, .. }) => {
                let full = self.asking.answered(ask, &rows) || cut;
                Ok((rows, full))
            }
            Err(error) => {
                self.asking.failed(ask, &error);
                Err(error)
            }
        }
    }

    fn claim_of(&self, Portion { rows, bytes }: Portion) -> Claim<'_> {
        let RelayOptions { hold, skip_recent, .. } = self.options;
        Claim { bytes, skip_recent, ..Claim::new(&self.owner, rows, hold) }
    }

    fn held_rows(&self, rows: &mut Vec<Claimed>, until: Deadline) -> HeldRows {
        HeldRows::new(self.store.clone(), self.terms(), self.holds.clone(), rows, until)
    }

    fn locked_by(&self, rows: Box<dyn LockedRows>, claimed: &[Claimed]) -> Locked {
        Locked::new(self.store.clone(), self.owner.clone(), self.terms(), rows, claimed)
    }

    fn terms(&self) -> Terms {
        let RelayOptions { hold, retry: RetryOptions { max, max_attempts, .. }, .. } = self.options;
        let after_dead = self.options.handler.after_dead;
        // Something else must be written while the batch is held.
        let refusals = Refusals { patience: hold / 2, delay: max, max_attempts, after_dead };
        Terms { hold, limit: self.options.statement_limit(), refusals }
    }

    fn batch(&self, rows: Vec<Claimed>, full: bool, source: Source, place: Place) -> Batch {
        self.pauses.found();
        let mut records = Vec::with_capacity(rows.len());
        let mut ends = BTreeMap::new();
        for row in rows {
            let id = row.id;
            if self.is_stray(&row) {
                // Its turn is decided by its key: released, it is in line.
                ends.insert(id, Outcome::Released);
                lock(&self.walk).again(Instant::now());
                continue;
            }
            let HandlerOptions { after_dead, .. } = self.options.handler;
            match Due::of(row, self.options.retry.max_attempts, after_dead) {
                Ok(record) => records.push(record),
                Err(end) => {
                    ends.insert(id, end);
                }
            }
        }
        let by_id = records.iter().enumerate().map(|(at, record)| (record.delivery.id(), at));
        Batch {
            by_id: by_id.collect(),
            records: records.into(),
            answers: BTreeMap::new(),
            ends,
            source,
            follow_up: self.follow_up.clone(),
            full,
            put_back: PutBack(Some(self.asking.clone())),
            _place: place,
        }
    }

    /// Whether a row has a key, and no place in its line yet.
    fn is_stray(&self, row: &Claimed) -> bool {
        let has_key = |event: &Event| event.ordering_key().is_some();
        !matches!(row.by, Holding::Key(_))
            && self.store.keeps_order()
            && row.event.as_ref().is_ok_and(has_key)
    }

    async fn bounded<T>(&self, asked: impl Future<Output = Answer<T>>) -> Answer<T> {
        let limit = self.options.statement_limit();
        within(limit, asked).await
    }
}

fn taken(mut rows: Box<dyn LockedRows>) -> (Box<dyn LockedRows>, Vec<Claimed>) {
    let claimed = rows.take();
    (rows, claimed)
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("owner", &self.0.owner).finish_non_exhaustive()
    }
}
