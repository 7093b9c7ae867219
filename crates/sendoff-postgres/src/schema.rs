//! Bringing the tables up to date.

use std::sync::Arc;

use sendoff_core::partition::Period;
use sendoff_engine::store::StoreError;
use sendoff_engine::store::frame::{Migrated, after};
use sendoff_engine::{PartitionMaintainer, PartitionOptions};
use tokio_postgres::Client;

use crate::error::{failed, misconfigured};
use crate::layout::for_layout;
use crate::link::query_unnamed;
use crate::migrations::{Migrations, Versions, patiently};
use crate::names::Names;
use crate::options::{Doorbell, Layout, PostgresOptions};
use crate::store::PostgresStore;

/// Every migration, the oldest first. What a published one does never changes.
const MIGRATIONS: [&str; 9] = [
    include_str!("../migrations/0001_outbox.sql"),
    include_str!("../migrations/0002_tally_and_ends.sql"),
    include_str!("../migrations/0003_nothing_waits.sql"),
    include_str!("../migrations/0004_bad_nights.sql"),
    include_str!("../migrations/0005_other_languages.sql"),
    include_str!("../migrations/0006_who_handles.sql"),
    include_str!("../migrations/0007_order.sql"),
    include_str!("../migrations/0008_exactly_once.sql"),
    include_str!("../migrations/0009_emit_costs_less.sql"),
];

fn migrations(names: &Names) -> Migrations<'_> {
    Migrations {
        all: &MIGRATIONS,
        names,
        versions: "outbox_schema",
        table: "outbox_event",
        command: "sendoff migrate",
    }
}

fn versions(store: &PostgresStore) -> Versions<'_> {
    Versions { known: &store.sql().schema_known, version: &store.sql().schema_version }
}

/// Whether everything is there that delivering needs, and may be used.
pub(crate) async fn check_ready(store: &PostgresStore) -> Result<(), StoreError> {
    store.check_open()?;
    let bell = store.doorbell() == Doorbell::On;
    let (migrations, ready) = (migrations(store.names()), &store.sql().ready);
    migrations.check_ready(&store.links().upkeep, versions(store), ready, &[&bell]).await
}

/// Whether this version can work with what is there. Tables that are not there yet are no error.
pub(crate) async fn check(store: &PostgresStore) -> Result<(), StoreError> {
    let migrations = migrations(store.names());
    migrations.installed(&store.links().upkeep, versions(store)).await.map(drop)
}

impl PostgresStore {
    /// The name of the table, with schema and prefix, ready to be put into SQL.
    pub fn table(&self) -> String {
        self.names().qualified("outbox_event")
    }

    /// Installs the tables, or brings them up to date. Safe from several nodes at once: one migrates,
    /// and the others find it done.
    ///
    /// # Errors
    ///
    /// [`NewerSchema`](StoreError::NewerSchema) if a newer version made the tables;
    /// [`Misconfigured`](StoreError::Misconfigured) if a flat table is there and the layout is another;
    /// [`Rights`](StoreError::Rights) if the role may not make them: then print
    /// [`migration_sql`](crate::migration_sql) for somebody who may.
    pub async fn migrate(&self) -> Result<Migrated, StoreError> {
        self.check_open()?;
        let migrated = patiently(|| attempt(self)).await?;
        first_partitions(self).await?;
        Ok(migrated)
    }

    /// Whether the tables are there and up to date, for tools that look after an outbox and make
    /// nothing themselves.
    ///
    /// # Errors
    ///
    /// [`NotInstalled`](StoreError::NotInstalled) where they are not there, and
    /// [`Schema`](StoreError::Schema) where they are not up to date, with what to do.
    pub async fn check_installed(&self) -> Result<(), StoreError> {
        self.check_open()?;
        migrations(self.names()).check_installed(&self.links().upkeep, versions(self)).await
    }
}

/// Runs what is missing, in one transaction on a connection of its own: whoever drops the future
/// drops the connection, and the server undoes it.
async fn attempt(store: &PostgresStore) -> Result<Migrated, StoreError> {
    let opened = store.connector().open(None).await?;
    let run = async {
        indexes_ahead(&opened.client, store).await?;
        let migrated = run(&opened.client, store).await?;
        if store.wants_tenant_index() {
            tenant_index(&opened.client, store).await?;
        }
        Ok(migrated)
    };
    run.await.inspect_err(|_| opened.task.abort())
}

/// An index that a migration makes on a table that may be in use.
struct Index {
    /// The migration that makes it.
    version: usize,
    name: &'static str,
    columns: &'static [&'static str],
    definition: &'static str,
}

const INDEXES: [Index; 2] = [
    Index {
        version: 2,
        name: "outbox_event_dead",
        columns: &["done_at", "seq"],
        definition: "(done_at, seq) where status = 3",
    },
    Index {
        version: 7,
        name: "outbox_event_key",
        columns: &["ordering_key", "seq"],
        definition: "(ordering_key collate \"C\", seq) where ordering_key is not null and status in (0, 2)",
    },
];

/// What makes the index for fair claims, in a transaction too. It belongs to no migration, because only some want
/// it.
const TENANT_INDEX: &str = include_str!("../migrations/tenant_index.sql");

