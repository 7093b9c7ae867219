//! Bringing the tables up to date.

use std::fmt::Write;
use std::time::Duration;

use mysql_async::{Conn, Error};
use sendoff_core::Timestamp;
use sendoff_engine::store::StoreError;
use sendoff_engine::store::frame::{Migrated, Unsupported, after, check_complete, missing};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use crate::connect::Connector;
use crate::error::{code, failed, misconfigured, number};
use crate::link::{Link, last_rows};
use crate::names::Names;
use crate::options::{Layout, MysqlOptions, Payloads};
use crate::partitions;
use crate::routine::{self, Routine};
use crate::rows;
use crate::sql::{Sql, Statement};
use crate::store::MysqlStore;
use crate::wire::Literal;

/// Every migration, the oldest first. A published one never changes.
const MIGRATIONS: [&str; 7] = [
    include_str!("../migrations/0001_outbox.sql"),
    include_str!("../migrations/0002_tally.sql"),
    include_str!("../migrations/0003_nothing_waits.sql"),
    include_str!("../migrations/0004_bad_nights.sql"),
    include_str!("../migrations/0005_who_handles.sql"),
    include_str!("../migrations/0006_order.sql"),
    include_str!("../migrations/0007_exactly_once.sql"),
];

/// What makes the index for fair claims. It belongs to no migration, because only some want it.
const TENANT_INDEX: &str = include_str!("../migrations/tenant_index.sql");

/// What programs in other languages write with.
const ROUTINES: [Routine; 1] = [Routine {
    name: "sendoff_emit",
    text: include_str!("../migrations/routines/sendoff_emit.sql"),
}];

/// What may be wrong about where tables were looked for.
const PLACE: &str = "database or prefix";

/// How long a migration waits for another one, and how long it goes on asking for its locks.
const PATIENCE_SECONDS: u32 = 60;
/// How long one step waits for a lock, and the application behind it.
const LOCK_SECONDS: u32 = 1;
/// How long the application goes first, when a step did not get its lock.
const PAUSE: Duration = Duration::from_millis(500);

/// Whether this version can work with what is there. Tables that are not there yet are no error.
pub(crate) async fn check(store: &MysqlStore) -> Result<(), StoreError> {
    installed(store).await.map(|_| ())
}

/// How many migrations are missing; `None` where none ever ran.
async fn installed(store: &MysqlStore) -> Result<Option<usize>, StoreError> {
    installation(store).found(&store.links().upkeep).await
}

/// Whether everything is there that delivering needs, and may be used.
pub(crate) async fn check_ready(store: &MysqlStore) -> Result<(), StoreError> {
    store.check_open()?;
    let (link, ready) = (&store.links().upkeep, &store.sql().ready);
    installation(store).check_ready(link, ready).await
}

fn installation(store: &MysqlStore) -> Installation<'_> {
    let (names, sql) = (store.names(), store.sql());
    Installation::new(names, sql, store.connector(), "outbox_schema", MIGRATIONS.len(), &ROUTINES)
}

impl MysqlStore {
    /// The name of the table, with database and prefix, ready to be put into SQL.
    pub fn table(&self) -> String {
        self.names().qualified("outbox_event")
    }

    /// Installs the tables, or brings them up to date. Safe from several nodes at once: one migrates,
    /// and the others find it done. One that was interrupted is finished by the next.
    ///
    /// The procedure `sendoff_emit` for other languages needs the right to make procedures. Without it the
    /// tables are made all the same, and [`Migrated::without`] says what is missing.
    ///
    /// # Errors
    ///
    /// [`NewerSchema`](StoreError::NewerSchema) if a newer version made the tables;
    /// [`Rights`](StoreError::Rights) if the user may not make them: then print
    /// [`migration_sql`](crate::migration_sql) for somebody who may.
    pub async fn migrate(&self) -> Result<Migrated, StoreError> {
        self.check_open()?;
        let steps = |missing, now| steps(self.names(), self.options(), now, missing);
        let now = Timestamp::now();
        let index = self.options().tenant_index.then(|| {
            self.names()
                .put_into(&laid_out(TENANT_INDEX, self.options(), now))
                .trim_end()
                .to_owned()
        });
        Installation { index, ..installation(self) }.migrate(steps).await
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
        installation(self).check_installed(&self.links().upkeep).await
    }
}

