//! A broker that is down, beside a target that is well.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_nats::{ConnectOptions, jetstream};
use sendoff::memory::MemoryStore;
use sendoff::metrics::Counters;
use sendoff::sinks::nats::{NatsAuth, NatsOptions, NatsSink, NewStream};
use sendoff::{Delivery, Event, EventId, Outbox, Status};
use sendoff_testkit::broker::{Broker, OwnBroker, PASSWORD, USER};
use sendoff_testkit::soak;
use sendoff_testkit::wait::within;
use tokio::time::{MissedTickBehavior, interval};

const STREAM: &str = "SHOP";
const SHIPPED: &str = "order.shipped";
const BOOKED: &str = "order.booked";
/// Events a second, of each of both.
const RATE: u32 = 50;
const PLENTY: Duration = Duration::from_secs(60);

/// When each event was written, and when it came.
type Times = Arc<Mutex<HashMap<EventId, Instant>>>;

/// Holds fault 7 on a real broker: with every setting as it is by default, its outage uses up no attempt, makes no dead
/// letter and no other handler slower, and what waited goes out by itself, each event once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_is_down_is_nobody_elses_trouble() {
    let Some(mut broker) = OwnBroker::start(Broker::Nats) else { return };
    let server = format!("nats://127.0.0.1:{}", broker.port());
    let sink = NatsSink::start(NatsOptions {
        servers: vec![server.clone()],
        auth: NatsAuth::Password { user: USER.into(), password: PASSWORD.into() },
        create: Some(NewStream { subjects: vec!["shop.>".into()], ..NewStream::default() }),
        subject: "shop.{type}".into(),
        ..NatsOptions::stream(STREAM)
    });
    let (sink, store) = (sink.await.unwrap(), MemoryStore::new());
    let (written, came, counters) =
        (Times::default(), Times::default(), Arc::new(Counters::default()));
    let booked = {
        let came = came.clone();
        move |delivery: Delivery| {
            came.lock().unwrap().insert(delivery.id(), Instant::now());
            async { Ok(()) }
        }
    };
    let outbox = Outbox::builder(store.clone()).metrics(counters.clone());
    let outbox = outbox.on_sink(SHIPPED, sink.clone()).on(BOOKED, booked).start().await.unwrap();

    let calm = Duration::from_secs(2);
    let down = soak::lasting(Duration::from_secs(6), Duration::from_secs(60));
    write(&outbox, &written, calm).await;
    let longest_in_calm = longest(&written, &came).await;
    broker.kill();
    write(&outbox, &written, down).await;
    let longest_in_outage = longest(&written, &came).await;
    assert!(counters.values().unavailable.contains("nats"), "an operator sees it");
    // Two cores that do other work too: what must not be is that it waits for anything of the broker's.
    let bound = longest_in_calm + Duration::from_millis(500);
    assert!(longest_in_outage <= bound, "{longest_in_calm:?}, then {longest_in_outage:?}");
    assert!(store.rows().iter().all(|row| row.attempts == 0), "no attempt is used up");

    broker.restart();
    let begun = Instant::now();
    let done = || store.rows().iter().all(|row| row.status == Status::Done);
    within(PLENTY, "everything is delivered", async || done()).await;
    eprintln!(
        "broker down for {down:?}: {} events waited and were out {:?} after its return; others \
         {longest_in_calm:?} at most before, {longest_in_outage:?} meanwhile",
        down.as_secs() * u64::from(RATE),
        begun.elapsed()
    );
    assert!(counters.values().unavailable.is_empty());
    outbox.close().await;
    assert!(sink.close().await);
    let options = ConnectOptions::with_user_and_password(USER.into(), PASSWORD.into());
    let context = jetstream::new(options.connect(server).await.unwrap());
    let stream = context.get_stream(STREAM).await.unwrap();
    let shipped = u64::try_from(written.lock().unwrap().len()).unwrap();
    assert_eq!(stream.cached_info().state.messages, shipped, "each of them once");
}

/// Writes both kinds of events, evenly, for so long.
async fn write(outbox: &Outbox<MemoryStore>, written: &Times, time: Duration) {
    let (begun, mut tick) = (Instant::now(), interval(Duration::from_secs(1) / RATE));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while begun.elapsed() < time {
        tick.tick().await;
        let mut tx = outbox.begin(outbox.store()).await.unwrap();
        tx.emit(Event::json(SHIPPED, &1).unwrap()).unwrap();
        let id = tx.emit(Event::json(BOOKED, &1).unwrap()).unwrap();
        written.lock().unwrap().insert(id, Instant::now());
        tx.commit().await.unwrap();
    }
}

/// How long the slowest of those so far took that are not for the broker.
async fn longest(written: &Times, came: &Times) -> Duration {
    let all = || came.lock().unwrap().len() == written.lock().unwrap().len();
    within(PLENTY, "those that are not for the broker", async || all()).await;
    let came = came.lock().unwrap();
    let took = |(id, at): (&EventId, &Instant)| came[id].saturating_duration_since(*at);
    written.lock().unwrap().iter().map(took).max().unwrap_or_default()
}
