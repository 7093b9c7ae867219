//! The suites of captures, through every driver.

/// What transactions of tokio-postgres, and those of deadpool, which look the same, are to a harness.
macro_rules! own_transactions {
    ($harness:ident, $transaction:ident) => {
        impl<'c> Speaks<$transaction<'c>> for $harness {
            async fn sql(tx: &mut $transaction<'c>, text: &str) -> Result<(), BoxError> {
                Ok(tx.batch_execute(text).await?)
            }
        }

        impl<'c> Owns<$transaction<'c>> for $harness {
            async fn nest<'t>(tx: &'t mut $transaction<'c>, within: Within<'t, Self>) -> Begun<'t> {
                Ok(within.open(tx.transaction().await?))
            }

            async fn commit(tx: $transaction<'c>) -> Result<(), BoxError> {
                Ok(tx.commit().await?)
            }

            async fn rollback(tx: $transaction<'c>) -> Result<(), BoxError> {
                Ok(tx.rollback().await?)
            }
        }
    };
}

mod deadpool;
#[cfg(feature = "diesel-async")]
mod diesel_async;
mod prepared;
#[cfg(feature = "sea-orm")]
mod sea_orm;
#[cfg(feature = "sqlx-08")]
mod sqlx_08;
#[cfg(feature = "sqlx")]
pub(crate) mod sqlx_09;
pub(crate) mod tokio_postgres;

use std::net::SocketAddr;

use sendoff_postgres::{Doorbell, PostgresOptions, PostgresStore, Retention};
use sendoff_testkit::capture::Database;
use sendoff_testkit::durability::Remote;
use sendoff_testkit::proxy::Cut;

use crate::place::{Place, SERVER, port, url_at};

/// COMMIT as tokio-postgres sends it, and as the server answers it; five bytes of header before each.
pub(crate) const COMMIT: &[u8] = b"commit\0";
pub(crate) const COMMITTED: &[u8] = b"COMMIT\0";

/// A schema with an outbox and a table of orders.
pub(crate) struct Orders {
    pub(crate) store: PostgresStore,
    pub(crate) place: Place,
}

impl Orders {
    pub(crate) async fn open() -> Self {
        Self::with(Place::on(SERVER), Doorbell::On).await
    }

    pub(crate) async fn deleting() -> Self {
        let place = Place::on(SERVER);
        let options = PostgresOptions { retention: Retention::DeleteWhenDone, ..place.options() };
        Self::of(place, options).await
    }

    async fn with(place: Place, doorbell: Doorbell) -> Self {
        let options = PostgresOptions { doorbell, ..place.options() };
        Self::of(place, options).await
    }

    async fn of(place: Place, options: PostgresOptions) -> Self {
        let store = place.store_with(options).await;
        let table = "create table if not exists orders
                         (id int primary key, parent int references orders deferrable initially deferred)";
        place.run(table).await;
        Self { store, place }
    }
}

impl Database for Orders {
    type Store = PostgresStore;

    const ERRORS_END_TRANSACTIONS: bool = true;
    const ODD_SETTINGS: &'static [&'static str] = &[
        "set datestyle = 'German, DMY'",
        "set intervalstyle = 'sql_standard'",
        "set timezone = 'Asia/Kathmandu'",
        "set bytea_output = 'escape'",
        "set standard_conforming_strings = off",
        "set default_transaction_isolation = 'serializable'",
        "set search_path = ''",
    ];
    const TIMES: &'static [i64] =
        &[-210_866_803_200_000_000, i64::MAX - 1, 253_402_300_800_000_000];

    fn store(&self) -> PostgresStore {
        self.store.clone()
    }

    fn orders_table(&self) -> String {
        format!("{}.orders", self.place.schema)
    }

    async fn orders(&self) -> Option<Vec<i64>> {
        let ids = format!("select id::bigint from {} order by id", self.orders_table());
        let rows = self.place.client().await.query(&ids, &[]).await.unwrap();
        Some(rows.iter().map(|row| row.get(0)).collect())
    }

    async fn close(store: &PostgresStore) {
        store.close().await;
    }
}

impl Remote for Orders {
    const REPLY_LOST: Cut = Cut::Reply { text: COMMITTED, before: 5 };
    const REQUEST_LOST: Cut = Cut::Request { text: COMMIT, before: 5, reply: b"INSERT 0 1" };

    fn server(&self) -> SocketAddr {
        port(&self.place.url)
    }

    fn url_at(&self, address: SocketAddr) -> String {
        url_at(&self.place.url, address)
    }
}
