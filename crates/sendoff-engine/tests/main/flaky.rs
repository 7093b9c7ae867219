//! A store in memory that fails, hangs or is slow when told, and what the engine makes of that.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{AuditNote, EventId, Letter, LetterFate, Pause, PauseScope, Timestamp};
use sendoff_engine::capture::{Capture, Join, JoinError, Part, WriteError};
use sendoff_engine::memory::{MemoryStore, MemoryTx};
use sendoff_engine::store::{
    AuditEntry, AuditPage, Born, ChangeLetters, Claim, ClaimStore, Claimed, Claims, Confirmed,
    Counts, Cutoff, EndStore, EventKind, EventRecord, ExtendKeys, Extended, ExtendedKeys, Held,
    Horizon, InspectStore, KeyRun, KeyStore, Lateness, LetterPage, LetterStore, Lock, LockStore,
    LockedRows, NewRow, Outcome, ParkStore, PauseStore, PayloadWanted, Purge, Purged,
    RegisterStore, Registered, ReplayPage, ReplayStore, ReplayTally, Replayable, RetainStore, Row,
    RunEnd, RunsWanted, SettleStore, Settled, SettledRuns, Settlement, Standing, StoreError,
    Suspects, TakeKeys, TakenKeys, TenantWalk, TenantsFound, TopicCounts, Trail, WakeStore, Window,
};
use tokio::sync::Notify;
use tokio::time::Instant;

/// A store in memory whose statements fail when told.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flaky {
    pub(crate) table: MemoryStore,
    troubles: Arc<Troubles>,
}

#[derive(Default)]
struct Troubles {
    claims: AtomicUsize,
    key_looks: AtomicUsize,
    asked: AtomicUsize,
    claimed: AtomicUsize,
    settlements: AtomicUsize,
    batches: AtomicUsize,
    purges: AtomicIsize,
    down: AtomicBool,
    refuses: Mutex<Option<Refuses>>,
    /// Why what an inbox saw is not forgotten, the next time.
    remembers: Mutex<Option<StoreError>>,
    hangs: Mutex<Option<Hangs>>,
    hanging: AtomicUsize,
    takes: Mutex<Duration>,
    idle_limit: Mutex<Option<Duration>>,
    /// Bytes a second, if not zero.
    line: AtomicUsize,
    /// Milliseconds that a claim from the beginning takes.
    walk: AtomicUsize,
    walks: AtomicUsize,
    /// Milliseconds that every claim takes.
    round_trip: AtomicUsize,
    /// Milliseconds that every extension takes.
    extension: AtomicUsize,
    /// Whether one is under way.
    extending: AtomicBool,
    /// Milliseconds that it takes until a part of a transaction is carried out.
    joins: AtomicUsize,
    /// Rows a claim takes at most, if not zero.
    cut: AtomicUsize,
    epoch: AtomicU64,
    /// Whether it cannot be said or heard who handles what.
    deaf: AtomicBool,
    /// Whether it has no index for fair claims.
    unfair: AtomicBool,
    /// Walks over tenants.
    tenants: AtomicUsize,
    registers: AtomicUsize,
    looks: AtomicUsize,
    has_bell: AtomicBool,
    bell: Notify,
    gone: Mutex<Vec<EventId>>,
    panics: Mutex<Vec<&'static str>>,
}

type Refuses = Box<dyn Fn(EventId, &Outcome) -> bool + Send>;
type Hangs = Box<dyn Fn(&[EventId]) -> bool + Send>;

impl fmt::Debug for Troubles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Troubles").finish_non_exhaustive()
    }
}

impl Flaky {
    /// One over this table.
    pub(crate) fn over(table: MemoryStore) -> Self {
        Self { table, ..Self::default() }
    }

    /// Nothing is answered, or everything again.
    pub(crate) fn set_down(&self, down: bool) {
        self.troubles.down.store(down, Ordering::SeqCst);
    }

    /// What is kept beside the events is not forgotten the next time.
    pub(crate) fn refuse_to_forget(&self, error: StoreError) {
        *self.troubles.remembers.lock().unwrap() = Some(error);
    }

    /// Nobody can say or hear who handles what, or everybody again.
    pub(crate) fn set_deaf(&self, deaf: bool) {
        self.troubles.deaf.store(deaf, Ordering::SeqCst);
    }

