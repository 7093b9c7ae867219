//! Events enter here, inside a transaction of the application's.
//!
//! The drivers' modules live beside their store and not in a crate of adapters: a trait of the
//! engine's can only be implemented for a driver's type where one of the two, or the store, is local.

pub(crate) mod rusqlite;
#[cfg(feature = "sqlx")]
pub(crate) mod sqlx;

/// Rows in one statement: 896 variables, fewer than any build of SQLite allows.
const ROWS_PER_STATEMENT: usize = 64;

/// Around an insert that needs more than one statement: all of its rows or none.
const SAVEPOINT: &str = "savepoint sendoff_insert";
const RELEASE: &str = "release sendoff_insert";
const ROLL_BACK: &str = "rollback to sendoff_insert; release sendoff_insert";

#[cfg(test)]
mod tests {
    use ::rusqlite::Connection;
    use sendoff_core::Event;
    use sendoff_engine::Outbox;
    use tempfile::TempDir;

    use crate::SqliteStore;

    async fn store() -> (TempDir, SqliteStore) {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(dir.path().join("outbox.db")).await.unwrap();
        (dir, store)
    }

    fn write(store: &SqliteStore, conn: &mut Connection) {
        let tx = conn.transaction().unwrap();
        let event = Event::json("t", &1).unwrap();
        drop(Outbox::writer_only(store.clone()).write_blocking(&tx, event).unwrap());
        tx.commit().unwrap();
    }

    /// Holds I13: who writes events through a connection that does not wait for the disk is told once.
    #[tokio::test]
    async fn an_event_on_a_connection_that_does_not_wait_for_the_disk_is_warned_of_once() {
        let (_dir, store) = store().await;
        let mut conn = store.connect().unwrap();
        write(&store, &mut conn);
        assert!(store.durability().asks(), "that one waits");
        conn.execute_batch("pragma synchronous = off").unwrap();
        write(&store, &mut conn);
        assert!(!store.durability().asks(), "warned, and not a second time");
        write(&store, &mut conn);
    }

    /// Holds I13: so is who makes an effect through one, and says for good that it was made.
    #[tokio::test]
    async fn an_inbox_on_a_connection_that_does_not_wait_for_the_disk_is_warned_of_once() {
        let (_dir, store) = store().await;
        let inbox = sendoff_engine::Inbox::new(store.clone());
        let mut conn = store.connect().unwrap();
        conn.execute_batch("pragma synchronous = off").unwrap();
        let tx = conn.transaction().unwrap();
        assert!(inbox.once_blocking(&tx, "billing", sendoff_core::EventId::generate()).unwrap());
        assert!(!store.durability().asks());
    }

    /// Holds I13, W9: the store's own connection, which does not wait for the disk otherwise.
    #[tokio::test]
    async fn an_event_that_is_sent_by_itself_waits_for_the_disk() {
        let (_dir, store) = store().await;
        let outbox = Outbox::writer_only(store.clone());
        outbox.send(Event::json("t", &1).unwrap()).await.unwrap();
        assert!(store.durability().asks(), "nobody need be warned");
        let synchronous = |conn: &mut Connection| {
            Ok(conn.query_row("pragma synchronous", [], |row| row.get::<_, i64>(0)).unwrap())
        };
        assert_eq!(store.call(synchronous).await.unwrap(), 1, "what follows it need not wait");
    }

    /// Holds I13.
    #[cfg(feature = "sqlx")]
    #[tokio::test]
    async fn so_is_one_on_a_connection_of_sqlx() {
        use ::sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqliteSynchronous};

        let (_dir, store) = store().await;
        for (synchronous, asks) in
            [(SqliteSynchronous::Full, true), (SqliteSynchronous::Off, false)]
        {
            let options =
                SqliteConnectOptions::new().filename(store.path()).synchronous(synchronous);
            let pool = SqlitePool::connect_with(options).await.unwrap();
            let mut tx = pool.begin().await.unwrap();
            let event = Event::json("t", &1).unwrap();
            drop(Outbox::writer_only(store.clone()).write(&mut tx, event).await.unwrap());
            tx.commit().await.unwrap();
            assert_eq!(store.durability().asks(), asks);
        }
    }
}
