//! Of appends that exclude one another one succeeds, a thousand times.

#![allow(clippy::missing_panics_doc, reason = "a race that panics is a journal that failed it")]
#![allow(clippy::unwrap_used, reason = "what cannot unwrap says less, not more")]

use std::sync::Arc;

use async_trait::async_trait;
use sendoff_core::BoxError;
use sendoff_core::journal::{Append, Query, Recorded};
use sendoff_engine::journal::{AppendError, Fold, Journal, JournalStore, fold};
use tokio::sync::Barrier;

use super::cases::found;
use super::facts::{fact, tagged};

const ROUNDS: usize = 1_000;
/// Each with a tag of its own, to be done sooner.
pub const LANES: usize = 4;

/// A connection of the application's that leaves an append open.
#[async_trait]
pub trait OpenWriter: Send + 'static {
    /// Begins a transaction and appends in it.
    async fn open(&mut self, append: &Append);

    /// Commits it.
    async fn commit(&mut self);
}

fn count(
    query: Query,
) -> Fold<usize, impl FnMut(&mut usize, &Recorded) -> Result<(), BoxError> + Send> {
    fold(query, 0, |count: &mut usize, _: &Recorded| {
        *count += 1;
        Ok(())
    })
}

/// Two decide and append at once, a thousand times; exactly one of them succeeds.
pub async fn duels<S: JournalStore>(journal: &Journal<S>) {
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
    assert_eq!(found(journal, Query::all()).await.len(), ROUNDS);
}

async fn duel<S: JournalStore>(journal: &Journal<S>, tag: &str) {
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

/// Each decision is read while a lower position is open, which then commits; whoever relies on it has
/// counted it. One writer for each of the [`LANES`].
pub async fn decisions_beside_an_open_append<S: JournalStore>(
    journal: &Journal<S>,
    writers: Vec<Box<dyn OpenWriter>>,
) {
    let lanes: Vec<_> = writers
        .into_iter()
        .enumerate()
        .map(|(lane, mut low)| {
            let journal = journal.clone();
            tokio::spawn(async move {
                let name = format!("lane={lane}");
                for round in 0..ROUNDS / LANES {
                    let seat = Append::new(vec![fact("seat.taken", &[&name])], None).unwrap();
                    low.open(&seat).await;
                    journal.append([fact("other", &[&format!("other={lane}")])]).await.unwrap();
                    let deciding = tokio::spawn({
                        let (journal, query) = (journal.clone(), tagged(&name));
                        async move { journal.decide(count(query)).await.unwrap() }
                    });
                    low.commit().await;
                    let decided = deciding.await.unwrap();
                    // Either it was read after the commit, or the condition knows of it.
                    let seen = decided.model.state;
                    let seat = [fact("seat.taken", &[&name])];
                    match journal.append_if(seat, decided.condition).await {
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
