//! What nodes in other processes say, as a history.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use sendoff_core::{Event, EventId};

use crate::history::{Fault, FaultKind, History, Position};
use crate::process::Node;

/// Keeps the history of nodes in other processes, from what they say.
#[derive(Debug, Clone, Default)]
pub(super) struct Witness {
    pub(super) history: History,
    events: Arc<Mutex<BTreeMap<EventId, Event>>>,
}

impl Witness {
    /// Knows of these before anybody can see them.
    pub(super) fn writes(&self, events: &[Event]) {
        let mut known = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        for event in events {
            self.history.unknown(event);
            known.insert(event.id(), event.clone());
        }
    }

    /// Listens to a node for as long as it lives.
    pub(super) fn hears(&self, name: String, node: &mut Node) {
        let witness = self.clone();
        let mut open: BTreeMap<EventId, Position> = BTreeMap::new();
        node.hear(move |line| {
            let mut words = line.split(' ');
            let (what, id) = (words.next(), words.next().and_then(|id| id.parse().ok()));
            match (what, id) {
                (Some("began"), Some(id)) => {
                    let attempt = words.next().and_then(|number| number.parse().ok());
                    let position = witness.began(&name, id, attempt.unwrap_or(1));
                    open.extend(position.map(|position| (id, position)));
                }
                (Some("ended"), Some(id)) => {
                    if let Some(started) = open.remove(&id) {
                        witness.history.run_finished(started, true);
                    }
                }
                _ => {}
            }
        });
    }

    fn began(&self, node: &str, id: EventId, attempt: u32) -> Option<Position> {
        let event = self.events.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned()?;
        Some(self.history.run_started(node, &event, attempt))
    }

    pub(super) fn fault(&self, node: &str, kind: FaultKind) {
        self.history.fault(Fault::on(node, kind));
    }
}
