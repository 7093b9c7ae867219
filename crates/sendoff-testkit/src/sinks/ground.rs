//! What a sink needs to join.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{Event, EventId, FailureClass, Sink, limits};

/// An event as it was read back from a target.
#[derive(Clone, PartialEq, Eq)]
pub struct Arrived {
    /// Its id.
    pub id: EventId,
    /// Its type.
    pub event_type: String,
    /// Its payload.
    pub payload: Vec<u8>,
    /// Its own headers, under their own names. Others may be among them.
    pub headers: BTreeMap<String, String>,
    /// The key that the target has for it.
    pub key: Option<String>,
    /// The media type of its payload.
    pub content_type: Option<String>,
}

impl Arrived {
    /// What should arrive of an event.
    pub fn of(event: &Event) -> Self {
        let own = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Self {
            id: event.id(),
            event_type: event.event_type().to_owned(),
            payload: event.payload().to_vec(),
            headers: event.headers().iter().map(own).collect(),
            key: event.ordering_key().map(str::to_owned),
            content_type: Some(event.content_type().to_owned()),
        }
    }
}

impl std::fmt::Debug for Arrived {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Arrived")
            .field("id", &self.id)
            .field("event_type", &self.event_type)
            .field("bytes", &self.payload.len())
            .field("headers", &self.headers)
            .field("key", &self.key)
            .field("content_type", &self.content_type)
            .finish()
    }
}

/// What an event that was not delivered is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// No attempt.
    Unavailable,
    /// Tried again, and the attempt counts.
    RefusedNow,
    /// Tried again after what the target asked for.
    RefusedFor(Duration),
    /// Dead.
    Poison,
}

impl Expected {
    /// Whether this class is that.
    pub fn is(self, class: FailureClass) -> bool {
        match (self, class) {
            (Self::Unavailable, FailureClass::Unavailable { .. })
            | (Self::RefusedNow, FailureClass::Retry)
            | (Self::Poison, FailureClass::Dead) => true,
            (Self::RefusedFor(time), FailureClass::RetryAfter { delay }) => delay == time,
            _ => false,
        }
    }
}

/// A way in which a target can be made to refuse every event.
#[derive(Debug, Clone, Copy)]
pub struct Refusal {
    /// What it is called.
    pub name: &'static str,
    /// What its events are to be.
    pub expected: Expected,
}

/// A start with credentials that the target refuses.
#[derive(Debug)]
pub struct WrongCredentials {
    /// The error, with its causes; none where the sink started.
    pub error: Option<String>,
    /// The option that the error is to name.
    pub path: &'static str,
    /// The secret that it must not have in it.
    pub secret: String,
}

/// A target that runs in a process of its own.
#[async_trait]
pub trait Server: Send + Sync {
    /// Ends it at once, as `kill -9` does, and comes back when it is gone.
    async fn kill(&self);
    /// Ends it in good order, so that it says goodbye to its clients, and comes back when it is gone. A target that has no
    /// such way to end is killed.
    async fn stop(&self) {
        self.kill().await;
    }
    /// Starts it again with what it kept, and comes back when it answers.
    async fn start(&self);
    /// Stops it where it is: connections stay, and nothing is answered.
    async fn freeze(&self);
    /// Lets it go on.
    async fn thaw(&self);
}

/// One fresh target, sinks to it, and what can be done to it.
///
/// What has a default here belongs to a group of cases, and is written by a ground that runs that group.
#[async_trait]
pub trait SinkGround: Send + Sync + Sized + 'static {
    /// The sink. Clones are the same sink.
    type Sink: Sink + Clone;

    /// A sink to the target, with a deadline of [`deadline`](Self::deadline).
    async fn sink(&self) -> Self::Sink;

    /// Closes one. Whether it came to its end.
    async fn close(&self, sink: &Self::Sink) -> bool;

    /// All that is durable at the target, in its order.
    async fn arrived(&self) -> Vec<Arrived>;

    /// How long a batch may take. Short, or cases in which a target hangs take long.
    fn deadline(&self) -> Duration;

    /// The largest payload that the target takes.
    fn payload_bytes(&self) -> usize {
        limits::PAYLOAD_BYTES
    }

    /// Whether the target keeps an event once, however often it is delivered.
    fn drops_duplicates(&self) -> bool {
        false
    }

    /// Whether its client sends again by itself what was not confirmed, to a target that may keep both.
    fn resends(&self) -> bool {
        false
    }

    /// The event, changed so that the target can never take it; id, headers and key stay. Group `poison`.
    async fn poison(&self, _: &Event) -> Event {
        cannot("poison")
    }

    /// The ways in which the target can be made to refuse. Group `refusals`.
    fn refusals(&self) -> Vec<Refusal> {
        cannot("refusals")
    }

    /// Makes it refuse in this way. Group `refusals`.
    async fn refuse(&self, _: &Refusal) {
        cannot("refusals")
    }

    /// Makes it take everything again. Group `refusals`.
    async fn allow(&self) {
        cannot("refusals")
    }

    /// The process that the target runs in. Groups `kill`, `durable` and `freeze`.
    fn server(&self) -> &dyn Server {
        cannot("kill, durable or freeze")
    }

    /// Starts a sink with a wrong secret. Group `credentials`.
    async fn wrong_credentials(&self) -> WrongCredentials {
        cannot("credentials")
    }

    /// Makes the target refuse the credentials of sinks that are running, and end their connections. Group `revocation`.
    async fn revoke(&self) {
        cannot("revocation")
    }

    /// Makes it take them again. Group `revocation`.
    async fn restore(&self) {
        cannot("revocation")
    }
}

fn cannot(group: &str) -> ! {
    panic!("the cases of `{group}` need methods that this ground does not have")
}
