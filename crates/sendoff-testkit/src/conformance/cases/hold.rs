//! Holds: extended, confirmed, run out, lost to others.

use sendoff_core::{Event, EventId, Token};
use sendoff_engine::store::{Claim, ClaimStore, Held, Outcome};

use crate::conformance::probe::{HOLD, due, hold_of, ids, sorted};
use crate::conformance::{Probe, StoreHarness};
use crate::steps::token_of;

/// An extension counts from now, gives a new token and makes the old one stale. Holds S5.
pub async fn extending_gives_a_new_token_and_the_old_one_is_stale<H: StoreHarness>(
    probe: &Probe<H>,
) {
    let old = probe.take_one("node").await;
    probe.pass(HOLD / 2).await;
    let (extended, at) = probe.timed(probe.extend(&[old])).await;
    assert_eq!(extended.len(), 1);
    let new = extended[0];
    assert_eq!(new.id, old.id);
    assert_ne!(token_of(&new), token_of(&old));
    at.after(probe.ticks(HOLD)).assert_has(token_of(&new).due_at());
    let row = probe.row(old.id).await;
    assert_eq!((row.due_at, row.attempts), (token_of(&new).due_at(), 0));
    assert_eq!(row.locked_by.as_deref(), Some("node"));

    assert!(!probe.settle(old, Outcome::Done).await);
    assert!(probe.extend(&[old]).await.is_empty());
    assert!(probe.settle(new, Outcome::Done).await);
}

/// An extended hold lasts as long as it says, not as long as the first one would have. Holds S5.
pub async fn an_extended_hold_outlasts_the_first<H: StoreHarness>(probe: &Probe<H>) {
    let held = probe.take_one("node").await;
    probe.pass(HOLD / 2).await;
    probe.extend(&[held]).await;
    probe.pass(HOLD / 2).await;
    assert!(probe.claim_all("other").await.is_empty());
    probe.pass(HOLD / 2).await;
    assert_eq!(ids(&probe.claim_all("other").await), [held.id]);
}

/// Two extensions in a row, however fast, never give the same token. Holds S5.
pub async fn every_extension_gives_another_token<H: StoreHarness>(probe: &Probe<H>) {
    let mut held = probe.take_one("node").await;
    for _ in 0..5 {
        let next = probe.extend(&[held]).await[0];
        assert_ne!(token_of(&next), token_of(&held));
        held = next;
    }
}

/// A batch of extensions loses only what is lost. Holds S5.
pub async fn extending_skips_what_is_not_held<H: StoreHarness>(probe: &Probe<H>) {
    let written = probe.commit_due(4).await;
    let held: Vec<Held> = probe.claim_all("node").await.iter().map(hold_of).collect();
    assert!(probe.settle(held[0], Outcome::Released).await);
    assert!(probe.settle(held[1], Outcome::Done).await);
    let stranger = Held { id: EventId::generate(), ..held[2] };
    let extended = probe.extend(&[held[0], stranger, held[3], held[1], held[2]]).await;
    let extended = extended.into_iter().map(|held| held.id).collect();
    assert_eq!(sorted(extended), sorted(written[2..].to_vec()));
    assert!(probe.extend(&[]).await.is_empty());
}

/// A writer's hold is extended like any other. Holds S5.
pub async fn a_row_born_held_can_be_extended_and_settled<H: StoreHarness>(probe: &Probe<H>) {
    let born = probe.commit_held("writer", 5).await;
    probe.pass(3).await;
    let held = probe.extend(&[born]).await[0];
    probe.pass(3).await;
    assert!(probe.claim_all("node").await.is_empty());
    assert!(probe.settle(held, Outcome::Done).await);
}

/// What is delivered from memory is first proved: there, pending, and held by that token. Holds S5.
pub async fn confirm_names_exactly_what_is_held_by_that_token<H: StoreHarness>(probe: &Probe<H>) {
    let good = probe.commit_held("writer", 5).await;
    let extended = probe.commit_held("writer", 5).await;
    let renewed = probe.extend(&[extended]).await[0];
    let done = probe.commit_held("writer", 5).await;
    assert!(probe.settle(done, Outcome::Done).await);
    let released = probe.commit_held("writer", 5).await;
    assert!(probe.settle(released, Outcome::Released).await);
    let stranger = Held { id: EventId::generate(), ..good };
    let off_by_one = probe.commit_held("writer", 5).await;
    let micros = token_of(&off_by_one).due_at().as_micros() + 1;
    let off_by_one =
        Held::row(off_by_one.id, Token::new(sendoff_core::Timestamp::from_micros(micros)));

    let asked = [good, extended, renewed, done, released, stranger, off_by_one];
    assert_eq!(sorted(probe.confirm(&asked).await), sorted(vec![good.id, renewed.id]));
    assert!(probe.confirm(&[]).await.is_empty());
    assert_eq!(probe.row(good.id).await.due_at, token_of(&good).due_at(), "asking changes nothing");
}

/// A hold beyond the longest possible was made by a clock that has stepped back. Delays are none.
pub async fn rescue_frees_impossible_holds_and_no_delays<H: StoreHarness>(probe: &Probe<H>) {
    let delay = probe.ticks(1_000);
    let delayed = Event::builder("late").delay(delay).json_text("{}").build().expect("an event");
    let delayed_id = delayed.id();
    probe.commit(&[due(delayed)]).await;
    let ordinary = probe.take_one("node").await;
    probe.commit_due(1).await;
    let long = Claim { hold: delay, ..probe.claim_by("from the future") };
    let impossible = hold_of(&probe.claim(&long).await[0]);
    let born = probe.commit_held("from the future", 1_000).await;

    let rescued = probe.store().rescue(probe.ticks(100)).await.expect("rescue");
    assert_eq!(rescued, 2);
    assert!(!probe.settle(impossible, Outcome::Done).await, "its holder holds it no longer");
    let visible = ids(&probe.claim_all("node").await);
    assert_eq!(sorted(visible), sorted(vec![impossible.id, born.id]));
    assert_eq!(probe.row(ordinary.id).await.due_at, token_of(&ordinary).due_at());
    assert!(probe.row(delayed_id).await.due_at > probe.harness().now().await);
    assert_eq!(probe.store().rescue(probe.ticks(100)).await.expect("rescue"), 0);
}
