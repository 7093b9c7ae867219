//! Order within a key: hot and cold, through failures, on one node and on several.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::order::{AfterDead, KeyFate};
use sendoff_core::{
    AuditNote, Delivery, Event, EventId, Failure, Lane, LetterCount, LetterFilter, Status,
};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::relay::{BatchError, ClaimMode, Consumer, Relay, RelayOptions};
use sendoff_engine::{Counters, Handler, HandlerOptions, HandlerResult, Outbox, OutboxOptions};
use sendoff_testkit::wait::{eventually, within};
use tokio::sync::watch;
use tokio::time::Instant;

use super::flaky::Flaky;
use super::{EVENT, SECOND, options};

/// What was begun, in order.
#[derive(Debug, Clone, Default)]
struct Seen(Arc<Mutex<Vec<Begun>>>);

/// The key, the number in the payload, the attempt, and by which lane.
type Begun = (String, u32, u32, Option<Lane>);

impl Seen {
    fn add(&self, delivery: &Delivery) -> (String, u32) {
        let key = delivery.ordering_key().unwrap_or("").to_owned();
        let number: u32 = delivery.read_json().unwrap();
        let lane = delivery.lane();
        self.0.lock().unwrap().push((key.clone(), number, delivery.attempt, lane));
        (key, number)
    }

