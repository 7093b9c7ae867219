//! One run of a sink, and what is around it.

use std::slice;
use std::time::Duration;

use futures_util::FutureExt;
use sendoff_core::{Delivery, Failure, Sink, Verdict};
use tokio::time::Instant;
use tracing::Instrument;

use super::deadline::{deadline_of, in_time};
use super::interceptor::Interceptors;
use super::reaction::Reactions;
use super::shield::{discard, shield, shielded};
use super::tracer::Traces;
use crate::operate::{HandlerRun, Observer, RunOutcome};

/// What is around every run: interceptors, a time limit, what the application says of failures, and how long to wait for a target that is
/// unavailable.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) interceptors: Interceptors,
    pub(crate) reactions: Reactions,
    pub(crate) traces: Traces,
    /// Of a run, unless its sink has one of its own.
    pub(crate) limit: Option<Duration>,
    /// When to ask again whether a sink is healthy.
    pub(crate) unhealthy_for: Duration,
    pub(crate) observer: Observer,
}

impl Door {
    /// Delivers in order, so many at once as the sink takes, and answers with a verdict for each that was
    /// tried, at least for the first: a panic is a failure like any other, and so is a sink that takes
    /// too long or answers nothing. Ends with the first failure, and when the time of one call is over:
    /// what is done by then is to be recorded.
    pub(crate) async fn deliver(&self, sink: &dyn Sink, deliveries: &[Delivery]) -> Vec<Verdict> {
        let (begun, limit) = (Instant::now(), deadline_of(sink).or(self.limit));
        let at_once = shielded(|| sink.batch_size()).map_or(1, |size| size.max(1));
        let mut verdicts = Vec::new();
        for part in deliveries.chunks(at_once) {
            let told = self.deliver_at_once(sink, part, limit).await;
            let whole = told.len() == part.len() && told.iter().all(Result::is_ok);
            verdicts.extend(told);
            if !whole || limit.is_some_and(|limit| begun.elapsed() >= limit) {
                break;
            }
        }
        verdicts
    }

    async fn deliver_at_once(
        &self,
        sink: &dyn Sink,
        deliveries: &[Delivery],
        limit: Option<Duration>,
    ) -> Vec<Verdict> {
        let begun = self.observer.is_on().then(Instant::now);
        let (admitted, refused) = self.interceptors.before(deliveries);
        let mut verdicts = match admitted {
            [] => Vec::new(),
            admitted => self.run(sink, admitted, limit).await,
        };
        let whole = verdicts.len() == admitted.len() && verdicts.iter().all(Result::is_ok);
        match refused {
            Some(refused) if whole => verdicts.push(Err(refused)),
            // What comes after one that failed was not tried.
            refused => discard(refused),
        }
        self.reactions.react(deliveries, &mut verdicts);
        self.interceptors.after(deliveries, &verdicts);
        if let Some(begun) = begun {
            self.measure(begun.elapsed(), deliveries, &verdicts);
        }
        verdicts
    }

    /// Tells what each event took that was tried.
    fn measure(&self, took: Duration, deliveries: &[Delivery], verdicts: &[Verdict]) {
        for (delivery, verdict) in deliveries.iter().zip(verdicts) {
            let run = HandlerRun {
                event_type: delivery.event_type(),
                outcome: RunOutcome::from(verdict),
                attempt: delivery.attempt,
                took,
            };
            self.observer.tell(|metrics| metrics.handler_ran(&run));
        }
    }

    /// The same of one event.
    pub(crate) async fn deliver_one(&self, sink: &dyn Sink, delivery: &Delivery) -> Verdict {
        let verdicts = self.deliver(sink, slice::from_ref(delivery)).await;
        verdicts.into_iter().next().unwrap_or_else(|| Err(Failure::retry(Silent)))
    }

