//! The suite every journal passes.

use std::time::Duration;

use sendoff_core::journal::Append;
use sendoff_engine::journal::{AppendError, AppendIn, Journal, Receipt};
use sendoff_postgres::PostgresJournal;
use sendoff_testkit::journal::{Ending, JournalHarness, async_trait};

use super::{Log, journal};
use crate::place::{NEWER_SERVER, Place, SERVER};

pub(super) struct OnServer {
    pub(super) journal: Log,
    pub(super) place: Place,
}

impl OnServer {
    pub(super) async fn open(server: &str) -> Self {
        let place = Place::on(server);
        Self { journal: journal(&place).await, place }
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

/// Holds J1, J2, J6 and J13.
mod installed {
    use super::*;

    sendoff_testkit::journal_suite!(OnServer::open(SERVER).await);
}

/// Holds J1, J2, J6 and J13: on the newest version as well.
mod newest {
    use super::*;

    sendoff_testkit::journal_suite!(OnServer::open(NEWER_SERVER).await);
}
