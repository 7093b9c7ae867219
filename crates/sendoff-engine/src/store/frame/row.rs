//! What a driver's row says.

use bytes::Bytes;
use sendoff_core::journal::{Tag, Tags};
use sendoff_core::{BoxError, EventId, Headers, Timestamp, Undecodable};

/// A column: by number, because a name would be looked up for every row; the name is for errors.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its number.
    pub at: usize,
    /// Its name.
    pub name: &'static str,
}

impl Column {
    /// A column by number and name.
    pub const fn new(at: usize, name: &'static str) -> Self {
        Self { at, name }
    }

    /// A column whose value is none of its kind. Not the value, which may be a secret.
    pub fn undecodable(self, source: impl Into<BoxError>) -> Undecodable {
        Undecodable { field: self.name, source: Some(source.into()) }
    }

    /// A column that has no value, or none that could be said more of.
    pub const fn absent(self) -> Undecodable {
        Undecodable { field: self.name, source: None }
    }
}

/// A row of a driver's, column by column. `None` is NULL; what is an error can be read no other way
/// either, so a row is not worse than its worst column.
///
/// Each column is read once at most: a driver that can give its bytes away does.
pub trait Cells {
    /// Of any width.
    fn integer(&mut self, column: Column) -> Result<Option<i64>, Undecodable>;

    /// A number that cannot be negative, and is one where it is too large.
    fn count(&mut self, column: Column) -> Result<u32, Undecodable> {
        let number = self.integer(column)?.ok_or(column.absent())?;
        Ok(u32::try_from(number.max(0)).unwrap_or(u32::MAX))
    }

    /// An event's id.
    fn id(&mut self, column: Column) -> Result<Option<EventId>, Undecodable>;

    /// A point in time.
    fn time(&mut self, column: Column) -> Result<Option<Timestamp>, Undecodable>;

    /// A point in time at which something happened: not one of the infinities that some databases know.
    fn moment(&mut self, column: Column) -> Result<Option<Timestamp>, Undecodable> {
        self.time(column)
    }

    /// Text in UTF-8.
    fn text(&mut self, column: Column) -> Result<Option<String>, Undecodable>;

    /// Text of a column of JSON.
    fn json(&mut self, column: Column) -> Result<Option<String>, Undecodable> {
        self.text(column)
    }

    /// Bytes.
    fn bytes(&mut self, column: Column) -> Result<Option<Bytes>, Undecodable>;

    /// Headers, which are an object of texts.
    fn headers(&mut self, column: Column) -> Result<Headers, Undecodable> {
        let headers = self.json(column)?;
        Headers::from_json(headers.as_deref())
            // Not the parser's own words, which may quote a header's value.
            .map_err(|error| column.undecodable(NotHeaders { column: error.column() }))
    }

    /// Tags, which are a list of texts.
    fn tags(&mut self, column: Column) -> Result<Tags, Undecodable> {
        let texts = self.json(column)?.ok_or(column.absent())?;
        let texts: Vec<String> =
            serde_json::from_str(&texts).map_err(|error| column.undecodable(error))?;
        let tags = texts.iter().map(|text| text.parse()).collect::<Result<Vec<Tag>, _>>();
        tags.and_then(Tags::new).map_err(|invalid| column.undecodable(invalid))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("not a JSON object of texts, at character {column}")]
struct NotHeaders {
    column: usize,
}
