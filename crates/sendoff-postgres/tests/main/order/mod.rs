//! Order within a key, beyond the suite that every store passes: two sessions in each other's way, what is
//! locked, what an upgrade finds, what operators and cleanup do, and what it all costs.

mod cost;
mod look;
mod races;
mod upgrade;

use std::time::Duration;

use sendoff_core::order::Ending;
use sendoff_core::{Event, EventId};
use sendoff_engine::store::{
    Claimed, Except, HeldKey, KeyRun, KeyStore, Outcome, RunEnd, RunsWanted, SettledRuns, Suspects,
    TakeKeys, TakenKey, TakenKeys, WalkFrom,
};
use sendoff_postgres::PostgresStore;
use tokio_postgres::Client;

use crate::place::{Place, due, write};

const HOLD: Duration = Duration::from_secs(30);

/// An event of a key.
fn of(key: &str) -> Event {
    Event::builder("t").ordering_key(key).json(&1).build().unwrap()
}

/// Writes an event of each of these keys, in order.
async fn written(place: &Place, store: &PostgresStore, keys: &[&str]) -> Vec<EventId> {
    let rows: Vec<_> = keys.iter().map(|key| due(of(key))).collect();
    write(store, &mut place.client().await, &rows).await;
    rows.iter().map(|row| row.event.id()).collect()
}

fn taking(owner: &str) -> TakeKeys<'_> {
    TakeKeys {
        owner,
        limit: 100,
        run: 200,
        hold: HOLD,
        except: Except::NOTHING,
        suspects: Suspects::Skip,
        walk: Some(WalkFrom { after: 0, rows: 1_000 }),
    }
}

async fn take(store: &PostgresStore, owner: &str) -> TakenKeys {
    store.take_keys(&taking(owner)).await.unwrap()
}

/// The one key there is to take.
pub(crate) async fn take_one(store: &PostgresStore, owner: &str) -> TakenKey {
    let mut keys = take(store, owner).await.keys;
    assert_eq!(keys.len(), 1, "{keys:?}");
    keys.remove(0)
}

pub(crate) async fn run_of(store: &PostgresStore, key: &TakenKey) -> KeyRun {
    let keys = std::slice::from_ref(key);
    let mut runs = store.runs(&RunsWanted { keys, bytes: usize::MAX }).await.unwrap();
    assert_eq!(runs.len(), 1);
    runs.remove(0)
}

fn ids(rows: &[Claimed]) -> Vec<EventId> {
    rows.iter().map(|row| row.id).collect()
}

fn held(key: &TakenKey) -> HeldKey {
    HeldKey { key: key.key.clone(), token: key.token }
}

fn ends(key: &TakenKey, rows: Vec<(EventId, Outcome)>, ending: Ending) -> RunEnd {
    RunEnd { held: held(key), rows, ending }
}

fn done(ids: &[EventId]) -> Vec<(EventId, Outcome)> {
    ids.iter().map(|id| (*id, Outcome::Done)).collect()
}

async fn settle(store: &PostgresStore, owner: &str, end: RunEnd) -> SettledRuns {
    store.settle_runs(owner, &[end]).await.unwrap()
}

fn applied(settled: &SettledRuns) -> bool {
    !settled.applied.is_empty()
}

/// Makes every entry due.
async fn lapse(place: &Place) {
    place.run("update outbox_key set due_at = now() - interval '1 ms'").await;
}

async fn entries(place: &Place) -> i64 {
    place.number("select count(*) from outbox_key").await
}

/// A session of somebody else's, in a transaction that has done this.
async fn beside(place: &Place, sql: &str) -> Client {
    let client = place.client().await;
    let begin = format!("set search_path = {}; begin; {sql}", place.schema);
    client.batch_execute(&begin).await.unwrap();
    client
}
