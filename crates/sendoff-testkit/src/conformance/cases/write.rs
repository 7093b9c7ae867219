//! Rows as they are inserted: times, order, tokens.

use sendoff_core::limits::BATCH_ROWS;
use sendoff_core::{Event, EventId, Status};
use sendoff_engine::capture::WriteError;
use sendoff_engine::store::{Counts, Held, InspectStore};

use crate::conformance::probe::{due, event, held, ids};
use crate::conformance::{Probe, StoreHarness};
use crate::steps::token_of;

/// A transaction that is rolled back was never there. Holds W2.
pub async fn a_rolled_back_write_leaves_nothing<H: StoreHarness>(probe: &Probe<H>) {
    let rows = [due(event()), held(event(), "writer", probe.ticks(5))];
    let born = probe.harness().roll_back(&rows).await.expect("the rows are good");
    let token = born[1].token.expect("born held");

    assert!(probe.find(rows[0].event.id()).await.is_none());
    assert!(probe.find(rows[1].event.id()).await.is_none());
    assert!(probe.confirm(&[Held::row(rows[1].event.id(), token)]).await.is_empty());
    probe.pass(10).await;
    assert!(probe.claim_all("node").await.is_empty());
    assert_eq!(probe.store().counts().await.expect("counts"), Counts::default());
}

/// A row begins NEW, untried, unheld and due. Holds W2 and S1.
pub async fn a_new_row_is_new_untried_and_due<H: StoreHarness>(probe: &Probe<H>) {
    let new = due(event());
    let (born, written) = probe.timed(probe.commit(std::slice::from_ref(&new))).await;
    let row = probe.row(new.event.id()).await;

    assert_eq!(born[0].token, None);
    assert_eq!(born[0].created_at, row.created_at);
    written.assert_has(row.created_at);
    written.assert_has(row.due_at);
    assert_eq!((row.status, row.attempts), (Status::New, 0));
    assert_eq!((row.done_at, row.last_error, row.locked_by), (None, None, None));
}

/// No poller sees a row whose writer means to deliver it, until the grace is over. Holds S5.
pub async fn a_row_born_held_is_invisible_until_its_grace_is_over<H: StoreHarness>(
    probe: &Probe<H>,
) {
    let hold = probe.commit_held("writer", 5).await;
    assert!(probe.claim_all("node").await.is_empty());
    assert!(probe.claim_all("writer").await.is_empty(), "not even its own");
    probe.pass(5).await;
    assert_eq!(ids(&probe.claim_all("node").await), [hold.id]);
}

/// The writer's token is the due time that was stored, and the row names the writer. Holds S5.
pub async fn a_row_born_held_names_its_holder_and_token<H: StoreHarness>(probe: &Probe<H>) {
    let (hold, written) = probe.timed(probe.commit_held("writer", 5)).await;
    let row = probe.row(hold.id).await;
    assert_eq!(row.due_at, token_of(&hold).due_at());
    written.after(probe.ticks(5)).assert_has(row.due_at);
    assert_eq!(row.locked_by.as_deref(), Some("writer"));
    assert_eq!((row.status, row.attempts), (Status::New, 0));
}

/// A delay counts from the write, by the store's clock. Holds E12.
pub async fn a_delayed_row_is_visible_when_its_delay_is_over<H: StoreHarness>(probe: &Probe<H>) {
    let delay = probe.ticks(5);
    let delayed = Event::builder("late").delay(delay).json_text("{}").build().expect("an event");
    let id = delayed.id();
    let (born, written) = probe.timed(probe.commit(&[due(delayed)])).await;
    assert_eq!(born[0].token, None, "a delay is not a hold");
    written.after(delay).assert_has(probe.row(id).await.due_at);

    assert!(probe.claim_all("node").await.is_empty());
    probe.pass(5).await;
    let claimed = probe.claim_one("node").await;
    assert_eq!((claimed.id, claimed.lost), (id, false));
}

/// Many rows in one write, more than fit one statement, keep their order. Holds W5.
pub async fn rows_of_one_write_keep_their_order<H: StoreHarness>(probe: &Probe<H>) {
    // Ids that descend, so that an order by id would show.
    let mut rows: Vec<_> = (0..BATCH_ROWS + 100).map(|_| due(event())).collect();
    rows.reverse();
    probe.commit(&rows).await;
    let written: Vec<EventId> = rows.iter().map(|row| row.event.id()).collect();

    let mut claimed = Vec::new();
    loop {
        let batch = probe.claim_all("node").await;
        if batch.is_empty() {
            break;
        }
        claimed.extend(ids(&batch));
        // A store that does not hold what it hands out would go on for ever.
        assert!(claimed.len() <= written.len(), "more rows than were written");
    }
    assert!(claimed == written, "{} rows were claimed in another order", claimed.len());
}

/// An id is written once; a write that repeats one leaves nothing of itself. Holds W5.
pub async fn a_duplicate_id_is_refused_with_its_whole_write<H: StoreHarness>(probe: &Probe<H>) {
    let first = due(event());
    probe.commit(std::slice::from_ref(&first)).await;
    let (bystander, twice) = (due(event()), due(event()));
    let mut writes = vec![vec![twice.clone(), twice.clone()]];
    if probe.harness().ids_are_unique_for_good() {
        writes.push(vec![bystander.clone(), first.clone()]);
    }
    for rows in writes {
        let refused = probe.harness().commit(&rows).await;
        assert!(matches!(refused, Err(WriteError::DuplicateId)), "{refused:?}");
    }
    assert!(probe.find(bystander.event.id()).await.is_none());
    assert!(probe.find(twice.event.id()).await.is_none());
    assert_eq!(probe.store().counts().await.expect("counts").new, 1);
}

/// A write of nothing is one.
pub async fn a_write_of_nothing_is_no_error<H: StoreHarness>(probe: &Probe<H>) {
    assert!(probe.commit(&[]).await.is_empty());
}
