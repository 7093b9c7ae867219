//! Rows that somebody has locked are answered as busy, and keep no other waiting.

use std::time::Duration;

use sendoff_core::Status;
use sendoff_engine::store::{
    ClaimStore, ExtendInTurn, Held, Outcome, SettleStore, Settlement, StoreError,
};
use tokio::time::timeout;

use crate::conformance::probe::{HOLD, hold_of};
use crate::conformance::{ForeignLock, Probe, StoreHarness};

/// Three held rows, the middle one locked by somebody else.
struct Scene {
    holds: Vec<Held>,
    lock: Box<dyn ForeignLock>,
}

async fn scene<H: StoreHarness>(probe: &Probe<H>) -> Option<Scene> {
    probe.commit_due(3).await;
    let mut claim = probe.claim_by("node");
    // Cases may wait a while for what must not wait.
    claim.hold = probe.ticks(HOLD * 10);
    let holds: Vec<Held> = probe.claim(&claim).await.iter().map(hold_of).collect();
    assert_eq!(holds.len(), 3);
    let lock = probe.harness().lock_row(holds[1].id).await?;
    Some(Scene { holds, lock })
}

/// Long enough for a crowded machine, and far below how long an operator's lock may last.
async fn promptly<T>(statement: impl Future<Output = Result<T, StoreError>>) -> T {
    let answer = timeout(Duration::from_secs(10), statement).await;
    answer.expect("waits for a lock").expect("the statement is good")
}

fn done(held: Held) -> Settlement {
    Settlement { held, outcome: Outcome::Done }
}

/// One locked row is answered as busy at once, and changes nothing for the others (I11).
pub async fn a_locked_row_is_busy_and_the_others_of_its_batch_are_settled<H: StoreHarness>(
    probe: &Probe<H>,
) {
    let Some(Scene { holds, lock }) = scene(probe).await else { return };
    let batch: Vec<Settlement> = holds.iter().copied().map(done).collect();
    let settled = promptly(probe.store().settle(&batch)).await;
    assert_eq!(settled.busy, [holds[1].id]);
    let mut applied = settled.applied;
    applied.sort_unstable();
    let mut others = vec![holds[0].id, holds[2].id];
    others.sort_unstable();
    assert_eq!(applied, others);
    lock.release().await;
    let row = probe.row(holds[1].id).await;
    assert_eq!((row.status, row.locked_by.as_deref()), (Status::New, Some("node")));
}

/// Busy is not decided: the same settlement is good when the lock is gone.
pub async fn a_busy_row_is_settled_by_the_same_token_when_its_lock_is_gone<H: StoreHarness>(
    probe: &Probe<H>,
) {
    let Some(Scene { holds, lock }) = scene(probe).await else { return };
    let settled = promptly(probe.store().settle(&[done(holds[1])])).await;
    assert_eq!((settled.applied, settled.busy), (vec![], vec![holds[1].id]));
    lock.release().await;
    let retry = Outcome::Retry { delay: probe.ticks(1), attempts: 1, error: "late".to_owned() };
    assert!(probe.settle(holds[1], retry).await);
    let row = probe.row(holds[1].id).await;
    assert_eq!((row.status, row.attempts), (Status::Retry, 1));
}

/// An extension passes a locked row by, and its old token still counts.
pub async fn a_locked_row_is_not_extended_and_keeps_its_token<H: StoreHarness>(probe: &Probe<H>) {
    let Some(Scene { holds, lock }) = scene(probe).await else { return };
    let extend = probe.store().extend(&holds, probe.ticks(HOLD * 10));
    let extended = promptly(extend).await;
    assert_eq!(extended.busy, [holds[1].id]);
    assert_eq!(extended.held.len(), 2);
    assert!(extended.held.iter().all(|held| held.id != holds[1].id));
    lock.release().await;
    assert_eq!(probe.extend(&holds[1..2]).await.len(), 1, "by the token it had");
}

/// A claim takes what is free, and waits for nobody.
pub async fn a_locked_row_is_passed_by_when_others_are_claimed<H: StoreHarness>(probe: &Probe<H>) {
    let written = probe.commit_due(3).await;
    let Some(lock) = probe.harness().lock_row(written[0]).await else { return };
    let claim = probe.claim_by("node");
    let claimed = promptly(probe.store().claim(&claim)).await.rows;
    let ids: Vec<_> = claimed.iter().map(|row| row.id).collect();
    assert_eq!(ids, written[1..]);
    lock.release().await;
    assert_eq!(probe.claim_one("node").await.id, written[0]);
}

fn turn<H: StoreHarness>(probe: &Probe<H>, held: Held, patience: Duration) -> ExtendInTurn {
    ExtendInTurn { held, hold: probe.ticks(HOLD * 20), patience }
}

/// Whoever waits for a locked row has it when its lock is gone, and nobody else waits meanwhile (I11).
pub async fn a_locked_row_is_held_again_by_whoever_waits_for_it<H: StoreHarness>(probe: &Probe<H>) {
    let Some(Scene { holds, lock }) = scene(probe).await else { return };
    let waits = probe.store().extend_in_turn(turn(probe, holds[1], Duration::from_secs(8)));
    let meanwhile = async {
        let settled = promptly(probe.store().settle(&[done(holds[0])])).await;
        assert_eq!((settled.applied, settled.busy), (vec![holds[0].id], vec![]));
        lock.release().await;
    };
    let (extended, ()) = tokio::join!(promptly(waits), meanwhile);
    let [renewed] = extended.held[..] else { panic!("{extended:?}") };
    assert_eq!((renewed.id, extended.busy), (holds[1].id, vec![]));
    assert!(!probe.settle(holds[1], Outcome::Done).await, "by the token it had");
    assert!(probe.settle(renewed, Outcome::Done).await);
}

/// The wait for a row is bounded (I10), and changes nothing if it was in vain.
pub async fn a_locked_row_is_waited_for_no_longer_than_asked<H: StoreHarness>(probe: &Probe<H>) {
    let Some(Scene { holds, lock }) = scene(probe).await else { return };
    let waits = probe.store().extend_in_turn(turn(probe, holds[1], Duration::from_secs(1)));
    match timeout(Duration::from_secs(10), waits).await.expect("waits for longer") {
        Ok(extended) => assert_eq!((extended.held, extended.busy), (vec![], vec![holds[1].id])),
        Err(error) => assert!(matches!(error, StoreError::Busy(_)), "{error}"),
    }
    lock.release().await;
    assert!(probe.settle(holds[1], Outcome::Done).await, "by the token it had");
}
