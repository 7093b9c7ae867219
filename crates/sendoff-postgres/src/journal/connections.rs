//! A few connections, each used by one at a time: whoever waits for a lock makes nobody wait behind
//! it who does not want that lock.

use std::sync::{Arc, Mutex, PoisonError};

use sendoff_engine::store::StoreError;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_postgres::Row;

use crate::connect::Connector;
use crate::link::{Kept, Link, Params};
use crate::sql::Statement;

pub(super) struct Connections {
    links: Vec<Link>,
    /// The last one used is the first to be used again, so that those nobody needs are never opened.
    free: Mutex<Vec<usize>>,
    permits: Semaphore,
}

impl Connections {
    pub(super) fn new(connector: &Arc<Connector>, statements: Kept, count: usize) -> Self {
        Self {
            links: (0..count).map(|_| Link::new(Arc::clone(connector), statements)).collect(),
            free: Mutex::new((0..count).rev().collect()),
            permits: Semaphore::new(count),
        }
    }

    /// Runs one statement, which is a transaction of its own, on a connection that nobody uses.
    pub(super) async fn query(
        &self,
        statement: &Statement,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.lend().await?.link().query(statement, params).await
    }

    /// A connection that nobody uses, until it is dropped.
    pub(super) async fn lend(&self) -> Result<Lent<'_>, StoreError> {
        let permit = self.permits.acquire().await.map_err(|_| StoreError::Closed)?;
        let at = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        // There are as many as there are permits.
        let at = at.ok_or(StoreError::Closed)?;
        Ok(Lent { connections: self, at, _permit: permit })
    }

    /// Refuses everything from now on.
    pub(super) async fn close(&self) {
        self.permits.close();
        for link in &self.links {
            link.close().await;
        }
    }
}

/// Gives the connection back when it is dropped, also with the future that has it.
pub(super) struct Lent<'c> {
    connections: &'c Connections,
    at: usize,
    _permit: SemaphorePermit<'c>,
}

impl Lent<'_> {
    pub(super) fn link(&self) -> &Link {
        &self.connections.links[self.at]
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let free = self.connections.free.lock();
        free.unwrap_or_else(PoisonError::into_inner).push(self.at);
    }
}
