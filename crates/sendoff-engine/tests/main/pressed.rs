//! Keys beside floods, slow and failing handlers, vanished holders and operators: nothing stands still, and nothing is
//! taken in vain without a pause.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::order::KeyFate;
use sendoff_core::{AuditNote, Delivery, Event, EventId, Failure, Status};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::relay::{Consumer, RelayOptions};
use sendoff_engine::store::{Except, KeyStore, PauseStore, Suspects, TakeKeys, WalkFrom};
use sendoff_engine::{Handler, HandlerResult, Outbox, OutboxOptions, at_most};
use tokio::time::{Instant, sleep};

use super::flaky::Flaky;
use super::{EVENT, SECOND, fill, options, unlimited};

/// Mails of as many keys.
const MAILS: usize = 600;

type Log = Arc<Mutex<Vec<(String, String, u32, Instant)>>>;

fn keyed(event_type: &'static str, key: &str, number: u32) -> Event {
    Event::builder(event_type).ordering_key(key).json(&number).build().unwrap()
}

async fn write(store: &MemoryStore, events: Vec<Event>) -> Vec<EventId> {
    let writer = Outbox::writer_only(store.clone());
    let mut all = Vec::new();
    for chunk in events.chunks(1_000) {
        let mut tx = writer.begin(store).await.unwrap();
        all.extend(chunk.iter().map(|event| tx.emit(event).unwrap()));
        tx.commit().await.unwrap();
    }
    all
}

fn logging(log: &Log, takes: Duration) -> impl Handler + Clone {
    let log = log.clone();
    move |delivery: Delivery| {
        let log = log.clone();
        async move {
            let key = delivery.ordering_key().unwrap_or("").to_owned();
            let number: u32 = delivery.read_json().unwrap();
            let kind = delivery.event_type().to_owned();
            log.lock().unwrap().push((kind, key, number, Instant::now()));
            sleep(takes).await;
            HandlerResult::Ok(())
        }
    }
}

fn seen(log: &Log, key: &str) -> usize {
    log.lock().unwrap().iter().filter(|(_, k, ..)| k == key).count()
}

async fn waits(log: &Log, key: &str, count: usize, most: Duration) -> Option<Duration> {
    let begun = Instant::now();
    while begun.elapsed() < most {
        if seen(log, key) >= count {
            return Some(begun.elapsed());
        }
        sleep(Duration::from_millis(20)).await;
    }
    None
}

/// Keyed events beside a flood of unordered ones that keeps the cold lane full.
#[tokio::test(start_paused = true)]
async fn a_keyed_event_is_not_starved_by_events_without_keys() {
    let (store, log) = (MemoryStore::new(), Log::default());
    fill(&store, EVENT, 20_000).await;
    let outbox = Outbox::builder(store.clone()).options(options());
    let outbox = outbox.on(EVENT, logging(&log, SECOND / 20)).start().await.unwrap();
    sleep(15 * SECOND).await;
    write(&store, vec![keyed(EVENT, "k", 0)]).await;
    let waited = waits(&log, "k", 1, 400 * SECOND).await;
    assert!(waited.is_some_and(|waited| waited < 30 * SECOND), "{waited:?}");
    outbox.close().await;
}

/// How long a key of a quick handler waits where those of another, which runs twice at most, fill all that may be in
/// hand.
async fn a_quick_key_waits_beside(slow: impl Handler) -> Duration {
    let (store, log) = (MemoryStore::new(), Log::default());
    let mut events = Vec::new();
    for number in 0..100 {
        events.extend((0..100).map(|key| keyed("slow", &format!("s{key}"), number)));
    }
    write(&store, events).await;
    let two = NonZeroUsize::new(2).unwrap();
    let options = OutboxOptions { workers: 8, ..unlimited() };
    let outbox = Outbox::builder(store.clone()).options(options).on("slow", at_most(two, slow));
    let outbox = outbox.on("quick", logging(&log, Duration::ZERO)).start().await.unwrap();
    sleep(10 * SECOND).await;
    write(&store, vec![keyed("quick", "q", 0)]).await;
    let waited = waits(&log, "q", 1, 2_000 * SECOND).await.expect("it is delivered");
    outbox.close().await;
    waited
}

