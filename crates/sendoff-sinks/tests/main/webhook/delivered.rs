//! The webhook sink with what delivers to it: outages that last for hours, on paused time, and a receiver that disables it.

use std::time::Duration;

use sendoff_core::{AuditNote, Event, PauseScope, Status};
use sendoff_engine::Outbox;
use sendoff_engine::memory::MemoryStore;
use sendoff_sinks::webhook::{WebhookOptions, WebhookSink};
use sendoff_testkit::logs::Lines;
use sendoff_testkit::wait::within;
use tokio::time::sleep;
use tracing::Level;

use super::receiver::Says;
use super::{Ground, to};

const HOUR: Duration = Duration::from_secs(3_600);
const PLENTY: Duration = Duration::from_secs(60);

async fn write(outbox: &Outbox<MemoryStore>, store: &MemoryStore, number: u32) {
    let mut tx = store.transaction().unwrap();
    let event = Event::json("order.placed", &number).unwrap();
    let staged = outbox.write(&mut tx, event).await.unwrap();
    tx.commit().unwrap();
    staged.release();
}

/// Fault 7: with every setting as it is by default, an event an hour, which are too few to open a circuit. Whatever the
/// receiver answers in an outage, none is dead.
#[tokio::test(start_paused = true)]
async fn for_two_hours_a_receiver_fails_and_no_event_is_dead() {
    for says in [
        // Its own error, its gateway's, and an ingress that does not know its path for now.
        Says(500, None),
        Says(501, Some("60")),
        Says(503, None),
        Says(503, Some("600")),
        Says(429, Some("30")),
        Says(522, None),
        Says(404, None),
        Says(308, None),
    ] {
        for was_there in [true, false] {
            let (ground, store) = (Ground::new().await, MemoryStore::new());
            let url = format!("{}/{{type}}", ground.0.url());
            let sink = WebhookSink::start(to(url)).await.unwrap();
            let outbox = Outbox::builder(store.clone()).on_any_sink(sink.clone());
            let outbox = outbox.start().await.unwrap();
            let arrived = || ground.0.state.arrived.lock().unwrap().len();
            let before = usize::from(was_there);
            if was_there {
                write(&outbox, &store, 0).await;
                within(PLENTY, "the first", async || arrived() == 1).await;
            }
            *ground.0.state.says.lock().unwrap() = Some(says);
            for number in 1..=2 {
                write(&outbox, &store, number).await;
                sleep(HOUR).await;
            }
            let asked = ground.0.state.heads.lock().unwrap().len();
            assert!(asked <= 2 * (7_200 / 15 + 10), "{says:?}: asked {asked} times in two hours");
            assert_eq!(arrived(), before, "{says:?}");
            let used_up: u32 = store.rows().iter().map(|row| row.attempts).sum();
            assert!(used_up <= u32::from(was_there), "{says:?}: {used_up} attempts");
            assert!(store.rows().iter().all(|row| row.status != Status::Dead), "{says:?}");
            *ground.0.state.says.lock().unwrap() = None;
            let done = async || store.rows().iter().all(|row| row.status == Status::Done);
            within(2 * HOUR, "all that waited", done).await;
            assert_eq!(arrived(), before + 2, "{says:?}");
            outbox.close().await;
            sink.close().await;
        }
    }
}

/// One that is there finds an event out, whatever it answers.
#[tokio::test(start_paused = true)]
async fn an_event_that_fails_while_others_are_taken_is_dead_after_its_attempts() {
    let (ground, store) = (Ground::new().await, MemoryStore::new());
    let sink = WebhookSink::start(ground.options()).await.unwrap();
    let outbox = Outbox::builder(store.clone()).on_any_sink(sink.clone()).start().await.unwrap();
    *ground.0.state.fails.lock().unwrap() = Some("poison");
    let mut tx = store.transaction().unwrap();
    let event = Event::builder("poison").json(&1).build().unwrap();
    let id = event.id();
    let staged = outbox.write(&mut tx, event).await.unwrap();
    tx.commit().unwrap();
    staged.release();
    for number in 0..600 {
        write(&outbox, &store, number).await;
        sleep(Duration::from_secs(1)).await;
    }
    let rows = store.rows();
    let poison = rows.iter().find(|row| row.event.id() == id).unwrap();
    assert_eq!((poison.status, poison.attempts), (Status::Dead, 10));
    assert!(rows.iter().all(|row| row.event.id() == id || row.status == Status::Done));
    outbox.close().await;
}

