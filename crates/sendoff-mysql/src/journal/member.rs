//! A node that publishes, on a session of its own.

use async_trait::async_trait;
use mysql_async::{Conn, Row};
use sendoff_core::EventId;
use sendoff_engine::journal::publish::{Membership, NodeCard};
use sendoff_engine::store::StoreError;

use super::store::MysqlJournal;
use crate::error::failed;
use crate::link::last_rows;
use crate::rows;
use crate::wire::Literal;

pub(super) struct MysqlMember {
    journal: MysqlJournal,
    owner: Literal,
    /// Its session, which holds the lock: a beat that is answered on it proves that it is held. None
    /// while one is under way, and after one that was not waited for.
    session: Option<Conn>,
}

impl MysqlMember {
    pub(super) async fn join(journal: MysqlJournal, card: &NodeCard) -> Result<Self, StoreError> {
        let session = Some(journal.lasting().open().await?);
        let owner = Literal::text(&card.owner);
        let mut member = Self { journal, owner, session };
        let name = Literal::text(&format!("sendoff node {}", EventId::generate()));
        let lock = member.journal.sql().journal_node_lock.with(&[("name", &name)]);
        let locked = member.query(&lock).await?;
        let is_locked =
            locked.first().is_some_and(|row| rows::integer(row, 0).is_ok_and(|n| n == 1));
        // Without one the others wait for the whole lease.
        let name = if is_locked { name } else { Literal::null() };
        let knows: Vec<_> = card.knows.iter().collect();
        // A list of numbers always serialises.
        let knows = serde_json::to_string(&knows).unwrap_or_default();
        let join = member.journal.sql().journal_join.with(&[
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
        let Some(mut session) = self.session.take() else {
            return Err(StoreError::Unavailable(Forgotten.into()));
        };
        let rows = last_rows(&mut session, text).await.map_err(failed)?;
        self.session = Some(session);
        Ok(rows)
    }
}

#[async_trait]
impl Membership for MysqlMember {
    async fn beat(&mut self) -> Result<(), StoreError> {
        self.journal.check_open()?;
        let beat = self.journal.sql().journal_beat.with(&[("owner", &self.owner)]);
        let rows = self.query(&beat).await?;
        if rows.first().map_or(Ok(0), |row| rows::integer(row, 0))? == 0 {
            return Err(StoreError::Unavailable(Forgotten.into()));
        }
        Ok(())
    }

    async fn leave(mut self: Box<Self>) -> Result<(), StoreError> {
        let leave = self.journal.sql().journal_leave.with(&[("owner", &self.owner)]);
        self.query(&leave).await.map(drop)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("this node is not in the table of nodes any more, or its session is gone")]
struct Forgotten;
