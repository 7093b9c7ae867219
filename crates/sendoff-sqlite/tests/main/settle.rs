//! Settlements on SQLite: stored, repeated and fenced.

use std::time::Duration;

use sendoff_core::{Status, limits};
use sendoff_engine::Clock;
use sendoff_engine::store::{ClaimStore, Held, InspectStore, Outcome, SettleStore};
use sendoff_sqlite::{Retention, SqliteOptions};
use sendoff_testkit::steps::token_of;

use crate::outbox::{HOLD, Outbox, held};

fn retry(seconds: u64) -> Outcome {
    Outcome::Retry { delay: Duration::from_secs(seconds), attempts: 1, error: "down".into() }
}

fn dead() -> Outcome {
    Outcome::dead(3, "no")
}

/// Holds S2.
#[tokio::test]
async fn done_is_idempotent_and_clears_the_lock() {
    let outbox = Outbox::new().await;
    let id = outbox.write_due();
    let claimed = outbox.claim_one("a").await;
    outbox.clock.advance(Duration::from_secs(1));
    assert!(outbox.settle(held(&claimed), Outcome::Done).await);
    let done = outbox.row(id).await;
    assert_eq!((done.status, done.locked_by.as_deref()), (Status::Done, None));
    assert_eq!(done.done_at, Some(outbox.clock.now()));

    outbox.clock.advance(Duration::from_secs(1));
    assert!(!outbox.settle(held(&claimed), Outcome::Done).await);
    assert_eq!(outbox.row(id).await.done_at, done.done_at);
}

/// Holds S2.
#[tokio::test]
async fn retry_stores_the_attempt_the_due_time_and_the_error() {
    let outbox = Outbox::new().await;
    let id = outbox.write_due();
    let claimed = outbox.claim_one("a").await;
    assert!(outbox.settle(held(&claimed), retry(60)).await);
    let row = outbox.row(id).await;
    assert_eq!((row.status, row.attempts, row.locked_by), (Status::Retry, 1, None));
    assert_eq!(row.last_error.as_deref(), Some("down"));
    assert_eq!(row.due_at, outbox.clock.now().saturating_add(Duration::from_secs(60)));
    assert!(outbox.claim("a").await.is_empty());

    outbox.clock.advance(Duration::from_secs(60));
    let again = outbox.claim_one("b").await;
    assert_eq!((again.attempts, again.lost), (1, false), "a failure is nobody's crash");
}

/// Holds S2.
#[tokio::test]
async fn a_second_retry_is_fenced_even_when_the_due_time_would_repeat_the_token() {
    let outbox = Outbox::new().await;
    outbox.write_due();
    let claimed = outbox.claim_one("a").await;
    assert!(outbox.settle(held(&claimed), retry(HOLD.as_secs())).await);
    assert!(!outbox.settle(held(&claimed), retry(1)).await);
    assert!(outbox.store.confirm(&[held(&claimed)]).await.unwrap().is_empty());
}

/// Holds S3.
#[tokio::test]
async fn a_terminal_row_is_never_changed() {
    let outbox = Outbox::new().await;
    for last in [Outcome::Done, dead()] {
        let id = outbox.write_due();
        let claimed = outbox.claim_one("a").await;
        assert!(outbox.settle(held(&claimed), last).await);
        let before = format!("{:?}", outbox.row(id).await);
        for outcome in [Outcome::Done, retry(0), dead(), Outcome::Released] {
            assert!(!outbox.settle(held(&claimed), outcome).await);
        }
        assert!(outbox.store.extend(&[held(&claimed)], HOLD).await.unwrap().held.is_empty());
        assert!(outbox.store.confirm(&[held(&claimed)]).await.unwrap().is_empty());
        outbox.clock.advance(HOLD);
        outbox.store.rescue(Duration::ZERO).await.unwrap();
        assert!(outbox.claim("b").await.is_empty());
        assert_eq!(format!("{:?}", outbox.row(id).await), before);
    }
}

