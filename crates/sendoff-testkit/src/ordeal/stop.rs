//! Processes that are stopped at random moments and go on later.

use std::io::Write;
use std::time::Duration;

use fastrand::Rng;
use sendoff_core::{Event, Status};
use sendoff_engine::Outbox;
use sendoff_engine::store::{Birth, InspectStore, NewRow};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::node::{HOLD, KIND, WAITS, outbox_options};
use super::witness::Witness;
use super::{EVENT, Kind, OrdealHarness};
use crate::acceptance::Inbox;
use crate::history::{Expectations, FaultKind, check};
use crate::process::Node;
use crate::soak;
use crate::wait::within;

const PLENTY: Duration = Duration::from_secs(60);
/// No write of the application waits longer.
const WRITE: Duration = Duration::from_secs(2);
/// The application writes so often, and so many events.
const EVERY: Duration = Duration::from_millis(25);
const PART: usize = 2;

fn due(event: Event) -> NewRow {
    NewRow { event, birth: Birth::Due }
}

/// The same with processes of every kind, each time on nodes of their own.
pub async fn stopped_processes_of_any_kind_stop_nobody_else<H: OrdealHarness>(
    nodes: impl AsyncFn() -> H,
) {
    let case = async |kinds| stopped_processes_stop_nobody_else(&nodes().await, kinds, 1).await;
    tokio::join!(
        case([Kind::Held, Kind::Outbox, Kind::Held]),
        case([Kind::Locked, Kind::Outbox, Kind::Locked]),
    );
}

/// A process of ours is stopped at a random moment, goes on when others have long taken over, and so
/// on in rounds: the settlements of the others never pause for long, no write of the application
/// waits, nothing is lost, and nothing comes twice that a stop does not explain.
pub async fn stopped_processes_stop_nobody_else<H: OrdealHarness>(
    harness: &H,
    kinds: [Kind; 3],
    seed: u64,
) {
    let mut random = soak::random(seed);
    // Longer than the others may pause: whoever waits for a stopped process is found out.
    let stopped = soak::lasting(Duration::from_secs(5), Duration::from_secs(25));
    let longest_pause = soak::lasting(Duration::from_secs(4), Duration::from_secs(15));
    let witness = Witness::default();
    let store = harness.store().await;
    let mut nodes = Vec::new();
    for (number, kind) in kinds.into_iter().enumerate() {
        let mut node = harness.node(&[], &[(KIND, kind.name())]);
        node.says("ready");
        let name = format!("{}{number}", kind.name());
        witness.hears(name.clone(), &mut node);
        nodes.push((name, node));
    }
    let stop = CancellationToken::new();
    let pauses = Pauses::new(Instant::now());
    let writing = write_on(harness, &store, &witness, &stop);
    let watching = pauses.watch(&store, &stop);
    let stopping = async {
        // In turn, so that three rounds stop two of a kind; the moment is chance.
        for round in 0..soak::rounds(3) {
            let victim = round as usize % nodes.len();
            stop_one(&nodes[victim], stopped, &witness, &mut random).await;
        }
        stop.cancel();
    };
    let ((written, longest_write), longest, ()) = tokio::join!(writing, watching, stopping);

    let over = async || store.counts().await.unwrap().pending() == 0;
    within(PLENTY, "everything to end", over).await;
    let counts = store.counts().await.unwrap();
    assert_eq!((counts.done, counts.dead), (written as u64, 0));
    drop(nodes);
    let said = format!("longest pause {longest:?}, longest write {longest_write:?}");
    let verdict = check(&witness.history, &Expectations { healed: true, ..Default::default() });
    // For people, who read it in a soak.
    let _ = writeln!(std::io::stderr(), "{kinds:?}: {said}; {verdict}");
    assert!(verdict.is_clean(), "{verdict}");
    assert!(longest <= longest_pause, "settlements paused: {said}");
    assert!(longest_write <= WRITE, "a write waited: {said}");
}

