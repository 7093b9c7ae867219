//! Settlements: every outcome, repeated and fenced ones.

use sendoff_core::limits::ERROR_CHARS;
use sendoff_core::{Event, EventId, Status, Timestamp, Token, WaitsFor};
use sendoff_engine::store::{Held, Outcome, RetainStore, Row, Settlement, Waiting};

use super::loss::stays_a_suspect;
use crate::conformance::probe::{HOLD, due, hold_of, ids, sorted};
use crate::conformance::{Probe, StoreHarness};
use crate::steps::token_of;

fn retry_now(attempts: u32, error: &str) -> Outcome {
    Outcome::Retry { delay: std::time::Duration::ZERO, attempts, error: error.to_owned() }
}

fn dead(attempts: u32, error: &str) -> Outcome {
    Outcome::dead(attempts, error.to_owned())
}

fn wait_now(waits_for: WaitsFor, error: &str) -> Outcome {
    let (delay, error) = (std::time::Duration::ZERO, error.to_owned());
    Outcome::Wait { delay, waits_for, attempts: 2, error }
}

fn every_outcome() -> [Outcome; 6] {
    let restored = Outcome::Restored { due_at: Timestamp::from_micros(1_700_000_000_000_001) };
    let wait = wait_now(WaitsFor::Target, "stale");
    [Outcome::Done, retry_now(7, "stale"), wait, dead(7, "stale"), Outcome::Released, restored]
}

/// Done is recorded with its time and unlocked, or deleted where the store keeps nothing. Holds S2.
pub async fn done_is_recorded_or_deleted<H: StoreHarness>(probe: &Probe<H>) {
    let held = probe.take_one("node").await;
    assert!(probe.settle(held, retry_now(3, "first")).await);
    probe.pass(1).await;
    let held = hold_of(&probe.claim_one("node").await);
    let (settled, at) = probe.timed(probe.settle(held, Outcome::Done)).await;
    assert!(settled);
    if probe.store().keeps().is_none() {
        assert!(probe.find(held.id).await.is_none());
        return;
    }
    let row = probe.row(held.id).await;
    assert_eq!((row.status, row.attempts, row.locked_by), (Status::Done, 3, None));
    assert_eq!(row.last_error.as_deref(), Some("first"), "what went wrong before is still told");
    at.assert_has(row.done_at.expect("a done row says when"));
}

/// A retry stores count, error and due time, and unlocks. Holds S2.
pub async fn a_retry_stores_count_error_and_due_time<H: StoreHarness>(probe: &Probe<H>) {
    let held = probe.take_one("node").await;
    let delay = probe.ticks(3);
    let outcome = Outcome::Retry { delay, attempts: 4, error: "no route".to_owned() };
    let (settled, at) = probe.timed(probe.settle(held, outcome)).await;
    assert!(settled);
    let row = probe.row(held.id).await;
    assert_eq!((row.status, row.attempts), (Status::Retry, 4));
    assert_eq!(row.last_error.as_deref(), Some("no route"));
    assert_eq!((row.locked_by, row.done_at), (None, None));
    at.after(delay).assert_has(row.due_at);

    assert!(probe.claim_all("node").await.is_empty());
    probe.pass(3).await;
    let claimed = probe.claim_one("node").await;
    assert_eq!((claimed.id, claimed.attempts, claimed.lost), (held.id, 4, false));
}

