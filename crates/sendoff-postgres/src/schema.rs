//! Bringing the tables up to date.

use std::fmt::Write;

use sendoff_engine::store::StoreError;
use tokio_postgres::Client;
use tracing::info;

use crate::error::{failed, misconfigured};
use crate::names::Names;
use crate::options::PostgresOptions;
use crate::store::PostgresStore;

/// Every migration, the oldest first. A published one never changes.
const MIGRATIONS: [&str; 2] = [
    include_str!("../migrations/0001_outbox.sql"),
    include_str!("../migrations/0002_tally_and_ends.sql"),
];

const KNOWN: i64 = MIGRATIONS.len() as i64;

/// Full transaction numbers, and `pg_xact_status`, came with this one.
const OLDEST_SERVER: i32 = 130_000;

/// Whether this version can work with what is there. Tables that are not there yet are no error.
pub(crate) async fn check(store: &PostgresStore) -> Result<(), StoreError> {
    let (upkeep, sql) = (&store.links().upkeep, store.sql());
    let rows = upkeep.query(&sql.schema_known, &[]).await?;
    let Some(row) = rows.first() else { return Ok(()) };
    let server: i32 = row.try_get(0).map_err(failed)?;
    if server < OLDEST_SERVER {
        return Err(misconfigured(format!(
            "the server is PostgreSQL {}; version 13 is the oldest that works",
            server / 10_000
        )));
    }
    if row.try_get(1).map_err(failed)? {
        let rows = upkeep.query(&sql.schema_version, &[]).await?;
        let found: i32 = rows.first().map_or(Ok(0), |row| row.try_get(0)).map_err(failed)?;
        missing(found)?;
    }
    Ok(())
}

/// Runs what is missing, in one transaction on a connection of its own: whoever drops the future
/// drops the connection, and the server undoes it.
pub(crate) async fn migrate(store: &PostgresStore) -> Result<(), StoreError> {
    let opened = store
        .connector()
        .open(None)
        .await
        .map_err(|error| StoreError::Unavailable(error.into()))?;
    run(&opened.client, store).await.inspect_err(|_| opened.task.abort())
}

async fn run(client: &Client, store: &PostgresStore) -> Result<(), StoreError> {
    let (names, sql) = (store.names(), store.sql());
    client.batch_execute(&lock(names)).await.map_err(failed)?;
    let one = async |text: &str| client.query_typed(text, &[]).await.map_err(failed);
    let known = one(&sql.schema_known.text).await?;
    let known = known.first().map_or(Ok(false), |row| row.try_get(1)).map_err(failed)?;
    let found: i32 = if known {
        let rows = one(&sql.schema_version.text).await?;
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
        info!(table = store.table(), version = KNOWN, "migrated");
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

/// Everything that [`PostgresStore::migrate`] would run on an empty database, as a script.
///
/// Running it a second time fails and changes nothing.
pub fn migration_sql(options: &PostgresOptions) -> Result<String, StoreError> {
    options.check()?;
    let names = Names::new(options.schema.as_ref(), options.prefix.as_ref());
    Ok(format!("{}{}commit;\n", lock(&names), steps(&names, MIGRATIONS.len())))
}

/// One migration at a time; the lock ends with its transaction, so it works behind a pooler too.
fn lock(names: &Names) -> String {
    format!(
        "begin isolation level read committed;\n\
         set local statement_timeout = 0;\n\
         select pg_advisory_xact_lock(hashtextextended('sendoff {}', 0));\n",
        names.qualified("outbox_schema").replace('"', "")
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
        names.qualified("outbox_schema")
    );
    for (at, migration) in MIGRATIONS.iter().enumerate().skip(MIGRATIONS.len() - missing) {
        let _ = write!(
            script,
            "\n{}\ninsert into {} (version) values ({});\n",
            names.put_into(migration).trim_end(),
            names.qualified("outbox_schema"),
            at + 1
        );
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_runs_and_a_newer_schema_is_refused() {
        assert_eq!(missing(0).unwrap(), MIGRATIONS.len());
        assert_eq!(missing(1).unwrap(), MIGRATIONS.len() - 1);
        assert!(matches!(missing(99), Err(StoreError::NewerSchema { found: 99, .. })));
    }
}
