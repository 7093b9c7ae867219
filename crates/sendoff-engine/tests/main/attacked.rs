//! Sinks that want no more, targets that flap, and handlers that settle in every way that nobody wants.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{
    AuditNote, Delivery, Event, EventId, Failure, PauseScope, Sink, Status, Verdict,
};
use sendoff_engine::memory::{MemoryStore, MemoryTx};
use sendoff_engine::relay::{ClaimMode, Relay, RelayOptions, TopicWorker};
use sendoff_engine::sink::HandlerSink;
use sendoff_engine::store::PauseStore;
use sendoff_engine::{
    AnyHandler, CircuitOptions, HandlerOptions, HandlerResult, Handlers, Inbox as Once, Outbox,
    OutboxOptions, RetryOptions, SettleInError, fan_out,
};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::within;
use tokio::time::sleep;

use super::operate::logging;
use super::{EVENT, SECOND, commit, event, fill, options, row};

const HOUR: Duration = Duration::from_secs(3_600);
const MODES: [ClaimMode; 2] = [ClaimMode::Held, ClaimMode::Locked];

struct Gone {
    name: String,
    reason: String,
    ran: Arc<AtomicUsize>,
}

#[async_trait]
impl Sink for Gone {
    fn name(&self) -> &str {
        &self.name
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
        self.ran.fetch_add(deliveries.len(), Ordering::SeqCst);
        deliveries.iter().map(|_| Err(Failure::disable(self.reason.clone()))).collect()
    }
}

fn gone(name: &str, reason: &str) -> (Gone, Arc<AtomicUsize>) {
    let ran = Arc::new(AtomicUsize::new(0));
    (Gone { name: name.to_owned(), reason: reason.to_owned(), ran: ran.clone() }, ran)
}

async fn paused(store: &MemoryStore) -> usize {
    store.pauses().await.unwrap().len()
}

/// A reason that is no line of text keeps the sink from being paused.
#[tokio::test(start_paused = true)]
async fn a_sink_that_is_disabled_without_a_reason_is_paused() {
    let mut wrong = Vec::new();
    let long = format!("{}x", " ".repeat(600));
    for reason in ["", "   ", "\n\r\n", long.as_str(), "\u{2028}\u{85}", "x\u{0}"] {
        let store = MemoryStore::new();
        let (sink, _) = gone("hook", reason);
        let outbox = Outbox::builder(store.clone()).on_sink(EVENT, sink).start().await.unwrap();
        fill(&store, EVENT, 10).await;
        sleep(600 * SECOND).await;
        if paused(&store).await != 1 {
            wrong.push(reason.chars().take(5).collect::<String>());
        }
        outbox.close().await;
    }
    assert!(wrong.is_empty(), "never paused, with the reasons {wrong:?}");
}

/// One of several handlers says that its target wants no more.
#[tokio::test(start_paused = true)]
async fn one_of_several_that_is_disabled_kills_no_event() {
    let store = MemoryStore::new();
    let hook = AnyHandler::new(|_: Delivery| async { Err(Failure::disable("410")) });
    let fine = AnyHandler::new(|_: Delivery| async { HandlerResult::Ok(()) });
    let handler = HandlerOptions { unavailable_at_most: HOUR, ..HandlerOptions::default() };
    let outbox = Outbox::builder(store.clone())
        .options(OutboxOptions { handler, ..options() })
        .on(EVENT, fan_out([("hook", hook), ("fine", fine)]))
        .start()
        .await
        .unwrap();
    fill(&store, EVENT, 10).await;
    sleep(2 * HOUR).await;
    let dead = store.rows().iter().filter(|row| row.status == Status::Dead).count();
    let pauses = paused(&store).await;
    outbox.close().await;
    assert_eq!((dead, pauses), (0, 1), "dead, paused");
}

