//! Holders that vanish: their attempts are counted, and suspects kept apart.

use sendoff_engine::store::{Claim, Claimed, Outcome, Suspects};

use crate::conformance::probe::{HOLD, hold_of, ids};
use crate::conformance::{Probe, StoreHarness};

/// Whoever takes over from a vanished holder counts the attempt nobody else can. Holds S5.
pub async fn a_row_lost_by_a_vanished_holder_counts_one_attempt<H: StoreHarness>(probe: &Probe<H>) {
    let id = probe.take_one("vanished").await.id;
    probe.pass(HOLD).await;
    let claimed = probe.claim_one("node").await;
    assert_eq!((claimed.id, claimed.attempts, claimed.lost), (id, 1, true));
    let row = probe.row(id).await;
    assert_eq!((row.attempts, row.locked_by.as_deref()), (1, Some("node")));
}

/// A writer that vanished before it delivered is a vanished holder too.
pub async fn a_row_born_held_by_a_vanished_writer_is_lost<H: StoreHarness>(probe: &Probe<H>) {
    probe.commit_held("vanished", 5).await;
    probe.pass(5).await;
    let claimed = probe.claim_one("node").await;
    assert_eq!((claimed.attempts, claimed.lost), (1, true));
}

/// A node that let its own hold run out did not vanish.
pub async fn a_row_lost_by_its_claimer_is_not_counted<H: StoreHarness>(probe: &Probe<H>) {
    probe.take_one("node").await;
    probe.pass(HOLD).await;
    let claimed = probe.claim_one("node").await;
    assert_eq!((claimed.attempts, claimed.lost), (0, false));
}

/// What was released in order was not lost.
pub async fn a_settled_row_is_not_lost<H: StoreHarness>(probe: &Probe<H>) {
    let held = probe.take_one("one").await;
    assert!(probe.settle(held, Outcome::Released).await);
    let claimed = probe.claim_one("two").await;
    assert_eq!((claimed.attempts, claimed.lost), (0, false));

    let retry = Outcome::Retry { delay: probe.ticks(0), attempts: 1, error: "no".to_owned() };
    assert!(probe.settle(hold_of(&claimed), retry).await);
    probe.pass(1).await;
    let claimed = probe.claim_one("three").await;
    assert_eq!((claimed.attempts, claimed.lost), (1, false), "nor is it a suspect");
}

/// From its second loss on a row is claimed only by whoever asks for suspects.
pub async fn a_row_lost_twice_is_a_suspect<H: StoreHarness>(probe: &Probe<H>) {
    let id = probe.take_one("one").await.id;
    let only = |owner| Claim { suspects: Suspects::Only, ..probe.claim_by(owner) };
    probe.pass(HOLD).await;
    assert!(probe.claim(&only("two")).await.is_empty(), "one loss does not make a suspect");
    assert_eq!(ids(&probe.claim_all("two").await), [id]);

    probe.pass(HOLD).await;
    let neighbour = probe.commit_due(1).await[0];
    assert_eq!(ids(&probe.claim_all("three").await), [neighbour]);
    let suspects = probe.claim(&only("three")).await;
    assert_eq!(ids(&suspects), [id]);
    assert_eq!((suspects[0].attempts, suspects[0].lost), (2, true));
}

/// Ordinary failures are nobody's crash: a row that failed and was then lost once is no suspect, and
/// a settlement wipes the slate.
pub async fn failures_do_not_make_a_suspect<H: StoreHarness>(probe: &Probe<H>) {
    let held = probe.take_one("one").await;
    let retry = Outcome::Retry { delay: probe.ticks(0), attempts: 5, error: "no".to_owned() };
    assert!(probe.settle(held, retry.clone()).await);
    probe.pass(1).await;
    for (owner, attempts) in [("two", 5), ("three", 6)] {
        let claimed = probe.claim_one(owner).await;
        assert_eq!((claimed.attempts, claimed.lost), (attempts, owner == "three"));
        assert_eq!(probe.row(held.id).await.losses, u32::from(claimed.lost));
        probe.pass(HOLD).await;
    }
    let claimed = probe.claim(&Claim { suspects: Suspects::Only, ..probe.claim_by("four") }).await;
    assert_eq!(ids(&claimed), [held.id], "lost twice in a row by now");
    assert!(probe.settle(hold_of(&claimed[0]), retry).await);
    assert_eq!(probe.row(held.id).await.losses, 0);
    probe.pass(1).await;
    assert_eq!(ids(&probe.claim_all("five").await), [held.id]);
}

/// Putting a suspect off does not clear it.
pub async fn a_released_suspect_stays_one<H: StoreHarness>(probe: &Probe<H>) {
    stays_a_suspect(probe, |_| Outcome::Released).await;
}

/// A row that was lost twice, put back by this outcome, is lost twice still.
pub(super) async fn stays_a_suspect<H: StoreHarness>(
    probe: &Probe<H>,
    outcome: impl Fn(&Claimed) -> Outcome,
) {
    let id = probe.take_one("one").await.id;
    probe.pass(HOLD).await;
    probe.claim_one("two").await;
    probe.pass(HOLD).await;
    let only = |owner| Claim { suspects: Suspects::Only, ..probe.claim_by(owner) };
    let claimed = probe.claim(&only("three")).await;
    assert!(probe.settle(hold_of(&claimed[0]), outcome(&claimed[0])).await);
    assert!(probe.claim_all("four").await.is_empty());
    let again = probe.claim(&only("four")).await;
    assert_eq!(ids(&again), [id]);
    assert_eq!((again[0].attempts, again[0].lost), (2, false), "and counts nothing");
}

/// To the node that holds it, its own row is never a suspect.
pub async fn a_row_is_no_suspect_to_its_own_holder<H: StoreHarness>(probe: &Probe<H>) {
    probe.take_one("one").await;
    probe.pass(HOLD).await;
    assert!(probe.claim_one("two").await.lost);
    probe.pass(HOLD).await;
    let only = Claim { suspects: Suspects::Only, ..probe.claim_by("two") };
    assert!(probe.claim(&only).await.is_empty());
    let claimed = probe.claim_one("two").await;
    assert_eq!((claimed.attempts, claimed.lost), (1, false));
}
