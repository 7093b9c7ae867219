//! What stores in SQL databases share, whichever driver they use.
//!
//! Not here: what the engine asks of a store (see [`store`](super)), and anything that a driver does
//! its own way.

mod address;
pub mod cursor;
pub mod end;
pub mod event;
pub mod fact;
mod foreign;
pub mod key;
pub mod letter;
mod limits;
mod lookout;
mod names;
mod open;
mod reach;
pub mod replay;
mod row;
mod text;
mod tls;
mod version;

pub use address::Address;
pub use foreign::Unsupported;
pub use limits::check_within;
pub use lookout::{Lookout, SIGHT_ROWS, Sight};
pub use names::put_names;
pub use open::Open;
pub use reach::{NoConnection, place};
pub use row::{Cells, Column};
pub use text::text;
pub use tls::Tls;
pub use version::{Migrated, after, check_complete, missing};
