//! The names a derive may write: the rules of `sendoff-core`, held while compiling.

use proc_macro2::Span;
use syn::{Error, LitStr};

// `sendoff_core::limits` has the same numbers; the tests hold them together. Depending on it would
// make every user build the core twice, once for the compiler.
pub(crate) const EVENT_TYPE_CHARS: usize = 128;
pub(crate) const AGGREGATE_TYPE_CHARS: usize = 64;
pub(crate) const TAG_KEY_CHARS: usize = 64;
/// `sendoff_core::GLOBAL_AGGREGATE`.
pub(crate) const GLOBAL_AGGREGATE: &str = "__GLOBAL__";

/// A checked name and the place it was written at.
#[derive(Debug)]
pub(crate) struct Name {
    pub(crate) text: String,
    pub(crate) span: Span,
}

impl Name {
    /// Checks `text`; `what` is what the error calls it.
    pub(crate) fn new(what: &str, text: String, span: Span, limit: usize) -> Result<Self, Error> {
        let chars = text.chars().count();
        if chars == 0 {
            return Err(Error::new(span, format!("{what} must not be empty")));
        }
        if chars > limit {
            let message = format!("{what} has {chars} characters; the limit is {limit}");
            return Err(Error::new(span, message));
        }
        if let Some(wrong) = text.chars().find(|c| matches!(c, '\0' | '\r' | '\n')) {
            return Err(Error::new(span, format!("{what} must not contain {wrong:?}")));
        }
        Ok(Self { text, span })
    }

    /// The name as a literal that errors of the compiler point to.
    pub(crate) fn literal(&self) -> LitStr {
        LitStr::new(&self.text, self.span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<String, String> {
        Name::new("name", text.to_owned(), Span::call_site(), 3)
            .map(|name| name.text)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_limit_counts_characters_and_passes_itself() {
        assert_eq!(check("äöü"), Ok("äöü".to_owned()));
        assert_eq!(check("äöüß"), Err("name has 4 characters; the limit is 3".to_owned()));
        assert_eq!(check(""), Err("name must not be empty".to_owned()));
    }

    #[test]
    fn characters_that_break_a_protocol_are_refused() {
        for wrong in ['\0', '\r', '\n'] {
            let message = format!("name must not contain {wrong:?}");
            assert_eq!(check(&format!("a{wrong}")), Err(message));
        }
    }
}
