//! One row, or one batch, in trouble delays no other.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{Delivery, Event, EventId, Failure, Status, limits};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::store::{Claim, ClaimStore, Outcome, Row};
use sendoff_engine::{Counters, HandlerResult, Outbox, OutboxOptions, RetryOptions};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::within;
use tokio::time::{Instant, sleep};

use super::flaky::Flaky;
use super::{EVENT, SECOND, commit, event, options, row};

const PLENTY: usize = 1_000_000;

async fn fill(store: &MemoryStore, count: usize) -> Vec<EventId> {
    let writer = Outbox::writer_only(store.clone());
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(commit(&writer, &event()).await);
    }
    ids
}

fn done(store: &Flaky) -> usize {
    store.table.rows().iter().filter(|row| row.status == Status::Done).count()
}

async fn start(
    store: &Flaky,
    inbox: &Inbox,
    options: OutboxOptions,
) -> (Outbox<Flaky>, Arc<Counters>) {
    let counters = Arc::new(Counters::default());
    let outbox = Outbox::builder(store.clone()).options(options).metrics(counters.clone());
    (outbox.on(EVENT, inbox.clone()).start().await.unwrap(), counters)
}

/// Panics if anything is visible: somebody else would have it then.
async fn assert_all_held(store: &Flaky) {
    let stolen = store.table.claim(&Claim::new("thief", 10, SECOND)).await.unwrap().rows;
    assert!(stolen.is_empty(), "held all along");
}

#[tokio::test(start_paused = true)]
async fn a_row_somebody_has_locked_delays_no_other_and_is_settled_when_it_is_free() {
    let (store, inbox) = (Flaky::default(), Inbox::stepping());
    let ids = fill(&store.table, 50).await;
    let (outbox, counters) = start(&store, &inbox, options()).await;
    within(SECOND, "the claim", async || row(&store.table, ids[7]).locked_by.is_some()).await;
    let lock = store.table.lock_row(ids[7]).unwrap();
    inbox.allow(PLENTY);
    within(SECOND, "the others", async || done(&store) == 49).await;
    // Longer than any hold; what comes meanwhile is done at once.
    for round in 1..=40 {
        fill(&store.table, 1).await;
        within(2 * SECOND, "a new one", async || done(&store) == 49 + round).await;
        sleep(SECOND).await;
    }
    drop(lock);
    within(SECOND, "the locked one", async || done(&store) == 90).await;
    assert_eq!((inbox.received().len(), counters.values().fenced), (90, 0));
    assert!(!outbox.close().await.unsettled);
}

