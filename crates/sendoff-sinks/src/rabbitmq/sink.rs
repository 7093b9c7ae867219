//! The sink.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use lapin::options::BasicPublishOptions;
use lapin::types::ShortString;
use lapin::{Channel, Confirmation, Error};
use sendoff_core::{Delivery, Sink, Verdict};
use tokio::select;
use tokio::time::Instant;

use super::answer::{Blocked, NoTime, Refused, closed, lost, no_right, wrong_exchange};
use super::connect::{Alarm, Conn, Open};
use super::encode::{Encode, Outgoing};
use super::options::RabbitmqOptions;
use super::routes::Routes;
use super::window::Windows;
use crate::class::{Class, Misconfigured, Shared, Trouble};
use crate::link::{Link, Slate};

/// Publishes each event to an exchange. Cheap to clone; clones are the same, with one connection.
///
/// ```no_run
/// use sendoff_sinks::rabbitmq::{RabbitmqAuth, RabbitmqOptions, RabbitmqSink};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let sink = RabbitmqSink::start(RabbitmqOptions {
///     auth: Some(RabbitmqAuth { user: "shop".to_owned(), password: "…".into() }),
///     exchange: "shop".to_owned(),
///     routing_key: "{aggregate_type}.{type}".to_owned(),
///     ..RabbitmqOptions::server("amqp://rabbitmq.example")
/// })
/// .await?;
/// // …given to an outbox, a relay, a topic worker or a publisher…
/// sink.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RabbitmqSink {
    name: String,
    encode: Arc<Encode>,
    mandatory: bool,
    routes: Arc<Routes>,
    windows: Arc<Windows>,
    alarm: Alarm,
    link: Link<Open>,
}

/// What became of messages on one channel.
enum Sent {
    /// Each is confirmed, and has its verdict.
    All,
    /// The server takes nothing at the moment; all of the batch has its verdict.
    Blocked,
    /// The channel was closed; these have no verdict, and one of them may be why.
    Closed(Vec<(usize, Outgoing)>, Error),
}

impl RabbitmqSink {
    /// Checks the options, connects, and looks whether an exchange that is the same for all events is there. A server that
    /// cannot be reached is waited for.
    ///
    /// # Errors
    ///
    /// An option is wrong, such as a password or an exchange; it is named by its path.
    pub async fn start(options: RabbitmqOptions) -> Result<Self, Misconfigured> {
        let (server, encode) = options.check()?;
        let RabbitmqOptions { name, mandatory, root_certificates, link: bounds, .. } = options;
        let alarm = Alarm::default();
        let open = Open {
            name: name.clone(),
            server,
            root_certificates,
            exchange: encode.exchange.constant().filter(|exchange| !exchange.is_empty()),
            batches_in_flight: bounds.batches_in_flight,
            alarm: alarm.clone(),
        };
        let link = Link::start(name.clone(), open, bounds).await?;
        let (encode, routes) = (Arc::new(encode), Arc::default());
        let windows = Arc::new(Windows::new(bounds.deliver_within));
        Ok(Self { name, encode, mandatory, routes, windows, alarm, link })
    }

    /// Takes no more events, and ends the connection when those under way are confirmed. Answers whether they were, within
    /// [`LinkOptions::close_within`](crate::link::LinkOptions::close_within).
    pub async fn close(&self) -> bool {
        self.link.close().await
    }

