//! How much time a partition holds.

use std::fmt;

use jiff::civil::Date;
use jiff::tz::Offset;

use crate::Timestamp;

/// How much time one partition holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", deny_unknown_fields))]
pub enum Period {
    /// A day of UTC.
    #[default]
    Day,
    /// A month of UTC.
    Month,
}

impl Period {
    /// The first day of the period that a day is in.
    pub(super) fn first(self, day: Date) -> Date {
        match self {
            Self::Day => day,
            Self::Month => day.first_of_month(),
        }
    }

    /// The first day of the next period; none at the end of the calendar.
    pub(super) fn next(self, first: Date) -> Option<Date> {
        match self {
            Self::Day => first.tomorrow().ok(),
            Self::Month => first.last_of_month().tomorrow().ok(),
        }
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Day => "day",
            Self::Month => "month",
        })
    }
}

/// The day a time lies in; none outside the calendar.
pub(super) fn day_of(time: Timestamp) -> Option<Date> {
    let time = jiff::Timestamp::from_microsecond(time.as_micros()).ok()?;
    Some(Offset::UTC.to_datetime(time).date())
}

/// When a day begins.
pub(super) fn start_of(day: Date) -> Option<Timestamp> {
    let start = Offset::UTC.to_timestamp(day.to_datetime(jiff::civil::Time::midnight())).ok()?;
    Some(Timestamp::from_micros(start.as_microsecond()))
}
