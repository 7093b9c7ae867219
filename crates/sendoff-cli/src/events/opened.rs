use std::sync::Arc;

use sendoff::letters::DeadLetters;

use crate::database::Database;

/// The dead letters of an outbox that is there, whatever it lives in.
pub(super) async fn opened(database: Database) -> anyhow::Result<DeadLetters> {
    Ok(DeadLetters::new(Arc::new(database.outbox().await?)))
}
