//! Bringing the tables up to date.

use std::fmt::Write;
use std::sync::Arc;

use sendoff_core::partition::Period;
use sendoff_engine::store::StoreError;
use sendoff_engine::{PartitionMaintainer, PartitionOptions};
use tokio_postgres::Client;
use tracing::info;

use crate::error::{failed, misconfigured};
use crate::layout::for_layout;
use crate::names::Names;
use crate::options::{Doorbell, Layout, PostgresOptions};
use crate::store::PostgresStore;

/// Every migration, the oldest first. What a published one does never changes.
const MIGRATIONS: [&str; 2] = [
    include_str!("../migrations/0001_outbox.sql"),
    include_str!("../migrations/0002_tally_and_ends.sql"),
];

const KNOWN: i64 = MIGRATIONS.len() as i64;

/// Full transaction numbers, and `pg_xact_status`, came with this one.
const OLDEST_SERVER: i32 = 130_000;

/// Whether this version can work with what is there. Tables that are not there yet are no error.
pub(crate) async fn check(store: &PostgresStore) -> Result<(), StoreError> {
    installed(store).await.map(|_| ())
}

/// Whether everything is there.
pub(crate) async fn check_installed(store: &PostgresStore) -> Result<(), StoreError> {
    match installed(store).await? {
        None => Err(misconfigured(format!(
            "there is no table {}: migrate first, or mend database, schema or prefix",
            store.table()
        ))),
        Some(missing) if missing > 0 => Err(misconfigured(format!(
            "the table {} was made by an older version: migrate first",
            store.table()
        ))),
        Some(_) => Ok(()),
    }
}

/// How many migrations are missing; `None` where none ever ran.
async fn installed(store: &PostgresStore) -> Result<Option<usize>, StoreError> {
    let (upkeep, sql) = (&store.links().upkeep, store.sql());
    let rows = upkeep.query(&sql.schema_known, &[]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let server: i32 = row.try_get(0).map_err(failed)?;
    if server < OLDEST_SERVER {
        return Err(misconfigured(format!(
            "the server is PostgreSQL {}; version 13 is the oldest that works",
            server / 10_000
        )));
    }
    if !row.try_get::<_, bool>(1).map_err(failed)? {
        return Ok(None);
    }
    let rows = upkeep.query(&sql.schema_version, &[]).await?;
    let found: i32 = rows.first().map_or(Ok(0), |row| row.try_get(0)).map_err(failed)?;
    missing(found).map(Some)
}

/// Runs what is missing, in one transaction on a connection of its own: whoever drops the future
/// drops the connection, and the server undoes it.
pub(crate) async fn migrate(store: &PostgresStore) -> Result<(), StoreError> {
    let opened = store.connector().open(None).await?;
    run(&opened.client, store).await.inspect_err(|_| opened.task.abort())?;
    drop(opened);
    first_partitions(store).await
}

/// Rows should find their partition from the first one on.
async fn first_partitions(store: &PostgresStore) -> Result<(), StoreError> {
    let Layout::Partitioned(period) = store.layout() else { return Ok(()) };
    if store.doorbell() == Doorbell::Off {
        // No session to hold the lock on; until the maintainer comes, the tail takes every row.
        return Ok(());
    }
    let options = PartitionOptions { period, ..PartitionOptions::default() };
    let maintainer = PartitionMaintainer::new(Arc::new(store.clone()), options)
        .map_err(|error| misconfigured(error.to_string()))?;
    maintainer.run_once().await.map(|_| ()).map_err(|error| error.source)
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
    let layout = layout(client, store).await?;
    if missing > 0 {
        client.batch_execute(&steps(names, missing, layout)).await.map_err(failed)?;
    }
    client.batch_execute("commit").await.map_err(failed)?;
    if missing > 0 {
        info!(table = store.table(), version = KNOWN, "migrated");
    }
    Ok(())
}

/// The layout of the table that is there, or the one it is to have.
async fn layout(client: &Client, store: &PostgresStore) -> Result<Layout, StoreError> {
    let wanted = store.layout();
    let found = client.query_typed(&store.sql().partition_layout.text, &[]).await;
    match found.map_err(failed)?.first() {
        None => Ok(wanted),
        Some(row) if row.try_get::<_, &str>(0).map_err(failed)? == "p" => match wanted {
            Layout::Partitioned(_) => Ok(wanted),
            Layout::Flat => Ok(Layout::Partitioned(Period::default())),
        },
        Some(_) if wanted == Layout::Flat => Ok(Layout::Flat),
        Some(_) => Err(misconfigured(format!(
            "the table {} is there and not partitioned, and PostgreSQL cannot change that: choose \
             the flat layout, or another prefix or schema for a new table",
            store.table()
        ))),
    }
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
/// Running it a second time fails and changes nothing. A partitioned table begins with its tail, which
/// takes every row until partitions are made.
pub fn migration_sql(options: &PostgresOptions) -> Result<String, StoreError> {
    options.check()?;
    let names = Names::new(options.schema.as_ref(), options.prefix.as_ref());
    let steps = steps(&names, MIGRATIONS.len(), options.layout);
    Ok(format!("{}{steps}commit;\n", lock(&names)))
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
fn steps(names: &Names, missing: usize, layout: Layout) -> String {
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
            names.put_into(&for_layout(migration, layout)).trim_end(),
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
