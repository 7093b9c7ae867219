//! What the server's refusals mean to the engine.

use mysql_async::{DriverError, Error};
use sendoff_core::BoxError;
use sendoff_engine::store::StoreError;

/// The server's numbers that we look for. By number, never by text.
pub(crate) mod code {
    pub(crate) const DUPLICATE_ENTRY: u16 = 1062;
    /// For variables that take one.
    pub(crate) const TOO_MANY_ROWS: u16 = 1172;
    pub(crate) const LOCK_TIMEOUT: u16 = 1205;
    pub(crate) const DEADLOCK: u16 = 1213;
    pub(crate) const MORE_THAN_ONE_ROW: u16 = 1242;
    pub(crate) const ROUTINE_EXISTS: u16 = 1304;
    /// Of a savepoint too.
    pub(crate) const DOES_NOT_EXIST: u16 = 1305;
    /// A number that its type cannot keep.
    pub(crate) const OUT_OF_RANGE: u16 = 1690;
    /// A certification conflict in a replication group.
    pub(crate) const GROUP_CONFLICT: u16 = 3101;
    pub(crate) const NOWAIT: u16 = 3572;
}

/// Whether the server prepares no such statement: blocks are no syntax of MySQL's, nor known to everybody
/// who stands between us and a server; and there may be no room for another statement.
pub(crate) fn is_unpreparable(number: u16) -> bool {
    const UNKNOWN_COMMAND: u16 = 1047;
    const SYNTAX: u16 = 1064;
    const NOT_PREPARED: u16 = 1295;
    const TOO_MANY_PREPARED: u16 = 1461;
    matches!(number, UNKNOWN_COMMAND | SYNTAX | NOT_PREPARED | TOO_MANY_PREPARED)
}

/// By the server's number.
pub(crate) fn failed(error: Error) -> StoreError {
    match &error {
        Error::Server(refusal) => {
            if let Some(fix) = fix(refusal.code) {
                let missing = format!("{} ({})", refusal.message, refusal.code);
                let remedy = fix.to_owned();
                match refusal.code {
                    code if is_of_rights(code) => StoreError::Rights { missing, remedy },
                    code if is_of_schema(code) => StoreError::Schema { missing, remedy },
                    _ => misconfigured(format!("{missing}: {remedy}")),
                }
            } else if matches!(refusal.code, code::LOCK_TIMEOUT | code::NOWAIT) {
                StoreError::Busy(error.into())
            } else if passes(refusal.code) {
                StoreError::Unavailable(error.into())
            } else {
                StoreError::Refused(error.into())
            }
        }
        Error::Driver(
            DriverError::FromValue { .. }
            | DriverError::FromRow { .. }
            | DriverError::PacketTooLarge,
        ) => StoreError::Refused(NotSaid.into()),
        _ => StoreError::Unavailable(error.into()),
    }
}

/// The same of an error of an application's driver.
#[cfg(any(feature = "sea-orm", feature = "_sqlx"))]
pub(crate) fn foreign(number: Option<u16>, source: BoxError) -> StoreError {
    match number {
        Some(number) if fix(number).is_some() => {
            misconfigured(explained(Some(number), source).to_string())
        }
        Some(number) if !passes(number) => StoreError::Refused(source),
        _ => StoreError::Unavailable(source),
    }
}

/// The user may not do it, whatever it is.
pub(crate) fn is_of_rights(code: u16) -> bool {
    matches!(code, 1044 | 1142 | 1143 | 1227 | 1370)
}

/// A column, a table or an index is not there.
fn is_of_schema(code: u16) -> bool {
    matches!(code, 1054 | 1146 | 1176)
}

/// What would have to be changed so that the same statement is not refused.
pub(crate) fn fix(code: u16) -> Option<&'static str> {
    Some(match code {
        code if is_of_rights(code) => {
            "grant SELECT, INSERT, UPDATE and DELETE on the tables to the user who delivers or publishes, \
             INSERT and SELECT to the one who writes, CREATE, ALTER, DROP, INDEX, CREATE VIEW, \
             CREATE ROUTINE and ALTER ROUTINE to the one who migrates, and ALTER, CREATE, DROP, INSERT, SELECT and LOCK TABLES to the one \
             who keeps partitions"
        }
        1045 | 1698 => "check user and password in the database's URL",
        1049 => "create the database, or name another one in the URL",
        1054 => {
            "the table is older than this version or was changed by hand: run `sendoff migrate`, or \
             `sendoff journal migrate` for a journal"
        }
        1146 => {
            "the tables are missing: run `sendoff migrate`, or `sendoff journal migrate` for a journal"
        }
        1176 => {
            "an index is missing: run `sendoff migrate`, or `sendoff journal migrate` for a journal, or \
             create it again"
        }
        1153 => "raise max_allowed_packet to 16 MiB or more",
        _ => return None,
    })
}

/// Whether the same statement may succeed later.
fn passes(code: u16) -> bool {
    is_lost_race(code)
        || spoils_session(code)
        || matches!(
            code,
            // Full disks and tables, connections, locks, interruptions.
            1021 | 1028
                | 1037
                | 1038
                | 1040
                | 1041
                | 1114
                | 1129
                | 1135
                | 1161
                | 1180
                | 1181
                | 1203
                | 1206
                | 1226
                | 1317
                | 1637
                | 1969
                | 3024
                | code::NOWAIT
                | code::GROUP_CONFLICT
        )
}

/// Whether one row of many may be the cause: data, constraints, triggers.
pub(crate) fn is_of_a_row(code: u16, state: &str) -> bool {
    // Classes of the standard, and numbers that have none of their own: a value that is missing or
    // wrong, a check, a signal.
    matches!(state.get(..2), Some("22" | "23" | "45")) || matches!(code, 1364 | 1366 | 1644 | 3819)
}

/// A transaction lost against another one; it may be tried again at once.
pub(crate) fn is_lost_race(code: u16) -> bool {
    matches!(code, code::DEADLOCK | code::LOCK_TIMEOUT | 1020)
}

/// Whether another session may fare better: this one is ending, or stands where nothing is written.
pub(crate) fn spoils_session(code: u16) -> bool {
    matches!(code, 1047 | 1053 | 1077..=1080 | 1152 | 1158..=1160 | 1184 | 1290 | 1792 | 1836 | 1927 | 4031)
}

/// The server's number, where it was the server that refused.
pub(crate) fn number(error: &Error) -> Option<u16> {
    match error {
        Error::Server(refusal) => Some(refusal.code),
        _ => None,
    }
}

/// A refusal with what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("{fix}")]
pub(crate) struct Explained {
    fix: &'static str,
    source: BoxError,
}

/// An application's own statement was refused; its driver's error stays the cause.
pub(crate) fn explained(number: Option<u16>, source: BoxError) -> BoxError {
    match number.and_then(fix) {
        Some(fix) => Explained { fix, source }.into(),
        None => source,
    }
}

/// In place of an error that would show a payload.
#[derive(Debug, thiserror::Error)]
#[error("the server's answer, or what was to be sent, does not fit")]
struct NotSaid;

pub(crate) fn misconfigured(reason: impl Into<String>) -> StoreError {
    StoreError::Misconfigured { reason: reason.into() }
}
