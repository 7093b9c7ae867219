//! Where a scenario takes place: a server, or a folder for SQLite files.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::process::Command;

use crate::Store;
use crate::contest::progress;
use crate::ground::{Ground, mysql, postgres, sqlite};

/// A place for databases.
#[derive(Debug)]
pub(crate) struct Server {
    place: Place,
    /// Numbers the databases.
    next: AtomicU32,
    /// Where brokers of our own are remembered.
    brokers: Mutex<Vec<TempDir>>,
}

#[derive(Debug)]
enum Place {
    Server {
        kind: Kind,
        url: String,
        /// Where our own server is remembered; nothing if it is somebody else's.
        private: Option<TempDir>,
    },
    Sqlite(TempDir),
}

/// A kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Postgres,
    Mariadb,
    Mysql,
}

impl Kind {
    /// As `cargo xtask services` knows it.
    fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mariadb => "mariadb",
            Self::Mysql => "mysql",
        }
    }

    /// What leads to one that is there already.
    fn variable(self) -> &'static str {
        match self {
            Self::Postgres => "SENDOFF_POSTGRES_URL",
            Self::Mariadb => "SENDOFF_MARIADB_URL",
            Self::Mysql => "SENDOFF_MYSQL_URL",
        }
    }

    /// Removes a database of ours.
    async fn drop(self, url: &str, name: &str) -> Result<()> {
        match self {
            Self::Postgres => postgres::Ground::drop(url, name).await,
            Self::Mariadb | Self::Mysql => mysql::Ground::drop(url, name).await,
        }
    }
}

impl Server {
    /// The server that the environment names, or a private one.
    pub(crate) async fn find(store: Store) -> Result<Self> {
        let place = match store {
            Store::Sqlite => Place::Sqlite(tempfile::tempdir()?),
            Store::Postgres => find(Kind::Postgres).await?,
            Store::Mariadb => find(Kind::Mariadb).await?,
            Store::Mysql => find(Kind::Mysql).await?,
        };
        Ok(Self { place, next: AtomicU32::new(0), brokers: Mutex::default() })
    }

    pub(crate) fn store(&self) -> Store {
        match self.place {
            Place::Server { kind: Kind::Postgres, .. } => Store::Postgres,
            Place::Server { kind: Kind::Mariadb, .. } => Store::Mariadb,
            Place::Server { kind: Kind::Mysql, .. } => Store::Mysql,
            Place::Sqlite(_) => Store::Sqlite,
        }
    }

    /// A new database with empty tables.
    pub(crate) async fn ground(&self) -> Result<Ground> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Ok(match &self.place {
            Place::Server { kind, url, .. } => {
                let name = format!("sendoff_bench_{}_{number}", std::process::id());
                match kind {
                    Kind::Postgres => Ground::Postgres(postgres::Ground::create(url, &name).await?),
                    Kind::Mariadb | Kind::Mysql => {
                        Ground::Mysql(mysql::Ground::create(url, &name).await?)
                    }
                }
            }
            Place::Sqlite(folder) => {
                let path = folder.path().join(format!("bench-{number}.db"));
                Ground::Sqlite(sqlite::Ground::create(path).await?)
            }
        })
    }

    /// The address of the broker that the environment names, or of a private one, which is stopped with the server.
    pub(crate) async fn broker(&self, name: &str, variable: &str) -> Result<String> {
        let (url, private) = named_or_private(name, variable).await?;
        self.brokers.lock().unwrap_or_else(PoisonError::into_inner).extend(private);
        Ok(url)
    }

    /// Stops the server if it is ours, and drops the databases made on it if it is not.
    pub(crate) async fn stop(self) -> Result<()> {
        for state in self.brokers.into_inner().unwrap_or_else(PoisonError::into_inner) {
            services("down", &state, &[]).await?;
            state.close()?;
        }
        match self.place {
            Place::Sqlite(folder) => Ok(folder.close()?),
            Place::Server { private: Some(state), .. } => {
                services("down", &state, &[]).await?;
                Ok(state.close()?)
            }
            Place::Server { kind, url, private: None } => {
                for number in 0..self.next.into_inner() {
                    let name = format!("sendoff_bench_{}_{number}", std::process::id());
                    kind.drop(&url, &name).await?;
                }
                Ok(())
            }
        }
    }
}

async fn find(kind: Kind) -> Result<Place> {
    let (url, private) = named_or_private(kind.name(), kind.variable()).await?;
    Ok(Place::Server { kind, url, private })
}

/// The address of the server that a variable names, or of a private one and where that is remembered.
async fn named_or_private(name: &str, variable: &str) -> Result<(String, Option<TempDir>)> {
    if let Some(url) = std::env::var(variable).ok().filter(|url| !url.is_empty()) {
        return Ok((url, None));
    }
    progress(format_args!("starting a durable {name} server (set {variable} to use another)"));
    let state = tempfile::tempdir()?;
    let exports = services("up", &state, &[name, "--durable"]).await?;
    match exported(&exports, variable) {
        Some(url) => Ok((url, Some(state))),
        None => {
            services("down", &state, &[]).await?;
            bail!("`cargo xtask services up` did not say where the server is")
        }
    }
}

/// Runs `cargo xtask services` and returns what it prints.
async fn services(command: &str, state: &TempDir, arguments: &[&str]) -> Result<String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // Ours for this package: they would make build scripts that watch them run again.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_")) {
            cargo.env_remove(name);
        }
    }
    let output = cargo
        .args(["xtask", "services", command])
        .args(arguments)
        .arg("--dir")
        .arg(state.path())
        .current_dir(workspace()?)
        .stderr(Stdio::inherit())
        .output()
        .await
        .context("cargo was not started")?;
    if !output.status.success() {
        bail!("`cargo xtask services {command}` failed ({})", output.status);
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn workspace() -> Result<PathBuf> {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    manifest
        .and_then(|folder| folder.parent().map(PathBuf::from))
        .context("start this with `cargo run`, or name a server in the environment")
}

/// The value of `variable` in lines of `export NAME='value'`.
fn exported(lines: &str, variable: &str) -> Option<String> {
    let value = lines
        .lines()
        .find_map(|line| line.strip_prefix("export ")?.strip_prefix(variable)?.strip_prefix('='))?;
    Some(value.trim().trim_matches(['\'', '"']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_from_what_a_shell_would_read() {
        let lines =
            "export SENDOFF_POSTGRES18_URL='no'\nexport SENDOFF_POSTGRES_URL='postgres://a/b'\n";
        let variable = Kind::Postgres.variable();
        assert_eq!(exported(lines, variable).as_deref(), Some("postgres://a/b"));
        assert_eq!(exported("", variable), None);
    }
}
