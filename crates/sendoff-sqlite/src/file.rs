//! Which file a path leads to, and whether that is still the one that was opened.
//!
//! SQLite goes on with a file that was deleted or replaced, and says nothing: what is written to it is
//! found by nobody who opens the path afterwards. A store does not go over to the new file by itself. The
//! application's own connections would stay where they are, and what is written through them would not be
//! delivered, without a word. So whatever is asked is refused until the process has been started again, or
//! the file is back.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use sendoff_engine::capture::{JoinError, WriteError};
use sendoff_engine::store::StoreError;

/// The file is not at its path any more. The source of
/// [`StoreError::Unavailable`] and [`WriteError::Driver`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileLost {
    /// There is another one.
    #[error(
        "the database file {} was replaced while it was open, and what is written to it now is lost: \
         restart every process that uses it",
        path.display()
    )]
    Replaced {
        /// Where it was.
        path: PathBuf,
    },
    /// There is none.
    #[error(
        "the database file {} was deleted or moved while it was open, and what is written to it now is \
         lost: put it back, or restart every process that uses it",
        path.display()
    )]
    Gone {
        /// Where it was.
        path: PathBuf,
    },
}

impl From<FileLost> for StoreError {
    /// Unavailable: it may be put back.
    fn from(lost: FileLost) -> Self {
        Self::Unavailable(lost.into())
    }
}

/// Why nothing can be written.
pub(crate) fn unwritable(error: StoreError) -> WriteError {
    match error {
        StoreError::Closed => WriteError::Closed,
        StoreError::Unavailable(source) => WriteError::Driver(source),
        other => WriteError::Driver(other.into()),
    }
}

/// Why nobody can take part in a transaction.
pub(crate) fn unjoinable(error: StoreError) -> JoinError {
    match unwritable(error) {
        WriteError::Closed => JoinError::Closed,
        WriteError::Driver(source) => JoinError::Driver(source),
        other => JoinError::Driver(other.into()),
    }
}

/// A file that connections of ours have open.
#[derive(Debug)]
pub(crate) struct DatabaseFile {
    /// Absolute: somebody may change the working folder.
    path: PathBuf,
    opened: OnceLock<Identity>,
}

/// What tells files apart on one host. As long as a file is open nobody else gets its numbers.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl DatabaseFile {
    pub(crate) fn at(path: &Path) -> Self {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        Self { path, opened: OnceLock::new() }
    }

    /// To be called when a connection has been opened: the first one says which file it is.
    pub(crate) fn opened(&self) -> Result<(), FileLost> {
        if let Ok(Some(identity)) = identity(&self.path) {
            self.opened.get_or_init(|| identity);
        }
        self.check()
    }

    /// Whether it is still there. Cheap: it asks the file system, which has the answer in memory.
    pub(crate) fn check(&self) -> Result<(), FileLost> {
        let Some(opened) = self.opened.get() else { return Ok(()) };
        match identity(&self.path) {
            Ok(Some(found)) if found != *opened => {
                Err(FileLost::Replaced { path: self.path.clone() })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(FileLost::Gone { path: self.path.clone() })
            }
            // Whoever may not look, as after giving up privileges, knows nothing.
            _ => Ok(()),
        }
    }

    /// The write-ahead log beside it.
    pub(crate) fn log(&self) -> PathBuf {
        let mut log = self.path.clone().into_os_string();
        log.push("-wal");
        log.into()
    }
}

#[cfg(unix)]
fn identity(path: &Path) -> io::Result<Option<Identity>> {
    use std::os::unix::fs::MetadataExt;

    let file = std::fs::metadata(path)?;
    Ok(Some(Identity { device: file.dev(), inode: file.ino() }))
}

/// Where an open file cannot be deleted there is nothing to be compared.
#[cfg(not(unix))]
fn identity(_: &Path) -> io::Result<Option<Identity>> {
    Ok(None)
}