/// An event that waits says since when, for its target and for a handler apart; a run that fails by itself
/// or succeeds ends that. Holds D6, D7.
pub async fn an_event_that_waits_says_since_when<H: StoreHarness>(probe: &Probe<H>) {
    let settle = async |outcome: Outcome| {
        probe.pass(1).await;
        let claimed = probe.claim_one("node").await;
        let (held, id) = (hold_of(&claimed), claimed.id);
        let (settled, at) = probe.timed(probe.settle(held, outcome)).await;
        assert!(settled);
        (probe.row(id).await, at, claimed)
    };
    probe.commit_due(1).await;
    let (row, since, claimed) = settle(wait_now(WaitsFor::Handler, "no handler")).await;
    assert_eq!(claimed.waiting, Waiting::default());
    assert_eq!((row.status, row.attempts), (Status::Retry, 2));
    assert_eq!((row.last_error.as_deref(), row.locked_by), (Some("no handler"), None));
    let nobody = row.waiting.for_handler.expect("it waits for a handler");
    since.assert_has(nobody);
    assert_eq!(row.waiting.for_target, None);

    let (row, _, claimed) = settle(wait_now(WaitsFor::Handler, "still none")).await;
    assert_eq!(row.waiting.for_handler, Some(nobody), "since it began, not since the last time");
    assert_eq!(claimed.waiting.for_handler, Some(nobody));
    assert_eq!(claimed.waited().for_handler, claimed.claimed_at.since(nobody));

    let (row, since, _) = settle(wait_now(WaitsFor::Target, "refused")).await;
    let away = row.waiting.for_target.expect("it waits for its target");
    since.assert_has(away);
    assert_eq!(row.waiting.for_handler, None, "somebody had a handler for it");

    let (row, ..) = settle(wait_now(WaitsFor::Handler, "not here")).await;
    assert_eq!(row.waiting.for_target, Some(away), "which another node does not know");
    let (row, ..) = settle(Outcome::Released).await;
    assert_eq!(row.waiting.for_target, Some(away), "released as it was");

    let (row, ..) = settle(retry_now(3, "by itself")).await;
    assert_eq!((row.waiting, row.attempts), (Waiting::default(), 3));
    settle(wait_now(WaitsFor::Target, "refused")).await;
    let (row, ..) = settle(dead(3, "too long")).await;
    assert!(row.waiting.for_target.is_some(), "a dead letter says since when it waited");
}

/// A delayed event knows when it first became due, others do not need to. Holds P5.
pub async fn a_delayed_event_remembers_when_it_was_first_due<H: StoreHarness>(probe: &Probe<H>) {
    let held = probe.take_one("node").await;
    assert_eq!(probe.row(held.id).await.delayed_until, None);
    assert!(probe.settle(held, Outcome::Done).await);
    let delayed = Event::builder("late").delay(probe.ticks(2)).json_text("{}").build();
    let delayed = delayed.expect("an event");
    let id = delayed.id();
    probe.commit(&[due(delayed)]).await;
    let first = probe.row(id).await.due_at;
    probe.pass(3).await;
    let held = hold_of(&probe.claim_one("node").await);
    assert!(probe.settle(held, retry_now(1, "no")).await);
    let row = probe.row(id).await;
    assert_eq!(row.delayed_until, Some(first), "however often it was held since");
}

/// Dead stores count, error and when it ended, and unlocks. Holds S2.
pub async fn dead_stores_count_and_error<H: StoreHarness>(probe: &Probe<H>) {
    let held = probe.take_one("node").await;
    let (settled, at) = probe.timed(probe.settle(held, dead(10, "never again"))).await;
    assert!(settled);
    let row = probe.row(held.id).await;
    assert_eq!((row.status, row.attempts), (Status::Dead, 10));
    assert_eq!(row.last_error.as_deref(), Some("never again"));
    assert_eq!(row.locked_by, None);
    at.assert_has(row.done_at.expect("a dead row says when it ended"));
}

/// A row that is released is visible at once, and otherwise as it was. Holds S2.
pub async fn a_released_row_is_visible_at_once_and_as_it_was<H: StoreHarness>(probe: &Probe<H>) {
    let held = probe.take_one("node").await;
    let (settled, at) = probe.timed(probe.settle(held, Outcome::Released)).await;
    assert!(settled);
    let row = probe.row(held.id).await;
    assert_eq!((row.status, row.attempts), (Status::New, 0));
    assert_eq!((row.last_error, row.locked_by, row.done_at), (None, None, None));
    at.assert_has(row.due_at);

    let claimed = probe.claim_one("node").await;
    assert!(probe.settle(hold_of(&claimed), retry_now(2, "first")).await);
    probe.pass(1).await;
    let claimed = probe.claim_one("node").await;
    assert!(probe.settle(hold_of(&claimed), Outcome::Released).await);
    let row = probe.row(held.id).await;
    assert_eq!((row.status, row.attempts), (Status::Retry, 2));
    assert_eq!(row.last_error.as_deref(), Some("first"));
    assert_eq!(ids(&probe.claim_all("other").await), [held.id]);
}

