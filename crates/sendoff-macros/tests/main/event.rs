//! `derive(Event)`: names, fields, tags and generics.

use std::time::{Duration, SystemTime};

use sendoff_core::journal::{Fact, IntoFact, Item, Position, Query, Recorded, Tag};
use sendoff_core::{Event, GLOBAL_AGGREGATE, IntoEvent, InvalidEvent, Timestamp, TypedEvent};
use sendoff_macros::Event;
use serde::Serialize;

#[derive(Serialize, Event)]
#[event(type = "order.placed", aggregate = "order", crate = "sendoff_core")]
struct OrderPlaced {
    #[event(aggregate_id, ordering_key)]
    order: u64,
    #[event(tenant_id)]
    #[serde(skip)]
    shop: Option<String>,
    total: u32,
}

#[derive(Serialize, Event)]
#[event(type = "order.shipped", aggregate = "order", ordered, crate = "sendoff_core")]
struct OrderShipped {
    #[event(aggregate_id)]
    order: Option<u64>,
}

#[derive(Serialize, Event)]
#[event(type = "bare", crate = "sendoff_core")]
struct Bare;

#[derive(Serialize, Event)]
#[event(type = "borrowed", aggregate = "text", crate = "sendoff_core")]
struct Borrowed<'a, T: Serialize>(#[event(aggregate_id)] &'a str, T);

#[derive(Serialize, Event)]
#[event(type = "measured", crate = "sendoff_core")]
struct Measured {
    #[event(occurred_at)]
    at: SystemTime,
}

#[derive(Serialize, Event)]
#[event(type = "imported", crate = "sendoff_core")]
struct Imported {
    #[event(occurred_at)]
    at: Option<Timestamp>,
}

#[derive(Event)]
#[event(crate = "sendoff_core")]
enum Any<'a> {
    Placed(OrderPlaced),
    Bare(Bare),
    Borrowed(Borrowed<'a, u8>),
    Ready(Event),
}

fn placed() -> OrderPlaced {
    OrderPlaced { order: 4711, shop: Some("berlin".into()), total: 990 }
}

/// Holds E7.
#[test]
fn a_handler_can_be_registered_by_the_struct_alone() {
    fn names<E: TypedEvent>() -> (&'static str, &'static str) {
        (E::AGGREGATE_TYPE, E::EVENT_TYPE)
    }
    assert_eq!(names::<OrderPlaced>(), ("order", "order.placed"));
    assert_eq!(names::<Bare>(), (GLOBAL_AGGREGATE, "bare"));
}

/// Holds E7.
#[test]
fn a_struct_is_written_under_the_names_it_declares() {
    let event = placed().into_event().unwrap();
    assert_eq!(event.event_type(), "order.placed");
    assert_eq!(event.event_type(), OrderPlaced::EVENT_TYPE);
    assert_eq!(event.aggregate_type(), "order");
    assert_eq!(event.aggregate_type(), OrderPlaced::AGGREGATE_TYPE);
}

#[test]
fn an_ordered_struct_has_its_aggregate_for_a_key() {
    let ordered = |order| OrderShipped { order }.into_event();
    let by_hand = Event::builder("x").aggregate("order", "4711").ordered().bytes("x").build();
    let event = ordered(Some(4711)).unwrap();
    assert_eq!(event.ordering_key(), Some("order:4711"));
    assert_eq!(event.ordering_key(), by_hand.unwrap().ordering_key());
    assert!(matches!(ordered(None), Err(InvalidEvent::NothingToOrderBy)));
}

/// Holds E7.
#[test]
fn a_struct_without_an_aggregate_is_global() {
    let event = Bare.into_event().unwrap();
    assert_eq!(event.event_type(), "bare");
    assert_eq!(event.aggregate_type(), GLOBAL_AGGREGATE);
    assert_eq!(Bare::AGGREGATE_TYPE, GLOBAL_AGGREGATE);
    assert_eq!((event.aggregate_id(), event.tenant_id(), event.ordering_key()), (None, None, None));
}

