//! Order within keys, while nodes are killed, stopped and added, and an operator is at work.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use sendoff_core::order::AfterDead;
use sendoff_core::{
    AuditNote, Death, Delivery, Event, EventId, Lane, LetterAct, LetterFate, LetterFilter, Origin,
};
use sendoff_engine::Outbox;
use sendoff_engine::store::{Birth, ChangeLetters, InspectStore, LetterPage, LetterStore, NewRow};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::node::{FAILS, FENCED, HOLD, KIND, STUBBORN, at, handle, outbox_options};
use super::{EVENT, Kind, OrdealHarness};
use crate::history::{
    Decision, Expectations, Fault, FaultKind, History, Position, Verdict, Violation, check,
};
use crate::process::Node;
use crate::soak;
use crate::wait::within;

/// Nodes that are there, as a rule.
const NODES: usize = 3;
/// One of so many events fails most of the time, and ends among the dead letters.
const STUBBORN_ONE_IN: u64 = 300;
/// Of a hundred runs so many fail.
const PERCENT: u8 = 5;
/// How long a stopped process stays so: others have its keys then.
const STOPPED: Duration = Duration::from_secs(6);

/// What somebody said or did, and when, by the clock of the machine: pipes are heard in any order.
#[derive(Debug, Clone)]
enum Said {
    Writes(Event),
    Wrote(Event),
    Began { node: Arc<str>, id: EventId, attempt: u32 },
    Ended { node: Arc<str>, id: EventId, well: bool },
    Discarded(EventId),
    Fault { node: Arc<str>, kind: FaultKind },
}

/// Everything that was said, and how many settlements came too late.
#[derive(Debug, Clone, Default)]
struct Transcript(Arc<Mutex<Vec<(u128, Said)>>>, Arc<AtomicU64>);

impl Transcript {
    fn add(&self, at: u128, said: Said) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((at, said));
    }

    fn fault(&self, node: &Arc<str>, kind: FaultKind) {
        self.add(at(), Said::Fault { node: node.clone(), kind });
    }

    /// Listens to a node for as long as it lives.
    fn hears(&self, name: &Arc<str>, node: &mut Node) {
        let (transcript, name) = (self.clone(), name.clone());
        node.hear(move |line| transcript.heard(&name, line));
    }

    /// What a node said.
    fn heard(&self, node: &Arc<str>, line: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        if let [FENCED, count] = words[..] {
            self.1.fetch_add(count.parse().unwrap_or(0), Ordering::Relaxed);
            return;
        }
        let (Some(Ok(id)), Some(Ok(at))) =
            (words.get(1).map(|id| id.parse()), words.last().map(|at| at.parse()))
        else {
            return;
        };
        let node = node.clone();
        match (words[0], words.get(2).map(|attempt| attempt.parse())) {
            ("began", Some(Ok(attempt))) => self.add(at, Said::Began { node, id, attempt }),
            ("ended", _) => self.add(at, Said::Ended { node, id, well: true }),
            ("failed", _) => self.add(at, Said::Ended { node, id, well: false }),
            _ => {}
        }
    }

    /// Whatever was said of events that were delivered twice for no reason, from the first time to the second.
    fn tell_of(&self, verdict: &Verdict) {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        said.sort_by_key(|(at, _)| *at);
        for violation in &verdict.violations {
            let Violation::UnexplainedDuplicate { id, .. } = violation else { continue };
            let is_of = |said: &Said| match said {
                Said::Began { id: of, .. } | Said::Ended { id: of, .. } => of == id,
                Said::Writes(event) | Said::Wrote(event) => event.id() == *id,
                Said::Discarded(of) => of == id,
                Said::Fault { .. } => false,
            };
            let own = || said.iter().filter(|(_, said)| is_of(said)).map(|(at, _)| *at);
            let (Some(from), Some(to)) = (own().min(), own().max()) else { continue };
            for (at, said) in &said {
                let fault = matches!(said, Said::Fault { .. }) && (from..=to).contains(at);
                if is_of(said) || fault {
                    let _ = writeln!(std::io::stderr(), "{} {said:?}", at - from);
                }
            }
        }
    }

    /// The same as a history, in the order in which it happened.
    fn history(&self) -> History {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        said.sort_by_key(|(at, _)| *at);
        let history = History::new();
        let mut events: BTreeMap<EventId, Event> = BTreeMap::new();
        let mut open: BTreeMap<(Arc<str>, EventId), Position> = BTreeMap::new();
        for (_, said) in said {
            match said {
                Said::Writes(event) => {
                    history.unknown(&event);
                    events.insert(event.id(), event);
                }
                Said::Wrote(event) => history.committed(&event),
                Said::Began { node, id, attempt } => {
                    let event = &events[&id];
                    let started = history.run_started(&node, event, attempt);
                    open.insert((node, id), started);
                }
                Said::Ended { node, id, well } => {
                    if let Some(started) = open.remove(&(node, id)) {
                        history.run_finished(started, well);
                    }
                }
                Said::Discarded(id) => history.decided(id, Decision::Discarded),
                Said::Fault { node, kind } => history.fault(Fault::on(node, kind)),
            }
        }
        history
    }
}

