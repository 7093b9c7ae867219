//! Delivered events, read once more.

use std::collections::HashSet;
use std::time::Duration;

use sendoff_core::{Event, EventId, ReplayFilter, ReplayPosition, Timestamp};
use sendoff_engine::store::{
    Claim, DoneRow, NewRow, Outcome, ReplayPage, ReplayStore, Replayable, RetainStore, Settlement,
};

use crate::conformance::probe::{due, event, hold_of};
use crate::conformance::{Probe, StoreHarness};

const BYTES: usize = 1_000_000;

impl<H: StoreHarness> Probe<H> {
    /// Delivers everything that is visible, all at once.
    async fn deliver_all(&self) -> usize {
        let claim = Claim::new("node", 1_000, self.ticks(1_000));
        let claimed = self.claim(&claim).await;
        let done = |held| Settlement { held, outcome: Outcome::Done };
        let batch: Vec<_> = claimed.iter().map(|row| done(hold_of(row))).collect();
        assert_eq!(self.settle_all(&batch).await.len(), claimed.len());
        claimed.len() + self.end_runs("node").await
    }

    async fn deliver(&self, rows: &[NewRow]) -> Vec<EventId> {
        self.commit(rows).await;
        assert_eq!(self.deliver_all().await, rows.len());
        rows.iter().map(|row| row.event.id()).collect()
    }

    async fn replayable(&self, page: ReplayPage<'_>) -> Replayable {
        self.store().replayable(&page).await.expect("delivered events")
    }

    /// Everything that a filter means, page by page.
    async fn replayed(&self, page: ReplayPage<'_>) -> Vec<DoneRow> {
        let (mut all, mut after) = (Vec::new(), page.after);
        loop {
            let found = self.replayable(ReplayPage { after, ..page }).await;
            assert!(found.rows.len() <= page.rows);
            all.extend(found.rows);
            after = found.next;
            if after.is_none() {
                return all;
            }
        }
    }

    async fn replayed_ids(&self, filter: &ReplayFilter) -> Vec<EventId> {
        let page = everything(filter);
        let ids = ids(&self.replayed(page).await);
        let (mut counted, mut after) = (0, None);
        loop {
            let page = ReplayPage { after, ..page };
            let tally = self.store().count_replayable(&page).await.expect("a count");
            counted += tally.events;
            after = tally.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(counted, ids.len() as u64, "{filter:?}");
        ids
    }
}

fn everything(filter: &ReplayFilter) -> ReplayPage<'_> {
    let until = Timestamp::from_micros(i64::MAX);
    ReplayPage { filter, after: None, until, rows: 100, bytes: BYTES }
}

fn ids(rows: &[DoneRow]) -> Vec<EventId> {
    rows.iter().map(|row| row.id).collect()
}

/// What is asked for is found, letter by letter, and nothing else; each as it was written, in its order, with when
/// it was delivered.
pub async fn delivered_events_are_found_by_what_is_asked_for<H: StoreHarness>(probe: &Probe<H>) {
    let about = Event::builder("Mail.wanted")
        .aggregate_type("customer")
        .aggregate_id("c'1")
        .tenant_id("tenant_a")
        .ordering_key("Key\\1")
        .header("h", "ü")
        .json_text("{ }")
        .build()
        .expect("a good event");
    let a = probe.deliver(&[due(event())]).await[0];
    probe.harness().pass(Duration::from_millis(2)).await;
    let (b, delivered) = probe.timed(probe.deliver(&[due(about.clone())])).await;
    let b = b[0];
    if probe.store().keeps().is_none() {
        assert!(probe.replayed_ids(&ReplayFilter::default()).await.is_empty(), "they are deleted");
        return;
    }
    let all = ReplayFilter::default();
    assert_eq!(probe.replayed_ids(&all).await, [a, b]);
    let rows = probe.replayed(everything(&all)).await;
    let read = rows[1].event.as_ref().expect("it can be read");
    assert_eq!((read.id(), read.payload()), (b, about.payload()));
    assert_eq!((read.ordering_key(), read.headers()), (about.ordering_key(), about.headers()));
    let row = probe.row(b).await;
    assert_eq!((Some(rows[1].position.done_at), rows[1].created_at), (row.done_at, row.created_at));
    delivered.assert_has(rows[1].position.done_at);

    let text = |text: &str| Some(text.to_owned());
    let (first, second) = (rows[0].position.done_at, rows[1].position.done_at);
    let cases = [
        (ReplayFilter { event_type: text("Mail.wanted"), ..all.clone() }, vec![b]),
        (ReplayFilter { event_type: text("mail.wanted"), ..all.clone() }, vec![]),
        (ReplayFilter { event_type: text("Mail.wante_"), ..all.clone() }, vec![]),
        (ReplayFilter { aggregate_type: text("customer"), ..all.clone() }, vec![b]),
        (ReplayFilter { aggregate_id: text("c'1"), ..all.clone() }, vec![b]),
        (ReplayFilter { tenant_id: text("tenant_a"), ..all.clone() }, vec![b]),
        (ReplayFilter { tenant_id: text("tenant-a"), ..all.clone() }, vec![]),
        (ReplayFilter { ordering_key: text("Key\\1"), ..all.clone() }, vec![b]),
        (ReplayFilter { ordering_key: text("key\\1"), ..all.clone() }, vec![]),
        (ReplayFilter { done_from: Some(second), ..all.clone() }, vec![b]),
        (ReplayFilter { done_to: Some(second), ..all.clone() }, vec![a]),
        (ReplayFilter { done_to: Some(first), ..all.clone() }, vec![]),
        (
            ReplayFilter { event_type: text("Mail.wanted"), tenant_id: text("b"), ..all.clone() },
            vec![],
        ),
    ];
    for (filter, expected) in cases {
        assert_eq!(probe.replayed_ids(&filter).await, expected, "{filter:?}");
    }
    let until = ReplayPage { until: first, ..everything(&all) };
    assert_eq!(ids(&probe.replayed(until).await), [a], "what was delivered later is left out");
}

