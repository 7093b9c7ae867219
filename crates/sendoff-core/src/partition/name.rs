use std::fmt;
use std::str::FromStr;

use jiff::civil::Date;

use super::Period;

/// The name of a partition: `pYYYYMMDD` for a day, `pYYYYMM` for a month.
///
/// Only planning and a checking parser make one, so it may be spliced into SQL; and a partition with
/// another name was made by somebody else, and is nobody's to drop.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionName(String);

impl PartitionName {
    pub(super) fn of(period: Period, first: Date) -> Self {
        let (year, month, day) = (first.year(), first.month(), first.day());
        Self(match period {
            Period::Day => format!("p{year:04}{month:02}{day:02}"),
            Period::Month => format!("p{year:04}{month:02}"),
        })
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PartitionName {
    type Err = InvalidPartitionName;

    fn from_str(name: &str) -> Result<Self, InvalidPartitionName> {
        let read = || {
            let digits = name.strip_prefix('p')?;
            let number = |from: usize, to: usize| digits.get(from..to)?.parse::<i16>().ok();
            let day = match digits.len() {
                8 => number(6, 8)?,
                6 => 1,
                _ => return None,
            };
            // A sign parses as a number too.
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            let (month, day) = (i8::try_from(number(4, 6)?).ok()?, i8::try_from(day).ok()?);
            (plain && Date::new(number(0, 4)?, month, day).is_ok()).then(|| Self(name.to_owned()))
        };
        read().ok_or(InvalidPartitionName)
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
#[error("a partition of ours is called pYYYYMMDD or pYYYYMM, after a day of the calendar")]
pub struct InvalidPartitionName;

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds L6 and W6.
    #[test]
    fn only_names_that_we_give_are_read() {
        for ours in ["p20261115", "p202611", "p20240229", "p00010101"] {
            assert_eq!(ours.parse::<PartitionName>().unwrap().as_str(), ours);
        }
        for other in [
            "",
            "p",
            "pmax",
            "p2026",
            "p20261301",
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
