//! Appending in transactions of each driver: the same cases through all of them.

use std::time::Duration;

use sendoff_core::journal::{Append, Position};
use sendoff_engine::journal::{AppendError, AppendIn};
use sendoff_postgres::{JournalOptions, PostgresJournal};
use sendoff_testkit::carry_out;
use sendoff_testkit::journal::{Answers, Deed, Ending, JournalHarness, async_trait};

use super::{Log, fact, journal, journal_with, options, tagged};
use crate::place::Place;

/// A journal, and a driver that appends in it.
pub(super) struct Through<D> {
    pub(super) journal: Log,
    pub(super) place: Place,
    pub(super) driver: D,
}

impl<D> Through<D> {
    async fn open(driver: D) -> Self {
        let place = Place::new();
        Self { journal: journal(&place).await, place, driver }
    }

    async fn impatient(driver: D) -> Self {
        let place = Place::new();
        let patience = Duration::from_millis(50);
        let options = JournalOptions { patience, ..options(&place) };
        Self { journal: journal_with(&place, options).await, place, driver }
    }
}

#[async_trait]
pub(super) trait Driver: Send + Sync + 'static {
    async fn transact(&self, to: &Through<Self>, steps: &[Deed], ending: Ending) -> Answers
    where
        Self: Sized;
}

impl<D: Driver> JournalHarness for Through<D> {
    type Store = PostgresJournal;

    fn journal(&self) -> &Log {
        &self.journal
    }

    async fn transact(&self, steps: &[Deed], ending: Ending) -> Answers {
        self.driver.transact(self, steps, ending).await
    }
}

/// What an append with a condition is answered while another one is open on its tag.
async fn waited<D: Driver>(to: Through<D>) -> AppendError {
    let mut client = to.place.client().await;
    let mut tx = client.transaction().await.unwrap();
    to.journal.append_in(&mut tx, [fact("a", &["w=1"])], None).await.unwrap();
    let alone = Some(tagged("w=1").none_after(Position::END));
    let append = Append::new(vec![fact("b", &["w=1"])], alone).unwrap();
    to.transact(&[Deed::Append(append)], Ending::RollBack).await.remove(0).unwrap_err()
}

/// Makes the suite for a driver, and the tests that its future can be spawned and that it says when
/// others had what it needed for too long.
macro_rules! suite {
    ($driver:expr, busy: $busy:pat) => {
        sendoff_testkit::journal_suite!(transactions: Through::open($driver).await);
        sendoff_testkit::journal_suite!(snapshots: Through::open($driver).await);

        #[tokio::test]
        async fn an_append_in_a_spawned_task_is_one_like_any_other() {
            let through = Through::open($driver).await;
            let (through, answers) = tokio::spawn(async move {
                let append = Append::new(vec![fact("a", &["w=1"])], None).unwrap();
                let answers = through.transact(&[Deed::Append(append)], Ending::Commit).await;
                (through, answers)
            })
            .await
            .unwrap();
            assert!(answers[0].is_ok());
            assert_eq!(through.journal.head().await.unwrap().get(), 1);
        }

        #[tokio::test]
        async fn whoever_waits_too_long_is_told_so() {
            let answer = waited(Through::impatient($driver).await).await;
            assert!(matches!(answer, $busy), "{answer:?}");
        }
    };
}

/// Holds J1.
pub(super) mod tokio_postgres {
    use super::*;

    pub(in super::super) struct Own;

    #[async_trait]
    impl Driver for Own {
        async fn transact(&self, to: &Through<Self>, steps: &[Deed], ending: Ending) -> Answers {
            let mut client = to.place.client().await;
            let mut tx = client.transaction().await.unwrap();
            carry_out!(steps, ending, to.journal.store(), tx, |sql| tx.batch_execute(sql))
        }
    }

    suite!(Own, busy: AppendError::Busy(_));
}

