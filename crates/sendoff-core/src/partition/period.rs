//! How much time a partition holds.

use std::fmt;

use jiff::ToSpan;
use jiff::civil::DateTime;
use jiff::tz::Offset;

use crate::Timestamp;

/// How much time one partition holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", deny_unknown_fields))]
pub enum Period {
    /// An hour of UTC.
    Hour,
    /// A day of UTC.
    #[default]
    Day,
    /// A month of UTC.
    Month,
}

impl Period {
    /// When the period began that a moment is in.
    pub(super) fn first(self, moment: DateTime) -> DateTime {
        let date = moment.date();
        match self {
            Self::Hour => date.at(moment.hour(), 0, 0, 0),
            Self::Day => date.at(0, 0, 0, 0),
            Self::Month => date.first_of_month().at(0, 0, 0, 0),
        }
    }

    /// When the next period begins; none at the end of the calendar.
    pub(super) fn next(self, first: DateTime) -> Option<DateTime> {
        let span = match self {
            Self::Hour => 1.hour(),
            Self::Day => 1.day(),
            Self::Month => 1.month(),
        };
        first.checked_add(span).ok()
    }

    /// The next smaller one.
    pub(super) fn finer(self) -> Option<Self> {
        match self {
            Self::Hour => None,
            Self::Day => Some(Self::Hour),
            Self::Month => Some(Self::Day),
        }
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hour => "hour",
            Self::Day => "day",
            Self::Month => "month",
        })
    }
}

/// A time by the calendar; none outside of it.
pub(super) fn moment(time: Timestamp) -> Option<DateTime> {
    let time = jiff::Timestamp::from_microsecond(time.as_micros()).ok()?;
    Some(Offset::UTC.to_datetime(time))
}

/// The same the other way round.
pub(super) fn time(moment: DateTime) -> Option<Timestamp> {
    let time = Offset::UTC.to_timestamp(moment).ok()?;
    Some(Timestamp::from_micros(time.as_microsecond()))
}
