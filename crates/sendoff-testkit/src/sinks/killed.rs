//! A target that is killed in the middle of many events, which an outbox delivers. The history checker judges what the
//! target has in the end.
#![allow(clippy::missing_panics_doc, reason = "a case that panics is a sink that failed it")]
#![allow(clippy::unwrap_used, reason = "a case that cannot unwrap says less, not more")]

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{
    Delivery, Event, EventId, FailureClass, Sink, Status, StoredEvent, Verdict as Answer,
};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::store::{InspectStore, Row};
use sendoff_engine::{CircuitOptions, HandlerOptions, Outbox, OutboxOptions};

use super::ground::{Arrived, SinkGround};
use crate::history::{Expectations, Fault, FaultKind, History, Verdict, check};
use crate::wait::within;

/// How often it is killed, and how often at most, until an answer was lost.
const KILLS: usize = 3;
const KILLS_AT_MOST: usize = 7;
/// Events in one transaction, and in one batch at most: on a busy machine a target confirms no thousands within its deadline.
const TOGETHER: usize = 100;
const PLENTY: Duration = Duration::from_secs(120);

/// How it went.
#[derive(Debug)]
pub struct Account {
    /// What the checker says of the events that the target has, each of which is a run in its history.
    pub verdict: Verdict,
    /// How often the target was killed.
    pub kills: usize,
    /// Events that the sink was given more than once. None where its client sends again by itself what a target that is back
    /// soon has not confirmed.
    pub sent_again: usize,
    /// Events that it has, those included that it has twice.
    pub there: usize,
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verdict, kills, sent_again, there } = self;
        write!(f, "{kills} kills, {sent_again} sent again, {there} there: {verdict}")
    }
}

/// Writes so many events into an outbox that delivers them to the target, which is killed three times or more and
/// started again meanwhile, always in mid-batch. Nothing may be lost, changed or made up, and no attempt used up. The
/// target has an event twice only if an answer for it was lost, and never where it drops duplicates. For grounds that run
/// the groups `kill` and `durable`.
pub async fn in_the_middle_of<G: SinkGround>(events: usize, ground: &G) -> Account {
    let (store, history) = (MemoryStore::new(), History::new());
    let written = write(&store, &history, events);
    let sink = ground.sink().await;
    let watched = Watched { sink: sink.clone(), history: history.clone(), sent: Arc::default() };
    let sent = Arc::clone(&watched.sent);
    let outbox = Outbox::builder(store.clone()).options(options()).on_any_sink(watched);
    let outbox = outbox.start().await.unwrap();
    let mut kills = 0;
    while kills < KILLS || (kills < KILLS_AT_MOST && lock(&sent).unanswered == 0) {
        kills += 1;
        let share = events * kills / (KILLS_AT_MOST + 1);
        let in_mid_batch = || {
            let sent = lock(&sent);
            sent.done >= share && !sent.under_way.is_empty()
        };
        within(PLENTY, "a batch to be under way", async || in_mid_batch()).await;
        ground.server().kill().await;
        if ground.resends() {
            history.fault(lost_reply(lock(&sent).under_way.iter().copied()));
        }
        ground.server().start().await;
    }
    let all_done = || lock(&sent).done >= events;
    within(PLENTY, "all events to be done", async || all_done()).await;
    let settled = async || store.counts().await.unwrap().pending() == 0;
    within(PLENTY, "all events to be settled", settled).await;
    outbox.close().await;
    assert!(ground.close(&sink).await, "the sink comes to its end");

    let rows = store.rows();
    let by_itself = |row: &Row| row.status == Status::Done && row.attempts == 0;
    assert!(rows.iter().all(by_itself), "no attempt is used up");
    history.rows_stand(&rows);
    let arrived = ground.arrived().await;
    for one in &arrived {
        let run = history.run_started("target", &written.with(one), 1);
        history.run_finished(run, true);
    }
    let expected = Expectations { healed: true, ..Expectations::default() };
    let verdict = check(&history, &expected);
    let again = lock(&sent).again();
    let account = Account { verdict, kills, sent_again: again, there: arrived.len() };
    eprintln!("{account}");
    assert!(account.verdict.is_clean(), "{account}");
    if ground.drops_duplicates() {
        assert_eq!(account.there, events, "none is there twice: {account}");
    }
    account
}

