use futures_util::TryStreamExt;
use sendoff_core::journal::{Fact, Item, Position, Query, Recorded};
use sendoff_core::{Event, EventId, Timestamp, limits};
use sendoff_engine::journal::{AppendError, Conflict};
use tokio_postgres::IsolationLevel;

use super::{Log, fact, journal, position, tag, tagged};
use crate::place::Place;

async fn all(journal: &Log) -> Vec<Recorded> {
    journal.read(Query::all(), Position::START).try_collect().await.unwrap()
}

async fn types(journal: &Log, query: Query) -> Vec<String> {
    let found: Vec<_> = journal.read(query, Position::START).try_collect().await.unwrap();
    found.iter().map(|fact| fact.event().event_type().to_owned()).collect()
}

/// Holds J1 and J2: to the byte, with everything that was said.
#[tokio::test]
async fn facts_come_back_as_they_were_appended() {
    let place = Place::new();
    let journal = journal(&place).await;
    let first = Fact::builder(
        Event::builder("order.placed")
            .header("source", "shop \"7\"")
            .occurred_at(Timestamp::from_micros(-1))
            .json_text(r#"{"total": 1.0, "total": "€"}"#),
    )
    .tag("order_id", "{a,b}\"\\'")
    .tag("order_id", "x=y")
    .tag("Größe", "NULL")
    .correlation_id(EventId::from_bytes([1; 16]))
    .build()
    .unwrap();
    let second = Fact::builder(
        Event::builder("scan").bytes(vec![0, 0xff]).content_type("application/x-scan"),
    )
    .caused_by(&first)
    .build()
    .unwrap();

    let receipts = journal.append([first.clone(), second.clone()]).await.unwrap();
    let found = all(&journal).await;
    assert_eq!(found.len(), 2);
    for ((fact, receipt), recorded) in [first, second].iter().zip(&receipts).zip(&found) {
        assert_eq!(recorded.fact, *fact);
        assert_eq!(recorded.position, receipt.position);
        assert_eq!(recorded.recorded_at, receipt.recorded_at);
        assert!(receipt.fresh);
    }
    assert_eq!(receipts[1].position, receipts[0].position.next());
    assert_eq!(journal.head().await.unwrap(), receipts[1].position);
}

/// Holds J2.
#[tokio::test]
async fn facts_are_found_by_types_and_tags_above_a_position() {
    let place = Place::new();
    let journal = journal(&place).await;
    let facts = [
        fact("a", &["w=1"]),
        fact("b", &["w=1", "bank=x"]),
        fact("c", &["w=2", "bank=x"]),
        fact("d", &[]),
        fact("b", &["w=2"]),
    ];
    journal.append(facts.clone()).await.unwrap();
    let item = Item::any;
    for query in [
        Query::all(),
        tagged("w=1"),
        tagged("w=9"),
        Query::of_type("b"),
        Query::of(item().of_type("a").of_type("d")),
        Query::of(item().tagged(tag("w=2")).tagged(tag("bank=x"))),
        Query::of(item().tagged(tag("w=2")).of_type("b")),
        tagged("bank=x").or(tagged("w=1")).or(Query::of_type("b")),
        Query::of_type("d").or(Query::of(item())),
    ] {
        let expected: Vec<_> = facts.iter().filter(|fact| query.matches(fact)).collect();
        let expected: Vec<_> = expected.iter().map(|fact| fact.event().event_type()).collect();
        assert_eq!(types(&journal, query.clone()).await, expected, "{query:?}");
    }
    let above: Vec<_> = journal.read(tagged("w=1"), position(1)).try_collect().await.unwrap();
    assert_eq!(above.iter().map(|fact| fact.position.get()).collect::<Vec<_>>(), [2]);
}

/// Pages end where rows do, not where facts do.
#[tokio::test]
async fn a_read_goes_on_over_its_pages() {
    let place = Place::new();
    let journal = journal(&place).await;
    for _ in 0..2 {
        let facts = (0..limits::APPEND_FACTS).map(|_| fact("t", &["w=1"]));
        journal.append(facts).await.unwrap();
    }
    journal.append([fact("t", &["w=1"])]).await.unwrap();
    let found: Vec<_> = journal.read(tagged("w=1"), Position::START).try_collect().await.unwrap();
    assert_eq!(found.len(), 2 * limits::APPEND_FACTS + 1);
    assert!(found.is_sorted_by(|a, b| a.position < b.position));
}

/// Holds J1: as the caller's transaction ends, and its savepoints.
#[tokio::test]
async fn what_is_appended_in_a_transaction_ends_with_it() {
    let place = Place::new();
    let journal = journal(&place).await;
    let mut client = place.client().await;

    let mut tx = client.transaction().await.unwrap();
    journal.append_in(&mut tx, [fact("undone", &["w=1"])], None).await.unwrap();
    tx.rollback().await.unwrap();

    let mut tx = client.transaction().await.unwrap();
    journal.append_in(&mut tx, [fact("kept", &["w=1"])], None).await.unwrap();
    let mut savepoint = tx.transaction().await.unwrap();
    journal.append_in(&mut savepoint, [fact("undone", &["w=1"])], None).await.unwrap();
    savepoint.rollback().await.unwrap();
    journal.append_in(&mut tx, [fact("kept too", &["w=1"])], None).await.unwrap();
    assert!(all(&journal).await.is_empty(), "nobody sees it before the commit");
    tx.commit().await.unwrap();

    assert_eq!(types(&journal, tagged("w=1")).await, ["kept", "kept too"]);
    assert_eq!(place.number("select count(*) from journal_tag").await, 2);
}

/// The mark of an open transaction, where the type does not prove one.
#[tokio::test]
async fn without_a_transaction_nothing_is_appended() {
    let place = Place::new();
    let journal = journal(&place).await;
    let mut client = place.client().await;
    let answer = journal.append_in(&mut client, [fact("t", &[])], None).await;
    assert!(matches!(answer, Err(AppendError::NoTransaction)), "{answer:?}");
    assert!(all(&journal).await.is_empty());
    client.batch_execute("begin").await.unwrap();
    journal.append_in(&mut client, [fact("t", &[])], None).await.unwrap();
    client.batch_execute("commit").await.unwrap();
    assert_eq!(all(&journal).await.len(), 1);
}

/// Holds J1: and the caller's transaction can go on.
#[tokio::test]
async fn a_conflict_is_typed_names_the_position_and_stores_nothing() {
    let place = Place::new();
    let journal = journal(&place).await;
    journal.append([fact("a", &["w=1"]), fact("b", &["w=2"])]).await.unwrap();

    let answer =
        journal.append_if([fact("c", &["w=1"])], tagged("w=2").none_after(position(1))).await;
    let expected = Conflict { position: position(2) };
    assert!(matches!(answer, Err(AppendError::Conflict(found)) if found == expected), "{answer:?}");

    let mut client = place.client().await;
    let mut tx = client.transaction().await.unwrap();
    let condition = || Some(Query::of_type("a").none_after(Position::START));
    let answer = journal.append_in(&mut tx, [fact("c", &["w=1"])], condition()).await;
    assert!(matches!(answer, Err(AppendError::Conflict(_))), "{answer:?}");
    journal.append_in(&mut tx, [fact("d", &["w=1"])], None).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(types(&journal, Query::all()).await, ["a", "b", "d"]);

    let holds = tagged("w=2").none_after(position(2));
    journal.append_if([fact("e", &["w=2"])], holds).await.unwrap();
}

/// An append whose answer was lost can be made again.
#[tokio::test]
async fn an_append_that_is_repeated_is_there_once() {
    let place = Place::new();
    let journal = journal(&place).await;
    let facts = [fact("a", &["w=1"]), fact("b", &["w=1"])];
    let never = || tagged("w=1").none_after(Position::START);
    let first = journal.append_if(facts.clone(), never()).await.unwrap();
    let second = journal.append_if(facts.clone(), never()).await.unwrap();
    let third = journal.append(facts.clone()).await.unwrap();
    for (first, again) in first.iter().zip(second.iter().chain(&third).collect::<Vec<_>>()) {
        assert!(first.fresh && !again.fresh);
    }
    let places = |receipts: &[sendoff_engine::journal::Receipt]| -> Vec<_> {
        receipts.iter().map(|receipt| (receipt.position, receipt.recorded_at)).collect()
    };
    assert_eq!(places(&first), places(&second));
    assert_eq!(places(&first), places(&third));

    let id = facts[0].id();
    let other = || Event::builder("a").id(id).json_text("[]");
    for answer in [
        journal.append([Fact::builder(other()).tags([tag("w=1")])]).await,
        journal.append([Fact::builder(Event::builder("a").id(id).json_text("{}"))]).await,
    ] {
        assert!(matches!(answer, Err(AppendError::IdTaken)), "{answer:?}");
    }
    let mixed = journal.append([fact("c", &[]), facts[0].clone()]).await;
    assert!(matches!(mixed, Err(AppendError::IdTaken)), "{mixed:?}");
    assert_eq!(types(&journal, Query::all()).await, ["a", "b"]);
}

/// The same at the same time: one puts it there, and both are told where.
#[tokio::test]
async fn the_same_append_twice_at_once_is_there_once() {
    let place = Place::new();
    let journal = journal(&place).await;
    for _ in 0..50 {
        let append = || journal.append([fact("a", &["w=1"])]);
        append().await.unwrap();
        let facts = [fact("b", &["w=1"]), fact("c", &["w=2"])];
        let (one, two) = tokio::join!(journal.append(facts.clone()), journal.append(facts.clone()));
        let (one, two) = (one.unwrap(), two.unwrap());
        assert_eq!(one[0].position, two[0].position);
        assert_ne!(one[0].fresh, two[0].fresh);
    }
}

/// A snapshot from the beginning of the transaction is older than the locks.
#[tokio::test]
async fn a_condition_is_refused_where_the_snapshot_is_old() {
    let place = Place::new();
    let journal = journal(&place).await;
    let mut client = place.client().await;
    for level in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        let mut tx = client.build_transaction().isolation_level(level).start().await.unwrap();
        let condition = Some(tagged("w=1").none_after(Position::END));
        let answer = journal.append_in(&mut tx, [fact("a", &["w=1"])], condition).await;
        assert!(matches!(answer, Err(AppendError::Isolation)), "{answer:?}");
        // Without a condition there is nothing to look for.
        journal.append_in(&mut tx, [fact("a", &["w=1"])], None).await.unwrap();
        tx.commit().await.unwrap();
    }
    assert_eq!(all(&journal).await.len(), 2);
}

