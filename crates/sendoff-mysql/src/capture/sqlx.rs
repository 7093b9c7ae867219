//! `sqlx`: its transactions, from a pool or a single connection, and its connection inside a
//! transaction begun by hand.
//!
//! sqlx may log every text it sends, so the values of an event are parameters. What goes before the
//! insert, the insert and COMMIT are a round trip each. Nothing can run in between, because whoever
//! commits has the transaction by value and with it the only way to its connection. A write that is
//! dropped during its insert ends its session (`unfinished.rs`).
//!
//! Compiled for each version of sqlx, which is the module around it: `sqlx_08.rs`, `sqlx_09.rs`.

use sendoff_engine::capture::{
    Begin, BeginError, Capture, CommitError, InsertResult, Inserted, Join, JoinError, Part,
};
use sendoff_engine::store::{NewRow, StoreError};

use super::driver::mysql::{MySql, MySqlConnection, MySqlDatabaseError};
use super::driver::{Error, Executor, Row, Transaction, query, raw_sql};
use super::ours;
use super::shared::{SqlxStore, begin_on};
use crate::capture::draft::Proof;
use crate::capture::insert::{self, Carrier, Insert, insert_all, insert_last};
use crate::capture::join;
use crate::capture::unfinished::Unfinished;
use crate::store::MysqlStore;
use crate::wire::{micros, time_text};

impl SqlxStore for MysqlStore {
    type Driver = MySql;

    fn check_open(&self) -> Result<(), StoreError> {
        self.check_open()
    }

    /// The mark that `still_begun` looks for travels with the beginning.
    fn begin_text(&self) -> Option<String> {
        Some(format!("start transaction; {}", self.sql().begun.text()))
    }

    async fn insert_rows(&self, conn: &mut MySqlConnection, rows: &[NewRow]) -> InsertResult {
        insert_all(self, conn, rows).await
    }

    async fn insert_last(
        &self,
        conn: &mut MySqlConnection,
        rows: &[NewRow],
    ) -> Result<Inserted, CommitError> {
        insert_last(self, conn, Proof::Begun, rows).await
    }

    async fn take_part(
        &self,
        conn: &mut MySqlConnection,
        part: &Part<'_>,
    ) -> Result<bool, JoinError> {
        join::take_part(self, conn, part).await
    }

    fn is_rolled_back(error: &Error) -> bool {
        insert::is_rolled_back::<MySqlConnection>(error)
    }
}

/// The type proves nothing here, and sqlx counts only the transactions it began itself. Outside a
/// transaction nothing is inserted, and the answer is [`NoTransaction`].
///
/// [`NoTransaction`]: sendoff_engine::capture::WriteError::NoTransaction
impl Capture<MySqlConnection> for MysqlStore {
    async fn insert(&self, conn: &mut MySqlConnection, rows: &[NewRow]) -> InsertResult {
        insert_all(self, conn, rows).await
    }
}

/// Outside a transaction nothing is done, and the answer is [`JoinError::NoTransaction`].
impl Join<MySqlConnection> for MysqlStore {
    async fn join(&self, conn: &mut MySqlConnection, part: &Part<'_>) -> Result<bool, JoinError> {
        join::take_part(self, conn, part).await
    }
}

impl<'c> Begin<&'c mut MySqlConnection> for MysqlStore {
    type Tx = Transaction<'c, MySql>;

    async fn begin(&self, conn: &'c mut MySqlConnection) -> Result<Self::Tx, BeginError> {
        begin_on(self, conn).await
    }
}

impl Carrier for MySqlConnection {
    type Error = Error;

    async fn insert(&mut self, insert: Insert<'_>) -> Result<(i64, u64), Error> {
        let Insert { store, draft, before } = insert;
        let before = before + store.sql().inserted.text();
        // Safe: our own files, with checked names and hexadecimal ids in them.
        let answer = self.fetch_all(raw_sql(ours(before.as_str()))).await?;
        let answer = answer.first().ok_or(Error::RowNotFound)?;
        let (created_at, session) = (answer.try_get_unchecked(0)?, answer.try_get_unchecked(1)?);
        // Safe: our own file, with checked names and question marks in it. Kept prepared only for one row,
        // or every number of rows would be a statement to keep.
        let text = draft.text_with_marks(store);
        let mut insert = query(ours(text.as_str())).persistent(draft.rows.len() == 1);
        // Texts travel as bytes: the server would take them for the session's character set, which is the
        // application's to change.
        for row in &draft.rows {
            insert = insert.bind(row.id.as_bytes().as_slice());
            for name in row.names {
                insert = insert.bind(name.map(str::as_bytes));
            }
            insert = insert
                .bind(row.shard)
                .bind(row.content_type.as_bytes())
                .bind(time_text(row.occurred_at))
                .bind(row.after.map(micros))
                .bind(row.locked_by.map(str::as_bytes))
                .bind(row.headers.as_deref().map(str::as_bytes))
                .bind(row.payload)
                .bind(row.delay().map(micros));
        }
        let unfinished = Unfinished::new(store, session);
        let answer = insert.execute(&mut *self).await;
        unfinished.answered();
        answer?;
        Ok((created_at, session))
    }

    async fn run(&mut self, text: &str) -> Result<(), Error> {
        // Safe: our own file.
        self.execute(ours(text)).await.map(|_| ())
    }

    async fn ask(&mut self, text: &str) -> Result<bool, Error> {
        // Safe: our own file.
        let answer = self.fetch_one(raw_sql(ours(text))).await?;
        answer.try_get_unchecked::<i64, _>(0).map(|yes| yes != 0)
    }

    fn refusal(error: &Error) -> Option<(u16, &str)> {
        let refusal: &MySqlDatabaseError = error.as_database_error()?.try_downcast_ref()?;
        Some((refusal.number(), refusal.message()))
    }
}

/// The server's number, where it was the server that refused.
pub(crate) fn number(error: &Error) -> Option<u16> {
    MySqlConnection::number(error)
}
