//! PgBouncer, which the tests start by themselves: it stands in front of a server of theirs.

use std::path::{Path, PathBuf};

use super::error::Error;
use super::install;

const PROGRAM: &str = "pgbouncer";

/// Installs it where it is missing.
pub(super) fn install() -> Result<PathBuf, Error> {
    find().map_or_else(|| install::apt(PROGRAM, find), Ok)
}

/// Debian keeps it where only root looks.
fn find() -> Option<PathBuf> {
    let mut folders = install::search_path();
    folders.push(Path::new("/usr/sbin").to_owned());
    folders.into_iter().map(|folder| folder.join(PROGRAM)).find(|program| program.is_file())
}
