//! Of appends that exclude one another one succeeds.

use std::sync::Arc;

use sendoff_core::journal::Query;
use sendoff_engine::journal::{AppendError, fold};
use tokio::sync::Barrier;

use super::{Log, fact, journal, tag, tagged};
use crate::place::{Place, connect};

const ROUNDS: usize = 1_000;
/// Each with a tag of its own, to be done sooner.
const LANES: usize = 4;

fn count(query: Query) -> impl sendoff_engine::journal::Model + 'static {
    fold(query, 0_usize, |count: &mut usize, _| {
        *count += 1;
        Ok(())
    })
}

/// Two decide and append at once; exactly one of them succeeds.
async fn duel(journal: &Log, tag: &str) {
    let barrier = Arc::new(Barrier::new(2));
    let rivals = [(); 2].map(|()| {
        let (journal, barrier, tag) = (journal.clone(), Arc::clone(&barrier), tag.to_owned());
        tokio::spawn(async move {
            let decided = journal.decide(count(tagged(&tag))).await.unwrap();
            barrier.wait().await;
            journal.append_if([fact("won", &[&tag])], decided.condition).await
        })
    });
    let mut won = 0;
    for rival in rivals {
        match rival.await.unwrap() {
            Ok(_) => won += 1,
            Err(AppendError::Conflict(_)) => {}
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!(won, 1);
}

async fn duels(journal: &Log, place: &Place) {
    let lanes: Vec<_> = (0..LANES)
        .map(|lane| {
            let journal = journal.clone();
            tokio::spawn(async move {
                for _ in 0..ROUNDS / LANES {
                    duel(&journal, &format!("lane={lane}")).await;
                }
            })
        })
        .collect();
    for lane in lanes {
        lane.await.unwrap();
    }
    let won = place.number("select count(*) from journal_event").await;
    assert_eq!(won, ROUNDS as i64);
}

/// Holds J1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_conflicting_appends_exactly_one_wins() {
    let place = Place::new();
    let journal = journal(&place).await;
    duels(&journal, &place).await;
}

/// Holds J1: a transaction that has nothing to do with it and is older than everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_one_wins_beside_an_older_open_transaction() {
    let place = Place::new();
    let journal = journal(&place).await;
    let old = place.client().await;
    let write = "begin; create table foreign_work (n int); insert into foreign_work values (1)";
    old.batch_execute(&format!("set search_path = {}; {write}", place.schema)).await.unwrap();
    duels(&journal, &place).await;
    old.batch_execute("commit").await.unwrap();
}

/// Holds J1 and J2: each decision is read while a lower position is open, which then commits; whoever
/// relies on it has counted it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_one_wins_though_a_lower_position_was_open_when_it_decided() {
    let place = Place::new();
    let journal = journal(&place).await;
    let lanes: Vec<_> = (0..LANES)
        .map(|lane| {
            let (journal, url) = (journal.clone(), place.url.clone());
            tokio::spawn(async move {
                let mut client = connect(&url).await.unwrap();
                let name = format!("lane={lane}");
                for round in 0..ROUNDS / LANES {
                    let mut low = client.transaction().await.unwrap();
                    let seat = [fact("seat.taken", &[&name])];
                    journal.append_in(&mut low, seat, None).await.unwrap();
                    journal.append([fact("other", &[&format!("other={lane}")])]).await.unwrap();
                    let deciding = tokio::spawn({
                        let (journal, query) = (journal.clone(), Query::tagged(tag(&name)));
                        async move {
                            let seats = fold(query, 0_usize, |seats, _| {
                                *seats += 1;
                                Ok(())
                            });
                            journal.decide(seats).await.unwrap()
                        }
                    });
                    low.commit().await.unwrap();
                    let decided = deciding.await.unwrap();
                    // Either it was read after the commit, or the condition knows of it.
                    let seen = decided.model.state;
                    let answer =
                        journal.append_if([fact("seat.taken", &[&name])], decided.condition).await;
                    match answer {
                        Ok(_) => assert_eq!(seen, 2 * round + 1, "the open one was missed"),
                        Err(error) => panic!("nobody else is here: {error:?}"),
                    }
                }
            })
        })
        .collect();
    for lane in lanes {
        lane.await.unwrap();
    }
}
