//! What happened, and whether it may.
//!
//! Everything concurrent writes a [`History`]: writers log how their transaction ended, handlers log
//! each run, whoever settles logs what the store made of it, and whoever breaks something logs the
//! fault. [`check`] is then a pure function of that list. It needs no clock and no knowledge of how
//! the events travelled, so it judges a unit test, a simulation and a soak of a real cluster alike.
//! A [`LogHistory`] holds the histories of those who read one log.
//!
//! ```
//! use sendoff_core::{Delivery, Event, Lane, Origin, Status, Timestamp};
//! use sendoff_testkit::history::{Expectations, History, check};
//!
//! let history = History::new();
//! let event = Event::json_text("order.placed", "{}")?;
//! history.committed(&event);
//!
//! let created_at = Timestamp::now();
//! let delivery = Delivery { event: event.clone(), created_at, attempt: 1, origin: Origin::Row(Lane::Hot) };
//! let run = history.delivery_started("node-1", &delivery);
//! run.finished(true);
//! history.stands(event.id(), Status::Done, 0);
//!
//! let verdict = check(&history, &Expectations { healed: true, ..Default::default() });
//! assert!(verdict.is_clean(), "{verdict}");
//! assert_eq!((verdict.written, verdict.delivered, verdict.lost), (1, 1, 0));
//! # Ok::<(), sendoff_core::InvalidEvent>(())
//! ```

mod attempts;
mod check;
mod digest;
mod entry;
mod fault;
mod log;
mod order;
mod readers;
mod story;
mod verdict;
mod violation;

pub use check::{Expectations, check, check_entries};
pub use digest::Digest;
pub use entry::{Decision, Ending, Entry, Position, WriteOutcome};
pub use fault::{Fault, FaultKind};
pub use log::{History, Run};
pub use readers::LogHistory;
pub use verdict::Verdict;
pub use violation::Violation;
