//! A node that publishes, on a session of its own.

use async_trait::async_trait;
use mysql_async::{Conn, Row};
use sendoff_core::EventId;
use sendoff_engine::lead::{Beat, Membership, NodeCard};
use sendoff_engine::store::StoreError;

use super::store::MysqlJournal;
use crate::error::{code, failed, number};
use crate::link::last_rows;
use crate::rows;
use crate::wire::Literal;

/// Why a node whose session nobody sees cannot prove that it is alive.
const LOCKED: &str = "somebody has locked this node's row in the table of nodes";

pub(super) struct MysqlMember {
    journal: MysqlJournal,
    owner: Literal,
    /// Its session, which holds the lock: a beat that is answered on it proves that it is held. None
    /// while one is under way, and after one that was not waited for.
    session: Option<Conn>,
    /// Whether others see the lock, and so that the session is there.
    is_seen: bool,
}

impl MysqlMember {
    pub(super) async fn join(journal: MysqlJournal, card: &NodeCard) -> Result<Self, StoreError> {
        let session = Some(journal.lasting().open().await?);
        let owner = Literal::text(&card.owner);
        let mut member = Self { journal, owner, session, is_seen: false };
        let name = Literal::text(&format!("sendoff node {}", EventId::generate()));
        let lock = member.journal.sql().journal.node_lock.with(&[("name", &name)]);
        let locked = member.query(&lock).await?;
        let is_locked =
            locked.first().is_some_and(|row| rows::integer(row, 0).is_ok_and(|n| n == 1));
        member.is_seen = is_locked;
        // Without one the others wait for the whole lease.
        let name = if is_locked { name } else { Literal::null() };
        let knows: Vec<_> = card.knows.iter().collect();
        // A list of numbers always serialises.
        let knows = serde_json::to_string(&knows).unwrap_or_default();
        let join = member.journal.sql().journal.join.with(&[
            ("owner", &member.owner),
            ("name", &name),
            ("renew", &Literal::span(card.renew)),
            ("lease", &Literal::span(card.lease)),
            ("knows", &Literal::text(&knows)),
        ]);
        member.query(&join).await?;
        Ok(member)
    }

    async fn query(&mut self, text: &str) -> Result<Vec<Row>, StoreError> {
        let mut session = self.session.take().ok_or_else(forgotten)?;
        let rows = last_rows(&mut session, text).await.map_err(failed)?;
        self.session = Some(session);
        Ok(rows)
    }
}

#[async_trait]
impl Membership for MysqlMember {
    async fn beat(&mut self) -> Result<Beat, StoreError> {
        self.journal.check_open()?;
        let beat = self.journal.sql().journal.beat.with(&[("owner", &self.owner)]);
        let mut session = self.session.take().ok_or_else(forgotten)?;
        let written = last_rows(&mut session, &beat).await;
        let is_locked = matches!(
            written.as_ref().err().and_then(number),
            Some(code::LOCK_TIMEOUT | code::NOWAIT)
        );
        if is_locked {
            last_rows(&mut session, "rollback").await.map_err(failed)?;
            self.session = Some(session);
            return if self.is_seen {
                Ok(Beat::Locked)
            } else {
                Err(StoreError::Busy(LOCKED.into()))
            };
        }
        let rows = written.map_err(failed)?;
        self.session = Some(session);
        if rows.first().map_or(Ok(0), |row| rows::integer(row, 0))? == 0 {
            return Err(forgotten());
        }
        Ok(Beat::Written)
    }

    async fn leave(mut self: Box<Self>) -> Result<(), StoreError> {
        let leave = self.journal.sql().journal.leave.with(&[("owner", &self.owner)]);
        self.query(&leave).await.map(drop)
    }
}

fn forgotten() -> StoreError {
    StoreError::Unavailable(Forgotten.into())
}

#[derive(Debug, thiserror::Error)]
#[error("this node is not in the table of nodes any more, or its session is gone")]
struct Forgotten;
