//! `sea-orm`: its transactions. What they need beside statements stands in the engine
//! ([`SeaOrmStore`]).
//!
//! ```no_run
//! # use sea_orm::ConnectionTrait;
//! # async fn example(
//! #     outbox: sendoff_engine::Outbox<sendoff_mysql::MysqlStore>,
//! #     db: sea_orm::DatabaseConnection,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! let mut tx = outbox.begin(&db).await?;
//! tx.execute_unprepared("insert into orders values (4711)").await?;
//! tx.emit(("order.placed", r#"{"order":4711}"#))?;
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! ```no_run
//! # use sea_orm::{ConnectionTrait, TransactionTrait};
//! # async fn example(
//! #     outbox: sendoff_engine::Outbox<sendoff_mysql::MysqlStore>,
//! #     db: sea_orm::DatabaseConnection,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! let mut tx = db.begin().await?;
//! tx.execute_unprepared("insert into orders values (4711)").await?;
//! let staged = outbox.write(&mut tx, ("order.placed", r#"{"order":4711}"#)).await?;
//! tx.commit().await?;
//! staged.release();
//! # Ok(())
//! # }
//! ```

use ::sea_orm::sqlx::mysql::MySqlDatabaseError;
use ::sea_orm::{
    ConnectionTrait, DatabaseTransaction, DbBackend, DbErr, RuntimeErr, Statement, Value,
};
use sendoff_engine::capture::{CommitError, InsertResult, Inserted, JoinError, Part, SeaOrmStore};
use sendoff_engine::store::{NewRow, StoreError};

use super::draft::{DraftRow, Proof};
use super::insert::{self, Carrier, Insert, insert_all, insert_last};
use super::join;
use super::unfinished::Unfinished;
use crate::store::MysqlStore;
use crate::wire::{micros, time_text};

impl SeaOrmStore for MysqlStore {
    const BACKEND: DbBackend = DbBackend::MySql;
    const DATABASE: &'static str = "MySQL or MariaDB";

    fn check_open(&self) -> Result<(), StoreError> {
        self.check_open()
    }

    /// The mark that `still_begun` looks for.
    async fn begun(&self, tx: &DatabaseTransaction) -> Result<(), DbErr> {
        tx.execute_unprepared(self.sql().begun.text()).await.map(|_| ())
    }

    async fn insert_rows(&self, tx: &DatabaseTransaction, rows: &[NewRow]) -> InsertResult {
        insert_all(self, &mut Driver(tx), rows).await
    }

    async fn insert_last(
        &self,
        tx: &DatabaseTransaction,
        rows: &[NewRow],
    ) -> Result<Inserted, CommitError> {
        insert_last(self, &mut Driver(tx), Proof::Begun, rows).await
    }

    async fn take_part(
        &self,
        tx: &DatabaseTransaction,
        part: &Part<'_>,
    ) -> Result<bool, JoinError> {
        join::take_part(self, &mut Driver(tx), part).await
    }

    fn is_rolled_back(error: &DbErr) -> bool {
        insert::is_rolled_back::<Driver<'_>>(error)
    }
}

struct Driver<'a>(&'a DatabaseTransaction);

impl Carrier for Driver<'_> {
    type Error = DbErr;

    async fn insert(&mut self, insert: Insert<'_>) -> Result<(i64, u64), DbErr> {
        let Insert { store, draft, before } = insert;
        self.run(before.trim_end().trim_end_matches(';')).await?;
        let said = Statement::from_string(DbBackend::MySql, store.sql().inserted.text());
        let row = self.0.query_one_raw(said).await?;
        let row = row.ok_or_else(|| DbErr::RecordNotFound("the time of the insert".into()))?;
        let (created_at, session) = (row.try_get_by_index(0)?, row.try_get_by_index(1)?);
        let insert = Statement::from_sql_and_values(
            DbBackend::MySql,
            draft.text_with_marks(store),
            draft.rows.iter().flat_map(values),
        );
        let unfinished = Unfinished::new(store, session);
        let answer = self.0.execute_raw(insert).await;
        unfinished.answered();
        answer?;
        Ok((created_at, session))
    }

    async fn run(&mut self, text: &str) -> Result<(), DbErr> {
        self.0.execute_unprepared(text).await.map(|_| ())
    }

    async fn ask(&mut self, text: &str) -> Result<bool, DbErr> {
        let asked = Statement::from_string(DbBackend::MySql, text);
        let row = self.0.query_one_raw(asked).await?;
        row.map_or(Ok(false), |row| row.try_get_by_index::<i64>(0).map(|yes| yes != 0))
    }

    fn refusal(error: &DbErr) -> Option<(u16, &str)> {
        let (DbErr::Exec(RuntimeErr::SqlxError(error))
        | DbErr::Query(RuntimeErr::SqlxError(error))) = error
        else {
            return None;
        };
        let refusal: &MySqlDatabaseError = error.as_database_error()?.try_downcast_ref()?;
        Some((refusal.number(), refusal.message()))
    }
}

/// The server's number, where it was the server that refused.
pub(crate) fn number(error: &DbErr) -> Option<u16> {
    Driver::number(error)
}

/// In the order of the statement. Texts travel as bytes: the server would take them for the session's
/// character set, which is the application's to change.
fn values(row: &DraftRow<'_>) -> Vec<Value> {
    let bytes = |text: Option<&str>| Value::from(text.map(|text| text.as_bytes().to_vec()));
    let mut values: Vec<Value> = vec![row.id.as_bytes().to_vec().into()];
    values.extend(row.names.map(bytes));
    values.extend([
        row.shard.into(),
        bytes(Some(row.content_type)),
        time_text(row.occurred_at).into(),
        row.after.map(micros).into(),
        bytes(row.locked_by),
        bytes(row.headers.as_deref()),
        row.payload.to_vec().into(),
        row.delay().map(micros).into(),
    ]);
    values
}
