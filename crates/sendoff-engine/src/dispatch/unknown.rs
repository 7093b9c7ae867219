//! Kinds of events that nobody here handles, and when they are looked at again.

use std::collections::BTreeMap;
use std::sync::Mutex;

use tokio::time::Instant;

use crate::lock::lock;
use crate::store::EventKind;

/// So many kinds are left out of claims. Events of further ones are claimed and put off each time.
const KINDS: usize = 1_000;

/// Bytes of both names. What is longer was not written by us, and is claimed and put off each time.
const NAMES: usize = 1_024;

/// What this node has no handler for, as far as it was seen lately. Claims leave it out for a while: whoever
/// has a handler takes it, and does not have to be quicker than a node that has none.
#[derive(Debug, Default)]
pub(crate) struct Unknown(Mutex<BTreeMap<Kind, Instant>>);

/// The kind of aggregate, and the type.
pub(crate) type Kind = (String, String);

impl Unknown {
    /// There is no handler for events of this kind: they are left out until then. Answers whether it was
    /// known of.
    pub(crate) fn note(&self, kind: EventKind<'_>, until: Instant) -> bool {
        if kind.aggregate_type.len() + kind.event_type.len() > NAMES {
            return true;
        }
        let mut kinds = lock(&self.0);
        let kind = (kind.aggregate_type.to_owned(), kind.event_type.to_owned());
        if kinds.len() >= KINDS && !kinds.contains_key(&kind) {
            return true;
        }
        kinds.insert(kind, until).is_some()
    }

    /// What is left out now.
    pub(crate) fn kinds(&self, now: Instant) -> Vec<Kind> {
        let kinds = lock(&self.0);
        kinds.iter().filter(|(_, until)| now < **until).map(|(kind, _)| kind.clone()).collect()
    }
}

/// Kinds as a claim takes them.
pub(crate) fn of(kinds: &[Kind]) -> impl Iterator<Item = EventKind<'_>> {
    kinds.iter().map(|(aggregate_type, event_type)| EventKind { aggregate_type, event_type })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_unknown_is_left_out_for_a_while_and_told_of_once() {
        let (unknown, now) = (Unknown::default(), Instant::now());
        let kind = EventKind { aggregate_type: "User", event_type: "Created" };
        let later = now + Duration::from_secs(60);
        assert!(!unknown.note(kind, later));
        assert!(unknown.note(kind, later), "known by now");
        assert_eq!(of(&unknown.kinds(now)).collect::<Vec<_>>(), [kind]);
        assert!(unknown.kinds(later).is_empty(), "looked at again");
    }

    #[test]
    fn no_more_kinds_are_kept_than_may_be() {
        let (unknown, now) = (Unknown::default(), Instant::now());
        for number in 0..KINDS * 2 {
            let event_type = &number.to_string();
            let kind = EventKind { aggregate_type: "a", event_type };
            unknown.note(kind, now + Duration::from_secs(1));
        }
        assert_eq!(unknown.kinds(now).len(), KINDS);
    }
}
