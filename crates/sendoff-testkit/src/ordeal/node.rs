//! The process that an ordeal kills, stops or cuts off.

use std::env;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use sendoff_core::{Delivery, Failure};
use sendoff_engine::relay::{ClaimMode, Relay, RelayOptions, RelayStore};
use sendoff_engine::{HandlerResult, Metrics, NodeOptions, Outbox, OutboxOptions, RetryOptions};

use super::EVENT;
use crate::process::say;

/// What a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An outbox.
    Outbox,
    /// A relay that holds its rows.
    Held,
    /// A relay that keeps its rows locked.
    Locked,
}

pub(super) const KIND: &str = "SENDOFF_TEST_KIND";
/// Makes handlers wait for a line on standard input.
pub(super) const WAITS: &str = "SENDOFF_TEST_HANDLERS_WAIT";

/// How long holds last, in milliseconds, where the usual time is too long.
pub(super) const HOLD_MILLIS: &str = "SENDOFF_TEST_HOLD_MILLIS";

/// Of a hundred runs so many fail.
pub(super) const FAILS: &str = "SENDOFF_TEST_FAILS";

/// What a node says of settlements that came too late, before how many.
pub(super) const FENCED: &str = "fenced";

/// What an event asks of the handlers of a node.
pub(super) const KILLER: &str = "killer";
pub(super) const SLOW: &str = "slow";
/// Fails most of the time, where some do.
pub(super) const STUBBORN: &str = "stubborn";

/// Short enough to run out within a test, and long enough for a busy machine.
pub(super) const HOLD: Duration = Duration::from_secs(4);
pub(super) const POLL: Duration = Duration::from_millis(100);

impl Kind {
    /// What this process is to be; none in a process that is no node.
    pub fn of_this_process() -> Option<Self> {
        let name = env::var(KIND).ok()?;
        [Self::Outbox, Self::Held, Self::Locked].into_iter().find(|kind| kind.name() == name)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Outbox => "outbox",
            Self::Held => "held",
            Self::Locked => "locked",
        }
    }
}

fn hold() -> Duration {
    let millis = env::var(HOLD_MILLIS).ok().and_then(|millis| millis.parse().ok());
    millis.map_or(HOLD, Duration::from_millis)
}

pub(super) fn outbox_options() -> OutboxOptions {
    OutboxOptions {
        hold: hold(),
        hot_grace: hold(),
        // The longest that is allowed: a claim that is given up, and carried out all the same, costs
        // its rows an attempt.
        node: NodeOptions { store_timeout: Some(hold() / 2), ..NodeOptions::default() },
        retry: RetryOptions { max_attempts: 3, ..RetryOptions::default() },
        poll_interval: POLL,
        poll_batch: 20,
        ..OutboxOptions::default()
    }
}

pub(super) fn relay_options(mode: ClaimMode) -> RelayOptions {
    RelayOptions {
        mode,
        batch: 10,
        workers: 2,
        hold: hold(),
        node: NodeOptions { store_timeout: Some(hold() / 2), ..NodeOptions::default() },
        retry: RetryOptions { max_attempts: 3, ..RetryOptions::default() },
        poll_interval: POLL,
        ..RelayOptions::default()
    }
}

/// Works as a node of this kind and says what its handlers do, until its process is killed.
pub async fn play(kind: Kind, store: impl RelayStore) {
    let waits = env::var_os(WAITS).is_some();
    let fails = env::var(FAILS).ok().and_then(|percent| percent.parse().ok()).unwrap_or(0);
    let handler = move |delivery: Delivery| handle(delivery, waits, fails, say);
    let metrics = Arc::new(Fenced);
    let mode = match kind {
        Kind::Outbox => {
            let builder = Outbox::builder(store).options(outbox_options()).metrics(metrics);
            let builder = builder.on(EVENT, handler);
            // Before anything is begun: whoever waits for it listens to the rest.
            say("ready");
            let _outbox = builder.start().await.expect("a valid configuration");
            return std::future::pending().await;
        }
        Kind::Held => ClaimMode::Held,
        Kind::Locked => ClaimMode::Locked,
    };
    let builder = Relay::builder(store).options(relay_options(mode)).metrics(metrics);
    let relay = builder.build(handler);
    say("ready");
    relay.expect("a valid configuration").run(std::future::pending()).await;
}

/// Says what it settled too late.
struct Fenced;

impl Metrics for Fenced {
    fn fenced(&self, count: u64) {
        say(&format!("{FENCED} {count}"));
    }
}

/// When something is said: pipes are heard in any order.
pub(super) fn at() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_micros())
}

/// Does what the event asks for, and tells when it begins and how it ends.
pub(super) async fn handle(
    delivery: Delivery,
    waits: bool,
    fails: u8,
    tell: impl Fn(&str),
) -> HandlerResult {
    let id = delivery.id();
    tell(&format!("began {id} {} {}", delivery.attempt, at()));
    if waits {
        tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new())).await??;
    }
    let asked = delivery.read_json::<String>();
    match asked.as_deref() {
        Ok(KILLER) => std::process::abort(),
        // Longer than a hold that nobody extends.
        Ok(SLOW) => tokio::time::sleep(HOLD * 2).await,
        _ => {}
    }
    // Some time to be stopped in.
    tokio::time::sleep(Duration::from_millis(u64::from(id.as_bytes()[15]) / 16)).await;
    let stubborn = asked.is_ok_and(|asked| asked == STUBBORN);
    if fastrand::u8(..100) < if stubborn { fails.saturating_mul(16) } else { fails } {
        tell(&format!("failed {id} {}", at()));
        return Err(Failure::retry("it fails now and then"));
    }
    tell(&format!("ended {id} {}", at()));
    Ok(())
}
