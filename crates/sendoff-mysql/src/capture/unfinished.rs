//! Inserts that are dropped while they are under way.

use std::time::Duration;

use sendoff_core::report;
use sendoff_engine::store::StoreError;
use tokio::runtime::Handle;
use tokio::time::timeout;
use tracing::warn;

use crate::store::MysqlStore;
use crate::wire::Literal;

/// An insert that is under way. Dropped before it is answered, it ends its session.
///
/// sqlx 0.9 cannot be interrupted while it prepares a statement: what it has not read of the answer
/// it takes for the answer to the next statement, and then waits for more, for ever, be it in the
/// caller's COMMIT or in the pool, which loses the connection's place. Only the server can end that.
/// Then it is an error, and of the transaction nothing is left.
pub(super) struct Unfinished<'s> {
    store: &'s MysqlStore,
    session: Option<u64>,
}

const LIMIT: Duration = Duration::from_secs(10);

impl<'s> Unfinished<'s> {
    pub(super) fn new(store: &'s MysqlStore, session: u64) -> Self {
        Self { store, session: Some(session) }
    }

    /// The server said something, and the driver read it.
    pub(super) fn answered(mut self) {
        self.session = None;
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let (Some(session), Ok(runtime)) = (self.session.take(), Handle::try_current()) else {
            return;
        };
        let store = self.store.clone();
        runtime.spawn(async move {
            warn!(session, "a write was dropped during its insert: its session is ended");
            let kill = store.sql().end_session.with(&[("session", &Literal::session(session))]);
            let ended = timeout(LIMIT, store.links().proofs.query(&kill)).await;
            if let Err(error) = ended.unwrap_or(Err(StoreError::Timeout)) {
                warn!(session, error = report(&error), "the session could not be ended");
            }
        });
    }
}
