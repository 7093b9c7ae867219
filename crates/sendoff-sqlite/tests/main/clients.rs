//! Programs in other languages, doing what the guide says.

use rusqlite::named_params;
use sendoff_core::Event;
use sendoff_engine::store::InspectStore;
use sendoff_sqlite::SqliteStore;
use sendoff_testkit::clients::{delivered, python};
use sendoff_testkit::guide::{block, blocks, statements};
use tempfile::TempDir;

const PAGE: &str = "other-languages.md";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_python_commits_is_delivered_and_what_it_rolls_back_is_not() {
    let folder = TempDir::new().unwrap();
    let store = SqliteStore::open(folder.path().join("shop.db")).await.unwrap();
    store.connect().unwrap().execute_batch("create table orders (id integer)").unwrap();
    std::fs::write(folder.path().join("emit.sql"), block(PAGE, "sql sqlite")).unwrap();
    let program = block(PAGE, "python sqlite");
    let rolled_back = "\ntry:\n    with connection:\n        \
                       emit(connection, 'order.placed', '1')\n        \
                       emit(connection, 'order.placed', 'no JSON')\n\
                       except ValueError:\n    pass\nelse:\n    raise SystemExit('not refused')\n";
    python("sqlite3", "python3", folder.path(), &format!("{program}{rolled_back}"));
    let expected = [
        ("order.placed".to_owned(), "{\"id\": 4711, \"who\": \"Zoë\"}".as_bytes().to_vec()),
        ("scan.done".to_owned(), (0..=255).collect()),
    ];
    assert_eq!(delivered(store, 2).await, expected);
}

/// What the statement of the guide inserts is what the library would have written, or nothing.
#[tokio::test]
async fn the_statement_of_the_guide_has_the_limits_of_every_writer() {
    let folder = TempDir::new().unwrap();
    let store = SqliteStore::open(folder.path().join("shop.db")).await.unwrap();
    let conn = store.connect().unwrap();
    let text = block(PAGE, "sql sqlite");
    let emit =
        |id: [u8; 16], event_type: &str, payload: &[u8], headers: Option<&str>, delay: i64| {
            let params = named_params! {
                ":event_id": id, ":event_type": event_type, ":aggregate_type": "order",
                ":aggregate_id": "4711", ":tenant_id": None::<&str>, ":ordering_key": None::<&str>,
                ":shard": id[15] % 64, ":content_type": None::<&str>, ":headers": headers,
                ":payload": payload, ":delay_seconds": delay,
            };
            conn.execute(&text, params).unwrap()
        };
    let id = [7; 16];
    assert_eq!(emit(id, "order.placed", b"{\"a\":  1}", Some("{\"source\":\"shop\"}"), 90), 1);
    let row = store.find(sendoff_core::EventId::from_bytes(id)).await.unwrap().unwrap();
    let expected = Event::builder("order.placed")
        .id(sendoff_core::EventId::from_bytes(id))
        .aggregate("order", "4711")
        .header("source", "shop")
        .occurred_at(row.event.occurred_at())
        .json_text("{\"a\":  1}")
        .build()
        .unwrap();
    assert_eq!(row.event.as_ref(), expected.as_ref());
    assert_eq!(row.due_at.since(row.created_at).as_secs(), 90);
    let age = sendoff_core::Timestamp::now().as_micros() - row.created_at.as_micros();
    assert!(age.abs() < 60_000_000, "{age}");
    let long = "ä".repeat(129);
    for (event_type, payload, headers, delay) in [
        ("", &b"1"[..], None, 0),
        (&*long, b"1", None, 0),
        ("t", b"no JSON", None, 0),
        ("t", b"1", Some("[]"), 0),
        ("t", b"1", Some("{\"a\": 1}"), 0),
        ("t", b"1", None, -1),
        ("t", b"1", None, 315_360_001),
    ] {
        assert_eq!(
            emit([8; 16], event_type, payload, headers, delay),
            0,
            "{event_type} {headers:?}"
        );
    }
    assert_eq!(emit([8; 16], &long[..256], b"1", None, 0), 1);
}

/// What stands under `sql` alone is for every database.
#[tokio::test]
async fn statements_for_operators_run() {
    let folder = TempDir::new().unwrap();
    let store = SqliteStore::open(folder.path().join("shop.db")).await.unwrap();
    let conn = store.connect().unwrap();
    let pages = ["dead-letters.md", "operating.md", "order.md"];
    let blocks = pages.iter().flat_map(|page| blocks(page, "sql"));
    for statement in blocks.flat_map(|block| statements(&block)) {
        if let Err(error) =
            conn.prepare(&statement).and_then(|mut text| text.query([])?.next().map(drop))
        {
            panic!("{statement}: {error}");
        }
    }
}
