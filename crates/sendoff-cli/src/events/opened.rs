use std::sync::Arc;

use sendoff::letters::{DeadLetters, LetterStore};

use crate::database::{self, Database, Named};

/// The dead letters of an outbox that is there, whatever it lives in.
pub(super) async fn opened(database: Database) -> anyhow::Result<DeadLetters> {
    let store: Arc<dyn LetterStore> = match database.named()? {
        Named::Postgres { url, options } => Arc::new(database::connect(&url, options).await?),
        Named::Mysql { url, options } => Arc::new(database::connect_mysql(&url, options).await?),
        Named::Sqlite { url, options } => Arc::new(database::open(&url, options).await?),
    };
    Ok(DeadLetters::new(store))
}
