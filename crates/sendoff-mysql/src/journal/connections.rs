//! The journal's connections.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use mysql_async::Row;
use sendoff_engine::journal::{Lending, Patience, Purpose};
use sendoff_engine::store::StoreError;

use crate::connect::Connector;
use crate::link::Link;
use crate::wire::Literal;

pub(super) type Lent<'c> = sendoff_engine::journal::Lent<'c, Link>;

pub(super) struct Connections {
    links: Lending<Link>,
    patience: Duration,
}

impl Connections {
    /// So many, for callers of so much patience.
    pub(super) fn new(connector: &Arc<Connector>, count: usize, patience: Duration) -> Self {
        Self { links: Lending::new(count, || Link::new(Arc::clone(connector))), patience }
    }

    /// Refuses everything from now on.
    pub(super) async fn close(&self) {
        for link in self.links.close() {
            link.close().await;
        }
    }

    /// A caller's, who begins to wait.
    pub(super) fn patience(&self) -> Patience {
        Patience::of(self.patience)
    }

    /// What is left of it for locks, in the whole seconds that servers count, where that is less than our
    /// sessions wait by themselves.
    pub(super) fn hurry(&self, patience: Patience) -> Option<Literal> {
        let left = patience.left().as_millis().div_ceil(1_000).max(1);
        let left = i64::try_from(left).unwrap_or(i64::MAX);
        (left < i64::try_from(self.patience.as_secs()).unwrap_or(i64::MAX))
            .then(|| Literal::number(left))
    }

    /// Runs a text that needs no transaction, and returns the rows of its last result.
    pub(super) async fn query(&self, purpose: Purpose, text: &str) -> Result<Vec<Row>, StoreError> {
        self.lend(purpose, self.patience()).await?.link().query(text).await
    }
}

/// A connection that nobody uses is lent, until it is dropped.
impl Deref for Connections {
    type Target = Lending<Link>;

    fn deref(&self) -> &Lending<Link> {
        &self.links
    }
}
