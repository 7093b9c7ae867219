//! What SQLite's refusals mean to the engine.

use rusqlite::{Error, ErrorCode};
use sendoff_engine::store::StoreError;

/// By SQLite's code, never by its text.
pub(crate) fn failed(error: Error) -> StoreError {
    if passes(&error) {
        StoreError::Unavailable(error.into())
    } else {
        StoreError::Refused(error.into())
    }
}

/// Whether the same statement may succeed later.
fn passes(error: &Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(
            ErrorCode::DatabaseBusy
                | ErrorCode::DatabaseLocked
                | ErrorCode::SystemIoFailure
                | ErrorCode::DiskFull
                | ErrorCode::ReadOnly
                | ErrorCode::CannotOpen
                | ErrorCode::PermissionDenied
                | ErrorCode::OutOfMemory
                | ErrorCode::FileLockingProtocolFailed
        )
    )
}

pub(crate) fn misconfigured(reason: String) -> StoreError {
    StoreError::Misconfigured { reason }
}
