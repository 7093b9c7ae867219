//! Appending through each driver whose transactions are captured.

use std::marker::PhantomData;

use futures_util::TryStreamExt;
use mysql_async::TxOpts;
use mysql_async::prelude::Queryable;
use sendoff_core::Event;
use sendoff_core::journal::{Append, Fact, Position, Query, Recorded};
use sendoff_engine::journal::AppendIn;
use sendoff_mysql::MysqlJournal;
use sendoff_testkit::carry_out;
use sendoff_testkit::journal::{Answers, Deed, Ending, JournalHarness, async_trait};

use super::{Log, committed, journal};
use crate::place::{MARIADB, MYSQL, Place};

/// A driver, on a connection of its own for each transaction.
#[async_trait]
pub(super) trait Driver: Send + Sync + 'static {
    async fn transact(harness: &Through<Self>, steps: &[Deed], ending: Ending) -> Answers
    where
        Self: Sized;
}

pub(super) struct Through<D> {
    pub(super) journal: Log,
    pub(super) place: Place,
    driver: PhantomData<D>,
}

impl<D: Driver> Through<D> {
    pub(super) async fn on(server: &str) -> Self {
        let place = Place::on(server).await;
        Self { journal: journal(&place).await, place, driver: PhantomData }
    }
}

impl<D: Driver> JournalHarness for Through<D> {
    type Store = MysqlJournal;

    fn journal(&self) -> &Log {
        &self.journal
    }

    async fn transact(&self, steps: &[Deed], ending: Ending) -> Answers {
        D::transact(self, steps, ending).await
    }
}

pub(super) struct MysqlAsync;

#[async_trait]
impl Driver for MysqlAsync {
    async fn transact(harness: &Through<Self>, steps: &[Deed], ending: Ending) -> Answers {
        let mut conn = committed(&harness.place).await;
        let mut tx = conn.start_transaction(TxOpts::new()).await.unwrap();
        let store = harness.journal.store();
        carry_out!(steps, ending, store, tx, |sql| tx.query_drop(*sql))
    }
}

/// For each version of sqlx.
macro_rules! through_sqlx {
    ($name:ident, $driver:ident) => {
        struct $name;

        #[async_trait]
        impl Driver for $name {
            async fn transact(harness: &Through<Self>, steps: &[Deed], ending: Ending) -> Answers {
                use ::$driver::{Connection, Executor};

                let url = &harness.place.url;
                let mut conn = ::$driver::mysql::MySqlConnection::connect(url).await.unwrap();
                let level = "set session transaction isolation level read committed";
                conn.execute(level).await.unwrap();
                let mut tx = conn.begin().await.unwrap();
                let store = harness.journal.store();
                carry_out!(steps, ending, store, tx, |sql| tx.execute(*sql))
            }
        }
    };
}

#[cfg(feature = "sqlx-08")]
through_sqlx!(Sqlx08, sqlx_08);
#[cfg(feature = "sqlx")]
through_sqlx!(Sqlx09, sqlx);

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
        let store = harness.journal.store();
        carry_out!(steps, ending, store, tx, |sql| tx.execute_unprepared(sql))
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
    #[cfg(feature = "sqlx-08")]
    through_sqlx_08, Sqlx08;
    #[cfg(feature = "sqlx")]
    through_sqlx_09, Sqlx09;
    #[cfg(feature = "sea-orm")]
    through_sea_orm, SeaOrm;
}

/// J1: what a fact is does not depend on the character set of the application's session.
async fn facts_come_back_whatever_the_character_set<D: Driver>() {
    for server in [MARIADB, MYSQL] {
        let harness = Through::<D>::on(server).await;
        let event = Event::builder("bestellt.größe").header("von", "Jürgen – ☂").json_text("{}");
        let fact = Fact::builder(event).tag("größe", "ü☂").build().unwrap();
        let append = Append::new(vec![fact.clone()], None).unwrap();
        let steps = [Deed::Sql("set names latin1"), Deed::Append(append)];
        harness.transact(&steps, Ending::Commit).await.remove(0).unwrap();
        let found = harness.journal.read(Query::all(), Position::START).try_collect::<Vec<_>>();
        let found = found.await.unwrap();
        let [Recorded { fact: found, .. }] = &found[..] else { panic!("{found:?}") };
        let (written, read) = (fact.event(), found.event());
        assert_eq!((read.event_type(), found.tags()), (written.event_type(), fact.tags()));
        assert_eq!(read.headers().get("von"), Some("Jürgen – ☂"));
    }
}

#[tokio::test]
async fn the_character_set_of_a_session_changes_no_fact_through_mysql_async() {
    facts_come_back_whatever_the_character_set::<MysqlAsync>().await;
}

#[cfg(feature = "sqlx")]
#[tokio::test]
async fn the_character_set_of_a_session_changes_no_fact_through_sqlx() {
    facts_come_back_whatever_the_character_set::<Sqlx09>().await;
}

#[cfg(feature = "sea-orm")]
#[tokio::test]
async fn the_character_set_of_a_session_changes_no_fact_through_sea_orm() {
    facts_come_back_whatever_the_character_set::<SeaOrm>().await;
}
