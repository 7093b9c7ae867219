//! Connections to an address that is asked for anew.

use std::sync::{Arc, Mutex};

use mysql_async::prelude::Queryable;
use sendoff_engine::journal::Journal;
use sendoff_engine::store::{InspectStore, StoreError};
use sendoff_mysql::{Address, MysqlJournal, MysqlStore};
use sendoff_testkit::wait::eventually;

use crate::journal::fact;
use crate::place::{MARIADB, MYSQL, Place, claim, due, event, write};

/// Holds S10: the password changes on the server, the old one is refused, and the store goes on with the
/// new one, with the limits that our sessions have (I10); so does a journal.
#[tokio::test]
async fn a_password_may_change_while_a_store_is_in_use() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let user = format!("u{}", &place.database[place.database.len() - 20..]);
        let mut root = place.conn().await;
        for text in [
            format!("create user '{user}'@'%' identified by 'first'"),
            format!("grant all on {}.* to '{user}'@'%'", place.database),
        ] {
            root.query_drop(text).await.unwrap();
        }
        let url = Arc::new(Mutex::new(place.url.replace("root@", &format!("{user}:first@"))));
        let address = Address::asked({
            let url = Arc::clone(&url);
            move || {
                let url = url.lock().unwrap().clone();
                async move { Ok(url) }
            }
        });
        let store = MysqlStore::connect(&address).await.unwrap();
        store.migrate().await.unwrap();
        let journal = MysqlJournal::connect(&address).await.unwrap();
        journal.migrate().await.unwrap();
        let journal = Journal::new(journal);
        write(&store, &mut root, &[due(event())]).await;
        let old = url.lock().unwrap().clone();
        let fixed = MysqlStore::connect(&old).await.unwrap();

        root.query_drop(format!("alter user '{user}'@'%' identified by 'second'")).await.unwrap();
        let of_user =
            format!("select id from information_schema.processlist where user = '{user}'");
        let sessions: Vec<u64> = root.query(&of_user).await.unwrap();
        for session in sessions {
            root.query_drop(format!("kill {session}")).await.unwrap();
        }
        // Until it is told, it fails like a store whose server is away.
        eventually("the old password is refused", async || {
            matches!(store.counts().await, Err(StoreError::Unavailable(_)))
        })
        .await;
        *url.lock().unwrap() = old.replace(":first@", ":second@");
        eventually("the store goes on", async || store.counts().await.is_ok()).await;
        assert_eq!(claim(&store, "a").await.len(), 1);
        eventually("the journal goes on", async || {
            journal.append([fact("a", &["w=1"])]).await.is_ok()
        })
        .await;
        let refused = fixed.counts().await.unwrap_err();
        assert!(!matches!(refused, StoreError::Closed), "{refused:?}");

        *url.lock().unwrap() = old.replace(":first@", ":second@").replace(&place.database, "mysql");
        let sessions: Vec<u64> = root.query(&of_user).await.unwrap();
        for session in sessions {
            root.query_drop(format!("kill {session}")).await.unwrap();
        }
        eventually("another database is refused", async || {
            matches!(store.counts().await, Err(StoreError::Misconfigured { .. }))
        })
        .await;
        store.close().await;
        root.query_drop(format!("drop user '{user}'@'%'")).await.unwrap();
    }
}
