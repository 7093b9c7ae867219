//! Running migrations: for the outbox and for the journal, which have versions of their own.

use std::borrow::Cow;
use std::fmt::Write;
use std::future::Future;
use std::time::Duration;

use sendoff_engine::store::StoreError;
use sendoff_engine::store::frame::{Unsupported, check_complete, missing};
use tokio::time::sleep;
use tokio_postgres::{Client, Row};
use tracing::info;

use crate::error::{failed, misconfigured};
use crate::link::{Link, Params, query_unnamed};
use crate::names::Names;
use crate::ready::Lacks;
use crate::sql::Statement;

/// Full transaction numbers, and `pg_xact_status`, came with this one.
const OLDEST_SERVER: i32 = 130_000;

/// How long a step waits for its lock, with writers waiting behind it.
const LOCK_WAIT: &str = "1s";
/// How often a migration that found something locked is tried, and how long it lets others go on first.
const TRIES: u32 = 60;
const PAUSE: Duration = Duration::from_millis(1_000);

/// Tries for as long as there is patience with whoever has a table locked.
pub(crate) async fn patiently<F, T>(attempt: impl Fn() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    for tries in 1..TRIES {
        match attempt().await {
            Err(StoreError::Busy(_)) => {
                info!(tries, "a migration waits: a transaction keeps a table locked");
                sleep(PAUSE.mul_f64(0.5 + fastrand::f64())).await;
            }
            answer => return answer,
        }
    }
    attempt().await
}

/// What makes the tables of one thing and brings them up to date.
pub(crate) struct Migrations<'a> {
    /// Every one, the oldest first. What a published one does never changes.
    pub(crate) all: &'static [&'static str],
    pub(crate) names: &'a Names,
    /// The table that says which of them ran.
    pub(crate) versions: &'static str,
    /// The table that matters, for messages.
    pub(crate) table: &'static str,
    /// The program's command that runs them.
    pub(crate) command: &'static str,
}

/// Statements about the versions.
#[derive(Clone, Copy)]
pub(crate) struct Versions<'a> {
    /// The server's version, and whether any migration ever ran.
    pub(crate) known: &'a Statement,
    /// The newest that ran.
    pub(crate) version: &'a Statement,
}

/// Whoever runs a statement.
pub(crate) trait Ask {
    fn ask(
        &self,
        statement: &Statement,
        params: Params<'_>,
    ) -> impl Future<Output = Result<Vec<Row>, StoreError>> + Send;
}

impl Ask for Link {
    async fn ask(&self, statement: &Statement, params: Params<'_>) -> Result<Vec<Row>, StoreError> {
        self.query(statement, params).await
    }
}

impl Ask for Client {
    async fn ask(&self, statement: &Statement, params: Params<'_>) -> Result<Vec<Row>, StoreError> {
        query_unnamed(self, statement, params).await.map_err(failed)
    }
}

