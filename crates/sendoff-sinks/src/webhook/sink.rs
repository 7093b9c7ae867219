//! The sink.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::RETRY_AFTER;
use hyper::{Method, Request, Response};
use hyper_util::client::legacy::{Client as Pool, Error as PoolError};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use sendoff_core::{BoxError, Delivery, Failure, FailureClass, Sink, Timestamp, Verdict};
use tokio::time::{Instant, timeout_at};
use tracing::error;

use super::answer::{Answered, EventChooses, IsGone, Meaning, meaning, retry_after};
use super::connect::{Connector, System, Unconnected};
use super::encode::{Encoded, Encoder, Target};
use super::options::{Checked, WebhookOptions};
use super::patience::{Exhausted, Patience};
use super::url::{Host, Place};
use crate::class::{Class, Misconfigured, OnceAMinute, Shared, Trouble};
use crate::link::{Connect, Link, Slate};

/// Bytes of an answer's head, and of its body, that are read.
const ANSWER_BYTES: usize = 64 * 1024;
/// How long an answer's body is read, so that its connection can be used again. The verdict is known by then.
const REST_WITHIN: Duration = Duration::from_secs(1);
/// How long a connection is kept that nobody uses. Shorter than most servers do.
const IDLE: Duration = Duration::from_secs(15);

/// Sends each event as a signed request. Cheap to clone; clones are the same.
///
/// ```
/// use sendoff_sinks::webhook::{WebhookOptions, WebhookSink};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// let options = WebhookOptions::new("http://127.0.0.1:8080/in/{type}", secret);
/// // A request to this host itself has to be allowed.
/// let refused = WebhookSink::start(options.clone()).await.unwrap_err();
/// assert!(refused.to_string().contains("webhook.allow_addresses"));
/// let options = WebhookOptions { allow_addresses: vec!["127.0.0.1".into()], ..options };
/// # let _: Result<WebhookSink, _> =
/// WebhookSink::start(options).await;
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct WebhookSink {
    name: String,
    sending: Arc<Sending>,
    link: Link<Open>,
}

/// What sending takes.
#[derive(Debug)]
struct Sending {
    encoder: Encoder,
    event_chooses: EventChooses,
    patience: Patience,
    disabled: OnceAMinute,
    options: WebhookOptions,
}

impl WebhookSink {
    /// Checks the options, and whether requests may go to the URL's host where that is settled. No request is sent.
    ///
    /// # Errors
    ///
    /// An option is wrong; it is named by its path. Secrets are not told.
    pub async fn start(options: WebhookOptions) -> Result<Self, Misconfigured> {
        let Checked { encoder, guard, tls, proxy, place } = options.check()?;
        let connector = Connector::new(guard, System, tls, proxy, options.link.connect_within);
        let sending = Sending {
            event_chooses: match (&encoder.target, &place) {
                (Target::One(_), _) => EventChooses::Nothing,
                (Target::OfEvent(_), Some(_)) => EventChooses::Path,
                (Target::OfEvent(_), None) => EventChooses::Host,
            },
            encoder,
            patience: Patience::new(options.disable_after),
            disabled: OnceAMinute::default(),
            options,
        };
        let (name, bounds) = (sending.options.name.clone(), sending.options.link);
        let idle = sending.options.requests_in_flight.saturating_mul(bounds.batches_in_flight);
        let link = Link::start(name.clone(), Open { connector, place, idle }, bounds).await?;
        Ok(Self { name, sending: Arc::new(sending), link })
    }

    /// Takes no more events, and ends when the requests under way are answered. Answers whether they were, within
    /// [`LinkOptions::close_within`](crate::link::LinkOptions::close_within).
    pub async fn close(&self) -> bool {
        self.link.close().await
    }
}

