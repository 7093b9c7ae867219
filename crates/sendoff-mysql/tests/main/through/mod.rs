//! The suites of captures, through every driver.

pub(crate) mod mysql_async;
#[cfg(feature = "sea-orm")]
mod sea_orm;
#[cfg(feature = "sqlx-08")]
mod sqlx_08;
#[cfg(feature = "sqlx")]
mod sqlx_09;

use std::net::SocketAddr;

use ::mysql_async::prelude::Queryable;
use sendoff_mysql::{MysqlOptions, MysqlStore};
use sendoff_testkit::capture::Database;
use sendoff_testkit::durability::Remote;
use sendoff_testkit::proxy::Cut;

use crate::place::{Place, port, url_at};

/// COMMIT as the drivers send it; five bytes of header before it.
const COMMIT: &[u8] = b"COMMIT";
/// What the server answers: seven bytes, the first of this answer, all is well, autocommit.
const COMMITTED: &[u8] = b"\x07\0\0\x01\0\0\0\x02\0";

/// A database with an outbox and a table of orders.
pub(crate) struct Orders {
    store: MysqlStore,
    pub(crate) place: Place,
}

impl Orders {
    pub(crate) async fn open(server: &str) -> Self {
        Self::with(server, MysqlOptions::default()).await
    }

    pub(crate) async fn with(server: &str, options: MysqlOptions) -> Self {
        let place = Place::on(server).await;
        place.run("create table orders (id int primary key)").await;
        Self { store: place.store_with(options).await, place }
    }
}

impl Database for Orders {
    type Store = MysqlStore;

    const CANNOT: &'static [(&'static str, &'static str)] = &[(
        "a_commit_that_the_database_refuses_was_rolled_back",
        "every constraint is checked by the statement that breaks it",
    )];
    // A change of tables commits what is open, and so ends it too.
    const ENDS_BY_HAND: &'static [&'static str] =
        &["rollback", "commit", "create table if not exists other (id int)"];
    const ODD_SETTINGS: &'static [&'static str] = &[
        "use information_schema",
        "set sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES'",
        "set names latin1",
        "set time_zone = '+09:00'",
        "set character_set_client = binary",
        "set session transaction isolation level serializable",
    ];
    const TIMES: &'static [i64] = &[-30_610_224_000_000_000, 253_402_300_799_999_999];

    fn store(&self) -> MysqlStore {
        self.store.clone()
    }

    async fn orders(&self) -> Option<Vec<i64>> {
        let ids = "select id from orders order by id";
        Some(self.place.conn().await.query(ids).await.unwrap())
    }

    async fn close(store: &MysqlStore) {
        store.close().await;
    }
}

impl Remote for Orders {
    const REPLY_LOST: Cut = Cut::AllReplies { text: COMMIT, answer: COMMITTED };
    const REQUEST_LOST: Cut = Cut::Request { text: COMMIT, before: 5, reply: b"" };

    fn server(&self) -> SocketAddr {
        port(&self.place.url)
    }

    fn url_at(&self, address: SocketAddr) -> String {
        url_at(&self.place.url, address)
    }
}
