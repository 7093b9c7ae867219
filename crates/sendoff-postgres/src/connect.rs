//! Opening connections of our own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::poll_fn;
use sendoff_engine::store::StoreError;
use sendoff_engine::store::frame::{Address, NoConnection, place};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_postgres::config::Host;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls};
use tracing::debug;

use crate::bounds::SessionBounds;
use crate::error::{failed, fix, misconfigured};
use crate::leave::Farewell;
use crate::options::{Doorbell, PostgresOptions};
use crate::tls::{Security, secure};
use crate::wake::Rings;

/// A dead peer is noticed after about a minute of silence, also by a connection that only listens.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEPALIVE_RETRIES: u32 = 3;
/// Unanswered data counts as a dead peer after this long.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(30);

/// A claim or settlement that a crash of the server takes back only causes another delivery, so
/// they need not wait for the disk.
const RELAXED: &str = "-c synchronous_commit=off";

/// What our sessions are set to, whatever the defaults of the database or the role are.
///
/// The plans never depend on values, and the table may be large
/// before anybody counted it: so plans are made once, and only along the indexes. With scans
/// forbidden their estimates are absurd, and would have every statement compiled. A table in many
/// partitions would rather be read once and kept than probed for each row.
const SETTINGS: &str = "-c plan_cache_mode=force_generic_plan \
                        -c enable_seqscan=off -c enable_bitmapscan=off -c enable_hashjoin=off \
                        -c enable_mergejoin=off -c enable_material=off -c jit=off \
                        -c default_transaction_isolation=read\\ committed \
                        -c default_transaction_read_only=off \
                        -c search_path=pg_catalog -c timezone=UTC";

/// What a commit of ours is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Commits {
    /// A crash of the server may take it back.
    Relaxed,
    /// As much as the server's, the database's or the role's default makes it.
    Durable,
}

/// Opens connections, all alike.
pub(crate) struct Connector {
    address: Address,
    /// Where the last one went, or the first is to go.
    target: Mutex<Option<Arc<Target>>>,
    options: PostgresOptions,
    commits: Commits,
    bounds: SessionBounds,
    lost: Arc<AtomicU64>,
}

/// Where connections go, and what their sessions are set to.
pub(crate) struct Target {
    pub(crate) config: Config,
    pub(crate) security: Security,
}

/// A connection, and the task that moves its bytes.
pub(crate) struct Opened {
    pub(crate) client: Client,
    pub(crate) task: JoinHandle<()>,
    /// Closed when the task is over.
    ended: watch::Receiver<()>,
    target: Arc<Target>,
    connect_timeout: Duration,
}

impl Opened {
    /// What it takes to end it.
    pub(crate) fn farewell(&self) -> Farewell {
        Farewell {
            token: self.client.cancel_token(),
            target: Arc::clone(&self.target),
            connection: self.task.abort_handle(),
            ended: self.ended.clone(),
            connect_timeout: self.connect_timeout,
        }
    }
}

impl Target {
    fn new(
        url: &str,
        options: &PostgresOptions,
        commits: Commits,
        bounds: &SessionBounds,
    ) -> Result<Self, StoreError> {
        // What libpq calls verify-full is what we always do.
        let url = url.replace("sslmode=verify-full", "sslmode=require");
        // The parser's words do not repeat the URL, which may hold a password.
        let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
            misconfigured(format!(
                "the URL of a PostgreSQL database is postgres://user:password@host:port/database: \
                 {}",
                sendoff_core::report(&error)
            ))
        })?;
        let security = secure(&mut config, &options.tls)?;
        config
            .connect_timeout(options.connect_timeout)
            .keepalives(true)
            .keepalives_idle(KEEPALIVE_IDLE)
            .keepalives_interval(KEEPALIVE_INTERVAL)
            .keepalives_retries(KEEPALIVE_RETRIES)
            .tcp_user_timeout(TCP_USER_TIMEOUT);
        if config.get_application_name().is_none() {
            config.application_name("sendoff");
        }
        if options.doorbell == Doorbell::On {
            let asked = config.get_options().unwrap_or_default();
            let commits = if commits == Commits::Relaxed { RELAXED } else { "" };
            let bounds = bounds.at_start();
            config.options(format!("{asked} {commits} {SETTINGS}{bounds}"));
        }
        Ok(Self { config, security })
    }

    /// Of one of its hosts.
    pub(crate) fn port(&self, nth: usize) -> u16 {
        let ports = self.config.get_ports();
        ports.get(nth).or(ports.first()).copied().unwrap_or(5432)
    }

    /// Where the server is, or could be.
    fn place(&self) -> String {
        let hosts = self.config.get_hosts().iter().enumerate();
        let places: Vec<_> = hosts
            .map(|(nth, host)| match host {
                Host::Tcp(name) => place(name, self.port(nth)),
                #[cfg(unix)]
                Host::Unix(folder) => format!("{}/.s.PGSQL.{}", folder.display(), self.port(nth)),
            })
            .collect();
        places.join(", ")
    }
}

