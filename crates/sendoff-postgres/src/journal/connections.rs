//! A few connections, each used by one at a time: whoever waits for a lock makes nobody wait behind
//! it who does not want that lock.

use std::sync::{Arc, Mutex, PoisonError};

use sendoff_engine::store::StoreError;
use tokio::sync::Semaphore;
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
        let _permit = self.permits.acquire().await.map_err(|_| StoreError::Closed)?;
        let taken = Taken { connections: self, at: self.take() };
        match taken.at {
            Some(at) => self.links[at].query(statement, params).await,
            // There are as many as there are permits.
            None => Err(StoreError::Closed),
        }
    }

    fn take(&self) -> Option<usize> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Refuses everything from now on.
    pub(super) async fn close(&self) {
        self.permits.close();
        for link in &self.links {
            link.close().await;
        }
    }
}

/// Gives the connection back, also where the future is dropped.
struct Taken<'c> {
    connections: &'c Connections,
    at: Option<usize>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let free = self.connections.free.lock();
        free.unwrap_or_else(PoisonError::into_inner).extend(self.at);
    }
}
