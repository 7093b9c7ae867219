//! Connections to the server.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::context::{
    Context, ContextBuilder, CreateStreamErrorKind, GetStreamErrorKind,
};
use async_nats::jetstream::{self, ErrorCode, stream::Info};
use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, Event, ServerError};
use async_trait::async_trait;
use tokio::select;
use tokio::sync::watch;
use tokio::time::sleep;

use super::options::{Checked, NatsAuth, NatsOptions};
use super::stream::{self, Known};
use crate::class::{Misconfigured, Trouble};
use crate::link::Connect;

/// Messages of one batch that are sent before the first of them has to be acknowledged.
pub(super) const WINDOW: usize = 1_000;
/// Subjects that the server did not let the sink publish to, which are remembered for those who wait for an answer.
const DENIED: usize = 8 * WINDOW;
/// How long an answer is waited for after the server has denied something: the client tells of a hundred denials, and drops
/// what comes at once beyond that.
const UNHEARD: Duration = Duration::from_secs(2);
/// Where nobody listens, and nobody is asked: a connection that is lost fails to come back at once.
const NOWHERE: &str = "nats://127.0.0.1:0";
/// How often the client looks whether a silent server is there; the third that goes unanswered ends the connection.
const PING_EVERY: Duration = Duration::from_secs(10);

/// A connection, and what its stream was when it was opened.
pub(super) struct Conn {
    pub(super) context: Context,
    pub(super) stream: Known,
    denials: watch::Receiver<Denials>,
}

impl Conn {
    /// How often the server has said by now that something may not be published.
    pub(super) fn denials(&self) -> u64 {
        self.denials.borrow().count
    }

    /// Comes back when the server has said that this subject may not be published to, after so many times that it said
    /// such a thing.
    pub(super) async fn denied(&self, subject: &str, after: u64) {
        denied(&self.denials, |denials| denials.have(subject, after)).await;
    }

    /// Comes back when the server has denied others, and perhaps this one, for so long that its answer should be here.
    pub(super) async fn unheard(&self, after: u64) {
        denied(&self.denials, |denials| denials.count > after).await;
        sleep(UNHEARD).await;
    }
}

/// What the server did not let the sink do.
#[derive(Debug, Default)]
struct Denials {
    /// How often it said so.
    count: u64,
    /// The last time for each subject. What was said before a message was sent is not about that one: a right may have
    /// been granted meanwhile.
    last: HashMap<String, u64>,
}

impl Denials {
    fn add(&mut self, subject: &str) {
        self.count += 1;
        if self.last.len() >= DENIED {
            // Whoever waits for one of the older half was told long ago.
            let old = self.count.saturating_sub(DENIED as u64 / 2);
            self.last.retain(|_, said| *said > old);
        }
        self.last.insert(subject.to_owned(), self.count);
    }

    fn have(&self, subject: &str, after: u64) -> bool {
        self.last.get(subject).is_some_and(|said| *said > after)
    }
}

async fn denied(denied: &watch::Receiver<Denials>, is: impl FnMut(&Denials) -> bool) {
    if denied.clone().wait_for(is).await.is_err() {
        // The connection ended, which others see.
        std::future::pending().await
    }
}

/// Opens connections.
pub(super) struct Open {
    pub(super) options: NatsOptions,
    pub(super) checked: Arc<Checked>,
}

impl Open {
    async fn client(&self) -> Result<(Client, watch::Receiver<Denials>), Trouble> {
        let NatsOptions { name, auth, link, root_certificates, .. } = &self.options;
        let (told, denied) = watch::channel(Denials::default());
        let told = Arc::new(told);
        let mut options = ConnectOptions::new()
            .name(name)
            .connection_timeout(link.connect_within)
            .request_timeout(Some(link.connect_within))
            .ping_interval(PING_EVERY)
            // An attempt for each server; of these the first is made by `connect`, for which they count too.
            .max_reconnects(self.checked.servers.len())
            .reconnect_delay_callback(|_| Duration::ZERO)
            .ignore_discovered_servers()
            .event_callback(move |event| {
                let told = Arc::clone(&told);
                async move {
                    if let Event::ServerError(ServerError::Other(error)) = event
                        && let Some(subject) = denied_subject(&error)
                    {
                        told.send_modify(|denials| denials.add(subject));
                    }
                }
            });
        match auth {
            NatsAuth::None => {}
            NatsAuth::Password { user, password } => {
                let password = password.expose().to_owned();
                options = options.user_and_password(user.clone(), password);
            }
            NatsAuth::Token(token) => options = options.token(token.expose().to_owned()),
        }
        if let Some(file) = root_certificates {
            options = options.add_root_certificates(file.clone());
        }
        let client = options.connect(&self.checked.servers[..]).await.map_err(not_connected)?;
        // A client that connects again by itself sends what it has left to somebody who waits for no answer.
        client.set_server_pool(NOWHERE).await.map_err(|_| Trouble::unavailable(Ended))?;
        Ok((client, denied))
    }

