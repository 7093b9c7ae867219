//! What a claim takes: visible rows, in order, once, within its limits.

use std::collections::BTreeSet;

use sendoff_core::{Event, EventId};
use sendoff_engine::store::{Claim, EventKind, Except, Outcome, Suspects};

use crate::conformance::probe::{HOLD, due, event, hold_of, ids};
use crate::conformance::{Probe, StoreHarness};
use crate::steps::token_of;

/// Oldest due first, and no more than asked for. Holds S4.
pub async fn a_claim_takes_the_oldest_due_up_to_its_limit<H: StoreHarness>(probe: &Probe<H>) {
    let mut written = Vec::new();
    for _ in 0..3 {
        written.extend(probe.commit_due(2).await);
        probe.pass(1).await;
    }
    let two = Claim { limit: 2, ..probe.claim_by("node") };
    assert_eq!(ids(&probe.claim(&two).await), written[..2]);
    assert_eq!(ids(&probe.claim_all("node").await), written[2..]);
}

/// A row that failed stands where its new due time puts it. Holds S4.
pub async fn a_retry_is_claimed_in_the_order_of_its_due_time<H: StoreHarness>(probe: &Probe<H>) {
    let first = probe.take_one("node").await;
    let retry = Outcome::Retry { delay: probe.ticks(4), attempts: 1, error: "no".to_owned() };
    assert!(probe.settle(first, retry).await);
    probe.pass(1).await;
    let second = probe.take_one("node").await;
    assert_ne!(second.id, first.id, "the first is not due yet");
    assert!(probe.settle(second, Outcome::Released).await);
    probe.pass(3).await;
    assert_eq!(ids(&probe.claim_all("node").await), [second.id, first.id]);
}

/// The claim's answer is what the row says: token, owner, times. Holds S5.
pub async fn a_claim_names_its_token_and_the_row_its_holder<H: StoreHarness>(probe: &Probe<H>) {
    let id = probe.commit_due(1).await[0];
    let (claimed, at) = probe.timed(probe.claim_one("node")).await;
    let row = probe.row(id).await;

    assert_eq!((claimed.id, claimed.attempts, claimed.lost), (id, 0, false));
    assert_eq!(claimed.created_at, row.created_at);
    at.assert_has(claimed.claimed_at);
    at.after(probe.ticks(HOLD)).assert_has(token_of(&claimed.held()).due_at());
    assert_eq!(row.due_at, token_of(&claimed.held()).due_at());
    assert_eq!(row.locked_by.as_deref(), Some("node"));
    assert_eq!(row.attempts, 0);
}

/// A hold keeps others away for as long as it lasts, and no longer. Holds S5.
pub async fn a_held_row_is_not_claimed_again_until_its_hold_is_over<H: StoreHarness>(
    probe: &Probe<H>,
) {
    let first = probe.take_one("one").await;
    assert!(probe.claim_all("two").await.is_empty());
    assert!(probe.claim_all("one").await.is_empty());
    probe.pass(HOLD).await;
    let second = hold_of(&probe.claim_one("two").await);
    assert_eq!(second.id, first.id);
    assert_ne!(token_of(&second), token_of(&first));
}

/// Claimers that race for the same rows share them out. Holds S5.
pub async fn concurrent_claimers_never_share_a_row<H: StoreHarness>(probe: &Probe<H>) {
    let written: BTreeSet<EventId> = probe.commit_due(200).await.into_iter().collect();
    let claimers: Vec<_> = ["one", "two", "three", "four"]
        .into_iter()
        .map(|owner| {
            let probe = probe.clone();
            tokio::spawn(async move {
                let seven = Claim { limit: 7, ..probe.claim_by(owner) };
                let mut mine = Vec::new();
                loop {
                    let batch = probe.claim(&seven).await;
                    if batch.is_empty() {
                        return mine;
                    }
                    assert!(batch.len() <= 7);
                    mine.extend(ids(&batch));
                    assert!(mine.len() <= 200, "more rows than were written");
                }
            })
        })
        .collect();
    let mut claimed = Vec::new();
    for claimer in claimers {
        claimed.extend(claimer.await.expect("a claimer does not panic"));
    }
    // A claimer may see nothing while the others hold the last rows locked; none is left for good.
    claimed.extend(ids(&probe.claim_all("last").await));
    assert_eq!(claimed.len(), written.len(), "none twice");
    assert_eq!(claimed.into_iter().collect::<BTreeSet<_>>(), written);
}

/// Nothing visible, or nothing asked for, is an empty answer.
pub async fn a_claim_of_nothing_is_empty<H: StoreHarness>(probe: &Probe<H>) {
    assert!(probe.claim_all("node").await.is_empty());
    probe.commit_due(1).await;
    assert!(probe.claim(&Claim { limit: 0, ..probe.claim_by("node") }).await.is_empty());
    assert_eq!(probe.claim_all("node").await.len(), 1);
}

/// Rows younger than asked are left alone. Holds S4.
pub async fn young_rows_are_skipped_when_asked<H: StoreHarness>(probe: &Probe<H>) {
    let old = probe.commit_due(1).await[0];
    probe.pass(5).await;
    let young = probe.commit_due(1).await[0];
    let patient = Claim { skip_recent: probe.ticks(5), ..probe.claim_by("node") };
    assert_eq!(ids(&probe.claim(&patient).await), [old]);
    probe.pass(5).await;
    assert_eq!(ids(&probe.claim(&patient).await), [young]);
}

