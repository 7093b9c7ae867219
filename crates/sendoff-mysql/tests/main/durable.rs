//! I13: whatever left is there after a crash of the server.
//!
//! InnoDB shows a commit to others a moment before its log is on the disk. Here that moment lasts until
//! the server is killed: it does not write its log for others' commits, nor by and by.

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, TxOpts};
use sendoff_core::EventId;
use sendoff_core::journal::Position;
use sendoff_engine::Inbox;
use sendoff_engine::store::{Lock, LockStore};

use crate::journal::restart::started_with;
use crate::journal::{QUICK, fact, positions, run};
use crate::place::{Place, claim, connect, due, event, write};
use crate::server::Server;

/// As seldom as the server can be told to.
pub(crate) const NOT_BY_AND_BY: &[&str] = &["--innodb-flush-log-at-timeout=2700"];

/// What is committed meanwhile can be seen, and is not on the disk.
pub(crate) async fn commits_are_seen_early(conn: &mut Conn) {
    run(conn, "set global innodb_flush_log_at_trx_commit = 0").await;
}

async fn commits_are_durable(conn: &mut Conn) {
    run(conn, "set global innodb_flush_log_at_trx_commit = 1").await;
}

/// In either claim mode.
#[tokio::test]
async fn an_event_that_was_delivered_is_there_after_a_crash() {
    for locked in [true, false] {
        let Some(mut server) = Server::start(NOT_BY_AND_BY) else { return };
        let place = Place::at(server.url()).await;
        let store = place.store().await;
        let mut root = connect(&server.url()).await;
        commits_are_seen_early(&mut root).await;
        let written = due(event());
        write(&store, &mut place.conn().await, std::slice::from_ref(&written)).await;
        commits_are_durable(&mut root).await;
        let taken: Vec<EventId> = if locked {
            let mut batch = store.lock(&Lock::new(10)).await.unwrap().unwrap();
            batch.take().iter().map(|row| row.id).collect()
        } else {
            claim(&store, "a").await.iter().map(|row| row.id).collect()
        };
        assert_eq!(taken, [written.event.id()]);
        server.kill();
        server.up();
        assert_eq!(place.rows().await, 1, "locked: {locked}: delivered, and gone");
    }
}

/// Whoever hears that the effect was made before acknowledges the message, and nobody makes it again.
#[tokio::test]
async fn what_an_inbox_says_was_seen_is_there_after_a_crash() {
    let Some(mut server) = Server::start(NOT_BY_AND_BY) else { return };
    let place = Place::at(server.url()).await;
    let inbox = Inbox::new(place.store().await);
    let mut root = connect(&server.url()).await;
    let (id, mut conn) = (EventId::generate(), place.conn().await);
    let seen = async |conn: &mut Conn| {
        let mut tx = conn.start_transaction(TxOpts::default()).await.unwrap();
        let seen = inbox.once(&mut tx, "billing", id).await.unwrap();
        tx.commit().await.unwrap();
        seen
    };
    commits_are_seen_early(&mut root).await;
    assert!(seen(&mut conn).await);
    commits_are_durable(&mut root).await;
    assert!(!seen(&mut conn).await);
    server.kill();
    server.up();
    let there = "select count(*) from inbox_event";
    let there: Option<i64> = place.conn().await.query_first(there).await.unwrap();
    assert_eq!(there, Some(1), "made before, and gone");
}

/// Else its position would be another's.
#[tokio::test]
async fn a_fact_that_was_published_is_there_after_a_crash() {
    let Some((mut server, url, journal)) = started_with(NOT_BY_AND_BY).await else { return };
    let mut root = connect(&server.url()).await;
    let mut reader = journal.tail(Position::START, QUICK).await.unwrap();
    commits_are_seen_early(&mut root).await;
    let appended = journal.append([fact("a", &["w=1"]), fact("b", &[])]).await.unwrap();
    commits_are_durable(&mut root).await;
    let read = reader.next().await.unwrap();
    assert_eq!(positions(&read).len(), appended.len());
    server.kill();
    server.up();
    let there = "select count(*) from journal_event where event_id is not null";
    let there: Option<i64> = connect(&url).await.query_first(there).await.unwrap();
    assert_eq!(there, Some(2), "published, and gone");
}
