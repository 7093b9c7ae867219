//! What all options are held to, and the error that names the field.

use std::time::Duration;

use sendoff_core::limits;

/// What a time is at least that must not be none.
pub(crate) const SHORTEST: Duration = Duration::from_millis(1);
/// What any time is at most.
pub(crate) const LONGEST: Duration = limits::DELAY;
pub(crate) const MIB: usize = 1024 * 1024;
/// Bytes in memory beyond this are a mistake of units: 1 GiB.
pub(crate) const MOST_BYTES: usize = 1024 * MIB;
/// Lanes and workers beyond this are a mistake of units, not a wish.
pub(crate) const MOST: usize = 1_000_000;
/// A hold shorter than this cannot be extended in time by a busy database.
pub(crate) const SHORTEST_HOLD: Duration = Duration::from_millis(100);

/// A parameter out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// A number is out of range.
    #[error("{path} is {value}; it must be from {least} to {most}")]
    Count {
        /// The field, after the groups it is in: `retry.max_attempts`.
        path: String,
        /// What was given.
        value: usize,
        /// The least allowed.
        least: usize,
        /// The most allowed.
        most: usize,
    },
    /// A duration is out of range.
    #[error("{path} is {value:?}; it must be from {least:?} to {most:?}")]
    Time {
        /// The field, after the groups it is in.
        path: String,
        /// What was given.
        value: Duration,
        /// The least allowed.
        least: Duration,
        /// The most allowed.
        most: Duration,
    },
    /// A text is too long.
    #[error("{path} has {chars} characters; it may have {most}")]
    Length {
        /// The field, after the groups it is in.
        path: String,
        /// How many it has.
        chars: usize,
        /// The most allowed.
        most: usize,
    },
    /// A field that has no effect beside another.
    #[error("{path}: {reason}")]
    Conflict {
        /// The field, after the groups it is in.
        path: String,
        /// What it does not go with, and what to do about it.
        reason: &'static str,
    },
}

impl OptionsError {
    /// The field, after the groups it is in: `retry.max_attempts`.
    pub fn path(&self) -> &str {
        let (Self::Count { path, .. }
        | Self::Time { path, .. }
        | Self::Length { path, .. }
        | Self::Conflict { path, .. }) = self;
        path
    }

    /// The same of a field in this group.
    pub fn within(mut self, group: &str) -> Self {
        let (Self::Count { path, .. }
        | Self::Time { path, .. }
        | Self::Length { path, .. }
        | Self::Conflict { path, .. }) = &mut self;
        path.insert(0, '.');
        path.insert_str(0, group);
        self
    }
}

/// Each field, its value and the most it may be; the least is 1.
pub(crate) fn check_counts(counts: &[(&str, usize, usize)]) -> Result<(), OptionsError> {
    for &(path, value, most) in counts {
        if value == 0 || value > most {
            return Err(OptionsError::Count { path: path.to_owned(), value, least: 1, most });
        }
    }
    Ok(())
}

/// Each field, its value, and the least and the most it may be.
pub(crate) fn check_times(
    times: &[(&str, Duration, Duration, Duration)],
) -> Result<(), OptionsError> {
    for &(path, value, least, most) in times {
        if value < least || value > most {
            return Err(OptionsError::Time { path: path.to_owned(), value, least, most });
        }
    }
    Ok(())
}
