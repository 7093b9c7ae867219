//! Where a scenario takes place: a PostgreSQL server, or a folder for SQLite files.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;
use tokio::process::Command;

use crate::Store;
use crate::contest::progress;
use crate::ground::{Ground, postgres, sqlite};

const URL_VARIABLE: &str = "SENDOFF_POSTGRES_URL";

/// A place for databases.
#[derive(Debug)]
pub(crate) struct Server {
    place: Place,
    /// Numbers the databases.
    next: AtomicU32,
}

#[derive(Debug)]
enum Place {
    Postgres {
        url: String,
        /// Where our own server is remembered; nothing if it is somebody else's.
        private: Option<TempDir>,
    },
    Sqlite(TempDir),
}

impl Server {
    /// The server at `url`, or a private one where none is given.
    pub(crate) async fn find(store: Store, url: Option<String>) -> Result<Self> {
        let place = match (store, url) {
            (Store::Sqlite, _) => Place::Sqlite(tempfile::tempdir()?),
            (Store::Postgres, Some(url)) => Place::Postgres { url, private: None },
            (Store::Postgres, None) => start().await?,
        };
        Ok(Self { place, next: AtomicU32::new(0) })
    }

    pub(crate) fn store(&self) -> Store {
        match self.place {
            Place::Postgres { .. } => Store::Postgres,
            Place::Sqlite(_) => Store::Sqlite,
        }
    }

    /// A new database with empty tables.
    pub(crate) async fn ground(&self) -> Result<Ground> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Ok(match &self.place {
            Place::Postgres { url, .. } => {
                let name = format!("sendoff_bench_{}_{number}", std::process::id());
                Ground::Postgres(postgres::Ground::create(url, &name).await?)
            }
            Place::Sqlite(folder) => {
                let path = folder.path().join(format!("bench-{number}.db"));
                Ground::Sqlite(sqlite::Ground::create(path).await?)
            }
        })
    }

    /// Stops the server if it is ours, and drops the databases made on it if it is not.
    pub(crate) async fn stop(self) -> Result<()> {
        match self.place {
            Place::Sqlite(folder) => Ok(folder.close()?),
            Place::Postgres { private: Some(state), .. } => {
                services("down", &state, &[]).await?;
                Ok(state.close()?)
            }
            Place::Postgres { url, private: None } => {
                for number in 0..self.next.into_inner() {
                    let name = format!("sendoff_bench_{}_{number}", std::process::id());
                    postgres::Ground::drop(&url, &name).await?;
                }
                Ok(())
            }
        }
    }
}

async fn start() -> Result<Place> {
    progress(format_args!("starting a durable PostgreSQL (set {URL_VARIABLE} to use another)"));
    let state = tempfile::tempdir()?;
    let exports = services("up", &state, &["postgres", "--durable"]).await?;
    match exported(&exports, URL_VARIABLE) {
        Some(url) => Ok(Place::Postgres { url, private: Some(state) }),
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
        .with_context(|| format!("start this with `cargo run`, or set {URL_VARIABLE}"))
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
        assert_eq!(exported(lines, URL_VARIABLE).as_deref(), Some("postgres://a/b"));
        assert_eq!(exported("", URL_VARIABLE), None);
    }
}