#[test]
fn fields_serve_their_purposes_and_the_struct_is_the_payload() {
    let event = placed().into_event().unwrap();
    assert_eq!(event.aggregate_id(), Some("4711"));
    assert_eq!(event.ordering_key(), Some("4711"));
    assert_eq!(event.tenant_id(), Some("berlin"));
    assert_eq!(event.content_type(), "application/json");
    assert_eq!(event.payload(), &br#"{"order":4711,"total":990}"#[..]);
}

#[test]
fn an_option_that_is_none_sets_nothing() {
    let event = OrderPlaced { shop: None, ..placed() }.into_event().unwrap();
    assert_eq!(event.tenant_id(), None);
    let before = Timestamp::now();
    assert!(Imported { at: None }.into_event().unwrap().occurred_at() >= before);
}

#[test]
fn a_reference_is_an_event_too() {
    let order = placed();
    let (first, second) = ((&order).into_event().unwrap(), (&order).into_event().unwrap());
    assert_eq!(first.payload(), second.payload());
    assert_ne!(first.id(), second.id());
}

#[test]
fn lifetimes_and_bounded_parameters_are_kept() {
    let event = Borrowed("a-1", [1, 2]).into_event().unwrap();
    assert_eq!(event.aggregate_id(), Some("a-1"));
    assert_eq!(event.payload(), &br#"["a-1",[1,2]]"#[..]);
    assert_eq!(Borrowed::<u8>::EVENT_TYPE, "borrowed");
}

#[test]
fn the_time_can_come_from_a_field() {
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(5);
    let expected = Timestamp::from_micros(5_000_000);
    assert_eq!(Measured { at }.into_event().unwrap().occurred_at(), expected);
    assert_eq!(Imported { at: Some(expected) }.into_event().unwrap().occurred_at(), expected);
}

#[test]
fn an_enum_is_the_event_it_holds() {
    let types = [
        Any::Placed(placed()),
        Any::Bare(Bare),
        Any::Borrowed(Borrowed("a", 1)),
        Any::Ready(Event::json("ready", "").unwrap()),
    ]
    .map(|any| {
        let by_reference = (&any).into_event().unwrap();
        let by_value = any.into_event().unwrap();
        assert_eq!(by_reference.payload(), by_value.payload());
        by_value.event_type().to_owned()
    });
    assert_eq!(types, ["order.placed", "bare", "borrowed", "ready"]);
}

/// Holds E2.
#[test]
fn a_field_past_its_limit_is_refused_like_any_other() {
    let refused = OrderPlaced { shop: Some("x".repeat(65)), ..placed() }.into_event();
    assert!(matches!(
        refused,
        Err(InvalidEvent::TooLong { field: "tenant_id", chars: 65, limit: 64 })
    ));
}

/// Holds J2: its aggregate and its tenant are tags, and it is read back as it was.
#[test]
fn a_struct_is_a_fact_of_the_journal() {
    #[derive(Debug, PartialEq, Serialize, serde::Deserialize, Event)]
    #[event(type = "wallet.opened", aggregate = "wallet_id", crate = "sendoff_core")]
    struct Opened {
        #[event(aggregate_id)]
        wallet: u64,
    }
    #[derive(Serialize, Event)]
    #[event(type = "moved", crate = "sendoff_core")]
    struct Moved<'a> {
        #[event(tag = "wallet_id")]
        from: u64,
        #[event(tag = "wallet_id", tag = "target")]
        to: Option<u64>,
        #[event(tag)]
        bank: &'a str,
    }
    #[derive(Event)]
    #[event(crate = "sendoff_core")]
    enum Wallets<'a> {
        Opened(Opened),
        Moved(Moved<'a>),
    }
    let tags = |fact: Fact| -> Vec<String> { fact.tags().iter().map(Tag::to_string).collect() };
    let moved = Moved { from: 1, to: Some(2), bank: "x" };
    let expected = ["bank=x", "target=2", "wallet_id=1", "wallet_id=2"];
    assert_eq!(tags((&moved).into_fact().unwrap()), expected);
    let moved = Wallets::Moved(Moved { to: None, ..moved });
    assert_eq!(tags((&moved).into_fact().unwrap()), ["bank=x", "wallet_id=1"]);
    assert_eq!(tags(moved.into_fact().unwrap()), ["bank=x", "wallet_id=1"]);
    let opened = Wallets::Opened(Opened { wallet: 8 });
    assert_eq!(tags(opened.into_fact().unwrap()), ["wallet_id=8"]);

    let fact = Opened { wallet: 7 }.into_fact().unwrap();
    assert_eq!(fact.tags().value("wallet_id"), Some("7"));
    let position = Position::START.next();
    let recorded = Recorded { position, recorded_at: Timestamp::now(), fact };
    assert_eq!(recorded.read::<Opened>().unwrap().unwrap(), Opened { wallet: 7 });
    let query = Query::of(Item::any().of_event::<Opened>());
    assert!(query.selects(&recorded));
    let fact = placed().into_fact().unwrap();
    assert_eq!(fact.tags().value("tenant_id"), Some("berlin"));
    let other = Recorded { fact, ..recorded };
    assert!(other.read::<Opened>().is_none() && !query.selects(&other));
}
