//! Bytes and times, exactly as they were.

use mysql_async::prelude::Queryable;
use sendoff_core::{Event, Timestamp, report};
use sendoff_engine::capture::{Begin, Commit, CommitError, WriteError};
use sendoff_engine::store::InspectStore;
use sendoff_mysql::{MysqlOptions, Payloads};
use sendoff_testkit::hostile;

use crate::place::{MARIADB, MYSQL, Place, due, event, write};
use crate::thorny::{all_rows, check};

/// Holds E6 and E10.
#[tokio::test]
async fn every_value_comes_back_as_it_was() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        let rows = all_rows();
        let born = write(&store, &mut place.conn().await, &rows).await;
        check(&store, &rows, &born).await;
    }
}

#[tokio::test]
async fn a_time_outside_the_calendar_is_refused_before_any_sql() {
    let place = Place::new().await;
    let store = place.store().await;
    let mut conn = place.conn().await;
    for micros in [i64::MIN, -30_610_224_000_000_001, 253_402_300_800_000_000, i64::MAX] {
        let time = Timestamp::from_micros(micros);
        let row = due(Event::builder("t").occurred_at(time).json(&1).build().unwrap());
        let tx = store.begin(&mut conn).await.unwrap();
        let error = store.commit(tx, &[row]).await.unwrap_err();
        assert!(report(&error).contains("1000 to 9999"), "{}", report(&error));
    }
    assert_eq!(place.rows().await, 0);
}

/// Holds E9: where the table takes JSON only it says so, and still keeps the very bytes.
#[tokio::test]
async fn a_table_of_json_keeps_the_bytes_and_refuses_what_is_none() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let options = MysqlOptions { payloads: Payloads::Json, ..MysqlOptions::default() };
        let store = place.store_with(options).await;
        let mut conn = place.conn().await;
        let json = "{ \"b\":1, \"a\": 1.50, \"a\":2 }";
        let row = due(Event::json_text("t", json).unwrap());
        write(&store, &mut conn, std::slice::from_ref(&row)).await;
        let found = store.find(row.event.id()).await.unwrap().unwrap();
        assert_eq!(&found.event.payload()[..], json.as_bytes());
        for bytes in [&b"{"[..], b"\xff\xfe", b""] {
            let event = Event::builder("t").bytes(bytes.to_vec()).build().unwrap();
            let tx = store.begin(&mut conn).await.unwrap();
            let error = store.commit(tx, &[due(event)]).await.unwrap_err();
            assert!(matches!(error, CommitError::Refused(WriteError::Driver(_))), "{error:?}");
            assert!(report(&error).contains("must be JSON"), "{}", report(&error));
        }
        assert_eq!(place.rows().await, 1);
    }
}

/// Holds P3 and fault 29: a row that is no event is DEAD, and the others go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_cannot_be_decoded_dies_alone() {
    let place = Place::new().await;
    let store = place.store().await;
    let mut conn = place.conn().await;
    let rows: Vec<_> = (0..5).map(|_| due(event())).collect();
    write(&store, &mut conn, &rows).await;
    for (at, set) in
        ["headers = '[1, 2]'", "event_type = ''", "headers = '{\"a\": 1}'"].into_iter().enumerate()
    {
        let id = rows[at].event.id().to_string().replace('-', "");
        place.run(&format!("update outbox_event set {set} where event_id = unhex('{id}')")).await;
    }
    hostile::rows_that_cannot_be_decoded_die_alone(&store, 3).await;
}

/// Holds E7: names compare exactly, down to case, accents and spaces at their end.
#[tokio::test]
async fn names_compare_exactly() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        let names = ["Order", "order", "órder", "order "];
        let rows = names.map(|name| due(Event::json_text(name, "1").unwrap()));
        let mut conn = place.conn().await;
        write(&store, &mut conn, &rows).await;
        let distinct = "select count(distinct event_type) from outbox_event";
        let count: i64 = conn.query_first(distinct).await.unwrap().unwrap();
        assert_eq!(count, 4);
    }
}
