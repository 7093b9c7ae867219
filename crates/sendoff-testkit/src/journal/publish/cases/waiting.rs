//! Callers that wait for one key leave connections to all others.

use std::time::Duration;

use futures_util::future::{Either, select};
use sendoff_core::journal::{Fact, Position, Query, Tag};
use sendoff_engine::journal::{
    Basis, DecideError, Journal, JournalStore, Locked, LockedDecision, Page, fold,
};
use sendoff_engine::store::StoreError;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::{node, numbers, stored};
use crate::journal::cases::found;
use crate::journal::{Latch, PublishHarness};

/// More than a journal has connections, by a long way.
const WAITERS: usize = 40;
/// Shorter than anybody waits for a lock before it gives way to the next.
const SOON: Duration = Duration::from_secs(4);

/// Holds I11: those who wait for the locks of one key, however many they are, leave room for what has
/// nothing to do with it: other keys are appended to, decided by and read, and publishing goes on.
pub async fn those_who_wait_for_one_key_leave_room_for_all_others(harness: impl PublishHarness) {
    let journal = harness.journal();
    let latch = Latch::new("all");
    let node = node(journal, &[&latch]).await;
    journal.append([moved("hot")]).await.unwrap();
    stored(journal, "all", 1).await;
    let (query, page) = (wallet("hot"), Page::first(Position::START, Position::END));
    let basis = Basis { query: &query, closing: None, page };
    let Some(locked) = journal.store().lock(basis).await.unwrap() else { return };
    let Locked { mut transaction, .. } = locked;
    let mut waiters = JoinSet::new();
    for nth in 0..WAITERS {
        waiters.spawn(wait(journal.clone(), nth % 2 == 0));
    }
    let others = async {
        for round in 1..=5 {
            let appending = timeout(SOON, journal.append([moved("cold")]));
            appending.await.expect("others append meanwhile").unwrap();
            let reading = timeout(SOON, found(journal, wallet("cold")));
            assert_eq!(reading.await.expect("others read meanwhile").len() as u64, round);
            let publishing = timeout(SOON, stored(journal, "all", 1 + round));
            publishing.await.expect("what they append is published meanwhile");
        }
    };
    // What is not spoken in is ended by the server.
    let awake = stay_awake(&mut *transaction, &query, page);
    match select(Box::pin(others), Box::pin(awake)).await {
        Either::Left(((), _)) => {}
        Either::Right((error, _)) => panic!("the key is locked no more: {error}"),
    }
    assert!(waiters.try_join_next().is_none(), "it was nobody else's turn");
    drop(waiters);
    transaction.release().await;
    assert_eq!(latch.positions(), numbers(1..=6));
    node.close().await;
}

/// Waits for a turn that does not come, again and again, as a user's retries do.
async fn wait<S: JournalStore>(journal: Journal<S>, under_locks: bool) {
    let nothing = || fold(wallet("hot"), (), |(), _| Ok(()));
    let decided = async || {
        if !under_locks {
            return journal.decide(nothing()).await.map(drop);
        }
        let page = Page::first(Position::START, Position::END);
        let basis = Basis { query: &wallet("hot"), closing: None, page };
        journal.store().lock(basis).await.map(drop)
    };
    while let Err(DecideError::Busy(_)) = decided().await {}
}

/// Speaks in a transaction until that fails.
async fn stay_awake(
    transaction: &mut (dyn LockedDecision + '_),
    query: &Query,
    page: Page,
) -> StoreError {
    loop {
        if let Err(error) = transaction.read(query, page).await {
            return error;
        }
        sleep(Duration::from_millis(500)).await;
    }
}

fn wallet(name: &str) -> Query {
    Query::tagged(Tag::new("wallet", name).unwrap())
}

fn moved(name: &str) -> Fact {
    Fact::builder(("moved", "{}")).tag("wallet", name).build().unwrap()
}
