//! Bringing the journal's tables up to date. Their versions are their own: who has an outbox needs no
//! journal, and the other way round.

use std::borrow::Cow;
use std::sync::Arc;

use sendoff_engine::journal::Purpose;
use sendoff_engine::journal::retain::{JournalMaintainer, RetainOptions};
use sendoff_engine::store::StoreError;
use sendoff_engine::store::frame::{Migrated, after};
use tokio_postgres::{Client, Row};

use super::connections::Connections;
use super::options::{JournalLayout, JournalOptions};
use super::store::PostgresJournal;
use crate::error::{failed, misconfigured};
use crate::layout::{Lines, for_layout};
use crate::link::Params;
use crate::migrations::{Ask, Migrations, Versions, patiently};
use crate::names::Names;
use crate::options::Doorbell;
use crate::sql::Statement;

/// Every migration, the oldest first. What a published one does never changes.
const MIGRATIONS: [&str; 7] = [
    include_str!("../../migrations/journal/0001_journal.sql"),
    include_str!("../../migrations/journal/0002_publish.sql"),
    include_str!("../../migrations/journal/0003_durable.sql"),
    include_str!("../../migrations/journal/0004_restarted.sql"),
    include_str!("../../migrations/journal/0005_waits.sql"),
    include_str!("../../migrations/journal/0006_bell.sql"),
    include_str!("../../migrations/journal/0007_taken.sql"),
];

/// What the first of them has besides, in partitions.
const PARTITIONS: &str = include_str!("../../migrations/journal/0001_partitions.sql");

/// A migration as this layout has it.
fn shaped(migration: &'static str, lines: Lines) -> Cow<'static, str> {
    let mut text = for_layout(migration, lines);
    if lines == Lines::Partitioned && migration == MIGRATIONS[0] {
        text.push('\n');
        text.push_str(PARTITIONS);
    }
    text.into()
}

fn migrations(names: &Names) -> Migrations<'_> {
    Migrations {
        all: &MIGRATIONS,
        names,
        versions: "journal_schema",
        table: "journal_event",
        command: "sendoff journal migrate",
    }
}

fn versions(journal: &PostgresJournal) -> Versions<'_> {
    let sql = journal.sql();
    Versions { known: &sql.journal.schema_known, version: &sql.journal.schema_version }
}

impl Ask for Connections {
    async fn ask(&self, statement: &Statement, params: Params<'_>) -> Result<Vec<Row>, StoreError> {
        self.query(Purpose::Read, statement, params).await
    }
}

/// Whether everything is there that publishing needs, and may be used.
pub(super) async fn check_ready(journal: &PostgresJournal) -> Result<(), StoreError> {
    journal.check_open()?;
    let (migrations, ready) = (migrations(journal.names()), &journal.sql().journal.ready);
    let bell = journal.options().server.doorbell == Doorbell::On;
    migrations.check_ready(journal.connections(), versions(journal), ready, &[&bell]).await
}

/// Whether this version can work with what is there. Tables that are not there yet are no error.
pub(super) async fn check(journal: &PostgresJournal) -> Result<(), StoreError> {
    let migrations = migrations(journal.names());
    migrations.installed(journal.connections(), versions(journal)).await.map(drop)
}

impl PostgresJournal {
    /// Whether the tables are there and up to date, for tools that look after a journal and make
    /// nothing themselves.
    ///
    /// # Errors
    ///
    /// [`NotInstalled`](StoreError::NotInstalled) where they are not there, and
    /// [`Schema`](StoreError::Schema) where they are not up to date, with what to do.
    pub async fn check_installed(&self) -> Result<(), StoreError> {
        self.check_open()?;
        migrations(self.names()).check_installed(self.connections(), versions(self)).await
    }

    /// Installs the tables, or brings them up to date. Safe from several nodes at once: one migrates,
    /// and the others find it done.
    ///
    /// # Errors
    ///
    /// [`NewerSchema`](StoreError::NewerSchema) if a newer version made the tables;
    /// [`Rights`](StoreError::Rights) if the role may not make them: then print
    /// [`journal_migration_sql`](crate::journal_migration_sql) for somebody who may.
    pub async fn migrate(&self) -> Result<Migrated, StoreError> {
        self.check_open()?;
        let migrated = patiently(|| attempt(self)).await?;
        first_partitions(self).await?;
        Ok(migrated)
    }
}

/// Runs what is missing, in one transaction on a connection of its own: whoever drops the future
/// drops the connection, and the server undoes it.
async fn attempt(journal: &PostgresJournal) -> Result<Migrated, StoreError> {
    let opened = journal.connector().open(None).await?;
    let (client, migrations) = (&opened.client, migrations(journal.names()));
    let run = async {
        let missing = migrations.begin(client, versions(journal)).await?;
        let lines = layout(client, journal).await?;
        migrations.finish(client, missing, |migration| shaped(migration, lines)).await?;
        Ok(Migrated::ran(missing, MIGRATIONS.len()))
    };
    run.await.inspect_err(|_| opened.task.abort())
}

/// The layout of the tables that are there, or the one they are to have.
async fn layout(client: &Client, journal: &PostgresJournal) -> Result<Lines, StoreError> {
    let wanted = journal.options().layout.into();
    let found = client.query_typed(&journal.sql().journal.layout.text, &[]).await;
    let found = match found.map_err(failed)?.first() {
        None => return Ok(wanted),
        Some(row) if row.try_get::<_, &str>(0).map_err(failed)? == "p" => Lines::Partitioned,
        Some(_) => Lines::Flat,
    };
    if found == Lines::Flat && wanted == Lines::Partitioned {
        return Err(misconfigured(format!(
            "the table {} is there and not partitioned, and PostgreSQL cannot change that: choose \
             the flat layout, or another prefix or schema for a new journal",
            journal.table()
        )));
    }
    Ok(found)
}

/// Facts should find their partition from the first one on.
async fn first_partitions(journal: &PostgresJournal) -> Result<(), StoreError> {
    let JournalLayout::Partitioned(ranges) = journal.options().layout else { return Ok(()) };
    if journal.options().server.doorbell == Doorbell::Off {
        // No session to hold the lock on; until the maintainer comes, the tails take every row.
        return Ok(());
    }
    let options = RetainOptions { ranges, ..RetainOptions::default() };
    let maintainer = JournalMaintainer::new(Arc::new(journal.clone()), options)
        .map_err(|error| misconfigured(error.to_string()))?;
    maintainer.run_once().await.map(drop).map_err(|error| error.source)
}

/// Everything that [`PostgresJournal::migrate`] would run on an empty database, as a script.
///
/// Running it a second time fails and changes nothing. A journal in partitions begins with its tails,
/// which take every row until partitions are made.
pub fn journal_migration_sql(options: &JournalOptions) -> Result<String, StoreError> {
    journal_upgrade_sql(options, 0)
}

/// The same for tables that are there already, in this version (the newest in `journal_schema`). The layout
/// should be theirs.
///
/// # Errors
///
/// [`Misconfigured`](StoreError::Misconfigured) for a version that does not exist.
pub fn journal_upgrade_sql(options: &JournalOptions, from: usize) -> Result<String, StoreError> {
    options.check()?;
    let missing = after(from, MIGRATIONS.len())?;
    let names = Names::new(options.server.schema.as_ref(), options.server.prefix.as_ref());
    let lines = options.layout.into();
    Ok(migrations(&names).script(missing, |migration| shaped(migration, lines)))
}
