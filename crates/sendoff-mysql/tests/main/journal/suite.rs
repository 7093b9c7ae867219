//! The suite every journal passes.

use mysql_async::TxOpts;
use mysql_async::prelude::Queryable;
use sendoff_core::journal::Position;
use sendoff_core::journal::publish::PairId;
use sendoff_engine::journal::publish::SettleInError;
use sendoff_engine::journal::{AppendIn, Journal};
use sendoff_mysql::MysqlJournal;
use sendoff_testkit::conformance::ForeignLock;
use sendoff_testkit::journal::publish::losing_after;
use sendoff_testkit::journal::{Ending, Projecting, PublishHarness, async_trait};

use super::drivers::{MysqlAsync, Through};
use super::{committed, journal};
use crate::place::{MARIADB, MYSQL};
use crate::suites::Operator;

/// Whose transactions are those of the store's own driver.
pub(super) type OnServer = Through<MysqlAsync>;

#[async_trait]
impl PublishHarness for OnServer {
    async fn elsewhere(&self) -> Journal<MysqlJournal> {
        journal(&self.place).await
    }

    async fn settle_in(&self, projecting: &Projecting) -> Result<(), SettleInError> {
        let Projecting { facts, effect, ending } = projecting;
        let mut conn = committed(&self.place).await;
        let mut tx = conn.start_transaction(TxOpts::new()).await.unwrap();
        self.journal.store().append_in(&mut tx, effect).await.unwrap();
        let settled = self.journal.settle_in(facts, &mut tx).await;
        match ending {
            Ending::Commit if settled.is_ok() => tx.commit().await.unwrap(),
            _ => tx.rollback().await.unwrap(),
        }
        settled
    }

    async fn lock_nodes(&self) -> Option<Box<dyn ForeignLock>> {
        let mut conn = self.place.conn().await;
        conn.query_drop("begin; select * from journal_node for update").await.unwrap();
        Some(Box::new(Operator(conn)))
    }

    async fn sql(&self, statement: &str) -> bool {
        self.place.run(statement).await;
        true
    }

    async fn lose_after(&self, position: Position) {
        let numbers = format!(
            "update journal_floor set position = {position} where position > {position};
             alter table journal_event auto_increment = 1"
        );
        self.place.run(&format!("{};\n{numbers}", losing_after(position))).await;
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

    sendoff_testkit::journal_suite!(OnServer::on(MARIADB).await);

    /// Holds J3 to J9, J11 and J12.
    mod publish {
        use super::*;

        sendoff_testkit::publish_suite!(OnServer::on(MARIADB).await);
    }

    mod retention {
        use super::*;

        sendoff_testkit::journal_retain_suite!(OnServer::on(MARIADB).await);
    }
}

/// Holds J1, J2, J6 and J13.
mod on_mysql {
    use super::*;

    sendoff_testkit::journal_suite!(OnServer::on(MYSQL).await);

    /// Holds J3 to J9, J11 and J12.
    mod publish {
        use super::*;

        sendoff_testkit::publish_suite!(OnServer::on(MYSQL).await);
    }

    mod retention {
        use super::*;

        sendoff_testkit::journal_retain_suite!(OnServer::on(MYSQL).await);
    }
}
