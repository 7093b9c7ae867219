//! The journal's tables. Their versions are their own: who has an outbox needs no journal, and the
//! other way round.

use sendoff_engine::store::StoreError;

use super::options::JournalOptions;
use super::store::MysqlJournal;
use crate::names::Names;
use crate::schema::{Installation, complete, lock, script};

/// Every migration, the oldest first. A published one never changes.
const MIGRATIONS: [&str; 4] = [
    include_str!("../../migrations/journal/0001_journal.sql"),
    include_str!("../../migrations/journal/0002_publish.sql"),
    include_str!("../../migrations/journal/0003_retain.sql"),
    include_str!("../../migrations/journal/0004_hole.sql"),
];

const VERSIONS: &str = "journal_schema";

fn installation(journal: &MysqlJournal) -> Installation<'_> {
    let (names, sql) = (journal.names(), journal.sql());
    Installation::new(names, sql, journal.connector(), VERSIONS, MIGRATIONS.len())
}

/// Whether this version can work with what is there. Tables that are not there yet are no error.
pub(super) async fn check(journal: &MysqlJournal) -> Result<(), StoreError> {
    installation(journal).found(journal.upkeep()).await.map(|_| ())
}

/// Whether everything is there.
pub(super) async fn check_installed(journal: &MysqlJournal) -> Result<(), StoreError> {
    complete(installation(journal).found(journal.upkeep()).await?, &journal.table())
}

pub(super) async fn migrate(journal: &MysqlJournal) -> Result<(), StoreError> {
    let steps = |missing, _| script(journal.names(), VERSIONS, &MIGRATIONS, missing);
    installation(journal).migrate(steps).await
}

/// Everything that [`MysqlJournal::migrate`] would run on an empty database, as a script for MySQL and
/// MariaDB alike. Run it in the journal's database.
///
/// Running it a second time changes nothing.
pub fn journal_migration_sql(options: &JournalOptions) -> Result<String, StoreError> {
    options.check()?;
    let names = Names::new(None, options.server.prefix.as_ref());
    let steps = script(&names, VERSIONS, &MIGRATIONS, MIGRATIONS.len());
    Ok(format!("{};\n{steps}", lock(&names, VERSIONS)))
}