    /// Sends all of them in order, and settles each by its own confirmation. Those for which there is no time are left: a
    /// server that is slow costs no connection.
    async fn publish(
        &self,
        conn: &Conn,
        events: Vec<(usize, Outgoing)>,
        slate: &Slate,
    ) -> Result<(), Trouble> {
        let frame = conn.frame_max();
        let fits = |(at, event): &(usize, Outgoing)| {
            let bytes = event.header_bytes;
            // Zero is no limit.
            let fits = frame == 0 || bytes <= frame as usize;
            if !fits {
                let refused = Refused::Headers { bytes, frame };
                slate.settle(*at, Err(self.link.failure(Class::Poison, refused)));
            }
            fits
        };
        let (begun, mut took) = (Instant::now(), Duration::ZERO);
        let mut events = events.into_iter().filter(fits).peekable();
        while events.peek().is_some() && self.windows.fits(begun, took) {
            let some: Vec<_> = events.by_ref().take(self.windows.size()).collect();
            let window = self.windows.begin(some.len());
            match self.window(conn, some, slate).await {
                Ok(Sent::All) => took = window.ended(),
                Ok(Sent::Closed(left, error)) => {
                    took = window.ended();
                    self.one_by_one(conn, left, error, slate).await?;
                }
                Ok(Sent::Blocked) => {
                    window.lost();
                    return Ok(());
                }
                Err(trouble) => {
                    window.lost();
                    return Err(trouble);
                }
            }
        }
        if events.peek().is_some() {
            slate.fail_rest((Class::Unavailable, Shared::new(NoTime)));
        }
        Ok(())
    }

    /// One of these, or of those that were sent with them, closed a channel.
    async fn one_by_one(
        &self,
        conn: &Conn,
        left: Vec<(usize, Outgoing)>,
        mut error: Error,
        slate: &Slate,
    ) -> Result<(), Trouble> {
        // Ways that the user has no right to: each of them costs a channel once.
        let mut forbidden = HashMap::new();
        for one in left {
            if let Some(wrong) = self.wrong_for_all(&error) {
                return Err(wrong.into());
            }
            let (at, worked) = (one.0, self.routes.knows(&one.1));
            let way = (one.1.exchange.clone(), one.1.routing_key.clone());
            if let Some(why) = forbidden.get(&way) {
                self.refused(at, why, worked, slate);
            } else if let Sent::Closed(_, why) = self.window(conn, vec![one], slate).await? {
                if self.refused(at, &why, worked, slate) == Class::Misconfigured {
                    forbidden.insert(way, why.clone());
                }
                error = why;
            }
        }
        Ok(())
    }

    /// What is wrong with what is the same for all events. The server can have rights for routing keys too.
    fn wrong_for_all(&self, error: &Error) -> Option<Misconfigured> {
        match wrong_exchange(error) {
            wrong @ Some(_) if self.encode.exchange.is_constant() => wrong,
            _ => no_right(error).filter(|_| self.encode.is_constant()),
        }
    }

    /// One that a channel was closed by, and whether others went its way before: an exchange that was there and is not any
    /// more is no fault of the event's.
    fn refused(&self, at: usize, why: &Error, worked: bool, slate: &Slate) -> Class {
        let (class, refused) = match wrong_exchange(why).filter(|_| worked) {
            Some(gone) => (Class::Misconfigured, gone.into()),
            None => closed(why),
        };
        slate.settle(at, Err(self.link.failure(class, refused)));
        class
    }

    /// Sends messages on a channel of their own, and awaits what the server says of all of them.
    async fn window(
        &self,
        conn: &Conn,
        events: Vec<(usize, Outgoing)>,
        slate: &Slate,
    ) -> Result<Sent, Trouble> {
        let (channel, answers) = select! {
            biased;
            // The connection is kept: another one would know of it no sooner, and send more that nobody reads.
            () = conn.blocked() => {
                slate.fail_rest((Class::Unavailable, Shared::new(Blocked)));
                return Ok(Sent::Blocked);
            }
            sent = self.sent(conn, &events) => sent?,
        };
        let (mut returned, mut error) = (HashMap::new(), None);
        let mut confirmed = Vec::with_capacity(answers.len());
        for answer in answers {
            confirmed.push(match answer {
                Ok(confirmation) => {
                    let is_ack = confirmation.is_ack();
                    // It came with this confirmation, and is any of the batch.
                    if let Some(message) = confirmation.take_message() {
                        let id = message.properties.message_id().clone();
                        returned.insert(id, message.reply_code);
                    }
                    Some(is_ack)
                }
                Err(why) => {
                    error = Some(why);
                    None
                }
            });
        }
        let mut left = Vec::new();
        for ((at, event), is_ack) in events.into_iter().zip(confirmed) {
            match is_ack {
                Some(is_ack) => self.settle(slate, at, &event, is_ack, &returned),
                None => left.push((at, event)),
            }
        }
        match error {
            None => {
                conn.bring_back(channel);
                Ok(Sent::All)
            }
            Some(error) if conn.is_open() => Ok(Sent::Closed(left, error)),
            Some(error) => Err(lost(error)),
        }
    }

