//! What becomes of a key when a node has worked off what it had of it.

use std::time::Duration;

/// What becomes of a key with a settlement of its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Held on: more of it is in work.
    HeldOn,
    /// Free, and due now. Parked instead, where one of its events is dead and that parks it.
    Free,
    /// Free, and due after so long.
    After(Duration),
    /// Every event that was seen of it is over: taken off the list, unless rows were shelved behind it.
    Exhausted,
}

/// How far a run of a key has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunSoFar {
    /// Whether some of its events are still in hand: in work, or waiting for those before them.
    pub in_hand: bool,
    /// Whether it was read whole: there was nothing live after it.
    pub whole: bool,
    /// Whether some of its events were let go without having run.
    pub cut: bool,
    /// How long its first unsettled event waits, if it failed.
    pub retry: Option<Duration>,
}

impl RunSoFar {
    /// What becomes of the key.
    pub fn ending(self) -> Ending {
        match self {
            Self { in_hand: true, .. } => Ending::HeldOn,
            Self { retry: Some(after), .. } => Ending::After(after),
            Self { whole: true, cut: false, .. } => Ending::Exhausted,
            _ => Ending::Free,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_free_when_nothing_of_it_is_in_hand_and_off_the_list_when_nothing_is_left() {
        let run = RunSoFar { whole: true, ..RunSoFar::default() };
        assert_eq!(run.ending(), Ending::Exhausted);
        assert_eq!(RunSoFar { in_hand: true, ..run }.ending(), Ending::HeldOn);
        assert_eq!(RunSoFar { whole: false, ..run }.ending(), Ending::Free, "there is more");
        assert_eq!(RunSoFar { cut: true, ..run }.ending(), Ending::Free, "some did not run");
        let second = Duration::from_secs(1);
        let failed = RunSoFar { retry: Some(second), cut: true, ..run };
        assert_eq!(failed.ending(), Ending::After(second));
    }
}
