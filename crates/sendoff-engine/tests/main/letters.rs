//! Sweeps of dead letters: paced, stopped, failing half-way.

use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::{
    AuditNote, EventId, InvalidFilter, LetterAct, LetterFate, LetterFilter, LetterOrder, limits,
};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::store::{
    Claim, ClaimStore, Outcome, PayloadWanted, SettleStore, Settlement, StoreError,
};
use sendoff_engine::{DeadLetters, LetterSweep, LettersError, Outbox, SweepOptions};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::flaky::Flaky;
use super::{SECOND, event};

fn note() -> AuditNote {
    AuditNote::new("ada", "it is mended").unwrap()
}

/// A store with so many dead letters.
async fn dead(count: usize) -> (MemoryStore, Vec<EventId>) {
    let store = MemoryStore::new();
    let outbox = Outbox::writer_only(store.clone());
    let mut tx = outbox.begin(&store).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(tx.emit(event()).unwrap());
    }
    tx.commit().await.unwrap();
    let claimed = store.claim(&Claim::new("a", count, SECOND)).await.unwrap().rows;
    let outcome = Outcome::dead(10, "no");
    let end = |held| Settlement { held, outcome: outcome.clone() };
    let batch: Vec<_> = claimed.iter().map(|row| end(row.held())).collect();
    assert_eq!(store.settle(&batch).await.unwrap().applied.len(), count);
    (store, ids)
}

fn sweep(letters: &DeadLetters, options: SweepOptions) -> LetterSweep {
    letters.sweep(LetterAct::Requeue, LetterFilter::default(), note(), options).unwrap()
}

fn batches_of(batch: usize) -> SweepOptions {
    SweepOptions { batch, ..SweepOptions::default() }
}

