//! Error texts are others' words, and may hold what a database cannot store.

use sendoff_core::limits;

use crate::store::Outcome;

/// `text` as every database with a Unicode encoding takes it: no control characters but line ends and
/// tabs (NUL is text nowhere in PostgreSQL), and no longer than an error may be.
pub(crate) fn storable(text: &str) -> String {
    let fit = limits::truncate(text, limits::ERROR_CHARS);
    fit.chars().map(|c| if c.is_control() && c != '\n' && c != '\t' { ' ' } else { c }).collect()
}

/// `text` as every database takes it: one that stores LATIN1 or SQL_ASCII refuses the rest of Unicode.
pub(crate) fn plain(text: &str) -> String {
    storable(text).chars().map(|c| if c.is_ascii() { c } else { '?' }).collect()
}

impl Outcome {
    /// The same outcome, its error as `clean` leaves it.
    pub(crate) fn with_text(mut self, clean: impl FnOnce(&str) -> String) -> Self {
        if let Self::Retry { error, .. } | Self::Wait { error, .. } | Self::Dead { error, .. } =
            &mut self
        {
            *error = clean(error);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_error_text_can_be_made_storable() {
        assert_eq!(storable("a\0b\u{7}c\u{85}\n\tnaïve €"), "a b c \n\tnaïve €");
        assert_eq!(plain("naïve €\0"), "na?ve ? ");
        assert_eq!(storable(&"é".repeat(5_000)).chars().count(), limits::ERROR_CHARS);
    }
}
