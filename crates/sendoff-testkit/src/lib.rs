#![cfg_attr(docsrs, feature(doc_cfg))]
//! How Sendoff is tested, for its users and for itself.
//!
//! - [`history`]: writers, handlers and faults log what happened; one checker judges it.
//! - [`conformance`]: the suite a store joins by, in a few lines.
//! - [`capture`]: the suite a driver joins by: what it does with an application's transaction.
//! - [`acceptance`]: what every outbox does, whatever its store and its driver.
//! - [`durability`]: what a commit is worth when a link or a server goes down.
//! - [`relay`]: what batches, relays and topic workers do, on every store and in both claim modes.
//! - [`journal`]: the suite a journal joins by.
//! - [`letters`]: operators at work on dead letters, on every store.
//! - [`outage`]: a target that is away for minutes, on every face and every server.
//! - [`sim`]: worlds of several nodes on virtual time, one for each seed.
//! - [`sinks`]: the suite a sink joins by, on its real target.
//! - [`soak`]: tests with a short form and one of minutes.
//! - [`nodes`]: what several nodes on one database do, on every server.
//! - [`ordeal`]: what they go through: rows that others lock, processes that are stopped.
//! - [`starting`]: what starting does where the database is not as it should be, or not there.
//! - [`thorny`]: values that a driver's encoding could get wrong.
//! - [`upgrade`]: tables of older versions.
//! - [`waking`]: how soon sleeping nodes begin, and how quiet idle ones are.
//! - [`guide`]: what the guide tells people to run; [`clients`]: programs that are not ours and do.
//! - [`broker`]: a broker of a test's own, to be killed, stopped and started again.
//! - [`proxy`]: a server's door that can be slammed at a chosen moment.
//! - [`logs`]: what the code under test writes to its log.
//! - [`clock`]: a clock that moves when told; [`faketime`]: one for a server. [`wait`]: for what has no signal.
//!
//! Promise: the checker is a pure function of the history, and a case of the suite fails only where
//! the contract in `sendoff_engine::store` is broken.
//!
//! Not here: the store in memory, which is `sendoff_engine::memory`.

pub mod acceptance;
pub mod broker;
pub mod capture;
pub mod clients;
pub mod clock;
pub mod conformance;
pub mod durability;
pub mod faketime;
pub mod guide;
pub mod history;
pub mod hostile;
pub mod journal;
pub mod letters;
pub mod logs;
pub mod nodes;
pub mod ordeal;
pub mod outage;
pub mod process;
pub mod proxy;
pub mod readable;
pub mod relay;
pub mod servers;
pub mod sim;
pub mod sinks;
pub mod soak;
pub mod starting;
pub mod steps;
pub mod thorny;
pub mod upgrade;
pub mod wait;
pub mod waking;
