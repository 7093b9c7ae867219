//! The suite every journal passes.

use sendoff_core::journal::Position;
use sendoff_core::journal::publish::PairId;
use sendoff_engine::journal::publish::SettleInError;
use sendoff_engine::journal::{AppendIn, Journal};
use sendoff_postgres::PostgresJournal;
use sendoff_testkit::conformance::ForeignLock;
use sendoff_testkit::journal::publish::losing_after;
use sendoff_testkit::journal::{Ending, Projecting, PublishHarness, async_trait};

use super::drivers::Through;
use super::drivers::tokio_postgres::Own;
use super::{journal, journal_with, partitioned};
use crate::place::{NEWER_SERVER, Place, SERVER};
use crate::suites::Locker;

/// Whose transactions are those of the store's own driver.
pub(super) type OnServer = Through<Own>;

impl OnServer {
    pub(super) async fn on(server: &str) -> Self {
        let place = Place::on(server);
        Self { journal: journal(&place).await, place, driver: Own }
    }

    /// In partitions of ten positions, and a tail after the third.
    pub(super) async fn in_partitions(server: &str) -> Self {
        let place = Place::on(server);
        Self { journal: journal_with(&place, partitioned(&place, 10)).await, place, driver: Own }
    }
}

#[async_trait]
impl PublishHarness for OnServer {
    async fn elsewhere(&self) -> Journal<PostgresJournal> {
        journal(&self.place).await
    }

    async fn settle_in(&self, projecting: &Projecting) -> Result<(), SettleInError> {
        let Projecting { facts, effect, ending } = projecting;
        let mut client = self.place.client().await;
        let mut tx = client.transaction().await.unwrap();
        self.journal.store().append_in(&mut tx, effect).await.unwrap();
        let settled = self.journal.settle_in(facts, &mut tx).await;
        match ending {
            Ending::Commit if settled.is_ok() => tx.commit().await.unwrap(),
            _ => tx.rollback().await.unwrap(),
        }
        settled
    }

    async fn lock_nodes(&self) -> Option<Box<dyn ForeignLock>> {
        let client = self.place.client().await;
        let lock = format!("begin; select from {}.journal_node for update", self.place.schema);
        client.batch_execute(&lock).await.unwrap();
        Some(Box::new(Locker(client)))
    }

    async fn sql(&self, statement: &str) -> bool {
        self.place.run(statement).await;
        true
    }

    async fn lose_after(&self, position: Position) {
        let numbers = format!("select setval('journal_position', {position})");
        self.place.run(&format!("{};\n{numbers}", losing_after(position))).await;
    }

    async fn lock_cursor(&self, pair: &PairId) -> Option<Box<dyn ForeignLock>> {
        let client = self.place.client().await;
        let (schema, topic, publisher) = (&self.place.schema, pair.topic(), pair.publisher());
        let lock = format!(
            "begin; update {schema}.journal_cursor set status = 'PAUSED'
              where topic = '{topic}' and publisher = '{publisher}'"
        );
        client.batch_execute(&lock).await.unwrap();
        Some(Box::new(Locker(client)))
    }
}

mod retention {
    use super::*;

    sendoff_testkit::journal_retain_suite!(OnServer::on(SERVER).await);
}

mod retention_in_partitions {
    use super::*;

    sendoff_testkit::journal_retain_suite!(OnServer::in_partitions(SERVER).await);
}

mod newest_retention_in_partitions {
    use super::*;

    sendoff_testkit::journal_retain_suite!(OnServer::in_partitions(NEWER_SERVER).await);
}

/// Holds J1, J2, J6 and J13.
mod installed {
    use super::*;

    sendoff_testkit::journal_suite!(OnServer::on(SERVER).await);

    /// Holds J3, J4, J5, J6, J7, J8, J9, J11 and J12.
    mod publish {
        use super::*;

        sendoff_testkit::publish_suite!(OnServer::on(SERVER).await);
    }
}

/// Holds J1, J2, J6 and J13: on the newest version as well.
mod newest {
    use super::*;

    sendoff_testkit::journal_suite!(OnServer::on(NEWER_SERVER).await);

    /// Holds J3, J4, J5, J6, J7, J8, J9, J11 and J12: on the newest version as well.
    mod publish {
        use super::*;

        sendoff_testkit::publish_suite!(OnServer::on(NEWER_SERVER).await);
    }
}

/// Holds J1, J2, J6 and J13: in partitions, over their boundaries and in the tail.
mod in_partitions {
    use super::*;

    sendoff_testkit::journal_suite!(OnServer::in_partitions(SERVER).await);

    /// Holds J3 to J9, J11 and J12: in partitions as well.
    mod publish {
        use super::*;

        sendoff_testkit::publish_suite!(OnServer::in_partitions(SERVER).await);
    }
}

/// The same on the newest version.
mod newest_in_partitions {
    use super::*;

    sendoff_testkit::journal_suite!(OnServer::in_partitions(NEWER_SERVER).await);
}