/// Nodes in processes of their own, of every kind in turn.
struct Nodes<'h, H> {
    harness: &'h H,
    transcript: Transcript,
    running: Vec<(Arc<str>, Node)>,
    started: usize,
}

impl<H: OrdealHarness> Nodes<'_, H> {
    fn start_one(&mut self) {
        let kinds = [Kind::Outbox, Kind::Held, Kind::Outbox, Kind::Locked];
        let kind = kinds[self.started % kinds.len()];
        let mut node =
            self.harness.node(&[], &[(KIND, kind.name()), (FAILS, &PERCENT.to_string())]);
        node.says("ready");
        let name: Arc<str> = format!("{}{}", kind.name(), self.started).into();
        self.transcript.hears(&name, &mut node);
        self.running.push((name, node));
        self.started += 1;
    }

    /// Something happens to one of them.
    async fn suffer(&mut self, random: &mut Rng) {
        let victim = random.usize(..self.running.len());
        match random.u8(..10) {
            0..4 => {
                self.kill(victim);
                self.start_one();
            }
            4..8 => {
                let (name, node) = &self.running[victim];
                self.transcript.fault(name, FaultKind::Pause);
                node.signal("-STOP");
                // What it began just before.
                self.transcript.fault(name, FaultKind::Pause);
                sleep(STOPPED).await;
                self.transcript.fault(name, FaultKind::Resume);
                node.signal("-CONT");
            }
            _ if self.running.len() <= NODES => self.start_one(),
            _ => self.kill(victim),
        }
    }

    fn kill(&mut self, victim: usize) {
        let (name, node) = self.running.swap_remove(victim);
        self.transcript.fault(&name, FaultKind::Crash);
        drop(node);
        // What it began just before.
        self.transcript.fault(&name, FaultKind::Crash);
    }
}

/// Three processes, many keys, handlers of which one in twenty fails, nodes that are killed, stopped and
/// added all the while, and an operator who requeues and discards what is dead: nothing is lost, and no event of a
/// key begins before the one before it is over. Every second transaction or so is the outbox's of the application, which
/// delivers from memory what does not wait for others.
pub async fn ordered_events_stay_in_order_whatever_happens<H: OrdealHarness>(
    harness: &H,
    seed: u64,
) {
    let mut random = soak::random(seed);
    let (keys, count) = (soak::amount(60, 500), soak::amount(2_000, 50_000));
    let transcript = Transcript::default();
    let store = harness.store().await;
    let mut nodes =
        Nodes { harness, transcript: transcript.clone(), running: Vec::new(), started: 0 };
    (0..NODES).for_each(|_| nodes.start_one());
    let application = Application::start(harness, &transcript).await;
    let over = CancellationToken::new();
    let writes = application.write(random.fork(), keys, count);
    let operator = operate(&store, &transcript, &over, random.fork());
    let nemesis = async {
        let ends =
            Instant::now() + soak::lasting(Duration::from_secs(20), Duration::from_secs(180));
        while Instant::now() < ends {
            sleep(Duration::from_millis(random.u64(500..2_500))).await;
            nodes.suffer(&mut random).await;
        }
    };
    let ends = async {
        let (events, ()) = tokio::join!(writes, nemesis);
        let ended = async || {
            let counts = store.counts().await.unwrap();
            counts.pending() + counts.dead == 0
        };
        within(soak::lasting(PLENTY, 10 * PLENTY), "everything to end", ended).await;
        over.cancel();
        events
    };
    let (events, discarded) = tokio::join!(ends, operator);
    application.outbox.close().await;
    // What was said last is heard by then: the pipes end with the processes.
    drop(std::mem::take(&mut nodes.running));
    let told = transcript.clone();
    let whole = async || {
        let ends = told.history().entries().len();
        sleep(Duration::from_millis(200)).await;
        ends == told.history().entries().len()
    };
    within(PLENTY, "everything to be heard", whole).await;

    let history = transcript.history();
    stand(&store, &history, &events).await;
    let expected = Expectations {
        ordered: Some(AfterDead::Park),
        one_by_one: true,
        healed: true,
        outages: true,
        max_attempts: None,
    };
    let verdict = check(&history, &expected);
    let fenced = transcript.1.load(Ordering::Relaxed);
    let hot = application.hot.load(Ordering::Relaxed);
    tell(&verdict, discarded, fenced, hot);
    transcript.tell_of(&verdict);
    assert!(verdict.is_clean(), "{verdict}");
    assert!(hot > 0, "some events are delivered from memory");
    // In minutes some process is stopped while it has something to settle.
    assert!(fenced >= soak::amount(0, 1), "stale settlements are told apart");
}

