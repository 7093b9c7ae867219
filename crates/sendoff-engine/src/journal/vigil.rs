//! Whether a tail sleeps until somebody rings, or stays awake.

use std::time::Duration;

use tokio::time::Instant;

/// Whoever is woken this soon has hardly slept.
const NAP: Duration = Duration::from_millis(20);
/// After so many naps in a row it stays awake.
const NAPS: u32 = 8;
/// Then it sleeps again once nothing came for so long.
const LINGER: Duration = Duration::from_millis(100);
/// How long it waits between two looks while it is awake.
pub(super) const AWAKE_PAUSE: Duration = Duration::from_millis(2);

/// A ring costs whoever appends: commits that ring wait for one another. So a tail that is woken again and
/// again is rung for no longer, and looks by itself until nothing comes for a while.
#[derive(Debug, Default)]
pub(super) struct Vigil {
    naps: u32,
    awake_until: Option<Instant>,
}

impl Vigil {
    /// It slept for so long, and was woken. Answers whether it stays awake from now on.
    pub(super) fn woken(&mut self, slept: Duration, now: Instant) -> bool {
        self.naps = if slept < NAP { self.naps + 1 } else { 0 };
        if self.naps < NAPS {
            return false;
        }
        self.naps = 0;
        self.awake_until = Some(now + LINGER);
        true
    }

    /// A look brought something: whoever is awake stays so.
    pub(super) fn brought(&mut self, now: Instant) {
        if let Some(until) = &mut self.awake_until {
            *until = now + LINGER;
        }
    }

    /// Whether it is awake.
    pub(super) fn is_awake(&mut self, now: Instant) -> bool {
        self.awake_until = self.awake_until.filter(|until| *until > now);
        self.awake_until.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds I7: what is rung for often is looked for instead.
    #[test]
    fn it_stays_awake_after_naps_in_a_row_and_sleeps_when_nothing_comes() {
        let (mut vigil, now) = (Vigil::default(), Instant::now());
        for _ in 1..NAPS {
            assert!(!vigil.woken(Duration::ZERO, now));
        }
        assert!(!vigil.woken(NAP, now), "it has slept");
        for _ in 1..NAPS {
            assert!(!vigil.woken(Duration::ZERO, now) && !vigil.is_awake(now));
        }
        assert!(vigil.woken(Duration::ZERO, now) && vigil.is_awake(now));
        let later = now + LINGER / 2;
        vigil.brought(later);
        assert!(vigil.is_awake(now + LINGER));
        assert!(!vigil.is_awake(later + LINGER));
        vigil.brought(later + LINGER);
        assert!(!vigil.is_awake(later + LINGER), "who sleeps is not woken by what a look brings");
    }
}