    /// How often it was asked whether events are over.
    pub(crate) fn looks(&self) -> usize {
        self.troubles.looks.load(Ordering::SeqCst)
    }

    /// How often somebody said what it handles.
    pub(crate) fn registers(&self) -> usize {
        self.troubles.registers.load(Ordering::SeqCst)
    }

    /// The next statement of each of these kinds panics, as a mistake of ours would.
    pub(crate) fn panic_once(&self, statements: &[&'static str]) {
        self.troubles.panics.lock().unwrap().extend(statements);
    }

    /// Takes the index for fair claims away, or gives it back.
    pub(crate) fn set_unfair(&self, unfair: bool) {
        self.troubles.unfair.store(unfair, Ordering::SeqCst);
    }

    /// How often tenants were walked over.
    /// How often keys were looked for.
    pub(crate) fn key_looks(&self) -> usize {
        self.troubles.key_looks.load(Ordering::SeqCst)
    }

    pub(crate) fn tenant_walks(&self) -> usize {
        self.troubles.tenants.load(Ordering::SeqCst)
    }

    fn step(&self, statement: &str) {
        let mut panics = self.troubles.panics.lock().unwrap();
        if let Some(at) = panics.iter().position(|panics| *panics == statement) {
            panics.remove(at);
            drop(panics);
            std::panic::panic_any("told to");
        }
    }

    /// Rows come over a line of so many bytes a second.
    pub(crate) fn set_line(&self, bytes: usize) {
        self.troubles.line.store(bytes, Ordering::SeqCst);
    }

    /// Claims and locks take no more than so many rows, because of one after them that refuses.
    pub(crate) fn set_cut(&self, rows: usize) {
        self.troubles.cut.store(rows, Ordering::SeqCst);
    }

    /// How many of so many rows are taken, and whether that is fewer than there may be.
    fn cut(&self, limit: usize, there: usize) -> (usize, bool) {
        match self.troubles.cut.load(Ordering::SeqCst) {
            0 => (limit, false),
            most => (limit.min(most), there > most),
        }
    }

    /// Claims from the beginning walk over what is dead for so long.
    pub(crate) fn set_walk(&self, time: Duration) {
        self.troubles.walk.store(time.as_millis() as usize, Ordering::SeqCst);
    }

    /// Every claim takes so long, as a real one: time goes on however often it is asked.
    pub(crate) fn set_round_trip(&self, time: Duration) {
        self.troubles.round_trip.store(time.as_millis() as usize, Ordering::SeqCst);
    }

    /// Every extension takes so long.
    pub(crate) fn set_extension(&self, time: Duration) {
        self.troubles.extension.store(time.as_millis() as usize, Ordering::SeqCst);
    }

    /// Whether an extension is under way.
    pub(crate) fn is_extending(&self) -> bool {
        self.troubles.extending.load(Ordering::SeqCst)
    }

    /// What is sent into a transaction takes so long to arrive.
    pub(crate) fn set_joins(&self, time: Duration) {
        self.troubles.joins.store(time.as_millis() as usize, Ordering::SeqCst);
    }

    /// Claims from the beginning so far.
    pub(crate) fn walks(&self) -> usize {
        self.troubles.walks.load(Ordering::SeqCst)
    }

    /// Claims and locks so far, and the rows that they took.
    pub(crate) fn claims(&self) -> (usize, usize) {
        let Troubles { asked, claimed, .. } = &*self.troubles;
        (asked.load(Ordering::SeqCst), claimed.load(Ordering::SeqCst))
    }

    /// Somebody wrote, and rings from now on.
    pub(crate) fn ring(&self) {
        self.troubles.has_bell.store(true, Ordering::SeqCst);
        self.troubles.bell.notify_one();
    }

    /// The link broke, and the server that answers now never got this commit.
    pub(crate) fn lose(&self, id: EventId) {
        self.troubles.gone.lock().unwrap().push(id);
        self.troubles.epoch.fetch_add(1, Ordering::SeqCst);
    }

    async fn walk(&self, from: Option<Timestamp>) {
        if from.is_none() {
            self.troubles.walks.fetch_add(1, Ordering::SeqCst);
            let walk = self.troubles.walk.load(Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(walk as u64)).await;
        }
    }

    async fn transfer(&self, rows: &[Claimed]) {
        let line = self.troubles.line.load(Ordering::SeqCst);
        let events = rows.iter().filter_map(|row| row.event.as_ref().ok());
        let bytes: usize = events.map(|event| event.payload().len()).sum();
        if line > 0 {
            tokio::time::sleep(Duration::from_secs_f64(bytes as f64 / line as f64)).await;
        }
    }

    fn check_up(&self) -> Result<(), StoreError> {
        if self.troubles.down.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("told to be down".into()));
        }
        Ok(())
    }

    /// The next claims fail.
    pub(crate) fn fail_claims(&self, count: usize) {
        self.troubles.claims.store(count, Ordering::SeqCst);
    }

    /// The next settlements fail.
    pub(crate) fn fail_settlements(&self, count: usize) {
        self.troubles.settlements.store(count, Ordering::SeqCst);
    }

    /// Goes down after so many purges.
    pub(crate) fn down_after_purges(&self, count: isize) {
        self.troubles.purges.store(count, Ordering::SeqCst);
    }

    /// Every batch with this event is refused for good.
    pub(crate) fn refuse(&self, id: EventId) {
        self.refuse_where(move |refused, _| refused == id);
    }

    /// Every batch with such a settlement is refused for good.
    pub(crate) fn refuse_where(
        &self,
        refuses: impl Fn(EventId, &Outcome) -> bool + Send + 'static,
    ) {
        *self.troubles.refuses.lock().unwrap() = Some(Box::new(refuses));
    }

    /// Refuses error texts that LATIN1 has no characters for.
    pub(crate) fn refuse_strange_text(&self) {
        self.refuse_where(|_, outcome| match outcome {
            Outcome::Retry { error, .. }
            | Outcome::Wait { error, .. }
            | Outcome::Dead { error, .. } => {
                !error.chars().all(|c| c != '\0' && u32::from(c) < 256)
            }
            _ => false,
        });
    }

    /// Settlement statements about such events are never answered, nor carried out.
    pub(crate) fn hang_where(&self, hangs: impl Fn(&[EventId]) -> bool + Send + 'static) {
        *self.troubles.hangs.lock().unwrap() = Some(Box::new(hangs));
    }

    /// Ends transactions of locked batches in which nothing is said for so long.
    pub(crate) fn limit_idleness(&self, limit: Duration) {
        *self.troubles.idle_limit.lock().unwrap() = Some(limit);
    }

    /// The next settlement statement is never answered, nor carried out.
    pub(crate) fn hang_next(&self) {
        self.troubles.hanging.store(1, Ordering::SeqCst);
    }

    /// Every settlement statement takes so long.
    pub(crate) fn take(&self, time: Duration) {
        *self.troubles.takes.lock().unwrap() = time;
    }

    fn check_refused<'a>(
        &self,
        mut batch: impl Iterator<Item = (EventId, &'a Outcome)>,
    ) -> Result<(), StoreError> {
        let refuses = self.troubles.refuses.lock().unwrap();
        let refused = refuses.as_ref().is_some_and(|no| batch.any(|(id, outcome)| no(id, outcome)));
        if refused { Err(StoreError::Refused("told to refuse".into())) } else { Ok(()) }
    }

    /// Settlement statements that were carried out.
    pub(crate) fn batches(&self) -> usize {
        self.troubles.batches.load(Ordering::SeqCst)
    }
}

