//! Publishing, as only a file can show it.

use std::collections::BTreeSet;
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sendoff_core::Delivery;
use sendoff_core::journal::{Fact, Topic};
use sendoff_engine::journal::Journal;
use sendoff_engine::journal::publish::{
    Change, PairOptions, PublishOptions, PublishStore, Publishing, PublishingBuilder, Which,
};
use sendoff_engine::lead::NodeCard;
use sendoff_engine::sink::BatchSink;
use sendoff_engine::store::StoreError;
use sendoff_sqlite::{SqliteJournal, SqliteOptions};
use sendoff_testkit::clock::ManualClock;
use sendoff_testkit::journal::{Latch, Rounds};
use sendoff_testkit::wait::eventually;
use tempfile::TempDir;

use super::File;

const SECOND: Duration = Duration::from_secs(1);

/// Holds J8: there is no session; only silence tells, and a clock that stepped back keeps nobody alive.
#[tokio::test]
async fn only_the_silence_of_a_whole_lease_is_a_death() {
    let (folder, clock) = (TempDir::new().unwrap(), ManualClock::new());
    let options = SqliteOptions { clock: Arc::new(clock.clone()), ..SqliteOptions::default() };
    let store = SqliteJournal::open_with(folder.path().join("a.db"), options).await.unwrap();
    let card = |owner: &str| NodeCard {
        owner: owner.into(),
        knows: BTreeSet::from([i64::MIN, i64::MAX]),
        renew: SECOND,
        lease: 10 * SECOND,
    };
    let alive = async || {
        let nodes = store.survey().await.unwrap().nodes;
        nodes.into_iter().map(|node| node.owner).collect::<Vec<_>>()
    };
    let mut node = store.join(&card("a")).await.unwrap();
    drop(store.join(&card("b")).await.unwrap());
    clock.advance(9 * SECOND);
    assert_eq!(alive().await, ["a", "b"]);
    node.beat().await.unwrap();
    clock.advance(SECOND);
    assert_eq!(alive().await, ["a"]);
    assert_eq!(store.survey().await.unwrap().nodes[0].knows, BTreeSet::from([i64::MIN, i64::MAX]));
    clock.step_back(3_600 * SECOND);
    assert_eq!(alive().await, [""; 0]);
    node.beat().await.unwrap();
    assert_eq!(alive().await, ["a"]);
    // Whoever is long dead is forgotten by the next one that comes, and has to join again.
    clock.advance(7_200 * SECOND);
    let _next = store.join(&card("c")).await.unwrap();
    assert!(node.beat().await.is_err());
    assert_eq!(alive().await, ["c"]);
}

#[tokio::test]
async fn a_journal_of_the_first_version_learns_to_publish() {
    let file = File::open().await;
    let old = "drop table journal_node; drop index journal_parked_due;
               alter table journal_cursor drop column waits_at;
               alter table journal_cursor drop column waits_since;
               delete from journal_schema where version > 1";
    file.journal.store().connect().unwrap().execute_batch(old).unwrap();
    let again = SqliteJournal::open(file.folder.path().join("a.db")).await.unwrap();
    assert!(again.survey().await.unwrap().nodes.is_empty());
    again.close().await;
    let closed = again.change(&Which::all(), Change::Pause).await;
    assert!(matches!(closed, Err(StoreError::Closed)), "{closed:?}");
}

/// What is parked and not due costs nothing.
#[tokio::test]
async fn what_is_due_is_found_by_its_index() {
    let file = File::open().await;
    let statement = include_str!("../../../sql/journal/due.sql");
    let conn = file.journal.store().connect().unwrap();
    let mut explain = conn.prepare(&format!("explain query plan {statement}")).unwrap();
    let plan: Vec<String> =
        explain.query_map(("n", 1, 1), |row| row.get(3)).unwrap().map(Result::unwrap).collect();
    let by_index = |line: &String| line.contains("journal_parked_due (topic=? AND publisher=?");
    assert!(plan.iter().any(by_index), "{plan:#?}");
}

fn everything() -> Topic {
    Topic::builder("everything").build().unwrap()
}

fn options() -> PublishOptions {
    PublishOptions {
        renew: Duration::from_millis(100),
        lease: 2 * SECOND,
        ..PublishOptions::default()
    }
}

fn often() -> PairOptions {
    PairOptions { interval: Duration::from_millis(20), ..PairOptions::default() }
}