#[async_trait]
impl Sink for WebhookSink {
    fn name(&self) -> &str {
        &self.name
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
        let begun = Instant::now();
        let encode = |delivery| self.sending.encoder.encode(delivery);
        let (slate, requests) = Slate::encoded(deliveries, encode);
        let batch = Batch {
            sink: self,
            slate: &slate,
            last_start: begun + self.sending.options.link.deliver_within
                - self.sending.options.request_within,
            stopped: Mutex::default(),
        };
        let work = |client| batch.send(client, deliveries, requests);
        self.link.carry(&slate, work).await;
        slate.verdicts()
    }

    fn is_healthy(&self) -> bool {
        self.link.is_healthy()
    }

    fn identity(&self) -> Option<usize> {
        Some(self.link.identity())
    }

    fn batch_size(&self) -> usize {
        self.sending.options.batch_events
    }
}

/// Which events of a batch go one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Turn<'d> {
    Alone(usize),
    Key(&'d str),
    /// Facts have one order.
    Log,
}

fn turn(at: usize, delivery: &Delivery) -> Turn<'_> {
    match (delivery.fact(), delivery.ordering_key()) {
        (Some(_), _) => Turn::Log,
        (None, Some(key)) => Turn::Key(key),
        (None, None) => Turn::Alone(at),
    }
}

/// One batch under way.
struct Batch<'b> {
    sink: &'b WebhookSink,
    slate: &'b Slate,
    /// When the last request may begin: after that there is no time for a whole one.
    last_start: Instant,
    /// Why no further request is sent to the receiver, and how long to wait.
    stopped: Mutex<Option<Stop>>,
}

#[derive(Debug, Clone)]
struct Stop {
    wait: Duration,
    error: Shared,
    /// Whether it is the connection's, so that the link backs off.
    is_lost: bool,
}

impl Stop {
    /// Because of one before it.
    fn before() -> Self {
        Self { wait: Duration::ZERO, error: Shared::new(Before), is_lost: false }
    }
}

/// How long to wait before the next try, as far as a failure says. Whoever wants nothing more said nothing of that: its
/// events wait for somebody who resumes it.
fn asked(failure: &Failure) -> Duration {
    match failure.class() {
        _ if failure.disables() => Duration::ZERO,
        FailureClass::Unavailable { delay } | FailureClass::RetryAfter { delay } => delay,
        FailureClass::Retry | FailureClass::Dead => Duration::ZERO,
    }
}

