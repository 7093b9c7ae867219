//! The suites of captures, through every driver.

mod rusqlite;
#[cfg(feature = "sqlx")]
mod sqlx;

use ::rusqlite::Connection;
use sendoff_sqlite::SqliteStore;
use sendoff_testkit::capture::Database;
use tempfile::TempDir;

/// A file by the host's clock, with an outbox and a table of orders.
struct Orders {
    store: SqliteStore,
    // Deletes the file when the test is over.
    _folder: TempDir,
}

impl Orders {
    async fn open() -> Self {
        let folder = TempDir::new().unwrap();
        let store = SqliteStore::open(folder.path().join("shop.db")).await.unwrap();
        let orders = "create table orders (id integer primary key, parent integer references orders
                          deferrable initially deferred)";
        store.connect().unwrap().execute_batch(orders).unwrap();
        Self { store, _folder: folder }
    }

    fn connect(&self) -> Connection {
        self.store.connect().unwrap()
    }
}

impl Database for Orders {
    type Store = SqliteStore;

    const WRITERS_WAIT: bool = true;

    const CANNOT: &'static [(&'static str, &'static str)] = &[(
        "a_write_does_not_depend_on_the_state_of_the_session",
        "a session has no settings that change values",
    )];

    fn store(&self) -> SqliteStore {
        self.store.clone()
    }

    async fn orders(&self) -> Option<Vec<i64>> {
        let conn = self.connect();
        let mut orders = conn.prepare("select id from orders order by id").unwrap();
        let ids = orders.query_map([], |row| row.get(0)).unwrap();
        Some(ids.collect::<Result<_, _>>().unwrap())
    }

    async fn close(store: &SqliteStore) {
        store.close().await;
    }
}
