//! The derives of Sendoff: names for events and aggregates, and structs that are events.
//!
//! Promise: what a derive accepts is a name every store accepts; empty, overlong, doubled and
//! unprintable names are refused while compiling, at the place they were written.
//!
//! Not here: the traits themselves (see `sendoff-core`). The generated code names them through
//! `::sendoff`; where that crate goes by another name, `crate = "..."` says so.

mod attribute;
mod casing;
mod event;
mod name;
mod named;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `EventType` for an enum of unit variants, or for a unit struct.
///
/// The stored name is the identifier, unless an attribute says otherwise:
///
/// | attribute | where | meaning |
/// |---|---|---|
/// | `#[event_type(rename = "...")]` | variant, unit struct | exactly this name |
/// | `#[event_type(rename_all = "...")]` | enum, unit struct | the identifiers' words in `snake_case`, `kebab-case`, `camelCase`, `SCREAMING_SNAKE_CASE` or `dot.case` |
/// | `#[event_type(crate = "...")]` | enum, unit struct | where the trait lives; `::sendoff` by default |
///
/// ```
/// # use sendoff_macros::EventType;
/// use sendoff_core::EventType;
///
/// #[derive(EventType)]
/// #[event_type(rename_all = "dot.case", crate = "sendoff_core")]
/// enum Orders {
///     OrderPlaced,
///     #[event_type(rename = "order.gone")]
///     OrderCancelled,
/// }
/// assert_eq!(Orders::OrderPlaced.name(), "order.placed");
/// assert_eq!(Orders::OrderCancelled.name(), "order.gone");
/// ```
///
/// # Refused
///
/// A name has 1 to 128 characters and no NUL, CR or LF:
///
/// ```compile_fail
/// #[derive(sendoff_macros::EventType)]
/// #[event_type(crate = "sendoff_core")]
/// enum Orders {
///     #[event_type(rename = "")]
///     Placed,
/// }
/// ```
///
/// Two variants never share one:
///
/// ```compile_fail
/// #[derive(sendoff_macros::EventType)]
/// #[event_type(crate = "sendoff_core")]
/// enum Orders {
///     Placed,
///     #[event_type(rename = "Placed")]
///     PlacedAgain,
/// }
/// ```
///
/// A variant with data is a payload, not a name; see [`derive(Event)`](macro@Event):
///
/// ```compile_fail
/// #[derive(sendoff_macros::EventType)]
/// #[event_type(crate = "sendoff_core")]
/// enum Orders {
///     Placed(u64),
/// }
/// ```
///
/// And a name does not depend on type parameters:
///
/// ```compile_fail
/// #[derive(sendoff_macros::EventType)]
/// #[event_type(crate = "sendoff_core")]
/// enum Orders<const N: usize> {
///     Placed,
/// }
/// ```
#[proc_macro_derive(EventType, attributes(event_type))]
pub fn event_type(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    finish(named::expand(&input, &named::EVENT_TYPE))
}

/// Implements `AggregateType` for an enum of unit variants, or for a unit struct.
///
/// Takes what [`derive(EventType)`](macro@EventType) takes, under `#[aggregate_type(...)]`; a name
/// has at most 64 characters.
///
/// ```
/// # use sendoff_macros::AggregateType;
/// use sendoff_core::{AggregateType, Event};
///
/// #[derive(AggregateType)]
/// #[aggregate_type(rename_all = "snake_case", crate = "sendoff_core")]
/// enum Things {
///     SalesOrder,
/// }
/// let event = Event::builder("placed").aggregate(Things::SalesOrder, "4711").bytes("x").build()?;
/// assert_eq!(event.aggregate_type(), "sales_order");
/// # Ok::<(), sendoff_core::InvalidEvent>(())
/// ```
///
/// ```compile_fail
/// #[derive(sendoff_macros::AggregateType)]
/// #[aggregate_type(crate = "sendoff_core")]
/// enum Things {
///     // 65 characters
///     #[aggregate_type(rename = "12345678901234567890123456789012345678901234567890123456789012345")]
///     Order,
/// }
/// ```
#[proc_macro_derive(AggregateType, attributes(aggregate_type))]
pub fn aggregate_type(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    finish(named::expand(&input, &named::AGGREGATE_TYPE))
}