fn strike(counter: &AtomicUsize) -> Result<(), StoreError> {
    let less = |left: usize| left.checked_sub(1);
    match counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, less) {
        Ok(_) => Err(StoreError::Unavailable("told to fail".into())),
        Err(_) => Ok(()),
    }
}

impl Capture<MemoryTx> for Flaky {
    async fn insert(&self, tx: &mut MemoryTx, rows: &[NewRow]) -> Result<Vec<Born>, WriteError> {
        self.table.insert(tx, rows).await
    }
}

impl Join<MemoryTx> for Flaky {
    async fn join(&self, tx: &mut MemoryTx, part: &Part<'_>) -> Result<bool, JoinError> {
        let joins = self.troubles.joins.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(joins as u64)).await;
        self.table.join(tx, part).await
    }
}

#[async_trait]
impl ClaimStore for Flaky {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claims, StoreError> {
        self.step("claim");
        let round_trip = self.troubles.round_trip.load(Ordering::SeqCst);
        if round_trip > 0 {
            tokio::time::sleep(Duration::from_millis(round_trip as u64)).await;
        }
        self.check_up()?;
        strike(&self.troubles.claims)?;
        // The index of suspects is another one, and small.
        if claim.suspects == Suspects::Skip {
            self.walk(claim.from).await;
        }
        let (limit, cut) = self.cut(claim.limit, self.table.pending().len());
        let mut claimed = self.table.claim(&Claim { limit, ..*claim }).await?;
        claimed.cut = cut;
        claimed.rows.retain(|row| !self.troubles.gone.lock().unwrap().contains(&row.id));
        self.troubles.asked.fetch_add(1, Ordering::SeqCst);
        self.troubles.claimed.fetch_add(claimed.rows.len(), Ordering::SeqCst);
        self.transfer(&claimed.rows).await;
        Ok(claimed)
    }