/// Many tags are one lock, also from many at once; and the session is as it was.
#[tokio::test]
async fn a_thousand_facts_with_twenty_tags_each_do_not_fill_the_table_of_locks() {
    let place = Place::new();
    let journal = journal(&place).await;
    let large = |from: usize| -> Vec<Fact> {
        let tags = |n: usize| (0..20).map(move |t| tag(&format!("t{t}={}", from + n)));
        let of = |n| Fact::builder(("t", "{}")).tags(tags(n)).build().unwrap();
        (0..limits::APPEND_FACTS).map(of).collect()
    };
    let mut client = place.client().await;
    let mut tx = client.transaction().await.unwrap();
    journal.append_in(&mut tx, large(0), None).await.unwrap();
    let locks =
        "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()";
    assert_eq!(tx.query_one(locks, &[]).await.unwrap().get::<_, i64>(0), 1);
    for (setting, value) in [("lock_timeout", "0"), ("enable_seqscan", "on")] {
        let row = tx.query_one(&format!("show {setting}"), &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), value);
    }
    tx.commit().await.unwrap();
    let appends = (1..4).map(|n| journal.append(large(n * 1_000)));
    for answer in futures_util::future::join_all(appends).await {
        assert_eq!(answer.unwrap().len(), limits::APPEND_FACTS);
    }
    assert_eq!(place.number("select count(*) from journal_tag").await, 4 * 20_000);
}
