//! Where a server lives: a temporary folder, and the account that owns it.
//!
//! One whose data is thrown away lives in memory where there is plenty: the tests make and drop many thousand tables, which
//! on a disk are files.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use super::{Durability, limits};

/// The file system in memory, where the system has one.
const MEMORY: &str = "/dev/shm";

/// What every home is called, so that nothing else is ever removed.
const PREFIX: &str = "sendoff-";

/// The folder of one server and the folder of its programs.
#[derive(Debug)]
pub(super) struct Home {
    pub(super) folder: PathBuf,
    programs: PathBuf,
    account: Account,
}

/// Who a server runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Account {
    /// As we do.
    Own,
    /// As somebody with fewer rights, because we are root.
    Other { user: u32, group: u32 },
}

impl Home {
    /// Makes an empty folder that only the server's account may enter.
    ///
    /// It is among the temporary files rather than in the target folder because that account must
    /// be able to reach it, and because the path of a socket in it must be short.
    pub(super) fn make(
        name: &str,
        account: &str,
        programs: PathBuf,
        durability: Durability,
    ) -> io::Result<Self> {
        let account = Account::find(account)?;
        let folder = make_folder(&place(durability), name)?;
        if let Account::Other { user, group } = account {
            chown(&folder, Some(user), Some(group))?;
        }
        Ok(Self { folder, programs, account })
    }

    pub(super) fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// The folder of its programs.
    pub(super) fn programs(&self) -> &Path {
        &self.programs
    }

    /// One of the server's programs, run in this folder by the server's account.
    pub(super) fn command(&self, program: &str) -> Command {
        let program = self.programs.join(program);
        let mut command = match self.account {
            Account::Own => Command::new(program),
            Account::Other { user, group } => {
                let mut command = Command::new("setpriv");
                command
                    .args([format!("--reuid={user}"), format!("--regid={group}")])
                    .args(["--clear-groups", "--"])
                    .arg(program);
                command
            }
        };
        command.current_dir(&self.folder).env("LC_ALL", "C").env("HOME", &self.folder);
        // MariaDB removes what other servers have in a folder of temporary tables that they share.
        command.env("TMPDIR", &self.folder);
        command
    }
}

impl Account {
    fn find(preferred: &str) -> io::Result<Self> {
        if !is_root()? {
            return Ok(Self::Own);
        }
        let known = |name| Ok(Self::Other { user: id("-u", name)?, group: id("-g", name)? });
        known(preferred).or_else(|_: io::Error| known("nobody"))
    }
}

pub(super) fn is_root() -> io::Result<bool> {
    let output = Command::new("id").arg("-u").output()?;
    Ok(output.stdout.trim_ascii() == b"0")
}

fn id(flag: &str, name: &str) -> io::Result<u32> {
    let output = Command::new("id").args([flag, name]).output()?;
    let number = String::from_utf8_lossy(&output.stdout);
    number.trim().parse().map_err(|_| io::Error::new(io::ErrorKind::NotFound, name.to_owned()))
}

/// A folder of temporary files that somebody named is used in any case.
fn place(durability: Durability) -> PathBuf {
    let named = std::env::var_os("TMPDIR").is_some_and(|folder| !folder.is_empty());
    match durability {
        Durability::Fast if !named && free(MEMORY) >= limits::MEMORY_BYTES => MEMORY.into(),
        Durability::Fast | Durability::Durable => std::env::temp_dir(),
    }
}

/// How many bytes fit into a folder's file system; none where nobody knows.
fn free(folder: &str) -> u64 {
    let asked = Command::new("df").args(["-P", "-k", folder]).env("LC_ALL", "C").output();
    let answer = asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let blocks = answer.ok().and_then(|text| {
        // Device, size, used, free, and so on, below a heading.
        text.lines().nth(1)?.split_whitespace().nth(3)?.parse::<u64>().ok()
    });
    blocks.map_or(0, |blocks| blocks.saturating_mul(1_024))
}

fn make_folder(place: &Path, name: &str) -> io::Result<PathBuf> {
    let mut number = 0;
    loop {
        let folder = place.join(format!("{PREFIX}{name}-{}-{number}", std::process::id()));
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            made => return made.map(|()| folder),
        }
    }
}

/// Whether a folder can be one that was made here.
pub(super) fn is_home(folder: &Path) -> bool {
    let name = folder.file_name().and_then(OsStr::to_str);
    folder.is_absolute() && name.is_some_and(|name| name.starts_with(PREFIX))
}

/// Removes a home, in which a process that is about to end may still write.
pub(super) fn remove(folder: &Path) -> io::Result<()> {
    let mut outcome = Ok(());
    for _ in 0..limits::REMOVE_ATTEMPTS {
        outcome = match fs::remove_dir_all(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => return Ok(()),
        };
        thread::sleep(limits::POLL);
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_folder_named_by_us_is_a_home() {
        assert!(is_home(Path::new("/tmp/sendoff-postgres-12-0")));
        for other in ["/", "/home/sendoff", "sendoff-postgres-12-0", "/tmp/sendoff-x/..", ""] {
            assert!(!is_home(Path::new(other)), "{other}");
        }
    }

    #[test]
    fn two_homes_are_never_the_same() {
        let place = std::env::temp_dir();
        let one = make_folder(&place, "test").unwrap();
        let other = make_folder(&place, "test").unwrap();
        assert_ne!(one, other);
        remove(&one).unwrap();
        remove(&other).unwrap();
        assert!(!one.exists() && !other.exists());
    }

    #[test]
    fn what_has_to_be_durable_is_on_a_disk() {
        assert_eq!(place(Durability::Durable), std::env::temp_dir());
        assert!(free("/") > 0, "somebody compiled this here");
        assert_eq!(free("/no/such/folder"), 0);
    }

    #[test]
    fn removing_a_home_twice_is_fine() {
        let home = make_folder(&std::env::temp_dir(), "test").unwrap();
        remove(&home).unwrap();
        remove(&home).unwrap();
    }
}
