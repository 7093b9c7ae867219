//! What operators pause waits in the table, in nobody's way, and is delivered when it is resumed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use sendoff_core::{AuditNote, Event, Failure, PauseScope, Status, Unroutable};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::relay::{ClaimMode, Consumer, Relay, RelayOptions, TopicWorker};
use sendoff_engine::sink::HandlerSink;
use sendoff_engine::store::{PauseStore, Row};
use sendoff_engine::{Counters, HandlerOptions, Handlers, Outbox, OutboxOptions};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::within;
use tokio::time::{Instant, sleep};

use super::flaky::Flaky;
use super::operate::logging;
use super::{EVENT, SECOND, commit, fill, lose_twice, row, slow};

const PAUSED: &str = "mail.sent";
const MODES: [ClaimMode; 2] = [ClaimMode::Held, ClaimMode::Locked];

fn scope(text: &str) -> PauseScope {
    text.parse().unwrap()
}

async fn pause(store: &MemoryStore, what: &str) {
    let note = AuditNote::new("ann", "a test").unwrap();
    assert!(store.pause(&scope(what), &note).await.unwrap());
}

async fn resume(store: &MemoryStore, what: &str) {
    let note = AuditNote::new("ann", "a test").unwrap();
    assert!(store.resume(&scope(what), &note).await.unwrap());
}

fn of_type(store: &MemoryStore, event_type: &str) -> Vec<Row> {
    store.rows().into_iter().filter(|row| row.event.event_type() == event_type).collect()
}

/// As they were written: nobody tried, held or lost them.
fn are_untouched(rows: &[Row]) -> bool {
    let untouched = |row: &Row| {
        let counts = (row.status, row.attempts, row.losses);
        counts == (Status::New, 0, 0) && row.locked_by.is_none() && row.last_error.is_none()
    };
    rows.iter().all(untouched)
}

