//! Sends blocks of statements prepared where the server and what is between allow it, else as text.

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};

use mysql_async::prelude::Queryable;
use mysql_async::{Error, Row, Value};

use crate::link::{Session, last_rows, prepared_rows};
use crate::names::Names;
use crate::values::Values;

/// Whether the server prepares blocks. MariaDB does, unless it has too many statements prepared or
/// somebody is between us who does not know them.
pub(super) struct Prepares(AtomicBool);

/// Where a text goes.
pub(super) trait Line: Send {
    /// Runs a text with its values in it, and returns the rows of the last result that has any.
    fn text(&mut self, text: &str) -> impl Future<Output = Result<Vec<Row>, Error>> + Send;

    /// The same with values apart from it; nothing where it is not prepared.
    fn marked(
        &mut self,
        text: &str,
        values: Vec<Value>,
    ) -> impl Future<Output = Result<Option<Vec<Row>>, Error>> + Send;
}

impl Prepares {
    pub(super) fn new(names: &Names) -> Self {
        // The driver takes what follows a colon for the name of a value.
        Self(AtomicBool::new(!names.qualified("journal_event").contains(':')))
    }

    /// Runs a text, prepared if it can be and if there will be others like it.
    pub(super) async fn rows(
        &self,
        line: &mut impl Line,
        alike: bool,
        text: impl Fn(&mut Values) -> String,
    ) -> Result<Vec<Row>, Error> {
        if alike && self.0.load(Ordering::Relaxed) {
            let mut values = Values::apart();
            let marked = text(&mut values);
            if let Some(rows) = line.marked(&marked, values.into_values()).await? {
                return Ok(rows);
            }
            self.0.store(false, Ordering::Relaxed);
        }
        line.text(&text(&mut Values::inside())).await
    }
}

/// A connection that somebody has.
pub(super) struct Driver<'a, C>(pub(super) &'a mut C);

impl<C: Queryable + Send> Line for Driver<'_, C> {
    async fn text(&mut self, text: &str) -> Result<Vec<Row>, Error> {
        last_rows(self.0, text).await
    }

    async fn marked(&mut self, text: &str, values: Vec<Value>) -> Result<Option<Vec<Row>>, Error> {
        prepared_rows(self.0, text, values).await
    }
}

impl Line for Session<'_> {
    async fn text(&mut self, text: &str) -> Result<Vec<Row>, Error> {
        self.query(text).await
    }

    async fn marked(&mut self, text: &str, values: Vec<Value>) -> Result<Option<Vec<Row>>, Error> {
        self.prepared(text, values).await
    }
}
