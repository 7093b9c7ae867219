//! What nodes go through on a real server, and what they promise meanwhile: rows that others lock,
//! processes that are stopped at any moment.
//!
//! A crate of a store brings a [harness](OrdealHarness) and a test that [plays](play) the node in a
//! process of its own; the cases are the same everywhere.

#![allow(clippy::missing_panics_doc, reason = "a case that panics is a store that failed it")]
#![allow(clippy::unwrap_used, reason = "a case that cannot unwrap says less, not more")]

mod clock;
mod cut;
mod dropped;
mod killer;
mod locked_row;
mod node;
mod order;
mod stop;
pub mod stopped;
mod suite;
mod witness;

use std::net::SocketAddr;

use async_trait::async_trait;
use sendoff_core::EventId;
pub use sendoff_engine::relay::ClaimMode;
use sendoff_engine::relay::RelayStore;

pub use clock::a_node_whose_clock_is_off_changes_nothing;
pub use cut::a_node_that_is_cut_off_stops_in_time;
pub use dropped::a_batch_dropped_at_any_await_is_never_half_done;
pub use killer::an_event_that_aborts_its_process_ends_dead_alone;
pub use locked_row::one_locked_row_delays_itself_only;
pub use node::{Kind, play};
pub use order::ordered_events_stay_in_order_whatever_happens;
pub use stop::{
    a_stopped_process_settles_nothing_it_lost, stopped_processes_of_any_kind_stop_nobody_else,
    stopped_processes_stop_nobody_else,
};

use crate::conformance::ForeignLock;
use crate::nodes::NodesHarness;
use crate::process::Node;

/// The type of every event here.
pub(crate) const EVENT: &str = "order.placed";

/// A database with an application that writes to it, and nodes in other processes.
#[async_trait]
pub trait OrdealHarness: NodesHarness<Store: RelayStore> {
    /// Locks a row as somebody does who opened a transaction and went to lunch.
    async fn lock_row(&self, id: EventId) -> Box<dyn ForeignLock>;

    /// Starts a process with a test that [plays](play) a node, run by `runner` if there is one, and
    /// told these things by its environment.
    fn node(&self, runner: &[&str], told: &[(&str, &str)]) -> Node;

    /// Where the server listens.
    fn server(&self) -> SocketAddr;

    /// Another node's store on the same tables, that reaches the server at another address.
    async fn store_at(&self, server: SocketAddr) -> Self::Store;
}
