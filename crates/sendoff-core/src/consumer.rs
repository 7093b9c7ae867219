//! The name under which an inbox remembers what was seen.

use std::fmt;

use crate::invalid::InvalidEvent;
use crate::{limits, name};

/// A consumer's checked name. Each consumer of a database has its own: what one saw, another may not have seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Consumer<'a>(&'a str);

impl<'a> Consumer<'a> {
    /// Checks the name: 1 to [`CONSUMER_CHARS`](limits::CONSUMER_CHARS) characters, none of them NUL, CR or LF.
    pub fn new(name: &'a str) -> Result<Self, InvalidEvent> {
        if name.is_empty() {
            return Err(InvalidEvent::Empty { field: "consumer" });
        }
        name::check("consumer", name, limits::CONSUMER_CHARS)?;
        Ok(Self(name))
    }

    /// The name.
    pub const fn as_str(self) -> &'a str {
        self.0
    }
}

impl fmt::Display for Consumer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_a_length_and_no_line_ends() {
        let long = |chars| "ü".repeat(chars);
        for good in ["a", "billing", &long(limits::CONSUMER_CHARS)] {
            assert_eq!(Consumer::new(good).unwrap().as_str(), good);
        }
        assert!(matches!(Consumer::new(""), Err(InvalidEvent::Empty { field: "consumer" })));
        let long = long(limits::CONSUMER_CHARS + 1);
        assert!(matches!(
            Consumer::new(&long),
            Err(InvalidEvent::TooLong { field: "consumer", chars: 129, limit: 128 })
        ));
        for bad in ["a\0", "a\nb", "a\r"] {
            assert!(matches!(Consumer::new(bad), Err(InvalidEvent::Character { .. })), "{bad:?}");
        }
    }
}
