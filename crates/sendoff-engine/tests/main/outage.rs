//! A target that is unavailable makes no dead letters, and slows nobody else.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::{Delivery, Event, EventId, Failure, Status};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::relay::{ClaimMode, Relay, RelayOptions, TopicWorker};
use sendoff_engine::{
    CircuitOptions, Counters, Handler, Handlers, Outbox, OutboxOptions, Registration,
};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::within;
use tokio::time::{Instant, sleep};

use super::flaky::Flaky;
use super::{EVENT, SECOND, commit, fill, options};

const AWAY: &str = "away";

/// What a target away looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looks {
    /// Nothing can be told from the error.
    Opaque,
    Refused,
    Hung,
}

/// A target that is there or not, and how often it was tried while it was not.
#[derive(Clone, Default)]
struct Target {
    inbox: Inbox,
    away: Arc<AtomicBool>,
    tries: Arc<AtomicUsize>,
}

impl Target {
    fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    fn handler(&self, looks: Looks) -> impl Handler {
        let target = self.clone();
        move |delivery: Delivery| {
            let target = target.clone();
            async move {
                if !target.away.load(Ordering::SeqCst) {
                    return target.inbox.handle(delivery).await;
                }
                target.tries.fetch_add(1, Ordering::SeqCst);
                match looks {
                    Looks::Opaque => Err("the warehouse said no")?,
                    Looks::Refused => {
                        Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused))?
                    }
                    Looks::Hung => std::future::pending::<()>().await,
                }
                Ok(())
            }
        }
    }
}

/// Attempts that rows have used up.
fn used_up(store: &MemoryStore) -> u32 {
    store.rows().iter().map(|row| row.attempts).sum()
}

/// Holds D7: with every setting as it is by default.
#[tokio::test(start_paused = true)]
async fn an_outage_makes_no_dead_letters_and_uses_up_no_attempts() {
    for looks in [Looks::Opaque, Looks::Refused] {
        let (store, target, other) = (Flaky::default(), Target::default(), Inbox::new());
        let outbox = Outbox::builder(store.table.clone()).on(AWAY, target.handler(looks));
        let outbox = outbox.on(EVENT, other.clone()).start().await.unwrap();
        target.set_away(true);
        for round in 0..18_000 {
            commit(&outbox, &Event::json(AWAY, &round).unwrap()).await;
            if round % 100 == 0 {
                let id = commit(&outbox, &Event::json(EVENT, &round).unwrap()).await;
                let delivered = async || other.received().iter().any(|one| one.id() == id);
                within(SECOND, "a healthy handler is not slowed", delivered).await;
            }
            sleep(SECOND / 100).await;
        }
        let tries = target.tries.load(Ordering::SeqCst);
        assert!(tries <= 5 + 4 + 180 / 8, "{looks:?}: tried {tries} times in three minutes");
        let used_up = used_up(&store.table);
        assert!(used_up <= 5, "{looks:?}: {used_up} attempts");
        target.set_away(false);
        let all = async || target.inbox.received().len() == 18_000;
        within(60 * SECOND, "everything is delivered soon after", all).await;
        assert!(store.table.rows().iter().all(|row| row.status == Status::Done));
        outbox.close().await;
    }
}

/// Holds D7, O1: the same of a handler that has nothing but events with keys, which wait for each other.
#[tokio::test(start_paused = true)]
async fn an_outage_keeps_the_order_of_keys_and_makes_no_dead_letters() {
    const COUNT: u32 = 3_000;
    for (looks, relays) in [(Looks::Opaque, false), (Looks::Refused, false), (Looks::Refused, true)]
    {
        let (store, target) = (MemoryStore::new(), Target::default());
        target.set_away(true);
        let (builder, mut relaying) = (Outbox::builder(store.clone()), None);
        let outbox = if relays {
            let relay = Relay::builder(store.clone()).build(target.handler(looks));
            relaying = Some(relay.unwrap().start().await.unwrap());
            Outbox::writer_only(store.clone())
        } else {
            builder.on(AWAY, target.handler(looks)).start().await.unwrap()
        };
        for number in 0..COUNT {
            let key = format!("k{}", number % 20);
            let event = Event::builder(AWAY).ordering_key(key).json(&number).build().unwrap();
            commit(&outbox, &event).await;
            sleep(SECOND / 10).await;
        }
        let case = format!("{looks:?}, relay: {relays}");
        let tries = target.tries.load(Ordering::SeqCst);
        assert!(tries <= 5 + 4 + 300 / 8, "{case}: tried {tries} times in five minutes");
        // What opens the circuit, and what the other workers had in hand just then: a look brings several keys at once.
        assert!(used_up(&store) <= 5 + 3, "{case}: {} attempts", used_up(&store));
        target.set_away(false);
        let all = async || target.inbox.received().len() == COUNT as usize;
        within(60 * SECOND, &format!("{case}: everything is delivered"), all).await;
        let mut keys: HashMap<String, Vec<u32>> = HashMap::new();
        for delivery in target.inbox.received() {
            let key = delivery.ordering_key().unwrap().to_owned();
            keys.entry(key).or_default().push(delivery.read_json().unwrap());
        }
        let in_order = keys.values().all(|numbers| numbers.is_sorted_by(|a, b| a < b));
        assert!(in_order && keys.len() == 20, "{case}: {keys:?}");
        let settled = async || store.rows().iter().all(|row| row.status == Status::Done);
        within(SECOND, "it is settled", settled).await;
        if let Some(relaying) = relaying {
            relaying.close().await;
        }
        outbox.close().await;
    }
}