const TENANTS: Index = Index {
    version: 0,
    name: "outbox_event_tenant",
    columns: &["COALESCE(tenant_id, ''::text)", "due_at", "seq"],
    definition: "((coalesce(tenant_id, '') collate \"C\"), due_at, seq) where status in (0, 2)",
};

/// Whether fair claims have their index.
pub(crate) async fn check_fair(store: &PostgresStore) -> Result<(), StoreError> {
    let tables = &store.sql().tables_to_index;
    let without = store.links().upkeep.query(tables, &[&TENANTS.columns]).await?;
    let Some(table) = without.first() else { return Ok(()) };
    let table: &str = table.try_get(0).map_err(failed)?;
    Err(StoreError::Schema {
        missing: format!("{table} has no index that fair claims need"),
        remedy: "run `sendoff migrate --fair`, or migrate with `tenant_index` in the store's options, or \
                 leave `fair` out"
            .into(),
    })
}

/// Makes the index for fair claims, beside writers. That of a table in partitions is theirs together, and new ones
/// get theirs with it.
async fn tenant_index(client: &Client, store: &PostgresStore) -> Result<(), StoreError> {
    index_ahead(client, store, &TENANTS).await?;
    let text = store.names().put_into(TENANT_INDEX);
    client.batch_execute(&text).await.map_err(failed)
}

/// Makes the indexes of later migrations where the table is in use already: beside its writers, who would have
/// to wait for the whole of each otherwise. In partitions it is made for each by itself; the migration then finds
/// all of them, and makes nothing but the one of the table, which is theirs together.
async fn indexes_ahead(client: &Client, store: &PostgresStore) -> Result<(), StoreError> {
    // Asked on another session: this one would remember what is not there, also in the transaction
    // that asks again once nobody else migrates.
    let missing =
        migrations(store.names()).installed(&store.links().upkeep, versions(store)).await?;
    let Some(missing) = missing else { return Ok(()) };
    for index in INDEXES.iter().filter(|index| index.version > MIGRATIONS.len() - missing) {
        index_ahead(client, store, index).await?;
    }
    Ok(())
}

/// Makes one of them where it is missing.
async fn index_ahead(
    client: &Client,
    store: &PostgresStore,
    index: &Index,
) -> Result<(), StoreError> {
    let run = async |text: &str| client.batch_execute(text).await.map_err(failed);
    let tables = &store.sql().tables_to_index;
    let tables = query_unnamed(client, tables, &[&index.columns]).await.map_err(failed)?;
    for table in &tables {
        let table_name: &str = table.try_get(0).map_err(failed)?;
        let left_behind: Option<&str> = table.try_get(1).map_err(failed)?;
        if store.doorbell() == Doorbell::On {
            // It waits for every transaction that is older, and nobody waits for it.
            run("set statement_timeout = 0").await?;
            run("set lock_timeout = 0").await?;
        }
        if let Some(index) = left_behind {
            run(&format!("drop index concurrently {index}")).await?;
        }
        // A partition's has whichever name the server gives it.
        let name = match table.try_get(2).map_err(failed)? {
            true => String::new(),
            false => format!("if not exists {}", store.names().plain(index.name)),
        };
        let definition = index.definition;
        run(&format!("create index concurrently {name} on {table_name} {definition}")).await?;
    }
    Ok(())
}

async fn run(client: &Client, store: &PostgresStore) -> Result<Migrated, StoreError> {
    let migrations = migrations(store.names());
    let missing = migrations.begin(client, versions(store)).await?;
    let layout = layout(client, store).await?;
    migrations
        .finish(client, missing, |migration| for_layout(migration, layout.into()).into())
        .await?;
    Ok(Migrated::ran(missing, MIGRATIONS.len()))
}

/// Rows should find their partition from the first one on.
async fn first_partitions(store: &PostgresStore) -> Result<(), StoreError> {
    let Layout::Partitioned(period) = store.layout() else { return Ok(()) };
    if store.doorbell() == Doorbell::Off {
        // No session to hold the lock on; until the maintainer comes, the tail takes every row.
        return Ok(());
    }
    let options = PartitionOptions::by(period);
    let maintainer = PartitionMaintainer::new(Arc::new(store.clone()), options)
        .map_err(|error| misconfigured(error.to_string()))?;
    maintainer.run_once().await.map(|_| ()).map_err(|error| error.source)
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

/// Everything that [`PostgresStore::migrate`] would run on an empty database, as a script.
///
/// Running it a second time fails and changes nothing. A partitioned table begins with its tail, which
/// takes every row until partitions are made.
pub fn migration_sql(options: &PostgresOptions) -> Result<String, StoreError> {
    upgrade_sql(options, 0)
}

/// The same for tables that are there already, in this version (the newest in `outbox_schema`). A layout that
/// is not theirs is no matter: nothing is made again.
///
/// # Errors
///
/// [`Misconfigured`](StoreError::Misconfigured) for a version that does not exist.
pub fn upgrade_sql(options: &PostgresOptions, from: usize) -> Result<String, StoreError> {
    options.check()?;
    let missing = after(from, MIGRATIONS.len())?;
    let names = Names::new(options.schema.as_ref(), options.prefix.as_ref());
    let shape = |migration| for_layout(migration, options.layout.into()).into();
    let mut script = migrations(&names).script(missing, shape);
    if options.tenant_index {
        script.push_str(&names.put_into(TENANT_INDEX));
    }
    Ok(script)
}
