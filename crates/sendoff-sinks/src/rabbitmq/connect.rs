//! Connections to the server, and their channels.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures_util::{Stream, StreamExt};
use lapin::options::{ConfirmSelectOptions, ExchangeDeclareOptions};
use lapin::tcp::OwnedTLSConfig;
use lapin::types::FieldTable;
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{
    AsyncTcpStream, Channel, Connection, ConnectionProperties, ConnectionStatus, Event,
    ExchangeKind,
};
use tokio::net::lookup_host;
use tokio::sync::watch;
use tracing::dispatcher::{self, DefaultGuard, Dispatch};

use super::answer::{lost, no_right, not_connected, wrong_exchange};
use crate::class::{Misconfigured, Trouble};
use crate::link::Connect;

thread_local! {
    /// Turns `tracing` off on a thread of the client's, for as long as that lives.
    static QUIET: RefCell<Option<DefaultGuard>> = const { RefCell::new(None) };
}

/// Whether the server has blocked the connection that a sink has now.
#[derive(Debug, Clone, Default)]
pub(super) struct Alarm(Arc<Mutex<Option<ConnectionStatus>>>);

impl Alarm {
    /// Whether it has. A connection that ends, or is gone, is not blocked: the next one may be better. That is asked of the
    /// connection itself, because nobody tells of every end, and what is not healthy is not tried again.
    pub(super) fn is_on(&self) -> bool {
        lock(&self.0).as_ref().is_some_and(|status| status.connected() && status.blocked())
    }
}

/// A connection, and channels of it that nobody uses at the moment.
pub(super) struct Conn {
    connection: Connection,
    idle: Mutex<Vec<Channel>>,
    blocked: watch::Receiver<bool>,
    /// Ends with it.
    _cut: Option<Cut>,
}

impl Conn {
    /// A channel that confirms messages, for one batch. One that was not brought back is closed when it is dropped.
    pub(super) async fn channel(&self) -> Result<Channel, Trouble> {
        let idle = lock(&self.idle).pop();
        if let Some(channel) = idle.filter(|channel| channel.status().connected()) {
            return Ok(channel);
        }
        let channel = self.connection.create_channel().await.map_err(lost)?;
        channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(lost)?;
        Ok(channel)
    }

    /// A channel on which all is confirmed.
    pub(super) fn bring_back(&self, channel: Channel) {
        lock(&self.idle).push(channel);
    }

    pub(super) fn is_open(&self) -> bool {
        self.connection.status().connected()
    }

    /// Bytes of a frame, at most.
    pub(super) fn frame_max(&self) -> u32 {
        self.connection.configuration().frame_max()
    }

    /// Comes back when the server has blocked the connection.
    pub(super) async fn blocked(&self) {
        if self.blocked.clone().wait_for(|blocked| *blocked).await.is_err() {
            // The connection ended, which others see.
            std::future::pending().await
        }
    }
}

/// Ends a socket when it is dropped. The client's thread, which has the same one, would otherwise wait for a server that hangs,
/// for as long as it does.
struct Cut(TcpStream);

impl Cut {
    fn of(socket: &tokio::net::TcpStream) -> io::Result<Self> {
        #[cfg(unix)]
        let same = std::os::fd::AsFd::as_fd(socket).try_clone_to_owned()?;
        #[cfg(windows)]
        let same = std::os::windows::io::AsSocket::as_socket(socket).try_clone_to_owned()?;
        Ok(Self(same.into()))
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        // One that is closed already is what was wanted.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// The client logs returned messages with their payload, on the thread that this is called on. Where nobody listens to
/// `tracing`, it is left as it is: to set anything would keep all of the process' records from the crate `log`.
fn quieten() {
    if dispatcher::has_been_set() {
        let guard = dispatcher::set_default(&Dispatch::none());
        QUIET.with_borrow_mut(|quiet| *quiet = Some(guard));
    }
}

/// Opens connections.
pub(super) struct Open {
    pub(super) name: String,
    pub(super) server: AMQPUri,
    pub(super) root_certificates: Option<PathBuf>,
    /// The exchange, where it is the same for all events and not the server's own.
    pub(super) exchange: Option<String>,
    pub(super) batches_in_flight: usize,
    pub(super) alarm: Alarm,
}

impl Open {
    async fn connection(&self) -> Result<(Connection, Option<Cut>), Trouble> {
        let tls = self.tls()?;
        let runtime = lapin::runtime::default_runtime().map_err(lost)?;
        // Before the client begins: of one that does not reach its server something stays in memory each time, and a thread
        // for as long as the system tries.
        let reach = async {
            let AMQPUri { scheme, authority, .. } = &self.server;
            let found = lookup_host((authority.host.as_str(), authority.port)).await?;
            let addresses: Vec<_> = found.collect();
            let stream = AsyncTcpStream::connect(&runtime, addresses).await?;
            let cut = match &stream {
                AsyncTcpStream::Plain(plain) => Some(Cut::of(plain.get_ref())?),
                _ => None,
            };
            let stream = match scheme {
                AMQPScheme::AMQP => stream,
                AMQPScheme::AMQPS => stream.into_tls(&authority.host, tls.as_ref()).await?,
            };
            io::Result::Ok((stream, cut))
        };
        let (stream, cut) = reach.await.map_err(|error| lost(error.into()))?;
        let stream = Mutex::new(Some(stream));
        let properties =
            ConnectionProperties::default().with_connection_name(self.name.as_str().into());
        let opened = Connection::connector(
            self.server.clone(),
            runtime,
            // Called on the client's thread, and once: it does not connect again by itself.
            async move |_, _| {
                quieten();
                let stream = lock(&stream).take();
                stream.ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionAborted).into())
            },
            properties,
        );
        Ok((opened.await.map_err(not_connected)?, cut))
    }