    async fn confirm(&self, holds: &[Held]) -> Result<Vec<EventId>, StoreError> {
        self.step("confirm");
        self.check_up()?;
        let mut proved = self.table.confirm(holds).await?;
        proved.retain(|id| !self.troubles.gone.lock().unwrap().contains(id));
        Ok(proved)
    }

    fn epoch(&self) -> u64 {
        self.troubles.epoch.load(Ordering::SeqCst)
    }

    async fn rescue(&self, longest: Duration) -> Result<u64, StoreError> {
        self.table.rescue(longest).await
    }

    async fn check_fair(&self) -> Result<(), StoreError> {
        self.check_up()?;
        if self.troubles.unfair.load(Ordering::SeqCst) {
            let (missing, remedy) = ("no index".to_owned(), "migrate --fair".to_owned());
            return Err(StoreError::Schema { missing, remedy });
        }
        self.table.check_fair().await
    }

    async fn tenants(&self, walk: &TenantWalk<'_>) -> Result<TenantsFound, StoreError> {
        self.check_up()?;
        self.troubles.tenants.fetch_add(1, Ordering::SeqCst);
        if self.troubles.unfair.load(Ordering::SeqCst) {
            return Err(StoreError::Refused("no index".into()));
        }
        self.table.tenants(walk).await
    }
}

#[async_trait]
impl SettleStore for Flaky {
    async fn settle(&self, batch: &[Settlement]) -> Result<Settled, StoreError> {
        self.step("settle");
        self.check_up()?;
        strike(&self.troubles.settlements)?;
        self.check_refused(batch.iter().map(|s| (s.held.id, &s.outcome)))?;
        let ids: Vec<EventId> = batch.iter().map(|settlement| settlement.held.id).collect();
        let hangs = self.troubles.hangs.lock().unwrap().as_ref().is_some_and(|hangs| hangs(&ids));
        if hangs || strike(&self.troubles.hanging).is_err() {
            std::future::pending::<()>().await;
        }
        let takes = *self.troubles.takes.lock().unwrap();
        tokio::time::sleep(takes).await;
        self.troubles.batches.fetch_add(1, Ordering::SeqCst);
        self.table.settle(batch).await
    }

    async fn extend(&self, holds: &[Held], hold: Duration) -> Result<Extended, StoreError> {
        self.check_up()?;
        let extension = self.troubles.extension.load(Ordering::SeqCst);
        if extension > 0 {
            self.troubles.extending.store(true, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(extension as u64)).await;
            self.troubles.extending.store(false, Ordering::SeqCst);
        }
        self.table.extend(holds, hold).await
    }
}

#[async_trait]
impl InspectStore for Flaky {
    async fn check_ready(&self) -> Result<(), StoreError> {
        self.check_up()?;
        self.table.check_ready().await
    }

    async fn find(&self, id: EventId) -> Result<Option<Row>, StoreError> {
        self.table.find(id).await
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        self.table.counts().await
    }

    async fn topics(&self) -> Result<Vec<TopicCounts>, StoreError> {
        self.table.topics().await
    }

    async fn peek(&self, limit: usize) -> Result<Vec<Row>, StoreError> {
        self.table.peek(limit).await
    }

    async fn lateness(&self) -> Result<Lateness, StoreError> {
        self.table.lateness().await
    }

    async fn first_due(&self) -> Result<Timestamp, StoreError> {
        let walk = self.troubles.walk.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(walk as u64)).await;
        self.table.first_due().await
    }
}

#[async_trait]
impl KeyStore for Flaky {
    fn keeps_order(&self) -> bool {
        true
    }

