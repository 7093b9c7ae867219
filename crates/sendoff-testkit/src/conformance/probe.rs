//! Short ways to write, claim and settle, for the cases.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{Event, EventId, Timestamp};
use sendoff_engine::store::{
    Birth, Born, Claim, ClaimStore, Claimed, Held, InspectStore, Lock, LockStore, LockedRows,
    NewRow, Outcome, Row, SettleStore, Settlement, TopicCounts,
};

use super::harness::StoreHarness;

/// What databases may round, and what keeps two tokens apart.
const TOLERANCE: Duration = Duration::from_millis(1);

/// How long the suite's claims hold, in ticks.
pub(crate) const HOLD: u32 = 10;

/// A store in its harness, with the few moves that cases are made of. Every move panics where the
/// store answers with an error: a case is a test.
pub struct Probe<H: StoreHarness> {
    harness: Arc<H>,
    /// Its store as another process has it, where that is asked.
    beside: Option<Arc<H::Store>>,
}

impl<H: StoreHarness> Clone for Probe<H> {
    fn clone(&self) -> Self {
        Self { harness: self.harness.clone(), beside: self.beside.clone() }
    }
}

impl<H: StoreHarness> fmt::Debug for Probe<H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe").finish_non_exhaustive()
    }
}

impl<H: StoreHarness> Probe<H> {
    /// Probes the store in this harness.
    pub fn new(harness: H) -> Self {
        Self { harness: Arc::new(harness), beside: None }
    }

    /// The same tables, as another process sees them: what is asked here and there meets in the database.
    pub(super) async fn beside(&self) -> Self {
        let beside = self.harness.beside().await.map(Arc::new);
        Self { harness: self.harness.clone(), beside }
    }

    pub(crate) fn harness(&self) -> &H {
        &self.harness
    }

    pub(crate) fn store(&self) -> &H::Store {
        self.beside.as_deref().unwrap_or_else(|| self.harness.store())
    }

    pub(crate) fn ticks(&self, ticks: u32) -> Duration {
        self.harness.tick() * ticks
    }

    pub(crate) async fn pass(&self, ticks: u32) {
        self.harness.pass(self.ticks(ticks)).await;
    }

    pub(crate) async fn commit(&self, rows: &[NewRow]) -> Vec<Born> {
        let born = self.harness.commit(rows).await.expect("the rows are good");
        assert_eq!(born.len(), rows.len(), "one answer for each row");
        born
    }

    /// Commits so many rows that are due at once, and returns their ids in order.
    pub(crate) async fn commit_due(&self, count: usize) -> Vec<EventId> {
        let rows: Vec<_> = (0..count).map(|_| due(event())).collect();
        self.commit(&rows).await;
        rows.iter().map(|row| row.event.id()).collect()
    }

    /// Commits a row held by `owner` for so many ticks.
    pub(crate) async fn commit_held(&self, owner: &str, ticks: u32) -> Held {
        let row = held(event(), owner, self.ticks(ticks));
        let born = self.commit(std::slice::from_ref(&row)).await[0];
        Held::row(row.event.id(), born.token.expect("born held"))
    }