    async fn stream(&self, context: &Context) -> Result<Info, Trouble> {
        let NatsOptions { stream, create, .. } = &self.options;
        let wrong = |reason| Misconfigured::new("nats.stream", reason);
        let error = match context.get_stream(stream).await {
            Ok(found) => return Ok(found.cached_info().clone()),
            Err(error) => error,
        };
        match (error.kind(), create) {
            (GetStreamErrorKind::JetStream(said), Some(new)) if is_missing(&said) => {
                let made = context.create_stream(stream::new(&self.options, new)).await;
                made.map(|made| made.cached_info().clone()).map_err(|error| match error.kind() {
                    CreateStreamErrorKind::JetStream(said) if said.code() < 500 => {
                        Misconfigured::new("nats.create", "the server does not make it")
                            .because(said)
                            .into()
                    }
                    _ => Trouble::unavailable(error),
                })
            }
            (GetStreamErrorKind::JetStream(said), None) if is_missing(&said) => {
                Err(wrong("there is no such stream").because(said).into())
            }
            (GetStreamErrorKind::JetStream(said), _) if is_disabled(&said) => {
                Err(wrong("JetStream is not enabled").because(said).into())
            }
            _ => Err(Trouble::unavailable(error)),
        }
    }
}

#[async_trait]
impl Connect for Open {
    type Conn = Conn;

    async fn open(&self) -> Result<Conn, Trouble> {
        let (client, refused) = self.client().await?;
        let link = &self.options.link;
        let context = ContextBuilder::new()
            // Permits are held by what was sent and not yet awaited: fewer than these, and batches wait for each other.
            .max_ack_inflight(link.batches_in_flight * WINDOW)
            .ack_timeout(link.deliver_within)
            .timeout(link.deliver_within);
        let context = match &self.options.domain {
            Some(domain) => context.domain(domain).build(client),
            None => context.build(client),
        };
        let info = select! {
            info = self.stream(&context) => info?,
            // Otherwise it would be an answer that does not come.
            () = denied(&refused, |denials| denials.count > 0) => return Err(not_allowed().into()),
        };
        let (stream, doubts) = stream::examine(&info.config, &self.options, &self.checked.subject)?;
        stream::say(&doubts, &self.options);
        Ok(Conn { context, stream, denials: refused })
    }

    fn is_open(&self, conn: &Conn) -> bool {
        conn.context.client().connection_state() == State::Connected
    }

    async fn close(&self, conn: Arc<Conn>) {
        let _ = conn.context.client().drain().await;
    }
}

/// The server does not let the sink's user publish, or look at the stream.
pub(super) fn not_allowed() -> Misconfigured {
    Misconfigured::new("nats.auth", "has no permission for what the sink does")
}

/// The subject of an error by which a server tells, to nobody in particular, that a message was not allowed. It has no code.
fn denied_subject(error: &str) -> Option<&str> {
    let (_, subject) = error.split_once("ermissions Violation for Publish to \"")?;
    subject.rsplit_once('"').map(|(subject, _)| subject)
}

fn not_connected(error: ConnectError) -> Trouble {
    match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
            Misconfigured::new("nats.auth", "the server refuses it").into()
        }
        _ => Trouble::unavailable(error),
    }
}

fn is_missing(error: &jetstream::Error) -> bool {
    error.error_code() == ErrorCode::STREAM_NOT_FOUND
}

fn is_disabled(error: &jetstream::Error) -> bool {
    [ErrorCode::JETSTREAM_NOT_ENABLED, ErrorCode::JETSTREAM_NOT_ENABLED_FOR_ACCOUNT]
        .contains(&error.error_code())
}

#[derive(Debug, thiserror::Error)]
#[error("the connection was lost when it was hardly there")]
struct Ended;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_denied_before_a_message_was_sent_is_not_about_that_one() {
        let mut denials = Denials::default();
        denials.add("a");
        denials.add("b");
        assert!(denials.have("a", 0) && denials.have("b", 1));
        assert!(!denials.have("a", 1) && !denials.have("c", 0));
        let sent = denials.count;
        (0..10 * DENIED).for_each(|number| denials.add(&number.to_string()));
        assert!(denials.last.len() <= DENIED);
        denials.add("a");
        assert!(denials.have("a", sent));
    }

    #[test]
    fn a_subject_that_is_denied_is_read_from_what_the_server_says() {
        let said = r#"Permissions Violation for Publish to "events.a\"b""#;
        assert_eq!(denied_subject(said), Some(r#"events.a\"b"#));
        assert_eq!(denied_subject("Permissions Violation for Subscription to \"a\""), None);
        assert_eq!(denied_subject("Stale Connection"), None);
    }
}
