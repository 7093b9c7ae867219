//! Appending through each driver whose transactions are captured.

use std::marker::PhantomData;
use std::time::Duration;

use mysql_async::TxOpts;
use mysql_async::prelude::Queryable;
use sendoff_core::journal::Append;
use sendoff_engine::journal::{AppendError, AppendIn, Journal, Receipt};
use sendoff_mysql::MysqlJournal;
use sendoff_testkit::journal::{Deed, Ending, JournalHarness, TransactionHarness, async_trait};

use super::{Log, committed, journal};
use crate::place::{MARIADB, MYSQL, Place};

type Answers = Vec<Result<Vec<Receipt>, AppendError>>;

/// A driver, on a connection of its own for each transaction.
#[async_trait]
trait Driver: Send + Sync + 'static {
    async fn transact(harness: &Through<Self>, steps: &[Deed], ending: Ending) -> Answers
    where
        Self: Sized;
}

struct Through<D> {
    journal: Log,
    place: Place,
    driver: PhantomData<D>,
}

impl<D: Driver> Through<D> {
    async fn on(server: &str) -> Self {
        let place = Place::on(server).await;
        Self { journal: journal(&place).await, place, driver: PhantomData }
    }
}

#[async_trait]
impl<D: Driver> JournalHarness for Through<D> {
    type Store = MysqlJournal;

    fn journal(&self) -> &Journal<MysqlJournal> {
        &self.journal
    }

    async fn append_in(
        &self,
        append: &Append,
        _: Duration,
        ending: Ending,
    ) -> Result<Vec<Receipt>, AppendError> {
        self.transact(&[Deed::Append(append.clone())], ending).await.remove(0)
    }
}

#[async_trait]
impl<D: Driver> TransactionHarness for Through<D> {
    async fn transact(&self, steps: &[Deed], ending: Ending) -> Answers {
        D::transact(self, steps, ending).await
    }
}

struct MysqlAsync;

#[async_trait]
impl Driver for MysqlAsync {
    async fn transact(harness: &Through<Self>, steps: &[Deed], ending: Ending) -> Answers {
        let mut conn = committed(&harness.place).await;
        let mut tx = conn.start_transaction(TxOpts::new()).await.unwrap();
        let mut answers = Vec::new();
        for step in steps {
            match step {
                Deed::Append(append) => {
                    answers.push(harness.journal.store().append_in(&mut tx, append).await);
                }
                Deed::Sql(sql) => tx.query_drop(*sql).await.unwrap(),
            }
        }
        match ending {
            Ending::Commit => tx.commit().await.unwrap(),
            Ending::RollBack => tx.rollback().await.unwrap(),
        }
        answers
    }
}

#[cfg(feature = "sqlx")]
struct Sqlx;

#[cfg(feature = "sqlx")]
#[async_trait]
impl Driver for Sqlx {
    async fn transact(harness: &Through<Self>, steps: &[Deed], ending: Ending) -> Answers {
        use ::sqlx::{Connection, Executor};

        let url = &harness.place.url;
        let mut conn = ::sqlx::mysql::MySqlConnection::connect(url).await.unwrap();
        conn.execute("set session transaction isolation level read committed").await.unwrap();
        let mut tx = conn.begin().await.unwrap();
        let mut answers = Vec::new();
        for step in steps {
            match step {
                Deed::Append(append) => {
                    answers.push(harness.journal.store().append_in(&mut tx, append).await);
                }
                Deed::Sql(sql) => {
                    tx.execute(*sql).await.unwrap();
                }
            }
        }
        match ending {
            Ending::Commit => tx.commit().await.unwrap(),
            Ending::RollBack => tx.rollback().await.unwrap(),
        }
        answers
    }
}

#[cfg(feature = "sea-orm")]
struct SeaOrm;

#[cfg(feature = "sea-orm")]
#[async_trait]
impl Driver for SeaOrm {
    async fn transact(harness: &Through<Self>, steps: &[Deed], ending: Ending) -> Answers {
        use ::sea_orm::{ConnectOptions, ConnectionTrait, Database, TransactionTrait};

        let mut options = ConnectOptions::new(harness.place.url.clone());
        options.max_connections(1);
        let db = Database::connect(options).await.unwrap();
        let level = "set session transaction isolation level read committed";
        db.execute_unprepared(level).await.unwrap();
        let mut tx = db.begin().await.unwrap();
        let mut answers = Vec::new();
        for step in steps {
            match step {
                Deed::Append(append) => {
                    answers.push(harness.journal.store().append_in(&mut tx, append).await);
                }
                Deed::Sql(sql) => {
                    tx.execute_unprepared(sql).await.unwrap();
                }
            }
        }
        match ending {
            Ending::Commit => tx.commit().await.unwrap(),
            Ending::RollBack => tx.rollback().await.unwrap(),
        }
        answers
    }
}

/// Holds J1 and W1.
macro_rules! through {
    ($($(#[$feature:meta])? $name:ident, $driver:ident;)*) => {$(
        $(#[$feature])?
        mod $name {
            use super::*;

            mod on_mariadb {
                use super::*;

                sendoff_testkit::journal_suite!(
                    transactions: Through::<$driver>::on(MARIADB).await
                );
            }

            mod on_mysql {
                use super::*;

                sendoff_testkit::journal_suite!(transactions: Through::<$driver>::on(MYSQL).await);
            }
        }
    )*};
}

through! {
    through_mysql_async, MysqlAsync;
    #[cfg(feature = "sqlx")]
    through_sqlx, Sqlx;
    #[cfg(feature = "sea-orm")]
    through_sea_orm, SeaOrm;
}
