//! A target that is unavailable makes no dead letters, and slows nobody else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use sendoff_core::{Delivery, Event, Failure, Status};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::relay::{ClaimMode, Relay, RelayOptions, TopicWorker};
use sendoff_engine::{Handler, Handlers, Outbox, OutboxOptions};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::within;
use tokio::time::{Instant, sleep};

use super::flaky::Flaky;
use super::{EVENT, SECOND, commit, fill};

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