    fn tls(&self) -> Result<OwnedTLSConfig, Misconfigured> {
        let Some(file) = &self.root_certificates else { return Ok(OwnedTLSConfig::default()) };
        let chain = fs::read_to_string(file).map_err(|error| {
            Misconfigured::new("rabbitmq.root_certificates", "cannot be read").because(error)
        })?;
        Ok(OwnedTLSConfig { cert_chain: Some(chain), ..OwnedTLSConfig::default() })
    }

    /// The exchange must be there: a message to one that is not closes its channel.
    async fn look(&self, connection: &Connection) -> Result<(), Trouble> {
        let Some(exchange) = &self.exchange else { return Ok(()) };
        let channel = connection.create_channel().await.map_err(lost)?;
        let passive = ExchangeDeclareOptions { passive: true, ..ExchangeDeclareOptions::default() };
        let declared = channel
            .exchange_declare(
                exchange.as_str().into(),
                // Not looked at.
                ExchangeKind::Topic,
                passive,
                FieldTable::default(),
            )
            .await;
        declared.map_err(|error| match wrong_exchange(&error).or_else(|| no_right(&error)) {
            Some(wrong) => wrong.into(),
            None => lost(error),
        })
    }
}

#[async_trait]
impl Connect for Open {
    type Conn = Conn;

    async fn open(&self) -> Result<Conn, Trouble> {
        let (connection, cut) = self.connection().await?;
        let channels = usize::from(connection.configuration().channel_max());
        // One more looks at the exchange. Zero is no limit.
        if channels > 0 && channels <= self.batches_in_flight {
            let path = "rabbitmq.link.batches_in_flight";
            let reason = format_args!(
                "is {}; each has a channel, and of these the server takes {channels}",
                self.batches_in_flight
            );
            return Err(Misconfigured::new(path, reason).into());
        }
        self.look(&connection).await?;
        // Before its state is looked at, so that nothing is missed in between.
        let events = connection.events_listener();
        let (told, blocked) = watch::channel(connection.status().blocked());
        let status = connection.status().clone();
        // Ends with the connection, of which it holds nothing.
        tokio::spawn(listen(events, move || status.connected(), told));
        *lock(&self.alarm.0) = Some(connection.status().clone());
        Ok(Conn { connection, idle: Mutex::default(), blocked, _cut: cut })
    }

    fn is_open(&self, conn: &Conn) -> bool {
        conn.is_open()
    }

    async fn close(&self, conn: Arc<Conn>) {
        // Who is blocked writes nothing, not even that.
        if !conn.connection.status().blocked() {
            let _ = conn.connection.close(200, "OK".into()).await;
        }
    }
}

/// Tells of alarms, until the connection is gone. What closes a channel is an error among these too, and ends nothing.
async fn listen(
    events: impl Stream<Item = Event>,
    is_connected: impl Fn() -> bool,
    told: watch::Sender<bool>,
) {
    let mut events = pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Event::ConnectionBlocked(_) => told.send_replace(true),
            Event::ConnectionUnblocked => told.send_replace(false),
            Event::Error(_) if !is_connected() => return,
            _ => continue,
        };
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures_util::stream::{self, pending};
    use lapin::ErrorKind;

    use super::*;

    /// One that is poison, or an exchange that is not there, closes a channel, and an alarm may come after that.
    #[tokio::test]
    async fn an_alarm_is_heard_after_a_channel_was_closed() {
        let error = || Event::Error(ErrorKind::MissingHeartbeatError.into());
        let blocked = || Event::ConnectionBlocked("disk".into());
        let heard = |events: Vec<Event>, is_connected: bool| {
            let (told, alarm) = watch::channel(false);
            let events = stream::iter(events).chain(pending());
            tokio::spawn(listen(events, move || is_connected, told));
            alarm
        };
        let mut alarm = heard(vec![error(), blocked()], true);
        assert!(alarm.wait_for(|blocked| *blocked).await.is_ok(), "it is heard");
        let mut alarm = heard(vec![error()], false);
        assert!(alarm.changed().await.is_err(), "nobody listens to what is gone");
    }
}
