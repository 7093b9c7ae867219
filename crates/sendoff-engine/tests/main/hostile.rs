//! Events that are settled in transactions by handlers that spawn, give up and come late; and probes, on paused time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use sendoff_core::{Delivery, Event, Failure, Status, Stopped};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::sink::BatchSink;
use sendoff_engine::store::{Claim, ClaimStore};
use sendoff_engine::{
    AnyHandler, Counters, HandlerResult, Outbox, OutboxOptions, RetryOptions, SettleInError,
    fan_out,
};
use sendoff_testkit::wait::{eventually, within};
use tokio::time::{sleep, timeout};

use super::flaky::Flaky;
use super::{EVENT, SECOND, commit, event, options, row};

type Later<S> = Arc<OnceLock<Outbox<S>>>;

/// A handler that fails the first time, and counts the others.
fn second_time(mails: &Arc<AtomicUsize>) -> impl sendoff_engine::Handler + use<> {
    let mails = mails.clone();
    move |delivery: Delivery| {
        let mails = mails.clone();
        async move {
            if delivery.attempt == 1 {
                return Err(Failure::from("no connection"));
            }
            mails.fetch_add(1, Ordering::SeqCst);
            HandlerResult::Ok(())
        }
    }
}

/// A transaction that a time limit must not cut in two is often a task of its own.
#[tokio::test(start_paused = true)]
async fn one_of_several_handlers_cannot_settle_for_the_others_from_a_task_of_its_own() {
    let store = MemoryStore::new();
    let outbox: Later<MemoryStore> = Arc::default();
    let answers = Arc::new(Mutex::new(Vec::new()));
    let stock = {
        let (store, outbox, answers) = (store.clone(), outbox.clone(), answers.clone());
        move |delivery: Delivery| {
            let (store, outbox, answers) = (store.clone(), outbox.clone(), answers.clone());
            async move {
                let work = tokio::spawn(async move {
                    let mut tx = store.transaction().unwrap();
                    let answer = outbox.get().unwrap().settle_in(&delivery, &mut tx).await;
                    if answer.is_ok() {
                        tx.commit().unwrap();
                    }
                    answers.lock().unwrap().push(answer);
                });
                work.await?;
                HandlerResult::Ok(())
            }
        }
    };
    let mails = Arc::new(AtomicUsize::new(0));
    let mail = second_time(&mails);
    let both = fan_out([("stock", AnyHandler::new(stock)), ("mail", AnyHandler::new(mail))]);
    let started = Outbox::builder(store.clone()).options(options()).on(EVENT, both).start().await;
    outbox.set(started.unwrap()).unwrap();
    let id = commit(outbox.get().unwrap(), &event()).await;
    let over = async || row(&store, id).status == Status::Done;
    within(60 * SECOND, "the event", over).await;
    sleep(60 * SECOND).await;
    outbox.get().unwrap().close().await;
    let answers = answers.lock().unwrap();
    assert_eq!(
        mails.load(Ordering::SeqCst),
        1,
        "DONE without its mail; settle_in said {answers:?}"
    );
}

/// Starts an outbox with this handler, and writes an event into it.
async fn one_event(
    store: &Flaky,
    handler: impl sendoff_engine::Handler,
    later: &Later<Flaky>,
) -> sendoff_core::EventId {
    let outbox = Outbox::builder(store.clone()).options(options()).on(EVENT, handler);
    later.set(outbox.start().await.unwrap()).unwrap();
    write(later.get().unwrap(), store, &event()).await
}

async fn write(outbox: &Outbox<Flaky>, store: &Flaky, event: &Event) -> sendoff_core::EventId {
    let mut tx = store.table.transaction().unwrap();
    let staged = outbox.write(&mut tx, event).await.unwrap();
    tx.commit().unwrap();
    let id = event.id();
    staged.release();
    id
}

/// A run that begins to settle its event while its hold is extended, which takes two seconds, and gives up after one.
async fn gives_up(store: &Flaky, outbox: &Outbox<Flaky>, delivery: &Delivery) {
    while !store.is_extending() {
        sleep(Duration::from_millis(10)).await;
    }
    let mut tx = store.table.transaction().unwrap();
    let settles = outbox.settle_in(delivery, &mut tx);
    assert!(timeout(SECOND, settles).await.is_err(), "the statement takes two seconds");
}

async fn is_done_by_one_run(store: &Flaky, id: sendoff_core::EventId, runs: &AtomicUsize) {
    sleep(20 * SECOND).await;
    let (now, ran) = (row(&store.table, id), runs.load(Ordering::SeqCst));
    assert_eq!((now.status, now.attempts, ran), (Status::Done, 0, 1), "{:?}", now.last_error);
}