/// Holds J1, for each version of sqlx.
macro_rules! through_sqlx {
    ($module:ident, $driver:ident) => {
        mod $module {
            use ::$driver::{Connection, Executor, PgConnection};

            use super::*;

            struct Sqlx;

            #[async_trait]
            impl Driver for Sqlx {
                async fn transact(&self, to: &Through<Self>, steps: &[Deed], ending: Ending) -> Answers {
                    let mut conn = PgConnection::connect(&to.place.url).await.unwrap();
                    let mut tx = conn.begin().await.unwrap();
                    carry_out!(steps, ending, to.journal.store(), tx, |sql| tx.execute(*sql))
                }
            }

            suite!(Sqlx, busy: AppendError::Busy(_));

            /// Whoever began it: sqlx's own count sees neither a BEGIN nor a COMMIT sent as text.
            #[tokio::test]
            async fn without_a_transaction_nothing_is_appended() {
                let through = Through::open(Sqlx).await;
                let mut conn = PgConnection::connect(&through.place.url).await.unwrap();
                let journal = &through.journal;
                let answer = journal.append_in(&mut conn, [fact("a", &[])], None).await;
                assert!(matches!(answer, Err(AppendError::NoTransaction)), "{answer:?}");
                conn.execute("begin").await.unwrap();
                journal.append_in(&mut conn, [fact("a", &[])], None).await.unwrap();
                conn.execute("commit").await.unwrap();
                let answer = journal.append_in(&mut conn, [fact("a", &[])], None).await;
                assert!(matches!(answer, Err(AppendError::NoTransaction)), "{answer:?}");
                assert_eq!(through.place.number("select count(*) from journal_event").await, 1);
            }
        }
    };
}

#[cfg(feature = "sqlx-08")]
through_sqlx!(sqlx_08, sqlx_08);
#[cfg(feature = "sqlx")]
through_sqlx!(sqlx_09, sqlx);

/// Holds J1.
#[cfg(feature = "sea-orm")]
mod sea_orm {
    use ::sea_orm::{ConnectionTrait, Database, TransactionTrait};

    use super::*;

    struct SeaOrm;

    #[async_trait]
    impl Driver for SeaOrm {
        async fn transact(&self, to: &Through<Self>, steps: &[Deed], ending: Ending) -> Answers {
            let db = Database::connect(&to.place.url).await.unwrap();
            let mut tx = db.begin().await.unwrap();
            let answers =
                carry_out!(steps, to.journal.store(), tx, |sql| tx.execute_unprepared(sql));
            match ending {
                Ending::Commit => tx.commit().await.unwrap(),
                Ending::RollBack => tx.rollback().await.unwrap(),
            }
            answers
        }
    }

    suite!(SeaOrm, busy: AppendError::Busy(_));
}

/// Holds J1.
#[cfg(feature = "diesel-async")]
mod diesel_async {
    use ::diesel_async::{AsyncConnection, AsyncPgConnection, SimpleAsyncConnection};

    use super::*;

    struct Diesel;

    #[async_trait]
    impl Driver for Diesel {
        async fn transact(&self, to: &Through<Self>, steps: &[Deed], ending: Ending) -> Answers {
            let mut conn = AsyncPgConnection::establish(&to.place.url).await.unwrap();
            conn.batch_execute("begin").await.unwrap();
            let answers =
                carry_out!(steps, to.journal.store(), conn, |sql| conn.batch_execute(sql));
            let end = if ending == Ending::Commit { "commit" } else { "rollback" };
            conn.batch_execute(end).await.unwrap();
            answers
        }
    }

    // A known limit: diesel does not pass the server's code on.
    suite!(Diesel, busy: AppendError::Store(_));

    #[tokio::test]
    async fn without_a_transaction_nothing_is_appended() {
        let through = Through::open(Diesel).await;
        let mut conn = AsyncPgConnection::establish(&through.place.url).await.unwrap();
        let answer = through.journal.append_in(&mut conn, [fact("a", &[])], None).await;
        assert!(matches!(answer, Err(AppendError::NoTransaction)), "{answer:?}");
        assert_eq!(through.place.number("select count(*) from journal_event").await, 0);
        conn.transaction(async |conn| {
            through.journal.append_in(conn, [fact("a", &[])], None).await.unwrap();
            Ok::<_, ::diesel::result::Error>(())
        })
        .await
        .unwrap();
        assert_eq!(through.place.number("select count(*) from journal_event").await, 1);
    }
}
