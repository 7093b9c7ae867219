//! The journal's connections.

use std::sync::Arc;

use sendoff_engine::journal::{Lending, Purpose};
use sendoff_engine::store::StoreError;
use tokio_postgres::Row;

use crate::connect::Connector;
use crate::link::{Kept, Link, Params};
use crate::sql::Statement;

pub(super) type Lent<'c> = sendoff_engine::journal::Lent<'c, Link>;

pub(super) struct Connections(Lending<Link>);

impl Connections {
    pub(super) fn new(connector: &Arc<Connector>, statements: Kept, count: usize) -> Self {
        Self(Lending::new(count, || Link::new(Arc::clone(connector), statements)))
    }

    /// Runs one statement, which is a transaction of its own, on a connection that nobody uses.
    pub(super) async fn query(
        &self,
        purpose: Purpose,
        statement: &Statement,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.lend(purpose).await?.link().query(statement, params).await
    }

    /// A connection that nobody uses, until it is dropped.
    pub(super) async fn lend(&self, purpose: Purpose) -> Result<Lent<'_>, StoreError> {
        self.0.lend(purpose).await
    }

    /// Refuses everything from now on.
    pub(super) async fn close(&self) {
        for link in self.0.close() {
            link.close().await;
        }
    }
}
