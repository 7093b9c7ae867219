//! What is this store's own; the shared contract is the conformance suite's.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{Event, Holding, Status, Timestamp, Token};

use super::MemoryStore;
use crate::capture::{
    Begin, BeginBlocking, Capture, CaptureBlocking, Commit, CommitBlocking, CommitError, Nest,
    NestBlocking, Release, ReleaseBlocking, WriteError,
};
use crate::store::{
    Birth, Claim, ClaimStore, Cutoff, Held, InspectStore, NewRow, Outcome, Purge, RetainStore,
    SettleStore, Settlement, StoreError,
};

const HOLD: Duration = Duration::from_secs(30);

fn new_row(name: &str) -> NewRow {
    NewRow { event: Event::json_text(name, "{}").unwrap(), birth: Birth::Due }
}

fn names(store: &MemoryStore) -> Vec<String> {
    store.rows().iter().map(|row| row.event.event_type().to_owned()).collect()
}

fn token_of(held: &Held) -> Token {
    match held.by {
        Holding::Row(token) => token,
        Holding::Lock | Holding::Key(_) => panic!("held by a lock"),
    }
}

fn claim(owner: &str) -> Claim<'_> {
    Claim::new(owner, 10, HOLD)
}

/// A store whose clock never moves.
fn timeless() -> MemoryStore {
    #[derive(Debug)]
    struct Still;
    impl crate::Clock for Still {
        fn now(&self) -> Timestamp {
            Timestamp::from_micros(1_700_000_000_000_000)
        }
    }
    MemoryStore::with_clock(Arc::new(Still))
}

#[tokio::test]
async fn a_dropped_transaction_and_a_rolled_back_one_leave_nothing() {
    let store = MemoryStore::new();
    let mut tx = store.begin(&store).await.unwrap();
    store.insert(&mut tx, &[new_row("a")]).await.unwrap();
    drop(tx);
    let mut tx = store.begin(&store).await.unwrap();
    store.insert(&mut tx, &[new_row("b")]).await.unwrap();
    store.rollback(tx).await.unwrap();
    assert!(store.rows().is_empty());
}

#[tokio::test]
async fn a_savepoint_keeps_or_undoes_only_what_was_written_through_it() {
    let store = MemoryStore::new();
    let mut tx = store.begin(&store).await.unwrap();
    store.insert(&mut tx, &[new_row("before")]).await.unwrap();

    let mut kept = store.savepoint(&mut tx).await.unwrap();
    store.insert(&mut kept, &[new_row("kept")]).await.unwrap();
    let mut inner = store.savepoint(&mut kept).await.unwrap();
    store.insert(&mut inner, &[new_row("inner, undone")]).await.unwrap();
    store.roll_back_to(inner).await.unwrap();
    let mut inner = store.savepoint(&mut kept).await.unwrap();
    store.insert(&mut inner, &[new_row("inner, kept")]).await.unwrap();
    store.release(inner).await.unwrap();
    store.release(kept).await.unwrap();

    let mut dropped = store.savepoint(&mut tx).await.unwrap();
    store.insert(&mut dropped, &[new_row("dropped")]).await.unwrap();
    drop(dropped);

    store.commit(tx, &[new_row("last")]).await.unwrap();
    assert_eq!(names(&store), ["before", "kept", "inner, kept", "last"]);
}

#[test]
fn undoing_an_outer_savepoint_undoes_what_an_inner_one_kept() {
    let store = MemoryStore::new();
    let mut tx = store.begin_blocking(&store).unwrap();
    let mut outer = store.savepoint_blocking(&mut tx).unwrap();
    let inner = store.savepoint_blocking(&mut outer).unwrap();
    let row = new_row("a");
    store.insert_blocking(&inner, std::slice::from_ref(&row)).unwrap();
    inner.release();
    store.roll_back_to_blocking(outer).unwrap();
    // Its id is free again, too.
    store.insert_blocking(&tx, &[row]).unwrap();
    store.commit_blocking(tx, &[]).unwrap();
    assert_eq!(names(&store), ["a"]);
}

#[test]
fn an_id_is_refused_in_its_transaction_after_it_and_when_both_commit() {
    let store = MemoryStore::new();
    let row = new_row("a");
    let tx = store.transaction().unwrap();
    let twice = store.insert_blocking(&tx, &[row.clone(), row.clone()]);
    assert!(matches!(twice, Err(WriteError::DuplicateId)));
    store.insert_blocking(&tx, std::slice::from_ref(&row)).unwrap();
    let again = store.insert_blocking(&tx, &[new_row("b"), row.clone()]);
    assert!(matches!(again, Err(WriteError::DuplicateId)), "and b is not written either");

    let rival = store.transaction().unwrap();
    store.insert_blocking(&rival, &[new_row("c"), row.clone()]).unwrap();
    tx.commit().unwrap();
    assert!(matches!(rival.commit(), Err(CommitError::Refused(WriteError::DuplicateId))));
    let late = store.transaction().unwrap();
    assert!(matches!(store.insert_blocking(&late, &[row]), Err(WriteError::DuplicateId)));
    assert_eq!(names(&store), ["a"]);
}