/// A set of tables with versions of its own.
pub(crate) struct Installation<'a> {
    names: &'a Names,
    connector: &'a Connector,
    /// The table of its versions.
    versions: &'static str,
    /// Asks for the server's version, and whether that table is there.
    known: String,
    /// Asks for the newest version.
    version: &'a str,
    /// The table that matters, for messages.
    table: &'static str,
    /// The program's command that migrates it.
    command: &'static str,
    /// How many migrations this version knows.
    migrations: usize,
    /// What makes an index that belongs to none of them, where it is wanted.
    index: Option<String>,
    /// What comes after them, without which all but other languages can do.
    routines: &'static [Routine],
    /// Asks which of those are there.
    routines_known: String,
}

impl<'a> Installation<'a> {
    pub(crate) fn new(
        names: &'a Names,
        sql: &'a Sql,
        connector: &'a Connector,
        versions: &'static str,
        migrations: usize,
        routines: &'static [Routine],
    ) -> Self {
        let known = sql.schema_known.with(&[
            ("database", &Literal::text(connector.database())),
            ("table", &Literal::text(&names.plain(versions))),
        ]);
        let database = Literal::text(connector.database());
        let routines_known = sql.routines.with(&[("database", &database)]);
        let (version, table, command) = match versions {
            "journal_schema" => {
                (&sql.journal.schema_version, "journal_event", "sendoff journal migrate")
            }
            _ => (&sql.schema_version, "outbox_event", "sendoff migrate"),
        };
        let version = version.text();
        Self {
            names,
            connector,
            versions,
            known,
            version,
            table,
            command,
            migrations,
            index: None,
            routines,
            routines_known,
        }
    }

    /// How many migrations are missing; `None` where none ever ran.
    pub(crate) async fn found(&self, link: &Link) -> Result<Option<usize>, StoreError> {
        let rows = link.query(&self.known).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        check_server(&row.get::<String, _>(0).unwrap_or_default())?;
        if rows::integer(row, 1)? == 0 {
            return Ok(None);
        }
        let rows = link.query(self.version).await?;
        let found = rows.first().map_or(Ok(0), |row| rows::integer(row, 0))?;
        missing(found, self.migrations).map(Some)
    }

    /// Whether all of them ran.
    pub(crate) async fn check_installed(&self, link: &Link) -> Result<(), StoreError> {
        let missing = self.found(link).await?;
        if missing.is_none() {
            // Tables are hidden from whoever may do nothing with them; who asks for one is told so.
            let denied = link.query(self.version).await.err();
            if let Some(denied @ StoreError::Rights { .. }) = denied {
                return Err(denied);
            }
        }
        check_complete(missing, &self.names.qualified(self.table), self.command, PLACE)
    }

    /// Whether all of them ran, and the user may do what `ready` does.
    pub(crate) async fn check_ready(
        &self,
        link: &Link,
        ready: &Statement,
    ) -> Result<(), StoreError> {
        self.check_installed(link).await?;
        link.query(ready.text()).await.map(drop)
    }

    /// Runs what is missing, on a connection of its own, under a lock that ends with it. Neither
    /// server can undo a change of tables, so every step may run again.
    pub(crate) async fn migrate(
        &self,
        steps: impl FnOnce(usize, Timestamp) -> String + Send,
    ) -> Result<Migrated, StoreError> {
        let mut conn = self.connector.open().await?;
        let migrated = self.run(&mut conn, steps).await?;
        // The lock ends with the connection, whether or not the server is told.
        let _ = conn.disconnect().await;
        Ok(migrated)
    }

    async fn run(
        &self,
        conn: &mut Conn,
        steps: impl FnOnce(usize, Timestamp) -> String + Send,
    ) -> Result<Migrated, StoreError> {
        let lock = lock(self.names, self.versions);
        let locked = last_rows(conn, &lock).await.map_err(failed)?;
        if locked.first().and_then(|row| row.get::<Option<i64>, _>(0)).flatten() != Some(1) {
            return Err(StoreError::Unavailable("another migration is under way".into()));
        }
        let known = last_rows(conn, &self.known).await.map_err(failed)?;
        let found = if known.first().map_or(Ok(0), |row| rows::integer(row, 1))? > 0 {
            let rows = last_rows(conn, self.version).await.map_err(failed)?;
            rows.first().map_or(Ok(0), |row| rows::integer(row, 0))?
        } else {
            0
        };
        let missing = missing(found, self.migrations)?;
        if missing > 0 {
            let now = last_rows(conn, "select utc_timestamp(6)").await.map_err(failed)?;
            let now = now.first().map_or(Ok(Timestamp::now()), |row| rows::time(row, 0))?;
            patiently(conn, &steps(missing, now)).await?;
            let versions = self.names.qualified(self.versions);
            info!(table = versions, version = self.migrations, "migrated");
        }
        if let Some(index) = &self.index {
            patiently(conn, index).await?;
        }
        let without = (!self.install_routines(conn).await?).then_some(routine::REFUSED);
        if let Some(without) = without {
            warn!(database = self.connector.database(), "{without}");
        }
        Ok(Migrated { without, ..Migrated::ran(missing, self.migrations) })
    }

