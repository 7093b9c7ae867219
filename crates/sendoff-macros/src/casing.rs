//! How `rename_all` writes an identifier.

use std::str::FromStr;

/// A way to write the words of an identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Casing {
    Snake,
    Kebab,
    Camel,
    ScreamingSnake,
    Dot,
}

impl FromStr for Casing {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(match text {
            "snake_case" => Self::Snake,
            "kebab-case" => Self::Kebab,
            "camelCase" => Self::Camel,
            "SCREAMING_SNAKE_CASE" => Self::ScreamingSnake,
            "dot.case" => Self::Dot,
            _ => {
                return Err(format!(
                    "unknown case `{text}`; known are snake_case, kebab-case, camelCase, \
                     SCREAMING_SNAKE_CASE and dot.case"
                ));
            }
        })
    }
}

impl Casing {
    pub(crate) fn apply(self, identifier: &str) -> String {
        let words = words(identifier);
        match self {
            Self::Snake => words.join("_"),
            Self::Kebab => words.join("-"),
            Self::Dot => words.join("."),
            Self::ScreamingSnake => words.join("_").to_uppercase(),
            Self::Camel => {
                let mut words = words.into_iter();
                let first = words.next().unwrap_or_default();
                words.fold(first, |text, word| text + &capitalised(&word))
            }
        }
    }
}

/// The words in lower case. An acronym is one word: `HTTPCallFailed` is `http call failed`.
fn words(identifier: &str) -> Vec<String> {
    let chars: Vec<char> = identifier.chars().collect();
    let mut words = Vec::new();
    let mut word = String::new();
    for (at, &c) in chars.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| chars[before]);
        let starts_word = c.is_uppercase()
            && before.is_some_and(|before| {
                !before.is_uppercase()
                    || chars.get(at + 1).is_some_and(|after| after.is_lowercase())
            });
        if (c == '_' || starts_word) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if c != '_' {
            word.extend(c.to_lowercase());
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

fn capitalised(word: &str) -> String {
    let mut chars = word.chars();
    chars.next().into_iter().flat_map(char::to_uppercase).chain(chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_writes_the_same_words() {
        let written = ["snake_case", "kebab-case", "camelCase", "SCREAMING_SNAKE_CASE", "dot.case"]
            .map(|case| case.parse::<Casing>().unwrap().apply("OrderPlacedTwice"));
        assert_eq!(
            written,
            [
                "order_placed_twice",
                "order-placed-twice",
                "orderPlacedTwice",
                "ORDER_PLACED_TWICE",
                "order.placed.twice"
            ]
        );
    }

    #[test]
    fn acronyms_digits_and_underscores_are_what_a_reader_expects() {
        for (identifier, expected) in [
            ("HTTPCallFailed", "http.call.failed"),
            ("OrderV2Placed", "order.v2.placed"),
            ("VAT", "vat"),
            ("already_snake", "already.snake"),
            ("_Odd__One_", "odd.one"),
            ("A", "a"),
            ("ÄnderungErfasst", "änderung.erfasst"),
        ] {
            assert_eq!(Casing::Dot.apply(identifier), expected, "{identifier}");
        }
    }

    #[test]
    fn an_unknown_case_is_refused_with_the_known_ones() {
        let refusal = "Title Case".parse::<Casing>().unwrap_err();
        assert!(refusal.contains("`Title Case`") && refusal.contains("dot.case"), "{refusal}");
    }
}