#[tokio::test(start_paused = true)]
async fn keys_of_a_slow_handler_keep_those_of_a_quick_one_waiting_for_seconds_only() {
    let waited = a_quick_key_waits_beside(logging(&Log::default(), 5 * SECOND)).await;
    assert!(waited < 30 * SECOND, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn keys_of_a_handler_that_hangs_keep_those_of_a_quick_one_waiting_for_a_minute_at_most() {
    let waited = a_quick_key_waits_beside(super::hang).await;
    assert!(waited < 60 * SECOND, "{waited:?}");
}

/// Keys whose holder vanished go one event at a time; that is not what "long" means.
#[tokio::test(start_paused = true)]
async fn a_relay_after_a_vanished_holder_still_takes_many_keys_at_once() {
    let store = MemoryStore::new();
    let mut events = Vec::new();
    for number in 0..3 {
        events.extend((0..100).map(|key| keyed(EVENT, &format!("k{key}"), number)));
    }
    write(&store, events).await;
    let options = RelayOptions { hold: 5 * SECOND, ..RelayOptions::default() };
    // As long a run as it could have had.
    let take = TakeKeys {
        owner: "vanished",
        limit: 500,
        run: 100,
        hold: 5 * SECOND,
        except: Except::NOTHING,
        suspects: Suspects::Skip,
        walk: Some(WalkFrom { after: 0, rows: 1_000 }),
    };
    let taken = store.take_keys(&take).await.unwrap();
    assert_eq!(taken.keys.len(), 100);
    sleep(6 * SECOND).await;
    let consumer = Consumer::new(store.clone(), options).unwrap();
    let mut sizes = Vec::new();
    let begun = Instant::now();
    while store.rows().iter().any(|row| row.status != Status::Done) && sizes.len() < 400 {
        let Some(mut batch) = consumer.fetch().await.unwrap() else {
            sleep(SECOND / 10).await;
            assert!(begun.elapsed() < 600 * SECOND);
            continue;
        };
        let ids: Vec<_> = batch.records().map(|record| record.id()).collect();
        sizes.push(ids.len());
        ids.into_iter().for_each(|id| batch.ack(id).unwrap());
        batch.commit().await.unwrap();
    }
    assert!(sizes.len() <= 20, "{} batches for 300 events of 100 keys", sizes.len());
}

/// Keys of a handler that fails are not taken and let go again and again; and listed keys of a paused kind keep no others
/// waiting that are due.
#[tokio::test(start_paused = true)]
async fn listed_keys_of_a_paused_kind_keep_nobody_waiting() {
    let (flaky, log) = (Flaky::default(), Log::default());
    let store = flaky.table.clone();
    let events = (0..MAILS).map(|key| keyed("mail", &format!("m{key}"), 0)).collect();
    write(&store, events).await;
    let failing =
        |_: Delivery| async { HandlerResult::Err(Failure::retry_after(5 * SECOND, "no")) };
    let quick_log = log.clone();
    // Fails once, after the others: so it is listed behind them.
    let quick = move |delivery: Delivery| {
        let log = quick_log.clone();
        async move {
            if delivery.attempt == 1 {
                return Err(Failure::retry_after(10 * SECOND, "not yet"));
            }
            let key = delivery.ordering_key().unwrap_or("").to_owned();
            log.lock().unwrap().push((String::new(), key, 0, Instant::now()));
            HandlerResult::Ok(())
        }
    };
    let outbox = Outbox::builder(flaky.clone()).options(options());
    let outbox = outbox.on("mail", failing).on("quick", quick).start().await.unwrap();
    sleep(3 * SECOND).await;
    let flood = flaky.key_looks();
    let note = AuditNote::new("ann", "a test").unwrap();
    store.pause(&"type:mail".parse().unwrap(), &note).await.unwrap();
    sleep(2 * SECOND).await;
    write(&store, vec![keyed("quick", "q", 0)]).await;
    let waited = waits(&log, "q", 1, 300 * SECOND).await;
    assert!(waited.is_some_and(|waited| waited < 15 * SECOND), "{waited:?}");
    assert!(flood < 300, "one key is taken and let go again and again: {flood} looks in 3 s");
    outbox.close().await;
}

/// An event that committed late dies, and parks a key that somebody holds; an operator lets it go on.
#[tokio::test(start_paused = true)]
async fn a_key_that_is_resumed_while_it_is_held_stays_held() {
    let (store, log) = (MemoryStore::new(), Log::default());
    let handler = |node: &'static str| {
        let log = log.clone();
        move |delivery: Delivery| {
            let log = log.clone();
            async move {
                let number: u32 = delivery.read_json().unwrap();
                log.lock().unwrap().push((node.to_owned(), "k".into(), number, Instant::now()));
                if number == 0 {
                    return Err(Failure::dead("no"));
                }
                sleep(200 * SECOND).await;
                HandlerResult::Ok(())
            }
        }
    };
    let slow = OutboxOptions { poll_interval: 20 * SECOND, ..unlimited() };
    let one = Outbox::builder(store.clone()).options(slow).on(EVENT, handler("one"));
    let one = one.start().await.unwrap();
    sleep(SECOND).await;
    let mut tx = store.transaction().unwrap();
    let staged = one.write(&mut tx, keyed(EVENT, "k", 0)).await.unwrap();
    let two = Outbox::builder(store.clone()).options(unlimited()).on(EVENT, handler("two"));
    let _two = two.start().await.unwrap();
    write(&store, vec![keyed(EVENT, "k", 1), keyed(EVENT, "k", 2)]).await;
    assert!(waits(&log, "k", 1, 5 * SECOND).await.is_some());
    tx.commit().unwrap();
    staged.release();
    assert!(waits(&log, "k", 2, 10 * SECOND).await.is_some(), "the late one runs");
    sleep(SECOND).await;
    let note = AuditNote::new("ann", "a test").unwrap();
    let fate = one.keys().resume("k", None, &note).await.unwrap();
    assert!(matches!(fate, KeyFate::Resumed { .. }), "{fate:?}");
    sleep(450 * SECOND).await;
    let log = log.lock().unwrap().clone();
    let runs: Vec<_> = log.iter().map(|(node, _, number, _)| (&**node, *number)).collect();
    let first = runs.iter().filter(|(_, number)| *number == 1).count();
    assert_eq!(first, 1, "in work on two nodes at once: {runs:?}");
}
