use std::collections::VecDeque;
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};

use sendoff_core::journal::{Fact, Position, Recorded};
use sendoff_core::{Event, FailureClass, Lane, Origin, Timestamp, Verdict};

use super::*;

/// What opening leads to, one after the other; the last goes on.
#[derive(Clone, Copy)]
enum Opens {
    Well,
    Refused,
    Never,
    Wrong,
}

#[derive(Clone, Default)]
struct Target {
    script: Arc<Mutex<VecDeque<Opens>>>,
    opened: Arc<AtomicUsize>,
    at_once: Arc<AtomicUsize>,
    dead: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
}

impl Target {
    fn then(&self, script: &[Opens]) {
        *self.script.lock().unwrap() = script.iter().copied().collect();
    }
}

#[async_trait]
impl Connect for Target {
    type Conn = usize;

    async fn open(&self) -> Result<usize, Trouble> {
        assert_eq!(self.at_once.fetch_add(1, Ordering::SeqCst), 0, "one attempt at a time");
        let next = {
            let mut script = self.script.lock().unwrap();
            if script.len() > 1 { script.pop_front() } else { script.front().copied() }
        };
        tokio::time::sleep(Duration::from_millis(10)).await;
        let number = self.opened.fetch_add(1, Ordering::SeqCst) + 1;
        if matches!(next, Some(Opens::Never)) {
            self.at_once.store(0, Ordering::SeqCst);
            pending::<()>().await;
        }
        self.at_once.store(0, Ordering::SeqCst);
        match next {
            None | Some(Opens::Well) => Ok(number),
            Some(Opens::Wrong) => Err(Misconfigured::new("test.password", "was refused").into()),
            _ => Err(Trouble::unavailable("connection refused")),
        }
    }

    fn is_open(&self, conn: &usize) -> bool {
        self.dead.load(Ordering::SeqCst) != *conn
    }

    async fn close(&self, _: Arc<usize>) {
        self.closed.fetch_add(1, Ordering::SeqCst);
    }
}

async fn started(script: &[Opens]) -> (Target, Link<Target>) {
    let target = Target::default();
    target.then(script);
    let options = LinkOptions { batches_in_flight: 2, ..LinkOptions::default() };
    let link = Link::start("test", target.clone(), options).await.unwrap();
    (target, link)
}

/// A batch of two that is taken.
async fn deliver(link: &Link<Target>) -> Vec<Verdict> {
    let slate = Slate::new(2);
    let all = &slate;
    link.carry(&slate, |_| async move {
        all.done(0);
        all.done(1);
        Ok(())
    })
    .await;
    slate.verdicts()
}

fn is_unavailable(verdict: &Verdict) -> bool {
    let class = verdict.as_ref().map_err(Failure::class);
    matches!(class, Err(FailureClass::Unavailable { .. }))
}

