//! Servers that go down and come back.

use sendoff_core::journal::Position;
use sendoff_engine::journal::{Journal, TailError};
use sendoff_mysql::MysqlJournal;
use sendoff_testkit::wait::answer;

use super::{Log, QUICK, fact, run, settled, tail};
use crate::place::{connect, try_connect};
use crate::server::Server;

pub(crate) async fn started() -> Option<(Server, String, Log)> {
    started_with(&[]).await
}

pub(crate) async fn started_with(
    options: &'static [&'static str],
) -> Option<(Server, String, Log)> {
    let server = Server::start(options)?;
    run(&mut connect(&server.url()).await, "create database j").await;
    let url = server.url().replace("/mysql", "/j");
    let store = MysqlJournal::connect(&url).await.unwrap();
    store.migrate().await.unwrap();
    Some((server, url, Journal::new(store)))
}

/// Holds J6: an append that was open when the server was killed is never there, and holds nobody back.
#[tokio::test]
async fn an_append_that_was_open_at_a_crash_is_passed() {
    let Some((mut server, url, journal)) = started().await else { return };
    journal.append([fact("first", &[])]).await.unwrap();
    let mut open = connect(&url).await;
    run(&mut open, "begin").await;
    journal.append_in(&mut open, [fact("lost", &[])], None).await.unwrap();
    journal.append([fact("third", &[])]).await.unwrap();
    let mut reader = tail(&journal).await;
    assert_eq!(settled(&mut reader).await.0, [1]);

    server.kill();
    server.up();
    let gone = reader.look().await.map(|_| ());
    assert!(matches!(gone, Err(TailError::Store(_))), "{gone:?}");
    let opened = async || journal.tail(Position::START, QUICK).await.ok();
    let mut reader = answer("a tail after the crash", opened).await;
    assert_eq!(settled(&mut reader).await.0, [1, 3]);
    let append = async || journal.append([fact("next", &[])]).await.ok();
    let next = answer("an append after the crash", append).await[0].position;
    assert_eq!(settled(&mut reader).await.0, [next.get()]);
}

/// Holds J6: what was prepared is there again after a crash, and is waited for.
#[tokio::test]
async fn a_prepared_append_survives_a_crash_and_is_still_waited_for() {
    let Some((mut server, url, journal)) = started().await else { return };
    let mut prepared = connect(&url).await;
    run(&mut prepared, "xa start 'x'").await;
    journal.append_in(&mut prepared, [fact("prepared", &[])], None).await.unwrap();
    run(&mut prepared, "xa end 'x'; xa prepare 'x'").await;
    journal.append([fact("second", &[])]).await.unwrap();

    server.kill();
    server.up();
    let opened = async || journal.tail(Position::START, QUICK).await.ok();
    let mut reader = answer("a tail after the crash", opened).await;
    let (passed, batch) = settled(&mut reader).await;
    assert!(passed.is_empty() && batch.gap.is_some(), "{batch:?}");
    let mut conn = try_connect(&url).await.unwrap();
    run(&mut conn, "xa commit 'x'").await;
    assert_eq!(settled(&mut reader).await.0, [1, 2]);
}
