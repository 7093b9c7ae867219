//! Names that may be written into SQL text, and the only way to make one.

use std::fmt;
use std::str::FromStr;

use crate::limits;

/// A name that may be spliced into SQL: a table prefix or a schema.
///
/// Only this constructor makes one, and it takes ASCII letters, digits and underscores, not
/// starting with a digit, so there is nothing to quote and nothing to escape.
///
/// ```
/// use sendoff_core::Ident;
///
/// assert!(Ident::new("billing_").is_ok());
/// assert!(Ident::new("x; drop table orders").is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Ident(String);

impl Ident {
    /// Checks `name`.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidIdent> {
        let name = name.into();
        let chars = name.chars().count();
        if chars == 0 {
            return Err(InvalidIdent::Empty);
        }
        if chars > limits::IDENT_CHARS {
            return Err(InvalidIdent::TooLong { chars, limit: limits::IDENT_CHARS });
        }
        let wrong = name.chars().enumerate().find(|&(at, c)| {
            !(c == '_' || c.is_ascii_alphabetic() || at > 0 && c.is_ascii_digit())
        });
        match wrong {
            Some((_, character)) => Err(InvalidIdent::Character { character }),
            None => Ok(Self(name)),
        }
    }

    /// The checked name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Ident {
    type Err = InvalidIdent;

    fn from_str(name: &str) -> Result<Self, InvalidIdent> {
        Self::new(name)
    }
}

impl fmt::Display for Ident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Ident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

/// Why a name may not go into SQL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidIdent {
    /// The name is empty.
    #[error("an SQL name must not be empty")]
    Empty,
    /// The name is too long.
    #[error("an SQL name has at most {limit} characters; this one has {chars}")]
    TooLong {
        /// Characters given.
        chars: usize,
        /// Characters allowed.
        limit: usize,
    },
    /// The name has a character that would need quoting.
    #[error("an SQL name takes ASCII letters, digits (not first) and `_`; found {character:?}")]
    Character {
        /// The first offending character.
        character: char,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds W6.
    #[test]
    fn hostile_names_are_refused_with_the_reason() {
        assert_eq!(Ident::new(""), Err(InvalidIdent::Empty));
        for (name, character) in [
            ("a;drop table b", ';'),
            ("a\"b", '"'),
            ("1a", '1'),
            ("a.b", '.'),
            ("täble", 'ä'),
            ("a\0", '\0'),
            ("a b", ' '),
        ] {
            assert_eq!(Ident::new(name), Err(InvalidIdent::Character { character }), "{name:?}");
        }
    }

    /// Holds W6.
    #[test]
    fn the_limit_passes_and_one_more_does_not() {
        assert!(Ident::new("a".repeat(limits::IDENT_CHARS)).is_ok());
        assert_eq!(
            Ident::new("a".repeat(limits::IDENT_CHARS + 1)),
            Err(InvalidIdent::TooLong {
                chars: limits::IDENT_CHARS + 1,
                limit: limits::IDENT_CHARS
            })
        );
    }
}