#[test]
fn order_is_that_of_commits_not_of_writes() {
    let store = timeless();
    let (first, second) = (store.transaction().unwrap(), store.transaction().unwrap());
    store.insert_blocking(&first, &[new_row("written first")]).unwrap();
    store.insert_blocking(&second, &[new_row("committed first")]).unwrap();
    second.commit().unwrap();
    first.commit().unwrap();
    assert_eq!(names(&store), ["committed first", "written first"]);
}

#[tokio::test]
async fn a_closed_store_refuses_everything_and_can_still_be_looked_at() {
    let store = MemoryStore::new();
    store.commit(store.transaction().unwrap(), &[new_row("a")]).await.unwrap();
    let mut open = store.transaction().unwrap();
    store.clone().close();

    assert!(matches!(store.transaction(), Err(StoreError::Closed)));
    assert!(store.begin(&store).await.is_err());
    assert!(matches!(store.insert(&mut open, &[new_row("b")]).await, Err(WriteError::Closed)));
    assert!(matches!(open.commit(), Err(CommitError::Refused(WriteError::Closed))));
    assert!(matches!(store.claim(&claim("n")).await, Err(StoreError::Closed)));
    assert!(matches!(store.confirm(&[]).await, Err(StoreError::Closed)));
    assert!(matches!(store.rescue(HOLD).await, Err(StoreError::Closed)));
    assert!(matches!(store.settle(&[]).await, Err(StoreError::Closed)));
    assert!(matches!(store.extend(&[], HOLD).await, Err(StoreError::Closed)));
    assert!(matches!(store.counts().await, Err(StoreError::Closed)));
    assert!(matches!(store.lateness().await, Err(StoreError::Closed)));
    let purge = Purge { cutoff: Cutoff::Age(HOLD), limit: 1, dead: true };
    assert!(matches!(store.purgeable(&purge).await, Err(StoreError::Closed)));
    assert!(matches!(store.purge(&purge).await, Err(StoreError::Closed)));
    assert_eq!(names(&store), ["a"]);
}

#[tokio::test]
async fn no_two_holds_of_a_row_share_a_token_though_the_clock_stands_still() {
    let store = timeless();
    store.commit(store.transaction().unwrap(), &[new_row("a")]).await.unwrap();
    let mut seen = Vec::new();
    for owner in ["one", "two", "one", "two"] {
        let row = &store.claim(&claim(owner)).await.unwrap().rows[0];
        let mut held = row.held();
        seen.push(token_of(&held));
        for _ in 0..3 {
            held = store.extend(&[held], HOLD).await.unwrap().held[0];
            seen.push(token_of(&held));
        }
        store.settle(&[Settlement { held, outcome: Outcome::Released }]).await.unwrap();
    }
    let issued = seen.len();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), issued);
}

#[tokio::test]
async fn a_token_differs_from_the_due_time_it_replaces() {
    let store = timeless();
    store.commit(store.transaction().unwrap(), &[new_row("a")]).await.unwrap();
    let due_at = store.rows()[0].due_at;
    let no_hold = Claim { hold: Duration::ZERO, ..claim("n") };
    assert_ne!(store.claim(&no_hold).await.unwrap().rows[0].by, Holding::Row(Token::new(due_at)));
}

#[tokio::test]
async fn a_settlement_sent_twice_finds_nothing_even_if_the_retry_is_due_when_the_hold_ended() {
    let store = timeless();
    store.commit(store.transaction().unwrap(), &[new_row("a")]).await.unwrap();
    let row = &store.claim(&claim("n")).await.unwrap().rows[0];
    let held = row.held();
    let outcome = Outcome::Retry { delay: HOLD, attempts: 1, error: String::new() };
    let batch = [Settlement { held, outcome }];
    assert_eq!(store.settle(&batch).await.unwrap().applied, [row.id]);
    assert!(store.settle(&batch).await.unwrap().applied.is_empty());
}

#[tokio::test]
async fn a_spoiled_row_is_claimed_as_undecodable_and_can_be_settled() {
    let store = MemoryStore::new();
    let row = new_row("a");
    let id = row.event.id();
    store.commit(store.transaction().unwrap(), &[row]).await.unwrap();
    assert!(store.spoil(id));
    let claimed = store.claim(&claim("n")).await.unwrap().rows.remove(0);
    assert!(claimed.event.is_err());
    assert!(matches!(store.find(id).await, Err(StoreError::Refused(_))));
    let outcome = Outcome::dead(1, "no event");
    let held = claimed.held();
    store.settle(&[Settlement { held, outcome }]).await.unwrap();
    assert_eq!(store.rows()[0].status, Status::Dead);
}
