//! What becomes of a listed key that is due: taken, looked at later, or taken off the list.

use std::time::Duration;

use crate::timestamp::Timestamp;

/// What the entry of a key says, before it is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyEntry {
    /// When it moved last.
    pub since: Timestamp,
    /// How many events its last holder may have had in work.
    pub run: u32,
    /// So many events go alone: a holder vanished with more than one, and nobody knows whose fault it was.
    pub careful: u32,
    /// Holders in a row who vanished with a single event.
    pub losses: u32,
    /// Whether somebody else held it last, and vanished.
    pub lost: bool,
}

/// The first live event of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    /// There is none.
    None,
    /// It is in line.
    InLine,
    /// It is in line, and of a kind that this node leaves out.
    LeftOut,
    /// It is held by itself until then: somebody delivers it from memory.
    Held(Timestamp),
    /// It is due by itself then: delayed, retrying, or not put in line yet.
    Due(Timestamp),
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakeTerms {
    /// The most events of one key at once.
    pub run: u32,
    /// Whether nothing but suspects is taken; else nothing but the others.
    pub suspects: bool,
    /// Whether as many were due as were asked for: there may be more behind them.
    pub full: bool,
}

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Held from now on.
    Take {
        /// The most events to run with this hold.
        run: u32,
        /// What its entry says of the next ones.
        careful: u32,
        /// What its entry says of losses.
        losses: u32,
        /// Whether its first event was lost, and is counted as such: it was alone.
        blame: bool,
    },
    /// Free, and looked at again then.
    Later {
        /// When.
        at: Timestamp,
        /// What its entry says of the next ones.
        careful: u32,
    },
    /// Left as it is, for others who may take it now. One that is [`LeftOut`](Head::LeftOut) never waits for
    /// that: whoever cannot deliver it would keep it from those who can.
    Left {
        /// Whether it goes behind all others that are due, so that those are looked at next.
        last: bool,
    },
    /// Taken off the list: it has no live event.
    Gone,
}

/// A head that cannot be taken is looked at again after half of the time for which its key has not moved:
/// soon where it moves, seldom where it stands, and within these bounds.
const SOON: Duration = Duration::from_millis(100);
const SELDOM: Duration = Duration::from_secs(5);

impl KeyEntry {
    /// Whether it is a suspect: it was lost with a single event twice in a row.
    pub fn is_suspect(&self) -> bool {
        self.lost_alone() >= crate::limits::SUSPECT_LOSSES
    }

    fn lost_one(&self) -> bool {
        self.lost && self.run == 1
    }

    fn lost_alone(&self) -> u32 {
        self.losses.saturating_add(u32::from(self.lost_one()))
    }
}

/// What becomes of a listed key that is due, not parked and locked by whoever asks. Its head was read after
/// the lock was taken.
pub fn look(entry: &KeyEntry, head: Head, now: Timestamp, terms: TakeTerms) -> Look {
    let careful = if entry.lost && entry.run > 1 { entry.run } else { entry.careful };
    let waits = || (now.since(entry.since) / 2).clamp(SOON, SELDOM);
    match head {
        Head::None => Look::Gone,
        Head::InLine => {
            let alone = careful > 0 || entry.lost_alone() > 0;
            Look::Take {
                run: if alone { 1 } else { terms.run.max(1) },
                careful: careful.saturating_sub(1),
                losses: entry.lost_alone(),
                blame: entry.lost_one(),
            }
        }
        Head::LeftOut => Look::Left { last: terms.full },
        Head::Due(at) if at > now => Look::Later { at, careful },
        Head::Held(until) if until > now => {
            Look::Later { at: until.min(now.saturating_add(waits())), careful }
        }
        // The next claim puts it in line; where somebody has it locked, only a later one.
        Head::Held(_) | Head::Due(_) => Look::Later { at: now.saturating_add(waits()), careful },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: TakeTerms = TakeTerms { run: 200, suspects: false, full: false };
    const NOW: Timestamp = Timestamp::from_micros(1_000_000_000);
    const ENTRY: KeyEntry = KeyEntry { since: NOW, run: 0, careful: 0, losses: 0, lost: false };

    fn at(look: Look) -> Duration {
        match look {
            Look::Later { at, .. } => at.since(NOW),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_key_is_taken_with_a_whole_run_unless_its_holder_vanished() {
        let taken = look(&ENTRY, Head::InLine, NOW, TERMS);
        assert_eq!(taken, Look::Take { run: 200, careful: 0, losses: 0, blame: false });
        assert_eq!(look(&ENTRY, Head::None, NOW, TERMS), Look::Gone);
    }

    /// Holds O3: neighbours of an event that kills its process are never blamed.
    #[test]
    fn a_run_that_was_lost_is_gone_through_one_by_one_and_blames_nobody() {
        let lost = KeyEntry { run: 3, lost: true, ..ENTRY };
        let taken = look(&lost, Head::InLine, NOW, TERMS);
        assert_eq!(taken, Look::Take { run: 1, careful: 2, losses: 0, blame: false });
        let second = KeyEntry { run: 1, careful: 2, ..ENTRY };
        let taken = look(&second, Head::InLine, NOW, TERMS);
        assert_eq!(taken, Look::Take { run: 1, careful: 1, losses: 0, blame: false });
        let over = KeyEntry { run: 1, careful: 0, ..ENTRY };
        assert!(matches!(look(&over, Head::InLine, NOW, TERMS), Look::Take { run: 200, .. }));
    }

    #[test]
    fn an_event_that_was_lost_alone_is_blamed_and_a_suspect_the_second_time() {
        let once = KeyEntry { run: 1, lost: true, ..ENTRY };
        let taken = look(&once, Head::InLine, NOW, TERMS);
        assert_eq!(taken, Look::Take { run: 1, careful: 0, losses: 1, blame: true });
        assert!(!once.is_suspect());
        assert!(KeyEntry { losses: 1, ..once }.is_suspect());
        assert!(!KeyEntry { losses: 1, run: 5, ..once }.is_suspect(), "nobody is blamed for that");
    }

    #[test]
    fn a_head_that_cannot_be_taken_is_looked_at_less_and_less_often() {
        let held = |until, idle: u64| {
            let since = NOW.saturating_sub(Duration::from_millis(idle));
            at(look(&KeyEntry { since, ..ENTRY }, Head::Held(until), NOW, TERMS)).as_millis()
        };
        let far = NOW.saturating_add(Duration::from_secs(60));
        assert_eq!([held(far, 0), held(far, 2_000), held(far, 60_000)], [100, 1_000, 5_000]);
        assert_eq!(held(NOW.saturating_add(Duration::from_millis(7)), 9_000), 7);
        let due = |due| at(look(&ENTRY, Head::Due(due), NOW, TERMS));
        assert_eq!(due(far), Duration::from_secs(60));
        assert_eq!(due(NOW), SOON);
        let since = NOW.saturating_sub(Duration::from_secs(60));
        for head in [Head::Due(NOW), Head::Held(since)] {
            assert_eq!(at(look(&KeyEntry { since, ..ENTRY }, head, NOW, TERMS)), SELDOM, "locked");
        }
    }

    #[test]
    fn a_head_that_is_left_out_stays_due_for_others() {
        let lost = KeyEntry { run: 3, lost: true, ..ENTRY };
        assert_eq!(look(&lost, Head::LeftOut, NOW, TERMS), Look::Left { last: false });
        let full = TakeTerms { full: true, ..TERMS };
        assert_eq!(look(&ENTRY, Head::LeftOut, NOW, full), Look::Left { last: true });
    }
}
