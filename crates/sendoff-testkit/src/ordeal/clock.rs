//! A node whose wall clock is wrong.

use std::time::Duration;

use sendoff_core::Event;
use sendoff_engine::store::{Birth, InspectStore, NewRow};

use super::node::{KIND, SLOW};
use super::witness::Witness;
use super::{EVENT, Kind, OrdealHarness};
use crate::faketime;
use crate::history::{Entry, Expectations, check};
use crate::wait::within;

const PLENTY: Duration = Duration::from_secs(60);
const DELAY: Duration = Duration::from_secs(2);

/// Fault 14: the wall clock of one node is an hour ahead or behind. What it is in work with nobody
/// takes from it, and what is delayed comes neither sooner nor later.
pub async fn a_node_whose_clock_is_off_changes_nothing(harness: &impl OrdealHarness, kind: Kind) {
    let store = harness.store().await;
    for off in ["+1h", "-1h"] {
        let Some(runner) = faketime::runner(off) else { return };
        let runner: Vec<&str> = runner.iter().map(String::as_str).collect();
        let witness = Witness::default();
        let slow = Event::json(EVENT, SLOW).unwrap();
        let delayed = Event::builder(EVENT).delay(DELAY).json(&1).build().unwrap();
        let events = [slow, delayed];
        witness.writes(&events);
        let rows = events.clone().map(|event| NewRow { event, birth: Birth::Due });
        harness.write(&store, &rows).await;
        events.iter().for_each(|event| witness.history.committed(event));

        let mut node = harness.node(&runner, &[(KIND, kind.name())]);
        let pid = node.child.id();
        node.says("ready");
        witness.hears("off".to_owned(), &mut node);
        // Beside a node whose clock is right.
        let mut right = harness.node(&[], &[(KIND, kind.name())]);
        right.says("ready");
        witness.hears("right".to_owned(), &mut right);

        let over = async || store.counts().await.unwrap().pending() == 0;
        within(PLENTY, "both to be delivered", over).await;
        let told = || {
            let entries = witness.history.entries();
            entries.iter().filter(|entry| matches!(entry, Entry::Finished { .. })).count()
        };
        within(PLENTY, "both to be told of", async || told() >= 2).await;
        drop((node, right));
        faketime::forget(pid);
        for event in &events {
            let row = store.find(event.id()).await.unwrap().unwrap();
            witness.history.stands(event.id(), row.status, row.attempts);
        }
        let row = store.find(events[1].id()).await.unwrap().unwrap();
        let took = row.done_at.unwrap().since(row.created_at);
        assert!(took >= DELAY && took < DELAY + PLENTY / 2, "{took:?} with {off}");
        // No fault is logged: a second run would be one too many.
        let verdict = check(&witness.history, &Expectations { healed: true, ..Default::default() });
        assert!(verdict.is_clean() && verdict.runs == 2, "{off}: {verdict}");
    }
}
