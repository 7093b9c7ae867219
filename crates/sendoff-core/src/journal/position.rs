//! Positions in a journal.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A fact's place in its journal. The first is 1; later ones are higher, and not every number has a
/// fact: what is rolled back leaves a gap for good.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(try_from = "u64", into = "u64")]
pub struct Position(u64);

impl Position {
    /// Before the first fact.
    pub const START: Self = Self(0);
    /// After every fact there will ever be: the highest number that databases count to.
    pub const END: Self = Self(i64::MAX as u64);

    /// The position with this number.
    pub const fn new(number: u64) -> Result<Self, InvalidPosition> {
        if number <= Self::END.0 { Ok(Self(number)) } else { Err(InvalidPosition) }
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The one after it; the end has none, and stays.
    #[must_use]
    pub const fn next(self) -> Self {
        if self.0 < Self::END.0 { Self(self.0 + 1) } else { self }
    }

    /// The one so many numbers later, or the end.
    #[must_use]
    pub const fn ahead(self, by: u64) -> Self {
        let number = self.0.saturating_add(by);
        if number < Self::END.0 { Self(number) } else { Self::END }
    }

    /// The one so many numbers earlier, or the start.
    #[must_use]
    pub const fn back(self, by: u64) -> Self {
        Self(self.0.saturating_sub(by))
    }

    /// How many numbers lie between: this one counted, `earlier` not. Zero if it is not before.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl TryFrom<i64> for Position {
    type Error = InvalidPosition;

    fn try_from(number: i64) -> Result<Self, InvalidPosition> {
        u64::try_from(number).map(Self).map_err(|_| InvalidPosition)
    }
}

impl TryFrom<u64> for Position {
    type Error = InvalidPosition;

    fn try_from(number: u64) -> Result<Self, InvalidPosition> {
        Self::new(number)
    }
}

impl From<Position> for u64 {
    fn from(position: Position) -> Self {
        position.0
    }
}

impl From<Position> for i64 {
    fn from(position: Position) -> Self {
        // Never above the end, which is where they agree.
        Self::try_from(position.0).unwrap_or(Self::MAX)
    }
}

impl FromStr for Position {
    type Err = InvalidPosition;

    fn from_str(text: &str) -> Result<Self, InvalidPosition> {
        Self::new(text.parse().map_err(|_| InvalidPosition)?)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// Not a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a position is a number between 0, before the first fact, and {}", Position::END)]
pub struct InvalidPosition;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_what_databases_count() {
        assert_eq!(Position::try_from(-1_i64), Err(InvalidPosition));
        assert_eq!(Position::new(1 << 63), Err(InvalidPosition));
        assert_eq!("12".parse(), Position::new(12));
        assert_eq!("-2".parse::<Position>(), Err(InvalidPosition));
        assert_eq!(i64::from(Position::END), i64::MAX);
        assert_eq!(Position::END.next(), Position::END);
        assert_eq!(Position::START.next().get(), 1);
        assert_eq!(Position::START.ahead(7).back(2).get(), 5);
        assert_eq!(Position::START.ahead(u64::MAX), Position::END);
        assert_eq!(Position::START.back(1), Position::START);
        assert_eq!(Position::END.since(Position::START), i64::MAX as u64);
        assert_eq!(Position::START.since(Position::END), 0);
    }
}