/// A row that is restored is as it was before the claim, due time included, to the microsecond.
/// Holds L4.
pub async fn a_restored_row_is_due_exactly_when_it_was<H: StoreHarness>(probe: &Probe<H>) {
    let id = probe.commit_due(1).await[0];
    for status in [Status::New, Status::Retry] {
        let before = probe.row(id).await;
        assert_eq!(before.status, status);
        probe.pass(1).await;
        let claimed = probe.claim_one("node").await;
        assert_eq!(claimed.was_due, before.due_at, "what the claim says it was");
        let restored = Outcome::Restored { due_at: claimed.was_due };
        assert!(probe.settle(hold_of(&claimed), restored).await);
        let after = probe.row(id).await;
        let content = |row: &Row| {
            (row.status, row.attempts, row.losses, row.due_at, row.done_at, row.locked_by.clone())
        };
        assert_eq!(content(&after), content(&before));
        assert_eq!(after.last_error, before.last_error);
        let held = hold_of(&probe.claim_one("other").await);
        assert!(probe.settle(held, retry_now(1, "first")).await, "visible at once, for anybody");
        probe.pass(1).await;
    }
}

/// Putting a suspect back does not clear it.
pub async fn a_restored_suspect_stays_one<H: StoreHarness>(probe: &Probe<H>) {
    stays_a_suspect(probe, |claimed| Outcome::Restored { due_at: claimed.was_due }).await;
}

/// The same settlement sent again, after its reply was lost, finds nothing to do; not even where a
/// retry is due at the very time the hold would have ended. Holds S2.
pub async fn a_settlement_sent_twice_is_carried_out_once<H: StoreHarness>(probe: &Probe<H>) {
    let at_the_end =
        Outcome::Retry { delay: probe.ticks(HOLD), attempts: 1, error: "no".to_owned() };
    for outcome in every_outcome().into_iter().chain([at_the_end]) {
        let held = probe.take_one("node").await;
        assert!(probe.settle(held, outcome.clone()).await, "{outcome:?}");
        let before = probe.find(held.id).await.map(|row| (row.status, row.attempts, row.due_at));
        assert!(!probe.settle(held, outcome.clone()).await, "{outcome:?}");
        let after = probe.find(held.id).await.map(|row| (row.status, row.attempts, row.due_at));
        assert_eq!(before, after, "{outcome:?}");
        // Out of the way of the next one.
        probe.pass(1).await;
        for row in probe.claim_all("cleaner").await {
            probe.settle(hold_of(&row), Outcome::Done).await;
        }
    }
}

/// What is done or dead is not changed by anyone who once held it. Holds S3.
pub async fn terminal_rows_never_change<H: StoreHarness>(probe: &Probe<H>) {
    for last in [Outcome::Done, dead(1, "the end")] {
        let held = probe.take_one("node").await;
        assert!(probe.settle(held, last).await);
        let before = probe.find(held.id).await;
        for outcome in every_outcome() {
            assert!(!probe.settle(held, outcome).await);
        }
        assert!(probe.extend(&[held]).await.is_empty());
        assert!(probe.confirm(&[held]).await.is_empty());
        let after = probe.find(held.id).await;
        let content = |row: &Option<Row>| {
            row.as_ref().map(|row| (row.status, row.attempts, row.done_at, row.last_error.clone()))
        };
        assert_eq!(content(&before), content(&after));
    }
}

