//! Kinds of events that nobody here handles: who does, and when they are looked at again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use sendoff_core::Unroutable;
use tokio::time::Instant;

use crate::lock::lock;
use crate::store::{ANY, EventKind, REGISTERED};

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
    /// What other nodes handle; nothing before they were asked for the first time.
    elsewhere: Option<Elsewhere>,
}

/// How soon an event can be claimed again that had no handler.
pub(crate) fn deferred_for(unroutable: Unroutable) -> Duration {
    match unroutable {
        Unroutable::Defer { delay, .. } => delay,
        _ => Duration::ZERO,
    }
}

/// The kind of aggregate, and the type.
pub(crate) type Kind = (String, String);

/// What other nodes handle, and this one does not.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Elsewhere {
    kinds: BTreeSet<Kind>,
    /// Whatever they are about.
    types: BTreeSet<String>,
    /// The same of types that this node handles some events of: a claim cannot leave them out.
    partly: BTreeSet<String>,
    /// Whether somebody takes everything, or more than could be read.
    all: bool,
}

/// What a claim leaves out because nobody here handles it.
#[derive(Debug, Default)]
pub(crate) struct Strange {
    kinds: BTreeSet<Kind>,
    types: BTreeSet<String>,
}

impl Elsewhere {
    /// What is registered, without what this node handles. Of a type that it handles some events of, others
    /// are told apart by their kind alone.
    pub(crate) fn of(registered: Vec<Kind>, mine: &[Kind]) -> Self {
        let mut elsewhere = Self { all: registered.len() >= REGISTERED, ..Self::default() };
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
            if mine.iter().any(is_mine) {
                continue;
            }
            let is_type = aggregate_type == ANY;
            match (is_type, event_type == ANY) {
                (true, false) if mine.iter().any(|(_, own)| *own == event_type) => {
                    elsewhere.partly.insert(event_type);
                }
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
            || self.partly.contains(event_type)
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
        if kinds.len() >= KINDS {
            let now = Instant::now();
            kinds.retain(|_, until| *until > now);
        }
        if kinds.len() >= KINDS && !kinds.contains_key(&kind) {
            return true;
        }
        kinds.insert(kind, until).is_some()
    }

    /// This node has other handlers from now on: what it had none for is looked at again.
    pub(crate) fn look_again(&self) {
        lock(&self.0).seen.clear();
    }

    /// From now on others handle this, and nothing else. Answers whether that is news.
    pub(crate) fn know(&self, elsewhere: Elsewhere) -> bool {
        let known = &mut lock(&self.0).elsewhere;
        known.replace(elsewhere) != *known
    }

    /// Whether another node handles events of this kind, as far as is known.
    pub(crate) fn is_elsewhere(&self, kind: EventKind<'_>) -> bool {
        lock(&self.0).elsewhere.as_ref().is_some_and(|elsewhere| elsewhere.has(kind))
    }

    /// Whether it can be that another node does: who has heard of nobody yet does not know.
    pub(crate) fn may_be_elsewhere(&self, kind: EventKind<'_>) -> bool {
        lock(&self.0).elsewhere.as_ref().is_none_or(|elsewhere| elsewhere.has(kind))
    }

    /// What is left out now.
    pub(crate) fn strange(&self, now: Instant) -> Strange {
        let Known { seen, elsewhere } = &*lock(&self.0);
        let (kinds, types) = match elsewhere {
            Some(Elsewhere { kinds, types, .. }) => (kinds.clone(), types.clone()),
            None => Default::default(),
        };
        let seen = seen.iter().filter(|(_, until)| now < **until).map(|(kind, _)| kind.clone());
        Strange { kinds: kinds.into_iter().chain(seen).collect(), types }
    }
}

impl Strange {
    /// Kinds as a claim takes them.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = EventKind<'_>> {
        self.kinds.iter().map(EventKind::from)
    }

    /// Types as a claim takes them.
    pub(crate) fn types(&self) -> impl Iterator<Item = &str> {
        self.types.iter().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
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
        assert!(unknown.may_be_elsewhere(kind("a", "b")), "nobody was asked yet");
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
        assert!(
            unknown.is_elsewhere(kind("Order", "Renamed")),
            "of a type that is handled here too"
        );
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
        let many = vec![("a".to_owned(), "b".to_owned()); REGISTERED];
        unknown.know(Elsewhere::of(many, &mine));
        assert!(unknown.is_elsewhere(kind("x", "y")), "more than could be read");
        let everything = kinds(&[("", "")]);
        assert_eq!(Elsewhere::of(kinds(&[("a", "b")]), &everything), Elsewhere::default());
    }
}
