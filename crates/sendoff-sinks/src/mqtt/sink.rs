//! The sink.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures_util::future::join_all;
use rumqttc::mqttbytes::v5::Publish;
use rumqttc::{PublishNotice, PublishNoticeError, PublishResult};
use sendoff_core::{BoxError, Delivery, EventId, Sink, Verdict};
use tokio::sync::RwLock;

use super::answer::{Lost, Refused, acknowledged, no_retain};
use super::connect::{Conn, Open, WINDOW};
use super::encode::{Encode, packet_bytes};
use super::options::MqttOptions;
use crate::class::{Class, Misconfigured, Trouble};
use crate::link::{Link, Slate};

/// Publishes each event to a topic. Cheap to clone; clones are the same, with one connection.
///
/// ```no_run
/// use sendoff_sinks::mqtt::{MqttAuth, MqttOptions, MqttSink};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let sink = MqttSink::start(MqttOptions {
///     auth: Some(MqttAuth { user: "shop".to_owned(), password: "…".into() }),
///     topic: "shop/{tenant|none}/{type}".to_owned(),
///     ..MqttOptions::server("mqtt://mqtt.example")
/// })
/// .await?;
/// // …given to an outbox, a relay, a topic worker or a publisher…
/// sink.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct MqttSink {
    name: String,
    encode: Arc<Encode>,
    care: Arc<Care>,
    link: Link<Open>,
}

/// Events that were under way when the broker ended a connection on account of a message, which may be remembered: as
/// many as can be under way at once, by the numbers that MQTT has for them.
const SUSPECTS: usize = u16::MAX as usize;

/// Care for what may end a connection.
#[derive(Debug, Default)]
struct Care {
    /// Events without an acknowledgement when the broker ended a connection on account of a message, which may be any of
    /// theirs. A batch that has one is sent one at a time; an event that has its verdict is none any more.
    suspects: Mutex<HashSet<EventId>>,
    /// Batches share it; who sends one message at a time has it, and with it the connection, to itself.
    turn: RwLock<()>,
}

impl Care {
    fn suspects(&self) -> MutexGuard<'_, HashSet<EventId>> {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Any of these may have ended the connection.
    fn suspect(&self, ids: impl ExactSizeIterator<Item = EventId>) {
        let mut suspects = self.suspects();
        // What others delivered, or nobody delivers again, has no verdict here, ever. Whoever ends a connection is found
        // the next time it does.
        if suspects.len() + ids.len() > SUSPECTS {
            suspects.clear();
        }
        suspects.extend(ids.take(SUSPECTS));
    }

    /// This one has a verdict.
    fn acquit(&self, id: EventId) {
        self.suspects().remove(&id);
    }
}

/// An event as it is sent.
struct Outgoing {
    id: EventId,
    message: Publish,
}

impl MqttSink {
    /// Checks the options, and connects. A broker that cannot be reached is waited for.
    ///
    /// # Errors
    ///
    /// An option is wrong, such as a password; it is named by its path.
    pub async fn start(options: MqttOptions) -> Result<Self, Misconfigured> {
        let (address, encode) = options.check()?;
        let MqttOptions { name, auth, root_certificates, client_id, retain, link, .. } = options;
        // Letters and digits, and 23 of them, is what every broker has to take.
        let random = || format!("sendoff{:016x}", fastrand::u64(..));
        let client_id = client_id.unwrap_or_else(random);
        let is_taken_over = Arc::default();
        let open =
            Open { address, auth, root_certificates, client_id, retain, link, is_taken_over };
        let link = Link::start(name.clone(), open, link).await?;
        Ok(Self { name, encode: Arc::new(encode), care: Arc::default(), link })
    }

    /// Takes no more events, and ends the connection when those under way are acknowledged. Answers whether they were,
    /// within [`LinkOptions::close_within`](crate::link::LinkOptions::close_within).
    pub async fn close(&self) -> bool {
        self.link.close().await
    }