    /// False where the user may not.
    async fn install_routines(&self, conn: &mut Conn) -> Result<bool, StoreError> {
        let patience = Patience::begins();
        last_rows(conn, &Patience::each()).await.map_err(failed)?;
        loop {
            match routine::install(conn, self.names, &self.routines_known, self.routines).await {
                Ok(installed) => return Ok(installed),
                Err(error) if patience.again(&error).await => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
}

/// Runs the steps, and again where a lock was not to be had: every step may run again.
async fn patiently(conn: &mut Conn, steps: &str) -> Result<(), StoreError> {
    let (text, patience) = (format!("{};\n{steps}", Patience::each()), Patience::begins());
    loop {
        match last_rows(conn, &text).await {
            Ok(_) => return Ok(()),
            Err(error) if patience.again(&error).await => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

/// With whoever has something locked that a migration needs. Each step waits for a short while only, because
/// whoever uses the table waits behind it.
struct Patience(Instant);

impl Patience {
    fn begins() -> Self {
        Self(Instant::now() + Duration::from_secs(PATIENCE_SECONDS.into()))
    }

    /// How long each step waits.
    fn each() -> String {
        format!("set session lock_wait_timeout = {LOCK_SECONDS}")
    }

    /// Whether what failed is to be tried once more, now that others went first.
    async fn again(&self, error: &Error) -> bool {
        let again = number(error) == Some(code::LOCK_TIMEOUT) && Instant::now() < self.0;
        if again {
            sleep(PAUSE).await;
        }
        again
    }
}

/// `SKIP LOCKED` came with MySQL 8.0.1 and with MariaDB 10.6; names that compare exactly with MySQL
/// 8.0.17.
fn check_server(version: &str) -> Result<(), StoreError> {
    if let Some(unsupported) = Unsupported::by_version(version) {
        return Err(misconfigured(unsupported.to_string()));
    }
    let is_mariadb = version.contains("MariaDB");
    let numbers: Vec<u32> = version
        .split(|c: char| !c.is_ascii_digit())
        .map_while(|number| number.parse().ok())
        .take(3)
        .collect();
    let oldest: &[u32] = if is_mariadb { &[10, 6] } else { &[8, 0, 1] };
    if numbers.as_slice() < oldest {
        return Err(misconfigured(format!(
            "the server is version {version}, which has no SKIP LOCKED: two nodes would wait for each \
             other's rows; MySQL 8.0.1 and MariaDB 10.6 are the oldest that work"
        )));
    }
    if !is_mariadb && numbers.as_slice() < &[8, 0, 17][..] {
        return Err(misconfigured(format!(
            "the server is version {version}; of MySQL 8.0 the first releases lack a collation that \
             compares names exactly: 8.0.17 is the oldest that works"
        )));
    }
    Ok(())
}

/// Everything that [`MysqlStore::migrate`] would run on an empty database, as a script for MySQL and
/// MariaDB alike: for the client `mysql` or `mariadb`, because it has lines `delimiter`. Run it in the
/// outbox's database.
///
/// Running it a second time changes nothing.
pub fn migration_sql(options: &MysqlOptions) -> Result<String, StoreError> {
    upgrade_sql(options, 0)
}

/// The same for tables that are there already, in this version (the newest in `outbox_schema`).
///
/// # Errors
///
/// [`Misconfigured`](StoreError::Misconfigured) for a version that does not exist.
pub fn upgrade_sql(options: &MysqlOptions, from: usize) -> Result<String, StoreError> {
    options.check()?;
    let missing = after(from, MIGRATIONS.len())?;
    let names = Names::new(None, options.prefix.as_ref());
    let steps = steps(&names, options, Timestamp::now(), missing);
    let index = match options.tenant_index {
        true => names.put_into(&laid_out(TENANT_INDEX, options, Timestamp::now())),
        false => String::new(),
    };
    let routines = routine::script(&names, &ROUTINES);
    Ok(format!("{};\n{steps}{index}{routines}", lock(&names, "outbox_schema")))
}

/// One migration at a time, in this database. A lock's name has 64 characters at most.
pub(crate) fn lock(names: &Names, versions: &str) -> String {
    format!(
        "select get_lock(concat('sendoff ', left(sha2(concat(database(), '.{}'), 256), 48)), \
         {PATIENCE_SECONDS})",
        names.plain(versions)
    )
}

/// The last `missing` migrations as the options want them.
fn steps(names: &Names, options: &MysqlOptions, now: Timestamp, missing: usize) -> String {
    let texts: Vec<_> = MIGRATIONS.iter().map(|text| laid_out(text, options, now)).collect();
    script(names, "outbox_schema", &texts, missing)
}

/// The last `missing` migrations, each with its number.
pub(crate) fn script(
    names: &Names,
    versions: &str,
    migrations: &[impl AsRef<str>],
    missing: usize,
) -> String {
    let versions = names.qualified(versions);
    let mut script = format!(
        "create table if not exists {versions} (\n    version    int         not null primary key,\n    \
         applied_at datetime(6) not null\n) engine = InnoDB;\n",
    );
    for (at, migration) in migrations.iter().enumerate().skip(migrations.len() - missing) {
        let _ = write!(
            script,
            "\n{}\ninsert ignore into {versions} (version, applied_at) values ({}, utc_timestamp(6));\n",
            names.put_into(migration.as_ref()).trim_end(),
            at + 1
        );
    }
    script
}

/// A migration as the options want it.
fn laid_out(migration: &str, options: &MysqlOptions, now: Timestamp) -> String {
    let (key, instant, partitions) = match options.layout {
        Layout::Flat => ("event_id", ", algorithm = instant", String::new()),
        // No server adds a virtual column to one in place.
        Layout::Partitioned(period) => ("event_id, created_at", "", partitions::first(period, now)),
    };
    let check = match options.payloads {
        Payloads::Binary => "",
        // NULL is what bytes that are no text would be, and NULL passes a check.
        Payloads::Json => {
            ",\n    constraint outbox_event_payload\n        check \
             (coalesce(json_valid(convert(payload using utf8mb4)), 0) = 1)"
        }
    };
    let prefix = options.prefix.as_ref().map(|name| name.as_str().to_ascii_lowercase());
    migration
        .replace("sendoff_prefix", prefix.as_deref().unwrap_or_default())
        .replace("sendoff_key", key)
        .replace("sendoff_instant", instant)
        .replace("sendoff_payload_check", check)
        .replace("sendoff_partitions", &partitions)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds S6.
    #[test]
    fn a_server_without_skip_locked_is_refused() {
        for version in ["8.0.17", "8.0.36", "9.7.4-2", "10.6.0-MariaDB", "11.4.2-MariaDB-log"] {
            check_server(version).unwrap();
        }
        assert!(check_server("8.0.11").unwrap_err().to_string().contains("8.0.17"));
        for version in ["5.7.44-log", "8.0.0-dmr", "10.5.27-MariaDB-1:10.5", "10.11.2", ""] {
            // A MySQL 10 does not exist; a MariaDB that hides its name is taken for one.
            if version == "10.11.2" {
                check_server(version).unwrap();
                continue;
            }
            let said = check_server(version).unwrap_err().to_string();
            for word in ["SKIP LOCKED", "MySQL 8.0.1", "MariaDB 10.6"] {
                assert!(said.contains(word), "{said}");
            }
        }
    }

    /// Holds S8.
    #[test]
    fn a_server_that_only_looks_like_mysql_is_refused_by_its_name() {
        for version in ["8.0.11-TiDB-v7.5.1", "5.7.25-TiDB-v6.5.0"] {
            let said = check_server(version).unwrap_err().to_string();
            assert!(
                said.contains("TiDB is not supported") && said.contains("SKIP LOCKED"),
                "{said}"
            );
        }
    }

    const JSON_ONLY: &str = "json_valid(convert(payload using utf8mb4)), 0) = 1";

    #[test]
    fn the_script_is_what_the_options_say() {
        let script = |options| migration_sql(&options).unwrap();
        let flat = script(MysqlOptions::default());
        assert!(flat.contains("primary key (event_id),"), "{flat}");
        assert!(!flat.contains("partition by") && !flat.contains(JSON_ONLY), "{flat}");
        assert!(!flat.contains("sendoff."), "{flat}");
        let layout = Layout::Partitioned(sendoff_core::partition::Period::Month);
        let json = MysqlOptions { layout, payloads: Payloads::Json, ..MysqlOptions::default() };
        let other = script(json);
        assert!(other.contains("primary key (event_id, created_at),"), "{other}");
        assert!(other.contains("partition pmax values less than (maxvalue)"), "{other}");
        assert!(other.contains(JSON_ONLY), "{other}");
    }
}
