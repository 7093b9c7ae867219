//! Appending in `sea-orm`'s transactions.
//!
//! As with an outbox there is no proof in the driver's own `commit`: handles of nested transactions
//! share the connection, and one that is left open turns it into the release of a savepoint.

use ::sea_orm::{ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, Statement, Value};
use sendoff_core::journal::Append;
use sendoff_engine::journal::{AppendError, AppendIn, Receipt};
use sendoff_engine::store::StoreError;

use super::append::{Carrier, Failure, Insert, Numbers, Whose, append};
use super::draft::DraftRow;
use super::store::MysqlJournal;
use crate::capture::sea_orm_number;
use crate::error::foreign;
use crate::wire::time_text;

impl AppendIn<DatabaseTransaction> for MysqlJournal {
    async fn append_in(
        &self,
        tx: &mut DatabaseTransaction,
        facts: &Append,
    ) -> Result<Vec<Receipt>, AppendError> {
        append_on(self, tx, facts).await
    }
}

/// What a closure of sea-orm's `transaction` is given.
impl<'c> AppendIn<&'c DatabaseTransaction> for MysqlJournal {
    async fn append_in(
        &self,
        tx: &mut &'c DatabaseTransaction,
        facts: &Append,
    ) -> Result<Vec<Receipt>, AppendError> {
        append_on(self, tx, facts).await
    }
}

async fn append_on(
    journal: &MysqlJournal,
    tx: &DatabaseTransaction,
    facts: &Append,
) -> Result<Vec<Receipt>, AppendError> {
    journal.check_open()?;
    if tx.get_database_backend() != DbBackend::MySql {
        let wrong = "the transaction is not one of MySQL or MariaDB";
        return Err(StoreError::Refused(wrong.into()).into());
    }
    append(journal, &mut Driver(tx), Whose::Callers, facts).await
}

struct Driver<'a>(&'a DatabaseTransaction);

impl Carrier for Driver<'_> {
    async fn run(&mut self, text: String) -> Result<(), Failure> {
        let text = text.trim_end().trim_end_matches(';');
        self.0.execute_unprepared(text).await.map(|_| ()).map_err(failure)
    }

    async fn ask(&mut self, text: String) -> Result<Numbers, Failure> {
        let statement = Statement::from_string(DbBackend::MySql, text);
        let rows = self.0.query_all_raw(statement).await.map_err(failure)?;
        let number = |row: &::sea_orm::QueryResult| {
            let columns = 0..row.column_names().len();
            columns.map(|column| row.try_get_by_index(column).ok().flatten()).collect()
        };
        Ok(rows.iter().map(number).collect())
    }

    async fn insert(&mut self, insert: Insert<'_>) -> Result<Numbers, Failure> {
        let after = insert.lead_in(self).await?;
        let (sql, draft, answer) = (insert.sql(), insert.draft, insert.answer);
        let insert = Statement::from_sql_and_values(
            DbBackend::MySql,
            draft.text_with_marks(sql),
            draft.rows.iter().flat_map(values),
        );
        self.0.execute_raw(insert).await.map_err(failure)?;
        self.run(after).await?;
        self.ask(answer.to_owned()).await
    }
}

/// In the order of the statement. Texts travel as bytes: the server would take them for the session's
/// character set, which is the application's to change.
fn values(row: &DraftRow<'_>) -> Vec<Value> {
    let event = row.fact.event();
    let bytes = |text: Option<&str>| Value::from(text.map(|text| text.as_bytes().to_vec()));
    let mut values: Vec<Value> = vec![
        row.fact.id().as_bytes().to_vec().into(),
        bytes(Some(event.event_type())),
        bytes(Some(event.content_type())),
        time_text(event.occurred_at()).into(),
    ];
    values.extend(row.related().map(|id| Value::from(id.map(|id| id.as_bytes().to_vec()))));
    values.extend([
        bytes(Some(&row.tags)),
        bytes(row.headers.as_deref()),
        event.payload().to_vec().into(),
    ]);
    values
}

fn failure(error: DbErr) -> Failure {
    let number = sea_orm_number(&error);
    Failure { number, error: foreign(number, error.into()) }
}
