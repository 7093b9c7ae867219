//! `sea-orm`: its transactions.
//!
//! sea-orm does not pipeline, so the mark that a transaction is open is a round trip of its own. A
//! nested transaction that is left open turns the outer `commit` into the release of a savepoint, and
//! answers `Ok`; what was appended is there when the outermost one commits.

use std::borrow::Cow;

use ::sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, QueryResult, Statement, Value,
};
use ::tokio_postgres::error::SqlState;
use ::tokio_postgres::types::Type;
use sendoff_core::BoxError;
use sendoff_core::journal::Append;
use sendoff_engine::journal::{AppendError, AppendIn, Receipt};
use sendoff_engine::store::StoreError;

use crate::capture::literal::{array, time};
use crate::capture::sea_orm::{bytes, get, refusal, texts};
use crate::journal::append::{Answer, Params, receipts_of, refused_elsewhere};
use crate::journal::store::PostgresJournal;
use crate::wire::Id;

impl AppendIn<DatabaseTransaction> for PostgresJournal {
    async fn append_in(
        &self,
        tx: &mut DatabaseTransaction,
        append: &Append,
    ) -> Result<Vec<Receipt>, AppendError> {
        append_on(self, tx, append).await
    }
}

/// What a closure of sea-orm's `transaction` is given.
impl<'c> AppendIn<&'c DatabaseTransaction> for PostgresJournal {
    async fn append_in(
        &self,
        tx: &mut &'c DatabaseTransaction,
        append: &Append,
    ) -> Result<Vec<Receipt>, AppendError> {
        append_on(self, tx, append).await
    }
}

async fn append_on(
    journal: &PostgresJournal,
    tx: &DatabaseTransaction,
    append: &Append,
) -> Result<Vec<Receipt>, AppendError> {
    journal.check_open()?;
    if tx.get_database_backend() != DbBackend::Postgres {
        let why = "the transaction is not one of PostgreSQL";
        return Err(StoreError::Refused(why.into()).into());
    }
    let sql = journal.sql();
    let values = values(&Params::new(journal, append)?);
    tx.execute_unprepared(&sql.in_transaction.text).await.map_err(refused)?;
    let text = &sql.journal.append_in.text;
    let statement = Statement::from_sql_and_values(DbBackend::Postgres, text, values);
    let rows = tx.query_all_raw(statement).await.map_err(refused)?;
    let answers = rows.iter().map(answer).collect::<Result<Vec<_>, _>>();
    receipts_of(append, &answers.map_err(StoreError::Refused)?)
}

/// In the order of the statement.
fn values(params: &Params<'_>) -> [Value; 17] {
    let number = |text: String| Some(Cow::Owned(text));
    let ids = |ids: &[Option<Id>]| -> Value {
        array(ids.iter().map(|id| Some(id.as_ref()?.0.to_string().into()))).into()
    };
    let maybe = |items: &Option<Vec<Option<String>>>| -> Value {
        let text = |items: &Vec<Option<String>>| {
            array(items.iter().map(|i| i.as_deref().map(Cow::Borrowed)))
        };
        items.as_ref().map(text).into()
    };
    [
        array(params.keys.iter().map(|key| number(key.to_string()))).into(),
        array(params.alone.iter().map(|alone| number(alone.to_string()))).into(),
        params.patience.into(),
        array(params.ids.iter().map(|id| number(id.0.to_string()))).into(),
        texts(&params.types),
        array(params.tags.iter().map(|tags| Some(Cow::Borrowed(tags.as_str())))).into(),
        texts(&params.content_types),
        array(params.occurred.iter().map(|at| number(time(*at)))).into(),
        array(params.headers.iter().map(|json| Some(Cow::Borrowed(&*json.as_ref()?.0)))).into(),
        // Never NULL, so that they can travel as they are.
        bytes(&params.payloads),
        ids(&params.correlations),
        ids(&params.causations),
        params
            .kinds
            .as_ref()
            .map(|kinds| array(kinds.iter().map(|kind| number(kind.to_string()))))
            .into(),
        maybe(&params.kind_tags),
        maybe(&params.kind_types),
        params.after.into(),
        params.run.map(time).into(),
    ]
}

fn answer(row: &QueryResult) -> Result<Answer, BoxError> {
    Ok(Answer {
        outcome: get(row, 0, &Type::INT4)?,
        place: get(row, 1, &Type::INT8)?,
        at: get(row, 2, &Type::TIMESTAMPTZ)?,
    })
}

fn refused(error: DbErr) -> AppendError {
    let code = refusal(&error).map(|refusal| SqlState::from_code(refusal.code()));
    refused_elsewhere(code.as_ref(), error)
}
