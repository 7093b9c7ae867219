//! Times in whole microseconds, which every supported database keeps without rounding.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A point in time, in whole microseconds since 1970.
///
/// Microseconds are what every supported database keeps, so a time is the same before it is stored
/// and after, and a hold's token compares exactly.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The time that many microseconds after (or before) 1970.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// This host's wall clock. Never decides ownership or due dates where a database has a clock.
    pub fn now() -> Self {
        SystemTime::now().into()
    }

    /// The time after `duration`; stops at the end of representable time.
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }

    /// The time before, by `duration`; stops at the beginning of representable time.
    pub fn saturating_sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(micros(duration)))
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self(micros(after)),
            Err(before) => Self(-micros(before.duration())),
        }
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        let distance = Duration::from_micros(time.0.unsigned_abs());
        if time.0 >= 0 { UNIX_EPOCH + distance } else { UNIX_EPOCH - distance }
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC; a time outside the calendar's range prints as its microseconds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(time) => write!(f, "{time:.6}"),
            Err(_) => write!(f, "{}us", self.0),
        }
    }
}

impl FromStr for Timestamp {
    type Err = InvalidTimestamp;

    /// RFC 3339: a date, a time, and its offset or `Z`.
    fn from_str(text: &str) -> Result<Self, InvalidTimestamp> {
        let time: jiff::Timestamp = text.parse().map_err(|_| InvalidTimestamp)?;
        Ok(Self(time.as_microsecond()))
    }
}

/// Not a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a time has a date, a time and an offset, such as 2026-01-31T08:00:00Z")]
pub struct InvalidTimestamp;

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_rfc_3339_and_survives_the_edges() {
        assert_eq!(Timestamp::from_micros(1_500_000).to_string(), "1970-01-01T00:00:01.500000Z");
        assert_eq!(Timestamp::from_micros(-1).to_string(), "1969-12-31T23:59:59.999999Z");
        assert_eq!(Timestamp::from_micros(i64::MAX).to_string(), "9223372036854775807us");
        assert_eq!(
            Timestamp::from_micros(i64::MAX).saturating_add(Duration::MAX),
            Timestamp::from_micros(i64::MAX)
        );
    }

    #[test]
    fn a_wall_clock_time_survives_the_round_trip_to_the_microsecond() {
        for micros in [0, 1, -1, 1_700_000_000_123_456] {
            let time = Timestamp::from_micros(micros);
            assert_eq!(Timestamp::from(SystemTime::from(time)), time);
        }
    }

    #[test]
    fn what_is_printed_is_read_and_a_time_needs_its_offset() {
        for micros in [0, -1, 1_700_000_000_123_456] {
            let time = Timestamp::from_micros(micros);
            assert_eq!(time.to_string().parse(), Ok(time));
        }
        let noon = "2026-01-31T12:00:00Z".parse::<Timestamp>();
        assert_eq!("2026-01-31T13:00:00+01:00".parse(), noon);
        for wrong in ["", "2026-01-31", "2026-01-31T12:00:00", "yesterday"] {
            assert_eq!(wrong.parse::<Timestamp>(), Err(InvalidTimestamp), "{wrong}");
        }
    }

    #[test]
    fn since_a_later_time_is_zero() {
        let (a, b) = (Timestamp::from_micros(5), Timestamp::from_micros(9));
        assert_eq!(b.since(a), Duration::from_micros(4));
        assert_eq!(a.since(b), Duration::ZERO);
    }
}
