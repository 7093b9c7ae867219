//! Reading a template.

use std::borrow::Cow;
use std::iter::Peekable;
use std::str::Chars;

use super::field::Field;
use super::shape::Shape;
use super::{Part, TEMPLATE_BYTES};

/// No template: says at which column, from 1, and what was expected there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidTemplate {
    /// Too long.
    #[error("a template has at most {limit} bytes; this one has {bytes}")]
    TooLong {
        /// Bytes given.
        bytes: usize,
        /// Bytes allowed.
        limit: usize,
    },
    /// Something else was expected.
    #[error("column {column}: expected {expected}")]
    Expected {
        /// Where, in characters from 1.
        column: usize,
        /// What.
        expected: &'static str,
    },
    /// A character that the target never takes.
    #[error("column {column}: {character:?} cannot be in a {what}; it takes {expected}")]
    Character {
        /// Where, in characters from 1.
        column: usize,
        /// Which.
        character: char,
        /// What the template is of.
        what: &'static str,
        /// What may be there.
        expected: &'static str,
    },
    /// The same text for every event, and the target never takes it.
    #[error("the {what} {why}")]
    Whole {
        /// What the template is of.
        what: &'static str,
        /// What is wrong with it.
        why: Cow<'static, str>,
    },
}

const FIELD: &str = "id, type, aggregate_type, aggregate_id, tenant, key, header.NAME, tag.KEY, position, \
                     correlation_id or causation_id";
const CLOSED: &str = "`}` at the end of the field that begins here";

pub(super) fn parts(text: &str, shape: &Shape) -> Result<Vec<Part>, InvalidTemplate> {
    if text.len() > TEMPLATE_BYTES {
        return Err(InvalidTemplate::TooLong { bytes: text.len(), limit: TEMPLATE_BYTES });
    }
    let mut reader = Reader { rest: text.chars().peekable(), column: 0, shape };
    let (mut parts, mut plain) = (Vec::new(), String::new());
    while let Some(c) = reader.next() {
        match c {
            '{' if !reader.doubled('{') => {
                if !plain.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                }
                parts.push(reader.value()?);
            }
            '}' if !reader.doubled('}') => {
                return Err(reader.expected("`}}`, which stands for a brace"));
            }
            c => plain.push(reader.checked(c)?),
        }
    }
    if !plain.is_empty() {
        parts.push(Part::Text(plain));
    }
    Ok(parts)
}

struct Reader<'t> {
    rest: Peekable<Chars<'t>>,
    /// Of what was read last.
    column: usize,
    shape: &'t Shape,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        self.column += 1;
        self.rest.next()
    }

    /// Whether the brace stands twice, and so for itself.
    fn doubled(&mut self, brace: char) -> bool {
        let doubled = self.rest.next_if_eq(&brace).is_some();
        self.column += usize::from(doubled);
        doubled
    }

    fn expected(&self, expected: &'static str) -> InvalidTemplate {
        InvalidTemplate::Expected { column: self.column, expected }
    }

    fn checked(&self, character: char) -> Result<char, InvalidTemplate> {
        let Shape { what, takes, expected, .. } = *self.shape;
        match takes(character) {
            true => Ok(character),
            false => {
                Err(InvalidTemplate::Character { column: self.column, character, what, expected })
            }
        }
    }

    /// What is between braces.
    fn value(&mut self) -> Result<Part, InvalidTemplate> {
        let opened = self.column;
        let mut fields = Vec::new();
        let (mut name, mut begun) = (String::new(), opened + 1);
        loop {
            let unclosed = InvalidTemplate::Expected { column: opened, expected: CLOSED };
            match self.next().ok_or(unclosed)? {
                c @ ('}' | ',' | '|') => {
                    let unknown = InvalidTemplate::Expected { column: begun, expected: FIELD };
                    fields.push(Field::named(&name).ok_or(unknown)?);
                    name.clear();
                    begun = self.column + 1;
                    match c {
                        '}' => return Ok(Part::Value { fields, fallback: None }),
                        '|' => break,
                        _ => {}
                    }
                }
                '{' => return Err(self.expected("the name of a field, which has no braces")),
                c => name.push(c),
            }
        }
        let mut fallback = String::new();
        loop {
            let unclosed = InvalidTemplate::Expected { column: opened, expected: CLOSED };
            match self.next().ok_or(unclosed)? {
                '}' => return Ok(Part::Value { fields, fallback: Some(fallback) }),
                '{' => return Err(self.expected("a text without braces")),
                c => fallback.push(self.checked(c)?),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Template;
    use super::*;

    fn error(text: &str) -> String {
        Template::parse(text, &Shape::TEXT).unwrap_err().to_string()
    }

    #[test]
    fn an_error_says_where_and_what_was_expected() {
        assert_eq!(error(""), "the text is empty");
        assert_eq!(error("a.{type"), format!("column 3: expected {CLOSED}"));
        assert_eq!(error("a.{tenant|none"), format!("column 3: expected {CLOSED}"));
        assert_eq!(error("é}"), "column 2: expected `}}`, which stands for a brace");
        assert_eq!(error("{typ}"), format!("column 2: expected {FIELD}"));
        assert_eq!(error("{key,}"), format!("column 6: expected {FIELD}"));
        assert_eq!(error("{}"), format!("column 2: expected {FIELD}"));
        assert_eq!(error("{header.}"), format!("column 2: expected {FIELD}"));
        assert_eq!(error("{ty{pe}"), "column 4: expected the name of a field, which has no braces");
        assert_eq!(error("{key|{id}}"), "column 6: expected a text without braces");
        assert!(error("a\nb").starts_with("column 2: '\\n' cannot be in a text"));
        assert!(error("{key|\n}").starts_with("column 6: '\\n'"));
    }

    #[test]
    fn a_template_is_bounded() {
        let longest = "x".repeat(TEMPLATE_BYTES);
        assert!(Template::parse(&longest, &Shape::TEXT).is_ok());
        let error = Template::parse(&format!("{longest}x"), &Shape::TEXT).unwrap_err();
        assert_eq!(
            error,
            InvalidTemplate::TooLong { bytes: TEMPLATE_BYTES + 1, limit: TEMPLATE_BYTES }
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in any::<String>()) {
            let _ = Template::parse(&text, &Shape::TEXT);
        }

        #[test]
        fn doubled_braces_stand_for_themselves(text in "[a-z{}]{1,20}") {
            let doubled = text.replace('{', "{{").replace('}', "}}");
            let template = Template::parse(&doubled, &Shape::TEXT).unwrap();
            prop_assert_eq!(template.constant(), Some(text));
        }
    }
}
