//! Names of a journal's partitions, which are made of positions.

use std::fmt;
use std::str::FromStr;

use crate::journal::Position;

/// The name of a partition that holds a range of positions: `p` and the first of them.
///
/// Only planning and a checking parser make one, so it may be spliced into SQL; and a partition with
/// another name was made by somebody else, and is nobody's to drop.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RangeName(pub(super) Position);

impl FromStr for RangeName {
    type Err = InvalidRangeName;

    fn from_str(name: &str) -> Result<Self, InvalidRangeName> {
        let read = || {
            let digits = name.strip_prefix('p')?;
            // A sign parses as a number too, and so do leading zeros, which would be a second name.
            let plain =
                digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
            digits.parse().ok().filter(|_| plain).map(Self)
        };
        read().ok_or(InvalidRangeName)
    }
}

impl fmt::Display for RangeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p{}", self.0)
    }
}

impl fmt::Debug for RangeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A name that no plan of ours would give.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a partition of a journal is called p and the first position in it")]
pub struct InvalidRangeName;

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds W6.
    #[test]
    fn only_names_that_we_give_are_read() {
        for ours in ["p1", "p1000001", "p9223372036854775807"] {
            assert_eq!(ours.parse::<RangeName>().unwrap().to_string(), ours);
        }
        for other in
            ["", "p", "pmax", "p0", "p01", "p-1", "p+1", "P1", "p9223372036854775808", "p1;"]
        {
            assert!(other.parse::<RangeName>().is_err(), "{other}");
        }
    }
}