    async fn run(
        &self,
        sink: &dyn Sink,
        deliveries: &[Delivery],
        limit: Option<Duration>,
    ) -> Vec<Verdict> {
        match shielded(|| sink.is_healthy()) {
            Ok(true) => {}
            Ok(false) => return vec![Err(Failure::unavailable(self.unhealthy_for, Unhealthy))],
            Err(panic) => return vec![Err(panic)],
        }
        let span = self.traces.span(deliveries);
        // Within the shield: what comes with a span is not ours either.
        let run = shield(|| {
            let run = sink.deliver(deliveries);
            match span {
                Some(span) => run.instrument(span).boxed(),
                None => run,
            }
        });
        let mut verdicts = in_time(limit, run).await.unwrap_or_else(|failure| vec![Err(failure)]);
        let surplus = deliveries.len().min(verdicts.len());
        verdicts.drain(surplus..).for_each(discard);
        if verdicts.is_empty() {
            verdicts.push(Err(Failure::retry(Silent)));
        }
        verdicts
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the sink says that its target is unavailable")]
struct Unhealthy;

#[derive(Debug, thiserror::Error)]
#[error("the sink answered with no verdict")]
struct Silent;

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::{Arc, Mutex};

    use async_trait::async_trait;
    use sendoff_core::{Event, FailureClass, Lane, Origin, Timestamp};

    use super::*;
    use crate::sink::{After, BatchSink, Before, HandlerSink, deadline};

    fn deliveries(count: u32) -> Vec<Delivery> {
        let delivery = |number| Delivery {
            event: Event::json("e", &number).unwrap(),
            created_at: Timestamp::now(),
            attempt: 1,
            origin: Origin::Row(Lane::Cold),
        };
        (0..count).map(delivery).collect()
    }

    fn door(interceptors: Interceptors) -> Door {
        let second = Duration::from_secs(1);
        Door {
            interceptors,
            reactions: Reactions::default(),
            traces: Traces::default(),
            limit: Some(second),
            unhealthy_for: second,
            observer: Observer::default(),
        }
    }

    fn told(verdicts: &[Verdict]) -> Vec<String> {
        let text =
            |verdict: &Verdict| verdict.as_ref().map_or_else(Failure::report, |()| "ok".into());
        verdicts.iter().map(text).collect()
    }

    /// Answers with so many verdicts, and knows whether it is healthy.
    struct Odd(usize, bool);

    #[async_trait]
    impl Sink for Odd {
        fn name(&self) -> &str {
            "odd"
        }

        async fn deliver(&self, _: &[Delivery]) -> Vec<Verdict> {
            (0..self.0).map(|_| Ok(())).collect()
        }

        fn is_healthy(&self) -> bool {
            self.1
        }
    }

    #[tokio::test(start_paused = true)]
    async fn whatever_a_sink_does_there_is_a_verdict() {
        let door = door(Interceptors::default());
        let three = deliveries(3);
        assert_eq!(told(&door.deliver(&Odd(2, true), &three).await), ["ok", "ok"]);
        assert_eq!(door.deliver(&Odd(7, true), &three).await.len(), 3);
        let silent = door.deliver(&Odd(0, true), &three).await;
        assert_eq!(told(&silent), ["the sink answered with no verdict"]);
        let unhealthy = door.deliver(&Odd(3, false), &three).await;
        let class = unhealthy[0].as_ref().unwrap_err().class();
        assert_eq!(class, FailureClass::Unavailable { delay: Duration::from_secs(1) });
        let hangs = BatchSink::new("hangs", |_| pending());
        assert_eq!(told(&door.deliver(&hangs, &three).await), ["handler did not finish within 1s"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_of_a_sinks_own_is_in_place_of_everybodys_whether_shorter_or_longer() {
        let mut door = door(Interceptors::default());
        let seconds = Duration::from_secs;
        for everybodys in [Some(seconds(5)), None] {
            door.limit = everybodys;
            for own in [2, 9] {
                let begun = Instant::now();
                let hangs = deadline(seconds(own), BatchSink::new("hangs", |_| pending()));
                let verdicts = door.deliver(&hangs, &deliveries(3)).await;
                assert_eq!(told(&verdicts), [format!("handler did not finish within {own}s")]);
                assert_eq!(begun.elapsed(), seconds(own));
            }
        }
        // One of events that are given one at a time is for each of them.
        let slow = HandlerSink::new("slow", |_: Delivery| async {
            tokio::time::sleep(Duration::from_millis(400)).await;
            Ok(())
        });
        let verdicts = door.deliver(&deadline(seconds(1), slow), &deliveries(9)).await;
        assert_eq!(told(&verdicts), ["ok", "ok", "ok"]);
    }

    /// Panics when it is dropped.
    #[derive(Debug)]
    struct Bomb;

    impl std::fmt::Display for Bomb {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("bomb")
        }
    }

    impl std::error::Error for Bomb {}

    impl Drop for Bomb {
        fn drop(&mut self) {
            std::panic::panic_any("dropped");
        }
    }

    /// Fails with errors that panic when they are dropped, more often than it is asked.
    struct Bombs;

    #[async_trait]
    impl Sink for Bombs {
        fn name(&self) -> &str {
            "bombs"
        }

        async fn deliver(&self, _: &[Delivery]) -> Vec<Verdict> {
            (0..4).map(|_| Err(Failure::retry(Bomb))).collect()
        }
    }

    #[tokio::test]
    async fn verdicts_that_nobody_wants_may_panic_when_they_are_dropped() {
        let bombs = || Err(Failure::retry(Bomb));
        let refuses = Interceptors::of(vec![Arc::new(Before(move |delivery: &Delivery| {
            if delivery.read_json::<u32>()? == 1 { bombs() } else { Ok(()) }
        }))]);
        for interceptors in [Interceptors::default(), refuses] {
            let verdicts = door(interceptors).deliver(&Bombs, &deliveries(2)).await;
            assert!(verdicts.len() <= 2 && verdicts[0].is_err());
            verdicts.into_iter().for_each(discard);
        }
    }

    /// The limit is for one event, and what is done when it has passed is told.
    #[tokio::test(start_paused = true)]
    async fn a_handler_has_the_whole_time_for_each_event() {
        let slow = HandlerSink::new("slow", |_: Delivery| async {
            tokio::time::sleep(Duration::from_millis(400)).await;
            Ok(())
        });
        let verdicts = door(Interceptors::default()).deliver(&slow, &deliveries(9)).await;
        assert_eq!(told(&verdicts), ["ok", "ok", "ok"]);
    }

    #[tokio::test]
    async fn what_an_interceptor_refuses_stops_the_batch_there() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        let interceptors = Interceptors::of(vec![
            Arc::new(Before(|delivery: &Delivery| match delivery.read_json::<u32>()? {
                1 => Err("not this one".into()),
                _ => Ok(()),
            })),
            Arc::new(After(move |delivery: &Delivery, failure: Option<&Failure>| {
                log.lock().unwrap().push((delivery.read_json::<u32>()?, failure.is_some()));
                Ok(())
            })),
        ]);
        let door = door(interceptors);
        let sink = BatchSink::new("takes all", async |_| Ok(()));
        let verdicts = door.deliver(&sink, &deliveries(3)).await;
        assert_eq!(told(&verdicts), ["ok", "not this one"]);
        assert_eq!(*seen.lock().unwrap(), [(0, false), (1, true)]);
    }
}
