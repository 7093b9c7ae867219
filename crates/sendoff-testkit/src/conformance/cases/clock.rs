//! The database's clock steps back: rows and holds from the time that it was ahead.

use std::time::Duration;

use sendoff_core::{Event, limits};
use sendoff_engine::store::{Claim, ClaimStore, InspectStore, Outcome};
use sendoff_engine::{Outbox, OutboxOptions};

use crate::acceptance::Inbox;
use crate::conformance::probe::{due, event, ids, sorted};
use crate::conformance::{ClockHarness, Probe};
use crate::steps::token_of;
use crate::wait::within;

/// By how much it steps back.
const HOUR: Duration = Duration::from_secs(3_600);
const PLENTY: Duration = Duration::from_secs(60);

/// A hold from before the clock stepped back is ahead of all time to come, until it is rescued.
pub async fn a_hold_from_before_the_clock_stepped_back_is_rescued<H: ClockHarness>(
    probe: &Probe<H>,
) {
    let held = probe.take_one("node").await;
    probe.harness().step_back(HOUR).await;
    assert!(probe.claim_all("node").await.is_empty());
    assert_eq!(probe.store().rescue(probe.ticks(100)).await.expect("rescue"), 1);
    // Created in what is the future now, it is not too young to be claimed either.
    let patient = Claim { skip_recent: probe.ticks(1), ..probe.claim_by("node") };
    assert_eq!(ids(&probe.claim(&patient).await), [held.id]);
}

/// Rows that nobody holds are rescued too: what was written while the clock was ahead is due when it
/// would have been, had it been written now.
pub async fn rows_from_before_the_clock_stepped_back_are_rescued<H: ClockHarness>(
    probe: &Probe<H>,
) {
    let delayed = |ticks| {
        let builder = Event::builder("late").delay(probe.ticks(ticks)).json_text("{}");
        builder.build().expect("an event")
    };
    let rows = [event(), event(), delayed(5), delayed(5_000)].map(due);
    let [first, second, soon, late] = [0, 1, 2, 3].map(|at: usize| rows[at].event.id());
    probe.commit(&rows).await;
    probe.harness().step_back(HOUR).await;
    assert!(probe.claim_all("node").await.is_empty());
    let (rescued, at) = probe.timed(probe.store().rescue(limits::HOLD)).await;
    assert_eq!(rescued.expect("rescue"), 4);
    at.assert_has(probe.row(first).await.created_at);
    at.after(probe.ticks(5_000)).assert_has(probe.row(late).await.due_at);
    assert_eq!(ids(&probe.claim_all("node").await), [first, second], "in their order");
    probe.pass(5).await;
    assert_eq!(ids(&probe.claim_all("node").await), [soon], "after its delay");
    assert_eq!(probe.store().rescue(limits::HOLD).await.expect("rescue"), 0, "once is enough");
}

/// Whoever is in work when it happens loses nothing by it: nobody takes the row meanwhile, the hold
/// can be extended, from now on, and settled.
pub async fn a_holder_keeps_what_it_holds_while_the_clock_steps_back<H: ClockHarness>(
    probe: &Probe<H>,
) {
    let settled = probe.take_one("node").await;
    let extended = probe.take_one("node").await;
    probe.harness().step_back(HOUR).await;
    assert!(probe.claim_all("other").await.is_empty());
    assert!(probe.settle(settled, Outcome::Done).await);
    let (renewed, at) = probe.timed(probe.extend(&[extended])).await;
    assert_eq!(renewed.len(), 1);
    at.after(probe.ticks(10)).assert_has(token_of(&renewed[0]).due_at());
    assert_eq!(probe.store().rescue(limits::HOLD).await.expect("rescue"), 0, "it is as others are");
    assert!(!probe.settle(extended, Outcome::Done).await, "the old token is stale");
    assert!(probe.settle(renewed[0], Outcome::Done).await);
}

/// Fault 14: the clock was an hour ahead, and was put right with rows written, and held by somebody
/// who is gone. A node looks for them when it starts.
pub async fn a_node_delivers_what_was_written_and_held_while_the_clock_was_ahead<
    H: ClockHarness,
>(
    probe: &Probe<H>,
) {
    let mut all = vec![probe.take_one("gone").await.id, probe.commit_held("gone too", 10).await.id];
    all.extend(probe.commit_due(3).await);
    probe.harness().step_back(HOUR).await;
    let inbox = Inbox::new();
    let options =
        OutboxOptions { poll_interval: Duration::from_millis(100), ..OutboxOptions::default() };
    let node = Outbox::builder(probe.store().clone()).options(options);
    let node = node.on(event().event_type(), inbox.clone()).start().await.expect("it starts");
    let over = async || probe.store().counts().await.is_ok_and(|counts| counts.pending() == 0);
    within(PLENTY, "all of them", over).await;
    assert_eq!(inbox.ids(), sorted(all), "each of them once");
    node.close().await;
}