/// How a run fails to settle its event.
#[derive(Clone, Copy)]
enum Fails {
    WhileItWaits,
    AsLost,
}

/// A handler that cannot settle its event in a transaction, and makes its effect in another way.
fn otherwise(
    store: &Flaky,
    outbox: &Later<Flaky>,
    runs: &Arc<AtomicUsize>,
    fails: Fails,
) -> impl sendoff_engine::Handler + use<> {
    let (store, outbox, runs) = (store.clone(), outbox.clone(), runs.clone());
    move |delivery: Delivery| {
        let (store, outbox, runs) = (store.clone(), outbox.clone(), runs.clone());
        async move {
            runs.fetch_add(1, Ordering::SeqCst);
            let outbox = outbox.get().unwrap();
            match fails {
                Fails::WhileItWaits => gives_up(&store, outbox, &delivery).await,
                Fails::AsLost => {
                    let mut tx = store.table.transaction()?;
                    let answer = outbox.settle_in(&delivery, &mut tx).await;
                    assert!(matches!(answer, Err(SettleInError::Lost(_))), "{answer:?}");
                }
            }
            HandlerResult::Ok(())
        }
    }
}

/// While its token is waited for nothing is sent into the transaction: who gives up then has no transaction.
#[tokio::test(start_paused = true)]
async fn who_gives_up_while_waiting_for_the_token_has_settled_nothing() {
    let store = Flaky::default();
    store.set_extension(2 * SECOND);
    let (outbox, runs) = (Later::<Flaky>::default(), Arc::new(AtomicUsize::new(0)));
    let handler = otherwise(&store, &outbox, &runs, Fails::WhileItWaits);
    let id = one_event(&store, handler, &outbox).await;
    is_done_by_one_run(&store, id, &runs).await;
}

/// And its hold is extended as ever.
#[tokio::test(start_paused = true)]
async fn who_gives_up_while_waiting_for_the_token_keeps_its_hold() {
    let store = Flaky::default();
    store.set_extension(2 * SECOND);
    let outbox = Later::<Flaky>::default();
    let handler = {
        let (store, outbox) = (store.clone(), outbox.clone());
        move |delivery: Delivery| {
            let (store, outbox) = (store.clone(), outbox.clone());
            async move {
                gives_up(&store, outbox.get().unwrap(), &delivery).await;
                sleep(120 * SECOND).await;
                HandlerResult::Ok(())
            }
        }
    };
    let long = OutboxOptions { poller_enabled: false, ..super::unlimited() };
    let started = Outbox::builder(store.clone()).options(long).on(EVENT, handler).start().await;
    outbox.set(started.unwrap()).unwrap();
    write(outbox.get().unwrap(), &store, &event()).await;
    let claim = Claim::new("other", 10, 60 * SECOND);
    for _ in 0..100 {
        sleep(SECOND).await;
        let rows = store.table.claim(&claim).await.unwrap().rows;
        assert!(rows.is_empty(), "another node has an event whose run goes on, without a fault");
    }
    outbox.get().unwrap().close().await;
}

/// It commits: the events are delivered, whatever the handler says afterwards.
#[tokio::test(start_paused = true)]
async fn a_batch_that_committed_is_not_delivered_again_whatever_its_sink_says() {
    let store = MemoryStore::new();
    let outbox: Later<MemoryStore> = Arc::default();
    let (runs, lost) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
    let sink = {
        let (store, outbox, runs, lost) =
            (store.clone(), outbox.clone(), runs.clone(), lost.clone());
        BatchSink::new("batches", move |events: Vec<Delivery>| {
            let (store, outbox, runs, lost) =
                (store.clone(), outbox.clone(), runs.clone(), lost.clone());
            async move {
                runs.lock().unwrap().push(events.len());
                let mut tx = store.transaction()?;
                for event in &events {
                    match outbox.get().unwrap().settle_in(event, &mut tx).await {
                        Err(SettleInError::Lost(id)) => {
                            lost.fetch_add(1, Ordering::SeqCst);
                            return Err(Stopped::from(SettleInError::Lost(id)));
                        }
                        other => other?,
                    }
                }
                tx.commit()?;
                // The answer to COMMIT is lost.
                Err(Stopped::from(Failure::from("the connection broke")))
            }
        })
    };
    let counters = Arc::new(Counters::default());
    let builder = Outbox::builder(store.clone()).options(options()).metrics(counters.clone());
    let writer = Outbox::writer_only(store.clone());
    let mut tx = writer.begin(&store).await.unwrap();
    for number in 0..20 {
        tx.emit(Event::json(EVENT, &number).unwrap()).unwrap();
    }
    tx.commit().await.unwrap();
    outbox.set(builder.on_sink(EVENT, sink).start().await.unwrap()).unwrap();
    let over = async || store.rows().iter().all(|row| row.status == Status::Done);
    eventually("all of them", over).await;
    sleep(60 * SECOND).await;
    outbox.get().unwrap().close().await;
    let (runs, lost) = (runs.lock().unwrap().clone(), lost.load(Ordering::SeqCst));
    assert_eq!((runs, lost), (vec![20], 0), "{:?}", counters.values());
}