    /// All of them sent and answered, on one channel.
    async fn sent(
        &self,
        conn: &Conn,
        events: &[(usize, Outgoing)],
    ) -> Result<(Channel, Vec<Result<Confirmation, Error>>), Trouble> {
        let channel = conn.channel().await?;
        let options = BasicPublishOptions { mandatory: self.mandatory, immediate: false };
        let mut under_way = Vec::with_capacity(events.len());
        for (_, event) in events {
            let Outgoing { exchange, routing_key, properties, body, .. } = event;
            let channel = &channel;
            let mut publish = Box::pin(async move {
                let (exchange, routing_key) = (exchange.clone(), routing_key.clone());
                let sent =
                    channel.basic_publish(exchange, routing_key, options, body, properties.clone());
                sent.await?.await
            });
            // With its first poll a message has its place behind the one before.
            let first = poll_once(publish.as_mut()).await;
            under_way.push(async move {
                match first {
                    Poll::Ready(answer) => answer,
                    Poll::Pending => publish.await,
                }
            });
        }
        let answers = join_all(under_way).await;
        Ok((channel, answers))
    }

    /// One that was confirmed; which of them were returned is known.
    fn settle(
        &self,
        slate: &Slate,
        at: usize,
        event: &Outgoing,
        is_ack: bool,
        returned: &HashMap<Option<ShortString>, u16>,
    ) {
        let id = event.id().cloned();
        let (class, refused) = match (returned.get(&id), is_ack) {
            // Where all go the same way, or others went this way before, it is no fault of the event's.
            (Some(_), _) if self.encode.is_constant() || self.routes.knows(event) => {
                let path = "rabbitmq.routing_key";
                let wrong = Misconfigured::new(path, "no queue of the exchange takes it");
                let failure = self.link.failure(Class::Misconfigured, wrong);
                return slate.settle(at, Err(failure));
            }
            (Some(code), _) => (Class::REFUSED_NOW, Refused::Returned(*code)),
            (None, true) => {
                self.routes.learn(event);
                return slate.done(at);
            }
            (None, false) if self.encode.is_constant() => (Class::Unavailable, Refused::Nack),
            (None, false) => (slate.full(), Refused::Nack),
        };
        slate.settle(at, Err(self.link.failure(class, refused)));
    }
}

async fn poll_once<F: Future>(mut future: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
}

#[async_trait]
impl Sink for RabbitmqSink {
    fn name(&self) -> &str {
        &self.name
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
        let (slate, events) = Slate::encoded(deliveries, |delivery| self.encode.message(delivery));
        let verdicts = &slate;
        let publish =
            |conn: Arc<Conn>, events| async move { self.publish(&conn, events, verdicts).await };
        self.link.carry_all(&slate, deliveries, events, publish).await;
        slate.verdicts()
    }

    fn is_healthy(&self) -> bool {
        self.link.is_healthy() && !self.alarm.is_on()
    }

    fn identity(&self) -> Option<usize> {
        Some(self.link.identity())
    }
}

impl std::fmt::Debug for RabbitmqSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RabbitmqSink").field("name", &self.name).finish_non_exhaustive()
    }
}
