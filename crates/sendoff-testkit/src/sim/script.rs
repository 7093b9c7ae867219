//! What happens in a simulated world, drawn from its seed.

use std::time::Duration;

use fastrand::Rng;
use sendoff_core::{Event, EventId, Failure, Timestamp};

/// The type that has no handler.
pub(super) const NOBODY: &str = "nobody.listens";
/// The types that have handlers; what a handler does with an event is written in its header.
pub(super) const TYPES: [&str; 3] = ["order.placed", "order.paid", "order.sent"];

/// What a writer writes more of than others do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mood {
    Plain,
    /// Events whose handlers hang.
    Sleepy,
    /// Events whose handlers hang and panic when they are dropped.
    Explosive,
}

/// What is going to happen to an event, decided when it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Succeeds, after a failure or two perhaps.
    Ordinary,
    /// Takes longer than a hold lasts.
    Slow,
    /// Never returns from its first run, and is timed out where there is a limit.
    Hangs,
    /// Like it, and panics when it is dropped.
    Bomb,
    /// Fails every time.
    Poison,
    /// Cannot be delivered, and its handler says so.
    Hopeless,
    /// There is no handler.
    Unheard,
    /// Kills the node it runs on.
    Killer,
}

impl Part {
    pub(super) fn draw(mood: Mood, random: &mut Rng) -> Self {
        match (mood, random.u8(..100)) {
            (Mood::Sleepy, 0..15) => Self::Hangs,
            (Mood::Explosive, 0..12) => Self::Bomb,
            (_, 0..81) => Self::Ordinary,
            (_, 81..88) => Self::Slow,
            (_, 88..90) => Self::Hangs,
            (_, 90..92) => Self::Bomb,
            (_, 92..95) => Self::Poison,
            (_, 95..97) => Self::Hopeless,
            _ => Self::Unheard,
        }
    }

    /// Whether it must end dead; every other must not.
    pub(super) fn is_doomed(self) -> bool {
        matches!(self, Self::Poison | Self::Hopeless | Self::Unheard | Self::Killer)
    }

    /// An event that plays this part.
    pub(super) fn event(self, key: Option<&str>, random: &mut Rng) -> Event {
        let event_type = match self {
            Self::Unheard => NOBODY,
            _ => TYPES[random.usize(..TYPES.len())],
        };
        let mut payload = vec![0; random.usize(..64)];
        random.fill(&mut payload);
        let delay = if random.u8(..12) == 0 { random.u64(1..10_000) } else { 0 };
        let id = EventId::from_bytes(random.u128(..).to_be_bytes());
        let builder = Event::builder(event_type);
        let builder = match key {
            Some(key) => builder.ordering_key(key),
            None => builder,
        };
        let built = builder
            .id(id)
            // The host's clock would make every run another world.
            .occurred_at(Timestamp::from_micros(0))
            .header("part", format!("{self:?}"))
            .delay(Duration::from_millis(delay))
            .bytes(payload)
            .build();
        built.expect("the script stays within the limits")
    }
}

/// What a handler does in one run.
#[derive(Debug)]
pub(super) struct Act {
    pub(super) takes: Duration,
    pub(super) ends: Ends,
}

#[derive(Debug)]
pub(super) enum Ends {
    Well,
    Badly(Failure),
    InPanic,
    Never,
    NeverAndPanics,
    WithItsNode,
}

/// What happens in run number `run` of an event: the same whenever the same world runs.
pub(super) fn act(part: Part, seed: u64, id: EventId, run: u32) -> Act {
    let low = u64::from_be_bytes(id.as_bytes()[8..].try_into().unwrap_or_default());
    let mut random = Rng::with_seed(seed ^ low ^ u64::from(run) << 40);
    let short = Duration::from_millis(random.u64(..40));
    let act = |ends| Act { takes: short, ends };
    match part {
        Part::Poison => act(Ends::Badly(Failure::retry("poison"))),
        Part::Hopeless => act(Ends::Badly(Failure::dead("hopeless"))),
        Part::Killer => act(Ends::WithItsNode),
        Part::Hangs if run == 1 => act(Ends::Never),
        Part::Bomb if run == 1 => act(Ends::NeverAndPanics),
        Part::Hangs | Part::Bomb => act(Ends::Well),
        Part::Slow => {
            Act { takes: Duration::from_millis(random.u64(4_000..40_000)), ends: Ends::Well }
        }
        // From the fourth run on it succeeds, or bad luck could look like a lost event.
        Part::Ordinary | Part::Unheard => match random.u8(..100) {
            0..8 if run < 4 => act(Ends::Badly(Failure::retry("bad luck"))),
            8..12 if run < 4 => {
                act(Ends::Badly(Failure::unavailable(Duration::from_secs(2), "target down")))
            }
            12..14 if run < 4 => act(Ends::InPanic),
            _ => act(Ends::Well),
        },
    }
}
