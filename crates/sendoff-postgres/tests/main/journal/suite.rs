//! The suite every journal passes.

use std::time::Duration;

use sendoff_core::journal::publish::PairId;
use sendoff_core::journal::{Append, Position};
use sendoff_engine::journal::{AppendError, AppendIn, Journal, Receipt};
use sendoff_postgres::PostgresJournal;
use sendoff_testkit::conformance::ForeignLock;
use sendoff_testkit::journal::{Ending, JournalHarness, PublishHarness, async_trait};

use super::{Log, journal, journal_with, partitioned};
use crate::place::{NEWER_SERVER, Place, SERVER};
use crate::suites::Locker;

pub(super) struct OnServer {
    pub(super) journal: Log,
    pub(super) place: Place,
}

impl OnServer {
    pub(super) async fn open(server: &str) -> Self {
        let place = Place::on(server);
        Self { journal: journal(&place).await, place }
    }

    /// In partitions of ten positions, and a tail behind the third.
    pub(super) async fn in_partitions(server: &str) -> Self {
        let place = Place::on(server);
        Self { journal: journal_with(&place, partitioned(&place, 10)).await, place }
    }
}

#[async_trait]
impl JournalHarness for OnServer {
    type Store = PostgresJournal;

    fn journal(&self) -> &Journal<PostgresJournal> {
        &self.journal
    }

    async fn append_in(
        &self,
        append: &Append,
        open: Duration,
        ending: Ending,
    ) -> Result<Vec<Receipt>, AppendError> {
        let mut client = self.place.client().await;
        let mut tx = client.transaction().await.unwrap();
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
    async fn elsewhere(&self) -> Journal<PostgresJournal> {
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
                 select setval('journal_position', {position})"
            ))
            .await;
    }

    async fn lock_nodes(&self) -> Option<Box<dyn ForeignLock>> {
        let client = self.place.client().await;
        let lock = format!("begin; select from {}.journal_node for update", self.place.schema);
        client.batch_execute(&lock).await.unwrap();
        Some(Box::new(Locker(client)))
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

    sendoff_testkit::journal_retain_suite!(OnServer::open(SERVER).await);
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

    sendoff_testkit::journal_suite!(OnServer::open(SERVER).await);

    /// Holds J3, J4, J5, J6, J7, J8, J9, J11 and J12.
    mod publish {
        use super::*;

        sendoff_testkit::publish_suite!(OnServer::open(SERVER).await);
    }
}

/// Holds J1, J2, J6 and J13: on the newest version as well.
mod newest {
    use super::*;

    sendoff_testkit::journal_suite!(OnServer::open(NEWER_SERVER).await);

    /// Holds J3, J4, J5, J6, J7, J8, J9, J11 and J12: on the newest version as well.
    mod publish {
        use super::*;

        sendoff_testkit::publish_suite!(OnServer::open(NEWER_SERVER).await);
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