/// Five of six in each batch fail, as where a topic of one type is not there; the sixth is taken.
struct Mixed(usize);

#[sendoff_core::async_trait]
impl sendoff_core::Sink for Mixed {
    fn name(&self) -> &str {
        "mixed"
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<sendoff_core::Verdict> {
        sleep(Duration::from_millis(5)).await;
        let verdict = |delivery: &Delivery| match delivery.read_json::<usize>()? % self.0 {
            0 => Ok(()),
            _ => Err(Failure::unavailable(Duration::ZERO, "there is no such topic")),
        };
        deliveries.iter().map(verdict).collect()
    }
}

/// What is said of a target is said once a minute, however its answers come.
#[tokio::test(start_paused = true)]
async fn a_target_that_takes_every_sixth_event_does_not_flood_the_log() {
    let (lines, _guard) = super::operate::logging();
    let store = MemoryStore::new();
    let writer = Outbox::writer_only(store.clone());
    for part in 0..6 {
        let mut tx = writer.begin(&store).await.unwrap();
        for number in 0..1_000 {
            tx.emit(Event::json(EVENT, &(part * 1_000 + number)).unwrap()).unwrap();
        }
        tx.commit().await.unwrap();
    }
    let outbox = Outbox::builder(store.clone()).options(options());
    let outbox = outbox.on_sink(EVENT, Mixed(6)).start().await.unwrap();
    sleep(60 * SECOND).await;
    let done = store.rows().iter().filter(|row| row.status == Status::Done).count();
    outbox.close().await;
    let (gone, back) = (lines.with("its events wait"), lines.with("its events go on"));
    assert!(
        gone.len() + back.len() <= 120,
        "{} lines say that the target is unavailable, {} that it is back, in a minute; {done} done",
        gone.len(),
        back.len()
    );
}

/// By the journal: the same of a publisher that is one of several. The first, in its own task, is the control.
#[tokio::test(start_paused = true)]
async fn one_of_several_publishers_cannot_settle_for_the_others_from_a_task_of_its_own() {
    assert_eq!(mails_of_a_fact(false).await, 1, "in the publisher's own task it is refused");
    assert_eq!(
        mails_of_a_fact(true).await,
        1,
        "its cursor has passed a fact that one has not done"
    );
}

async fn mails_of_a_fact(spawns: bool) -> usize {
    use sendoff_core::journal::{Fact, Topic};
    use sendoff_engine::journal::publish::{PairOptions, Publishing, SettleInError};
    use sendoff_engine::journal::{Journal, MemoryJournal};
    use sendoff_engine::sink::HandlerSink;

    let (journal, store) = (Journal::new(MemoryJournal::new()), MemoryStore::new());
    let facts = journal.clone();
    let stock = move |fact: Delivery| {
        let (facts, store) = (facts.clone(), store.clone());
        async move {
            let work = async move {
                let mut tx = store.transaction().unwrap();
                facts.settle_in(&[fact], &mut tx).await?;
                tx.commit().unwrap();
                Ok::<_, SettleInError>(())
            };
            let _refused = if spawns { tokio::spawn(work).await? } else { work.await };
            HandlerResult::Ok(())
        }
    };
    let mails = Arc::new(AtomicUsize::new(0));
    let mail = second_time(&mails);
    let both = fan_out([("stock", AnyHandler::new(stock)), ("mail", AnyHandler::new(mail))]);
    let settles = PairOptions { settles_in: true, ..PairOptions::default() };
    let topic = Topic::builder("all").build().unwrap();
    journal.append([Fact::builder(("opened", "{}"))]).await.unwrap();
    let sink = Arc::new(HandlerSink::new("both", both));
    let publishing = Publishing::builder(&journal).pair_with(&topic, sink, settles);
    let publishing = publishing.start().await.unwrap();
    sleep(120 * SECOND).await;
    publishing.close().await;
    mails.load(Ordering::SeqCst)
}

/// What many events wait for, as where one queue of many is full: how often its target is asked in a minute.
#[tokio::test(start_paused = true)]
async fn events_of_a_full_queue_beside_others_are_no_flood() {
    let store = MemoryStore::new();
    let tries = Arc::new(AtomicUsize::new(0));
    let handler = {
        let tries = tries.clone();
        move |delivery: Delivery| {
            let tries = tries.clone();
            async move {
                if delivery.read_json::<usize>()? == 0 {
                    tries.fetch_add(1, Ordering::SeqCst);
                    return Err(Failure::unavailable(Duration::ZERO, "its queue is full"));
                }
                HandlerResult::Ok(())
            }
        }
    };
    let outbox = Outbox::builder(store.clone()).options(options()).on(EVENT, handler);
    let outbox = outbox.start().await.unwrap();
    for _ in 0..200 {
        commit(&outbox, &Event::json(EVENT, &0).unwrap()).await;
        commit(&outbox, &Event::json(EVENT, &1).unwrap()).await;
    }
    sleep(120 * SECOND).await;
    let before = tries.load(Ordering::SeqCst);
    for number in 1..=600 {
        sleep(SECOND / 10).await;
        commit(&outbox, &Event::json(EVENT, &number).unwrap()).await;
    }
    let in_a_minute = tries.load(Ordering::SeqCst) - before;
    outbox.close().await;
    // Each of them four times in a minute, as it is documented.
    assert!(in_a_minute <= 200 * 6, "{in_a_minute} tries in a minute");
}

/// A row that this node claims again between the answer to the handler and its statement.
#[tokio::test(start_paused = true)]
async fn who_lost_its_hold_to_its_own_node_and_succeeded_otherwise_did_succeed() {
    let clock = sendoff_testkit::clock::ManualClock::new();
    let store = Flaky::over(MemoryStore::with_clock(Arc::new(clock.clone())));
    store.set_joins(5 * SECOND);
    let (outbox, runs) = (Later::<Flaky>::default(), Arc::new(AtomicUsize::new(0)));
    let handler = otherwise(&store, &outbox, &runs, Fails::AsLost);
    let id = one_event(&store, handler, &outbox).await;
    sleep(SECOND).await;
    clock.advance(3_600 * SECOND);
    is_done_by_one_run(&store, id, &runs).await;
}

/// A probe that finds its event dead says nothing of the target: "on to the next", and not an interval later.
#[tokio::test(start_paused = true)]
async fn a_probe_whose_event_is_dead_is_followed_by_the_next_at_once() {
    let store = MemoryStore::new();
    let writer = Outbox::writer_only(store.clone());
    let mut tx = writer.begin(&store).await.unwrap();
    for number in 0..26 {
        tx.emit(Event::json(EVENT, &number).unwrap()).unwrap();
    }
    tx.commit().await.unwrap();
    let begun = tokio::time::Instant::now();
    let healthy = Arc::new(Mutex::new(None));
    let handler = {
        let healthy = healthy.clone();
        move |delivery: Delivery| {
            let healthy = healthy.clone();
            async move {
                sleep(SECOND / 20).await;
                match delivery.read_json::<usize>()? {
                    // Five that fail by themselves, for long.
                    0..5 if begun.elapsed() < 1_000 * SECOND => {
                        Err(Failure::from("connection refused"))
                    }
                    0..5 => Ok(()),
                    5..25 => Err(Failure::dead("no such customer")),
                    _ => {
                        *healthy.lock().unwrap() = Some(begun.elapsed());
                        HandlerResult::Ok(())
                    }
                }
            }
        }
    };
    let one = sendoff_engine::at_most(std::num::NonZeroUsize::MIN, handler);
    // So that those that fail by themselves are not probed with again and again.
    let retry = RetryOptions { base: 1_000 * SECOND, max: 1_000 * SECOND, ..options().retry };
    let seldom = OutboxOptions { poll_interval: 30 * SECOND, retry, ..OutboxOptions::default() };
    let outbox = Outbox::builder(store.clone()).options(seldom).on(EVENT, one);
    let outbox = outbox.start().await.unwrap();
    let over = async || healthy.lock().unwrap().is_some();
    within(3_600 * SECOND, "the healthy one", over).await;
    outbox.close().await;
    let after = healthy.lock().unwrap().unwrap();
    assert!(after <= 10 * SECOND, "{after:?} until an event of a target that is there");
}