/// They would be paused together: one that is gone would stop the other.
#[tokio::test]
async fn two_receivers_of_one_outbox_need_two_names() {
    let (ground, store) = (Ground::new().await, MemoryStore::new());
    let one = WebhookSink::start(ground.options()).await.unwrap();
    let start = async |options: WebhookOptions| {
        let other = WebhookSink::start(options).await.unwrap();
        // The same sink for several types is one.
        let builder = Outbox::builder(store.clone()).on_sink("a", one.clone());
        builder.on_sink("b", one.clone()).on_sink("c", other).start().await
    };
    let refused = start(ground.options()).await.unwrap_err().to_string();
    assert!(refused.starts_with("handler \"webhook\": "), "{refused}");
    let named = WebhookOptions { name: "crm".to_owned(), ..ground.options() };
    start(named).await.unwrap().close().await;
}

/// Each of those that were under way was answered so.
#[tokio::test(start_paused = true)]
async fn a_receiver_that_is_gone_is_told_of_once_and_all_flow_when_it_is_resumed() {
    let (lines, _guard) = Lines::keep(Level::INFO);
    let (ground, store) = (Ground::new().await, MemoryStore::new());
    *ground.0.state.says.lock().unwrap() = Some(Says(410, None));
    let sink = WebhookSink::start(ground.options()).await.unwrap();
    for number in 0..200 {
        let writer = Outbox::writer_only(store.clone());
        write(&writer, &store, number).await;
    }
    let outbox = Outbox::builder(store.clone()).on_any_sink(sink.clone()).start().await.unwrap();
    let paused = async || !outbox.pauses().await.unwrap().is_empty();
    within(PLENTY, "the pause", paused).await;
    sleep(Duration::from_secs(5)).await;
    let errors = lines.with("\"ERROR\"");
    assert!((1..=2).contains(&errors.len()), "the sink, and its pause: {errors:?}");
    *ground.0.state.says.lock().unwrap() = None;
    let scope: PauseScope = "handler:webhook".parse().unwrap();
    assert!(outbox.resume(&scope, &AuditNote::new("ann", "it is back").unwrap()).await.unwrap());
    let done = async || store.rows().iter().all(|row| row.status == Status::Done);
    within(Duration::from_secs(5), "all of them", done).await;
    outbox.close().await;
    assert!(sink.close().await);
}

/// The whole way: the receiver wants nothing more, the outbox pauses the sink and says why, and a person lets it go on.
#[tokio::test(start_paused = true)]
async fn a_receiver_that_is_gone_pauses_the_sink_until_somebody_resumes_it() {
    let (ground, store) = (Ground::new().await, MemoryStore::new());
    let sink = WebhookSink::start(ground.options()).await.unwrap();
    let outbox = Outbox::builder(store.clone()).on_any_sink(sink.clone()).start().await.unwrap();
    *ground.0.state.says.lock().unwrap() = Some(Says(410, None));
    write(&outbox, &store, 1).await;
    let paused = async || !outbox.pauses().await.unwrap().is_empty();
    within(PLENTY, "the pause", paused).await;
    let scope: PauseScope = "handler:webhook".parse().unwrap();
    let pauses = outbox.pauses().await.unwrap();
    assert_eq!(pauses[0].scope, scope);
    assert_eq!(pauses[0].actor, "handler:webhook");
    assert!(pauses[0].reason.contains("the receiver answered 410"), "{pauses:?}");
    // What comes later waits as well, and nobody is asked.
    write(&outbox, &store, 2).await;
    let asked = ground.0.state.heads.lock().unwrap().len();
    *ground.0.state.says.lock().unwrap() = None;
    let note = AuditNote::new("ann", "the receiver is back").unwrap();
    assert!(outbox.resume(&scope, &note).await.unwrap());
    let done = async || store.rows().iter().all(|row| row.status == Status::Done);
    // Neither waits for anything but that.
    within(Duration::from_secs(3), "both", done).await;
    assert!(store.rows().iter().all(|row| row.attempts == 0), "no attempt is used up");
    assert_eq!(ground.0.state.arrived.lock().unwrap().len(), 2);
    assert!(ground.0.state.heads.lock().unwrap().len() >= asked + 2);
    outbox.close().await;
    assert!(sink.close().await);
}
