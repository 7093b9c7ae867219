//! Through sqlx.

use std::time::Duration;

use ::sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use ::sqlx::{AssertSqlSafe, Executor, Sqlite};
use sendoff_core::BoxError;
use sendoff_testkit::capture::TRANSACTIONS_ONLY;

use sendoff_testkit::capture::sqlx_09::{self, Pooled, SqlxDatabase};

use super::Orders;

type Sqlx = sqlx_09::Sqlx<Orders, Sqlite>;

impl SqlxDatabase<Sqlite> for Orders {
    /// A transaction that begins by reading cannot always go on to write.
    const BEGIN: Option<&'static str> = Some("begin immediate");

    const CANNOT: &'static [(&'static str, &'static str)] = &[TRANSACTIONS_ONLY];

    /// sqlx counts transactions itself, and a ROLLBACK that finds none leaves its count as it was.
    const CONNECTIONS_OUTLIVE_ENDS_BY_HAND: bool = false;

    fn options(&self) -> SqliteConnectOptions {
        let options = SqliteConnectOptions::new().filename(self.store.path());
        options.busy_timeout(Duration::from_secs(10))
    }

    async fn sql(conn: &mut SqliteConnection, text: &str) -> Result<(), BoxError> {
        conn.execute(AssertSqlSafe(text)).await?;
        Ok(())
    }
}

sendoff_testkit::capture_suite!(Sqlx::on(Orders::open().await));

mod acceptance {
    use super::*;

    sendoff_testkit::acceptance_suite!(Pooled(Sqlx::on(Orders::open().await)));
}