/// A stored error has a limit, counted in characters. Holds S7.
pub async fn error_text_is_cut_on_a_character_boundary<H: StoreHarness>(probe: &Probe<H>) {
    let long = "\u{1F980}".repeat(ERROR_CHARS + 1);
    let whole = format!("{}\u{e9}", "x".repeat(ERROR_CHARS - 1));
    for (error, kept) in [
        (long.clone(), "\u{1F980}".repeat(ERROR_CHARS)),
        (format!("{whole}y"), whole.clone()),
        (whole.clone(), whole),
        (String::new(), String::new()),
        ("it's \"odd\" \\ \n \t %s $1".to_owned(), "it's \"odd\" \\ \n \t %s $1".to_owned()),
    ] {
        let held = probe.take_one("node").await;
        assert!(probe.settle(held, retry_now(1, &error)).await);
        assert!(probe.row(held.id).await.last_error == Some(kept.clone()), "on retry");
        probe.pass(1).await;
        let held = hold_of(&probe.claim_one("node").await);
        assert!(probe.settle(held, dead(1, &error)).await);
        assert!(probe.row(held.id).await.last_error == Some(kept), "on dead");
    }
}

/// A holder that was overtaken changes nothing, whatever it asks for. Holds S5.
pub async fn a_zombie_cannot_settle_after_its_hold_moved<H: StoreHarness>(probe: &Probe<H>) {
    let zombie = probe.take_one("zombie").await;
    probe.pass(HOLD).await;
    let current = hold_of(&probe.claim_one("node").await);
    for outcome in every_outcome() {
        assert!(!probe.settle(zombie, outcome).await);
    }
    assert!(probe.extend(&[zombie]).await.is_empty());
    assert!(probe.confirm(&[zombie]).await.is_empty());
    let row = probe.row(zombie.id).await;
    assert_eq!((row.status, row.attempts), (Status::New, 1));
    assert_eq!(row.due_at, token_of(&current).due_at());
    assert!(probe.settle(current, Outcome::Done).await, "the hold that counts still does");
}

/// A hold that ran out and that nobody took is still its holder's.
pub async fn a_hold_that_ran_out_untaken_can_still_be_settled<H: StoreHarness>(probe: &Probe<H>) {
    let held = probe.take_one("node").await;
    probe.pass(HOLD + 1).await;
    assert!(probe.settle(held, Outcome::Done).await);
    assert!(probe.claim_all("other").await.is_empty());
}

/// Good and stale tokens, and ids that are not there, share a batch; the answer tells them apart.
/// Holds S2 and S5.
pub async fn a_batch_settles_what_is_held_and_says_what_it_was<H: StoreHarness>(probe: &Probe<H>) {
    let written = probe.commit_due(6).await;
    let held: Vec<Held> = probe.claim_all("node").await.iter().map(hold_of).collect();
    assert!(probe.settle(held[0], dead(1, "before")).await);
    let stale = Held::row(held[1].id, Token::new(probe.harness().now().await));
    let stranger = Held { id: EventId::generate(), ..held[2] };
    let batch = [
        Settlement { held: held[5], outcome: Outcome::Released },
        Settlement { held: held[0], outcome: Outcome::Done },
        Settlement { held: stale, outcome: Outcome::Done },
        Settlement { held: held[3], outcome: dead(2, "dead") },
        Settlement { held: stranger, outcome: Outcome::Done },
        Settlement { held: held[2], outcome: Outcome::Done },
        Settlement { held: held[4], outcome: retry_now(5, "retry") },
    ];
    let settled = probe.settle_all(&batch).await;
    assert_eq!(sorted(settled), sorted(written[2..].to_vec()));

    let mut status = Vec::new();
    for id in &written {
        status.push(probe.find(*id).await.map_or(Status::Done, |row| row.status));
    }
    use Status::{Dead, Done, New, Retry};
    assert_eq!(status, [Dead, New, Done, Dead, Retry, New]);
    assert_eq!(probe.row(written[1]).await.due_at, token_of(&held[1]).due_at(), "still held");
    assert!(probe.settle_all(&[]).await.is_empty());
}
