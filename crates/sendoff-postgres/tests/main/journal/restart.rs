//! Servers that go down, come back, and are not what they were.

use std::process::Command;
use std::time::Duration;

use sendoff_core::BoxError;
use sendoff_core::journal::{Position, Unsafe};
use sendoff_engine::journal::{AppendError, Conflict, Journal, TailError, fold};
use sendoff_postgres::{JournalOptions, PostgresJournal};
use sendoff_testkit::journal::Latch;
use sendoff_testkit::wait::{answer, within};
use tokio::time::timeout;
use tokio_postgres::Client;

use super::publish::{builder, everything, often, stored};
use super::{Gid, Log, QUICK, fact, position, positions, settled, tagged, tail};
use crate::place::{Place, connect};
use crate::server::Server;

/// `None` where there is no server to start; a test fails for that in CI only.
pub(crate) fn server(settings: &[&str]) -> Option<(Server, Place)> {
    let server = Server::start_with(|_| settings.iter().map(|&text| text.to_owned()).collect())?;
    let place = Place::in_schema(server.url(), "public".to_owned());
    Some((server, place))
}

pub(crate) async fn journal(server: &Server) -> Log {
    let store = PostgresJournal::connect_with(&server.url(), JournalOptions::default()).await;
    let store = store.unwrap();
    store.migrate().await.unwrap();
    Journal::new(store)
}

/// Holds J6: its locks are there again, under another name, and so is what it holds back.
#[tokio::test]
async fn a_prepared_append_survives_a_restart_and_is_still_waited_for() {
    let Some((mut server, place)) = server(&["max_prepared_transactions=4"]) else { return };
    let journal = journal(&server).await;
    let gid = Gid::new(&place);
    let mut client = connect(&server.url()).await.unwrap();
    client.batch_execute("begin").await.unwrap();
    journal.append_in(&mut client, [fact("prepared", &[])], None).await.unwrap();
    gid.prepare(&client).await;
    journal.append([fact("second", &[])]).await.unwrap();
    let mut reader = tail(&journal).await;
    assert_eq!(settled(&mut reader).await.1.waits_for.len(), 1);

    server.kill();
    server.up();
    let gone = reader.look().await.map(|_| ());
    assert!(matches!(gone, Err(TailError::Store(_))), "{gone:?}");
    // The store's connections mend themselves.
    let mut reader = loop {
        if let Ok(reader) = journal.tail(Position::START, QUICK).await {
            break reader;
        }
    };
    for _ in 0..10 {
        assert!(positions(&reader.look().await.unwrap()).is_empty());
    }
    let holders = loop {
        if let Ok(holders) = journal.holders().await {
            break holders;
        }
    };
    assert_eq!(holders.len(), 1);
    assert_eq!(holders[0].gid.as_deref(), Some(gid.name()));
    let client = connect(&server.url()).await.unwrap();
    gid.commit(&client).await;
    assert_eq!(settled(&mut reader).await.0, [1, 2]);
    std::mem::forget(place);
}

/// A commit waits for nothing, and nothing is written that need not be.
pub(crate) const FORGETFUL: [&str; 3] =
    ["synchronous_commit=off", "wal_buffers=16MB", "bgwriter_lru_maxpages=0"];

/// What was committed until now is safe; what is committed from now on is lost with the server.
pub(crate) async fn stop_writing_the_log(client: &Client) {
    client.batch_execute("checkpoint").await.unwrap();
    let walwriter = "select pid from pg_stat_activity where backend_type = 'walwriter'";
    let walwriter: i32 = client.query_one(walwriter, &[]).await.unwrap().get(0);
    let tell = |signal: &str| {
        let told = Command::new("kill").args([signal, walwriter.to_string().as_str()]).status();
        assert!(told.unwrap().success());
    };
    // One that is stopped while it writes has the log locked, and nobody could commit any more. Only a commit that
    // waits for the disk shows it: by a setting of its own transaction, and of something that is written.
    let commit = "begin; set local synchronous_commit = on;
                  select pg_logical_emit_message(true, 'sendoff', 'safe'); commit";
    // Told to stop is not stopped: a busy machine may let it begin to write first.
    let stat = format!("/proc/{walwriter}/stat");
    let is_stopped = async || {
        let stat = std::fs::read_to_string(&stat).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|state| state.starts_with('T'))
    };
    loop {
        tell("-STOP");
        within(Duration::from_secs(60), "the log's writer to stop", &is_stopped).await;
        let mut committed = std::pin::pin!(client.batch_execute(commit));
        if timeout(Duration::from_secs(1), &mut committed).await.is_ok() {
            return;
        }
        tell("-CONT");
        committed.await.unwrap();
    }
}

/// Facts that are gone after a crash: not appended by the library, which makes them durable.
async fn lose(client: &Client) {
    // More than the sequence writes ahead.
    for _ in 0..60 {
        let lost = "insert into journal_event (event_id, event_type, tags, content_type, occurred_at,
                    recorded_at, payload)
                    values (gen_random_uuid(), 'lost', '{}', 'application/json', now(), now(), '{}')";
        client.batch_execute(lost).await.unwrap();
    }
}

