//! The journal's connections.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use sendoff_engine::journal::{Lending, Patience, Purpose};
use sendoff_engine::store::StoreError;
use tokio_postgres::Row;

use crate::connect::Connector;
use crate::link::{Kept, Link, Params};
use crate::sql::Statement;

pub(super) type Lent<'c> = sendoff_engine::journal::Lent<'c, Link>;

pub(super) struct Connections {
    links: Lending<Link>,
    patience: Duration,
}

impl Connections {
    /// So many, for callers of so much patience.
    pub(super) fn new(
        connector: &Arc<Connector>,
        statements: Kept,
        count: usize,
        patience: Duration,
    ) -> Self {
        let links = Lending::new(count, || Link::new(Arc::clone(connector), statements));
        Self { links, patience }
    }

    /// A caller's, who begins to wait.
    pub(super) fn patience(&self) -> Patience {
        Patience::of(self.patience)
    }

    /// Runs one statement, which is a transaction of its own, on a connection that nobody uses.
    pub(super) async fn query(
        &self,
        purpose: Purpose,
        statement: &Statement,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let lent = self.lend(purpose, self.patience()).await?;
        lent.link().query(statement, params).await
    }

    /// Refuses everything from now on.
    pub(super) async fn close(&self) {
        for link in self.links.close() {
            link.close().await;
        }
    }
}

/// A connection that nobody uses is lent, until it is dropped.
impl Deref for Connections {
    type Target = Lending<Link>;

    fn deref(&self) -> &Lending<Link> {
        &self.links
    }
}