/// Fault 7: a target that refuses connections for two hours, beside one that is there.
#[tokio::test(start_paused = true)]
async fn for_two_hours_a_target_is_down_and_nobody_notices_but_its_own_events() {
    const HOURS: u64 = 2 * 60 * 60;
    let (store, target) = (MemoryStore::new(), Target::default());
    let arrived = Arc::new(Mutex::new(Vec::new()));
    let seen = arrived.clone();
    let healthy = move |delivery: Delivery| {
        let seen = seen.clone();
        async move {
            seen.lock().unwrap().push((delivery.id(), Instant::now()));
            Ok(())
        }
    };
    let counters = Arc::new(Counters::default());
    let outbox = Outbox::builder(store.clone()).metrics(counters.clone());
    let outbox = outbox.on(AWAY, target.handler(Looks::Refused));
    let outbox = outbox.on(EVENT, healthy).start().await.unwrap();
    let mut written = Vec::new();
    // Ten minutes of calm to compare with, and then the outage.
    let calm = 600;
    for second in 0..calm + HOURS {
        target.set_away(second >= calm);
        commit(&outbox, &Event::json(AWAY, &second).unwrap()).await;
        let id = commit(&outbox, &Event::json(EVENT, &second).unwrap()).await;
        written.push((id, Instant::now()));
        sleep(SECOND).await;
    }
    let all = async || arrived.lock().unwrap().len() == written.len();
    within(SECOND, "the healthy ones", all).await;
    let arrived: HashMap<_, _> = arrived.lock().unwrap().drain(..).collect();
    let latency = |(id, at): &(EventId, Instant)| arrived[id].saturating_duration_since(*at);
    let (calm, outage) = written.split_at(usize::try_from(calm).unwrap());
    let longest = |events: &[(EventId, Instant)]| events.iter().map(latency).max().unwrap();
    let (calm, outage) = (longest(calm), longest(outage));
    assert!(outage <= calm + Duration::from_millis(1), "{calm:?} before, {outage:?} in the outage");
    assert_eq!(used_up(&store), 0, "no attempt is used up");
    assert!(store.rows().iter().all(|row| row.status != Status::Dead));
    let tries = target.tries.load(Ordering::SeqCst);
    assert!(tries <= 5 + 4 + 7_200 / 8, "tried {tries} times in two hours");
    let unavailable: Vec<_> = counters.values().unavailable.into_iter().collect();
    assert_eq!(unavailable, [AWAY], "and an operator sees it");
    target.set_away(false);
    let all = async || target.inbox.received().len() == written.len();
    within(60 * SECOND, "the backlog drains by itself", all).await;
    within(SECOND, "it is settled", async || {
        store.rows().iter().all(|row| row.status == Status::Done)
    })
    .await;
    assert!(counters.values().unavailable.is_empty());
    outbox.close().await;
}

/// Holds D7: what fails by itself is dead after ten attempts, beside others that do not.
#[tokio::test(start_paused = true)]
async fn an_event_that_fails_by_itself_still_uses_up_its_attempts() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    let received = inbox.clone();
    let handler = move |delivery: Delivery| {
        let received = received.clone();
        async move {
            match delivery.read_json::<u32>()? % 100 {
                0 => Err("not this one".into()),
                _ => received.handle(delivery).await,
            }
        }
    };
    let outbox = Outbox::builder(store.clone()).on(EVENT, handler).start().await.unwrap();
    let dead = || store.rows().into_iter().filter(|row| row.status == Status::Dead);
    for number in 0..4_000_u32 {
        if number < 1_000 || number % 100 != 0 {
            commit(&outbox, &Event::json(EVENT, &number).unwrap()).await;
        }
        sleep(SECOND / 10).await;
    }
    assert!(dead().all(|row| row.attempts == 10));
    assert_eq!((dead().count(), inbox.received().len()), (10, 3_960));
    outbox.close().await;
}

