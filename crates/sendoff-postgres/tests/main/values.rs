//! Bytes and times, exactly as they were.

use std::time::Duration;

use sendoff_core::{Event, Timestamp};
use sendoff_engine::capture::{Commit, CommitError, WriteError};
use sendoff_engine::store::{
    ClaimStore, Cutoff, InspectStore, Outcome, Purge, RetainStore, SettleStore, Settlement,
    StoreError,
};
use sendoff_testkit::hostile;
use sendoff_testkit::wait::eventually;

use crate::place::{Place, by, claim, due, event, hold_of, write};

/// Holds E6 and E10: from the table as from memory.
#[tokio::test]
async fn payloads_are_the_same_bytes() {
    let place = Place::new();
    let store = place.store().await;
    let mut client = place.client().await;
    let all: Vec<u8> = (0..=255).cycle().take(5_000).collect();
    let json = "{ \"a\":1, \"a\":2, \"n\":1e400, \"nul\":\"\\u0000\", \"s\":\"\\ud800\" }";
    let compressible = vec![b'x'; 100_000];
    let rows: Vec<_> = [&all[..], json.as_bytes(), b"", b"\0", b"\xff", b"\\x41", &compressible]
        .into_iter()
        .map(|bytes| due(Event::builder("t").bytes(bytes.to_vec()).build().unwrap()))
        .collect();
    write(&store, &mut client, &rows).await;
    let claimed = claim(&store, "a").await;
    assert_eq!(claimed.len(), rows.len());
    for (claimed, row) in claimed.iter().zip(&rows) {
        let event = claimed.event.as_ref().unwrap();
        assert_eq!(event.payload(), row.event.payload());
        assert_eq!(event.as_ref(), row.event.as_ref());
    }
}

#[tokio::test]
async fn times_at_the_ends_of_the_calendar_come_back_or_are_refused() {
    let place = Place::new();
    let store = place.store().await;
    let mut client = place.client().await;
    let at = |micros| {
        let time = Timestamp::from_micros(micros);
        due(Event::builder("t").occurred_at(time).json(&1).build().unwrap())
    };
    let micros = [
        0,
        -1,
        1,
        946_684_800_000_000,
        -210_866_803_200_000_000,
        i64::MAX - 1,
        253_402_300_800_000_000,
    ];
    let rows = micros.map(at);
    write(&store, &mut client, &rows).await;
    for (row, micros) in rows.iter().zip(micros) {
        let found = store.find(row.event.id()).await.unwrap().unwrap();
        assert_eq!(found.event.occurred_at().as_micros(), micros);
    }
    for micros in [-210_866_803_200_000_001, i64::MIN] {
        let tx = client.transaction().await.unwrap();
        let error = store.commit(tx, &[at(micros)]).await.unwrap_err();
        assert!(matches!(error, CommitError::Refused(WriteError::Driver(_))), "{error:?}");
    }
    assert_eq!(place.rows().await, rows.len() as i64);
}

/// Holds P3 and fault 29: a row that is no event is DEAD, and the others go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_cannot_be_decoded_dies_alone() {
    let place = Place::new();
    let store = place.store().await;
    let mut client = place.client().await;
    let rows: Vec<_> = (0..6).map(|_| due(event())).collect();
    write(&store, &mut client, &rows).await;
    let damage = |at: usize, set: &str| {
        format!("update outbox_event set {set} where event_id = '{}'", rows[at].event.id())
    };
    place.run(&damage(0, "headers = '[1, 2]'")).await;
    place.run(&damage(1, "occurred_at = 'infinity'")).await;
    place.run(&damage(2, "event_type = ''")).await;
    place.run(&damage(3, "headers = '{\"a\": 1}'")).await;
    hostile::rows_that_cannot_be_decoded_die_alone(&store, 4).await;
}

/// Due times are the server's, and independent of what the session calls them.
#[tokio::test]
async fn the_time_zone_of_the_writer_does_not_matter() {
    let place = Place::new();
    let store = place.store().await;
    let mut client = place.client().await;
    for zone in ["Asia/Kathmandu", "Pacific/Apia", "America/St_Johns"] {
        let settings = "set datestyle = 'SQL, DMY'; set intervalstyle = 'sql_standard';
                        set bytea_output = 'escape'; set search_path = ''";
        client.batch_execute(&format!("set timezone = '{zone}'; {settings}")).await.unwrap();
        let delay = Duration::from_secs(400 * 24 * 60 * 60);
        let late = Event::builder("t").delay(delay).json(&1).build().unwrap();
        let row = due(late);
        let born = write(&store, &mut client, &[row.clone(), due(event())]).await;
        let found = store.find(row.event.id()).await.unwrap().unwrap();
        assert_eq!(found.due_at.since(found.created_at), delay, "{zone}: across summer times");
        assert_eq!(found.created_at, born[0].created_at);
        assert_eq!(claim(&store, "a").await.len(), 1, "{zone}");
    }
}

