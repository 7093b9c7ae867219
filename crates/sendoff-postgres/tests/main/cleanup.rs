//! Rows past their retention, deleted beside the work.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_engine::store::{InspectStore, Purged};
use sendoff_engine::{CleanupMaintainer, CleanupOptions};
use sendoff_testkit::wait::eventually;
use tokio_util::sync::CancellationToken;

use crate::place::{Place, due, event, write};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Rows in this status that ended so many days ago.
async fn ended(place: &Place, rows: u32, status: u8, days_ago: u32) {
    place
        .run(&format!(
            "insert into outbox_event (event_id, shard, event_type, payload, occurred_at,
                                       created_at, due_at, status, done_at)
             select gen_random_uuid(), 0, 't', 'x', now(), now() - interval '{days_ago} days',
                    now(), {status}, now() - interval '{days_ago} days'
               from generate_series(1, {rows})"
        ))
        .await;
}

/// Holds L7 and C2: fifty thousand terminal rows go in bounded batches while others write, nothing
/// that is past its retention is left, and nothing else is touched.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn fifty_thousand_rows_go_beside_steady_inserts() {
    let place = Place::new();
    let store = place.store().await;
    ended(&place, 45_000, 1, 8).await;
    ended(&place, 5_000, 3, 8).await;
    ended(&place, 10, 1, 6).await;
    ended(&place, 10, 3, 6).await;
    let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let writer = {
        let (stop, written, store) = (stop.clone(), written.clone(), store.clone());
        let mut client = place.client().await;
        tokio::spawn(async move {
            while !stop.load(Ordering::SeqCst) {
                write(&store, &mut client, &[due(event())]).await;
                written.fetch_add(1, Ordering::SeqCst);
            }
        })
    };
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let options = CleanupOptions { include_dead: true, ..CleanupOptions::default() };
    let maintainer =
        CleanupMaintainer::new(Arc::new(store.clone()), options).unwrap().on_progress({
            let sizes = sizes.clone();
            move |cleaned| sizes.lock().unwrap().push(cleaned.purged.total())
        });
    let before = written.load(Ordering::SeqCst);
    let cleaned = maintainer.run_once().await.unwrap();
    assert!(written.load(Ordering::SeqCst) > before, "writers went on");
    stop.store(true, Ordering::SeqCst);
    writer.await.unwrap();

    assert_eq!(cleaned.purged, Purged { done: 45_000, dead: 5_000 });
    assert!(cleaned.finished && cleaned.passes == 6, "{cleaned:?}");
    let mut last = 0;
    for total in sizes.lock().unwrap().iter() {
        assert!(total - last <= 1_000, "a batch of {}", total - last);
        last = *total;
    }
    assert_eq!(maintainer.dry_run(100).await.unwrap(), Purged::default());
    let counts = store.counts().await.unwrap();
    assert_eq!((counts.done, counts.dead), (10, 10));
    assert_eq!(counts.new, written.load(Ordering::SeqCst));
}

/// Holds L7: two at once delete different rows, and each counts its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn two_cleanups_share_the_work() {
    let place = Place::new();
    let store = place.store().await;
    ended(&place, 8_000, 1, 8).await;
    let maintainer = async || {
        let store = Arc::new(place.store().await);
        CleanupMaintainer::new(store, CleanupOptions { batch: 100, ..CleanupOptions::default() })
            .unwrap()
    };
    let (one, other) = (maintainer().await, maintainer().await);
    let (one, other) = tokio::join!(one.run_once(), other.run_once());
    assert_eq!(one.unwrap().purged.done + other.unwrap().purged.done, 8_000);
    assert_eq!(store.counts().await.unwrap().done, 0);
}

/// Holds L7: what was deleted before a failure is reported with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failure_half_way_still_reports_what_was_done() {
    let place = Arc::new(Place::new());
    let store = place.store().await;
    ended(&place, 5_000, 1, 8).await;
    let options = CleanupOptions { batch: 500, ..CleanupOptions::default() };
    let breaking = place.clone();
    let maintainer =
        CleanupMaintainer::new(Arc::new(store), options).unwrap().on_progress(move |cleaned| {
            if cleaned.batches == 3 {
                let place = breaking.clone();
                let renamed = tokio::runtime::Handle::current();
                let rename = std::thread::spawn(move || {
                    renamed.block_on(place.run("alter table outbox_event rename to gone"));
                });
                rename.join().unwrap();
            }
        });
    let error = maintainer.run_once().await.unwrap_err();
    assert_eq!(error.so_far.purged, Purged { done: 1_500, dead: 0 });
    assert!(!error.so_far.finished);
    assert!(error.to_string().contains("1500 rows"), "{error}");
    assert_eq!(place.number("select count(*) from gone").await, 3_500);
}

/// Holds L7: it looks again when its time comes, and stops when it is told, with its counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_cleanup_comes_again_and_stops_when_told() {
    let place = Place::new();
    let store = place.store().await;
    let options = CleanupOptions {
        check_every: Duration::from_millis(20),
        retention: DAY,
        ..Default::default()
    };
    let maintainer = CleanupMaintainer::new(Arc::new(store.clone()), options).unwrap();
    let cancel = CancellationToken::new();
    let running = tokio::spawn({
        let cancel = cancel.clone();
        async move { maintainer.run(cancel.cancelled()).await }
    });
    for _ in 0..3 {
        ended(&place, 7, 1, 2).await;
        eventually("a pass", async || store.counts().await.unwrap().done == 0).await;
    }
    cancel.cancel();
    assert_eq!(running.await.unwrap().purged.done, 21);
}
