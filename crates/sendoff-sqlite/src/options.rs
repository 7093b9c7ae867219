//! Options of an outbox on SQLite, and the file that a URL names.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::Ident;
pub use sendoff_engine::store::Retention;
use sendoff_engine::store::StoreError;
use sendoff_engine::{Clock, SystemClock};

use crate::error::misconfigured;

/// Waiting longer for a lock than this is not patience but a deadlock nobody sees.
const BUSY_TIMEOUT_MAX: Duration = Duration::from_secs(5 * 60);

/// How a store works. `Default` suits one outbox in one file.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// Put before the names of the table, its indexes and its view: `billing_` makes
    /// `billing_outbox_event`. Outboxes with different prefixes live side by side in one file.
    pub prefix: Option<Ident>,
    /// What becomes of delivered rows.
    pub retention: Retention,
    /// How long a statement waits for another connection's lock before it gives up; at most five
    /// minutes.
    pub busy_timeout: Duration,
    /// The clock that due times and holds are measured by.
    pub clock: Arc<dyn Clock>,
    /// When a commit on a connection of [`connect`](crate::SqliteStore::connect) returns.
    pub synchronous: Synchronous,
    /// Whether opening the file makes the index that [fair claims](sendoff_engine::OutboxOptions::fair) need,
    /// where it is missing. One that is there stays, and costs every write a little.
    pub tenant_index: bool,
}

impl Default for SqliteOptions {
    /// No prefix, seven days of retention, five seconds of patience, the host's clock, durable
    /// commits, no index for fair claims.
    fn default() -> Self {
        Self {
            prefix: None,
            retention: Retention::default(),
            busy_timeout: Duration::from_secs(5),
            clock: Arc::new(SystemClock),
            synchronous: Synchronous::default(),
            tenant_index: false,
        }
    }
}

impl SqliteOptions {
    /// Validates once, at construction of the store.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        if self.busy_timeout > BUSY_TIMEOUT_MAX {
            return Err(misconfigured(format!(
                "busy_timeout is {} s; the limit is {} s",
                self.busy_timeout.as_secs(),
                BUSY_TIMEOUT_MAX.as_secs()
            )));
        }
        let prefix = self.prefix.as_ref().map_or("", Ident::as_str);
        if prefix.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("sqlite_")) {
            return Err(misconfigured(format!(
                "prefix {prefix:?}: SQLite keeps names that begin with `sqlite_` for itself; choose \
                 another"
            )));
        }
        Ok(())
    }
}

/// When a commit of the application returns.
///
/// This is about connections from [`connect`](crate::SqliteStore::connect). The store's own
/// connection always works as [`Normal`](Self::Normal): what a power failure can take from it are
/// claims and settlements, and their rows are then delivered again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// When the operating system has it. A crash of the process loses nothing; a power failure may
    /// undo the last commits, also ones whose events were delivered already.
    Normal,
    /// When the disk has it. The default: an event must never be delivered whose transaction is then
    /// gone.
    #[default]
    Full,
}

impl Synchronous {
    pub(crate) fn pragma(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Full => "full",
        }
    }
}

/// The file that `sqlite:path`, `sqlite://path` or `sqlite:///path` names.
pub(crate) fn file_of_url(url: &str) -> Result<PathBuf, StoreError> {
    let Some(rest) = url.strip_prefix("sqlite:") else {
        return Err(misconfigured(
            "the URL of an SQLite file is sqlite:relative/path or sqlite:///absolute/path".into(),
        ));
    };
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if let Some(at) = path.find(['?', '#']) {
        return Err(misconfigured(format!(
            "the URL of an SQLite file ends with its path; {:?} is not understood: set it in \
             SqliteOptions, and write a `?` or `#` of the path itself as %3F or %23",
            &path[at..]
        )));
    }
    let decoded = percent_decoded(path).ok_or_else(|| {
        misconfigured("the path in the URL has a `%` without two hexadecimal digits".into())
    })?;
    let path = PathBuf::from(decoded);
    check_path(&path)?;
    Ok(path)
}

/// Refuses what SQLite would not take as the name of a file.
pub(crate) fn check_path(path: &Path) -> Result<(), StoreError> {
    let name = path.as_os_str().as_encoded_bytes();
    if name.is_empty() || name == b":memory:" {
        return Err(misconfigured(
            "a database in memory is seen by one connection only, and an outbox needs two (yours and \
             the store's): give the path of a file"
                .into(),
        ));
    }
    if name.starts_with(b"file:") {
        return Err(misconfigured(
            "SQLite's own `file:` URIs may hide a database in memory or a read-only one: give a plain \
             path, or sqlite:///path"
                .into(),
        ));
    }
    Ok(())
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            let mut digit = || rest.next().and_then(|d| char::from(d).to_digit(16));
            u8::try_from(digit()? * 16 + digit()?).ok()?
        } else {
            byte
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds S8: the forms a URL may have.
    #[test]
    fn a_url_names_a_file() {
        for (url, path) in [
            ("sqlite:shop.db", "shop.db"),
            ("sqlite:/var/lib/shop.db", "/var/lib/shop.db"),
            ("sqlite://data/shop.db", "data/shop.db"),
            ("sqlite:///var/lib/shop.db", "/var/lib/shop.db"),
            ("sqlite:my%20shop%3F.db", "my shop?.db"),
        ] {
            assert_eq!(file_of_url(url).unwrap(), Path::new(path), "{url}");
        }
    }

    /// Holds S8: what is not understood is refused, not guessed.
    #[test]
    fn a_url_that_names_no_file_is_refused_with_the_reason() {
        for (url, reason) in [
            ("postgres://localhost/shop", "sqlite:///absolute/path"),
            ("sqlite::memory:", "memory"),
            ("sqlite://:memory:", "memory"),
            ("sqlite:%3Amemory:", "memory"),
            ("sqlite://", "memory"),
            ("sqlite:shop.db?mode=ro", "?mode=ro"),
            ("sqlite:file:shop.db", "file:"),
            ("sqlite:shop%2.db", "hexadecimal"),
            ("sqlite:shop%", "hexadecimal"),
        ] {
            let error = file_of_url(url).unwrap_err();
            assert!(matches!(error, StoreError::Misconfigured { .. }), "{url}: {error:?}");
            assert!(error.to_string().contains(reason), "{url}: {error}");
        }
    }
}