    fn of(&self, key: &str) -> Vec<u32> {
        let seen = self.0.lock().unwrap();
        seen.iter().filter(|(k, ..)| k == key).map(|(_, number, ..)| *number).collect()
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    fn lanes(&self, key: &str) -> Vec<Option<Lane>> {
        let seen = self.0.lock().unwrap();
        seen.iter().filter(|(k, ..)| k == key).map(|(_, _, _, lane)| *lane).collect()
    }
}

fn event(key: &str, number: u32) -> Event {
    Event::builder(EVENT).ordering_key(key).json(&number).build().unwrap()
}

async fn write<S>(outbox: &Outbox<S>, store: &MemoryStore, events: Vec<Event>) -> Vec<EventId>
where
    S: sendoff_engine::store::OutboxStore
        + for<'a> sendoff_engine::capture::Begin<
            &'a MemoryStore,
            Tx = sendoff_engine::memory::MemoryTx,
        > + sendoff_engine::capture::Commit<sendoff_engine::memory::MemoryTx>,
{
    let mut tx = outbox.begin(store).await.unwrap();
    let ids = events.into_iter().map(|event| tx.emit(event).unwrap()).collect();
    tx.commit().await.unwrap();
    ids
}

async fn started(
    store: &MemoryStore,
    options: OutboxOptions,
    handler: impl Handler,
) -> Outbox<MemoryStore> {
    let outbox = Outbox::builder(store.clone()).options(options).on(EVENT, handler).start().await;
    outbox.unwrap()
}

fn recording(seen: &Seen, takes: Duration) -> impl Handler {
    let seen = seen.clone();
    move |delivery: Delivery| {
        let seen = seen.clone();
        async move {
            seen.add(&delivery);
            tokio::time::sleep(takes).await;
            HandlerResult::Ok(())
        }
    }
}

fn done(store: &MemoryStore) -> usize {
    store.rows().iter().filter(|row| row.status == Status::Done).count()
}

/// Holds O1, O2: from the table, many keys side by side and each in order.
#[tokio::test(start_paused = true)]
async fn a_backlog_is_delivered_in_order_and_keys_side_by_side() {
    let (store, seen) = (MemoryStore::new(), Seen::default());
    let writer = Outbox::writer_only(store.clone());
    for number in 0..50 {
        let events = (0..20).map(|key| event(&format!("k{key}"), number)).collect();
        write(&writer, &store, events).await;
    }
    let options = OutboxOptions { workers: 8, ..options() };
    let begun = Instant::now();
    let outbox = started(&store, options, recording(&seen, SECOND / 10)).await;
    eventually("all are done", async || done(&store) == 1_000).await;
    for key in 0..20 {
        assert_eq!(seen.of(&format!("k{key}")), (0..50).collect::<Vec<_>>());
    }
    assert!(begun.elapsed() < 14 * SECOND, "eight at a time: {:?}", begun.elapsed());
    outbox.close().await;
}

/// Holds O1, K2: what one node writes stays hot, also three events of one transaction.
#[tokio::test(start_paused = true)]
async fn a_burst_on_one_node_stays_hot_and_in_order() {
    let (store, seen) = (MemoryStore::new(), Seen::default());
    let outbox = started(&store, options(), recording(&seen, Duration::from_millis(20))).await;
    for number in 0..10 {
        let events = (0..3).map(|third| event("a", number * 3 + third)).collect();
        write(&outbox, &store, events).await;
    }
    eventually("all are done", async || done(&store) == 30).await;
    assert_eq!(seen.of("a"), (0..30).collect::<Vec<_>>());
    assert_eq!(seen.lanes("a"), vec![Some(Lane::Hot); 30]);
    outbox.close().await;
}

/// Holds O3: an event that hangs on one node, and that others have by now, keeps those after it, which wait for it in
/// memory there, from nobody.
#[tokio::test(start_paused = true)]
async fn what_waits_for_an_event_that_hangs_is_released_to_others() {
    let (store, seen) = (MemoryStore::new(), Seen::default());
    let handler = HandlerOptions { timeout: None, ..HandlerOptions::default() };
    let options = OutboxOptions { handler, in_flight_ttl: Some(60 * SECOND), ..options() };
    let hung = started(&store, options.clone(), |_: Delivery| std::future::pending()).await;
    for number in 0..3 {
        write(&hung, &store, vec![event("a", number)]).await;
    }
    let other = started(&store, options, recording(&seen, Duration::from_millis(20))).await;
    within(300 * SECOND, "all are done", async || done(&store) == 3).await;
    assert_eq!(seen.of("a"), [0, 1, 2]);
    other.close().await;
}

/// Holds O3: while a run goes on of which others have the key by now, nothing of it begins here; and when that run ends
/// in the end, the node delivers the key as before.
#[tokio::test(start_paused = true)]
async fn a_run_whose_key_is_others_by_now_is_in_nobody_s_way() {
    let (store, seen) = (MemoryStore::new(), Seen::default());
    let handler = HandlerOptions { timeout: None, ..HandlerOptions::default() };
    let options = OutboxOptions { handler, in_flight_ttl: Some(60 * SECOND), ..options() };
    let writer = Outbox::writer_only(store.clone());
    write(&writer, &store, vec![event("a", 0), event("a", 1)]).await;
    let (release, released) = watch::channel(false);
    let (hung, at_last) = (seen.clone(), released.clone());
    let hung = started(&store, options.clone(), move |delivery: Delivery| {
        let (seen, mut released) = (hung.clone(), at_last.clone());
        async move {
            if seen.add(&delivery) == ("a".to_owned(), 0) {
                released.wait_for(|released| *released).await.map_err(|_| "the test is over")?;
            }
            HandlerResult::Ok(())
        }
    })
    .await;
    eventually("the first one is begun", async || seen.count() == 1).await;
    let other = started(&store, options, recording(&seen, Duration::ZERO)).await;
    within(300 * SECOND, "others have both", async || done(&store) == 2).await;
    write(&hung, &store, vec![event("a", 2)]).await;
    within(300 * SECOND, "and what was written since", async || done(&store) == 3).await;
    other.close().await;
    release.send(true).unwrap();
    write(&writer, &store, vec![event("a", 3)]).await;
    within(60 * SECOND, "alone again", async || done(&store) == 4).await;
    assert_eq!(seen.of("a"), [0, 0, 1, 2, 3]);
    hung.close().await;
}

/// Holds O3: a key that retries holds back itself, and nothing else.
#[tokio::test(start_paused = true)]
async fn a_failing_key_waits_alone() {
    let (store, seen) = (MemoryStore::new(), Seen::default());
    let failing = seen.clone();
    let handler = move |delivery: Delivery| {
        let seen = failing.clone();
        async move {
            let (key, number) = seen.add(&delivery);
            if key == "bad" && number == 1 && delivery.attempt < 4 {
                return Err(Failure::retry_after(5 * SECOND, "not yet"));
            }
            HandlerResult::Ok(())
        }
    };
    let outbox = started(&store, options(), handler).await;
    let writer = Outbox::writer_only(store.clone());
    for number in 0..4 {
        write(&writer, &store, vec![event("bad", number), event("good", number)]).await;
        write(&outbox, &store, vec![event("hot", number)]).await;
    }
    eventually("the others are done", async || done(&store) >= 9).await;
    assert_eq!(seen.of("good"), [0, 1, 2, 3]);
    assert_eq!(seen.of("bad"), [0, 1], "those after it wait");
    eventually("all are done", async || done(&store) == 12).await;
    assert_eq!(seen.of("bad"), [0, 1, 1, 1, 1, 2, 3]);
    outbox.close().await;
}

fn dying(seen: &Seen) -> impl Handler {
    let seen = seen.clone();
    move |delivery: Delivery| {
        let seen = seen.clone();
        async move {
            let (_, number) = seen.add(&delivery);
            let fails = number == 1 && seen.of("a").iter().filter(|seen| **seen == 1).count() < 2;
            if fails { Err(Failure::dead("no")) } else { HandlerResult::Ok(()) }
        }
    }
}

/// Holds O1, K5: a dead event parks its key, hot or cold, until it is requeued.
#[tokio::test(start_paused = true)]
async fn a_dead_event_parks_its_key_until_it_is_requeued() {
    for hot in [false, true] {
        let (store, seen) = (MemoryStore::new(), Seen::default());
        let outbox = started(&store, options(), dying(&seen)).await;
        let writer = Outbox::writer_only(store.clone());
        let from = if hot { &outbox } else { &writer };
        let mut ids = Vec::new();
        for number in 0..4 {
            ids.extend(write(from, &store, vec![event("a", number)]).await);
        }
        tokio::time::sleep(60 * SECOND).await;
        assert_eq!(seen.of("a"), [0, 1], "hot: {hot}");
        write(from, &store, vec![event("a", 4)]).await;
        tokio::time::sleep(60 * SECOND).await;
        assert_eq!(seen.of("a"), [0, 1], "what is written later waits too");
        let note = AuditNote::new("ada", "mended").unwrap();
        let letters = outbox.dead_letters();
        let fates = letters.requeue(&[ids[1]], &note).await.unwrap();
        assert_eq!(fates.len(), 1);
        eventually("all are done", async || done(&store) == 5).await;
        assert_eq!(seen.of("a"), [0, 1, 1, 2, 3, 4]);
        outbox.close().await;
    }
}

/// Holds O1: a discarded event is over.
#[tokio::test(start_paused = true)]
async fn a_parked_key_goes_on_when_its_dead_event_is_discarded() {
    let (store, seen) = (MemoryStore::new(), Seen::default());
    let outbox = started(&store, options(), dying(&seen)).await;
    let writer = Outbox::writer_only(store.clone());
    let ids = write(&writer, &store, (0..4).map(|number| event("a", number)).collect()).await;
    eventually("it is parked", async || seen.count() == 2).await;
    tokio::time::sleep(SECOND).await;
    let note = AuditNote::new("ada", "never mind").unwrap();
    outbox.dead_letters().discard(&[ids[1]], &note).await.unwrap();
    eventually("the others are done", async || done(&store) == 3).await;
    assert_eq!(seen.of("a"), [0, 1, 2, 3]);
    let left = outbox.dead_letters().count(&LetterFilter::default()).await.unwrap();
    assert_eq!(left, LetterCount::Exactly(0));
    outbox.close().await;
}

/// A key that an operator lets go on is found by whoever runs, and the dead event stays; requeued, it comes after
/// what overtook it. Counters say that the key was parked.
#[tokio::test(start_paused = true)]
async fn a_parked_key_goes_on_without_its_dead_event_when_it_is_resumed() {
    let (store, seen) = (MemoryStore::new(), Seen::default());
    let counters = Arc::new(Counters::default());
    let outbox = Outbox::builder(store.clone())
        .options(options())
        .metrics(counters.clone())
        .on(EVENT, dying(&seen))
        .start()
        .await
        .unwrap();
    let writer = Outbox::writer_only(store.clone());
    let ids = write(&writer, &store, (0..4).map(|number| event("a", number)).collect()).await;
    eventually("it is parked", async || counters.values().parked_keys == 1).await;
    assert_eq!(seen.of("a"), [0, 1]);
    let keys = outbox.keys();
    let parked = keys.parked(None, 10).await.unwrap();
    assert_eq!((parked.keys.len(), parked.next), (1, None));
    let parking = parked.keys[0].parking().unwrap();
    assert_eq!((parking.event, parked.keys[0].events), (ids[1], LetterCount::Exactly(2)));
    let note = AuditNote::new("ada", "never mind").unwrap();
    let fate = keys.resume("a", Some(ids[1]), &note).await.unwrap();
    assert_eq!(fate, KeyFate::Resumed { event: ids[1] });
    eventually("the others are done", async || done(&store) == 3).await;
    assert_eq!(seen.of("a"), [0, 1, 2, 3]);
    eventually("none is parked", async || counters.values().parked_keys == 0).await;
    outbox.dead_letters().requeue(&ids[1..2], &note).await.unwrap();
    eventually("all are done", async || done(&store) == 4).await;
    assert_eq!(seen.of("a"), [0, 1, 2, 3, 1], "after what overtook it");
    assert!(keys.show("").await.is_err(), "no key");
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_event_is_skipped_where_that_is_asked_for() {
    for hot in [false, true] {
        let (store, seen) = (MemoryStore::new(), Seen::default());
        let handler = HandlerOptions { after_dead: AfterDead::Skip, ..HandlerOptions::default() };
        let options = OutboxOptions { handler, ..options() };
        let outbox = started(&store, options, dying(&seen)).await;
        let writer = Outbox::writer_only(store.clone());
        let from = if hot { &outbox } else { &writer };
        for number in 0..4 {
            write(from, &store, vec![event("a", number)]).await;
        }
        eventually("the others are done", async || done(&store) == 3).await;
        assert_eq!(seen.of("a"), [0, 1, 2, 3]);
        outbox.close().await;
    }
}

/// Holds O1, O2: three nodes, hot and cold writers, and each key in order.
#[tokio::test(start_paused = true)]
async fn nodes_share_keys_without_knowing_each_other() {
    let (store, seen) = (MemoryStore::new(), Seen::default());
    let mut nodes = Vec::new();
    for _ in 0..3 {
        let options = OutboxOptions { workers: 3, ..options() };
        nodes.push(started(&store, options, recording(&seen, Duration::from_millis(7))).await);
    }
    let writer = Outbox::writer_only(store.clone());
    for number in 0..60 {
        let from = match number % 4 {
            3 => &writer,
            node => &nodes[node as usize],
        };
        write(from, &store, (0..5).map(|key| event(&format!("k{key}"), number)).collect()).await;
        tokio::time::sleep(Duration::from_millis(u64::from(number % 5) * 3)).await;
    }
    eventually("all are done", async || done(&store) == 300).await;
    for key in 0..5 {
        assert_eq!(seen.of(&format!("k{key}")), (0..60).collect::<Vec<_>>());
    }
    for node in &nodes {
        node.close().await;
    }
}

/// Holds I3: a settlement that fails is not a failed delivery, and keeps its key.
#[tokio::test(start_paused = true)]
async fn a_database_that_goes_away_costs_no_order_and_no_duplicate() {
    let (store, seen) = (Flaky::default(), Seen::default());
    let writer = Outbox::writer_only(store.table.clone());
    for number in 0..20 {
        write(&writer, &store.table, vec![event("a", number), event("b", number)]).await;
    }
    let handler = recording(&seen, Duration::from_millis(100));
    let outbox = Outbox::builder(store.clone()).options(options()).on(EVENT, handler).start().await;
    let outbox = outbox.unwrap();
    eventually("some are done", async || done(&store.table) > 6).await;
    store.set_down(true);
    tokio::time::sleep(3 * SECOND).await;
    store.set_down(false);
    eventually("all are done", async || done(&store.table) == 40).await;
    for key in ["a", "b"] {
        assert_eq!(seen.of(key), (0..20).collect::<Vec<_>>());
    }
    outbox.close().await;
}

/// Holds O1: a delayed event holds back what comes after it, until it is over.
#[tokio::test(start_paused = true)]
async fn a_delayed_event_keeps_its_place() {
    let (store, seen) = (MemoryStore::new(), Seen::default());
    let outbox = started(&store, options(), recording(&seen, Duration::ZERO)).await;
    let delayed = Event::builder(EVENT).ordering_key("a").delay(30 * SECOND).json(&0).build();
    write(&outbox, &store, vec![delayed.unwrap()]).await;
    write(&outbox, &store, vec![event("a", 1)]).await;
    tokio::time::sleep(20 * SECOND).await;
    assert_eq!(seen.count(), 0);
    eventually("all are done", async || done(&store) == 2).await;
    assert_eq!(seen.of("a"), [0, 1]);
    outbox.close().await;
}

/// Holds O4: what a node that closes has not begun is somebody else's at once, in order.
#[tokio::test(start_paused = true)]
async fn a_node_that_closes_lets_its_keys_go() {
    let (store, seen) = (MemoryStore::new(), Seen::default());
    let writer = Outbox::writer_only(store.clone());
    for number in 0..30 {
        write(&writer, &store, vec![event("a", number)]).await;
    }
    let first = started(&store, options(), recording(&seen, SECOND)).await;
    eventually("some were begun", async || seen.count() == 5).await;
    first.close().await;
    let begun = Instant::now();
    let second = started(&store, options(), recording(&seen, Duration::ZERO)).await;
    eventually("all are done", async || done(&store) == 30).await;
    assert!(begun.elapsed() < 5 * SECOND, "no hold had to run out");
    assert_eq!(seen.of("a"), (0..30).collect::<Vec<_>>());
    second.close().await;
}

/// Holds O3: an event that is lost with its process again and again ends dead, alone.
#[tokio::test(start_paused = true)]
async fn a_holder_that_vanishes_costs_a_hold_and_no_order() {
    let (store, seen) = (MemoryStore::new(), Seen::default());
    let writer = Outbox::writer_only(store.clone());
    for number in 0..10 {
        write(&writer, &store, vec![event("a", number), event("b", number)]).await;
    }
    let hold = Duration::from_secs(2);
    let options = OutboxOptions { hold, hot_grace: hold, ..options() };
    let first = started(&store, options.clone(), recording(&seen, SECOND)).await;
    eventually("some were begun", async || seen.count() >= 4).await;
    drop(first);
    let second = started(&store, options, recording(&seen, Duration::ZERO)).await;
    eventually("all are done", async || done(&store) == 20).await;
    for key in ["a", "b"] {
        let mut first = seen.of(key);
        first.dedup();
        assert_eq!(first, (0..10).collect::<Vec<_>>(), "{key} began in order, once each but one");
    }
    second.close().await;
}

fn relay_options(mode: ClaimMode) -> RelayOptions {
    RelayOptions { mode, poll_interval: SECOND, ..RelayOptions::default() }
}

/// Holds O1, O3: the same by a relay, held or locked, and a failing key waits alone.
#[tokio::test(start_paused = true)]
async fn a_relay_delivers_keys_in_order_and_a_failing_one_waits_alone() {
    for mode in [ClaimMode::Held, ClaimMode::Locked] {
        let (store, seen) = (MemoryStore::new(), Seen::default());
        let writer = Outbox::writer_only(store.clone());
        for number in 0..30 {
            let mut events: Vec<_> = (0..5).map(|key| event(&format!("k{key}"), number)).collect();
            events.push(Event::json(EVENT, &number).unwrap());
            write(&writer, &store, events).await;
        }
        let failing = seen.clone();
        let handler = move |delivery: Delivery| {
            let seen = failing.clone();
            async move {
                let (key, number) = seen.add(&delivery);
                if key == "k3" && number == 7 && delivery.attempt < 3 {
                    return Err(Failure::retry_after(5 * SECOND, "not yet"));
                }
                HandlerResult::Ok(())
            }
        };
        let relay =
            Relay::builder(store.clone()).options(relay_options(mode)).build(handler).unwrap();
        let relay = relay.start().await.unwrap();
        eventually("the others are done", async || done(&store) >= 157).await;
        assert_eq!(seen.of("k3"), (0..8).collect::<Vec<_>>(), "{mode:?}: those after it wait");
        eventually("all are done", async || done(&store) == 180).await;
        for key in [0, 1, 2, 4] {
            assert_eq!(seen.of(&format!("k{key}")), (0..30).collect::<Vec<_>>(), "{mode:?}");
        }
        let mut third = seen.of("k3");
        third.dedup();
        assert_eq!(third, (0..30).collect::<Vec<_>>());
        relay.close().await;
    }
}

/// Holds L2: an answer out of order is refused, and what has none is as it was.
#[tokio::test(start_paused = true)]
async fn a_batch_refuses_answers_out_of_order() {
    let store = MemoryStore::new();
    let writer = Outbox::writer_only(store.clone());
    let ids = write(&writer, &store, (0..3).map(|number| event("a", number)).collect()).await;
    let consumer = Consumer::new(store.clone(), relay_options(ClaimMode::Held)).unwrap();
    let mut batch = consumer.fetch().await.unwrap().unwrap();
    let records: Vec<EventId> = batch.records().map(|record| record.id()).collect();
    assert_eq!(records, ids);
    let refused = batch.ack(ids[1]).unwrap_err();
    assert_eq!(refused, BatchError::OutOfOrder { id: ids[1], first: ids[0] });
    batch.ack(ids[0]).unwrap();
    batch.fail(ids[1], Failure::retry_after(SECOND, "no")).unwrap();
    assert!(
        matches!(batch.ack(ids[2]), Err(BatchError::OutOfOrder { first, .. }) if first == ids[1])
    );
    let report = batch.commit().await.unwrap();
    assert_eq!((report.done, report.retried, report.untouched), (1, 1, 1));
    assert!(consumer.fetch().await.unwrap().is_none(), "it waits");
    tokio::time::sleep(2 * SECOND).await;
    let mut batch = consumer.fetch().await.unwrap().unwrap();
    assert_eq!(batch.records().map(|record| record.id()).collect::<Vec<_>>(), ids[1..]);
    for id in &ids[1..] {
        batch.ack(*id).unwrap();
    }
    assert_eq!(batch.commit().await.unwrap().done, 2);
    assert_eq!(done(&store), 3);
}

/// A relay beside an outbox on one table, with strays of hot events that failed.
#[tokio::test(start_paused = true)]
async fn a_relay_and_an_outbox_share_keys() {
    let (store, seen) = (MemoryStore::new(), Seen::default());
    let failing = seen.clone();
    let handler = move |delivery: Delivery| {
        let seen = failing.clone();
        async move {
            let (_, number) = seen.add(&delivery);
            match (number % 5, delivery.attempt) {
                (3, 1) => Err(Failure::retry_after(SECOND / 2, "not yet")),
                _ => HandlerResult::Ok(()),
            }
        }
    };
    let outbox = started(&store, options(), handler.clone()).await;
    let relay = Relay::builder(store.clone())
        .options(relay_options(ClaimMode::Held))
        .build(handler)
        .unwrap();
    let relay = relay.start().await.unwrap();
    let writer = Outbox::writer_only(store.clone());
    for number in 0..40 {
        let from = if number % 2 == 0 { &outbox } else { &writer };
        write(from, &store, vec![event("a", number), event("b", number)]).await;
    }
    eventually("all are done", async || done(&store) == 80).await;
    for key in ["a", "b"] {
        let mut begun = seen.of(key);
        begun.dedup();
        assert_eq!(begun, (0..40).collect::<Vec<_>>());
    }
    relay.close().await;
    outbox.close().await;
}