/// Not a test of its own: this program again, as a node in another process, which says what it
/// publishes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node() {
    let Ok(path) = env::var("SENDOFF_TEST_NODE") else { return };
    let journal = Journal::new(SqliteJournal::open(path).await.unwrap());
    let publisher = BatchSink::new("p", |deliveries: Vec<Delivery>| async move {
        for position in deliveries.iter().filter_map(Delivery::position) {
            // A test's own output may be captured.
            writeln!(std::io::stderr(), "published {position}")?;
        }
        Ok(())
    });
    let pair = Publishing::builder(&journal).options(options());
    let pair = pair.pair_with(&everything(), Arc::new(publisher), often());
    let _node = pair.start().await.unwrap();
    std::future::pending().await
}

/// Holds J8: two processes on one file, of which one is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_is_replaced_when_its_lease_ran_out() {
    let file = File::open().await;
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "journal::publish::node", "--nocapture"])
        .env("SENDOFF_TEST_NODE", file.folder.path().join("a.db"))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stderr.take().unwrap()).lines();
    let append = async |count| {
        for _ in 0..count {
            file.journal.append([Fact::builder(("moved", "{}"))]).await.unwrap();
        }
    };
    append(5).await;
    let published = move || said.map_while(Result::ok).any(|line| line == "published 5");
    assert!(tokio::task::spawn_blocking(published).await.unwrap(), "it ended");
    let at = async || file.journal.store().survey().await.unwrap().cursors[0].position.get();
    eventually("it is stored", async || at().await == 5).await;
    let latch = Latch::new("p");
    let pair = Publishing::builder(&file.journal).options(options());
    let node = pair.pair_with(&everything(), latch.publisher(), often()).start().await.unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    append(1).await;
    latch.wait_for(1).await;
    assert_eq!(latch.positions(), [6], "it goes on where the other was");
    assert_eq!(node.statistics().failovers, 1);
    node.close().await;
}

/// Publishers of a node that has several pairs.
const NAMES: [&str; 4] = ["p", "q", "r", "s"];

/// Not a test of its own: this program again, as a node that is killed as soon as it came.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doomed() {
    let Ok(path) = env::var("SENDOFF_TEST_DOOMED") else { return };
    let journal = Journal::new(SqliteJournal::open(path).await.unwrap());
    let latches = NAMES.map(Latch::new);
    let _node = several(&journal, &latches).start().await.unwrap();
    std::future::pending().await
}

fn several(
    journal: &Journal<SqliteJournal>,
    latches: &[Latch],
) -> PublishingBuilder<SqliteJournal> {
    let add = |builder: PublishingBuilder<SqliteJournal>, latch: &Latch| {
        builder.pair_with(&everything(), latch.publisher(), often())
    };
    latches.iter().fold(Publishing::builder(journal).options(options()), add)
}

/// Holds J12: a process that crashes at each start is in the list of nodes for a lease each time, and
/// nothing waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_crashes_at_each_start_keeps_no_pair_idle() {
    let file = File::open().await;
    let (latches, rounds) = (NAMES.map(Latch::new), Rounds::new());
    let node = several(&file.journal, &latches).metrics(rounds.clone()).start().await.unwrap();
    eventually("it leads all", async || node.statistics().leading == NAMES.len()).await;
    let lived = async || file.journal.store().survey().await.unwrap().nodes[0].lived;
    eventually("it is there for long", async || lived().await >= options().lease).await;
    let (mut longest, mut known) = (Duration::ZERO, 0);
    for count in 1..=8 {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "journal::publish::doomed"])
            .env("SENDOFF_TEST_DOOMED", file.folder.path().join("a.db"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually("it came", async || {
            let came: i64 = {
                let conn = file.journal.store().connect().unwrap();
                conn.query_row("select count(*) from journal_node", [], |row| row.get(0)).unwrap()
            };
            std::mem::replace(&mut known, came) < came && came > 1
        })
        .await;
        child.kill().unwrap();
        child.wait().unwrap();
        file.journal.append([Fact::builder(("moved", "{}"))]).await.unwrap();
        let began = Instant::now();
        for latch in &latches {
            latch.wait_for(count).await;
        }
        longest = longest.max(began.elapsed());
    }
    let values = rounds.counters.values();
    let released: u64 = values.pairs.values().map(|pair| pair.released).sum();
    assert_eq!(released, 0, "the longest wait was {longest:?}");
    node.close().await;
}