    async fn take_keys(&self, take: &TakeKeys<'_>) -> Result<TakenKeys, StoreError> {
        self.check_up()?;
        let looks = self.troubles.key_looks.fetch_add(1, Ordering::SeqCst);
        assert!(looks < 20_000, "endless looks for keys");
        // Some time, or whoever looks again at once would stop the clock of a test.
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.table.take_keys(take).await
    }

    async fn runs(&self, wanted: &RunsWanted<'_>) -> Result<Vec<KeyRun>, StoreError> {
        self.check_up()?;
        self.table.runs(wanted).await
    }

    async fn settle_runs(&self, owner: &str, ends: &[RunEnd]) -> Result<SettledRuns, StoreError> {
        self.check_up()?;
        strike(&self.troubles.settlements)?;
        let rows = ends.iter().flat_map(|end| &end.rows);
        self.check_refused(rows.map(|(id, outcome)| (*id, outcome)))?;
        self.troubles.batches.fetch_add(1, Ordering::SeqCst);
        self.table.settle_runs(owner, ends).await
    }

    async fn extend_keys(&self, extend: &ExtendKeys<'_>) -> Result<ExtendedKeys, StoreError> {
        self.check_up()?;
        self.table.extend_keys(extend).await
    }

    async fn confirm_keys(&self, holds: &[Held]) -> Result<Vec<Confirmed>, StoreError> {
        self.check_up()?;
        self.table.confirm_keys(holds).await
    }

    async fn shelve(&self, window: Window, age: Duration) -> Result<u64, StoreError> {
        self.table.shelve(window, age).await
    }
}

#[async_trait]
impl EndStore for Flaky {
    async fn standing(&self, ids: &[EventId]) -> Result<Vec<Standing>, StoreError> {
        self.check_up()?;
        self.troubles.looks.fetch_add(1, Ordering::SeqCst);
        self.table.standing(ids).await
    }

    async fn horizon(&self) -> Result<Option<Horizon>, StoreError> {
        self.check_up()?;
        self.troubles.looks.fetch_add(1, Ordering::SeqCst);
        self.table.horizon().await
    }

    async fn pending_within(
        &self,
        horizon: Horizon,
        limit: usize,
    ) -> Result<Vec<EventId>, StoreError> {
        self.check_up()?;
        self.troubles.looks.fetch_add(1, Ordering::SeqCst);
        self.table.pending_within(horizon, limit).await
    }
}

#[async_trait]
impl ReplayStore for Flaky {
    async fn replayable(&self, page: &ReplayPage<'_>) -> Result<Replayable, StoreError> {
        self.check_up()?;
        self.table.replayable(page).await
    }

    async fn count_replayable(&self, page: &ReplayPage<'_>) -> Result<ReplayTally, StoreError> {
        self.check_up()?;
        self.table.count_replayable(page).await
    }
}

#[async_trait]
impl RegisterStore for Flaky {
    async fn register(&self, kinds: &[EventKind<'_>], lately: Duration) -> Registered {
        self.check_up()?;
        self.troubles.registers.fetch_add(1, Ordering::SeqCst);
        if self.troubles.deaf.load(Ordering::SeqCst) {
            return Err(StoreError::Timeout);
        }
        self.table.register(kinds, lately).await
    }
}

impl ParkStore for Flaky {}

#[async_trait]
impl PauseStore for Flaky {
    async fn pauses(&self) -> Result<Vec<Pause>, StoreError> {
        self.check_up()?;
        self.table.pauses().await
    }

    async fn pause(&self, scope: &PauseScope, note: &AuditNote) -> Result<bool, StoreError> {
        self.table.pause(scope, note).await
    }

    async fn resume(&self, scope: &PauseScope, note: &AuditNote) -> Result<bool, StoreError> {
        self.table.resume(scope, note).await
    }

    async fn pauses_changed(&self) {
        self.table.pauses_changed().await;
    }
}

#[async_trait]
impl WakeStore for Flaky {
    async fn arm(&self) -> Result<bool, StoreError> {
        Ok(self.troubles.has_bell.load(Ordering::SeqCst))
    }

