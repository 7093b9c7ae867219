//! Replays: in order per key, paced, bounded in what fails, and without a trace.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::order::{AfterDead, Ending};
use sendoff_core::{
    AuditNote, Delivery, Event, EventId, Failure, LetterFate, Origin, ReplayFilter, ReplayMark,
};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::store::{
    Claim, ClaimStore, Except, HeldKey, InspectStore, KeyStore, Outcome, RunEnd, RunsWanted,
    SettleStore, Settlement, StoreError, Suspects, TakeKeys, WalkFrom,
};
use sendoff_engine::{
    OnReplayFailure, Outbox, Replay, ReplayError, ReplayFault, ReplayOptions, ReplayRefused,
    Replayed,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::flaky::Flaky;
use super::{SECOND, commit};

fn keyed(key: Option<&str>, number: usize) -> Event {
    let mut event = Event::builder("order.placed");
    if let Some(key) = key {
        event = event.ordering_key(key);
    }
    event.json(&number).build().unwrap()
}

/// Delivers whatever is due, at one moment.
async fn deliver_all(store: &MemoryStore) {
    let claimed = store.claim(&Claim::new("a", 1_000, SECOND)).await.unwrap().rows;
    let done = |held| Settlement { held, outcome: Outcome::Done };
    let batch: Vec<_> = claimed.iter().map(|row| done(row.held())).collect();
    store.settle(&batch).await.unwrap();
    end_runs(store, |_| Outcome::Done).await;
}

/// The same of what is in line, each as `outcome` says.
async fn end_runs(store: &MemoryStore, outcome: impl Fn(EventId) -> Outcome) {
    let take = TakeKeys {
        owner: "a",
        limit: 1_000,
        run: 1_000,
        hold: SECOND,
        except: Except::NOTHING,
        suspects: Suspects::Skip,
        walk: Some(WalkFrom { after: 0, rows: 1_000 }),
    };
    let keys = store.take_keys(&take).await.unwrap().keys;
    let runs = store.runs(&RunsWanted { keys: &keys, bytes: usize::MAX }).await.unwrap();
    for (key, run) in keys.into_iter().zip(runs) {
        let rows = run.rows.iter().map(|row| (row.id, outcome(row.id))).collect();
        let held = HeldKey { key: key.key, token: key.token };
        let end = RunEnd { held, rows, ending: Ending::Exhausted };
        store.settle_runs("a", &[end]).await.unwrap();
    }
}

/// A store with so many delivered events of each of these keys, and of none.
async fn delivered(keys: &[Option<&str>], count: usize) -> MemoryStore {
    let store = MemoryStore::new();
    let outbox = Outbox::writer_only(store.clone());
    for number in 0..count {
        for key in keys {
            commit(&outbox, &keyed(*key, number)).await;
        }
        deliver_all(&store).await;
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    store
}

/// What a handler saw, in order.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<Delivery>>>);

impl Seen {
    fn note(&self, delivery: &Delivery) {
        self.0.lock().unwrap().push(delivery.clone());
    }

    fn ids(&self) -> Vec<EventId> {
        self.0.lock().unwrap().iter().map(|delivery| delivery.id()).collect()
    }

    fn numbers_of(&self, key: Option<&str>) -> Vec<usize> {
        let seen = self.0.lock().unwrap();
        let of_key = seen.iter().filter(|delivery| delivery.ordering_key() == key);
        of_key.map(|delivery| delivery.read_json().unwrap()).collect()
    }
}

fn replay(store: &MemoryStore, options: ReplayOptions) -> Replay {
    let outbox = Outbox::writer_only(store.clone());
    outbox.replay(ReplayFilter::default(), options).unwrap()
}

/// Runs a replay with a handler that notes what it gets, and takes so long for each.
async fn run(replay: &Replay, seen: &Seen, time: Duration) -> Result<Replayed, ReplayError> {
    let seen = seen.clone();
    let handler = move |delivery: Delivery| {
        let seen = seen.clone();
        async move {
            tokio::time::sleep(time).await;
            seen.note(&delivery);
            Ok(())
        }
    };
    replay.run(handler).await
}

/// Keys side by side, each by its numbers; what has no key in the order in which it was delivered; and each delivery
/// says what it is.
/// Holds L11.
#[tokio::test(start_paused = true)]
async fn keys_are_replayed_side_by_side_and_each_in_order() {
    let keys = [Some("a"), None, Some("b")];
    let store = delivered(&keys, 50).await;
    for page in [7, 500] {
        let (seen, begun) = (Seen::default(), Instant::now());
        let options = ReplayOptions { page, ..ReplayOptions::default() };
        let replayed = run(&replay(&store, options), &seen, SECOND).await.unwrap();
        assert_eq!((replayed.delivered, replayed.late, replayed.finished), (150, 0, true));
        for key in keys {
            assert_eq!(seen.numbers_of(key), (0..50).collect::<Vec<_>>(), "{key:?}");
        }
        let took = begun.elapsed().as_secs();
        assert!((50..=75).contains(&took), "three at once, not one after the other: {took} s");
        let seen = seen.0.lock().unwrap();
        assert!(seen.iter().all(|delivery| delivery.is_replay() && delivery.attempt == 1));
        assert!(
            matches!(seen[0].origin, Origin::Replay { done_at } if done_at >= seen[0].created_at)
        );
        assert_eq!(seen[0].lane(), None);
    }
}

/// Nothing is written, counted or claimed, whatever the handler does.
#[tokio::test(start_paused = true)]
async fn a_replay_leaves_no_trace() {
    let store = delivered(&[Some("a")], 3).await;
    commit(&Outbox::writer_only(store.clone()), &keyed(Some("a"), 9)).await;
    let rows = || {
        let rows = store.rows();
        rows.into_iter().map(|row| format!("{row:?}")).collect::<Vec<_>>()
    };
    let (before, topics) = (rows(), store.topics().await.unwrap());
    let options = ReplayOptions { on_failure: OnReplayFailure::Skip, ..ReplayOptions::default() };
    let refuses = |_: Delivery| async { Err(Failure::dead("no")) };
    let replayed = replay(&store, options).run(refuses).await.unwrap();
    assert_eq!((replayed.delivered, replayed.skipped), (0, 3), "what is pending is none");
    assert_eq!((rows(), store.topics().await.unwrap()), (before, topics));
}

/// A replay sees what was delivered before it began, also one that goes on; so it ends.
#[tokio::test(start_paused = true)]
async fn what_is_delivered_meanwhile_is_left_out() {
    let store = delivered(&[None], 5).await;
    let outbox = Outbox::writer_only(store.clone());
    let handler = {
        let store = store.clone();
        move |_: Delivery| {
            let (store, outbox) = (store.clone(), outbox.clone());
            async move {
                tokio::time::sleep(SECOND).await;
                commit(&outbox, &keyed(None, 1)).await;
                deliver_all(&store).await;
                Ok(())
            }
        }
    };
    let options = ReplayOptions { page: 2, limit: Some(3), ..ReplayOptions::default() };
    let first = replay(&store, options.clone()).run(handler.clone()).await.unwrap();
    assert_eq!((first.delivered, first.finished), (3, false));
    let options = ReplayOptions { from: first.mark, limit: None, ..options };
    let rest = replay(&store, options);
    assert_eq!(rest.dry_run().await.unwrap().counted(), 2);
    let rest = rest.run(handler).await.unwrap();
    assert_eq!((rest.delivered, rest.finished), (2, true));
}

#[tokio::test(start_paused = true)]
async fn a_replay_keeps_its_rate() {
    let store = delivered(&[Some("a"), Some("b")], 10).await;
    let (seen, begun) = (Seen::default(), Instant::now());
    let options = ReplayOptions { per_second: Some(5), ..ReplayOptions::default() };
    run(&replay(&store, options), &seen, Duration::ZERO).await.unwrap();
    let took = begun.elapsed();
    assert!((Duration::from_millis(3_700)..=4 * SECOND).contains(&took), "{took:?}");
}

/// Told to stop, it ends after the runs that are under way, and goes on from its mark: nothing is missed.
#[tokio::test(start_paused = true)]
async fn a_replay_that_was_stopped_goes_on_from_its_printed_mark() {
    let store = delivered(&[Some("a"), Some("b"), None], 20).await;
    let (seen, stop) = (Seen::default(), CancellationToken::new());
    let mut from: Option<ReplayMark> = None;
    let mut rounds = 0;
    loop {
        rounds += 1;
        let options = ReplayOptions { from, page: 8, ..ReplayOptions::default() };
        let stop = if rounds < 4 { stop.child_token() } else { CancellationToken::new() };
        let replay = replay(&store, options).on_progress({
            let stop = stop.clone();
            move |so_far| {
                if so_far.delivered == 13 && rounds < 4 {
                    stop.cancel();
                }
            }
        });
        let seen = seen.clone();
        let handler = move |delivery: Delivery| {
            let seen = seen.clone();
            // Keys at different speeds.
            let time = if delivery.ordering_key() == Some("a") { 3 * SECOND } else { SECOND };
            async move {
                tokio::time::sleep(time).await;
                seen.note(&delivery);
                Ok(())
            }
        };
        let replayed = replay.run_until(handler, stop.cancelled()).await.unwrap();
        from = replayed.mark.map(|mark| mark.to_string().parse().unwrap());
        if replayed.finished {
            break;
        }
    }
    assert_eq!(rounds, 4);
    let mut times: HashMap<EventId, usize> = HashMap::new();
    seen.ids().into_iter().for_each(|id| *times.entry(id).or_default() += 1);
    assert_eq!(times.len(), 60, "nothing is missed");
    let again: usize = times.values().map(|times| times - 1).sum();
    assert!(again <= 24, "no more than was after a mark: {again}");
}

/// An event is tried again a few times, and then stops the replay; the mark is before it.
#[tokio::test(start_paused = true)]
async fn an_event_that_fails_stops_the_replay_at_its_place() {
    let store = delivered(&[Some("a"), Some("b")], 10).await;
    let tries = Arc::new(Mutex::new(Vec::new()));
    let handler = {
        let tries = tries.clone();
        move |delivery: Delivery| {
            let bad = (delivery.ordering_key(), delivery.read_json::<usize>().unwrap());
            if bad == (Some("a"), 4) {
                tries.lock().unwrap().push((Instant::now(), delivery.attempt));
            }
            let bad = bad == (Some("a"), 4);
            async move { if bad { Err(Failure::retry("no such order")) } else { Ok(()) } }
        }
    };
    let options = ReplayOptions { page: 6, ..ReplayOptions::default() };
    let error = replay(&store, options).run(handler).await.unwrap_err();
    let ReplayFault::Handler(failure) = &error.source else { panic!("{error:?}") };
    assert_eq!((failure.attempts, failure.error.as_str()), (3, "no such order"));
    assert_eq!(failure.id, store.rows()[8].event.id());
    let tries = tries.lock().unwrap();
    assert_eq!(tries.iter().map(|(_, attempt)| *attempt).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(tries[2].0 - tries[1].0, 2 * SECOND);
    let so_far = error.so_far;
    assert!(!so_far.finished);
    let (mark, before) = (so_far.mark.unwrap(), store.rows()[7].clone());
    assert_eq!(Some(mark.after.done_at), before.done_at);
    assert_eq!(mark.after.seq, failure.position.seq - 1);
}

/// What fails for good can be left out, and is reported; a target that is unavailable is one of the reasons, and is
/// not waited for without an end.
#[tokio::test(start_paused = true)]
async fn what_fails_is_skipped_where_that_is_asked_for_and_reported() {
    let store = delivered(&[None], 300).await;
    let handler = |delivery: Delivery| async move {
        match delivery.read_json::<usize>()? % 2 {
            0 => Ok(()),
            _ => Err(Failure::unavailable(SECOND, "away")),
        }
    };
    let options = ReplayOptions {
        on_failure: OnReplayFailure::Skip,
        max_attempts: 2,
        retry_after: Duration::ZERO,
        ..ReplayOptions::default()
    };
    let replayed = replay(&store, options).run(handler).await.unwrap();
    assert_eq!((replayed.delivered, replayed.skipped, replayed.finished), (150, 150, true));
    assert_eq!(replayed.failures.len(), 100, "a report is bounded");
    assert_eq!((replayed.failures[0].attempts, replayed.failures[0].error.as_str()), (2, "away"));
}

/// A handler that panics or hangs is one that fails.
#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_or_hangs_ends_nothing_but_its_event() {
    let store = delivered(&[None], 4).await;
    let handler = |delivery: Delivery| async move {
        match delivery.read_json::<usize>()? {
            1 => panic!("oh no"),
            2 => std::future::pending().await,
            _ => Ok(()),
        }
    };
    let options = ReplayOptions {
        on_failure: OnReplayFailure::Skip,
        max_attempts: 1,
        timeout: Some(SECOND),
        ..ReplayOptions::default()
    };
    let replayed = replay(&store, options).run(handler).await.unwrap();
    let errors: Vec<&str> = replayed.failures.iter().map(|failure| &*failure.error).collect();
    assert_eq!(errors, ["panicked: oh no", "handler did not finish within 1s"]);
    assert_eq!((replayed.delivered, replayed.finished), (2, true));
}

/// An event that was delivered after a later one of its key comes in order on its page, and is counted where it is on
/// another; one that cannot be read is counted, and no more.
#[tokio::test(start_paused = true)]
async fn what_was_delivered_late_or_cannot_be_read_is_counted() {
    let store = MemoryStore::new();
    let outbox = Outbox::writer_only(store.clone());
    let late = commit(&outbox, &keyed(Some("a"), 0)).await;
    // Dead and skipped, so that the others go on without it.
    let skipped = Outcome::Dead { attempts: 1, error: "no".into(), then: AfterDead::Skip };
    end_runs(&store, |_| skipped.clone()).await;
    for number in 1..4 {
        commit(&outbox, &keyed(Some("a"), number)).await;
        deliver_all(&store).await;
        tokio::time::advance(SECOND).await;
    }
    let note = AuditNote::new("ada", "mended").unwrap();
    let requeued = outbox.dead_letters().requeue(&[late], &note).await.unwrap();
    assert_eq!(requeued, [(late, LetterFate::Done)]);
    deliver_all(&store).await;
    let seen = Seen::default();
    let one_page = run(&replay(&store, ReplayOptions::default()), &seen, SECOND).await.unwrap();
    assert_eq!((seen.numbers_of(Some("a")), one_page.late), (vec![0, 1, 2, 3], 0));
    let seen = Seen::default();
    let options = ReplayOptions { page: 2, ..ReplayOptions::default() };
    let pages = run(&replay(&store, options), &seen, SECOND).await.unwrap();
    assert_eq!((seen.numbers_of(Some("a")), pages.late), (vec![1, 2, 0, 3], 1));
    assert!(store.spoil(late));
    let spoiled = run(&replay(&store, ReplayOptions::default()), &seen, SECOND).await.unwrap();
    assert_eq!((spoiled.delivered, spoiled.unreadable, spoiled.finished), (3, 1, true));
}

/// Counted up to a bound, and it is said whether that is all.
#[tokio::test(start_paused = true)]
async fn a_dry_run_says_how_many_and_whether_that_is_all() {
    let store = delivered(&[None, Some("a")], 10).await;
    let all = replay(&store, ReplayOptions::default());
    assert_eq!(all.dry_run().await.unwrap().to_string(), "20");
    assert_eq!(all.dry_run_up_to(19).await.unwrap().to_string(), "at least 19");
    let filter = ReplayFilter { ordering_key: Some("a".into()), ..ReplayFilter::default() };
    let of_key = Outbox::writer_only(store).replay(filter, ReplayOptions::default()).unwrap();
    assert_eq!(of_key.dry_run().await.unwrap().to_string(), "10");
}

/// A database that does not answer ends it, with what was done and where to go on.
#[tokio::test(start_paused = true)]
async fn a_replay_that_loses_its_database_says_where_it_was() {
    let flaky = Flaky::over(delivered(&[None], 10).await);
    let options = ReplayOptions { page: 4, ..ReplayOptions::default() };
    let replay = Replay::new(Arc::new(flaky.clone()), ReplayFilter::default(), options).unwrap();
    let replay = replay.on_progress({
        let flaky = flaky.clone();
        move |so_far| flaky.set_down(so_far.delivered >= 4)
    });
    let error = replay.run(|_: Delivery| async { Ok(()) }).await.unwrap_err();
    assert!(matches!(error.source, ReplayFault::Store(StoreError::Unavailable(_))), "{error:?}");
    assert_eq!((error.so_far.delivered, error.so_far.mark.is_some()), (4, true));
}

/// A store that deletes what is delivered has nothing to replay, and says what to do.
#[tokio::test(start_paused = true)]
async fn where_nothing_is_kept_a_replay_is_refused() {
    let outbox = Outbox::writer_only(MemoryStore::new().deleting_when_done());
    let refused = outbox.replay(ReplayFilter::default(), ReplayOptions::default()).unwrap_err();
    assert!(matches!(refused, ReplayRefused::NothingKept));
    let told = refused.to_string();
    assert!(told.contains("DeleteWhenDone") && told.contains("Retention::Keep"), "{told}");
    let outbox = Outbox::writer_only(MemoryStore::new());
    let filter = ReplayFilter { tenant_id: Some("a\n".into()), ..ReplayFilter::default() };
    let refused = outbox.replay(filter, ReplayOptions::default()).unwrap_err();
    assert!(matches!(refused, ReplayRefused::Filter(_)), "{refused:?}");
}
