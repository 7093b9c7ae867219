//! A tail beside many writers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sendoff_core::Delivery;
use sendoff_core::journal::{Append, Fact, Position};
use sendoff_engine::journal::TailOptions;
use tokio::task::JoinHandle;

use super::fact;
use crate::history::{Expectations, History, check};
use crate::journal::{Ending, JournalHarness};

const WRITERS: usize = 6;
const LASTS: Duration = Duration::from_secs(2);
/// What each writer does at least, however slow it is.
const TRANSACTIONS: usize = 20;

/// J6: writers that are slow, that roll back, and that overtake one another.
pub async fn nothing_is_lost_nothing_comes_twice_and_all_is_in_order(harness: impl JournalHarness) {
    let (harness, history) = (Arc::new(harness), History::new());
    let until = Instant::now() + LASTS;
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| tokio::spawn(write(Arc::clone(&harness), history.clone(), until)))
        .collect();
    let options = TailOptions { interval: Duration::from_millis(5), ..TailOptions::default() };
    let mut tail = harness.journal().tail(Position::START, options).await.unwrap();
    let mut last = Position::START;
    let mut delivered = 0;
    let mut pass = async |most: Duration| {
        let Ok(batch) = tokio::time::timeout(most, tail.next()).await else { return false };
        for row in batch.unwrap().rows {
            assert!(row.position > last, "{} after {last}", row.position);
            last = row.position;
            delivered += 1;
            let delivery = Delivery::of_fact(&Arc::new(row.recorded.unwrap()), 1);
            history.delivery_started("tail", &delivery).finished(true);
        }
        true
    };
    while !writers.iter().all(JoinHandle::is_finished) {
        pass(Duration::from_millis(100)).await;
    }
    for writer in writers {
        writer.await.unwrap();
    }
    // Once nothing comes any more, everything has come.
    while pass(Duration::from_millis(500)).await {}
    let verdict = check(&history, &Expectations::default());
    assert!(verdict.is_clean(), "{verdict}");
    assert!(verdict.written > 50 && verdict.rolled_back > 5, "{verdict}");
    assert_eq!(verdict.written, delivered);
}

async fn write(harness: Arc<impl JournalHarness>, history: History, until: Instant) {
    let mut done = 0;
    while done < TRANSACTIONS || Instant::now() < until {
        done += 1;
        let tag = format!("w={}", fastrand::u8(..20));
        let facts: Vec<Fact> = (0..fastrand::usize(1..4)).map(|_| fact("t", &[&tag])).collect();
        let ending = if fastrand::u8(..5) == 0 { Ending::RollBack } else { Ending::Commit };
        let open = Duration::from_micros(fastrand::u64(..20_000));
        let append = Append::new(facts.clone(), None).unwrap();
        harness.append_in(&append, open, ending).await.unwrap();
        for fact in &facts {
            match ending {
                Ending::Commit => history.committed(fact.event()),
                Ending::RollBack => history.rolled_back(fact.event()),
            }
        }
    }
}
