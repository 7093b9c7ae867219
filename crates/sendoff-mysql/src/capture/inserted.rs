use sendoff_core::BoxError;
use sendoff_engine::capture::{CommitError, CommitMark};
use sendoff_engine::store::{Born, NewRow};

use crate::error::{code, is_lost_race};

/// The server's answer to the insert before a COMMIT.
pub(super) struct Inserted {
    pub(super) born: Vec<Born>,
    /// The session's number; `None` where nothing was inserted.
    pub(super) session: Option<u64>,
}

impl Inserted {
    /// What the answer to the COMMIT means, which has this number if it is a refusal.
    pub(super) fn committed<E: Into<BoxError>>(
        self,
        rows: &[NewRow],
        answer: Result<(), E>,
        number: impl Fn(&E) -> Option<u16>,
    ) -> Result<Vec<Born>, CommitError> {
        let Err(error) = answer else { return Ok(self.born) };
        // A few refusals are known to mean that it was rolled back.
        if number(&error).is_some_and(undoes) {
            return Err(CommitError::RolledBack(error.into()));
        }
        let mark = CommitMark::new(rows.iter().map(|row| row.event.id()).collect());
        let mark = match self.session {
            Some(session) => mark.with_xid(session),
            None => mark,
        };
        Err(CommitError::Unknown { mark, source: error.into() })
    }
}

/// Whether COMMIT answered with this number did not commit.
pub(super) fn undoes(number: u16) -> bool {
    is_lost_race(number) || number == code::GROUP_CONFLICT
}