/// No name of a pause: nothing is lost, and the log is not flooded.
#[tokio::test(start_paused = true)]
async fn a_disabled_sink_whose_name_is_no_scope_floods_no_log() {
    let mut wrong = Vec::new();
    for (at, circuit) in [CircuitOptions::default(), CircuitOptions::off()].into_iter().enumerate()
    {
        for name in ["", "a\nb", &"x".repeat(129), "  "] {
            let (lines, _guard) = logging();
            let store = MemoryStore::new();
            let (sink, ran) = gone(name, "410");
            let handler =
                HandlerOptions { circuit, unavailable_at_most: HOUR, ..HandlerOptions::default() };
            let outbox = Outbox::builder(store.clone())
                .options(OutboxOptions { handler, ..options() })
                .on_sink(EVENT, sink)
                .start()
                .await;
            let Ok(outbox) = outbox else { continue };
            fill(&store, EVENT, 500).await;
            sleep(HOUR + HOUR / 2).await;
            let said = lines.with("cannot be paused").len();
            let dead = store.rows().iter().filter(|row| row.status == Status::Dead).count();
            if said > 200 || dead > 0 {
                wrong.push((at, name.len(), said, dead, ran.load(Ordering::SeqCst)));
            }
            outbox.close().await;
        }
    }
    assert!(wrong.is_empty(), "(circuit off, name, lines, dead, tries): {wrong:?}");
}

/// The table of pauses is full: the same as a database that refuses.
#[tokio::test(start_paused = true)]
async fn a_disabled_sink_that_cannot_be_paused_floods_no_log() {
    let mut wrong = Vec::new();
    for (at, circuit) in [CircuitOptions::default(), CircuitOptions::off()].into_iter().enumerate()
    {
        let (lines, _guard) = logging();
        let store = MemoryStore::new();
        for number in 0..100 {
            let scope = PauseScope::handler(format!("other{number}")).unwrap();
            let note = AuditNote::new("ann", "x").unwrap();
            store.pause(&scope, &note).await.unwrap();
        }
        let (sink, ran) = gone("hook", "410");
        let handler = HandlerOptions { circuit, unavailable_at_most: HOUR, ..Default::default() };
        let outbox = Outbox::builder(store.clone())
            .options(OutboxOptions { handler, ..options() })
            .on_sink(EVENT, sink)
            .start()
            .await
            .unwrap();
        fill(&store, EVENT, 500).await;
        sleep(HOUR + HOUR / 2).await;
        let said = lines.with("could not be paused").len();
        let dead = store.rows().iter().filter(|row| row.status == Status::Dead).count();
        if said > 200 || dead > 0 {
            wrong.push((at, said, dead, ran.load(Ordering::SeqCst)));
        }
        outbox.close().await;
    }
    assert!(wrong.is_empty(), "(circuit off, lines, dead, tries): {wrong:?}");
}

/// A batch of a relay is not sent to a target that said it wants nothing.
#[tokio::test(start_paused = true)]
async fn a_relay_that_was_told_410_sends_no_more_of_its_batch() {
    let mut wrong = Vec::new();
    for mode in MODES {
        for (at, circuit) in
            [CircuitOptions::default(), CircuitOptions::off()].into_iter().enumerate()
        {
            let store = MemoryStore::new();
            let (sink, ran) = gone("hook", "410");
            let handler = HandlerOptions { circuit, ..HandlerOptions::default() };
            let options = RelayOptions { mode, handler, ..RelayOptions::default() };
            let mut handlers = Handlers::new();
            handlers.on_sink(EVENT, sink).unwrap();
            fill(&store, EVENT, 500).await;
            let relay = Relay::builder(store.clone()).options(options).build_routed(handlers);
            let relaying = relay.unwrap().start().await.unwrap();
            sleep(60 * SECOND).await;
            if paused(&store).await != 1 || ran.load(Ordering::SeqCst) > 20 {
                wrong.push((mode, at, paused(&store).await, ran.load(Ordering::SeqCst)));
            }
            relaying.close().await;
        }
    }
    assert!(wrong.is_empty(), "(mode, circuit off, paused, sent): {wrong:?}");
}