    /// Sends all of them in order, and awaits what the broker says of each.
    async fn publish(
        &self,
        conn: &Conn,
        mut events: Vec<(usize, Outgoing)>,
        slate: &Slate,
    ) -> Result<(), Trouble> {
        events.retain(|(at, event)| self.fits(conn, slate, *at, event));
        {
            let _shared = self.care.turn.read().await;
            let is_suspect = {
                let suspects = self.care.suspects();
                events.iter().any(|(_, event)| suspects.contains(&event.id))
            };
            if !is_suspect {
                return self.side_by_side(conn, events, slate).await;
            }
        }
        let _alone = self.care.turn.write().await;
        self.one_at_a_time(conn, events, slate).await
    }

    async fn side_by_side(
        &self,
        conn: &Conn,
        events: Vec<(usize, Outgoing)>,
        slate: &Slate,
    ) -> Result<(), Trouble> {
        let mut events = events.into_iter().peekable();
        let (mut so_far, mut under_way) = (Ok(()), Vec::new());
        while so_far.is_ok() && events.peek().is_some() {
            let mut sent = Vec::new();
            under_way.clear();
            for (at, Outgoing { id, message }) in events.by_ref().take(WINDOW) {
                match conn.send(message).await {
                    Ok(notice) => {
                        under_way.push((at, id));
                        sent.push(self.acknowledged(conn, slate, at, notice));
                    }
                    Err(lost) => so_far = Err(lost),
                }
                if so_far.is_err() {
                    break;
                }
            }
            // One that fails does not keep the others from their verdicts.
            so_far = join_all(sent).await.into_iter().fold(so_far, Result::and);
        }
        so_far.map_err(|lost| {
            if lost.of_a_message().is_some() {
                under_way.retain(|(at, _)| !slate.has(*at));
                self.care.suspect(under_way.into_iter().map(|(_, id)| id));
            }
            lost.trouble()
        })
    }

    /// The one that ends the connection is known by that: nobody else sends anything meanwhile.
    async fn one_at_a_time(
        &self,
        conn: &Conn,
        events: Vec<(usize, Outgoing)>,
        slate: &Slate,
    ) -> Result<(), Trouble> {
        for (at, Outgoing { id, message }) in events {
            // One that ended before, while others had their turn, ended because of theirs.
            if let Some(lost) = conn.ended() {
                return Err(lost.trouble());
            }
            // What could not be sent is not why.
            let notice = conn.send(message).await.map_err(|lost| lost.trouble())?;
            if let Err(lost) = self.acknowledged(conn, slate, at, notice).await {
                if let Some(class) = lost.of_a_message() {
                    let ended = Refused::Ended(lost.clone());
                    slate.settle(at, Err(self.link.failure(class, ended)));
                    self.care.acquit(id);
                }
                return Err(lost.trouble());
            }
            self.care.acquit(id);
        }
        Ok(())
    }

    /// Whether the broker takes a packet of this size, as it said. One that is larger ends the connection.
    fn fits(&self, conn: &Conn, slate: &Slate, at: usize, event: &Outgoing) -> bool {
        let bytes = packet_bytes(&event.message);
        let Some(most) = conn.packet_bytes().filter(|most| bytes > *most as usize) else {
            return true;
        };
        let refused = Refused::TooLarge { bytes, most };
        slate.settle(at, Err(self.link.failure(Class::Poison, refused)));
        self.care.acquit(event.id);
        false
    }

    async fn acknowledged(
        &self,
        conn: &Conn,
        slate: &Slate,
        at: usize,
        notice: PublishNotice,
    ) -> Result<(), Lost> {
        let refused = match notice.wait_async().await {
            Ok(PublishResult::Qos1(ack)) => acknowledged(ack.reason),
            Err(PublishNoticeError::RetainNotSupported) => {
                Some((Class::Misconfigured, no_retain().into()))
            }
            // Of another QoS there is none.
            Ok(_) | Err(_) => return Err(conn.end().await),
        };
        match refused {
            None => slate.done(at),
            Some((class, error)) => slate.settle(at, Err(self.link.failure(class, error))),
        }
        Ok(())
    }
}

#[async_trait]
impl Sink for MqttSink {
    fn name(&self) -> &str {
        &self.name
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
        let encode = |delivery: &Delivery| {
            let message = self.encode.message(delivery)?;
            Ok::<_, BoxError>(Outgoing { id: delivery.id(), message })
        };
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

impl std::fmt::Debug for MqttSink {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MqttSink").field("name", &self.name).finish_non_exhaustive()
    }
}
