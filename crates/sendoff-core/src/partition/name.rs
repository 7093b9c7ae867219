//! Names of the outbox's partitions, which are hours, days or months.

use std::fmt;
use std::str::FromStr;

use jiff::civil::DateTime;

use super::Period;

/// The name of a partition: `pYYYYMMDDHH` for an hour, `pYYYYMMDD` for a day, `pYYYYMM` for a month.
///
/// Only planning and a checking parser make one, so it may be spliced into SQL; and a partition with
/// another name was made by somebody else, and is nobody's to drop.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionName(String);

impl PartitionName {
    pub(super) fn of(period: Period, first: DateTime) -> Self {
        let format = match period {
            Period::Hour => "p%Y%m%d%H",
            Period::Day => "p%Y%m%d",
            Period::Month => "p%Y%m",
        };
        Self(first.strftime(format).to_string())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PartitionName {
    type Err = InvalidPartitionName;

    fn from_str(name: &str) -> Result<Self, InvalidPartitionName> {
        let (period, rest) = match name.len() {
            11 => (Period::Hour, "00"),
            9 => (Period::Day, "0000"),
            7 => (Period::Month, "010000"),
            _ => return Err(InvalidPartitionName),
        };
        let first = DateTime::strptime("p%Y%m%d%H%M", format!("{name}{rest}"));
        let read = Self::of(period, first.map_err(|_| InvalidPartitionName)?);
        // The calendar's parser takes signs, for example; we never write them.
        if read.0 == name { Ok(read) } else { Err(InvalidPartitionName) }
    }
}

impl fmt::Display for PartitionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for PartitionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name that no plan of ours would give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a partition of ours is called pYYYYMMDDHH, pYYYYMMDD or pYYYYMM, after the calendar")]
pub struct InvalidPartitionName;

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds L6 and W6.
    #[test]
    fn only_names_that_we_give_are_read() {
        for ours in ["p2026111500", "p2026111523", "p20261115", "p202611", "p20240229", "p00010101"]
        {
            assert_eq!(ours.parse::<PartitionName>().unwrap().as_str(), ours);
        }
        for other in [
            "",
            "p",
            "pmax",
            "p2026",
            "p20261301",
            "p2026111524",
            "p202611151",
            "p202611151200",
            "p20261115+1",
            "p20230229",
            "p202600",
            "p2026111",
            "p+2261115",
            "p2026111５",
            "P20261115",
            "p20261115; drop table x",
            "20261115",
        ] {
            assert!(other.parse::<PartitionName>().is_err(), "{other}");
        }
    }
}
