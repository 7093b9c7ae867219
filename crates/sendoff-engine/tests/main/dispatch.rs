//! From a lane to a handler and what follows: interceptors, routing, failures, time limits.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use sendoff_core::{Delivery, Event, Failure, Status, Unroutable};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::{
    After, AnyHandler, Before, Handler, HandlerOptions, HandlerResult, Interceptor, Outbox,
    OutboxBuilder, OutboxOptions, RetryOptions, StartError, blocking,
};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::{eventually, within};
use tokio::time::Instant;

use super::{EVENT, SECOND, commit, event, options, row};

type Log = Arc<Mutex<Vec<String>>>;

struct Noting(&'static str, Log);

impl Interceptor for Noting {
    fn before(&self, _: &Delivery) -> Result<(), Failure> {
        self.1.lock().unwrap().push(format!("{} before", self.0));
        Ok(())
    }

    fn after(
        &self,
        _: &Delivery,
        failure: Option<&Failure>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let end = failure.map_or("well".to_owned(), Failure::report);
        self.1.lock().unwrap().push(format!("{} after: {end}", self.0));
        Err("swallowed".into())
    }
}

fn builder(inbox: &Inbox) -> OutboxBuilder<MemoryStore> {
    Outbox::builder(MemoryStore::new()).options(options()).on(EVENT, inbox.clone())
}

async fn ends(outbox: &Outbox<MemoryStore>, event: &Event, status: Status) {
    let id = commit(outbox, event).await;
    let ended = async || row(outbox.store(), id).status == status;
    within(600 * SECOND, "the event to end", ended).await;
}

/// Holds D4.
#[tokio::test(start_paused = true)]
async fn interceptors_run_in_order_before_and_in_reverse_after() {
    let (log, inbox) = (Log::default(), Inbox::new());
    let outbox = builder(&inbox)
        .intercept(Noting("a", log.clone()))
        .intercept(Noting("b", log.clone()))
        .start()
        .await
        .unwrap();
    ends(&outbox, &event(), Status::Done).await;
    assert_eq!(*log.lock().unwrap(), ["a before", "b before", "b after: well", "a after: well"]);
}

/// Holds D4, D14.
#[tokio::test(start_paused = true)]
async fn an_error_before_ends_the_attempt_and_the_handler_never_runs() {
    let (log, inbox) = (Log::default(), Inbox::new());
    let outbox = builder(&inbox)
        .intercept(Noting("a", log.clone()))
        .intercept(Before(|_: &Delivery| Err(Failure::dead("not today"))))
        .start()
        .await
        .unwrap();
    ends(&outbox, &event(), Status::Dead).await;
    assert!(inbox.received().is_empty());
    assert_eq!(*log.lock().unwrap(), ["a before", "a after: not today"]);
}

/// Holds D14, D4.
#[tokio::test(start_paused = true)]
async fn an_interceptor_can_be_a_closure_for_after_alone_and_its_panic_is_swallowed() {
    let (calls, inbox) = (Arc::new(AtomicUsize::new(0)), Inbox::new());
    let counted = calls.clone();
    let outbox = builder(&inbox)
        .intercept(After(move |_: &Delivery, _: Option<&Failure>| {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(())
        }))
        .intercept(After(|_: &Delivery, _: Option<&Failure>| std::panic::panic_any("told to")))
        .start()
        .await
        .unwrap();
    ends(&outbox, &event(), Status::Done).await;
    assert_eq!((calls.load(Ordering::SeqCst), inbox.received().len()), (1, 1));
}

/// Holds D6.
#[tokio::test(start_paused = true)]
async fn an_event_without_a_handler_is_dead_at_once_retried_or_put_off() {
    let start = async |unroutable| {
        let options = OutboxOptions {
            handler: HandlerOptions { unroutable, ..HandlerOptions::default() },
            retry: RetryOptions { max_attempts: 2, ..RetryOptions::default() },
            ..options()
        };
        Outbox::builder(MemoryStore::new()).options(options).start().await.unwrap()
    };
    let dead = start(Unroutable::Dead).await;
    let unheard = event();
    ends(&dead, &unheard, Status::Dead).await;
    let ended = row(dead.store(), unheard.id());
    assert_eq!(ended.attempts, 1);
    assert_eq!(ended.last_error.as_deref(), Some("no handler for (__GLOBAL__, order.placed)"));

    let retried = start(Unroutable::Retry).await;
    let id = commit(&retried, &unheard).await;
    eventually("a retry", async || row(retried.store(), id).status == Status::Retry).await;

    let begun = Instant::now();
    let put_off = start(Unroutable::Defer { delay: 10 * SECOND, at_most: 60 * SECOND }).await;
    ends(&put_off, &unheard, Status::Dead).await;
    let took = begun.elapsed();
    assert!((60 * SECOND..75 * SECOND).contains(&took), "{took:?}");
}

/// Holds D8.
#[tokio::test(start_paused = true)]
async fn no_more_handlers_run_at_once_than_there_are_workers() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let handler = {
        let (running, most) = (running.clone(), most.clone());
        move |_: Delivery| {
            let (running, most) = (running.clone(), most.clone());
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(SECOND).await;
                running.fetch_sub(1, Ordering::SeqCst);
                Ok(())
            }
        }
    };
    let options = OutboxOptions { workers: 3, ..options() };
    let outbox =
        Outbox::builder(MemoryStore::new()).options(options).on(EVENT, handler).start().await;
    let outbox = outbox.unwrap();
    let mut tx = outbox.begin(outbox.store()).await.unwrap();
    for _ in 0..20 {
        tx.emit(event()).unwrap();
    }
    tx.commit().await.unwrap();
    let done = async || outbox.store().rows().iter().all(|row| row.status == Status::Done);
    eventually("all of them", done).await;
    assert_eq!(most.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_hangs_is_timed_out_and_frees_its_slot() {
    let handler = |delivery: Delivery| async move {
        if delivery.attempt == 1 { std::future::pending().await } else { Ok(()) }
    };
    let options = OutboxOptions {
        workers: 1,
        handler: HandlerOptions { timeout: Some(2 * SECOND), ..HandlerOptions::default() },
        ..options()
    };
    let outbox =
        Outbox::builder(MemoryStore::new()).options(options).on(EVENT, handler).start().await;
    let outbox = outbox.unwrap();
    let stuck = event();
    ends(&outbox, &stuck, Status::Done).await;
    let row = row(outbox.store(), stuck.id());
    assert_eq!(row.attempts, 1);
    assert_eq!(row.last_error.as_deref(), Some("handler did not finish within 2s"));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_fails_one_attempt_and_nobody_else() {
    let handler = |delivery: Delivery| async move {
        if delivery.attempt == 1 {
            std::panic::panic_any("told to");
        }
        Ok(())
    };
    let options = OutboxOptions { workers: 1, ..options() };
    let outbox =
        Outbox::builder(MemoryStore::new()).options(options).on(EVENT, handler).start().await;
    let outbox = outbox.unwrap();
    let shaky = event();
    ends(&outbox, &shaky, Status::Done).await;
    assert_eq!(row(outbox.store(), shaky.id()).last_error.as_deref(), Some("panicked: told to"));
}

#[tokio::test]
async fn handlers_come_as_functions_closures_types_objects_and_blocking_ones() {
    async fn function(_: Delivery) -> HandlerResult {
        Ok(())
    }
    struct Type;
    impl Handler for Type {
        async fn handle(&self, delivery: Delivery) -> HandlerResult {
            delivery.read_json::<u32>()?;
            Ok(())
        }
    }
    let object: AnyHandler = AnyHandler::new(Type);
    let outbox = Outbox::builder(MemoryStore::new())
        .on("function", function)
        .on("closure", |_: Delivery| async { Ok(()) })
        .on("type", Type)
        .on("object", object)
        .on("blocking", blocking(|_| Ok(())))
        .on("blocking panic", blocking(|_| std::panic::panic_any("told to")))
        .start()
        .await
        .unwrap();
    for name in ["function", "closure", "type", "object", "blocking"] {
        ends(&outbox, &Event::json(name, &1).unwrap(), Status::Done).await;
    }
    ends(&outbox, &Event::json("blocking panic", &1).unwrap(), Status::Retry).await;
    outbox.close().await;
}

/// Holds D5.
#[tokio::test]
async fn a_second_handler_for_a_pair_keeps_the_outbox_from_starting() {
    let started = builder(&Inbox::new()).on(EVENT, Inbox::new()).start().await;
    assert!(matches!(started, Err(StartError::DuplicateHandler(_))));
}

#[test]
fn delivering_needs_a_runtime_and_says_so() {
    let mut started = pin!(builder(&Inbox::new()).start());
    let started = started.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(matches!(started, Poll::Ready(Err(StartError::NoRuntime(_)))));
}

#[tokio::test(start_paused = true)]
async fn an_outage_burns_no_attempts_and_waits_as_told() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = calls.clone();
    let handler = move |_: Delivery| {
        let call = counted.fetch_add(1, Ordering::SeqCst);
        async move {
            if call < 20 { Err(Failure::unavailable(30 * SECOND, "target down")) } else { Ok(()) }
        }
    };
    let options = OutboxOptions {
        retry: RetryOptions { max_attempts: 2, ..RetryOptions::default() },
        ..options()
    };
    let outbox =
        Outbox::builder(MemoryStore::new()).options(options).on(EVENT, handler).start().await;
    let outbox = outbox.unwrap();
    let (begun, patient) = (Instant::now(), event());
    let id = commit(&outbox, &patient).await;
    while row(outbox.store(), id).status != Status::Done {
        tokio::time::sleep(SECOND).await;
        assert!(begun.elapsed() < Duration::from_secs(3_600));
    }
    assert!(begun.elapsed() >= 600 * SECOND);
    assert_eq!(row(outbox.store(), id).attempts, 0);
}

/// An event that takes its process with it ends dead, and its neighbours do not.
#[tokio::test(start_paused = true)]
async fn an_event_that_kills_its_process_ends_dead_alone() {
    let store = MemoryStore::new();
    let killer = Event::json(EVENT, "killer").unwrap();
    let innocent: Vec<_> = (0..30).map(|_| event()).collect();
    let writer = Outbox::writer_only(store.clone());
    let mut tx = writer.begin(&store).await.unwrap();
    tx.emit(&killer).unwrap();
    for event in &innocent {
        tx.emit(event).unwrap();
    }
    tx.commit().await.unwrap();

    let mut lives = 0;
    while row(&store, killer.id()).status != Status::Dead {
        lives += 1;
        assert!(lives < 20, "a crash loop for ever");
        let (died, mut death) = tokio::sync::mpsc::unbounded_channel();
        let killer = killer.id();
        let handler = move |delivery: Delivery| {
            let died = died.clone();
            async move {
                tokio::time::sleep(SECOND / 10).await;
                if delivery.id() == killer {
                    died.send(()).unwrap();
                    std::future::pending::<()>().await;
                }
                Ok(())
            }
        };
        let options = OutboxOptions {
            retry: RetryOptions { max_attempts: 4, ..RetryOptions::default() },
            ..options()
        };
        let node = Outbox::builder(store.clone())
            .options(options)
            .on(EVENT, handler)
            .start()
            .await
            .unwrap();
        let over = async || row(&store, killer).status == Status::Dead;
        tokio::select! {
            biased;
            Some(()) = death.recv() => drop(node),
            () = async { while !over().await { tokio::time::sleep(SECOND).await } } => {}
        }
    }
    assert_eq!(row(&store, killer.id()).attempts, 4, "it used all its attempts");
    let innocent: Vec<_> = innocent.iter().map(|event| row(&store, event.id())).collect();
    assert!(innocent.iter().all(|row| row.status == Status::Done), "{innocent:?}");
    let attempts: Vec<_> = innocent.iter().map(|row| row.attempts).collect();
    // Once while nobody was suspected, and once more while the killer was not.
    assert!(attempts.iter().all(|&attempts| attempts <= 2), "{attempts:?}");
}
