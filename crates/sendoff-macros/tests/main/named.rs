//! `derive(EventType)` and `derive(AggregateType)`.

use sendoff_core::{Event, EventType, limits};
use sendoff_macros::{AggregateType, EventType};

#[derive(EventType)]
#[event_type(crate = "sendoff_core")]
enum Plain {
    OrderPlaced,
    #[event_type(rename = "order.gone")]
    OrderCancelled,
    r#Move,
}

#[derive(EventType)]
#[event_type(rename_all = "kebab-case")]
#[event_type(crate = "::sendoff_core")]
enum Cased {
    OrderPlaced,
    #[event_type(rename = "AsIs")]
    OrderShipped,
}

#[derive(AggregateType)]
#[aggregate_type(rename_all = "SCREAMING_SNAKE_CASE", crate = "sendoff_core")]
enum Things {
    SalesOrder,
    Customer,
}

#[derive(EventType, AggregateType)]
#[event_type(rename_all = "dot.case", crate = "sendoff_core")]
#[aggregate_type(rename = "invoice", crate = "sendoff_core")]
struct InvoiceSent;

/// What a handler is registered with: whatever names a type.
fn registered_as(event_type: impl EventType) -> String {
    event_type.name().to_owned()
}

/// Holds E7.
#[test]
fn a_handler_registered_with_the_enum_is_the_one_an_event_written_with_it_looks_for() {
    for (written, registered) in [
        (Plain::OrderPlaced, Plain::OrderPlaced),
        (Plain::OrderCancelled, Plain::OrderCancelled),
        (Plain::Move, Plain::Move),
    ] {
        let event = Event::json(written, "payload").unwrap();
        assert_eq!(event.event_type(), registered_as(registered));
    }
}

/// Holds E7.
#[test]
fn the_stored_name_is_the_string() {
    assert_eq!(Event::json(Plain::OrderPlaced, "").unwrap().event_type(), "OrderPlaced");
    assert_eq!(Event::json(Plain::OrderCancelled, "").unwrap().event_type(), "order.gone");
    assert_eq!(Event::json(Plain::Move, "").unwrap().event_type(), "Move");
    assert_eq!(Event::json(&Cased::OrderPlaced, "").unwrap().event_type(), "order-placed");
    assert_eq!(Event::json(Cased::OrderShipped, "").unwrap().event_type(), "AsIs");
    assert_eq!(Event::json(InvoiceSent, "").unwrap().event_type(), "invoice.sent");
}

/// Holds E7.
#[test]
fn an_enum_and_the_same_text_are_one_type() {
    let by_enum = Event::json(Plain::OrderCancelled, "").unwrap();
    let by_text = Event::json("order.gone", "").unwrap();
    let by_string = Event::json(String::from("order.gone"), "").unwrap();
    assert_eq!(by_enum.event_type(), by_text.event_type());
    assert_eq!(by_enum.event_type(), by_string.event_type());
}

/// Holds E7.
#[test]
fn the_aggregate_type_is_the_enums_name() {
    let about = |thing: Things| {
        let event = Event::builder("x").aggregate(thing, "1").bytes("x").build().unwrap();
        event.aggregate_type().to_owned()
    };
    assert_eq!(about(Things::SalesOrder), "SALES_ORDER");
    assert_eq!(about(Things::Customer), "CUSTOMER");
    let event = Event::builder("x").aggregate_type(InvoiceSent).bytes("x").build().unwrap();
    assert_eq!(event.aggregate_type(), "invoice");
}

#[derive(EventType, AggregateType)]
#[event_type(crate = "sendoff_core")]
#[aggregate_type(crate = "sendoff_core")]
enum Longest {
    #[event_type(
        rename = "12345678901234567890123456789012345678901234567890123456789012341234567890123456789012345678901234567890123456789012345678901234"
    )]
    #[aggregate_type(rename = "1234567890123456789012345678901234567890123456789012345678901234")]
    Name,
}

/// Holds E2. The derives' limits are the core's: what compiles at the limit also builds.
#[test]
fn the_longest_name_that_compiles_is_the_longest_that_is_accepted() {
    let event =
        Event::builder(Longest::Name).aggregate_type(Longest::Name).bytes("x").build().unwrap();
    assert_eq!(event.event_type().chars().count(), limits::EVENT_TYPE_CHARS);
    assert_eq!(event.aggregate_type().chars().count(), limits::AGGREGATE_TYPE_CHARS);
}
