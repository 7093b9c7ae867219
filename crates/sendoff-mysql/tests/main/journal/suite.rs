//! The suite every journal passes.

use std::time::Duration;

use mysql_async::TxOpts;
use mysql_async::prelude::Queryable;
use sendoff_core::journal::publish::PairId;
use sendoff_core::journal::{Append, Position};
use sendoff_engine::journal::{AppendError, AppendIn, Journal, Receipt};
use sendoff_mysql::MysqlJournal;
use sendoff_testkit::conformance::ForeignLock;
use sendoff_testkit::journal::{Ending, JournalHarness, PublishHarness, async_trait};

use super::{Log, committed, journal};
use crate::place::{MARIADB, MYSQL, Place};
use crate::suites::Operator;

pub(super) struct OnServer {
    pub(super) journal: Log,
    pub(super) place: Place,
}

impl OnServer {
    pub(super) async fn open(server: &str) -> Self {
        let place = Place::on(server).await;
        Self { journal: journal(&place).await, place }
    }
}

#[async_trait]
impl JournalHarness for OnServer {
    type Store = MysqlJournal;

    fn journal(&self) -> &Journal<MysqlJournal> {
        &self.journal
    }

    async fn append_in(
        &self,
        append: &Append,
        open: Duration,
        ending: Ending,
    ) -> Result<Vec<Receipt>, AppendError> {
        let mut conn = committed(&self.place).await;
        let mut tx = conn.start_transaction(TxOpts::new()).await.unwrap();
        let receipts = self.journal.store().append_in(&mut tx, append).await?;
        tokio::time::sleep(open).await;
        match ending {
            Ending::Commit => tx.commit().await.unwrap(),
            Ending::RollBack => tx.rollback().await.unwrap(),
        }
        Ok(receipts)
    }
}

#[async_trait]
impl PublishHarness for OnServer {
    async fn elsewhere(&self) -> Journal<MysqlJournal> {
        journal(&self.place).await
    }

    async fn sql(&self, statement: &str) -> bool {
        self.place.run(statement).await;
        true
    }

    async fn lose_after(&self, position: Position) {
        self.place
            .run(&format!(
                "delete from journal_event where position > {position};
                 delete from journal_tag where position > {position};
                 update journal_cursor set last_position = {position}
                  where last_position > {position};
                 update journal_floor set position = {position} where position > {position};
                 alter table journal_event auto_increment = 1"
            ))
            .await;
    }

    async fn lock_nodes(&self) -> Option<Box<dyn ForeignLock>> {
        let mut conn = self.place.conn().await;
        conn.query_drop("begin; select * from journal_node for update").await.unwrap();
        Some(Box::new(Operator(conn)))
    }

    async fn lock_cursor(&self, pair: &PairId) -> Option<Box<dyn ForeignLock>> {
        let mut conn = self.place.conn().await;
        let (topic, publisher) = (pair.topic(), pair.publisher());
        let lock = format!(
            "begin; update journal_cursor set status = 'PAUSED'
              where topic = '{topic}' and publisher = '{publisher}'"
        );
        conn.query_drop(lock).await.unwrap();
        Some(Box::new(Operator(conn)))
    }
}

/// Holds J1, J2, J6 and J13.
mod on_mariadb {
    use super::*;

    sendoff_testkit::journal_suite!(OnServer::open(MARIADB).await);

    /// Holds J3 to J9, J11 and J12.
    mod publish {
        use super::*;

        sendoff_testkit::publish_suite!(OnServer::open(MARIADB).await);
    }

    mod retention {
        use super::*;

        sendoff_testkit::journal_retain_suite!(OnServer::open(MARIADB).await);
    }
}

/// Holds J1, J2, J6 and J13.
mod on_mysql {
    use super::*;

    sendoff_testkit::journal_suite!(OnServer::open(MYSQL).await);

    /// Holds J3 to J9, J11 and J12.
    mod publish {
        use super::*;

        sendoff_testkit::publish_suite!(OnServer::open(MYSQL).await);
    }

    mod retention {
        use super::*;

        sendoff_testkit::journal_retain_suite!(OnServer::open(MYSQL).await);
    }
}
