//! The journal's connections.

use std::sync::Arc;

use mysql_async::Row;
use sendoff_engine::journal::{Lending, Purpose};
use sendoff_engine::store::StoreError;

use crate::connect::Connector;
use crate::link::Link;

pub(super) type Lent<'c> = sendoff_engine::journal::Lent<'c, Link>;

pub(super) struct Connections(Lending<Link>);

impl Connections {
    pub(super) fn new(connector: &Arc<Connector>, count: usize) -> Self {
        Self(Lending::new(count, || Link::new(Arc::clone(connector))))
    }

    /// A connection that nobody uses, until it is dropped.
    pub(super) async fn lend(&self, purpose: Purpose) -> Result<Lent<'_>, StoreError> {
        self.0.lend(purpose).await
    }

    /// Runs a text that needs no transaction, and returns the rows of its last result.
    pub(super) async fn query(&self, purpose: Purpose, text: &str) -> Result<Vec<Row>, StoreError> {
        self.lend(purpose).await?.link().query(text).await
    }

    /// Refuses everything from now on.
    pub(super) async fn close(&self) {
        for link in self.0.close() {
            link.close().await;
        }
    }
}
