//! Bringing the journal's tables up to date. Their versions are their own: who has an outbox needs no
//! journal, and the other way round.

use std::fmt::Write;

use sendoff_engine::store::StoreError;
use tokio_postgres::Client;
use tracing::info;

use super::options::JournalOptions;
use super::store::PostgresJournal;
use crate::error::{failed, misconfigured};
use crate::names::Names;

/// Every migration, the oldest first. A published one never changes.
const MIGRATIONS: [&str; 2] = [
    include_str!("../../migrations/journal/0001_journal.sql"),
    include_str!("../../migrations/journal/0002_publish.sql"),
];

const KNOWN: i64 = MIGRATIONS.len() as i64;

/// As for an outbox.
const OLDEST_SERVER: i32 = 130_000;

/// Whether this version can work with what is there. Tables that are not there yet are no error.
pub(super) async fn check(journal: &PostgresJournal) -> Result<(), StoreError> {
    let (connections, sql) = (journal.connections(), journal.sql());
    let rows = connections.query(&sql.journal_schema_known, &[]).await?;
    let Some(row) = rows.first() else { return Ok(()) };
    let server: i32 = row.try_get(0).map_err(failed)?;
    if server < OLDEST_SERVER {
        return Err(misconfigured(format!(
            "the server is PostgreSQL {}; version 13 is the oldest that works",
            server / 10_000
        )));
    }
    if row.try_get(1).map_err(failed)? {
        let rows = connections.query(&sql.journal_schema_version, &[]).await?;
        let found: i32 = rows.first().map_or(Ok(0), |row| row.try_get(0)).map_err(failed)?;
        missing(found)?;
    }
    Ok(())
}

/// Runs what is missing, in one transaction on a connection of its own: whoever drops the future
/// drops the connection, and the server undoes it.
pub(super) async fn migrate(journal: &PostgresJournal) -> Result<(), StoreError> {
    let opened = journal.connector().open(None).await;
    let opened = opened.map_err(|error| StoreError::Unavailable(error.into()))?;
    run(&opened.client, journal).await.inspect_err(|_| opened.task.abort())
}

async fn run(client: &Client, journal: &PostgresJournal) -> Result<(), StoreError> {
    let (names, sql) = (journal.names(), journal.sql());
    client.batch_execute(&lock(names)).await.map_err(failed)?;
    let one = async |text: &str| client.query_typed(text, &[]).await.map_err(failed);
    let known = one(&sql.journal_schema_known.text).await?;
    let known = known.first().map_or(Ok(false), |row| row.try_get(1)).map_err(failed)?;
    let found: i32 = if known {
        let rows = one(&sql.journal_schema_version.text).await?;
        rows.first().map_or(Ok(0), |row| row.try_get(0)).map_err(failed)?
    } else {
        0
    };
    let missing = missing(found)?;
    if missing > 0 {
        client.batch_execute(&steps(names, missing)).await.map_err(failed)?;
    }
    client.batch_execute("commit").await.map_err(failed)?;
    if missing > 0 {
        info!(table = journal.table(), version = KNOWN, "migrated");
    }
    Ok(())
}

/// How many of our migrations have not run.
fn missing(found: i32) -> Result<usize, StoreError> {
    let found = i64::from(found);
    if found > KNOWN {
        return Err(StoreError::NewerSchema { found, known: KNOWN });
    }
    Ok(usize::try_from(KNOWN - found).unwrap_or(MIGRATIONS.len()))
}

/// Everything that [`PostgresJournal::migrate`] would run on an empty database, as a script.
///
/// Running it a second time fails and changes nothing.
pub fn journal_migration_sql(options: &JournalOptions) -> Result<String, StoreError> {
    options.check()?;
    let names = Names::new(options.server.schema.as_ref(), options.server.prefix.as_ref());
    Ok(format!("{}{}commit;\n", lock(&names), steps(&names, MIGRATIONS.len())))
}

/// One migration at a time; the lock ends with its transaction, so it works behind a pooler too.
fn lock(names: &Names) -> String {
    format!(
        "begin isolation level read committed;\n\
         set local statement_timeout = 0;\n\
         select pg_advisory_xact_lock(hashtextextended('sendoff {}', 0));\n",
        names.qualified("journal_schema").replace('"', "")
    )
}

/// The last `missing` migrations, each with its number.
fn steps(names: &Names, missing: usize) -> String {
    let mut script = String::new();
    // Making a schema needs a right that using one does not, also where it exists already.
    if !names.is_public() {
        let schema = names.schema();
        let _ = write!(
            script,
            "do $body$ begin\n    if to_regnamespace('\"{schema}\"') is null then\n        \
             create schema \"{schema}\";\n    end if;\nend $body$;\n"
        );
    }
    let _ = write!(
        script,
        "create table if not exists {} (\n    version    integer     not null primary key,\n    \
         applied_at timestamptz not null default now()\n);\n",
        names.qualified("journal_schema")
    );
    for (at, migration) in MIGRATIONS.iter().enumerate().skip(MIGRATIONS.len() - missing) {
        let _ = write!(
            script,
            "\n{}\ninsert into {} (version) values ({});\n",
            names.put_into(migration).trim_end(),
            names.qualified("journal_schema"),
            at + 1
        );
    }
    script
}
