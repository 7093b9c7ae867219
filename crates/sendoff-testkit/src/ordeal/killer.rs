use std::time::Duration;

use sendoff_core::{Event, Status};
use sendoff_engine::store::{Birth, InspectStore, NewRow};

use super::node::{HOLD_MILLIS, KILLER, KIND};
use super::{EVENT, Kind, OrdealHarness};
use crate::wait::within;

const PLENTY: Duration = Duration::from_secs(60);

/// Fault 12, for nodes that hold their rows: an event that aborts its process each time is dead after
/// its attempts, and no neighbour is. (In mode `Locked` nothing is written before a batch ends, so
/// that a crash is no attempt: L4.)
pub async fn an_event_that_aborts_its_process_ends_dead_alone(
    harness: &impl OrdealHarness,
    kind: Kind,
) {
    let store = harness.store().await;
    let killer = Event::json(EVENT, KILLER).unwrap();
    let neighbours: Vec<_> = (0..10).map(|n| Event::json(EVENT, &n).unwrap()).collect();
    let due = |event: &Event| NewRow { event: event.clone(), birth: Birth::Due };
    let rows: Vec<_> = [&killer].into_iter().chain(&neighbours).map(due).collect();
    harness.write(&store, &rows).await;

    let mut lives = 0;
    while store.counts().await.unwrap().pending() > 0 {
        lives += 1;
        assert!(lives <= 6, "a crash loop");
        let mut node = harness.node(&[], &[(KIND, kind.name()), (HOLD_MILLIS, "600")]);
        let over = async || {
            let ended = store.counts().await.unwrap().pending() == 0;
            ended || node.child.try_wait().unwrap().is_some()
        };
        within(PLENTY, "a crash, or the end of it", over).await;
    }
    let end = store.find(killer.id()).await.unwrap().unwrap();
    assert_eq!((end.status, end.attempts), (Status::Dead, 3), "it shows all its attempts");
    for neighbour in &neighbours {
        let row = store.find(neighbour.id()).await.unwrap().unwrap();
        assert_eq!(row.status, Status::Done, "{lives} lives");
    }
}
