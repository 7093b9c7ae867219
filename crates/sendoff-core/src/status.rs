//! The four states of a row, with the numbers they are stored as.

/// Where an event stands. The numbers are the stored ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(i16)]
pub enum Status {
    /// Written, and not yet tried.
    New = 0,
    /// Delivered.
    Done = 1,
    /// Tried and failed; it will be tried again.
    Retry = 2,
    /// No more attempts: it used them, or cannot be delivered at all.
    Dead = 3,
}

impl Status {
    /// The stored number.
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// The word for it, as the view for people has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "NEW",
            Self::Done => "DONE",
            Self::Retry => "RETRY",
            Self::Dead => "DEAD",
        }
    }

    /// Whether a delivery is still owed.
    pub const fn is_pending(self) -> bool {
        matches!(self, Self::New | Self::Retry)
    }

    /// Whether nothing will change it any more, save an operator.
    pub const fn is_terminal(self) -> bool {
        !self.is_pending()
    }
}

impl TryFrom<i64> for Status {
    type Error = UnknownStatus;

    fn try_from(code: i64) -> Result<Self, UnknownStatus> {
        match code {
            0 => Ok(Self::New),
            1 => Ok(Self::Done),
            2 => Ok(Self::Retry),
            3 => Ok(Self::Dead),
            code => Err(UnknownStatus { code }),
        }
    }
}

/// A stored status this version does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("status {code} is not one of 0 (new), 1 (done), 2 (retry), 3 (dead)")]
pub struct UnknownStatus {
    /// The stored number.
    pub code: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds S1.
    #[test]
    fn the_numbers_are_those_of_the_table() {
        let all = [Status::New, Status::Done, Status::Retry, Status::Dead];
        assert_eq!(all.map(Status::code), [0, 1, 2, 3]);
        assert_eq!(all.map(|s| Status::try_from(i64::from(s.code()))), all.map(Ok));
        assert_eq!(Status::try_from(4), Err(UnknownStatus { code: 4 }));
        assert_eq!(all.map(Status::is_pending), [true, false, true, false]);
    }
}
