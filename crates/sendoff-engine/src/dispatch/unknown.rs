//! Kinds of events that nobody here handles: who does, and when they are looked at again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use tokio::time::Instant;

use crate::lock::lock;
use crate::store::{ANY, EventKind};

/// So many kinds are left out of claims. Events of further ones are claimed and put off each time.
const KINDS: usize = 1_000;

/// Bytes of both names. What is longer was not written by us, and is claimed and put off each time.
const NAMES: usize = 1_024;

/// What this node has no handler for. Claims leave out what another node handles; and for a while what nobody
/// seems to, so that a node that has just come does not have to be quicker than one that has none.
#[derive(Debug, Default)]
pub(crate) struct Unknown(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// As far as it was seen lately, and until when it is left out.
    seen: BTreeMap<Kind, Instant>,
    /// What other nodes handle.
    elsewhere: Elsewhere,
}

/// The kind of aggregate, and the type.
pub(crate) type Kind = (String, String);

/// What other nodes handle, and this one does not.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Elsewhere {
    kinds: BTreeSet<Kind>,
    /// Whatever they are about.
    types: BTreeSet<String>,
    /// Whether somebody takes everything.
    all: bool,
}

/// What a claim leaves out because nobody here handles it.
#[derive(Debug, Default)]
pub(crate) struct Strange {
    pub(crate) kinds: Vec<Kind>,
    pub(crate) types: Vec<String>,
}

impl Elsewhere {
    /// What is registered, without what this node handles. Of a type that it handles some events of, others
    /// are told apart by their kind alone.
    pub(crate) fn of(registered: Vec<Kind>, mine: &[Kind]) -> Self {
        let mut elsewhere = Self::default();
        if mine
            .iter()
            .any(|(aggregate_type, event_type)| aggregate_type == ANY && event_type == ANY)
        {
            return elsewhere;
        }
        for (aggregate_type, event_type) in registered {
            let is_mine = |(aggregate, own): &Kind| {
                *own == event_type && (*aggregate == aggregate_type || aggregate == ANY)
            };
            let is_type = aggregate_type == ANY;
            if mine.iter().any(|kind| is_mine(kind) || (is_type && kind.1 == event_type)) {
                continue;
            }
            match (is_type, event_type == ANY) {
                (true, true) => elsewhere.all = true,
                (true, false) => {
                    elsewhere.types.insert(event_type);
                }
                _ => {
                    elsewhere.kinds.insert((aggregate_type, event_type));
                }
            }
        }
        elsewhere
    }

    fn has(&self, kind: EventKind<'_>) -> bool {
        let EventKind { aggregate_type, event_type } = kind;
        self.all
            || self.types.contains(event_type)
            || self.kinds.contains(&(aggregate_type.to_owned(), event_type.to_owned()))
    }
}

impl Unknown {
    /// There is no handler for events of this kind: they are left out until then. Answers whether it was
    /// known of.
    pub(crate) fn note(&self, kind: EventKind<'_>, until: Instant) -> bool {
        if kind.aggregate_type.len() + kind.event_type.len() > NAMES {
            return true;
        }
        let kinds = &mut lock(&self.0).seen;
        let kind = (kind.aggregate_type.to_owned(), kind.event_type.to_owned());
        if kinds.len() >= KINDS && !kinds.contains_key(&kind) {
            return true;
        }
        kinds.insert(kind, until).is_some()
    }

    /// From now on others handle this, and nothing else. Answers whether that is news.
    pub(crate) fn know(&self, elsewhere: Elsewhere) -> bool {
        let known = &mut lock(&self.0).elsewhere;
        let is_news = *known != elsewhere;
        *known = elsewhere;
        is_news
    }

    /// Whether another node handles events of this kind.
    pub(crate) fn is_elsewhere(&self, kind: EventKind<'_>) -> bool {
        lock(&self.0).elsewhere.has(kind)
    }

    /// What is left out now.
    pub(crate) fn strange(&self, now: Instant) -> Strange {
        let Known { seen, elsewhere } = &*lock(&self.0);
        let seen = seen.iter().filter(|(_, until)| now < **until).map(|(kind, _)| kind);
        let seen = seen.filter(|kind| !elsewhere.kinds.contains(kind));
        let kinds = seen.chain(&elsewhere.kinds).cloned().collect();
        Strange { kinds, types: elsewhere.types.iter().cloned().collect() }
    }
}

impl Strange {
    /// Kinds as a claim takes them.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = EventKind<'_>> {
        let kinds = self.kinds.iter();
        kinds.map(|(aggregate_type, event_type)| EventKind { aggregate_type, event_type })
    }

    /// Types as a claim takes them.
    pub(crate) fn types(&self) -> impl Iterator<Item = &str> {
        self.types.iter().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn kind<'a>(aggregate_type: &'a str, event_type: &'a str) -> EventKind<'a> {
        EventKind { aggregate_type, event_type }
    }

    fn kinds(kinds: &[(&str, &str)]) -> Vec<Kind> {
        kinds.iter().map(|(about, of)| ((*about).to_owned(), (*of).to_owned())).collect()
    }

    #[test]
    fn what_is_unknown_is_left_out_for_a_while_and_told_of_once() {
        let (unknown, now) = (Unknown::default(), Instant::now());
        let created = kind("User", "Created");
        let later = now + Duration::from_secs(60);
        assert!(!unknown.note(created, later));
        assert!(unknown.note(created, later), "known by now");
        assert_eq!(unknown.strange(now).kinds().collect::<Vec<_>>(), [created]);
        assert!(unknown.strange(later).kinds.is_empty(), "looked at again");
    }

    #[test]
    fn no_more_kinds_are_kept_than_may_be() {
        let (unknown, now) = (Unknown::default(), Instant::now());
        for number in 0..KINDS * 2 {
            unknown.note(kind("a", &number.to_string()), now + Duration::from_secs(1));
        }
        assert_eq!(unknown.strange(now).kinds.len(), KINDS);
    }

    #[test]
    fn what_others_handle_is_left_out_for_as_long_as_they_do() {
        let (unknown, now) = (Unknown::default(), Instant::now());
        let mine = kinds(&[("User", "Created"), ("User", "Renamed"), ("", "paid")]);
        let registered = kinds(&[
            ("User", "Created"),
            ("Order", "Created"),
            ("", "Renamed"),
            ("Bill", "paid"),
            ("", "sent"),
        ]);
        assert!(unknown.know(Elsewhere::of(registered.clone(), &mine)));
        assert!(!unknown.know(Elsewhere::of(registered, &mine)), "as before");
        let strange = unknown.strange(now);
        assert_eq!(strange.kinds().collect::<Vec<_>>(), [kind("Order", "Created")]);
        assert_eq!(strange.types().collect::<Vec<_>>(), ["sent"]);
        assert!(unknown.is_elsewhere(kind("whatever", "sent")));
        assert!(!unknown.is_elsewhere(kind("Cart", "Created")));
        unknown.know(Elsewhere::default());
        assert!(unknown.strange(now).kinds.is_empty() && !unknown.is_elsewhere(kind("a", "sent")));
        unknown.know(Elsewhere::of(kinds(&[("", "")]), &mine));
        assert!(unknown.is_elsewhere(kind("Cart", "Created")), "somebody takes everything");
        assert!(unknown.strange(now).types.is_empty(), "which a claim cannot leave out");
        let everything = kinds(&[("", "")]);
        assert_eq!(Elsewhere::of(kinds(&[("a", "b")]), &everything), Elsewhere::default());
    }
}
