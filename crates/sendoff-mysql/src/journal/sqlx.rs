//! Appending in `sqlx`'s transactions, and on its connection inside one that was begun by hand.
//!
//! sqlx may log every text it sends, so the values of a fact are parameters; tags, in conditions too,
//! stand in the text as hexadecimal digits.

use sendoff_core::journal::Append;
use sendoff_engine::journal::{AppendError, AppendIn, Receipt};

use super::version::adapter::number;
use super::version::driver::mysql::{MySql, MySqlConnection, MySqlRow};
use super::version::driver::{Error, Executor, Row, Transaction, query, raw_sql};
use super::version::ours;
use crate::error::foreign;
use crate::journal::append::{Carrier, Failure, Insert, Numbers, Whose, append};
use crate::journal::store::MysqlJournal;
use crate::wire::time_text;

impl<'c> AppendIn<Transaction<'c, MySql>> for MysqlJournal {
    async fn append_in(
        &self,
        tx: &mut Transaction<'c, MySql>,
        facts: &Append,
    ) -> Result<Vec<Receipt>, AppendError> {
        self.append_in(&mut **tx, facts).await
    }
}

/// The type proves nothing here, and sqlx counts only the transactions it began itself. Outside a
/// transaction nothing is appended, and the answer is [`AppendError::NoTransaction`].
impl AppendIn<MySqlConnection> for MysqlJournal {
    async fn append_in(
        &self,
        conn: &mut MySqlConnection,
        facts: &Append,
    ) -> Result<Vec<Receipt>, AppendError> {
        self.check_open()?;
        append(self, &mut Driver(conn), Whose::Callers, facts).await
    }
}

struct Driver<'a>(&'a mut MySqlConnection);

impl Carrier for Driver<'_> {
    async fn run(&mut self, text: String) -> Result<(), Failure> {
        self.ask(text).await.map(|_| ())
    }

    async fn ask(&mut self, text: String) -> Result<Numbers, Failure> {
        // Safe: our own files, with checked names and digits in them.
        let rows = self.0.fetch_all(raw_sql(ours(text.as_str()))).await;
        let rows = rows.map_err(failure)?;
        let numbers = |row: &MySqlRow| {
            (0..row.len()).map(|column| row.try_get_unchecked(column).ok().flatten()).collect()
        };
        Ok(rows.iter().map(numbers).collect())
    }

    async fn insert(&mut self, insert: Insert<'_>) -> Result<Numbers, Failure> {
        let after = insert.lead_in(self).await?;
        let (sql, draft, answer) = (insert.sql(), insert.draft, insert.answer);
        // Safe: our own file, with checked names and question marks in it. Kept prepared only for one
        // row, or every number of rows would be a statement to keep.
        let text = draft.text_with_marks(sql);
        let mut query = query(ours(text.as_str())).persistent(draft.rows.len() == 1);
        // Texts travel as bytes: the server would take them for the session's character set, which is the
        // application's to change.
        for row in &draft.rows {
            let event = row.fact.event();
            query = query
                .bind(row.fact.id().as_bytes().to_vec())
                .bind(event.event_type().as_bytes())
                .bind(event.content_type().as_bytes())
                .bind(time_text(event.occurred_at()));
            for id in row.related() {
                query = query.bind(id.map(|id| id.as_bytes().to_vec()));
            }
            query = query
                .bind(row.tags.as_bytes())
                .bind(row.headers.as_deref().map(str::as_bytes))
                .bind(&event.payload()[..]);
        }
        query.execute(&mut *self.0).await.map_err(failure)?;
        self.ask(format!("{after}{answer}")).await
    }
}

fn failure(error: Error) -> Failure {
    let number = number(&error);
    Failure { number, error: foreign(number, error.into()) }
}
