//! Connections to the broker.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use rumqttc::mqttbytes::v5::{ConnAckProperties, DisconnectReasonCode, Packet, Publish};
use rumqttc::{
    AsyncClient, Broker, Event, EventLoop, MqttOptions as ClientOptions, PublishNotice,
    PublishOptions, SessionMode,
};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::answer::{Lost, no_retain, not_connected, taken_over};
use super::options::{Address, MqttAuth};
use crate::class::{Misconfigured, Trouble};
use crate::link::{Connect, LinkOptions};

/// Messages of one batch that are sent before the first of them has to be acknowledged.
pub(super) const WINDOW: usize = 1_000;
/// How often the client looks whether a silent broker is there, in seconds.
const KEEP_ALIVE: u16 = 10;

/// A connection. The task that carries it ends with it.
pub(super) struct Conn {
    client: AsyncClient,
    /// Why it ended.
    ended: watch::Receiver<Option<Lost>>,
    task: JoinHandle<()>,
    packet_bytes: Option<u32>,
}

impl Conn {
    /// The largest packet that the broker takes.
    pub(super) fn packet_bytes(&self) -> Option<u32> {
        self.packet_bytes
    }

    /// Gives a message its place in the order of what is sent.
    pub(super) async fn send(&self, message: Publish) -> Result<PublishNotice, Lost> {
        // Only messages that were made from a template come here, so that a topic is one.
        let topic = String::from_utf8_lossy(&message.topic).into_owned();
        let mut options = PublishOptions::new(message.qos).retain(message.retain);
        if let Some(properties) = message.properties {
            options = options.properties(properties);
        }
        match self.client.publish_tracked(topic, message.payload, options).await {
            Ok(notice) => Ok(notice),
            // The error has the message in it.
            Err(_) => Err(self.end().await),
        }
    }

    /// Why it ended, where it has.
    pub(super) fn ended(&self) -> Option<Lost> {
        self.ended.borrow().clone()
    }

    /// Why it ended, once it has.
    pub(super) async fn end(&self) -> Lost {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(lost) => lost.clone().unwrap_or(Lost::Connection),
            Err(_) => Lost::Connection,
        }
    }
}

impl Drop for Conn {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Opens connections.
pub(super) struct Open {
    pub(super) address: Address,
    pub(super) auth: Option<MqttAuth>,
    #[cfg_attr(not(feature = "mqtt-tls"), expect(dead_code, reason = "it is for TLS"))]
    pub(super) root_certificates: Option<PathBuf>,
    pub(super) client_id: String,
    pub(super) retain: bool,
    pub(super) link: LinkOptions,
    /// Whether the last connection ended for another client's sake. To open one at once would end that one's, and so on.
    pub(super) is_taken_over: Arc<AtomicBool>,
}

impl Open {
    fn options(&self) -> Result<ClientOptions, Trouble> {
        let Address { host, port, .. } = &self.address;
        let mut options = ClientOptions::new(self.client_id.clone(), Broker::tcp(host, *port));
        options
            .set_keep_alive(KEEP_ALIVE)
            .set_connect_timeout(self.link.connect_within)
            // What was not acknowledged is sent again by the sink, under the same id, and by nobody else.
            .set_session_mode(SessionMode::Clean)
            .set_request_channel_capacity(WINDOW);
        if let Some(MqttAuth { user, password }) = &self.auth {
            options.set_credentials(user.clone(), password.expose().to_owned());
        }
        self.tls(&mut options)?;
        Ok(options)
    }

    #[cfg(not(feature = "mqtt-tls"))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as it is with TLS")]
    fn tls(&self, _: &mut ClientOptions) -> Result<(), Trouble> {
        Ok(())
    }

    #[cfg(feature = "mqtt-tls")]
    fn tls(&self, options: &mut ClientOptions) -> Result<(), Trouble> {
        use rumqttc::{TlsConfiguration, Transport};

        if !self.address.is_tls {
            return Ok(());
        }
        let transport = match &self.root_certificates {
            None => Transport::try_tls_with_default_config().map_err(Trouble::unavailable)?,
            Some(file) => {
                let ca = std::fs::read(file).map_err(|error| {
                    let path = "mqtt.root_certificates";
                    Misconfigured::new(path, "cannot be read").because(error)
                })?;
                let tls = TlsConfiguration::Simple { ca, alpn: None, client_auth: None };
                Transport::tls_with_config(tls)
            }
        };
        options.set_transport(transport);
        Ok(())
    }

    /// What the broker said when it let the sink in.
    async fn connected(events: &mut EventLoop) -> Result<Option<ConnAckProperties>, Trouble> {
        loop {
            match events.poll().await {
                Ok(Event::Incoming(Packet::ConnAck(said))) => {
                    return Ok(said.properties);
                }
                Ok(_) => {}
                Err(error) => return Err(not_connected(error)),
            }
        }
    }
}

#[async_trait]
impl Connect for Open {
    type Conn = Conn;

    async fn open(&self) -> Result<Conn, Trouble> {
        if self.is_taken_over.swap(false, Ordering::AcqRel) {
            return Err(taken_over().into());
        }
        let (client, mut events) = AsyncClient::builder(self.options()?).build();
        let said = Self::connected(&mut events).await?;
        let said = said.as_ref();
        if said.is_some_and(|said| said.max_qos == Some(0)) {
            let reason = "is a broker that takes no QoS 1, and so confirms nothing";
            return Err(Misconfigured::new("mqtt.server", reason).into());
        }
        if self.retain && said.is_some_and(|said| said.retain_available == Some(0)) {
            return Err(no_retain().into());
        }
        let (told, ended) = watch::channel(None);
        let is_taken_over = Arc::clone(&self.is_taken_over);
        let task = tokio::spawn(async move {
            // Polled again after an error, it would connect again, and send what nobody waits for any more.
            let error = loop {
                if let Err(error) = events.poll().await {
                    break error;
                }
            };
            let lost = Lost::from(&error);
            let taken_over = matches!(lost, Lost::Said(DisconnectReasonCode::SessionTakenOver));
            is_taken_over.store(taken_over, Ordering::Release);
            told.send_replace(Some(lost));
        });
        let packet_bytes = said.and_then(|said| said.max_packet_size);
        Ok(Conn { client, ended, task, packet_bytes })
    }

    fn is_open(&self, conn: &Conn) -> bool {
        conn.ended.borrow().is_none() && !conn.task.is_finished()
    }

    async fn close(&self, conn: Arc<Conn>) {
        // Comes back when it was said; the task ends when it was heard.
        if conn.client.disconnect().await.is_ok() {
            conn.end().await;
        }
    }

    /// At once, whoever else still has it: the broker would end it for the sake of the next one, which has the same id, and
    /// say that another client came.
    fn discard(&self, conn: Arc<Conn>) {
        conn.task.abort();
    }
}
