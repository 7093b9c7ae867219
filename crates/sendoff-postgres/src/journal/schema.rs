//! Bringing the journal's tables up to date. Their versions are their own: who has an outbox needs no
//! journal, and the other way round.

use std::borrow::Cow;

use sendoff_engine::store::StoreError;
use tokio_postgres::Row;

use super::connections::Connections;
use super::options::JournalOptions;
use super::store::PostgresJournal;
use crate::migrations::{Ask, Migrations, Versions};
use crate::names::Names;
use crate::sql::Statement;

/// Every migration, the oldest first. What a published one does never changes.
const MIGRATIONS: [&str; 2] = [
    include_str!("../../migrations/journal/0001_journal.sql"),
    include_str!("../../migrations/journal/0002_publish.sql"),
];

fn migrations(names: &Names) -> Migrations<'_> {
    Migrations { all: &MIGRATIONS, names, versions: "journal_schema", table: "journal_event" }
}

fn versions(journal: &PostgresJournal) -> Versions<'_> {
    let sql = journal.sql();
    Versions { known: &sql.journal_schema_known, version: &sql.journal_schema_version }
}

impl Ask for Connections {
    async fn ask(&self, statement: &Statement) -> Result<Vec<Row>, StoreError> {
        self.query(statement, &[]).await
    }
}

/// Whether this version can work with what is there. Tables that are not there yet are no error.
pub(super) async fn check(journal: &PostgresJournal) -> Result<(), StoreError> {
    let migrations = migrations(journal.names());
    migrations.installed(journal.connections(), versions(journal)).await.map(drop)
}

/// Whether everything is there.
pub(super) async fn check_installed(journal: &PostgresJournal) -> Result<(), StoreError> {
    let migrations = migrations(journal.names());
    migrations.check_installed(journal.connections(), versions(journal)).await
}

/// Runs what is missing, in one transaction on a connection of its own: whoever drops the future
/// drops the connection, and the server undoes it.
pub(super) async fn migrate(journal: &PostgresJournal) -> Result<(), StoreError> {
    let opened = journal.connector().open(None).await?;
    let (client, migrations) = (&opened.client, migrations(journal.names()));
    let run = async {
        let missing = migrations.begin(client, versions(journal)).await?;
        migrations.finish(client, missing, Cow::Borrowed).await
    };
    run.await.inspect_err(|_| opened.task.abort())
}

/// Everything that [`PostgresJournal::migrate`] would run on an empty database, as a script.
///
/// Running it a second time fails and changes nothing.
pub fn journal_migration_sql(options: &JournalOptions) -> Result<String, StoreError> {
    options.check()?;
    let names = Names::new(options.server.schema.as_ref(), options.server.prefix.as_ref());
    Ok(migrations(&names).script(Cow::Borrowed))
}
