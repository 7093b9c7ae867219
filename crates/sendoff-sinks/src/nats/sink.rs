//! The sink.

use std::sync::Arc;

use async_nats::jetstream::context::PublishAckFuture;
use async_trait::async_trait;
use futures_util::future::join_all;
use sendoff_core::{Delivery, Sink, Verdict};
use tokio::select;

use super::answer::{Follows, Refusal};
use super::connect::{Conn, Open, WINDOW, not_allowed};
use super::encode::{self, Outgoing};
use super::options::{Checked, NatsOptions};
use crate::class::{Class, Misconfigured, Trouble};
use crate::link::{Link, Slate};

/// Publishes each event to a stream of JetStream. Cheap to clone; clones are the same, with one connection.
///
/// ```no_run
/// use sendoff_sinks::nats::{NatsAuth, NatsOptions, NatsSink};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let sink = NatsSink::start(NatsOptions {
///     servers: vec!["nats://nats.example:4222".to_owned()],
///     auth: NatsAuth::Password { user: "shop".to_owned(), password: "…".into() },
///     subject: "shop.{type}".to_owned(),
///     ..NatsOptions::stream("SHOP")
/// })
/// .await?;
/// // …given to an outbox, a relay, a topic worker or a publisher…
/// sink.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct NatsSink {
    name: String,
    stream: String,
    checked: Arc<Checked>,
    link: Link<Open>,
}

/// A message that waits for its acknowledgement.
struct Sent {
    at: usize,
    subject: async_nats::Subject,
    /// How often the server had denied something by then.
    denials: u64,
    ack: PublishAckFuture,
}

impl NatsSink {
    /// Checks the options, connects, and looks at the stream. A server that cannot be reached is waited for.
    ///
    /// # Errors
    ///
    /// An option is wrong, such as a password, or a stream that is not there or does not cover the subject; it is named by
    /// its path.
    pub async fn start(options: NatsOptions) -> Result<Self, Misconfigured> {
        let checked = Arc::new(options.check()?);
        let (name, stream, bounds) = (options.name.clone(), options.stream.clone(), options.link);
        let open = Open { options, checked: Arc::clone(&checked) };
        let link = Link::start(name.clone(), open, bounds).await?;
        Ok(Self { name, stream, checked, link })
    }

    /// Takes no more events, and ends the connection when those under way are acknowledged. Answers whether they were,
    /// within [`LinkOptions::close_within`](crate::link::LinkOptions::close_within).
    pub async fn close(&self) -> bool {
        self.link.close().await
    }

    /// Sends all of them in order, and awaits what the stream says of each.
    async fn publish(
        &self,
        conn: &Conn,
        events: Vec<(usize, Outgoing)>,
        slate: &Slate,
    ) -> Result<(), Trouble> {
        let mut events = events.into_iter().peekable();
        let mut so_far = Ok(());
        while so_far.is_ok() && events.peek().is_some() {
            let mut sent = Vec::new();
            for (at, Outgoing { subject, message }) in events.by_ref().take(WINDOW) {
                // What was said before is not about this one.
                let denials = conn.denials();
                match conn.context.send_publish(subject.clone(), message).await {
                    Ok(ack) => {
                        let one = Sent { at, subject, denials, ack };
                        sent.push(self.acknowledged(conn, slate, one));
                    }
                    Err(error) => so_far = self.refused(conn, slate, at, &subject, error.into()),
                }
                if so_far.is_err() {
                    break;
                }
            }
            // One that fails does not keep the others from their verdicts.
            so_far = join_all(sent).await.into_iter().fold(so_far, Result::and);
        }
        so_far
    }

    async fn acknowledged(
        &self,
        conn: &Conn,
        slate: &Slate,
        Sent { at, subject, denials, ack }: Sent,
    ) -> Result<(), Trouble> {
        let acknowledged = select! {
            biased;
            acknowledged = ack.into_future() => acknowledged,
            () = conn.denied(&subject, denials) => {
                if self.checked.subject.is_constant() {
                    return Err(not_allowed().into());
                }
                // The user may have the right to others.
                let failure = self.link.failure(Class::Misconfigured, not_allowed());
                slate.settle(at, Err(failure));
                return Ok(());
            }
            () = conn.unheard(denials) => {
                return self.refused(conn, slate, at, &subject, Refusal::Unheard);
            }
        };
        match acknowledged {
            Ok(_) => {
                slate.done(at);
                Ok(())
            }
            Err(error) => self.refused(conn, slate, at, &subject, error.into()),
        }
    }

    /// One has its verdict, or the connection is given up and it has the verdict of all that are left.
    fn refused(
        &self,
        conn: &Conn,
        slate: &Slate,
        at: usize,
        subject: &str,
        refusal: Refusal,
    ) -> Result<(), Trouble> {
        let is_covered = conn.stream.covers(subject);
        let full = match conn.stream.is_full_by_subject {
            true => slate.full(),
            false => Class::Unavailable,
        };
        match refusal.follows(is_covered, full) {
            Follows::Reopen => Err(Trouble::unavailable(refusal)),
            Follows::Event(class) => {
                slate.settle(at, Err(self.link.failure(class, refusal)));
                Ok(())
            }
        }
    }
}

#[async_trait]
impl Sink for NatsSink {
    fn name(&self) -> &str {
        &self.name
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
        let Checked { subject, envelope, .. } = &*self.checked;
        let encode = |delivery| encode::message(subject, envelope, &self.stream, delivery);
        let (slate, events) = Slate::encoded(deliveries, encode);
        let verdicts = &slate;
        let publish =
            |conn: Arc<Conn>, events| async move { self.publish(&conn, events, verdicts).await };
        self.link.carry_all(&slate, deliveries, events, publish).await;
        slate.verdicts()
    }

    fn is_healthy(&self) -> bool {
        self.link.is_healthy()
    }

    fn identity(&self) -> Option<usize> {
        Some(self.link.identity())
    }
}

impl std::fmt::Debug for NatsSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NatsSink")
            .field("name", &self.name)
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}