async fn is_down(link: &Link<Target>) -> bool {
    let verdicts = deliver(link).await;
    assert_eq!(verdicts.len(), 2);
    verdicts.iter().all(is_unavailable)
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_opened_once_and_kept() {
    let (target, link) = started(&[]).await;
    let batches = (0..5).map(|_| deliver(&link));
    for batch in futures(batches).await {
        assert!(batch.iter().all(Result::is_ok));
    }
    assert_eq!(target.opened.load(Ordering::SeqCst), 1);
}

/// All of them at once, on this task.
async fn futures<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut running: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        for (future, ended) in running.iter_mut().filter(|(_, ended)| ended.is_none()) {
            if let std::task::Poll::Ready(value) = future.as_mut().poll(context) {
                *ended = Some(value);
            }
        }
        match running.iter().all(|(_, ended)| ended.is_some()) {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
    running.into_iter().filter_map(|(_, ended)| ended).collect()
}

#[tokio::test(start_paused = true)]
async fn a_target_that_is_unavailable_is_no_reason_not_to_start_and_is_tried_with_a_back_off() {
    let (target, link) = started(&[Opens::Refused]).await;
    assert!(!link.is_healthy());
    let begun = Instant::now();
    let mut attempts = Vec::new();
    while begun.elapsed() < Duration::from_secs(120) {
        let before = target.opened.load(Ordering::SeqCst);
        assert!(is_down(&link).await);
        if target.opened.load(Ordering::SeqCst) > before {
            attempts.push(begun.elapsed());
            assert!(!link.is_healthy(), "not while it waits");
        }
        tokio::time::advance(Duration::from_millis(10)).await;
    }
    // It doubles from 0.1 to 10 s: about 7 attempts until then, and 12 in the two minutes after that.
    assert!((12..40).contains(&attempts.len()), "{attempts:?}");
    assert!(attempts[0] < Duration::from_millis(200), "{attempts:?}");
    let gaps = attempts.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(gaps.max().unwrap() < Duration::from_secs(16), "{attempts:?}");
    target.then(&[Opens::Well]);
    tokio::time::advance(Duration::from_secs(15)).await;
    assert!(link.is_healthy() && !is_down(&link).await);
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_at_start_is_an_error_and_what_is_wrong_later_waits() {
    let target = Target::default();
    target.then(&[Opens::Wrong]);
    let error = Link::start("test", target, LinkOptions::default()).await.unwrap_err();
    assert_eq!(error.path(), "test.password");

    let (target, link) = started(&[Opens::Well, Opens::Wrong, Opens::Well]).await;
    target.dead.store(1, Ordering::SeqCst);
    let verdicts = deliver(&link).await;
    assert!(verdicts.iter().all(is_unavailable));
    let told = verdicts[0].as_ref().unwrap_err().report();
    assert_eq!(told, "test.password: was refused");
    tokio::time::advance(MISCONFIGURED_FOR).await;
    assert!(!is_down(&link).await, "somebody put it right");
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_not_answered_ends_at_its_deadline_and_costs_the_connection() {
    let (target, link) = started(&[]).await;
    let (begun, slate) = (Instant::now(), Slate::new(3));
    let all = &slate;
    link.carry(&slate, |_| async move {
        all.done(1);
        pending().await
    })
    .await;
    assert_eq!(begun.elapsed(), LinkOptions::default().deliver_within);
    let verdicts = slate.verdicts();
    assert!(verdicts[1].is_ok() && is_unavailable(&verdicts[0]) && is_unavailable(&verdicts[2]));
    assert!(!link.is_healthy());
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(!is_down(&link).await);
    assert_eq!(target.opened.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn an_opening_that_hangs_ends_in_time() {
    let (_, link) = started(&[Opens::Never]).await;
    let begun = Instant::now();
    tokio::time::advance(Duration::from_secs(1)).await;
    assert!(is_down(&link).await);
    assert!(begun.elapsed() <= Duration::from_secs(12), "{:?}", begun.elapsed());
}

/// Otherwise it would begin again at once, for ever.
#[tokio::test(start_paused = true)]
async fn an_opening_that_takes_longer_than_a_batch_may_is_followed_by_a_back_off() {
    let target = Target::default();
    target.then(&[Opens::Well, Opens::Never]);
    let deliver_within = Duration::from_secs(1);
    let options = LinkOptions { deliver_within, ..LinkOptions::default() };
    let link = Link::start("test", target.clone(), options).await.unwrap();
    target.dead.store(1, Ordering::SeqCst);
    let begun = Instant::now();
    assert!(is_down(&link).await && begun.elapsed() == deliver_within);
    assert!(!link.is_healthy());
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_fails_the_rest_of_its_batch_and_not_its_successor() {
    let (target, link) = started(&[]).await;
    let lose = async |link: &Link<Target>, wait: u64| {
        let slate = Slate::new(1);
        link.carry(&slate, |_| async move {
            tokio::time::sleep(Duration::from_secs(wait)).await;
            Err(Trouble::unavailable("reset"))
        })
        .await;
        assert!(is_unavailable(&slate.verdicts()[0]));
    };
    let late = link.clone();
    let late = tokio::spawn(async move { lose(&late, 5).await });
    tokio::task::yield_now().await;
    lose(&link, 0).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!is_down(&link).await);
    late.await.unwrap();
    // It had the connection before this one.
    assert!(link.is_healthy() && !is_down(&link).await);
    assert_eq!(target.opened.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn no_more_batches_are_in_flight_than_may_be() {
    let (_, link) = started(&[]).await;
    let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (now, most) = (&now, &most);
    let batches = (0..6).map(|_| async {
        let slate = Slate::new(1);
        let all = &slate;
        link.carry(&slate, |_| async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(1)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            all.done(0);
            Ok(())
        })
        .await;
        slate.verdicts().remove(0).is_ok()
    });
    assert!(futures(batches).await.into_iter().all(|done| done));
    assert_eq!(most.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_what_is_in_flight_and_takes_no_more() {
    let (target, link) = started(&[]).await;
    let slow = link.clone();
    let slow = tokio::spawn(async move {
        let slate = Slate::new(1);
        let all = &slate;
        slow.carry(&slate, |_| async move {
            tokio::time::sleep(Duration::from_secs(3)).await;
            all.done(0);
            Ok(())
        })
        .await;
        slate.verdicts().remove(0).is_ok()
    });
    tokio::task::yield_now().await;
    let begun = Instant::now();
    assert!(link.close().await);
    assert_eq!(begun.elapsed(), Duration::from_secs(3));
    assert!(slow.await.unwrap());
    assert_eq!(target.closed.load(Ordering::SeqCst), 1);
    assert!(is_down(&link).await && !link.is_healthy());
}

#[tokio::test(start_paused = true)]
async fn closing_does_not_wait_for_ever() {
    let (_, link) = started(&[]).await;
    let stuck = link.clone();
    let stuck = tokio::spawn(async move {
        let slate = Slate::new(1);
        stuck.carry(&slate, |_| pending()).await;
    });
    tokio::task::yield_now().await;
    let begun = Instant::now();
    assert!(!link.close().await);
    assert_eq!(begun.elapsed(), LinkOptions::default().close_within);
    stuck.abort();
}

/// Others that came before it have all of them.
#[tokio::test(start_paused = true)]
async fn a_batch_that_waits_for_its_turn_in_vain_says_so() {
    let (_, link) = started(&[]).await;
    let batches = (0..3).map(|number| {
        let link = &link;
        async move {
            // The first one comes last, and is the first to see that its time is over: the connection is up by then.
            if number == 0 {
                tokio::task::yield_now().await;
            }
            let slate = Slate::new(1);
            link.carry(&slate, |_| pending()).await;
            slate.verdicts().remove(0).unwrap_err().report()
        }
    });
    let told = futures(batches).await;
    assert!(told[0].starts_with("too many batches are under way"), "{told:?}");
    assert!(told[1].starts_with("the target did not answer"), "{told:?}");
}

fn facts(count: i64) -> Vec<Delivery> {
    let fact = |number: i64| {
        let position = Position::try_from(number + 1).unwrap();
        let fact = Fact::builder(("a", "1")).build().unwrap();
        let recorded = Recorded { position, recorded_at: Timestamp::now(), fact };
        Delivery::of_fact(&Arc::new(recorded), 1)
    };
    (0..count).map(fact).collect()
}

fn rows(count: usize) -> Vec<Delivery> {
    let row = |_| Delivery {
        event: Event::builder("a").bytes("1").build().unwrap(),
        created_at: Timestamp::now(),
        attempt: 1,
        origin: Origin::Row(Lane::Cold),
    };
    (0..count).map(row).collect()
}

/// Delivers them to a target that takes a second for what it is given at once, refuses one, and is lost by another. Answers
/// with the verdicts, and what was given at once.
async fn given(
    link: &Link<Target>,
    deliveries: &[Delivery],
    refuses: Option<usize>,
    is_lost_by: Option<usize>,
) -> (Vec<Verdict>, Vec<Vec<usize>>) {
    let (slate, events) = Slate::encoded(deliveries, |_| Ok::<_, Closed>(()));
    let (all, given) = (&slate, &Mutex::new(Vec::new()));
    let work = |_, events: Vec<(usize, ())>| async move {
        let places: Vec<_> = events.into_iter().map(|(at, ())| at).collect();
        given.lock().unwrap().push(places.clone());
        tokio::time::sleep(Duration::from_secs(1)).await;
        for at in places {
            match () {
                () if is_lost_by == Some(at) => return Err(Trouble::unavailable("reset")),
                () if refuses == Some(at) => all.settle(at, Err(Failure::retry("full"))),
                () => all.done(at),
            }
        }
        Ok(())
    };
    link.carry_all(&slate, deliveries, events, work).await;
    let given = given.lock().unwrap().clone();
    (slate.verdicts(), given)
}

#[tokio::test(start_paused = true)]
async fn the_first_fact_that_is_not_taken_ends_its_batch() {
    let (_, link) = started(&[]).await;
    let (verdicts, given_at_once) = given(&link, &facts(4), Some(1), None).await;
    assert_eq!(given_at_once, [[0], [1]]);
    assert!(verdicts.len() == 2 && verdicts[0].is_ok(), "{verdicts:?}");
    assert_eq!(verdicts[1].as_ref().unwrap_err().class(), FailureClass::Retry);
    assert!(link.is_healthy());

    let (verdicts, given_at_once) = given(&link, &facts(4), None, Some(1)).await;
    assert_eq!(given_at_once, [[0], [1]]);
    assert!(verdicts.len() == 2 && verdicts[0].is_ok() && is_unavailable(&verdicts[1]));
}

/// Each waits for the target: all of them might not be answered in the time of a batch.
#[tokio::test(start_paused = true)]
async fn facts_are_begun_for_a_tenth_of_the_time_and_the_others_are_not_tried() {
    let (target, link) = started(&[]).await;
    let (verdicts, given_at_once) = given(&link, &facts(100), None, None).await;
    assert_eq!(given_at_once, [[0], [1], [2]]);
    assert!(verdicts.len() == 3 && verdicts.iter().all(Result::is_ok), "{verdicts:?}");
    assert!(link.is_healthy());
    assert_eq!(target.opened.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn events_of_an_outbox_go_side_by_side_and_facts_only_where_that_is_asked_for() {
    let (target, link) = started(&[]).await;
    let (verdicts, given_at_once) = given(&link, &rows(3), Some(1), None).await;
    assert_eq!(given_at_once, [[0, 1, 2]]);
    assert!(verdicts.len() == 3 && verdicts[2].is_ok());

    let options = LinkOptions { facts_side_by_side: true, ..LinkOptions::default() };
    let link = Link::start("test", target, options).await.unwrap();
    let (verdicts, given_at_once) = given(&link, &facts(3), Some(1), None).await;
    assert_eq!(given_at_once, [[0, 1, 2]]);
    assert!(verdicts.len() == 3 && verdicts[2].is_ok());
}

#[test]
fn options_name_the_field_that_is_wrong() {
    let options = LinkOptions { batches_in_flight: 0, ..LinkOptions::default() };
    let error = options.check("kafka.link").unwrap_err().to_string();
    assert_eq!(error, "kafka.link.batches_in_flight: is 0; it must be from 1 to 10000");
    let options = LinkOptions { reopen_after_most: Duration::ZERO, ..LinkOptions::default() };
    assert_eq!(options.check("k").unwrap_err().path(), "k.reopen_after_most");
}

/// Three deliveries: of facts, or of rows of an outbox.
fn three(of_facts: bool) -> Vec<Delivery> {
    let event = || Event::builder("e").bytes("").build().unwrap();
    let fact = |position| {
        let fact = Fact::builder(event()).build().unwrap();
        let position = Position::new(position).unwrap();
        let recorded = Recorded { position, recorded_at: Timestamp::now(), fact };
        Delivery::of_fact(&Arc::new(recorded), 1)
    };
    let row = |_| Delivery {
        event: event(),
        created_at: Timestamp::now(),
        attempt: 1,
        origin: Origin::Row(Lane::Cold),
    };
    if of_facts { [1, 2, 3].map(fact).into() } else { [1, 2, 3].map(row).into() }
}

/// Holds J6.
#[test]
fn of_facts_none_after_one_that_cannot_be_encoded_is_sent() {
    for of_facts in [true, false] {
        let deliveries = three(of_facts);
        let mut number = 0;
        let (slate, encoded) = Slate::encoded(&deliveries, |_| {
            number += 1;
            if number == 2 { Err("no such field") } else { Ok(()) }
        });
        let places: Vec<_> = encoded.iter().map(|(at, ())| *at).collect();
        assert_eq!(places, if of_facts { vec![0] } else { vec![0, 2] });
        slate.done(0);
        let verdicts = slate.verdicts();
        let class = |at: usize| verdicts[at].as_ref().err().map(Failure::class);
        assert_eq!((class(0), class(1)), (None, Some(FailureClass::Dead)));
        assert_eq!(is_unavailable(&verdicts[2]), of_facts);
    }
}
