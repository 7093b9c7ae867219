//! What the build needs to make librdkafka, and programs that tests start by themselves: PgBouncer, in front of a server of theirs, faketime, which moves
//! the clock of one, and Python, which writes events as other languages do. `psql` and `mariadb` come with
//! their servers.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::Error;
use super::install;

/// Debian's packages, and by which of their programs each is known, also where another system has them.
const BUILD: [(&str, &[&str]); 2] = [("make", &["make"]), ("g++", &["c++", "g++", "clang++"])];

/// Installs what the build needs beside a linker, where it is missing. Without them nothing is built.
pub(crate) fn install_for_build() -> Result<(), Error> {
    let install = |(package, programs): (&'static str, &[&str])| {
        let any = || programs.iter().find_map(|program| find(program));
        any().map_or_else(|| install::apt(package, any), Ok)
    };
    Error::all(BUILD.into_iter().map(install).filter_map(Result::err).collect())
}

/// Debian's packages have their names.
const PROGRAMS: [&str; 2] = ["pgbouncer", "faketime"];

/// Installs those that are missing, and says which cannot be had.
pub(super) fn install() -> Vec<Error> {
    let install =
        |program| find(program).map_or_else(|| install::apt(program, || find(program)), Ok);
    let programs = PROGRAMS.into_iter().map(install);
    let python = python().map_or_else(|| install::apt(PSYCOPG2, python), Ok);
    programs.chain([python]).filter_map(Result::err).collect()
}

/// Python with its driver for PostgreSQL; the interpreter comes with it.
const PSYCOPG2: &str = "python3-psycopg2";

/// The first interpreter that has the driver: Debian's own may not be the first one.
fn python() -> Option<PathBuf> {
    let has = |python: &&str| {
        let import =
            Command::new(python).args(["-c", "import psycopg2"]).stderr(Stdio::null()).status();
        import.is_ok_and(|status| status.success())
    };
    ["python3", "/usr/bin/python3"].iter().find(|python| has(python)).map(PathBuf::from)
}

/// Debian keeps some where only root looks.
fn find(program: &str) -> Option<PathBuf> {
    let folders = install::search_path().into_iter().chain([Path::new("/usr/sbin").to_owned()]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}