#[tokio::test(start_paused = true)]
async fn a_row_that_is_locked_is_extended_when_it_is_free_and_its_hold_is_not_lost() {
    let (store, inbox) = (Flaky::default(), Inbox::stepping());
    let ids = fill(&store.table, 2).await;
    let (outbox, counters) = start(&store, &inbox, options()).await;
    within(SECOND, "the claim", async || row(&store.table, ids[1]).locked_by.is_some()).await;
    let lock = store.table.lock_row(ids[0]).unwrap();
    sleep(29 * SECOND).await;
    drop(lock);
    for _ in 0..200 {
        sleep(SECOND / 2).await;
        assert_all_held(&store).await;
    }
    inbox.allow(2);
    within(SECOND, "both", async || done(&store) == 2).await;
    assert_eq!((inbox.received().len(), counters.values().fenced), (2, 0));
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn statements_that_take_too_long_are_halved_until_they_fit() {
    let (store, inbox) = (Flaky::default(), Inbox::stepping());
    fill(&store.table, 200).await;
    store.hang_where(|ids| ids.len() > 10);
    let (outbox, counters) =
        start(&store, &inbox, OutboxOptions { workers: 200, ..options() }).await;
    sleep(SECOND).await;
    inbox.allow(200);
    within(60 * SECOND, "all of them", async || done(&store) == 200).await;
    assert_eq!((inbox.received().len(), counters.values().fenced), (200, 0));
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_row_whose_statements_are_never_answered_is_no_outage() {
    let (store, inbox) = (Flaky::default(), Inbox::stepping());
    let poison = fill(&store.table, 64).await[20];
    store.hang_where(move |ids| ids.contains(&poison));
    let (outbox, _) = start(&store, &inbox, OutboxOptions { workers: 64, ..options() }).await;
    sleep(SECOND).await;
    inbox.allow(PLENTY);
    within(45 * SECOND, "the others", async || done(&store) == 63).await;
    for round in 1..=20 {
        fill(&store.table, 1).await;
        within(8 * SECOND, "a new one", async || done(&store) == 63 + round).await;
    }
    store.hang_where(|_| false);
    within(70 * SECOND, "that one", async || done(&store) == 84).await;
    assert_eq!(inbox.received().len(), 84);
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn one_lost_statement_lets_no_hold_run_out() {
    let (store, inbox) = (Flaky::default(), Inbox::stepping());
    let options = OutboxOptions { poller_enabled: false, workers: 64, ..options() };
    let outbox = Outbox::builder(store.clone()).options(options).on("slow", inbox.clone());
    let outbox = outbox.on(EVENT, Inbox::new()).start().await.unwrap();
    for round in 0..20_u32 {
        let mut tx = outbox.begin(()).await.unwrap();
        tx.emit(Event::json("slow", &1).unwrap()).unwrap();
        tx.commit().await.unwrap();
        sleep(SECOND / 2 * (round % 15)).await;
        // Whatever is settled next, at any moment of the others' holds.
        store.hang_next();
        let mut tx = outbox.begin(()).await.unwrap();
        tx.emit(event()).unwrap();
        tx.commit().await.unwrap();
        for _ in 0..50 {
            sleep(SECOND / 5).await;
            assert_all_held(&store).await;
        }
        assert_eq!(done(&store), 1 + round as usize, "the lost one was sent again");
    }
    inbox.allow(PLENTY);
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_success_the_database_will_not_record_is_counted_and_ends() {
    let (store, inbox) = (Flaky::default(), Inbox::new());
    let refused = fill(&store.table, 8).await[3];
    store.refuse_where(move |id, outcome| id == refused && *outcome == Outcome::Done);
    let options = OutboxOptions {
        retry: RetryOptions { max: SECOND, max_attempts: 3, ..RetryOptions::default() },
        ..options()
    };
    let (outbox, _) = start(&store, &inbox, options).await;
    within(2 * SECOND, "the others", async || done(&store) == 7).await;
    let dead = async || row(&store.table, refused).status == Status::Dead;
    // What was delivered is not delivered again as long as the refusal may be a passing one.
    sleep(25 * SECOND).await;
    assert_eq!(inbox.received().len(), 8, "each once");
    within(180 * SECOND, "the end of it", dead).await;
    let row = row(&store.table, refused);
    assert_eq!(row.attempts, 3);
    let error = row.last_error.unwrap();
    assert_eq!(error, "the database refused to record a delivery: told to refuse");
    assert_eq!(inbox.received().iter().filter(|delivery| delivery.id() == refused).count(), 3);
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn an_event_about_which_nothing_can_be_written_is_delivered_seldom() {
    let (store, inbox) = (Flaky::default(), Inbox::new());
    store.refuse(fill(&store.table, 8).await[3]);
    let (outbox, _) = start(&store, &inbox, options()).await;
    within(2 * SECOND, "the others", async || done(&store) == 7).await;
    sleep(limits::HOLD - 10 * SECOND).await;
    assert_eq!(inbox.received().len(), 8, "each once");
    sleep(90 * SECOND).await;
    assert_eq!(inbox.received().len(), 9, "and again");
    sleep(90 * SECOND).await;
    assert!(!outbox.close().await.unsettled);
}

#[tokio::test(start_paused = true)]
async fn an_error_text_the_database_cannot_encode_is_stored_in_plain_characters() {
    async fn fail(_: Delivery) -> HandlerResult {
        Err(Failure::retry("costs 5 \u{20ac}\0, naïve"))
    }
    let store = Flaky::default();
    let ids = fill(&store.table, 4).await;
    store.refuse_strange_text();
    let options = OutboxOptions {
        retry: RetryOptions { base: 60 * SECOND, ..RetryOptions::default() },
        ..options()
    };
    let outbox =
        Outbox::builder(store.clone()).options(options).on(EVENT, fail).start().await.unwrap();
    for id in ids {
        within(2 * SECOND, "it", async || row(&store.table, id).status == Status::Retry).await;
        let row = row(&store.table, id);
        assert_eq!((row.attempts, row.last_error.as_deref()), (1, Some("costs 5 ? , na?ve")));
    }
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn releases_have_their_turn_under_endless_completions() {
    let (store, inbox) = (Flaky::default(), Inbox::new());
    // Statements take so long that there is always a completion when one is answered.
    store.take(SECOND / 20);
    let options = OutboxOptions { poller_enabled: false, hot_capacity: 20, ..options() };
    let (outbox, counters) = start(&store, &inbox, options).await;
    let began = Instant::now();
    while began.elapsed() < 5 * SECOND {
        let mut tx = outbox.begin(()).await.unwrap();
        for _ in 0..30 {
            tx.emit(event()).unwrap();
        }
        tx.commit().await.unwrap();
        sleep(Duration::from_millis(20)).await;
    }
    let counted = counters.values();
    assert!(counted.hot_dropped > 1_000 && counted.hot_enqueued > 1_000, "{counted:?}");
    let rows = store.table.rows();
    let late = |row: &&Row| row.locked_by.is_some() && row.status == Status::New;
    let held = rows.iter().filter(late).count();
    assert!(held < 200, "{held} of {} are still held", rows.len());
    assert_eq!(counted.unreleased, 0);
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_locked_row_does_not_keep_a_close_from_releasing_the_others() {
    let (store, inbox) = (Flaky::default(), Inbox::stepping());
    let ids = fill(&store.table, 20).await;
    let (outbox, _) = start(&store, &inbox, options()).await;
    within(SECOND, "the claim", async || row(&store.table, ids[0]).locked_by.is_some()).await;
    let _lock = store.table.lock_row(ids[0]).unwrap();
    inbox.allow(1);
    sleep(SECOND).await;
    assert!(outbox.close().await.unsettled, "one is locked to the end");
    let held = store.table.rows().iter().filter(|row| row.locked_by.is_some()).count();
    assert_eq!(held, 1);
}