    pub(crate) fn claim_by<'a>(&self, owner: &'a str) -> Claim<'a> {
        Claim::new(owner, 100, self.ticks(HOLD))
    }

    pub(crate) async fn claim(&self, claim: &Claim<'_>) -> Vec<Claimed> {
        self.store().claim(claim).await.expect("claim").rows
    }

    /// Everything visible but suspects.
    pub(crate) async fn claim_all(&self, owner: &str) -> Vec<Claimed> {
        self.claim(&self.claim_by(owner)).await
    }

    /// The one visible row there is.
    pub(super) async fn claim_one(&self, owner: &str) -> Claimed {
        let mut claimed = self.claim_all(owner).await;
        assert_eq!(claimed.len(), 1, "one row is visible");
        claimed.remove(0)
    }

    /// A row of its own, claimed by `owner`.
    pub(super) async fn take_one(&self, owner: &str) -> Held {
        self.commit_due(1).await;
        hold_of(&self.claim_one(owner).await)
    }

    /// Whether the settlement was carried out.
    pub(super) async fn settle(&self, held: Held, outcome: Outcome) -> bool {
        let settled = self.settle_all(&[Settlement { held, outcome }]).await;
        assert!(settled.is_empty() || settled == [held.id], "{settled:?}");
        !settled.is_empty()
    }

    pub(super) async fn settle_all(&self, batch: &[Settlement]) -> Vec<EventId> {
        let settled = self.store().settle(batch).await.expect("settle");
        assert_eq!(settled.busy, [], "nobody has locked them");
        settled.applied
    }

    pub(super) async fn extend(&self, holds: &[Held]) -> Vec<Held> {
        let extended = self.store().extend(holds, self.ticks(HOLD)).await.expect("extend");
        assert_eq!(extended.busy, [], "nobody has locked them");
        extended.held
    }

    pub(super) async fn confirm(&self, holds: &[Held]) -> Vec<EventId> {
        self.store().confirm(holds).await.expect("confirm")
    }

    /// Locks up to so many visible rows.
    pub(super) async fn lock(&self, limit: usize) -> Option<Box<dyn LockedRows>> {
        self.store().lock(&Lock::new(limit)).await.expect("lock")
    }

    pub(crate) async fn topics(&self) -> Vec<TopicCounts> {
        self.store().topics().await.expect("topics")
    }

    pub(crate) async fn find(&self, id: EventId) -> Option<Row> {
        self.store().find(id).await.expect("find")
    }

    pub(crate) async fn row(&self, id: EventId) -> Row {
        self.find(id).await.expect("the row is there")
    }

    /// Runs `act` and says between which times it did, by the store's clock.
    pub(crate) async fn timed<T>(&self, act: impl Future<Output = T>) -> (T, Window) {
        let from = self.harness.now().await;
        let answer = act.await;
        let to = self.harness.now().await;
        (answer, Window { from, to })
    }
}

/// A span of time on the store's clock. On a clock that stands still it is a point, and what is
/// compared with it is compared exactly, but for a tolerance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    from: Timestamp,
    to: Timestamp,
}

impl Window {
    /// The same span, later.
    pub(crate) fn after(self, delay: Duration) -> Self {
        Self { from: self.from.saturating_add(delay), to: self.to.saturating_add(delay) }
    }

    /// Whether a time that lay `ago` before some point of `asked` can lie in this span.
    #[track_caller]
    pub(super) fn assert_contains_start(self, asked: Self, ago: Duration) {
        let early = asked.from.saturating_sub(ago).saturating_sub(TOLERANCE);
        let late = asked.to.saturating_sub(ago).saturating_add(TOLERANCE);
        assert!(
            early <= self.to && self.from <= late,
            "{ago:?} before {asked:?} is not in {self:?}"
        );
    }

    #[track_caller]
    pub(crate) fn assert_has(self, time: Timestamp) {
        let early = self.from.saturating_sub(TOLERANCE);
        let late = self.to.saturating_add(TOLERANCE);
        assert!(early <= time && time <= late, "{time} is not in {early} to {late}");
    }
}

pub(crate) fn event() -> Event {
    Event::json_text("thing.happened", "{}").expect("a plain event")
}

pub(crate) fn due(event: Event) -> NewRow {
    NewRow { event, birth: Birth::Due }
}

pub(super) fn held(event: Event, owner: &str, grace: Duration) -> NewRow {
    NewRow { event, birth: Birth::Held { owner: owner.into(), grace } }
}

pub(super) fn hold_of(claimed: &Claimed) -> Held {
    claimed.held()
}

pub(super) fn ids(claimed: &[Claimed]) -> Vec<EventId> {
    claimed.iter().map(|row| row.id).collect()
}

pub(super) fn sorted(mut ids: Vec<EventId>) -> Vec<EventId> {
    ids.sort_unstable();
    ids
}
