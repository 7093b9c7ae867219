//! A store on a file of its own, with a clock that stands still.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use sendoff_core::{Event, EventId, Timestamp};
use sendoff_engine::Clock;
use sendoff_engine::capture::{BeginBlocking, CommitBlocking};
use sendoff_engine::store::{
    Birth, Born, Claim, ClaimStore, Claimed, Held, InspectStore, NewRow, Outcome, Row, SettleStore,
    Settlement,
};
use sendoff_sqlite::{SqliteOptions, SqliteStore};
use tempfile::TempDir;

pub(crate) const HOLD: Duration = Duration::from_secs(30);

/// A clock that moves when it is told to.
#[derive(Debug)]
pub(crate) struct ManualClock(AtomicI64);

impl ManualClock {
    pub(crate) fn advance(&self, duration: Duration) {
        self.0.fetch_add(duration.as_micros() as i64, Ordering::SeqCst);
    }

    pub(crate) fn step_back(&self, duration: Duration) {
        self.0.fetch_sub(duration.as_micros() as i64, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}

pub(crate) struct Outbox {
    pub(crate) store: SqliteStore,
    pub(crate) clock: Arc<ManualClock>,
    // Deletes the file when the test is over.
    dir: TempDir,
}

impl Outbox {
    pub(crate) async fn new() -> Self {
        Self::with(SqliteOptions::default()).await
    }

    pub(crate) async fn with(options: SqliteOptions) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(ManualClock(AtomicI64::new(1_700_000_000_000_000)));
        let options = SqliteOptions { clock: clock.clone(), ..options };
        let store = SqliteStore::open_with(dir.path().join("outbox.db"), options).await.unwrap();
        Self { store, clock, dir }
    }

    /// Another store on the same file, as another process would open it.
    pub(crate) async fn again(&self) -> SqliteStore {
        let options = SqliteOptions { clock: self.clock.clone(), ..Default::default() };
        SqliteStore::open_with(self.dir.path().join("outbox.db"), options).await.unwrap()
    }

    /// Writes and commits.
    pub(crate) fn write(&self, rows: &[NewRow]) -> Vec<Born> {
        let mut conn = self.store.connect().unwrap();
        let tx = self.store.begin_blocking(&mut conn).unwrap();
        self.store.commit_blocking(tx, rows).unwrap()
    }

    /// Writes one event that is due at once.
    pub(crate) fn write_due(&self) -> EventId {
        let row = due();
        self.write(std::slice::from_ref(&row));
        row.event.id()
    }

    pub(crate) fn execute(&self, sql: &str) -> usize {
        self.store.connect().unwrap().execute(sql, []).unwrap()
    }

    pub(crate) async fn claim(&self, owner: &str) -> Vec<Claimed> {
        self.store.claim(&by(owner)).await.unwrap().rows
    }

    pub(crate) async fn claim_one(&self, owner: &str) -> Claimed {
        let mut claimed = self.claim(owner).await;
        assert_eq!(claimed.len(), 1);
        claimed.remove(0)
    }

    /// Whether the settlement was carried out.
    pub(crate) async fn settle(&self, held: Held, outcome: Outcome) -> bool {
        let settled = self.store.settle(&[Settlement { held, outcome }]).await.unwrap().applied;
        assert!(settled.is_empty() || settled == [held.id]);
        !settled.is_empty()
    }

    pub(crate) async fn row(&self, id: EventId) -> Row {
        self.store.find(id).await.unwrap().expect("the row is there")
    }
}

/// A claim of all that is visible, save suspects.
pub(crate) fn by(owner: &str) -> Claim<'_> {
    Claim::new(owner, 100, HOLD)
}

pub(crate) fn event() -> Event {
    Event::json("order.placed", &1).unwrap()
}

pub(crate) fn due() -> NewRow {
    NewRow { event: event(), birth: Birth::Due }
}

pub(crate) fn born_held(owner: &str) -> NewRow {
    NewRow {
        event: event(),
        birth: Birth::Held { owner: owner.into(), grace: Duration::from_secs(10) },
    }
}

pub(crate) fn held(claimed: &Claimed) -> Held {
    claimed.held()
}
