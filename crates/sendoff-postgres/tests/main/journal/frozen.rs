//! What keeping a journal's partitions costs appends: a moment, whatever becomes of the maintainer.

use std::env;
use std::time::Duration;

use sendoff_engine::journal::Journal;
use sendoff_postgres::PostgresJournal;
use sendoff_testkit::process::say;
use tokio::time::timeout;

use super::retain::{keeping, maintainer};
use super::{fact, journal_with, options, partitioned};
use crate::place::Place;
use crate::process::node_of;

/// 2 s, and room for a crowded machine.
const APPEND: Duration = Duration::from_secs(5);

/// Not a test of its own: this program again, which makes and drops partitions again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node() {
    let Ok(schema) = env::var("SENDOFF_TEST_NODE") else { return };
    let place = Place::in_schema(env::var("SENDOFF_POSTGRES_URL").unwrap(), schema);
    let store = PostgresJournal::connect_with(&place.url, options(&place)).await.unwrap();
    let journal = Journal::new(store);
    let maintainer = maintainer(&journal, keeping(5, Some(5)));
    loop {
        journal.append((0..5).map(|_| fact("t", &["w=1"]))).await.unwrap();
        // Frozen for long enough, its session is gone.
        let _ = maintainer.run_once().await;
        say("kept");
    }
}

/// A maintainer that is stopped at any moment keeps no append waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_maintainer_keeps_no_append_waiting() {
    let place = Place::new();
    let journal = journal_with(&place, partitioned(&place, 5)).await;
    let node = node_of("journal::frozen::node", &place, &[]);
    for round in 0..6 {
        node.says("kept");
        tokio::time::sleep(Duration::from_millis(round * 7)).await;
        node.signal("-STOP");
        let appending = journal.append([fact("t", &["w=1"])]);
        timeout(APPEND, appending).await.expect("an append waits for a frozen maintainer").unwrap();
        node.signal("-CONT");
    }
    node.signal("-KILL");
}
