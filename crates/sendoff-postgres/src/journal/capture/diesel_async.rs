//! `diesel-async`: its connection inside a transaction.
//!
//! diesel keeps the kind of an error and not the server's code. What others call
//! [`Busy`](AppendError::Busy) is [`Store`](AppendError::Store) here, with diesel's own error as its
//! cause; the transaction is over in either case.

use ::diesel::deserialize::{self, QueryableByName};
use ::diesel::pg::Pg;
use ::diesel::result::{DatabaseErrorKind, Error};
use ::diesel::row::NamedRow;
use ::diesel::sql_types::{BigInt, Integer, Nullable, Timestamptz};
use ::diesel_async::AsyncPgConnection;
use ::tokio_postgres::error::SqlState;
use sendoff_core::journal::Append;
use sendoff_engine::journal::{AppendError, AppendIn, Receipt};
use sendoff_engine::store::StoreError;

use crate::capture::diesel_async::Ours;
use crate::encoded::encode;
use crate::journal::append::{Answer, Params, receipts_of, refused_elsewhere};
use crate::journal::store::PostgresJournal;

/// The type proves nothing here; outside a transaction nothing is appended, and the answer is
/// [`AppendError::NoTransaction`].
impl AppendIn<AsyncPgConnection> for PostgresJournal {
    async fn append_in(
        &self,
        conn: &mut AsyncPgConnection,
        append: &Append,
    ) -> Result<Vec<Receipt>, AppendError> {
        self.check_open()?;
        let statement = &self.sql().journal.append_in;
        let params = Params::new(self, append)?;
        let params = encode(&params.in_order(), statement.types).map_err(StoreError::Refused)?;
        let doorbell = self.options().server.doorbell;
        let appending = Ours { text: &statement.text, params, doorbell };
        let (marked, answers) = appending.load_marked::<Answer>(self.sql(), conn).await;
        let answers = marked.and(answers);
        receipts_of(append, &answers.map_err(refused)?)
    }
}

impl QueryableByName<Pg> for Answer {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> deserialize::Result<Self> {
        Ok(Self {
            outcome: NamedRow::get::<Integer, _>(row, "outcome")?,
            place: NamedRow::get::<Nullable<BigInt>, _>(row, "place")?,
            at: NamedRow::get::<Nullable<Timestamptz>, _>(row, "at")?,
        })
    }
}

fn refused(error: Error) -> AppendError {
    let code = match &error {
        Error::DatabaseError(DatabaseErrorKind::UniqueViolation, _) => SqlState::UNIQUE_VIOLATION,
        Error::DatabaseError(DatabaseErrorKind::SerializationFailure, _) => {
            SqlState::T_R_SERIALIZATION_FAILURE
        }
        Error::DatabaseError(DatabaseErrorKind::ClosedConnection, _) => {
            return refused_elsewhere(None, error);
        }
        _ => return AppendError::Store(StoreError::Refused(error.into())),
    };
    refused_elsewhere(Some(&code), error)
}