/// Each probe hangs until its time limit; the others go on meanwhile, and so does it when it is back.
#[tokio::test(start_paused = true)]
async fn a_target_that_answers_nothing_is_probed_until_it_does() {
    let (store, target, other) = (MemoryStore::new(), Target::default(), Inbox::new());
    let mut options = OutboxOptions::default();
    options.handler.timeout = Some(10 * SECOND);
    let outbox = Outbox::builder(store.clone()).options(options);
    let outbox = outbox.on(AWAY, target.handler(Looks::Hung)).on(EVENT, other.clone());
    let outbox = outbox.start().await.unwrap();
    target.set_away(true);
    fill(&store, AWAY, 500).await;
    let began = Instant::now();
    while began.elapsed() < 600 * SECOND {
        commit(&outbox, &Event::json(EVENT, &1).unwrap()).await;
        sleep(SECOND).await;
    }
    assert_eq!(other.received().len(), 600);
    assert!(used_up(&store) <= 5, "{} attempts", used_up(&store));
    target.set_away(false);
    within(60 * SECOND, "all", async || target.inbox.received().len() == 500).await;
    outbox.close().await;
}

/// A failure that names its own delay keeps it.
#[tokio::test(start_paused = true)]
async fn a_delay_that_a_handler_asks_for_is_kept() {
    let (store, target) = (MemoryStore::new(), Target::default());
    let tries = target.tries.clone();
    let handler = move |_: Delivery| {
        tries.fetch_add(1, Ordering::SeqCst);
        async { Err(Failure::unavailable(100 * SECOND, "closed for the night")) }
    };
    let outbox = Outbox::builder(store.clone()).on(EVENT, handler).start().await.unwrap();
    commit(&outbox, &Event::json(EVENT, &1).unwrap()).await;
    sleep(90 * SECOND).await;
    assert_eq!(target.tries.load(Ordering::SeqCst), 1);
    sleep(20 * SECOND).await;
    assert_eq!((target.tries.load(Ordering::SeqCst), used_up(&store)), (2, 0));
    outbox.close().await;
}