    async fn rung(&self) {
        self.troubles.bell.notified().await;
    }
}

#[async_trait]
impl LockStore for Flaky {
    async fn lock(&self, lock: &Lock<'_>) -> Result<Option<Box<dyn LockedRows>>, StoreError> {
        self.check_up()?;
        strike(&self.troubles.claims)?;
        self.walk(lock.from).await;
        let (limit, cut) = self.cut(lock.limit, self.table.pending().len());
        let lock = Lock { limit, ..*lock };
        self.troubles.asked.fetch_add(1, Ordering::SeqCst);
        let Some(mut rows) = self.table.lock(&lock).await? else { return Ok(None) };
        let taken = rows.take();
        self.troubles.claimed.fetch_add(taken.len(), Ordering::SeqCst);
        self.transfer(&taken).await;
        let heard = Arc::new(Mutex::new(Instant::now()));
        Ok(Some(Box::new(FlakyLocked { store: self.clone(), rows, taken, heard, cut })))
    }
}

/// A batch in a transaction that ends when nothing is heard of it for too long.
struct FlakyLocked {
    store: Flaky,
    rows: Box<dyn LockedRows>,
    taken: Vec<Claimed>,
    heard: Arc<Mutex<Instant>>,
    cut: bool,
}

impl FlakyLocked {
    fn hear(&self) -> Result<(), StoreError> {
        self.store.check_up()?;
        let limit = *self.store.troubles.idle_limit.lock().unwrap();
        let mut heard = self.heard.lock().unwrap();
        if limit.is_some_and(|limit| heard.elapsed() > limit) {
            return Err(StoreError::Unavailable("the server ended the transaction".into()));
        }
        *heard = Instant::now();
        Ok(())
    }
}

#[async_trait]
impl LockedRows for FlakyLocked {
    fn take(&mut self) -> Vec<Claimed> {
        std::mem::take(&mut self.taken)
    }

    fn is_cut(&self) -> bool {
        self.cut
    }

    fn idle_limit(&self) -> Option<Duration> {
        *self.store.troubles.idle_limit.lock().unwrap()
    }

    async fn keep_awake(&mut self) -> Result<(), StoreError> {
        self.hear()
    }

    async fn commit(self: Box<Self>, outcomes: &[(EventId, Outcome)]) -> Result<(), StoreError> {
        self.hear()?;
        self.store.check_refused(outcomes.iter().map(|(id, outcome)| (*id, outcome)))?;
        if strike(&self.store.troubles.hanging).is_err() {
            std::future::pending::<()>().await;
        }
        self.rows.commit(outcomes).await
    }

    async fn rollback(self: Box<Self>) -> Result<(), StoreError> {
        if strike(&self.store.troubles.hanging).is_err() {
            std::future::pending::<()>().await;
        }
        self.rows.rollback().await
    }
}

#[async_trait]
impl RetainStore for Flaky {
    fn keeps(&self) -> Option<Duration> {
        self.table.keeps()
    }

    async fn purge(&self, purge: &Purge) -> Result<Purged, StoreError> {
        self.check_up()?;
        let purged = self.table.purge(purge).await?;
        if self.troubles.purges.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.set_down(true);
        }
        Ok(purged)
    }

    async fn forget(&self, trail: Trail, cutoff: Cutoff, limit: usize) -> Result<u64, StoreError> {
        let refused = self.troubles.remembers.lock().unwrap().take();
        match refused {
            Some(error) => Err(error),
            None => self.table.forget(trail, cutoff, limit).await,
        }
    }

    async fn purgeable(&self, purge: &Purge) -> Result<Purged, StoreError> {
        self.table.purgeable(purge).await
    }
}

#[async_trait]
impl LetterStore for Flaky {
    async fn clock(&self) -> Result<Timestamp, StoreError> {
        self.table.clock().await
    }

    async fn letters(&self, page: &LetterPage<'_>) -> Result<Vec<Letter>, StoreError> {
        self.table.letters(page).await
    }

    async fn count_letters(&self, page: &LetterPage<'_>) -> Result<u64, StoreError> {
        self.table.count_letters(page).await
    }

    async fn record(
        &self,
        id: EventId,
        payload: PayloadWanted,
    ) -> Result<Option<EventRecord>, StoreError> {
        self.table.record(id, payload).await
    }

    async fn change_letters(
        &self,
        change: &ChangeLetters<'_>,
    ) -> Result<Vec<LetterFate>, StoreError> {
        self.check_up()?;
        if strike(&self.troubles.hanging).is_err() {
            std::future::pending::<()>().await;
        }
        self.table.change_letters(change).await
    }

    async fn audit(&self, page: &AuditPage) -> Result<Vec<AuditEntry>, StoreError> {
        self.table.audit(page).await
    }
}