/// Holds S2.
#[tokio::test]
async fn dead_stores_the_error_and_clears_the_lock() {
    let outbox = Outbox::new().await;
    let id = outbox.write_due();
    let claimed = outbox.claim_one("a").await;
    assert!(outbox.settle(held(&claimed), dead()).await);
    let row = outbox.row(id).await;
    assert_eq!((row.status, row.attempts, row.locked_by), (Status::Dead, 3, None));
    assert_eq!(row.last_error.as_deref(), Some("no"));
    assert!(row.done_at.is_some(), "when it ended");
}

#[tokio::test]
async fn a_released_row_is_as_it_was_and_visible_at_once() {
    let outbox = Outbox::new().await;
    let id = outbox.write_due();
    let claimed = outbox.claim_one("a").await;
    assert!(outbox.settle(held(&claimed), Outcome::Released).await);
    let row = outbox.row(id).await;
    assert_eq!((row.status, row.attempts, row.locked_by), (Status::New, 0, None));
    let again = outbox.claim_one("b").await;
    assert_eq!((again.attempts, again.lost), (0, false));
}

/// Holds S5: settlements are fenced by the token.
#[tokio::test]
async fn an_extension_moves_the_token_and_the_old_one_is_void() {
    let outbox = Outbox::new().await;
    outbox.write_due();
    let claimed = outbox.claim_one("a").await;
    outbox.clock.advance(Duration::from_secs(20));
    let extended = outbox.store.extend(&[held(&claimed)], HOLD).await.unwrap().held;
    assert_eq!(extended.len(), 1);
    assert_eq!(token_of(&extended[0]).due_at(), outbox.clock.now().saturating_add(HOLD));
    outbox.clock.advance(Duration::from_secs(20));
    assert!(outbox.claim("b").await.is_empty());

    assert!(outbox.store.extend(&[held(&claimed)], HOLD).await.unwrap().held.is_empty());
    assert!(!outbox.settle(held(&claimed), Outcome::Done).await);
    assert!(outbox.settle(extended[0], Outcome::Done).await);
}

#[tokio::test]
async fn a_batch_does_what_it_can_and_names_it() {
    let outbox = Outbox::new().await;
    outbox.write(&[crate::outbox::due(), crate::outbox::due()]);
    let claimed = outbox.claim("a").await;
    let stale = Held::row(claimed[0].id, sendoff_core::Token::new(outbox.clock.now()));
    let batch = [stale, held(&claimed[1]), held(&claimed[1])]
        .map(|held| sendoff_engine::store::Settlement { held, outcome: Outcome::Done });
    assert_eq!(outbox.store.settle(&batch).await.unwrap().applied, [claimed[1].id]);
}

/// Holds S7.
#[tokio::test]
async fn error_text_is_cut_on_a_character_boundary() {
    let outbox = Outbox::new().await;
    let id = outbox.write_due();
    for (chars, kept) in [(3_999, 3_999), (4_000, 4_000), (4_001, 4_000), (100_000, 4_000)] {
        let claimed = outbox.claim_one("a").await;
        let outcome =
            Outcome::Retry { delay: Duration::ZERO, attempts: 1, error: "ü".repeat(chars) };
        assert!(outbox.settle(held(&claimed), outcome).await);
        assert_eq!(outbox.row(id).await.last_error.unwrap(), "ü".repeat(kept));
    }
    let claimed = outbox.claim_one("a").await;
    let error = "x".repeat(limits::ERROR_CHARS + 1);
    assert!(outbox.settle(held(&claimed), Outcome::dead(1, error)).await);
    assert_eq!(outbox.row(id).await.last_error.unwrap().len(), limits::ERROR_CHARS);
}

#[tokio::test]
async fn where_nothing_is_kept_a_delivered_row_is_gone_and_a_dead_one_stays() {
    let options = SqliteOptions { retention: Retention::DeleteWhenDone, ..Default::default() };
    let outbox = Outbox::with(options).await;
    outbox.write(&[crate::outbox::due(), crate::outbox::due()]);
    let claimed = outbox.claim("a").await;
    assert!(outbox.settle(held(&claimed[0]), Outcome::Done).await);
    assert!(outbox.settle(held(&claimed[1]), dead()).await);
    assert!(outbox.store.find(claimed[0].id).await.unwrap().is_none());
    assert_eq!(outbox.row(claimed[1].id).await.status, Status::Dead);
    assert!(!outbox.settle(held(&claimed[0]), Outcome::Done).await);
}
