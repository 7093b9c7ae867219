//! Connections to an address that is asked for anew.

use std::sync::{Arc, Mutex};

use sendoff_engine::journal::Journal;
use sendoff_engine::store::{InspectStore, StoreError};
use sendoff_postgres::{Address, PostgresJournal, PostgresStore};
use sendoff_testkit::wait::eventually;

use crate::journal::fact;
use crate::place::{claim, connect, due, event, write};
use crate::server::Server;

/// Holds S10: the password changes on the server, the old one is refused, and the store goes on with the
/// new one; so does a journal.
#[tokio::test]
async fn a_password_may_change_while_a_store_is_in_use() {
    let server = Server::start_with(|folder| {
        let rules =
            "host all postgres 127.0.0.1/32 trust\nhost all app 127.0.0.1/32 scram-sha-256\n";
        let file = folder.join("rules.conf");
        std::fs::write(&file, rules).unwrap();
        vec![format!("hba_file={}", file.display())]
    });
    let Some(server) = server else { return };
    let mut root = connect(&server.url()).await.unwrap();
    root.batch_execute("create role app superuser login password 'first'").await.unwrap();
    let password = Arc::new(Mutex::new("first"));
    let with = |password: &str| server.url().replace("postgres@", &format!("app:{password}@"));
    let address = Address::asked({
        let (password, url) = (Arc::clone(&password), with("secret"));
        move || {
            let url = url.replace("secret", *password.lock().unwrap());
            async move { Ok(url) }
        }
    });
    let store = PostgresStore::connect(&address).await.unwrap();
    store.migrate().await.unwrap();
    let journal = PostgresJournal::connect(&address).await.unwrap();
    journal.migrate().await.unwrap();
    let journal = Journal::new(journal);
    write(&store, &mut root, &[due(event())]).await;
    let fixed = PostgresStore::connect(with("first")).await.unwrap();

    root.batch_execute(
        "alter role app password 'second';
         select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = 'app'",
    )
    .await
    .unwrap();
    // Until it is told, it fails like a store whose server is away.
    let away = store.counts().await.unwrap_err();
    assert!(matches!(away, StoreError::Unavailable(_)), "{away:?}");
    *password.lock().unwrap() = "second";
    eventually("the store goes on", async || store.counts().await.is_ok()).await;
    assert_eq!(claim(&store, "a").await.len(), 1);
    eventually("the journal goes on", async || journal.append([fact("a", &["w=1"])]).await.is_ok())
        .await;
    let refused = fixed.counts().await.unwrap_err();
    assert!(
        matches!(refused, StoreError::Misconfigured { .. } | StoreError::Unavailable(_)),
        "{refused:?}"
    );
    assert!(!refused.to_string().contains("first"), "{refused}");
}