const PLENTY: Duration = Duration::from_secs(60);

fn tell(verdict: &Verdict, discarded: usize, fenced: u64, hot: u64) {
    // For people, who read it in a soak.
    let mut out = std::io::stderr();
    let _ = writeln!(
        out,
        "{discarded} letters discarded; {fenced} events fenced; {hot} runs from memory; {verdict}"
    );
}

/// How every event stands at the end whose row is there.
async fn stand(store: &impl InspectStore, history: &History, events: &[Event]) {
    for event in events {
        if let Some(row) = store.find(event.id()).await.unwrap() {
            history.stands(event.id(), row.status, row.attempts);
        }
    }
}

/// The application, with an outbox of its own: what is written through that is delivered here, from memory where order
/// allows it.
struct Application<'h, H: OrdealHarness> {
    harness: &'h H,
    transcript: Transcript,
    store: H::Store,
    outbox: Outbox<H::Store>,
    /// How many runs came from memory.
    hot: Arc<AtomicU64>,
}

impl<'h, H: OrdealHarness> Application<'h, H> {
    async fn start(harness: &'h H, transcript: &Transcript) -> Self {
        let (name, hot): (Arc<str>, Arc<AtomicU64>) = ("application".into(), Arc::default());
        let (told, counted) = (transcript.clone(), hot.clone());
        let handler = move |delivery: Delivery| {
            if matches!(delivery.origin, Origin::Row(Lane::Hot)) {
                counted.fetch_add(1, Ordering::Relaxed);
            }
            let (told, name) = (told.clone(), name.clone());
            handle(delivery, false, PERCENT, move |line: &str| told.heard(&name, line))
        };
        let store = harness.store().await;
        let builder = Outbox::builder(store.clone()).options(outbox_options());
        let outbox = builder.on(EVENT, handler).start().await.unwrap();
        Self { harness, transcript: transcript.clone(), store, outbox, hot }
    }

    /// One transaction after the other, so that the order of commits is that of numbers.
    async fn write(&self, mut random: Rng, keys: u64, count: u64) -> Vec<Event> {
        let mut events = Vec::new();
        while (events.len() as u64) < count {
            let part: Vec<Event> = (0..random.usize(1..40))
                .map(|_| {
                    let text = if random.u64(..STUBBORN_ONE_IN) == 0 { STUBBORN } else { "usual" };
                    let key = format!("key {}", random.u64(..keys));
                    Event::builder(EVENT).ordering_key(key).json(&text).build().unwrap()
                })
                .collect();
            part.iter().for_each(|event| self.transcript.add(at(), Said::Writes(event.clone())));
            if random.bool() {
                self.harness.emit(&self.outbox, &part).await;
            } else {
                let due = |event: &Event| NewRow { event: event.clone(), birth: Birth::Due };
                self.harness.write(&self.store, &part.iter().map(due).collect::<Vec<_>>()).await;
            }
            part.iter().for_each(|event| self.transcript.add(at(), Said::Wrote(event.clone())));
            events.extend(part);
            // About as fast as they are delivered, so that keys are short and long.
            sleep(Duration::from_millis(random.u64(..40))).await;
        }
        events
    }
}

/// An operator, who looks at what is dead now and then, requeues most of it and discards the rest. Returns how
/// much was discarded.
async fn operate(
    store: &impl LetterStore,
    transcript: &Transcript,
    over: &CancellationToken,
    mut random: Rng,
) -> usize {
    let note = AuditNote::new("an operator", "it was looked at").unwrap();
    let mut discarded = 0;
    while over.run_until_cancelled(sleep(Duration::from_millis(300))).await.is_some() {
        let everything = LetterFilter::default();
        let page = LetterPage::first(&everything, 20);
        for letter in store.letters(&page).await.unwrap() {
            let act = if random.u8(..4) == 0 { LetterAct::Discard } else { LetterAct::Requeue };
            let deaths = [Death::of(letter.id)];
            let change = ChangeLetters { act, deaths: &deaths, note: &note };
            // What waits for it may begin before the answer is here.
            let asked = at();
            let fates = store.change_letters(&change).await.unwrap();
            if fates == [LetterFate::Done] && act == LetterAct::Discard {
                transcript.add(asked, Said::Discarded(letter.id));
                discarded += 1;
            }
        }
    }
    discarded
}

/// Stopped for longer than a hold, so that others have what was held.
const _: () = assert!(STOPPED.as_secs() > HOLD.as_secs());