/// The target may have these, and did not say so.
fn lost_reply(of: impl IntoIterator<Item = EventId>) -> Fault {
    Fault::on("target", FaultKind::LostReply).of(of)
}

fn options() -> OutboxOptions {
    // The target is back soon.
    let circuit = CircuitOptions {
        first_pause: Duration::from_millis(50),
        longest_pause: Duration::from_millis(200),
        ..CircuitOptions::default()
    };
    OutboxOptions {
        poll_interval: Duration::from_millis(50),
        handler: HandlerOptions { circuit, ..HandlerOptions::default() },
        ..OutboxOptions::default()
    }
}

fn write(store: &MemoryStore, history: &History, events: usize) -> Written {
    let writer = Outbox::writer_only(store.clone());
    let event = |number: usize| Event::json("order.placed", &number).unwrap();
    let all: Vec<_> = (0..events).map(event).collect();
    for together in all.chunks(TOGETHER) {
        let mut tx = writer.begin_blocking(store).unwrap();
        for event in together {
            tx.emit(event.clone()).unwrap();
        }
        tx.commit().unwrap();
        together.iter().for_each(|event| history.committed(event));
    }
    Written(all.into_iter().map(|event| (event.id(), event)).collect())
}

/// What was written.
struct Written(HashMap<EventId, Event>);

impl Written {
    /// The event as the target has it. What a target does not tell apart, such as when it happened, is as it was written.
    fn with(&self, arrived: &Arrived) -> Event {
        let like = self.0.get(&arrived.id).or(self.0.values().next()).unwrap();
        let mut stored: StoredEvent = AsRef::<StoredEvent>::as_ref(like).clone();
        stored.id = arrived.id;
        stored.event_type = arrived.event_type.as_str().into();
        stored.payload = arrived.payload.clone().into();
        stored.ordering_key = arrived.key.as_deref().map(Into::into);
        Event::restore(stored).unwrap()
    }
}

/// A sink whose sending is kept track of: an answer that did not come is a fault of that event.
struct Watched<S> {
    sink: S,
    history: History,
    sent: Arc<Mutex<Sent>>,
}

/// What was sent.
#[derive(Debug, Default)]
struct Sent {
    times: HashMap<EventId, u32>,
    under_way: HashSet<EventId>,
    done: usize,
    unanswered: usize,
}

impl Sent {
    fn again(&self) -> usize {
        self.times.values().filter(|times| **times > 1).count()
    }
}

fn lock(sent: &Mutex<Sent>) -> MutexGuard<'_, Sent> {
    sent.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl<S: Sink> Sink for Watched<S> {
    fn name(&self) -> &str {
        self.sink.name()
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Answer> {
        {
            let mut sent = lock(&self.sent);
            for delivery in deliveries {
                sent.under_way.insert(delivery.id());
                *sent.times.entry(delivery.id()).or_default() += 1;
            }
        }
        let answers = self.sink.deliver(deliveries).await;
        let mut sent = lock(&self.sent);
        for delivery in deliveries {
            sent.under_way.remove(&delivery.id());
        }
        for (delivery, answer) in deliveries.iter().zip(&answers) {
            match answer {
                Ok(()) => sent.done += 1,
                Err(failure) => {
                    sent.unanswered += 1;
                    let class = failure.class();
                    assert!(matches!(class, FailureClass::Unavailable { .. }), "{failure:?}");
                    self.history.fault(lost_reply([delivery.id()]));
                }
            }
        }
        answers
    }

    fn is_healthy(&self) -> bool {
        self.sink.is_healthy()
    }

    fn batch_size(&self) -> usize {
        self.sink.batch_size().min(TOGETHER)
    }

    fn runs_at_most(&self) -> Option<std::num::NonZeroUsize> {
        self.sink.runs_at_most()
    }

    fn deadline(&self) -> Option<Duration> {
        self.sink.deadline()
    }

    fn identity(&self) -> Option<usize> {
        self.sink.identity()
    }
}
