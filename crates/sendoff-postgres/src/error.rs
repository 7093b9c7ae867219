//! What the server's refusals mean to the engine.

use std::error::Error as _;
use std::io;

use sendoff_engine::store::StoreError;
use tokio_postgres::Error;
use tokio_postgres::error::{Severity, SqlState};

/// By the server's code, never by its text.
pub(crate) fn failed(error: Error) -> StoreError {
    if passes(&error) {
        StoreError::Unavailable(error.into())
    } else {
        StoreError::Refused(error.into())
    }
}

/// Whether the same statement may succeed later.
fn passes(error: &Error) -> bool {
    match error.code() {
        Some(code) => {
            is_lost_race(code)
                || spoils_session(error)
                || matches!(
                    &code.code()[..2],
                    // Connections, transactions, resources, locks, operators, the operating system.
                    "08" | "40" | "53" | "55" | "57" | "58"
                )
                // A standby; whoever is asked next may be the primary.
                || *code == SqlState::READ_ONLY_SQL_TRANSACTION
        }
        None => is_broken_link(error),
    }
}

/// Whether the link is gone, and with it all knowledge of what it carried.
pub(crate) fn is_broken_link(error: &Error) -> bool {
    error.is_closed() || error.source().is_some_and(|source| source.is::<io::Error>())
}

/// A transaction lost against another one; it may be tried again at once.
pub(crate) fn is_lost_race(code: &SqlState) -> bool {
    matches!(*code, SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED)
}

/// Whether another session may fare better: this one is ending, stands on a standby, or remembers
/// statements that are no more.
pub(crate) fn spoils_session(error: &Error) -> bool {
    let Some(refusal) = error.as_db_error() else { return true };
    matches!(refusal.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
        || matches!(
            *refusal.code(),
            SqlState::INVALID_SQL_STATEMENT_NAME
                | SqlState::FEATURE_NOT_SUPPORTED
                | SqlState::READ_ONLY_SQL_TRANSACTION
        )
}

pub(crate) fn misconfigured(reason: impl Into<String>) -> StoreError {
    StoreError::Misconfigured { reason: reason.into() }
}
