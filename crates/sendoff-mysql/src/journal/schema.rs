//! The journal's tables. Their versions are their own: who has an outbox needs no journal, and the
//! other way round.

use sendoff_engine::store::StoreError;
use sendoff_engine::store::frame::{Migrated, after};

use super::options::JournalOptions;
use super::store::MysqlJournal;
use crate::names::Names;
use crate::routine::{self, Routine};
use crate::schema::{Installation, lock, script};

/// Every migration, the oldest first. A published one never changes.
const MIGRATIONS: [&str; 5] = [
    include_str!("../../migrations/journal/0001_journal.sql"),
    include_str!("../../migrations/journal/0002_publish.sql"),
    include_str!("../../migrations/journal/0003_retain.sql"),
    include_str!("../../migrations/journal/0004_hole.sql"),
    include_str!("../../migrations/journal/0005_waits.sql"),
];

/// What programs in other languages append with.
const ROUTINES: [Routine; 3] = [
    Routine {
        name: "journal_tags",
        text: include_str!("../../migrations/routines/journal_tags.sql"),
    },
    Routine {
        name: "journal_keys",
        text: include_str!("../../migrations/routines/journal_keys.sql"),
    },
    Routine {
        name: "journal_append",
        text: include_str!("../../migrations/routines/journal_append.sql"),
    },
];

const VERSIONS: &str = "journal_schema";

/// With the prefix also where a table is named in a text.
fn migrations(names: &Names) -> Vec<String> {
    let prefixed = |migration: &&str| migration.replace("sendoff_prefix", &names.plain(""));
    MIGRATIONS.iter().map(prefixed).collect()
}

fn installation(journal: &MysqlJournal) -> Installation<'_> {
    let (names, sql) = (journal.names(), journal.sql());
    Installation::new(names, sql, journal.connector(), VERSIONS, MIGRATIONS.len(), &ROUTINES)
}

/// Whether everything is there that publishing needs, and may be used.
pub(super) async fn check_ready(journal: &MysqlJournal) -> Result<(), StoreError> {
    journal.check_open()?;
    installation(journal).check_ready(journal.upkeep(), &journal.sql().journal.ready).await
}

/// Whether this version can work with what is there. Tables that are not there yet are no error.
pub(super) async fn check(journal: &MysqlJournal) -> Result<(), StoreError> {
    installation(journal).found(journal.upkeep()).await.map(|_| ())
}

impl MysqlJournal {
    /// The name of the table, with database and prefix, ready to be put into SQL.
    pub fn table(&self) -> String {
        self.names().qualified("journal_event")
    }

    /// Installs the tables, or brings them up to date. Safe from several nodes at once: one migrates,
    /// and the others find it done. One that was interrupted is finished by the next.
    ///
    /// The procedure `journal_append` for other languages needs the right to make procedures. Without it the
    /// tables are made all the same, and [`Migrated::without`] says what is missing.
    ///
    /// # Errors
    ///
    /// [`NewerSchema`](StoreError::NewerSchema) if a newer version made the tables;
    /// [`Rights`](StoreError::Rights) if the user may not make them: then print
    /// [`journal_migration_sql`](crate::journal_migration_sql) for somebody who may.
    pub async fn migrate(&self) -> Result<Migrated, StoreError> {
        self.check_open()?;
        let migrations = migrations(self.names());
        let steps = |missing, _| script(self.names(), VERSIONS, &migrations, missing);
        installation(self).migrate(steps).await
    }

    /// Whether the tables are there and up to date, for tools that look after a journal and make
    /// nothing themselves.
    ///
    /// # Errors
    ///
    /// [`NotInstalled`](StoreError::NotInstalled) where they are not there, and
    /// [`Schema`](StoreError::Schema) where they are not up to date, with what to do.
    pub async fn check_installed(&self) -> Result<(), StoreError> {
        self.check_open()?;
        installation(self).check_installed(self.upkeep()).await
    }
}

/// Everything that [`MysqlJournal::migrate`] would run on an empty database, as a script for MySQL and
/// MariaDB alike: for the client `mysql` or `mariadb`, because it has lines `delimiter`. Run it in the
/// journal's database.
///
/// Running it a second time changes nothing.
pub fn journal_migration_sql(options: &JournalOptions) -> Result<String, StoreError> {
    journal_upgrade_sql(options, 0)
}

/// The same for tables that are there already, in this version (the newest in `journal_schema`).
///
/// # Errors
///
/// [`Misconfigured`](StoreError::Misconfigured) for a version that does not exist.
pub fn journal_upgrade_sql(options: &JournalOptions, from: usize) -> Result<String, StoreError> {
    options.check()?;
    let missing = after(from, MIGRATIONS.len())?;
    let names = Names::new(None, options.server.prefix.as_ref());
    let steps = script(&names, VERSIONS, &migrations(&names), missing);
    let routines = routine::script(&names, &ROUTINES);
    Ok(format!("{};\n{steps}{routines}", lock(&names, VERSIONS)))
}