/// Slow to say no, with the circuit off: the pause waits for the whole batch.
#[tokio::test(start_paused = true)]
async fn a_relay_pauses_soon_after_410() {
    let mut wrong = Vec::new();
    for mode in MODES {
        let store = MemoryStore::new();
        let hook = HandlerSink::new("hook", |_: Delivery| async {
            sleep(2 * SECOND).await;
            HandlerResult::Err(Failure::disable("410"))
        });
        let other = HandlerSink::new("other", |_: Delivery| async {
            sleep(5 * SECOND).await;
            HandlerResult::Ok(())
        });
        let options = RelayOptions { mode, ..RelayOptions::default() };
        let mut handlers = Handlers::new();
        handlers.on_sink(EVENT, hook).unwrap();
        handlers.on_sink("other", other).unwrap();
        fill(&store, EVENT, 20).await;
        fill(&store, "other", 50).await;
        let relay = Relay::builder(store.clone()).options(options).build_routed(handlers);
        let began = tokio::time::Instant::now();
        let relaying = relay.unwrap().start().await.unwrap();
        within(600 * SECOND, "the pause", async || paused(&store).await == 1).await;
        if began.elapsed() > 60 * SECOND {
            wrong.push((mode, began.elapsed()));
        }
        relaying.close().await;
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// A topic worker, one event by hand each time.
#[tokio::test(start_paused = true)]
async fn a_topic_worker_by_hand_that_is_told_410_pauses_and_keeps_order_and_attempts() {
    let store = MemoryStore::new();
    let ran = Arc::new(AtomicUsize::new(0));
    let runs = ran.clone();
    let hook = move |_: Delivery| {
        runs.fetch_add(1, Ordering::SeqCst);
        async { HandlerResult::Err(Failure::disable("410")) }
    };
    let worker = TopicWorker::builder(store.clone()).on(EVENT, hook).build().unwrap();
    fill(&store, EVENT, 50).await;
    for _ in 0..50 {
        let _ = worker.consume_one().await.unwrap();
        sleep(SECOND).await;
    }
    assert_eq!(paused(&store).await, 1);
    assert!(ran.load(Ordering::SeqCst) < 5, "{}", ran.load(Ordering::SeqCst));
    assert!(store.rows().iter().all(|row| row.attempts == 0 && row.status != Status::Dead));
}

/// Several nodes are told at once; one pause, and one line.
#[tokio::test(start_paused = true)]
async fn several_nodes_that_are_told_at_once_pause_once_and_resume_together() {
    let (lines, _guard) = logging();
    let store = MemoryStore::new();
    let is_gone = Arc::new(AtomicBool::new(true));
    let mut nodes = Vec::new();
    for _ in 0..8 {
        let gone = is_gone.clone();
        let hook = HandlerSink::new("hook", move |_: Delivery| {
            let gone = gone.load(Ordering::SeqCst);
            async move { if gone { Err(Failure::disable("410")) } else { Ok(()) } }
        });
        let node = Outbox::builder(store.clone()).options(options()).on_sink(EVENT, hook);
        nodes.push(node.start().await.unwrap());
    }
    fill(&store, EVENT, 2_000).await;
    let note = || AuditNote::new("ann", "x").unwrap();
    for _ in 0..10 {
        within(300 * SECOND, "a pause", async || paused(&store).await == 1).await;
        sleep(20 * SECOND).await;
        store.resume(&PauseScope::handler("hook").unwrap(), &note()).await.unwrap();
    }
    within(300 * SECOND, "a pause", async || paused(&store).await == 1).await;
    let said = lines.with("wants no more events: paused").len();
    assert!(said <= 12, "{said} lines for eleven pauses");
    is_gone.store(false, Ordering::SeqCst);
    store.resume(&PauseScope::handler("hook").unwrap(), &note()).await.unwrap();
    let all = async || store.rows().iter().all(|row| row.status == Status::Done);
    within(300 * SECOND, "all of them", all).await;
    assert!(store.rows().iter().all(|row| row.attempts <= 1));
    for node in nodes {
        node.close().await;
    }
}

fn random(seed: u64) -> fastrand::Rng {
    fastrand::Rng::with_seed(seed)
}

type Cell = Arc<OnceLock<Outbox<MemoryStore>>>;

/// Effects are events of their own, written in the same transaction.
async fn effect(outbox: &Outbox<MemoryStore>, tx: &mut MemoryTx, id: EventId) {
    let of = Event::json("effect", &id.to_string()).unwrap();
    drop(outbox.write(tx, of).await.unwrap());
}

async fn misbehaves(
    store: MemoryStore,
    cell: Cell,
    delivery: Delivery,
    mut rng: fastrand::Rng,
    with_inbox: bool,
) -> HandlerResult {
    let outbox = cell.get().unwrap().clone();
    let mut tx = store.transaction()?;
    let id = delivery.id();
    if with_inbox && !Once::new(store.clone()).once(&mut tx, "c", id).await? {
        return Ok(());
    }
    effect(&outbox, &mut tx, id).await;
    sleep(SECOND / 10 * rng.u32(0..30)).await;
    if rng.u8(0..8) == 0 {
        // A zombie that goes on with the delivery of this run after it is over.
        let (cell, delivery) = (cell.clone(), delivery.clone());
        let wait = SECOND / 10 * rng.u32(0..400);
        tokio::spawn(async move {
            sleep(wait).await;
            let outbox = cell.get().unwrap().clone();
            if outbox.settle_in(&delivery, &mut tx).await.is_ok() {
                sleep(wait / 3).await;
                let _ = tx.commit();
            }
        });
        if rng.bool() {
            std::future::pending::<()>().await;
        }
        return Err(Failure::from("left it to another"));
    }
    let settled = outbox.settle_in(&delivery, &mut tx).await;
    match &settled {
        Ok(()) => {}
        // What is documented: fail, or roll back.
        Err(_) => return Ok(settled?),
    }
    for _ in 0..rng.u8(0..3) {
        // Once more in the same transaction; what it says is nobody's business.
        let again = outbox.settle_in(&delivery, &mut tx).await;
        assert!(!matches!(again, Err(SettleInError::NotRunning(_))), "{again:?}");
    }
    if rng.u8(0..5) == 0 {
        let mut other = store.transaction()?;
        let _ = outbox.settle_in(&delivery, &mut other).await;
    }
    match rng.u8(0..9) {
        0 => drop(tx),
        1 => {
            drop(tx);
            return Err(Failure::from("rolled back"));
        }
        2 => panic!("with it open"),
        3 => {
            tx.commit()?;
            panic!("after the commit");
        }
        4 => {
            tx.commit()?;
            return Err(Failure::dead("after the commit"));
        }
        5 => {
            let wait = SECOND / 10 * rng.u32(0..600);
            let commits = rng.bool();
            tokio::spawn(async move {
                sleep(wait).await;
                if commits {
                    let _ = tx.commit();
                }
            });
            match rng.u8(0..4) {
                0 => std::future::pending::<()>().await,
                1 => return Err(Failure::from("later")),
                2 => return Err(Failure::unavailable(SECOND, "later")),
                _ => {}
            }
        }
        6 => {
            drop(tx);
            let mut tx = store.transaction()?;
            effect(&outbox, &mut tx, id).await;
            outbox.settle_in(&delivery, &mut tx).await?;
            tx.commit()?;
        }
        7 => {
            sleep(SECOND * rng.u32(0..20)).await;
            tx.commit()?;
        }
        _ => tx.commit()?,
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn whatever_a_handler_does_that_settles_in_each_effect_is_there_once() {
    for seed in 0..12 {
        for with_inbox in [false, true] {
            println!("seed {seed} {with_inbox}");
            let store = MemoryStore::new();
            let mut nodes = Vec::new();
            for node in 0..3_u64 {
                let cell = Cell::default();
                let rng = Arc::new(Mutex::new(random(seed * 10 + node)));
                let handler = {
                    let (store, cell) = (store.clone(), cell.clone());
                    move |delivery: Delivery| {
                        let rng = rng.lock().unwrap().fork();
                        misbehaves(store.clone(), cell.clone(), delivery, rng, with_inbox)
                    }
                };
                let mut hard = OutboxOptions { workers: 6, ..options() };
                hard.handler.timeout = Some(8 * SECOND);
                hard.handler.circuit = CircuitOptions::off();
                hard.hold = 20 * SECOND;
                hard.retry = RetryOptions { max_attempts: 1_000, base: SECOND, max: SECOND };
                let node = Outbox::builder(store.clone()).options(hard).on(EVENT, handler);
                let node = node.start().await.unwrap();
                cell.set(node.clone()).unwrap();
                nodes.push(node);
            }
            let writer = Outbox::writer_only(store.clone());
            let mut ids = Vec::new();
            for at in 0..30 {
                let by = if at % 2 == 0 { &nodes[at % 3] } else { &writer };
                ids.push(commit(by, &event()).await);
            }
            let over = async || {
                let rows = store.rows();
                let of = rows.iter().filter(|row| row.event.event_type() == EVENT);
                of.into_iter().all(|row| matches!(row.status, Status::Done | Status::Dead))
            };
            within(3_600 * SECOND, &format!("seed {seed}"), over).await;
            sleep(120 * SECOND).await;
            let mut effects = BTreeMap::<String, usize>::new();
            for row in store.rows().iter().filter(|row| row.event.event_type() == "effect") {
                let id: String = serde_json::from_slice(row.event.payload()).unwrap();
                *effects.entry(id).or_default() += 1;
            }
            for id in ids {
                let status = row(&store, id).status;
                let count = effects.get(&id.to_string()).copied().unwrap_or(0);
                assert_eq!((status, count), (Status::Done, 1), "seed {seed} {with_inbox} {id}");
            }
            for node in nodes {
                node.close().await;
            }
        }
    }
}

/// A target that comes and goes: no event is dead, others are not kept waiting, and the log is no flood.
#[tokio::test(start_paused = true)]
async fn a_target_that_flaps_for_an_hour_kills_nothing_starves_nobody_and_floods_no_log() {
    use sendoff_testkit::logs::Lines;
    let mut wrong = Vec::new();
    for (period, unavailable) in [(1, false), (3, false), (20, false), (3, true), (20, true)] {
        let (lines, _guard) = Lines::keep(tracing::Level::WARN);
        let store = MemoryStore::new();
        let begun = tokio::time::Instant::now();
        let flaps = move |_: Delivery| async move {
            sleep(SECOND / 100).await;
            match (begun.elapsed().as_secs() / period % 2, unavailable) {
                (0, _) => Ok(()),
                (_, true) => Err(Failure::unavailable(Duration::ZERO, "down")),
                (_, false) => Err(Failure::retry("500")),
            }
        };
        let others = Inbox::new();
        let outbox = Outbox::builder(store.clone()).options(options());
        let outbox = outbox.on("flaps", flaps).on(EVENT, others.clone()).start().await.unwrap();
        let mut slowest = Duration::ZERO;
        for number in 1..=720 {
            fill(&store, "flaps", 10).await;
            commit(&outbox, &event()).await;
            let began = tokio::time::Instant::now();
            within(60 * SECOND, "the other", async || others.received().len() >= number).await;
            slowest = slowest.max(began.elapsed());
            sleep(5 * SECOND).await;
        }
        sleep(600 * SECOND).await;
        let rows = store.rows();
        let dead = rows.iter().filter(|row| row.status == Status::Dead).count();
        let waiting = rows.iter().filter(|row| row.status != Status::Done).count() - dead;
        let said = lines.text().lines().count();
        let most = rows.iter().map(|row| row.attempts).max();
        println!(
            "{period} {unavailable}: dead {dead} waiting {waiting} lines {said} {slowest:?} {most:?}"
        );
        if dead + waiting > 0 || said > 1_000 || slowest > 2 * SECOND {
            wrong.push((period, unavailable, dead, waiting, said, slowest));
        }
        outbox.close().await;
    }
    assert!(wrong.is_empty(), "(period, unavailable, dead, waiting, lines, slowest): {wrong:?}");
}
