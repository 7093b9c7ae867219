//! The batch relay where its sessions are taken away.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{Delivery, Event, Status};
use sendoff_engine::Counters;
use sendoff_engine::relay::{ClaimMode, Relay, RelayOptions};
use sendoff_engine::store::InspectStore;
use sendoff_postgres::PostgresStore;
use sendoff_testkit::history::{Expectations, Fault, FaultKind, History, check};
use sendoff_testkit::wait::within;

use crate::place::{Place, due, write};

const PLENTY: Duration = Duration::from_secs(60);

/// Holds L1: sessions that are ended under its hands cost a relay time and duplicates, never an
/// event or a worker.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_relay_whose_sessions_are_ended_goes_on() {
    for mode in [ClaimMode::Held, ClaimMode::Locked] {
        let place = Place::new();
        let history = History::new();
        let and = if place.url.contains('?') { '&' } else { '?' };
        let url = format!("{}{and}application_name={}", place.url, place.schema);
        let store = PostgresStore::connect_with(&url, place.options()).await.unwrap();
        store.migrate().await.unwrap();
        let (looking, mut client) = (place.store().await, place.client().await);
        let options = RelayOptions {
            mode,
            batch: 10,
            workers: 3,
            poll_interval: Duration::from_millis(50),
            hold: Duration::from_secs(2),
            ..RelayOptions::default()
        };
        let (counters, log) = (Arc::new(Counters::default()), history.clone());
        let handler = move |delivery: Delivery| {
            let run = log.delivery_started("relay", &delivery);
            async move {
                tokio::time::sleep(Duration::from_millis(1)).await;
                run.finished(true);
                Ok(())
            }
        };
        let relay = Relay::builder(store).options(options).metrics(counters.clone());
        let relay = relay.build(handler).unwrap();
        let mut written = Vec::new();
        let story = async {
            for _ in 0..6 {
                let rows: Vec<_> = (0..60).map(|n| due(Event::json("t", &n).unwrap())).collect();
                write(&looking, &mut client, &rows).await;
                rows.iter().for_each(|row| history.committed(&row.event));
                written.extend(rows.iter().map(|row| row.event.id()));
                let before = counters.values().processed;
                within(PLENTY, "work", async || counters.values().processed > before).await;
                history.fault(Fault::everywhere(FaultKind::Crash));
                let end = "select count(pg_terminate_backend(pid)) from pg_stat_activity
                            where application_name = '";
                place.number(&format!("{end}{}'", place.schema)).await;
                history.fault(Fault::everywhere(FaultKind::Restart));
            }
            let over = async || looking.counts().await.unwrap().pending() == 0;
            within(PLENTY, "the end of all", over).await;
        };
        relay.run(story).await;
        for id in written {
            let row = looking.find(id).await.unwrap().unwrap();
            assert_eq!(row.status, Status::Done);
            history.stands(id, row.status, row.attempts);
        }
        let verdict = check(&history, &Expectations { healed: true, ..Expectations::default() });
        // A handler that runs while its session is ended does not notice, so there may be duplicates.
        assert_eq!((verdict.written, verdict.delivered), (360, 360), "{mode:?}: {verdict}");
        assert_eq!((verdict.lost, verdict.phantoms), (0, 0), "{mode:?}: {verdict}");
    }
}
