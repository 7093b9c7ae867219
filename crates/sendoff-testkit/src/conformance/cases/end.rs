//! Whether events are over, for those who wait.

use sendoff_core::{Event, EventId, Status};
use sendoff_engine::store::{EndStore, Horizon, Outcome, RetainStore, Standing};

use crate::conformance::probe::{HOLD, due, event, hold_of, sorted};
use crate::conformance::{Probe, StoreHarness};

impl<H: StoreHarness> Probe<H> {
    async fn standing(&self, ids: &[EventId]) -> Vec<Standing> {
        let mut found = self.store().standing(ids).await.expect("how they stand");
        found.sort_unstable_by_key(|standing| standing.id);
        found
    }

    async fn horizon(&self) -> Option<Horizon> {
        self.store().horizon().await.expect("a horizon")
    }

    async fn pending_within(&self, horizon: Horizon) -> Vec<EventId> {
        sorted(self.store().pending_within(horizon, 100).await.expect("what is pending"))
    }
}

/// Each is told of as it stands, the dead with their last error; what was never committed, or is deleted, is left
/// out.
pub async fn an_event_stands_where_it_was_left<H: StoreHarness>(probe: &Probe<H>) {
    let unknown = event().id();
    let undone = due(event());
    probe.harness().roll_back(std::slice::from_ref(&undone)).await.expect("the row is good");
    let ids = probe.commit_due(4).await;
    let held: Vec<_> = probe.claim_all("node").await.iter().map(hold_of).collect();
    let hold = |id| *held.iter().find(|held| held.id == id).expect("claimed");
    let error = || "it is no use".to_owned();
    let retry = Outcome::Retry { delay: probe.ticks(1), attempts: 1, error: error() };
    assert!(probe.settle(hold(ids[1]), retry).await);
    assert!(probe.settle(hold(ids[2]), Outcome::dead(2, error())).await);
    assert!(probe.settle(hold(ids[3]), Outcome::Done).await);
    let stands = |id, status, error| Standing { id, status, error };
    let mut expected = vec![
        stands(ids[0], Status::New, None),
        stands(ids[1], Status::Retry, None),
        stands(ids[2], Status::Dead, Some(error())),
    ];
    if probe.store().keeps().is_some() {
        expected.push(stands(ids[3], Status::Done, None));
    }
    expected.sort_unstable_by_key(|standing| standing.id);
    let asked = [&ids[..], &[unknown, undone.event.id()]].concat();
    assert_eq!(probe.standing(&asked).await, expected);
    assert_eq!(probe.standing(&[]).await, []);
}

/// Whatever is committed and pending lies within a horizon, held or not, and nothing that comes later; what is
/// over does not.
pub async fn what_was_committed_before_a_horizon_is_within_it<H: StoreHarness>(probe: &Probe<H>) {
    assert_eq!(probe.horizon().await, None);
    let mut ids = probe.commit_due(2).await;
    ids.push(probe.commit_held("writer", HOLD * 10).await.id);
    let (horizon, asked) = probe.timed(probe.horizon()).await;
    let horizon = horizon.expect("something is pending");
    asked.assert_has(horizon.at);
    let later = probe.commit_due(1).await;
    assert_eq!(probe.pending_within(horizon).await, sorted(ids.clone()));
    let some = probe.store().pending_within(horizon, 2).await.expect("what is pending");
    assert_eq!(some.len(), 2);

    let held: Vec<_> = probe.claim_all("node").await.iter().map(hold_of).collect();
    let hold = |id| *held.iter().find(|held| held.id == id).expect("claimed");
    let dead = Outcome::dead(1, "no");
    assert_eq!(probe.pending_within(horizon).await, sorted(ids.clone()), "held is not over");
    assert!(probe.settle(hold(ids[0]), Outcome::Done).await);
    assert!(probe.settle(hold(ids[1]), dead).await);
    assert_eq!(probe.pending_within(horizon).await, [ids[2]]);
    let last = probe.horizon().await.expect("something is pending");
    assert_eq!(probe.pending_within(last).await, sorted(vec![ids[2], later[0]]));
}

/// An event that is still delayed when the horizon is taken is left out; one whose delay is over is not.
pub async fn a_horizon_leaves_out_what_is_still_delayed<H: StoreHarness>(probe: &Probe<H>) {
    let delayed = |ticks| {
        let event = Event::builder("thing.happened").delay(probe.ticks(ticks)).json_text("{}");
        due(event.build().expect("a good event"))
    };
    let (soon, late) = (delayed(2), delayed(1_000));
    let ids = [soon.event.id(), late.event.id()];
    probe.commit(&[soon, late]).await;
    let horizon = probe.horizon().await.expect("both are pending");
    assert_eq!(probe.pending_within(horizon).await, []);
    probe.pass(3).await;
    let horizon = probe.horizon().await.expect("both are pending");
    assert_eq!(probe.pending_within(horizon).await, ids[..1]);
    // A retry is none.
    let held = hold_of(&probe.claim_one("node").await);
    let retry = Outcome::Retry { delay: probe.ticks(1_000), attempts: 1, error: "no".into() };
    assert!(probe.settle(held, retry).await);
    assert_eq!(probe.pending_within(horizon).await, ids[..1]);
}
