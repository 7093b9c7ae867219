//! What a server answered to inserts, until the COMMIT after them is answered too.

use sendoff_core::BoxError;

use super::{CommitError, CommitMark};
use crate::store::Born;

/// The server's answer to what was inserted last before a COMMIT.
#[derive(Debug, Default)]
pub struct Inserted {
    /// What it made of each row.
    pub born: Vec<Born>,
    /// What it can be asked for later, should COMMIT not be answered: the transaction's number, or the
    /// session's. `None` where nothing was inserted.
    pub xid: Option<u64>,
}

impl Inserted {
    /// What the answer to the COMMIT means. Only some errors are known to mean that it was rolled back: a session
    /// that is being ended may have committed before it could say so.
    pub fn committed<E: Into<BoxError>>(
        self,
        unknown: CommitMark,
        answer: Result<(), E>,
        is_rolled_back: impl FnOnce(&E) -> bool,
    ) -> Result<Vec<Born>, CommitError> {
        let Err(error) = answer else { return Ok(self.born) };
        if is_rolled_back(&error) {
            return Err(CommitError::RolledBack(error.into()));
        }
        let mark = match self.xid {
            Some(xid) => unknown.with_xid(xid),
            None => unknown,
        };
        Err(CommitError::Unknown { mark, source: error.into() })
    }
}