/// A row is due when its statement ran, not when its transaction began.
#[tokio::test]
async fn a_long_transaction_writes_rows_of_its_statements_time() {
    let place = Place::new();
    let store = place.store().await;
    let mut client = place.client().await;
    let tx = client.transaction().await.unwrap();
    let began: std::time::SystemTime = tx.query_one("select now()", &[]).await.unwrap().get(0);
    let later = async || {
        let row = tx.query_one("select clock_timestamp() - now() > '50 ms'", &[]).await.unwrap();
        row.get(0)
    };
    eventually("some time to pass", later).await;
    let born = store.commit(tx, &[due(event())]).await.unwrap();
    assert!(born[0].created_at.since(Timestamp::from(began)) >= Duration::from_millis(50));
}

/// A delay set by hand, also one without end, and a row that is due since always.
#[tokio::test]
async fn infinite_due_times_are_understood() {
    let place = Place::new();
    let store = place.store().await;
    let rows = [due(event()), due(event())];
    write(&store, &mut place.client().await, &rows).await;
    let set = |at: usize, due_at: &str| {
        format!(
            "update outbox_event set due_at = '{due_at}' where event_id = '{}'",
            rows[at].event.id()
        )
    };
    place.run(&set(0, "infinity")).await;
    place.run(&set(1, "-infinity")).await;
    assert!(store.lateness().await.unwrap().overdue > Duration::from_secs(1));
    let claimed = claim(&store, "a").await;
    assert_eq!(claimed.len(), 1);
    assert_eq!(claimed[0].id, rows[1].event.id());
    let never = store.find(rows[0].event.id()).await.unwrap().unwrap();
    assert_eq!(never.due_at.as_micros(), i64::MAX);
    assert_eq!(store.rescue(Duration::from_secs(1)).await.unwrap(), 1, "the claim, not the delay");
}

/// Holds S3: retention asks the row, not only its age.
#[tokio::test]
async fn purging_keeps_up_and_touches_only_what_is_done() {
    let place = Place::new();
    let store = place.store().await;
    place
        .run(
            "insert into outbox_event (event_id, shard, event_type, payload, occurred_at, created_at,
                                       due_at, status, done_at)
             select gen_random_uuid(), 0, 't', '', now(), now(), now(), s,
                    case s when 1 then now() - interval '8 days' end
               from generate_series(1, 2500), unnest(array[0, 1, 2, 3]) s",
        )
        .await;
    let week = store.keeps().unwrap();
    let mut purged = Vec::new();
    let purge = Purge { cutoff: Cutoff::Age(week), limit: 1_000, dead: false };
    while purged.last() != Some(&0) {
        purged.push(store.purge(&purge).await.unwrap().done);
    }
    assert_eq!(purged, [1_000, 1_000, 500, 0]);
    let counts = store.counts().await.unwrap();
    assert_eq!((counts.new, counts.done, counts.retry, counts.dead), (2_500, 0, 2_500, 2_500));
    let claim = sendoff_engine::store::Claim { limit: 10, ..by("a") };
    assert_eq!(store.claim(&claim).await.unwrap().rows.len(), 10);
}

/// A database that cannot store every character refuses such an error by itself, and for good: it is
/// not taken for one that is unavailable.
#[tokio::test]
async fn an_error_text_that_the_database_cannot_encode_is_refused() {
    let place = Place::new();
    let name = format!("d_{}", place.schema);
    let admin = place.client().await;
    let create = format!(
        "create database {name} encoding 'LATIN1' lc_collate 'C' lc_ctype 'C' template template0"
    );
    admin.batch_execute(&create).await.unwrap();
    let (server, _) = place.url.rsplit_once('/').unwrap();
    let latin = Place::in_schema(format!("{server}/{name}"), place.schema.clone());
    let store = latin.store().await;
    write(&store, &mut latin.client().await, &[due(event())]).await;
    let held = hold_of(&claim(&store, "a").await[0]);
    let outcome = |error: &str| Outcome::dead(1, error.to_owned());
    let settle =
        async |error: &str| store.settle(&[Settlement { held, outcome: outcome(error) }]).await;
    let refused = settle("\u{2192} \u{2603}").await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    assert_eq!(settle("caf\u{e9}").await.unwrap().applied.len(), 1);
    store.close().await;
    drop(latin);
    admin.batch_execute(&format!("drop database {name} with (force)")).await.unwrap();
}
