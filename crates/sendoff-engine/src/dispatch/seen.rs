//! Kinds of events that came to a handler by another way than their kind, so that claims can leave them out.

use std::collections::HashMap;
use std::sync::Mutex;

use super::handlers::Route;
use super::unknown::Kind;
use crate::lock::lock;
use crate::store::EventKind;

/// So many kinds are kept. While the handler of further ones has no room, nothing is claimed.
const KINDS: usize = 1_000;

/// Who got what, where its kind alone does not say so.
#[derive(Debug, Default)]
pub(super) struct Seen(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// By aggregate type, then by event type.
    routes: HashMap<String, HashMap<String, Vec<Route>>>,
    count: usize,
    /// Handlers that got more than was kept.
    beyond: Vec<Route>,
}

impl Seen {
    pub(super) fn note(&self, kind: EventKind<'_>, route: Route) {
        let EventKind { aggregate_type, event_type } = kind;
        let mut known = lock(&self.0);
        let of = known.routes.get_mut(aggregate_type).and_then(|of| of.get_mut(event_type));
        if let Some(routes) = of {
            if !routes.contains(&route) {
                routes.push(route);
            }
            return;
        }
        if known.count >= KINDS {
            if !known.beyond.contains(&route) {
                known.beyond.push(route);
            }
            return;
        }
        known.count += 1;
        let of = known.routes.entry(aggregate_type.to_owned()).or_default();
        of.insert(event_type.to_owned(), vec![route]);
    }

    /// What one of these handlers got.
    pub(super) fn of(&self, routes: &[Route]) -> Vec<Kind> {
        let is_meant = |known: &[Route]| known.iter().any(|route| routes.contains(route));
        let known = lock(&self.0);
        let pairs = known.routes.iter().flat_map(|(about, of)| {
            of.iter().map(move |(event_type, routes)| (about, event_type, routes))
        });
        let meant = pairs.filter(|(.., routes)| is_meant(routes));
        let mut kinds: Vec<_> =
            meant.map(|(about, event_type, _)| (about.clone(), event_type.clone())).collect();
        // A claim is the same text each time.
        kinds.sort();
        kinds
    }

    /// Whether one of these got more than was kept.
    pub(super) fn has_too_many(&self, routes: &[Route]) -> bool {
        let known = lock(&self.0);
        known.beyond.iter().any(|route| routes.contains(route))
    }

    /// A handler is gone.
    pub(super) fn forget(&self, route: Route) {
        let mut known = lock(&self.0);
        for of in known.routes.values_mut() {
            of.values_mut().for_each(|routes| routes.retain(|known| *known != route));
            of.retain(|_, routes| !routes.is_empty());
        }
        known.count = known.routes.values().map(HashMap::len).sum();
        known.beyond.retain(|known| *known != route);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind<'a>(event_type: &'a str) -> EventKind<'a> {
        EventKind { aggregate_type: "User", event_type }
    }

    #[test]
    fn what_came_to_a_handler_is_known_until_it_is_gone() {
        let (seen, first, second) = (Seen::default(), Route::of_number(1), Route::of_number(2));
        for route in [first, second, first] {
            seen.note(kind("shared"), route);
        }
        seen.note(kind("own"), second);
        let user = |of: &str| ("User".to_owned(), of.to_owned());
        assert_eq!(seen.of(&[first]), [user("shared")]);
        assert_eq!(seen.of(&[second]), [user("own"), user("shared")]);
        seen.forget(second);
        assert_eq!((seen.of(&[second]), seen.of(&[first])), (vec![], vec![user("shared")]));
    }

    #[test]
    fn whoever_gets_more_kinds_than_are_kept_is_known() {
        let (seen, first, second) = (Seen::default(), Route::of_number(1), Route::of_number(2));
        seen.note(kind("few"), first);
        for number in 0..KINDS {
            seen.note(kind(&number.to_string()), second);
        }
        assert_eq!(seen.of(&[first, second]).len(), KINDS);
        assert!(seen.has_too_many(&[first, second]) && !seen.has_too_many(&[first]));
        seen.forget(second);
        assert!(!seen.has_too_many(&[second]));
    }
}