/// Implements `IntoEvent` for a struct that is `Serialize`, and for a reference to it. The struct as
/// JSON is the payload.
///
/// | attribute | where | meaning |
/// |---|---|---|
/// | `#[event(type = "...")]` | struct | the event type, which must be said: a rename of the struct changes nothing that is stored |
/// | `#[event(aggregate = "...")]` | struct | the aggregate type; `__GLOBAL__` by default |
/// | `#[event(ordered)]` | struct | the events of its aggregate are delivered in order; needs an `aggregate_id`, and goes with no `ordering_key` |
/// | `#[event(crate = "...")]` | struct, enum | where the traits live; `::sendoff` by default |
/// | `#[event(aggregate_id)]` | field | is the aggregate's id; only beside an `aggregate` |
/// | `#[event(tenant_id)]` | field | is the tenant |
/// | `#[event(ordering_key)]` | field | is the key within which order matters |
/// | `#[event(occurred_at)]` | field | is when it happened: a `Timestamp` or `SystemTime` |
/// | `#[event(tag)]`, `#[event(tag = "...")]` | any field | is a tag in a journal; its key is the field's name by default |
///
/// A field may have several of them. Fields are turned to text with `ToString`; a field written as
/// `Option<...>` sets nothing where it is `None`. Fields stay part of the payload; to leave one out,
/// use serde's `#[serde(skip)]`.
///
/// The names are constants of the struct, so that a handler is registered with what is written:
///
/// ```
/// # use sendoff_macros::Event;
/// use sendoff_core::{Event, IntoEvent};
///
/// #[derive(serde::Serialize, Event)]
/// #[event(type = "order.placed", aggregate = "order", crate = "sendoff_core")]
/// struct OrderPlaced {
///     #[event(aggregate_id, ordering_key)]
///     order: u64,
///     #[event(tenant_id)]
///     #[serde(skip)]
///     shop: Option<String>,
///     total: u32,
/// }
/// assert_eq!(OrderPlaced::EVENT_TYPE, "order.placed");
/// assert_eq!(OrderPlaced::AGGREGATE_TYPE, "order");
///
/// let event = OrderPlaced { order: 4711, shop: Some("berlin".into()), total: 990 }.into_event()?;
/// assert_eq!(event.aggregate_id(), Some("4711"));
/// assert_eq!(event.tenant_id(), Some("berlin"));
/// assert_eq!(event.payload(), &br#"{"order":4711,"total":990}"#[..]);
/// # Ok::<(), sendoff_core::InvalidEvent>(())
/// ```
///
/// What is `ordered` has its aggregate for a key, as by the builder's `ordered`:
///
/// ```
/// # use sendoff_macros::Event;
/// # use sendoff_core::{Event, IntoEvent};
/// #[derive(serde::Serialize, Event)]
/// #[event(type = "order.shipped", aggregate = "order", ordered, crate = "sendoff_core")]
/// struct OrderShipped {
///     #[event(aggregate_id)]
///     order: u64,
/// }
/// let event = OrderShipped { order: 4711 }.into_event()?;
/// assert_eq!(event.ordering_key(), Some("order:4711"));
/// # Ok::<(), sendoff_core::InvalidEvent>(())
/// ```
///
/// An enum whose variants each hold one such struct is the event it holds:
///
/// ```
/// # use sendoff_macros::Event;
/// # use sendoff_core::{Event, IntoEvent};
/// # #[derive(serde::Serialize, Event)]
/// # #[event(type = "order.placed", crate = "sendoff_core")]
/// # struct OrderPlaced { order: u64 }
/// # #[derive(serde::Serialize, Event)]
/// # #[event(type = "order.shipped", crate = "sendoff_core")]
/// # struct OrderShipped { order: u64 }
/// #[derive(Event)]
/// #[event(crate = "sendoff_core")]
/// enum OrderEvent {
///     Placed(OrderPlaced),
///     Shipped(OrderShipped),
/// }
/// let event = OrderEvent::Shipped(OrderShipped { order: 4711 }).into_event()?;
/// assert_eq!(event.event_type(), OrderShipped::EVENT_TYPE);
/// # Ok::<(), sendoff_core::InvalidEvent>(())
/// ```
///
/// # Refused
///
/// Names as for [`derive(EventType)`](macro@EventType), and two fields for one purpose:
///
/// ```compile_fail
/// #[derive(serde::Serialize, sendoff_macros::Event)]
/// #[event(type = "moved", crate = "sendoff_core")]
/// struct Moved {
///     #[event(tenant_id)]
///     from: u64,
///     #[event(tenant_id)]
///     to: u64,
/// }
/// ```
///
/// An order by the aggregate beside a key of its own, or without the id of an aggregate:
///
/// ```compile_fail
/// #[derive(serde::Serialize, sendoff_macros::Event)]
/// #[event(type = "moved", aggregate = "box", ordered, crate = "sendoff_core")]
/// struct Moved {
///     #[event(aggregate_id, ordering_key)]
///     which: u64,
/// }
/// ```
///
/// ```compile_fail
/// #[derive(serde::Serialize, sendoff_macros::Event)]
/// #[event(type = "moved", aggregate = "box", ordered, crate = "sendoff_core")]
/// struct Moved {
///     to: u64,
/// }
/// ```
///
/// What cannot be serialised cannot be sent:
///
/// ```compile_fail
/// #[derive(sendoff_macros::Event)]
/// #[event(type = "moved", crate = "sendoff_core")]
/// struct Moved {
///     to: u64,
/// }
/// ```
///
/// Nor what does not say what it is called:
///
/// ```compile_fail
/// #[derive(serde::Serialize, sendoff_macros::Event)]
/// #[event(crate = "sendoff_core")]
/// struct Moved {
///     to: u64,
/// }
/// ```
#[proc_macro_derive(Event, attributes(event))]
pub fn event(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    finish(event::expand(&input))
}

fn finish(expanded: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    expanded.unwrap_or_else(|error| error.into_compile_error()).into()
}
