//! The suite every sink passes, on its real target.
//!
//! A sink joins with a [`SinkGround`] and one line, [`sink_suite!`](crate::sink_suite); every promise becomes a test of its own. A ground
//! makes sinks to one fresh target, and reads back what arrived there. What else it can do to the target is a group of
//! cases each:
//!
//! | group | the ground can |
//! |---|---|
//! | `poison` | make an event that the target can never take |
//! | `refusals` | make the target refuse for a while: full, overloaded, read-only |
//! | `credentials`, `revocation` | start a sink with a wrong secret; take the right one away while it runs |
//! | `kill`, `durable`, `freeze` | kill the server and start it again, with what it kept; stop it where it is ([`ServerProcess`]) |
//!
//! A group that does not apply is left out with the reason, which the list of tests shows. [`killed`] is a test of seconds beside
//! the suite: a target killed in the middle of many events from an outbox, judged by the [history](crate::history) checker.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//! use std::time::Duration;
//!
//! use sendoff_core::{Delivery, Event, Failure, Sink, Verdict};
//! use sendoff_testkit::sinks::{Arrived, SinkGround, async_trait, cases};
//!
//! /// A sink of your own: keeps what is at most 1 MiB.
//! #[derive(Clone, Default)]
//! struct Shelf(Arc<Mutex<(bool, Vec<Delivery>)>>);
//!
//! #[async_trait]
//! impl Sink for Shelf {
//!     fn name(&self) -> &str {
//!         "shelf"
//!     }
//!
//!     async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
//!         let mut shelf = self.0.lock().unwrap();
//!         let closed = shelf.0;
//!         let keep = |delivery: &Delivery| match delivery.payload().len() {
//!             _ if closed => Err(Failure::unavailable(Duration::ZERO, "closed")),
//!             ..=1_048_576 => Ok(shelf.1.push(delivery.clone())),
//!             bytes => Err(Failure::dead(format!("{bytes} bytes are too many"))),
//!         };
//!         deliveries.iter().map(keep).collect()
//!     }
//! }
//!
//! struct Wall(Shelf);
//!
//! #[async_trait]
//! impl SinkGround for Wall {
//!     type Sink = Shelf;
//!
//!     async fn sink(&self) -> Shelf {
//!         self.0.clone()
//!     }
//!
//!     async fn close(&self, sink: &Shelf) -> bool {
//!         sink.0.lock().unwrap().0 = true;
//!         true
//!     }
//!
//!     async fn arrived(&self) -> Vec<Arrived> {
//!         self.0.0.lock().unwrap().1.iter().map(|delivery| Arrived::of(&delivery.event)).collect()
//!     }
//!
//!     fn deadline(&self) -> Duration {
//!         Duration::from_secs(1)
//!     }
//!
//!     async fn poison(&self, event: &Event) -> Event {
//!         let mut stored = AsRef::<sendoff_core::StoredEvent>::as_ref(event).clone();
//!         stored.payload = vec![b'x'; 1_048_577].into();
//!         Event::restore(stored).unwrap()
//!     }
//! }
//!
//! sendoff_testkit::sink_suite!(Wall(Shelf::default()); poison; without
//!     refusals = "it takes everything", credentials = "it has none", revocation = "it has none",
//!     kill = "it is in this process", durable = "it is in this process", freeze = "it is in this process");
//! # #[tokio::main]
//! # async fn main() {
//! #     cases::one_bad_event_fails_alone(&Wall(Shelf::default())).await;
//! #     cases::headers_key_and_type_arrive(&Wall(Shelf::default())).await;
//! # }
//! ```

pub mod cases;
mod ground;
pub mod killed;
mod server;
mod suite;

pub use async_trait::async_trait;
pub use ground::{Arrived, Expected, Refusal, Server, SinkGround, WrongCredentials};
pub use server::ServerProcess;
pub use suite::{GROUPS, MaybeGround, every_group_is_named, run};
