//! Servers that go down and come back.

use sendoff_core::journal::{Condition, Position};
use sendoff_engine::journal::{AppendError, Conflict, ExecuteError, Journal, Receipt, TailError};
use sendoff_mysql::MysqlJournal;
use sendoff_testkit::wait::answer;

use super::{Log, QUICK, count, fact, run, settled, tagged, tail};
use crate::durable::{NOT_BY_AND_BY, commits_are_seen_early};
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

/// A journal in which an account was opened, which a crash will take back.
async fn opened_and_soon_gone() -> Option<(Server, Log)> {
    let (server, url, journal) = started_with(NOT_BY_AND_BY).await?;
    journal.append([fact("first", &[])]).await.unwrap();
    commits_are_seen_early(&mut connect(&url).await).await;
    journal.append([fact("opened", &["w=1"])]).await.unwrap();
    Some((server, journal))
}

/// What the append is answered once the server is back.
async fn answered(journal: &Log, condition: Condition) -> Result<Vec<Receipt>, AppendError> {
    let withdrawn = fact("withdrawn", &["w=1"]);
    let append = async || match journal.append_if([withdrawn.clone()], condition.clone()).await {
        Err(AppendError::Store(_)) => None,
        answer => Some(answer),
    };
    answer("an append after the crash", append).await
}

/// A server may write everything down all the same before it crashes, for reasons of its own. Then nothing was tested,
/// and it is tried again.
const TRIES: usize = 5;
const NOTHING_TESTED: &str = "no crash took anything back, and so nothing was tested";

/// Holds J2: a server that crashed took back what a decision had seen: it does not count any more.
#[tokio::test]
async fn a_decision_rests_on_nothing_that_a_crash_took_back() {
    for _ in 0..TRIES {
        let Some((mut server, journal)) = opened_and_soon_gone().await else { return };
        let decided = journal.decide(count(tagged("w=1"))).await.unwrap();
        assert_eq!(decided.model.state, 1);
        server.kill();
        server.up();
        let answer = answered(&journal, decided.condition).await;
        let restarted = matches!(answer, Err(AppendError::Conflict(Conflict::Restarted)));
        assert!(restarted, "{answer:?}");
        let decided = journal.decide(count(tagged("w=1"))).await.unwrap();
        if decided.model.state == 0 {
            answered(&journal, decided.condition).await.unwrap();
            return;
        }
    }
    panic!("{NOTHING_TESTED}");
}

/// The same of one under locks, whose append met the crash: it is decided again.
#[tokio::test]
async fn a_locked_decision_rests_on_nothing_that_a_crash_took_back() {
    for _ in 0..TRIES {
        let Some((mut server, journal)) = opened_and_soon_gone().await else { return };
        let mut seen = Vec::new();
        let done = journal
            .execute_locked(
                || count(tagged("w=1")),
                |opened| {
                    seen.push(opened.state);
                    if seen.len() > 1 {
                        return Err("decided again");
                    }
                    server.kill();
                    server.up();
                    Ok(vec![fact("withdrawn", &["w=1"])])
                },
            )
            .await;
        assert!(matches!(done, Err(ExecuteError::Handler(_))), "{done:?}");
        if seen == [1, 0] {
            return;
        }
        assert_eq!(seen, [1, 1]);
    }
    panic!("{NOTHING_TESTED}");
}
