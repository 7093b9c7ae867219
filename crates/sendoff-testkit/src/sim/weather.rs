//! What the simulated network does to each statement.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;

/// What the network does to statements. Clones share one state.
#[derive(Debug, Clone)]
pub(super) struct Weather(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    random: Rng,
    /// How often, of a thousand, each misfortune happens.
    request_lost: u32,
    reply_lost: u32,
    carried_out_late: u32,
    carried_out_twice: u32,
    slow: u32,
    outage: bool,
}

/// What happens to one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is carried out and answered.
    Fine,
    /// It never arrives.
    RequestLost,
    /// It is carried out, and the answer never arrives.
    ReplyLost,
    /// The sender gives up first; it is carried out afterwards.
    Late(Duration),
    /// It is carried out twice, and the second answer arrives.
    Twice,
}

impl Weather {
    /// The weather of a world. Every fourth is calm: there, nothing at all may be delivered twice.
    pub(super) fn of(random: &mut Rng) -> Self {
        let stormy = random.u8(..4) > 0;
        let mut rate = |most: u32| if stormy { random.u32(..=most) } else { 0 };
        let mut state = State {
            request_lost: rate(60),
            reply_lost: rate(60),
            carried_out_late: rate(40),
            carried_out_twice: rate(30),
            slow: rate(60),
            outage: false,
            random: Rng::with_seed(0),
        };
        state.random = random.fork();
        Self(Arc::new(Mutex::new(state)))
    }

    pub(super) fn is_calm(&self) -> bool {
        self.with(|state| {
            state.request_lost + state.reply_lost + state.carried_out_late + state.carried_out_twice
                == 0
        })
    }

    /// From now on no statement arrives, or they do again.
    pub(super) fn set_outage(&self, outage: bool) {
        self.with(|state| state.outage = outage);
    }

    /// From now on every statement arrives, once and soon.
    pub(super) fn clear_up(&self) {
        self.with(|state| {
            state.request_lost = 0;
            state.reply_lost = 0;
            state.carried_out_late = 0;
            state.carried_out_twice = 0;
            state.slow = 0;
            state.outage = false;
        });
    }

    pub(super) fn fate(&self) -> Fate {
        self.with(|state| {
            if state.outage {
                return Fate::RequestLost;
            }
            let mut draw = state.random.u32(..1_000);
            let late = Fate::Late(Duration::from_millis(state.random.u64(1..8_000)));
            for (rate, fate) in [
                (state.request_lost, Fate::RequestLost),
                (state.reply_lost, Fate::ReplyLost),
                (state.carried_out_late, late),
                (state.carried_out_twice, Fate::Twice),
            ] {
                if draw < rate {
                    return fate;
                }
                draw -= rate;
            }
            Fate::Fine
        })
    }

    /// How long a message is under way.
    pub(super) fn latency(&self) -> Duration {
        self.with(|state| {
            let slow = state.random.u32(..1_000) < state.slow;
            Duration::from_micros(state.random.u64(50..if slow { 1_500_000 } else { 5_000 }))
        })
    }

    fn with<T>(&self, read: impl FnOnce(&mut State) -> T) -> T {
        read(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