/// Many were delivered at the same moment: page by page each is there once, those of one settlement by number.
pub async fn pages_of_delivered_events_neither_repeat_nor_miss_any<H: StoreHarness>(
    probe: &Probe<H>,
) {
    let mut expected = Vec::new();
    for count in [9, 1, 13] {
        let rows: Vec<_> = (0..count).map(|_| due(event())).collect();
        expected.extend(probe.deliver(&rows).await);
        probe.harness().pass(Duration::from_millis(2)).await;
    }
    if probe.store().keeps().is_none() {
        return;
    }
    let all = ReplayFilter::default();
    for rows in [1, 4, 23, 24] {
        let page = ReplayPage { rows, ..everything(&all) };
        let found = probe.replayed(page).await;
        assert_eq!(ids(&found), expected, "in pages of {rows}");
        let middle = found[10].position;
        let rest = probe.replayed(ReplayPage { after: Some(middle), ..page }).await;
        assert_eq!(ids(&rest), expected[11..], "from the middle on");
    }
}

/// A page ends before it is too large, and has one event however large that is.
pub async fn a_page_of_delivered_events_is_bounded_in_bytes<H: StoreHarness>(probe: &Probe<H>) {
    let large = |bytes: usize| {
        let payload = format!("\"{}\"", "x".repeat(bytes - 2));
        due(Event::json_text("thing.happened", payload).expect("a good event"))
    };
    let rows: Vec<_> = [40_000, 40_000, 40_000, 300_000, 10].map(large).into();
    let expected = probe.deliver(&rows).await;
    if probe.store().keeps().is_none() {
        return;
    }
    let all = ReplayFilter::default();
    let page = ReplayPage { bytes: 100_000, ..everything(&all) };
    let (mut sizes, mut after) = (Vec::new(), None);
    loop {
        let found = probe.replayable(ReplayPage { after, ..page }).await;
        sizes.push(found.rows.len());
        after = found.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(sizes, [2, 1, 1, 1]);
    assert_eq!(ids(&probe.replayed(page).await), expected);
}

/// Only what is done is delivered again, and looking changes nothing.
pub async fn what_is_not_delivered_is_not_replayed<H: StoreHarness>(probe: &Probe<H>) {
    let done = probe.deliver(&[due(event())]).await;
    probe.commit_due(3).await;
    let held: Vec<_> = probe.claim_all("node").await.iter().map(hold_of).collect();
    let error = || "no".to_owned();
    let retry = Outcome::Retry { delay: probe.ticks(100), attempts: 1, error: error() };
    assert!(probe.settle(held[0], Outcome::dead(1, error())).await);
    assert!(probe.settle(held[1], retry).await);
    let expected = if probe.store().keeps().is_some() { &done[..] } else { &[] };
    let counts = async || {
        use sendoff_engine::store::InspectStore;
        probe.store().counts().await.expect("counts")
    };
    let before = counts().await;
    for _ in 0..2 {
        assert_eq!(probe.replayed_ids(&ReplayFilter::default()).await, expected);
    }
    assert_eq!(counts().await, before);
    assert!(probe.settle(held[2], Outcome::Released).await, "and what is held stays held");
}

/// One call looks at so many rows at most: a page may be empty although there are more.
pub async fn few_among_many_delivered_events_are_found_step_by_step<H: StoreHarness>(
    probe: &Probe<H>,
) {
    for _ in 0..6 {
        let rows: Vec<_> = (0..1_000).map(|_| due(event())).collect();
        probe.deliver(&rows).await;
    }
    let rare = Event::json_text("rare.thing", "{}").expect("a good event");
    let expected = probe.deliver(&[due(rare)]).await;
    if probe.store().keeps().is_none() {
        return;
    }
    let filter = ReplayFilter { event_type: Some("rare.thing".into()), ..ReplayFilter::default() };
    assert_eq!(probe.replayed_ids(&filter).await, expected);
    let all = ReplayFilter::default();
    let found = probe.replayed(ReplayPage { rows: 1_000, ..everything(&all) }).await;
    assert_eq!(found.len(), 6_001);
    let places: HashSet<ReplayPosition> = found.iter().map(|row| row.position).collect();
    assert_eq!(places.len(), found.len());
}
