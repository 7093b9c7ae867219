//! A node that publishes, on a session of its own.

use async_trait::async_trait;
use sendoff_engine::journal::Purpose;
use sendoff_engine::lead::{Beat, Membership, NodeCard};
use sendoff_engine::store::StoreError;
use tokio_postgres::Row;

use super::store::PostgresJournal;
use crate::connect::Opened;
use crate::error::failed;
use crate::link::{Kept, Params, query_unnamed};
use crate::rows::get;
use crate::sql::Statement;
use crate::wire::Span;

/// How often another number is tried for the session's lock. A number is somebody else's once in
/// thousands of millions of times.
const LOCK_TRIES: usize = 8;

/// Why a node that has no session cannot prove that it is alive.
const LOCKED: &str = "somebody has locked this node's row in the table of nodes";

pub(super) struct PostgresMember {
    journal: PostgresJournal,
    owner: String,
    /// Its session, which holds the lock: a beat that is answered on it proves that it is held. None
    /// behind a pooler, where a session is not one's own.
    session: Option<Opened>,
    /// Whether others see the lock, and so that the session is there.
    is_seen: bool,
}

impl PostgresMember {
    pub(super) async fn join(
        journal: PostgresJournal,
        card: &NodeCard,
    ) -> Result<Self, StoreError> {
        let session = match Kept::from(journal.options().server.doorbell) {
            Kept::Unnamed => None,
            Kept::Prepared => {
                let opened = journal.connector().open(None).await;
                Some(opened.map_err(|error| StoreError::Unavailable(error.into()))?)
            }
        };
        let owner = card.owner.to_string();
        let mut member = Self { journal, owner, session, is_seen: false };
        let lock = member.lock().await?;
        member.is_seen = lock.is_some();
        let knows: Vec<i64> = card.knows.iter().copied().collect();
        let (renew, lease) = (Span(card.renew), Span(card.lease));
        let join = &member.journal.sql().journal.join;
        member.query(join, &[&member.owner, &lock, &renew, &lease, &knows]).await?;
        Ok(member)
    }

    /// Takes a lock of this session's own; its number is what others look for.
    async fn lock(&self) -> Result<Option<i32>, StoreError> {
        if self.session.is_none() {
            return Ok(None);
        }
        for _ in 0..LOCK_TRIES {
            let number = fastrand::i32(1..);
            let rows = self.query(&self.journal.sql().journal.node_lock, &[&number]).await?;
            if rows.first().map_or(Ok(false), |row| get(row, 0))? {
                return Ok(Some(number));
            }
        }
        // Without one the others wait for the whole lease.
        Ok(None)
    }

    async fn query(
        &self,
        statement: &Statement,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        match &self.session {
            Some(opened) => query_unnamed(&opened.client, statement, params).await.map_err(failed),
            None => self.journal.connections().query(Purpose::Publish, statement, params).await,
        }
    }
}

#[async_trait]
impl Membership for PostgresMember {
    async fn beat(&mut self) -> Result<Beat, StoreError> {
        self.journal.check_open()?;
        let rows = self.query(&self.journal.sql().journal.beat, &[&self.owner]).await?;
        let Some(row) = rows.first() else {
            return Err(StoreError::Unavailable(Forgotten.into()));
        };
        match get(row, 0)? {
            true => Ok(Beat::Written),
            false if self.is_seen => Ok(Beat::Locked),
            false => Err(StoreError::Busy(LOCKED.into())),
        }
    }

    async fn leave(self: Box<Self>) -> Result<(), StoreError> {
        self.query(&self.journal.sql().journal.leave, &[&self.owner]).await.map(drop)
    }
}

impl Drop for PostgresMember {
    fn drop(&mut self) {
        // A session that may be stuck must not keep its lock.
        if let Some(opened) = &self.session {
            opened.task.abort();
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("this node is not in the table of nodes any more")]
struct Forgotten;
