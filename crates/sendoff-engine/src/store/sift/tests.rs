//! Sifting: rows that refuse are found, passed over and named, and stop no other.

use std::collections::BTreeSet;
use std::sync::Mutex;

use tokio::time::{advance, sleep};

use super::*;
use crate::lock::lock;

/// Rows in their order; taking any of those that refuse fails, after a while.
#[derive(Default)]
struct Table {
    rows: Mutex<Vec<EventId>>,
    refusing: Mutex<BTreeSet<EventId>>,
    dead: Mutex<Vec<EventId>>,
    passed_over: PassedOver,
    pace: Duration,
}

impl Table {
    fn with(rows: usize, refusing: usize, pace: Duration) -> Self {
        let table = Self { pace, ..Self::default() };
        let ids = table.add(rows);
        lock(&table.refusing).extend(&ids[..refusing]);
        table
    }

    fn add(&self, rows: usize) -> Vec<EventId> {
        let ids: Vec<_> = (0..rows).map(|_| EventId::generate()).collect();
        lock(&self.rows).extend(&ids);
        ids
    }

    fn visible(&self, passed: &[EventId]) -> Vec<EventId> {
        lock(&self.rows).iter().filter(|id| !passed.contains(id)).copied().collect()
    }
}

/// Takes rows away.
struct Taking;

impl Take<Table> for Taking {
    type Taken = Vec<EventId>;

    async fn take(
        &self,
        table: &Table,
        limit: usize,
        passed: &[EventId],
    ) -> Result<Option<Vec<EventId>>, StoreError> {
        sleep(table.pace).await;
        let mut taken = table.visible(passed);
        taken.truncate(limit);
        if taken.iter().any(|id| lock(&table.refusing).contains(id)) {
            return Err(StoreError::Refused("not this one".into()));
        }
        lock(&table.rows).retain(|id| !taken.contains(id));
        Ok((!taken.is_empty()).then_some(taken))
    }
}

async fn take(table: &Table) -> Result<Option<Sifted<Vec<EventId>>>, StoreError> {
    sift(table, &Look::from(&Lock::new(100)), &Taking, 100).await
}

impl Sieve for Table {
    fn passed_over(&self) -> &PassedOver {
        &self.passed_over
    }

    async fn first(&self, look: &Look<'_>) -> Result<Option<Visible>, StoreError> {
        let due_at = Timestamp::now();
        Ok(self.visible(look.passed).first().map(|id| Visible { id: *id, due_at }))
    }

    async fn end(&self, row: Visible, _: &str) -> Result<(), StoreError> {
        lock(&self.rows).retain(|id| *id != row.id);
        lock(&self.dead).push(row.id);
        Ok(())
    }

    fn is_of_a_row(_: &BoxError) -> bool {
        true
    }
}

#[tokio::test(start_paused = true)]
async fn each_claim_goes_on_after_what_the_last_one_found() {
    let table = Table::with(400, 300, Duration::from_millis(5));
    let mut looked_for = Duration::ZERO;
    let taken = loop {
        let began = Instant::now();
        let answer = take(&table).await;
        assert!(began.elapsed() < 2 * PATIENCE, "no claim takes long");
        looked_for += began.elapsed();
        if let Ok(Some(sifted)) = answer {
            break sifted.taken;
        }
    };
    assert_eq!(taken.len(), 100);
    assert!(looked_for > 2 * PATIENCE, "one claim alone would not have come so far");
}

#[tokio::test(start_paused = true)]
async fn what_refuses_is_tried_again_ever_more_rarely_and_ends_after_minutes() {
    let table = Table::with(1, 1, Duration::ZERO);
    let began = Instant::now();
    let mut tries = Vec::new();
    while lock(&table.dead).is_empty() {
        table.add(1);
        let before = table.passed_over.ids(Instant::now()).len();
        assert_eq!(take(&table).await.unwrap().unwrap().taken.len(), 1);
        if before == 0 {
            tries.push(began.elapsed().as_secs());
        }
        advance(Duration::from_secs(1)).await;
    }
    assert_eq!(tries, [0, 10, 30, 70, 150, 310]);
}

#[tokio::test(start_paused = true)]
async fn while_everything_is_refused_nothing_ends_and_nothing_waits_for_long() {
    let table = Table::with(5, 5, Duration::ZERO);
    for _ in 0..1_000 {
        assert!(!matches!(take(&table).await, Ok(Some(_))));
        advance(Duration::from_secs(1)).await;
    }
    lock(&table.refusing).clear();
    let mut taken = 0;
    for _ in 0..10 {
        advance(Duration::from_secs(1)).await;
        taken += take(&table).await.unwrap().map_or(0, |rows| rows.taken.len());
    }
    assert_eq!(taken, 5);
    assert!(lock(&table.dead).is_empty());
}

#[tokio::test(start_paused = true)]
async fn where_only_rows_that_refuse_are_left_they_are_named_once_in_a_while() {
    let table = Table::with(12, 12, Duration::ZERO);
    let error = take(&table).await.unwrap_err();
    let first = lock(&table.rows)[0].to_string();
    let text = report(&error);
    assert!(text.contains(&first) && text.contains("and 2 more"), "{text}");
    assert!(take(&table).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn what_is_cut_short_by_a_row_that_refuses_is_said_to_be() {
    let table = Table::with(400, 0, Duration::ZERO);
    let refusing = lock(&table.rows)[60];
    lock(&table.refusing).insert(refusing);
    let first = take(&table).await.unwrap().unwrap();
    assert_eq!((first.taken.len(), first.cut), (50, true));
    let second = take(&table).await.unwrap().unwrap();
    assert_eq!((second.taken.len(), second.cut), (6, true));
    while lock(&table.rows).first() != Some(&refusing) {
        assert!(take(&table).await.unwrap().unwrap().cut);
    }
    let last = take(&table).await.unwrap().unwrap();
    assert_eq!((last.taken.len(), last.cut), (100, false), "it is passed over");
}
