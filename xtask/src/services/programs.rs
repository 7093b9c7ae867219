//! Programs that tests start by themselves: PgBouncer, in front of a server of theirs, and faketime,
//! which moves the clock of one.

use std::path::{Path, PathBuf};

use super::error::Error;
use super::install;

/// Debian's packages have their names.
const PROGRAMS: [&str; 2] = ["pgbouncer", "faketime"];

/// Installs those that are missing, and says which cannot be had.
pub(super) fn install() -> Vec<Error> {
    let install =
        |program| find(program).map_or_else(|| install::apt(program, || find(program)), Ok);
    PROGRAMS.into_iter().filter_map(|program| install(program).err()).collect()
}

/// Debian keeps some where only root looks.
fn find(program: &str) -> Option<PathBuf> {
    let folders = install::search_path().into_iter().chain([Path::new("/usr/sbin").to_owned()]);
    folders.map(|folder| folder.join(program)).find(|file| file.is_file())
}