impl Batch<'_> {
    /// Sends all of them, those of one turn in order.
    async fn send(
        &self,
        client: Arc<Client>,
        deliveries: &[Delivery],
        requests: Vec<(usize, Encoded)>,
    ) -> Result<(), Trouble> {
        let (mut turns, mut places) = (Vec::new(), HashMap::new());
        for (at, request) in requests {
            let turn = turn(at, &deliveries[at]);
            let place = *places.entry(turn).or_insert_with(|| {
                turns.push((turn, Vec::new()));
                turns.len() - 1
            });
            turns[place].1.push((at, request));
        }
        let at_once = self.sink.sending.options.requests_in_flight;
        let client = &*client;
        stream::iter(turns)
            .for_each_concurrent(at_once, |(turn, requests)| self.send_turn(client, turn, requests))
            .await;
        match self.stopped.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(Stop { error, is_lost: true, .. }) => Err(Trouble::unavailable(error)),
            _ => Ok(()),
        }
    }

    async fn send_turn(&self, client: &Client, turn: Turn<'_>, requests: Vec<(usize, Encoded)>) {
        let mut stopped: Option<Stop> = None;
        for (at, request) in requests {
            stopped = stopped.or_else(|| self.stop(None)).or_else(|| self.left_alone());
            if let Some(Stop { wait, error, .. }) = &stopped {
                self.slate.settle(at, Err(Failure::unavailable(*wait, error.clone())));
            } else if Instant::now() > self.last_start {
                self.slate.settle(at, Err(Failure::unavailable(Duration::ZERO, NoTime)));
            } else {
                stopped = self.send_one(client, turn, at, request).await;
            }
        }
    }

    /// Sends one, and settles it. Answers why those after it are not sent.
    async fn send_one(
        &self,
        client: &Client,
        turn: Turn<'_>,
        at: usize,
        mut request: Encoded,
    ) -> Option<Stop> {
        let sending = &*self.sink.sending;
        // Each attempt has a time of its own.
        if let Err(error) = sending.encoder.sign(&mut request, Timestamp::now()) {
            self.slate.settle(at, Err(Class::Poison.failure(error)));
            return (turn == Turn::Log).then(Stop::before);
        }
        let is_literal = matches!(request.url.place.host, Host::Address(_));
        let answer = client.ask(request, &sending.options).await;
        let (failure, stop) = match answer {
            Ok(Answer { status, retry_after }) => {
                match meaning(status, retry_after, sending.event_chooses) {
                    Meaning::Taken => {
                        sending.patience.taken();
                        self.slate.done(at);
                        return None;
                    }
                    Meaning::Gone => (Failure::disable(IsGone), true),
                    Meaning::NotTaken { class, wait } => {
                        let error = Answered::of(status, class);
                        match class {
                            Class::Unavailable => {
                                // It speaks for all that goes there.
                                if sending.event_chooses == EventChooses::Nothing {
                                    sending.patience.leave_alone(wait);
                                }
                                (Failure::unavailable(wait, error), true)
                            }
                            // One that takes nothing else either may be in trouble itself.
                            Class::RefusedNow { .. } if turn != Turn::Log && !self.is_there() => {
                                (Failure::unavailable(wait, error), false)
                            }
                            _ => {
                                let failure = self.sink.link.failure(class, error);
                                (failure, class == Class::Misconfigured)
                            }
                        }
                    }
                }
            }
            Err(Unsent::Refused(error)) => self.refused(error, is_literal),
            Err(Unsent::Lost(error)) => {
                let error = Shared::new(error);
                let stop = Stop { wait: Duration::ZERO, error: error.clone(), is_lost: true };
                self.fail(at, Failure::unavailable(Duration::ZERO, error));
                return Some(self.stop(Some(stop.clone())).unwrap_or(stop));
            }
        };
        let wait = asked(&failure);
        self.fail(at, failure);
        // Facts have one order: whatever held one up holds up those after it.
        let stop = (stop || turn == Turn::Log).then(|| Stop { wait, ..Stop::before() })?;
        // What a receiver said of itself is for every event.
        let is_for_all = sending.event_chooses == EventChooses::Nothing && turn != Turn::Log;
        if is_for_all { self.stop(Some(stop)) } else { Some(stop) }
    }

    /// Why no request is sent to a receiver that asked to be left alone, of this batch or of an earlier one.
    fn left_alone(&self) -> Option<Stop> {
        let wait = self.sink.sending.patience.left_alone_for()?;
        Some(Stop { wait, error: Shared::new(LeftAlone), is_lost: false })
    }

    /// Whether the receiver has taken others than one that it refused, so that this one is to blame. Of receivers that events
    /// choose, one tells nothing of another. Of facts, publishers find that out by themselves.
    fn is_there(&self) -> bool {
        let sending = &*self.sink.sending;
        sending.event_chooses == EventChooses::Host || sending.patience.is_there()
    }

    /// Where no request goes: an event's address is that event's fault, a receiver's is the sink's.
    fn refused(&self, error: Unconnected, is_literal: bool) -> (Failure, bool) {
        match self.sink.sending.event_chooses {
            EventChooses::Host if is_literal => (Class::Poison.failure(error), false),
            // A name may have another address tomorrow.
            EventChooses::Host => (Class::REFUSED_NOW.failure(error), false),
            EventChooses::Nothing | EventChooses::Path => {
                let wrong = Misconfigured::new("webhook.url", error);
                (self.sink.link.failure(Class::Misconfigured, wrong), true)
            }
        }
    }

    /// Settles one that was not taken. Where nothing was for too long, the sink is disabled. What finds an event wrong is
    /// there: that is neither a success nor a failure of its own.
    fn fail(&self, at: usize, failure: Failure) {
        let patience = &self.sink.sending.patience;
        let too_long = match failure.class() {
            FailureClass::Dead => None,
            _ => patience.not_taken(asked(&failure)),
        };
        let failure = match too_long {
            Some(lasted) => {
                let last = failure.report().into();
                Failure::disable(Exhausted { lasted, last })
            }
            None => failure,
        };
        // Each event that was under way says it.
        if failure.disables()
            && let Some(times) = self.sink.sending.disabled.again()
        {
            let (sink, error) = (&self.sink.name, failure.report());
            error!(sink, error, times, "sink is disabled; its events wait");
        }
        self.slate.settle(at, Err(failure));
    }

    /// Stops the batch, where one is given, and all go to one place. Answers with why it is stopped.
    fn stop(&self, stop: Option<Stop>) -> Option<Stop> {
        let mut stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let is_one_place = self.sink.sending.event_chooses != EventChooses::Host;
        if is_one_place && stopped.is_none() {
            *stopped = stop;
        }
        stopped.clone()
    }
}