/// Holds D7 for a relay: of one handler, of several, and for a topic worker.
#[tokio::test(start_paused = true)]
async fn an_outage_makes_no_dead_letters_of_a_relay_either() {
    for (mode, routed) in [
        (ClaimMode::Held, false),
        (ClaimMode::Held, true),
        (ClaimMode::Locked, false),
        (ClaimMode::Locked, true),
    ] {
        for looks in [Looks::Opaque, Looks::Refused] {
            let (store, target, other) = (Flaky::default(), Target::default(), Inbox::new());
            store.set_round_trip(Duration::from_millis(1));
            target.set_away(true);
            let options = RelayOptions { mode, ..RelayOptions::default() };
            let relay = Relay::builder(store.clone()).options(options);
            let relay = if routed {
                let mut handlers = Handlers::new();
                handlers.on(AWAY, target.handler(looks)).unwrap().on(EVENT, other.clone()).unwrap();
                relay.build_routed(handlers)
            } else {
                relay.build(target.handler(looks))
            };
            let relaying = relay.unwrap().start().await.unwrap();
            for _ in 0..180 {
                fill(&store.table, AWAY, 10).await;
                if routed {
                    fill(&store.table, EVENT, 1).await;
                }
                sleep(SECOND).await;
            }
            let case = format!("{mode:?}, routed: {routed}, {looks:?}");
            let tries = target.tries.load(Ordering::SeqCst);
            assert!(tries <= 5 + 4 + 180 / 8, "{case}: tried {tries} times in three minutes");
            assert!(used_up(&store.table) <= 5, "{case}: {} attempts", used_up(&store.table));
            assert_eq!(other.received().len(), if routed { 180 } else { 0 }, "{case}");
            target.set_away(false);
            let all = async || target.inbox.received().len() == 1_800;
            within(60 * SECOND, &case, all).await;
            assert!(store.table.rows().iter().all(|row| row.status == Status::Done), "{case}");
            relaying.close().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_makes_no_dead_letters_of_a_topic_worker_either() {
    let (store, target) = (MemoryStore::new(), Target::default());
    target.set_away(true);
    let worker = TopicWorker::builder(store.clone()).on(AWAY, target.handler(Looks::Opaque));
    let working = worker.build().unwrap().start().await.unwrap();
    fill(&store, AWAY, 1_000).await;
    sleep(600 * SECOND).await;
    assert!(used_up(&store) <= 5, "{} attempts", used_up(&store));
    target.set_away(false);
    // The first four wait for the linear policy's minutes.
    within(180 * SECOND, "all", async || target.inbox.received().len() == 1_000).await;
    working.close().await;
}

/// Too few to open a circuit, or a circuit that never opens: an outage is told all the same, from the first failure that says
/// so to the first success.
#[tokio::test(start_paused = true)]
async fn an_outage_that_one_event_meets_is_measured_and_it_is_tried_less_and_less_often() {
    for circuit in [CircuitOptions::default(), CircuitOptions::off()] {
        let (store, target, counters) =
            (MemoryStore::new(), Target::default(), Arc::new(Counters::default()));
        let mut options = OutboxOptions::default();
        options.handler.circuit = circuit;
        let outbox = Outbox::builder(store.clone()).metrics(counters.clone()).options(options);
        let outbox = outbox.on(AWAY, target.handler(Looks::Refused)).start().await.unwrap();
        let unavailable = || counters.values().unavailable.into_iter().collect::<Vec<_>>();
        target.set_away(true);
        commit(&outbox, &Event::json(AWAY, &1).unwrap()).await;
        within(SECOND, "it is told", async || unavailable() == [AWAY]).await;
        sleep(7_200 * SECOND).await;
        assert_eq!((unavailable(), used_up(&store)), (vec![AWAY.to_owned()], 0));
        let tries = target.tries.load(Ordering::SeqCst);
        assert!((400..=5 + 7_200 / 15).contains(&tries), "tried {tries} times in two hours");
        target.set_away(false);
        let done = async || store.rows().iter().all(|row| row.status == Status::Done);
        within(20 * SECOND, "it is delivered", done).await;
        assert!(unavailable().is_empty());
        outbox.close().await;
    }
}

/// Holds fault 9: while a target asked to be left alone, it is.
#[tokio::test(start_paused = true)]
async fn a_target_that_asked_for_a_wait_is_probed_after_it() {
    let (store, target) = (MemoryStore::new(), Target::default());
    let tries = target.tries.clone();
    let handler = move |_: Delivery| {
        tries.fetch_add(1, Ordering::SeqCst);
        async { Err(Failure::unavailable(50 * SECOND, "too many requests")) }
    };
    let outbox = Outbox::builder(store.clone()).on(EVENT, handler).start().await.unwrap();
    fill(&store, EVENT, 100).await;
    sleep(40 * SECOND).await;
    let tries = || target.tries.load(Ordering::SeqCst);
    let first = tries();
    assert!(first <= 16, "what was under way when it opened, and no probe: {first}");
    for minutes in 1..=10 {
        sleep(60 * SECOND).await;
        let probes = tries() - first;
        assert!(probes <= 2 * minutes, "{probes} probes in {minutes} minutes");
    }
    assert_eq!(used_up(&store), 0);
    outbox.close().await;
}

/// Whatever was known of the target of a handler goes with it: nothing waits for that any more.
#[tokio::test(start_paused = true)]
async fn a_handler_that_is_removed_has_no_target_that_is_unavailable() {
    let (store, counters) = (MemoryStore::new(), Arc::new(Counters::default()));
    let away = |_: Delivery| async { Err(Failure::unavailable(SECOND, "closed for the night")) };
    let outbox = Outbox::builder(store.clone()).metrics(counters.clone()).options(options());
    let outbox = outbox.on(AWAY, away).start().await.unwrap();
    for number in 0..20 {
        commit(&outbox, &Event::json(AWAY, &number).unwrap()).await;
    }
    let unavailable = || counters.values().unavailable.into_iter().collect::<Vec<_>>();
    within(60 * SECOND, "the outage", async || unavailable() == [AWAY]).await;
    assert!(outbox.unregister(&Registration::of(AWAY)));
    assert!(unavailable().is_empty());
    let inbox = Inbox::new();
    let mut handlers = Handlers::new();
    handlers.on(AWAY, inbox.clone()).unwrap();
    outbox.register(handlers).unwrap();
    within(120 * SECOND, "its successor", async || inbox.received().len() == 20).await;
    assert!(unavailable().is_empty(), "{:?}", unavailable());
    outbox.close().await;
}
