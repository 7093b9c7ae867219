//! What the server's refusals mean to the engine.

use std::error::Error as _;
use std::io;

use sendoff_core::BoxError;
use sendoff_engine::store::StoreError;
use tokio_postgres::Error;
use tokio_postgres::error::{Severity, SqlState};

/// By the server's code, never by its text.
pub(crate) fn failed(error: Error) -> StoreError {
    if let (Some(refusal), Some(fix)) = (error.as_db_error(), error.code().and_then(fix)) {
        let missing = format!("{} ({})", refusal.message(), refusal.code().code());
        match *refusal.code() {
            SqlState::UNDEFINED_TABLE
            | SqlState::UNDEFINED_COLUMN
            | SqlState::UNDEFINED_FUNCTION
            | SqlState::INVALID_SCHEMA_NAME => StoreError::Schema { missing, remedy: fix.into() },
            SqlState::INSUFFICIENT_PRIVILEGE => StoreError::Rights { missing, remedy: fix.into() },
            _ => misconfigured(format!("{missing}: {fix}")),
        }
    } else if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) {
        StoreError::Busy(error.into())
    } else if passes(&error) {
        StoreError::Unavailable(error.into())
    } else {
        StoreError::Refused(error.into())
    }
}

/// What would have to be changed so that the same statement is not refused.
pub(crate) fn fix(code: &SqlState) -> Option<&'static str> {
    Some(match *code {
        SqlState::UNDEFINED_TABLE | SqlState::INVALID_SCHEMA_NAME => {
            "the tables are missing: run `sendoff migrate`, or `sendoff journal migrate` for a \
             journal, or name the schema they are in"
        }
        SqlState::UNDEFINED_COLUMN => {
            "the table is older than this version or was changed by hand: run `sendoff migrate`, or \
             `sendoff journal migrate` for a journal"
        }
        SqlState::UNDEFINED_FUNCTION => {
            "the functions are missing: run `sendoff migrate`, or `sendoff journal migrate` for a \
             journal; the server must be PostgreSQL 13 or newer"
        }
        SqlState::SYNTAX_ERROR => {
            "the server is too old to know a statement of ours (SKIP LOCKED, for example): it must \
             be PostgreSQL 13 or newer"
        }
        SqlState::INSUFFICIENT_PRIVILEGE => {
            "grant USAGE on the schema, SELECT, INSERT, UPDATE and DELETE on the outbox's tables and \
             USAGE, SELECT and UPDATE on its sequences to the role of the relay; SELECT and INSERT on \
             outbox_event and USAGE and SELECT on the sequences to the one who writes; the tables \
             belong to the one who migrates and keeps partitions"
        }
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            "check user and password in the database's URL"
        }
        SqlState::INVALID_CATALOG_NAME => "create the database, or name another one in the URL",
        _ => return None,
    })
}

/// A refusal with what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{fix}")]
struct Explained {
    fix: &'static str,
    source: BoxError,
}

/// An application's own statement was refused; its driver's error stays the cause.
pub(crate) fn explained(code: Option<&SqlState>, source: impl Into<BoxError>) -> BoxError {
    let source = source.into();
    match code.and_then(fix) {
        Some(fix) => Explained { fix, source }.into(),
        None => source,
    }
}

/// The same where another driver carried the statement. Without a code the server said nothing.
#[cfg(any(feature = "diesel-async", feature = "sea-orm", feature = "_sqlx"))]
pub(crate) fn failed_elsewhere(code: Option<&SqlState>, source: impl Into<BoxError>) -> StoreError {
    match code {
        Some(code) if !code_passes(code) => StoreError::Refused(explained(Some(code), source)),
        _ => StoreError::Unavailable(source.into()),
    }
}

/// Whether the same statement may succeed later.
fn passes(error: &Error) -> bool {
    match error.code() {
        Some(code) => code_passes(code) || spoils_session(error),
        None => is_broken_link(error),
    }
}

fn code_passes(code: &SqlState) -> bool {
    is_lost_race(code)
        || matches!(
            &code.code()[..2],
            // Connections, transactions, resources, locks, operators, the operating system.
            "08" | "40" | "53" | "55" | "57" | "58"
        )
        // A standby; whoever is asked next may be the primary.
        || *code == SqlState::READ_ONLY_SQL_TRANSACTION
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