/// Holds J6: a server that lost its last commits gives their positions again. Whoever goes on from
/// the position that is stored with them loses nothing, and who goes on from memory is refused.
#[tokio::test]
async fn positions_that_went_back_with_a_crash_hide_no_fact() {
    let Some((mut server, place)) = server(&FORGETFUL) else { return };
    let journal = journal(&server).await;
    journal.append([fact("durable", &[])]).await.unwrap();
    let client = connect(&server.url()).await.unwrap();
    let stored =
        "insert into journal_cursor (topic, publisher, last_position) values ('t', 'p', 1)";
    client.batch_execute(stored).await.unwrap();
    stop_writing_the_log(&client).await;
    lose(&client).await;
    let mut reader = tail(&journal).await;
    let (passed, _) = settled(&mut reader).await;
    assert_eq!(passed.len(), 61);
    let at = reader.at();
    let moved = format!("update journal_cursor set last_position = {at}");
    client.batch_execute(&moved).await.unwrap();

    server.kill();
    server.up();
    let client = connect(&server.url()).await.unwrap();
    let row = client.query_one("select last_position from journal_cursor", &[]).await.unwrap();
    let cursor: i64 = row.get(0);
    let append = async || journal.append([fact("new", &[])]).await.ok();
    let new = answer("an append after the crash", append).await[0].position;
    assert!(new < at, "{new}: the crash took nothing back, and so nothing was tested");

    let stored = Position::try_from(cursor).unwrap();
    let mut reader = journal.tail(stored, QUICK).await.unwrap();
    assert_eq!(settled(&mut reader).await.0, [new.get()]);
    let mut from_memory = journal.tail(at, QUICK).await.unwrap();
    let refused = from_memory.look().await.map(|_| ());
    assert!(matches!(refused, Err(TailError::Unsafe(Unsafe::WentBack { .. }))), "{refused:?}");
    std::mem::forget(place);
}

/// Holds J6 and J8: the same while it is published. What is in memory was lost with the server, and what
/// is recorded at the same positions afterwards is published as well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_recorded_at_positions_that_were_lost_is_published() {
    let Some((mut server, place)) = server(&FORGETFUL) else { return };
    let (journal, latch) = (journal(&server).await, Latch::new("p"));
    let node = builder(&journal).pair_with(&everything(), latch.publisher(), often());
    let node = node.start().await.unwrap();
    journal.append([fact("durable", &[])]).await.unwrap();
    stored(&journal, "p", 1).await;
    let client = connect(&server.url()).await.unwrap();
    stop_writing_the_log(&client).await;
    lose(&client).await;
    stored(&journal, "p", 61).await;
    server.kill();
    server.up();
    let append = async || journal.append([fact("new", &[])]).await.ok();
    let mut new = Vec::new();
    for _ in 0..5 {
        new.push(answer("an append after the crash", append).await[0].position.get());
    }
    assert!(new[4] < 61, "{new:?}: the crash took nothing back, and so nothing was tested");
    stored(&journal, "p", new[4]).await;
    assert!(latch.positions().ends_with(&new), "{new:?} {:?}", latch.positions());
    node.close().await;
    std::mem::forget(place);
}

/// Holds J2: what a decision was read from may be gone with the server, as where another one took its
/// place: it is decided again.
#[tokio::test]
async fn a_decision_of_before_a_restart_is_made_again() {
    let Some((mut server, place)) = server(&[]) else { return };
    let journal = journal(&server).await;
    journal.append([fact("opened", &["w=1"])]).await.unwrap();
    let decided = journal.decide(fold(tagged("w=1"), (), |(), _| Ok(()))).await.unwrap();
    let mut decisions = 0;
    let done = journal
        .execute_locked(
            || fold(tagged("w=1"), (), |(), _| Ok(())),
            |_| {
                decisions += 1;
                if decisions == 1 {
                    server.kill();
                    server.up();
                }
                Ok::<_, BoxError>(vec![fact("withdrawn", &["w=1"])])
            },
        )
        .await;
    assert_eq!((done.unwrap().tries, decisions), (2, 2));
    let answer = journal.append_if([fact("b", &["w=1"])], decided.condition).await;
    let restarted = matches!(answer, Err(AppendError::Conflict(Conflict::Restarted)));
    assert!(restarted, "{answer:?}");
    std::mem::forget(place);
}

/// A standby knows no locks of the primary.
#[tokio::test]
async fn a_standby_is_refused() {
    let Some((primary, place)) = server(&[]) else { return };
    let journal = journal(&primary).await;
    journal.append([fact("a", &[])]).await.unwrap();
    let standby = primary.standby();
    let there = PostgresJournal::connect_with(&standby.url(), JournalOptions::default()).await;
    let there = Journal::new(there.unwrap());
    assert!(there.head().await.unwrap() >= position(1));
    let refused = tail(&there).await.look().await.map(|_| ());
    assert!(matches!(refused, Err(TailError::Unsafe(Unsafe::Standby))), "{refused:?}");
    std::mem::forget(place);
}