/// Stops a process at a random moment, and lets it go on.
async fn stop_one(
    (name, node): &(String, Node),
    stopped: Duration,
    witness: &Witness,
    random: &mut Rng,
) {
    sleep(Duration::from_micros(random.u64(..1_000_000))).await;
    witness.fault(name, FaultKind::Pause);
    node.signal("-STOP");
    // What it said last may only be heard now; its holds last longer.
    sleep(HOLD / 4).await;
    witness.fault(name, FaultKind::Pause);
    sleep(stopped).await;
    witness.fault(name, FaultKind::Resume);
    node.signal("-CONT");
    sleep(HOLD / 4).await;
    witness.fault(name, FaultKind::Resume);
}

/// Writes until it is told to stop. Returns how many, and the longest that a write took.
async fn write_on<H: OrdealHarness>(
    harness: &H,
    store: &H::Store,
    witness: &Witness,
    stop: &CancellationToken,
) -> (usize, Duration) {
    let (mut written, mut longest) = (0, Duration::ZERO);
    while !stop.is_cancelled() {
        let events: Vec<_> = (0..PART).map(|n| Event::json(EVENT, &n).unwrap()).collect();
        witness.writes(&events);
        let rows: Vec<_> = events.iter().cloned().map(due).collect();
        let began = Instant::now();
        let write = harness.write(store, &rows);
        timeout(PLENTY, write).await.expect("a write of the application waits for us");
        longest = longest.max(began.elapsed());
        events.iter().for_each(|event| witness.history.committed(event));
        written += events.len();
        sleep(EVERY).await;
    }
    (written, longest)
}

/// How long nothing was settled although there was always something to settle.
struct Pauses {
    since: Instant,
}

impl Pauses {
    fn new(since: Instant) -> Self {
        Self { since }
    }

    async fn watch(mut self, store: &impl InspectStore, stop: &CancellationToken) -> Duration {
        let (mut done, mut longest) = (0, Duration::ZERO);
        while !stop.is_cancelled() {
            let now = store.counts().await.unwrap().done;
            longest = longest.max(self.since.elapsed());
            if now > done {
                (done, self.since) = (now, Instant::now());
            }
            sleep(Duration::from_millis(100)).await;
        }
        longest
    }
}

/// Fault 11: stopped in its handler for longer than it holds its row, and continued, it finds the row
/// settled by another, and changes nothing.
pub async fn a_stopped_process_settles_nothing_it_lost<H: OrdealHarness>(harness: &H, kind: Kind) {
    let store = harness.store().await;
    let event = Event::json(EVENT, "stopped").unwrap();
    harness.write(&store, &[due(event.clone())]).await;
    let mut zombie = harness.node(&[], &[(KIND, kind.name()), (WAITS, "1")]);
    zombie.says("began");
    zombie.signal("-STOP");

    let inbox = Inbox::new();
    let other = Outbox::builder(harness.store().await).options(outbox_options());
    let other = other.on(EVENT, inbox.clone()).start().await.unwrap();
    let row = async || store.find(event.id()).await.unwrap().unwrap();
    let done = async || row().await.status == Status::Done;
    within(PLENTY, "another to take over", done).await;
    let settled = row().await;
    assert_eq!(inbox.received().len(), 1);

    zombie.signal("-CONT");
    zombie.child.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    zombie.says("ended");
    // What it has to say about the row reaches the database with what follows it.
    let next = Event::json(EVENT, "next").unwrap();
    harness.write(&store, &[due(next.clone())]).await;
    let over = async || store.find(next.id()).await.unwrap().unwrap().status == Status::Done;
    within(PLENTY, "the next one", over).await;
    drop(zombie);
    let after = row().await;
    assert_eq!(
        (after.status, after.done_at, after.attempts),
        (settled.status, settled.done_at, settled.attempts)
    );
    other.close().await;
}