async fn all_received(inbox: &Inbox, count: usize) {
    within(2 * SECOND, "what was resumed", async || inbox.received().len() == count).await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_type_stays_in_the_table_and_others_go_on() {
    let (store, paused, others) = (Flaky::default(), Inbox::new(), Inbox::new());
    let outbox =
        Outbox::builder(store.clone()).on(PAUSED, paused.clone()).on(EVENT, others.clone());
    let outbox = outbox.start().await.unwrap();
    pause(&store.table, "type:mail.sent").await;
    sleep(SECOND).await;
    for number in 1..=300 {
        // Hot and cold.
        let mut tx = store.table.transaction().unwrap();
        let staged = outbox.write(&mut tx, Event::json(PAUSED, &number).unwrap()).await.unwrap();
        tx.commit().unwrap();
        staged.release();
        fill(&store.table, PAUSED, 1).await;
        fill(&store.table, EVENT, 1).await;
        store.ring();
        within(SECOND, "others", async || others.received().len() == number).await;
        sleep(SECOND / 10).await;
    }
    assert!(paused.received().is_empty());
    assert!(are_untouched(&of_type(&store.table, PAUSED)));
    resume(&store.table, "type:mail.sent").await;
    all_received(&paused, 600).await;
    assert!(of_type(&store.table, PAUSED).iter().all(|row| row.attempts == 0));
    outbox.close().await;
}

/// Holds D8 for what nobody may take: a paused event costs no claim, no hold and no release.
#[tokio::test(start_paused = true)]
async fn what_is_paused_causes_no_flood_of_claims_and_no_settlement() {
    for what in ["type:mail.sent", "handler:mail.sent", "all"] {
        let (store, inbox) = (Flaky::default(), Inbox::new());
        store.set_round_trip(Duration::from_millis(1));
        pause(&store.table, what).await;
        let outbox =
            Outbox::builder(store.clone()).on(PAUSED, inbox.clone()).on(EVENT, Inbox::new());
        let outbox = outbox.start().await.unwrap();
        sleep(SECOND).await;
        let (asked, settled) = (store.claims().0, store.batches());
        for _ in 0..6_000 {
            // Everybody rings, for what must not be delivered.
            let mut tx = store.table.transaction().unwrap();
            let staged = outbox.write(&mut tx, Event::json(PAUSED, &1).unwrap()).await.unwrap();
            tx.commit().unwrap();
            staged.release();
            store.ring();
            sleep(Duration::from_millis(10)).await;
        }
        let asked = store.claims().0 - asked;
        let most = if what == "all" { 0 } else { 60 * 4 * 2 * 2 };
        assert!(asked <= most, "{what}: {asked} claims in a minute");
        assert_eq!(store.batches(), settled, "{what}: nothing is settled or released");
        assert!(are_untouched(&store.table.rows()), "{what}");
        resume(&store.table, what).await;
        within(20 * SECOND, what, async || inbox.received().len() == 6_000).await;
        outbox.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_node_asks_no_more_while_something_is_paused() {
    let asked = async |paused: bool| {
        let store = Flaky::default();
        if paused {
            pause(&store.table, "type:mail.sent").await;
            fill(&store.table, PAUSED, 1_000).await;
        }
        let outbox = Outbox::builder(store.clone()).on(EVENT, Inbox::new()).start().await.unwrap();
        sleep(SECOND).await;
        let before = store.claims().0;
        sleep(60 * SECOND).await;
        outbox.close().await;
        store.claims().0 - before
    };
    assert_eq!(asked(true).await, asked(false).await);
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_paused_by_its_name_and_others_of_the_type_are_not() {
    let (store, billing, others) = (MemoryStore::new(), Inbox::new(), Inbox::new());
    let outbox = Outbox::builder(store.clone())
        .on_sink(EVENT, HandlerSink::new("billing", billing.clone()))
        .on_aggregate("user", EVENT, others.clone());
    let outbox = outbox.start().await.unwrap();
    pause(&store, "handler:billing").await;
    sleep(SECOND).await;
    let of_user = Event::builder(EVENT).aggregate("user", "1").json(&1).build().unwrap();
    let waits = commit(&outbox, &Event::json(EVENT, &1).unwrap()).await;
    commit(&outbox, &of_user).await;
    all_received(&others, 1).await;
    sleep(20 * SECOND).await;
    assert!(billing.received().is_empty() && are_untouched(&[row(&store, waits)]));
    resume(&store, "handler:billing").await;
    all_received(&billing, 1).await;
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_not_begun_is_put_back_and_what_runs_is_finished() {
    let (store, inbox) = (MemoryStore::new(), Inbox::stepping());
    let options = OutboxOptions { workers: 2, ..OutboxOptions::default() };
    let outbox = Outbox::builder(store.clone()).options(options).on(PAUSED, inbox.clone());
    let outbox = outbox.start().await.unwrap();
    fill(&store, PAUSED, 20).await;
    for number in 0..20 {
        commit(&outbox, &Event::json(PAUSED, &number).unwrap()).await;
    }
    within(6 * SECOND, "cold ones", async || outbox.lane_depths().cold > 0).await;
    assert!(outbox.lane_depths().hot > 0);
    pause(&store, "type:mail.sent").await;
    let held = || store.rows().into_iter().filter(|row| row.locked_by.is_some()).count();
    within(SECOND, "all but the two that run are free", async || held() == 2).await;
    assert_eq!((outbox.lane_depths().hot, outbox.lane_depths().cold), (0, 0));
    inbox.allow(usize::MAX >> 4);
    within(SECOND, "what runs ends", async || held() == 0).await;
    sleep(30 * SECOND).await;
    assert_eq!(inbox.received().len(), 2);
    let waiting = of_type(&store, PAUSED).into_iter().filter(|row| row.status != Status::Done);
    assert!(are_untouched(&waiting.collect::<Vec<_>>()));
    resume(&store, "type:mail.sent").await;
    all_received(&inbox, 40).await;
    assert_eq!(inbox.ids().len(), 40, "each once");
    outbox.close().await;
}

/// A type that this node does not know is left alone like any other.
#[tokio::test(start_paused = true)]
async fn a_paused_type_is_not_dead_where_nobody_handles_it() {
    for what in ["type:mail.sent", "all"] {
        let (store, inbox) = (MemoryStore::new(), Inbox::new());
        fill(&store, PAUSED, 5).await;
        pause(&store, what).await;
        let handler = HandlerOptions { unroutable: Unroutable::Dead, ..HandlerOptions::default() };
        let options = OutboxOptions { handler, ..OutboxOptions::default() };
        let outbox = Outbox::builder(store.clone()).options(options).on(EVENT, inbox.clone());
        let outbox = outbox.start().await.unwrap();
        commit(&outbox, &Event::json(PAUSED, &1).unwrap()).await;
        sleep(60 * SECOND).await;
        assert!(are_untouched(&of_type(&store, PAUSED)), "{what}");
        resume(&store, what).await;
        let dead = async || of_type(&store, PAUSED).iter().all(|row| row.status == Status::Dead);
        within(2 * SECOND, "nobody has a handler for them", dead).await;
        outbox.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn suspects_of_a_paused_type_are_left_alone() {
    let (store, paused, others) = (MemoryStore::new(), Inbox::new(), Inbox::new());
    fill(&store, PAUSED, 3).await;
    lose_twice(&store).await;
    pause(&store, "type:mail.sent").await;
    let outbox =
        Outbox::builder(store.clone()).on(PAUSED, paused.clone()).on(EVENT, others.clone());
    let outbox = outbox.start().await.unwrap();
    sleep(120 * SECOND).await;
    assert!(of_type(&store, PAUSED).iter().all(|row| (row.attempts, row.losses) == (1, 1)));
    resume(&store, "type:mail.sent").await;
    within(60 * SECOND, "one by one", async || paused.received().len() == 3).await;
    outbox.close().await;
}

/// A node that was just started delivers nothing that is paused, not even before it has reached the database.
#[tokio::test(start_paused = true)]
async fn a_node_that_starts_knows_what_is_paused_before_it_delivers() {
    for down in [false, true] {
        let (store, paused, others) = (Flaky::default(), Inbox::new(), Inbox::new());
        pause(&store.table, "type:mail.sent").await;
        fill(&store.table, PAUSED, 10).await;
        fill(&store.table, EVENT, 10).await;
        store.set_down(down);
        let outbox = Outbox::builder(store.clone()).on(PAUSED, paused.clone());
        let outbox = outbox.on(EVENT, others.clone()).start().await.unwrap();
        let mut tx = store.table.transaction().unwrap();
        let staged = outbox.write(&mut tx, Event::json(PAUSED, &1).unwrap()).await.unwrap();
        tx.commit().unwrap();
        staged.release();
        sleep(10 * SECOND).await;
        store.set_down(false);
        within(5 * SECOND, "others", async || others.received().len() == 10).await;
        sleep(10 * SECOND).await;
        assert!(paused.received().is_empty() && are_untouched(&of_type(&store.table, PAUSED)));
        outbox.close().await;
    }
}

/// What was known last counts while the database is unavailable, and what changed meanwhile afterwards.
#[tokio::test(start_paused = true)]
async fn a_pause_outlives_an_outage_of_the_database() {
    let (store, inbox) = (Flaky::default(), Inbox::new());
    let outbox = Outbox::builder(store.clone()).on(PAUSED, inbox.clone()).start().await.unwrap();
    pause(&store.table, "all").await;
    sleep(SECOND).await;
    store.set_down(true);
    resume(&store.table, "all").await;
    pause(&store.table, "handler:mail.sent").await;
    fill(&store.table, PAUSED, 5).await;
    sleep(30 * SECOND).await;
    store.set_down(false);
    sleep(30 * SECOND).await;
    assert!(inbox.received().is_empty() && are_untouched(&store.table.rows()));
    resume(&store.table, "handler:mail.sent").await;
    all_received(&inbox, 5).await;
    outbox.close().await;
}

/// Several types at once, for any aggregate, over and over: nothing is lost or delivered twice.
#[tokio::test(start_paused = true)]
async fn pauses_that_come_and_go_lose_nothing() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    let take_a_while = slow(&inbox, SECOND / 20);
    let outbox = Outbox::builder(store.clone())
        .on(PAUSED, take_a_while.clone())
        .on_aggregate("user", PAUSED, take_a_while.clone())
        .on(EVENT, take_a_while);
    let outbox = outbox.start().await.unwrap();
    let written = async {
        for number in 0..1_000_u32 {
            let event = match number % 3 {
                0 => Event::json(PAUSED, &number),
                1 => Event::builder(PAUSED).aggregate("user", "1").json(&number).build(),
                _ => Event::json(EVENT, &number),
            };
            commit(&outbox, &event.unwrap()).await;
            sleep(SECOND / 40).await;
        }
    };
    let ordered = async {
        for round in 0..40 {
            let what = ["type:mail.sent", "handler:order.placed", "all"][round % 3];
            pause(&store, what).await;
            sleep(SECOND / 3).await;
            resume(&store, what).await;
            sleep(SECOND / 4).await;
        }
    };
    tokio::join!(biased; written, ordered);
    within(60 * SECOND, "everything", async || inbox.received().len() >= 1_000).await;
    sleep(60 * SECOND).await;
    let mut ids = inbox.ids();
    ids.dedup();
    assert_eq!((ids.len(), inbox.received().len()), (1_000, 1_000));
    assert!(store.rows().iter().all(|row| (row.status, row.attempts) == (Status::Done, 0)));
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_relay_leaves_what_is_paused_and_delivers_it_when_it_is_resumed() {
    for mode in MODES {
        for what in ["type:mail.sent", "handler:mail.sent", "all"] {
            let case = format!("{mode:?} {what}");
            let (store, paused, others) = (Flaky::default(), Inbox::new(), Inbox::new());
            store.set_round_trip(Duration::from_millis(1));
            let mut handlers = Handlers::new();
            handlers.on(PAUSED, paused.clone()).unwrap().on(EVENT, others.clone()).unwrap();
            let options = RelayOptions { mode, ..RelayOptions::default() };
            let relay = Relay::builder(store.clone()).options(options);
            let relaying = relay.build_routed(handlers).unwrap().start().await.unwrap();
            pause(&store.table, what).await;
            sleep(SECOND).await;
            let asked = store.claims().0;
            for number in 1..=60 {
                fill(&store.table, PAUSED, 5).await;
                fill(&store.table, EVENT, 1).await;
                store.ring();
                if what != "all" {
                    within(SECOND, &case, async || others.received().len() == number).await;
                }
                sleep(SECOND).await;
            }
            assert!(paused.received().is_empty(), "{case}");
            assert!(are_untouched(&of_type(&store.table, PAUSED)), "{case}");
            let asked = store.claims().0 - asked;
            // A claim that finds one and one that finds none, of each of four workers, and of suspects.
            let most = if what == "all" { 0 } else { 60 * 20 };
            assert!(asked <= most, "{case}: {asked} claims in a minute");
            resume(&store.table, what).await;
            all_received(&paused, 300).await;
            all_received(&others, 60).await;
            assert!(store.table.rows().iter().all(|row| row.attempts == 0), "{case}");
            relaying.close().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_relay_of_one_handler_is_paused_by_its_name() {
    let (store, inbox) = (Flaky::default(), Inbox::new());
    fill(&store.table, EVENT, 5).await;
    pause(&store.table, "handler:billing").await;
    let relay = Relay::builder(store.clone());
    let relay = relay.build_to(HandlerSink::new("billing", inbox.clone())).unwrap();
    let relaying = relay.start().await.unwrap();
    sleep(60 * SECOND).await;
    assert_eq!((inbox.received().len(), store.claims().0), (0, 0));
    resume(&store.table, "handler:billing").await;
    all_received(&inbox, 5).await;
    relaying.close().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_relays_batch_has_not_begun_is_put_back() {
    for mode in MODES {
        let (store, inbox) = (MemoryStore::new(), Inbox::stepping());
        fill(&store, PAUSED, 20).await;
        let options = RelayOptions { mode, workers: 1, ..RelayOptions::default() };
        let relay = Relay::builder(store.clone()).options(options).build(inbox.clone()).unwrap();
        let relaying = relay.start().await.unwrap();
        inbox.allow(3);
        within(SECOND, "some", async || inbox.received().len() == 3).await;
        pause(&store, "type:mail.sent").await;
        sleep(SECOND).await;
        inbox.allow(usize::MAX >> 4);
        sleep(60 * SECOND).await;
        let done = of_type(&store, PAUSED).iter().filter(|row| row.status == Status::Done).count();
        assert_eq!((done, inbox.received().len()), (4, 4), "{mode:?}: the one that ran ended");
        let waiting = of_type(&store, PAUSED).into_iter().filter(|row| row.status != Status::Done);
        assert!(are_untouched(&waiting.collect::<Vec<_>>()), "{mode:?}");
        let began = Instant::now();
        resume(&store, "type:mail.sent").await;
        all_received(&inbox, 20).await;
        assert!(began.elapsed() < 2 * SECOND, "{mode:?}");
        relaying.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_topic_is_paused_whatever_its_events_are_about() {
    for what in ["type:mail.sent", "handler:mail.sent"] {
        let (store, paused, others) = (MemoryStore::new(), Inbox::new(), Inbox::new());
        let handler = HandlerOptions { unroutable: Unroutable::Dead, ..HandlerOptions::default() };
        let options = RelayOptions { handler, ..RelayOptions::default() };
        let worker = TopicWorker::builder(store.clone()).options(options);
        let worker = worker.on(PAUSED, paused.clone()).on(EVENT, others.clone()).build().unwrap();
        pause(&store, what).await;
        let working = worker.start().await.unwrap();
        let outbox = Outbox::writer_only(store.clone());
        for aggregate in ["a", "b", "c"] {
            let of = |name: &'static str| {
                Event::builder(name).aggregate(aggregate, "1").json(&1).build().unwrap()
            };
            commit(&outbox, &of(PAUSED)).await;
            commit(&outbox, &of(EVENT)).await;
        }
        within(6 * SECOND, "others", async || others.received().len() == 3).await;
        sleep(30 * SECOND).await;
        assert!(paused.received().is_empty() && are_untouched(&of_type(&store, PAUSED)), "{what}");
        resume(&store, what).await;
        all_received(&paused, 3).await;
        working.close().await;
    }
}

/// Nobody looks in the background, so each look at events is preceded by one at pauses, now and then.
#[tokio::test(start_paused = true)]
async fn batches_by_hand_and_single_runs_see_a_pause_within_a_second() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    let consumer = Consumer::new(store.clone(), RelayOptions::default()).unwrap();
    let relay = Relay::builder(store.clone()).build(inbox.clone()).unwrap();
    let worker = TopicWorker::builder(store.clone()).on(PAUSED, inbox.clone()).build().unwrap();
    assert!(consumer.fetch().await.unwrap().is_none());
    assert!(relay.process_once().await.unwrap().is_none());
    assert!(worker.consume_one().await.unwrap().is_none());
    fill(&store, PAUSED, 4).await;
    pause(&store, "type:mail.sent").await;
    sleep(SECOND).await;
    assert!(consumer.fetch().await.unwrap().is_none());
    assert!(relay.process_once().await.unwrap().is_none());
    assert!(worker.consume_one().await.unwrap().is_none());
    resume(&store, "type:mail.sent").await;
    sleep(SECOND).await;
    assert_eq!(worker.consume_one().await.unwrap().unwrap().done, 1);
    assert_eq!(relay.process_once().await.unwrap().unwrap().done, 3);
}

#[tokio::test(start_paused = true)]
async fn metrics_say_what_is_paused() {
    let (store, counters) = (MemoryStore::new(), Arc::new(Counters::default()));
    pause(&store, "handler:billing").await;
    let outbox = Outbox::builder(store.clone()).metrics(counters.clone()).start().await.unwrap();
    let paused = || counters.values().paused.into_iter().collect::<Vec<_>>();
    assert_eq!(paused(), [scope("handler:billing")]);
    pause(&store, "type:mail.sent").await;
    let both = [scope("type:mail.sent"), scope("handler:billing")];
    within(SECOND, "the gauge", async || paused() == both).await;
    resume(&store, "handler:billing").await;
    resume(&store, "type:mail.sent").await;
    within(SECOND, "the gauge", async || paused().is_empty()).await;
    outbox.close().await;
}

#[cfg(feature = "prometheus")]
#[test]
fn a_gauge_is_one_for_whatever_is_paused() {
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;
    use sendoff_engine::{Metrics, PrometheusMetrics};

    let mut registry = Registry::default();
    let metrics = PrometheusMetrics::register(&mut registry);
    let text = || {
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    };
    metrics.paused(&["all", "type:a", "handler:\"b\""].map(scope));
    let said = text();
    for line in [
        "sendoff_paused{scope=\"all\",name=\"\"} 1",
        "sendoff_paused{scope=\"type\",name=\"a\"} 1",
        "sendoff_paused{scope=\"handler\",name=\"\\\"b\\\"\"} 1",
    ] {
        assert!(said.contains(line), "{said}");
    }
    metrics.paused(&[]);
    assert!(!text().contains("sendoff_paused{"));
}

/// A sink whose target is gone, for as long as it says so; and how often it ran.
fn hook() -> (HandlerSink, Arc<AtomicBool>, Arc<AtomicUsize>) {
    hook_of("hook")
}

fn hook_of(name: &str) -> (HandlerSink, Arc<AtomicBool>, Arc<AtomicUsize>) {
    let (is_gone, ran) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
    let (gone, runs) = (is_gone.clone(), ran.clone());
    let hook = HandlerSink::new(name, move |_| {
        runs.fetch_add(1, Ordering::SeqCst);
        let is_gone = gone.load(Ordering::SeqCst);
        async move {
            match is_gone {
                true => Err(Failure::disable("410:\nit wants no more")),
                false => Ok(()),
            }
        }
    });
    (hook, is_gone, ran)
}

/// Waits for the pause that a sink called "hook" asks for.
async fn paused_by_hook(store: &MemoryStore) {
    within(5 * SECOND, "the pause", async || !store.pauses().await.unwrap().is_empty()).await;
    let pauses = store.pauses().await.unwrap();
    let [pause] = &pauses[..] else { panic!("{pauses:?}") };
    assert_eq!(pause.scope, scope("handler:hook"));
    assert_eq!((&*pause.actor, &*pause.reason), ("handler:hook", "410: it wants no more"));
}

/// Nothing is left to wait for then, neither for the event that was told so nor for the circuit that its failures opened.
#[tokio::test(start_paused = true)]
async fn what_a_disabled_sink_has_flows_as_soon_as_it_is_resumed() {
    let is_done = |store: &MemoryStore| {
        let store = store.clone();
        async move || store.rows().iter().all(|row| row.status == Status::Done)
    };
    for events in [1, 50] {
        let (store, (hook, is_gone, _)) = (MemoryStore::new(), hook());
        let outbox = Outbox::builder(store.clone()).on_sink(PAUSED, hook).start().await.unwrap();
        fill(&store, PAUSED, events).await;
        // It was resumed too early before, so that it is tried more and more rarely.
        for _ in 0..5 {
            paused_by_hook(&store).await;
            sleep(SECOND).await;
            resume(&store, "handler:hook").await;
            sleep(2 * SECOND).await;
        }
        paused_by_hook(&store).await;
        is_gone.store(false, Ordering::SeqCst);
        sleep(SECOND).await;
        resume(&store, "handler:hook").await;
        within(2 * SECOND, "what waited", is_done(&store)).await;
        outbox.close().await;

        for mode in MODES {
            let (store, (hook, is_gone, _)) = (MemoryStore::new(), hook_of(PAUSED));
            let options = RelayOptions { mode, ..RelayOptions::default() };
            let mut handlers = Handlers::new();
            handlers.on_sink(PAUSED, hook).unwrap();
            let relay = Relay::builder(store.clone()).options(options).build_routed(handlers);
            let relaying = relay.unwrap().start().await.unwrap();
            fill(&store, PAUSED, events).await;
            let paused = async || !store.pauses().await.unwrap().is_empty();
            within(10 * SECOND, "the pause", paused).await;
            is_gone.store(false, Ordering::SeqCst);
            sleep(SECOND).await;
            resume(&store, "handler:mail.sent").await;
            within(2 * SECOND, "what waited", is_done(&store)).await;
            relaying.close().await;
        }
    }
}

/// Who did it, and why, and not that somebody else did.
#[tokio::test(start_paused = true)]
async fn the_log_says_who_paused_what_and_why() {
    let (lines, _guard) = logging();
    let (store, (hook, is_gone, _)) = (MemoryStore::new(), hook());
    let outbox = Outbox::builder(store.clone()).on_sink(PAUSED, hook).start().await.unwrap();
    fill(&store, PAUSED, 1).await;
    paused_by_hook(&store).await;
    pause(&store, "type:order.placed").await;
    sleep(2 * SECOND).await;
    let said = lines.with("paused: nothing of it is delivered until it is resumed");
    let told = |what: &str, whom: &str, why: &str| {
        let parts = [what, whom, why].map(|part| format!("\"{part}\""));
        said.iter().any(|line| parts.iter().all(|part| line.contains(&**part)))
    };
    assert!(told("handler:hook", "handler:hook", "410: it wants no more"), "{said:?}");
    assert!(told("type:order.placed", "ann", "a test"), "{said:?}");
    assert!(lines.with("operator").is_empty());
    is_gone.store(false, Ordering::SeqCst);
    resume(&store, "handler:hook").await;
    sleep(2 * SECOND).await;
    assert_eq!(lines.with("resumed: it is delivered again").len(), 1);
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_is_disabled_is_paused_with_the_reason_and_others_go_on() {
    let (store, others) = (MemoryStore::new(), Inbox::new());
    let (hook, is_gone, ran) = hook();
    let hour = 3_600 * SECOND;
    let handler = HandlerOptions { unavailable_at_most: hour, ..HandlerOptions::default() };
    let outbox = Outbox::builder(store.clone())
        .options(OutboxOptions { handler, ..OutboxOptions::default() })
        .on_sink(PAUSED, hook)
        .on(EVENT, others.clone());
    let outbox = outbox.start().await.unwrap();
    fill(&store, PAUSED, 1).await;
    paused_by_hook(&store).await;
    sleep(2 * SECOND).await;
    let before = ran.load(Ordering::SeqCst);
    fill(&store, PAUSED, 100).await;
    fill(&store, EVENT, 10).await;
    within(10 * SECOND, "others", async || others.received().len() == 10).await;
    // Longer than a target may be unavailable.
    sleep(2 * hour).await;
    assert_eq!(ran.load(Ordering::SeqCst), before, "nothing is tried while it is paused");
    // The one that was told so waits for a retry, uncounted.
    let waits = |row: &Row| [Status::New, Status::Retry].contains(&row.status) && row.attempts == 0;
    let all_wait = || {
        let rows = of_type(&store, PAUSED);
        assert!(rows.len() == 101 && rows.iter().all(waits), "{rows:?}");
    };
    all_wait();
    // Resumed too early: it is paused again, and nothing is dead, although some have waited for so long.
    resume(&store, "handler:hook").await;
    within(120 * SECOND, "a try", async || ran.load(Ordering::SeqCst) > before).await;
    paused_by_hook(&store).await;
    all_wait();
    is_gone.store(false, Ordering::SeqCst);
    resume(&store, "handler:hook").await;
    let done = async || of_type(&store, PAUSED).iter().all(|row| row.status == Status::Done);
    within(120 * SECOND, "what waited", done).await;
    outbox.close().await;
}

/// The same behind a relay, which has no lock any more when it asks for the pause.
#[tokio::test(start_paused = true)]
async fn a_sink_that_is_disabled_behind_a_relay_is_paused_as_well() {
    for mode in MODES {
        let (store, others) = (MemoryStore::new(), Inbox::new());
        let (hook, is_gone, ran) = hook();
        let options = RelayOptions { mode, ..RelayOptions::default() };
        let mut handlers = Handlers::new();
        handlers.on_sink(PAUSED, hook).unwrap();
        handlers.on(EVENT, others.clone()).unwrap();
        let relay = Relay::builder(store.clone()).options(options).build_routed(handlers);
        let relaying = relay.unwrap().start().await.unwrap();
        fill(&store, PAUSED, 100).await;
        paused_by_hook(&store).await;
        sleep(5 * SECOND).await;
        let before = ran.load(Ordering::SeqCst);
        fill(&store, EVENT, 10).await;
        within(10 * SECOND, "others", async || others.received().len() == 10).await;
        sleep(600 * SECOND).await;
        assert_eq!(ran.load(Ordering::SeqCst), before, "nothing is tried while it is paused");
        is_gone.store(false, Ordering::SeqCst);
        resume(&store, "handler:hook").await;
        let done = async || of_type(&store, PAUSED).iter().all(|row| row.status == Status::Done);
        within(120 * SECOND, "what waited", done).await;
        relaying.close().await;
    }
}