/// A window leaves older rows alone, and without it they are found. Holds L9.
pub async fn a_window_narrows_a_claim_to_rows_created_within_it<H: StoreHarness>(probe: &Probe<H>) {
    let old = probe.commit_due(1).await[0];
    probe.pass(6).await;
    let young = probe.commit_due(1).await[0];
    let narrow = Claim { window: Some(probe.ticks(4)), ..probe.claim_by("node") };
    assert_eq!(ids(&probe.claim(&narrow).await), [young]);
    assert!(probe.claim(&narrow).await.is_empty());
    assert_eq!(ids(&probe.claim_all("node").await), [old]);
}

/// What is done or dead stays so. Holds S3 and S4.
pub async fn terminal_rows_are_never_claimed<H: StoreHarness>(probe: &Probe<H>) {
    probe.commit(&[due(event()), due(event())]).await;
    let claimed = probe.claim_all("node").await;
    assert!(probe.settle(hold_of(&claimed[0]), Outcome::Done).await);
    let dead = Outcome::dead(1, "no");
    assert!(probe.settle(hold_of(&claimed[1]), dead).await);
    probe.pass(HOLD * 2).await;
    assert!(probe.claim_all("node").await.is_empty());
}

/// Rows of so many bytes each.
pub(super) fn heavy(bytes: usize) -> Event {
    Event::builder("heavy").bytes(vec![7; bytes]).build().expect("an event")
}

/// What fits in bytes, in the order of claims; but always one row, however large.
pub async fn a_claim_is_bounded_in_bytes<H: StoreHarness>(probe: &Probe<H>) {
    let rows: Vec<_> = [4_000, 4_000, 4_000, 20_000, 1].map(heavy).map(due).into();
    let written: Vec<_> = rows.iter().map(|row| row.event.id()).collect();
    probe.commit(&rows).await;
    let bounded = Claim { bytes: 10_000, ..probe.claim_by("node") };
    assert_eq!(ids(&probe.claim(&bounded).await), written[..2]);
    assert_eq!(ids(&probe.claim(&bounded).await), written[2..3]);
    assert_eq!(ids(&probe.claim(&bounded).await), written[3..4], "too large, and alone");
    assert_eq!(ids(&probe.claim(&bounded).await), written[4..]);
    let none = Claim { bytes: 0, ..probe.claim_by("node") };
    let last = probe.commit_due(2).await;
    assert_eq!(ids(&probe.claim(&none).await), last[..1]);
}

/// A claim that is told where to begin leaves what is due earlier alone.
pub async fn a_claim_begins_where_it_is_told<H: StoreHarness>(probe: &Probe<H>) {
    let early = probe.commit_due(2).await;
    probe.pass(1).await;
    let from = probe.row(probe.commit_due(1).await[0]).await.due_at;
    let late = Claim { from: Some(from), ..probe.claim_by("node") };
    let claimed = probe.claim(&late).await;
    assert_eq!((claimed.len(), claimed[0].was_due), (1, from), "what is due at that time is in");
    assert!(probe.claim(&late).await.is_empty());
    assert_eq!(ids(&probe.claim_all("node").await), early);
}

/// A claim leaves kinds of events alone that it is told to, suspects too; nothing is written to them.
pub async fn a_claim_leaves_out_the_kinds_it_is_told_to<H: StoreHarness>(probe: &Probe<H>) {
    let of = |(aggregate, event_type): (&'static str, &'static str)| {
        due(Event::builder(event_type)
            .aggregate(aggregate, "1")
            .json(&1)
            .build()
            .expect("an event"))
    };
    let kinds = [("x", "a"), ("x", "A"), ("y", "a"), ("x", "a "), ("it's", "\""), ("x", "a")];
    let rows = kinds.map(of);
    let id = |at: usize| rows[at].event.id();
    let kind = |at: usize| EventKind::of(&rows[at].event);
    let nobodys = EventKind { aggregate_type: "a", event_type: "x" };
    probe.commit(&rows).await;
    let except = [kind(0), kind(4), nobodys];
    let others = Claim { except: Except::kinds(&except), ..probe.claim_by("one") };
    let two = Claim { limit: 2, ..others };
    assert_eq!(ids(&probe.claim(&two).await), [id(1), id(2)]);
    assert_eq!(ids(&probe.claim(&others).await), [id(3)]);
    assert!(probe.claim(&others).await.is_empty());
    assert_eq!(probe.row(id(0)).await.locked_by, None);
    assert_eq!(ids(&probe.claim_all("one").await), [id(0), id(4), id(5)]);

    probe.pass(HOLD).await;
    assert_eq!(probe.claim_all("two").await.len(), rows.len());
    probe.pass(HOLD).await;
    let suspects = |kinds| Claim {
        suspects: Suspects::Only,
        except: Except::kinds(kinds),
        ..probe.claim_by("three")
    };
    let most = [kind(0), kind(1), kind(2), kind(3)];
    assert_eq!(ids(&probe.claim(&suspects(&most)).await), [id(4)]);
    assert!(probe.claim(&Claim { suspects: Suspects::Skip, ..suspects(&most) }).await.is_empty());
    assert_eq!(probe.claim(&suspects(&[])).await.len(), rows.len() - 1);
}

/// No stored count stops a claim of the others.
pub async fn counts_at_their_bound_stop_no_claim<H: StoreHarness>(probe: &Probe<H>) {
    let worn = probe.take_one("node").await;
    let most = i32::MAX.unsigned_abs();
    let retry = Outcome::Retry { delay: probe.ticks(0), attempts: most, error: "no".to_owned() };
    assert!(probe.settle(worn, retry).await);
    probe.pass(1).await;
    assert_eq!(probe.claim_one("vanished").await.attempts, most);
    probe.pass(HOLD).await;
    let other = probe.commit_due(1).await[0];
    let claimed = probe.claim_all("node").await;
    assert_eq!(ids(&claimed), [worn.id, other]);
    assert!(claimed[0].lost && claimed[0].attempts >= most);
    assert!(probe.row(worn.id).await.attempts >= most);
}
