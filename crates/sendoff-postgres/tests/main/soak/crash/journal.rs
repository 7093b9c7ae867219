//! Facts that were published, after crashes of the server.

use std::collections::BTreeMap;

use sendoff_core::journal::Position;
use sendoff_testkit::journal::Latch;
use sendoff_testkit::soak;
use sendoff_testkit::wait::eventually;
use tokio_postgres::Client;

use crate::journal::publish::{builder, everything, often};
use crate::journal::restart::{FORGETFUL, journal, server, stop_writing_the_log};
use crate::journal::{Log, fact};
use crate::place::connect;

/// I13: a fact that was published is there after a crash, at its position, however it was appended and
/// although its session said that a commit need not wait for the disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fact_that_was_published_is_there_after_a_crash() {
    let Some((mut server, place)) = server(&FORGETFUL) else { return };
    for round in 0..soak::rounds(3) {
        let (journal, latch) = (journal(&server).await, Latch::new(format!("p{round}")));
        let node = builder(&journal).pair_with(&everything(), latch.publisher(), often());
        let node = node.start().await.unwrap();
        let mut client = connect(&server.url()).await.unwrap();
        stop_writing_the_log(&client).await;
        let appended = append(&journal, &mut client, round).await;
        let published = async || {
            let positions = latch.distinct();
            appended.keys().all(|at| positions.contains(&Position::try_from(*at).unwrap()))
        };
        eventually("it is published", published).await;
        server.kill();
        server.up();
        node.close().await;
        let client = connect(&server.url()).await.unwrap();
        for (position, id) in &appended {
            let there =
                "select count(*) from journal_event where position = $1 and event_id::text = $2";
            let there: i64 = client.query_one(there, &[position, id]).await.unwrap().get(0);
            assert_eq!(there, 1, "round {round}: {position} was published, and is gone");
        }
    }
    std::mem::forget(place);
}

/// In each round in another way, so that nothing else makes it durable: in a transaction of the
/// application's, one fact, several at once.
async fn append(journal: &Log, client: &mut Client, round: u32) -> BTreeMap<i64, String> {
    let facts = match round % 3 {
        2 => vec![fact("first", &[]), fact("second", &["w=1"])],
        _ => vec![fact("alone", &["w=1"])],
    };
    let receipts = if round.is_multiple_of(3) {
        client.batch_execute("set synchronous_commit = off; begin").await.unwrap();
        let receipts = journal.append_in(client, facts.clone(), None).await.unwrap();
        client.batch_execute("commit").await.unwrap();
        receipts
    } else {
        let mut tries = 0;
        loop {
            // A server that was killed a moment ago may be slow; the same facts are appended once.
            match journal.append(facts.clone()).await {
                Ok(receipts) => break receipts,
                Err(_) if tries < 5 => tries += 1,
                Err(error) => panic!("{error}"),
            }
        }
    };
    let positions = receipts.iter().map(|receipt| receipt.position.into());
    positions.zip(facts.iter().map(|fact| fact.id().to_string())).collect()
}
