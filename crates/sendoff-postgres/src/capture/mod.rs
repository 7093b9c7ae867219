//! Events enter through the application's own driver.

mod commit;
mod deadpool;
mod draft;
mod insert;
mod prepared;
mod tokio_postgres;

pub use prepared::{PreparedClient, PreparedTransaction};