/// What is behind a link: connections that are kept, and made on demand.
struct Client(Pool<Connector, Full<Bytes>>);

/// The part of an answer that matters.
struct Answer {
    status: u16,
    retry_after: Option<Duration>,
}

/// Why there is no answer.
enum Unsent {
    /// No request goes there.
    Refused(Unconnected),
    /// Whether it was taken is not known.
    Lost(BoxError),
}

impl Client {
    async fn ask(&self, encoded: Encoded, options: &WebhookOptions) -> Result<Answer, Unsent> {
        let deadline = Instant::now() + options.request_within;
        let mut request = Request::new(Full::new(encoded.body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = encoded.url.uri;
        *request.headers_mut() = encoded.headers;
        let response = match timeout_at(deadline, self.0.request(request)).await {
            Ok(response) => response.map_err(unsent)?,
            Err(_) => return Err(Unsent::Lost(Silent(options.request_within).into())),
        };
        let status = response.status().as_u16();
        let asked = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        let now = SystemTime::now();
        let retry_after = asked.and_then(|value| retry_after(value, now, options.retry_after_most));
        rest(response, deadline).await;
        Ok(Answer { status, retry_after })
    }
}

/// Reads what is left of an answer, within bounds; one that has more loses its connection.
async fn rest(response: Response<Incoming>, deadline: Instant) {
    let until = deadline.min(Instant::now() + REST_WITHIN);
    let mut body = response.into_body();
    let read = async {
        let mut bytes = 0;
        while let Some(Ok(frame)) = body.frame().await {
            bytes += frame.data_ref().map_or(0, Bytes::len);
            if bytes > ANSWER_BYTES {
                break;
            }
        }
    };
    let _ = timeout_at(until, read).await;
}

fn unsent(error: PoolError) -> Unsent {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        if let Some(Unconnected::Refused(refused)) = error.downcast_ref() {
            return Unsent::Refused(Unconnected::Refused(refused.clone()));
        }
        cause = error.source();
    }
    Unsent::Lost(error.into())
}

/// Makes clients.
struct Open {
    connector: Connector,
    place: Option<Place>,
    idle: usize,
}

#[async_trait]
impl Connect for Open {
    type Conn = Client;

    async fn open(&self) -> Result<Client, Trouble> {
        if let Some(place) = &self.place {
            match self.connector.check(place).await {
                Ok(()) => {}
                Err(error @ Unconnected::Refused(_)) => {
                    return Err(Misconfigured::new("webhook.url", error).into());
                }
                Err(error) => return Err(Trouble::unavailable(error)),
            }
        }
        let pool = Pool::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(self.idle)
            .http1_max_buf_size(ANSWER_BYTES)
            .build(self.connector.clone());
        Ok(Client(pool))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the receiver did not answer within {0:?}; whether it took the event is not known")]
struct Silent(Duration);

#[derive(Debug, thiserror::Error)]
#[error("it was not sent: the receiver did not take one before it")]
struct Before;

#[derive(Debug, thiserror::Error)]
#[error("it was not sent: the receiver asked to be left alone")]
struct LeftAlone;

#[derive(Debug, thiserror::Error)]
#[error("it was not sent: the time of its batch is over")]
struct NoTime;