impl Migrations<'_> {
    /// How many are missing; `None` where none ever ran.
    pub(crate) async fn installed(
        &self,
        server: &impl Ask,
        versions: Versions<'_>,
    ) -> Result<Option<usize>, StoreError> {
        let rows = server.ask(versions.known, &[]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        if let Some(unsupported) = Unsupported::by_version(row.try_get(2).map_err(failed)?) {
            return Err(misconfigured(unsupported.to_string()));
        }
        let number: i32 = row.try_get(0).map_err(failed)?;
        if number < OLDEST_SERVER {
            return Err(misconfigured(format!(
                "the server is PostgreSQL {}; version 13 is the oldest that works",
                number / 10_000
            )));
        }
        if !row.try_get::<_, bool>(1).map_err(failed)? {
            return Ok(None);
        }
        let rows = server.ask(versions.version, &[]).await?;
        let found: i32 = rows.first().map_or(Ok(0), |row| row.try_get(0)).map_err(failed)?;
        missing(found.into(), self.all.len()).map(Some)
    }

    /// Whether everything is there.
    pub(crate) async fn check_installed(
        &self,
        server: &impl Ask,
        versions: Versions<'_>,
    ) -> Result<(), StoreError> {
        let missing = self.installed(server, versions).await?;
        let table = self.names.qualified(self.table);
        check_complete(missing, &table, self.command, "database, schema or prefix")
    }

    /// Whether everything is there that `ready` asks for, and may be used.
    pub(crate) async fn check_ready(
        &self,
        server: &impl Ask,
        versions: Versions<'_>,
        ready: &Statement,
        params: Params<'_>,
    ) -> Result<(), StoreError> {
        let lacks = Lacks::read(&server.ask(ready, params).await?)?;
        // The version says more than what an older one has not; who may not ask for it is told that.
        if lacks.may_read(&self.names.qualified(self.versions)) {
            self.check_installed(server, versions).await?;
        }
        lacks.check(self.command)
    }

    /// Begins a transaction in which nobody else migrates, and says how many are missing.
    pub(crate) async fn begin(
        &self,
        client: &Client,
        versions: Versions<'_>,
    ) -> Result<usize, StoreError> {
        client.batch_execute(&self.lock()).await.map_err(failed)?;
        Ok(self.installed(client, versions).await?.unwrap_or(self.all.len()))
    }

    /// Runs the last `missing` of them, each as `shape` has it, and commits.
    pub(crate) async fn finish(
        &self,
        client: &Client,
        missing: usize,
        shape: impl Fn(&'static str) -> Cow<'static, str>,
    ) -> Result<(), StoreError> {
        if missing > 0 {
            client.batch_execute(&self.steps(missing, shape)).await.map_err(failed)?;
        }
        client.batch_execute("commit").await.map_err(failed)?;
        if missing > 0 {
            let (table, version) = (self.names.qualified(self.table), self.all.len());
            info!(table, version, "migrated");
        }
        Ok(())
    }

    /// Everything that would be run where the last `missing` of them are.
    pub(crate) fn script(
        &self,
        missing: usize,
        shape: impl Fn(&'static str) -> Cow<'static, str>,
    ) -> String {
        format!("{}{}commit;\n", self.lock(), self.steps(missing, shape))
    }

    /// One migration at a time; the lock ends with its transaction, so it works behind a pooler too.
    fn lock(&self) -> String {
        format!(
            "begin isolation level read committed;\n\
             set local statement_timeout = 0;\n\
             set local lock_timeout = 0;\n\
             select pg_advisory_xact_lock(hashtextextended('sendoff {}', 0));\n",
            self.names.qualified(self.versions).replace('"', "")
        )
    }

    /// The last `missing`, each with its number.
    fn steps(&self, missing: usize, shape: impl Fn(&'static str) -> Cow<'static, str>) -> String {
        // Each step by itself: a writer must not wait for long behind one that waits.
        let mut script = format!("set local lock_timeout = '{LOCK_WAIT}';\n");
        // Making a schema needs a right that using one does not, also where it exists already.
        if !self.names.is_public() {
            let schema = self.names.schema();
            let _ = write!(
                script,
                "do $body$ begin\n    if to_regnamespace('\"{schema}\"') is null then\n        \
                 create schema \"{schema}\";\n    end if;\nend $body$;\n"
            );
        }
        let versions = self.names.qualified(self.versions);
        let _ = write!(
            script,
            "create table if not exists {versions} (\n    version    integer     not null primary \
             key,\n    applied_at timestamptz not null default now()\n);\n"
        );
        for (at, migration) in self.all.iter().enumerate().skip(self.all.len() - missing) {
            let _ = write!(
                script,
                "\n{}\ninsert into {versions} (version) values ({});\n",
                self.names.put_into(&shape(migration)).trim_end(),
                at + 1
            );
        }
        script
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_runs() {
        let names = Names::new(None, None);
        let (versions, table) = ("thing_schema", "thing");
        let all = &["create a", "create b", "create c"];
        let migrations = Migrations { all, names: &names, versions, table, command: "migrate" };
        let script = migrations.steps(1, Cow::Borrowed);
        assert!(script.contains("create c") && script.contains("values (3)"), "{script}");
        assert!(!script.contains("create b"), "{script}");
    }
}
