//! How far a node that is in the list can be believed in.

use std::time::Duration;

/// How sure it is that a node works, the surest last. The list of nodes does not say: one that died a
/// moment ago is in it until its lease has run out, and has nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It came and was not heard of again, has missed two renewals, or left a seat to nobody that it
    /// should have taken.
    Doubtful,
    /// It has renewed its lease since it came, and lately.
    Heard,
    /// The same, for as long as its death may go unnoticed.
    Steady,
}

impl Standing {
    /// What is known of a node that was heard of last so long after it came, and so long ago.
    pub fn of(lived: Duration, silent: Duration, renew: Duration, lease: Duration) -> Self {
        if silent >= renew * 2 || lived < renew / 2 {
            Self::Doubtful
        } else if lived < lease {
            Self::Heard
        } else {
            Self::Steady
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_believed_in_when_it_was_heard_of_for_a_lease_and_lately() {
        let ms = Duration::from_millis;
        let standing = |lived, silent| Standing::of(ms(lived), ms(silent), ms(500), ms(10_000));
        assert_eq!(standing(0, 0), Standing::Doubtful, "it came");
        assert_eq!(standing(500, 0), Standing::Heard);
        assert_eq!(standing(9_999, 999), Standing::Heard);
        assert_eq!(standing(10_000, 999), Standing::Steady);
        assert_eq!(standing(100_000, 1_000), Standing::Doubtful, "two renewals are missing");
    }
}
