//! A journal that is there, whatever it lives in.

use std::sync::Arc;

use anyhow::Context;
use sendoff::any::AnyJournal;
use sendoff::journal::publish::{PublishStore, Publishers};
use sendoff::journal::{Journal, JournalStore};

use crate::database::Database;

/// A journal, to read and to operate.
pub(crate) struct Opened {
    pub(crate) journal: Journal<Arc<dyn JournalStore>>,
    pub(crate) publishers: Publishers<Arc<dyn PublishStore>>,
}

impl Opened {
    pub(crate) async fn of(database: Database) -> anyhow::Result<Self> {
        let store = opened(&database).await?;
        let publishers = Journal::new(store.publishing()).publishers();
        Ok(Self { journal: Journal::new(store.reading()), publishers })
    }
}

/// Its store.
pub(super) async fn opened(database: &Database) -> anyhow::Result<AnyJournal> {
    const MIGRATE: &str = "there is no journal to work on; `sendoff journal migrate` makes one";
    let url = database.url()?;
    AnyJournal::connect_existing(&url, &database.journal_options()).await.context(MIGRATE)
}
