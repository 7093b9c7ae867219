//! Reading a payload or a header as JSON, and saying why it cannot be read.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::error::Category;

use super::misfit::find_misfit;

/// A payload or a header is not the JSON that was expected. In a handler, by `?`, that is a dead letter: what
/// cannot be read now can never be.
///
/// Says where, which field, and what was expected there, and nothing more: the parser's own words may
/// quote the payload, and a handler's error ends up in the table and in logs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnreadableJson {
    /// The header that was read; none where it was the payload.
    pub header: Option<String>,
    /// `syntax`, `data` (well formed, but not of the type asked for), or `end` (cut short).
    pub category: &'static str,
    /// From 1.
    pub line: usize,
    /// From 1.
    pub column: usize,
    /// The field at fault, as in `items[2].price`, where that is known. A key of a map is `*`: such keys
    /// are part of the payload.
    pub field: Option<String>,
    /// What was expected there, such as `u32`, where that is known.
    pub expected: Option<String>,
}

pub(crate) fn read<T: DeserializeOwned>(payload: &[u8]) -> Result<T, UnreadableJson> {
    serde_json::from_slice(payload).map_err(|error| {
        let (category, misfit) = match error.classify() {
            Category::Data => ("data", find_misfit::<T>(payload)),
            Category::Eof => ("end", None),
            Category::Syntax | Category::Io => ("syntax", None),
        };
        let (field, expected) = misfit.map(|misfit| misfit.told()).unwrap_or_default();
        let (line, column) = (error.line(), error.column());
        UnreadableJson { header: None, category, line, column, field, expected }
    })
}

impl UnreadableJson {
    /// Of a header.
    pub(crate) fn in_header(self, name: &str) -> Self {
        Self { header: Some(name.to_owned()), ..self }
    }
}

impl fmt::Display for UnreadableJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { header, category, line, column, field, expected } = self;
        match header {
            None => f.write_str("payload is not the expected JSON")?,
            Some(header) => write!(f, "header {header:?} is not the expected JSON")?,
        }
        let mut before = ": ";
        if let Some(field) = field {
            write!(f, "{before}field `{field}`")?;
            before = ", ";
        }
        if let Some(expected) = expected {
            write!(f, "{before}expected {expected}")?;
        }
        write!(f, " ({category} error at line {line}, column {column})")
    }
}

impl std::error::Error for UnreadableJson {}