#[tokio::test(start_paused = true)]
async fn a_sweep_keeps_its_rate() {
    let (store, _) = dead(20).await;
    let letters = Outbox::writer_only(store).dead_letters();
    let began = Instant::now();
    let options = SweepOptions { per_second: Some(5), ..batches_of(10) };
    let swept = sweep(&letters, options).run().await.unwrap();
    assert_eq!((swept.done, swept.batches), (20, 4), "a second's letters at once, and no more");
    let took = began.elapsed();
    assert!((3 * SECOND..=5 * SECOND).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_sweep_that_is_stopped_or_full_ends_between_two_batches() {
    let (store, _) = dead(20).await;
    let letters = DeadLetters::new(Arc::new(store));
    let stop = CancellationToken::new();
    let stopped = sweep(&letters, batches_of(5)).on_progress({
        let stop = stop.clone();
        move |swept| {
            if swept.done == 10 {
                stop.cancel();
            }
        }
    });
    let swept = stopped.run_until(stop.cancelled()).await.unwrap();
    assert_eq!((swept.done, swept.finished), (10, false));
    // What is told before it begins does nothing.
    let swept = stopped.run_until(stop.cancelled()).await.unwrap();
    assert_eq!((swept.done, swept.batches), (0, 0));
    let limited = SweepOptions { limit: Some(7), ..batches_of(5) };
    let swept = sweep(&letters, limited).run_until(pending()).await.unwrap();
    assert_eq!((swept.done, swept.batches, swept.finished), (7, 2, false));
    let rest = sweep(&letters, SweepOptions::default()).run().await.unwrap();
    assert_eq!((rest.done, rest.finished), (3, true));
}

/// What died since is left alone, also by a sweep that goes on where another stopped.
#[tokio::test(start_paused = true)]
async fn a_sweep_goes_on_from_when_the_first_began() {
    let (store, ids) = dead(3).await;
    let letters = DeadLetters::new(Arc::new(store.clone()));
    let first = SweepOptions { limit: Some(1), ..SweepOptions::default() };
    let swept = sweep(&letters, first).run().await.unwrap();
    tokio::time::advance(SECOND).await;
    let claimed = store.claim(&Claim::new("a", 9, SECOND)).await.unwrap().rows;
    assert_eq!(claimed.len(), 1);
    let outcome = Outcome::dead(1, "again");
    store.settle(&[Settlement { held: claimed[0].held(), outcome }]).await.unwrap();
    let rest = SweepOptions { began: swept.began, ..SweepOptions::default() };
    let rest = sweep(&letters, rest);
    assert_eq!(rest.dry_run().await.unwrap().counted(), 2);
    assert_eq!(rest.run().await.unwrap().done, 2);
    let order = LetterOrder::OldestFirst;
    let left = letters.list(&LetterFilter::default(), order, None, 9).await.unwrap().letters;
    assert_eq!(left.iter().map(|letter| letter.id).collect::<Vec<_>>(), ids[..1]);
}

#[tokio::test(start_paused = true)]
async fn a_sweep_that_fails_half_way_says_what_it_did() {
    let (store, _) = dead(20).await;
    let flaky = Flaky::over(store.clone());
    let letters = DeadLetters::new(Arc::new(flaky.clone()));
    let sweep = sweep(&letters, batches_of(5)).on_progress({
        let flaky = flaky.clone();
        move |swept| flaky.set_down(swept.done == 10)
    });
    let error = sweep.run().await.unwrap_err();
    assert_eq!((error.so_far.done, error.so_far.finished), (10, false));
    assert!(matches!(error.source, StoreError::Unavailable(_)), "{error:?}");
    assert_eq!(error.to_string(), "the sweep failed after 10 letters");
    flaky.set_down(false);
    assert_eq!(sweep.run().await.unwrap().done, 10, "the rest");
}

/// A database that never answers keeps no operator waiting for ever.
#[tokio::test(start_paused = true)]
async fn a_question_that_is_not_answered_ends() {
    let (store, ids) = dead(1).await;
    let flaky = Flaky::over(store);
    flaky.hang_next();
    let letters = DeadLetters::new(Arc::new(flaky)).answer_within(SECOND);
    let error = letters.requeue(&ids, &note()).await.unwrap_err();
    assert!(matches!(error, LettersError::Store(StoreError::Timeout)), "{error:?}");
}

#[tokio::test]
async fn what_cannot_be_meant_is_refused_and_what_was_named_twice_is_answered_twice() {
    let (store, ids) = dead(2).await;
    let letters = DeadLetters::new(Arc::new(store));
    let many = vec![ids[0]; limits::LETTERS + 1];
    let error = letters.discard(&many, &note()).await.unwrap_err();
    assert!(matches!(error, LettersError::TooMany { count: 501, limit: 500 }), "{error}");
    let backwards =
        LetterFilter { attempts_least: Some(2), attempts_most: Some(1), ..Default::default() };
    let error = letters.count(&backwards).await.unwrap_err();
    assert!(matches!(error, LettersError::Filter(InvalidFilter::Empty { .. })), "{error}");
    let error = letters
        .sweep(LetterAct::Discard, LetterFilter::default(), note(), batches_of(0))
        .unwrap_err();
    assert!(
        matches!(&error, LettersError::Options(options) if options.path() == "batch"),
        "{error}"
    );

    let fates = letters.requeue(&[ids[0], ids[0]], &note()).await.unwrap();
    assert_eq!(fates, [(ids[0], LetterFate::Done); 2]);
    assert_eq!(letters.audit(Some(ids[0]), None, 9).await.unwrap().entries.len(), 1);
    assert_eq!(letters.discard(&ids[1..], &note()).await.unwrap(), [(ids[1], LetterFate::Done)]);
    let gone = letters.show(ids[1], PayloadWanted::Yes).await.unwrap().unwrap();
    assert!(gone.record.is_none() && gone.audit.len() == 1, "only the audit remembers it");
    assert!(letters.show(EventId::generate(), PayloadWanted::No).await.unwrap().is_none());
}

/// A progress bar is told after every transaction.
#[tokio::test]
async fn progress_is_told_after_every_transaction() {
    let (store, _) = dead(7).await;
    let told: Arc<Mutex<Vec<u64>>> = Arc::default();
    let sweep = sweep(&DeadLetters::new(Arc::new(store)), batches_of(3)).on_progress({
        let told = Arc::clone(&told);
        move |swept| told.lock().unwrap().push(swept.done)
    });
    let limit = Duration::from_secs(60);
    let swept = tokio::time::timeout(limit, sweep.run()).await.unwrap().unwrap();
    assert_eq!((swept.done, told.lock().unwrap().as_slice()), (7, &[3, 6, 7][..]));
}