impl Connector {
    /// An address that stays is looked at now; one that is asked for, at every connection.
    pub(crate) fn new(
        address: Address,
        options: &PostgresOptions,
        commits: Commits,
        bounds: SessionBounds,
    ) -> Result<Self, StoreError> {
        let fixed = address.fixed();
        let target = fixed.map(|url| Target::new(url, options, commits, &bounds)).transpose()?;
        Ok(Self {
            target: Mutex::new(target.map(Arc::new)),
            address,
            options: options.clone(),
            commits,
            bounds,
            lost: Arc::default(),
        })
    }

    /// Where the next one goes.
    async fn target(&self) -> Result<Arc<Target>, StoreError> {
        let known = self.last_target().filter(|_| !self.address.is_asked());
        if let Some(target) = known {
            return Ok(target);
        }
        let url = self.address.url().await?;
        let target = Arc::new(Target::new(&url, &self.options, self.commits, &self.bounds)?);
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&target));
        Ok(target)
    }

    fn last_target(&self) -> Option<Arc<Target>> {
        self.target.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn timeout(&self) -> Duration {
        self.options.connect_timeout
    }

    /// How many of them were lost: broken, or given up because a statement was not answered.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Acquire)
    }

    /// One was.
    pub(crate) fn lose(&self) {
        self.lost.fetch_add(1, Ordering::Release);
    }

    /// What the server allows each of them.
    pub(crate) const fn bounds(&self) -> &SessionBounds {
        &self.bounds
    }

    /// Opens a connection; `bell` is told of every notification it receives.
    pub(crate) async fn open(&self, bell: Option<Arc<Rings>>) -> Result<Opened, StoreError> {
        let open = async {
            let target = self.target().await?;
            let connected = async {
                Ok(match &target.security {
                    Security::Plain => {
                        let (client, connection) = target.config.connect(NoTls).await?;
                        (client, self.spawn(connection, bell))
                    }
                    #[cfg(feature = "tls-rustls")]
                    Security::Rustls(tls) => {
                        let (client, connection) = target.config.connect(tls.clone()).await?;
                        (client, self.spawn(connection, bell))
                    }
                })
            };
            let connected = connected.await.map_err(|error| self.not_opened(&target, error));
            let (client, (task, ended)) = connected?;
            Ok(Opened { client, task, ended, target, connect_timeout: self.timeout() })
        };
        match tokio::time::timeout(self.timeout(), open).await {
            Ok(opened) => opened,
            Err(_) => {
                let place = self.last_target().map_or_else(String::new, |target| target.place());
                Err(NoConnection::in_time(place, self.timeout()).into())
            }
        }
    }

    /// Some refusals last until somebody changes something, and say what. A password that was asked for may
    /// be another the next time.
    fn not_opened(&self, target: &Target, error: tokio_postgres::Error) -> StoreError {
        match error.code() {
            Some(code) if fix(code).is_some() && !self.address.is_asked() => failed(error),
            _ => NoConnection::to(target.place(), error).into(),
        }
    }

    /// Moves bytes in a task; what it gives as well is closed when that is over.
    fn spawn<S, T>(
        &self,
        connection: Connection<S, T>,
        bell: Option<Arc<Rings>>,
    ) -> (JoinHandle<()>, watch::Receiver<()>)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let lost = Arc::clone(&self.lost);
        let (ending, ended) = watch::channel(());
        let task = tokio::spawn(async move {
            let _ending = ending;
            if drive(connection, bell).await == Ended::Lost {
                lost.fetch_add(1, Ordering::Release);
            }
        });
        (task, ended)
    }
}

/// How a connection came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    /// Its client was dropped.
    Closed,
    /// The link broke, or the server ended it.
    Lost,
}

/// Moves bytes until the client is dropped or the link breaks.
async fn drive<S, T>(mut connection: Connection<S, T>, bell: Option<Arc<Rings>>) -> Ended
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        match poll_fn(|cx| connection.poll_message(cx)).await {
            Some(Ok(AsyncMessage::Notification(notification))) => {
                if let Some(bell) = &bell {
                    bell.ring(notification.payload());
                }
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => {
                debug!(%error, "connection lost");
                return Ended::Lost;
            }
            None => return Ended::Closed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds S10: whatever the URL is when it is asked for, the server keeps our limits for it (I10).
    #[tokio::test]
    async fn an_address_that_is_asked_for_has_the_limits_of_one_that_stays() {
        let options = PostgresOptions::default();
        let settings = async |address: Address| {
            let bounds = SessionBounds::outbox(&options);
            let connector = Connector::new(address, &options, Commits::Relaxed, bounds).unwrap();
            let target = connector.target().await.unwrap();
            target.config.get_options().unwrap().to_owned()
        };
        let asked = Address::asked(|| async { Ok("postgres://app@localhost/shop".to_owned()) });
        let (fixed, asked) =
            (settings("postgres://app@localhost/shop".into()).await, settings(asked).await);
        assert_eq!(fixed, asked);
        assert!(asked.contains("idle_in_transaction_session_timeout="), "{asked}");
    }
}
