//! Opening connections of our own.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use mysql_async::{Conn, Error, IoError, Opts, OptsBuilder, UrlError};
use sendoff_engine::store::StoreError;
use sendoff_engine::store::frame::{Address, NoConnection, place};

use crate::error::{failed, misconfigured};
use crate::options::{MysqlOptions, Tls};

/// Silence after which the kernel asks whether the peer is still there.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// What our sessions are set to, whatever the defaults of the server or the user are.
///
/// Long lists of ids are looked up one by one, and never turned into a join as MariaDB would: what a
/// statement locks must not depend on its plan.
const SETTINGS: &str = "set session autocommit = 1, time_zone = '+00:00', \
                        sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', \
                        sql_safe_updates = 0, \
                        /*M!100600 in_predicate_conversion_threshold = 0, max_statement_time = 0, */ \
                        innodb_lock_wait_timeout = ";

/// Statements that a session keeps prepared at most: those of decisions, of which there are a few.
const PREPARED: usize = 32;

/// After how long the server ends a session that says nothing. It is opened again when it is needed.
const SESSION_IDLE: Duration = Duration::from_secs(60);

/// The same of a session that somebody has until it is lost. MySQL knows no other end for what it has
/// locked; MariaDB does, and lets it be silent between transactions.
const LASTING_IDLE: Duration = Duration::from_secs(10 * 60);

/// What bounds the server's patience with our sessions, so that no lock of a process that froze lasts:
/// for whole tables as for rows, for transactions in which nothing is said, and for answers that nobody
/// takes. How much silence that is, is noted for whoever changes it for a while. What an administrator allows
/// transactions that read, or that write, would be shorter or longer. Noted rows of a batch are longer than
/// what the server puts together by default.
fn limits(options: &MysqlOptions, session_idle: &str, silence: Duration) -> String {
    let (lock, idle) =
        (seconds(options.lock_timeout), seconds(options.idle_in_transaction_timeout));
    let silence = seconds(silence).min(idle);
    format!(
        "; set session lock_wait_timeout = {lock}, wait_timeout = {session_idle}, \
         net_write_timeout = {idle}, /*M!100600 idle_transaction_timeout = {silence}, \
         idle_readonly_transaction_timeout = 0, idle_write_transaction_timeout = 0, */ \
         group_concat_max_len = 67108864; \
         set @sendoff_silence = @@session.wait_timeout"
    )
}

fn seconds(span: Duration) -> u64 {
    span.as_secs().max(1)
}

/// Opens connections, all alike.
pub(crate) struct Connector {
    address: Address,
    /// Where the last one went, or the first is to go.
    opts: Mutex<Opts>,
    database: String,
    options: MysqlOptions,
    /// What their sessions are set to besides.
    limits: String,
}

/// An address, and the URL that it is now: its database is the one that tables are named with.
pub(crate) struct Reached {
    address: Address,
    url: String,
}

impl Reached {
    /// Asks, where it has to be asked for.
    pub(crate) async fn ask(address: Address, timeout: Duration) -> Result<Self, StoreError> {
        let url = tokio::time::timeout(timeout, address.url()).await;
        let url = url.unwrap_or(Err(StoreError::Timeout))?.into_owned();
        Ok(Self { address, url })
    }
}

impl From<&str> for Reached {
    fn from(url: &str) -> Self {
        Self { address: url.into(), url: url.to_owned() }
    }
}

impl Connector {
    /// For sessions that are opened again when they are needed: the server ends what goes silent.
    pub(crate) fn limited(at: &Reached, options: &MysqlOptions) -> Result<Self, StoreError> {
        Self::silent(at, options, Duration::MAX)
    }

    /// The same, where transactions are not to be silent for longer than this. MySQL knows no such limit.
    pub(crate) fn silent(
        at: &Reached,
        options: &MysqlOptions,
        silence: Duration,
    ) -> Result<Self, StoreError> {
        Self::with(at, options, limits(options, &seconds(SESSION_IDLE).to_string(), silence))
    }

    /// For sessions that somebody has until they are lost, and who may say nothing for long between
    /// transactions.
    pub(crate) fn lasting(at: &Reached, options: &MysqlOptions) -> Result<Self, StoreError> {
        let idle = format!("/*M!100600 default */ /*!80000 {} */", seconds(LASTING_IDLE));
        Self::with(at, options, limits(options, &idle, Duration::MAX))
    }

    /// For batches of the `locked` claim mode, whose transactions last: also where the server knows no
    /// limit for those, a silent session ends.
    pub(crate) fn for_batches(at: &Reached, options: &MysqlOptions) -> Result<Self, StoreError> {
        let idle = seconds(options.idle_in_transaction_timeout);
        Self::with(at, options, limits(options, &idle.to_string(), Duration::MAX))
    }

    fn with(at: &Reached, options: &MysqlOptions, limits: String) -> Result<Self, StoreError> {
        let (opts, database) = Self::target(&at.url, options, &limits)?;
        Ok(Self {
            address: at.address.clone(),
            opts: Mutex::new(opts),
            database,
            options: options.clone(),
            limits,
        })
    }

    /// Where connections go and what their sessions are set to, and the database that the URL names.
    fn target(
        url: &str,
        options: &MysqlOptions,
        limits: &str,
    ) -> Result<(Opts, String), StoreError> {
        // Both databases speak one protocol, and the driver knows one name for it.
        let url = match url.strip_prefix("mariadb:") {
            Some(rest) => format!("mysql:{rest}"),
            None => url.to_owned(),
        };
        let opts = Opts::from_url(&url).map_err(|error| misconfigured(wrong_url(&error)))?;
        let Some(database) = opts.db_name().filter(|name| !name.is_empty()).map(str::to_owned)
        else {
            return Err(misconfigured(format!("the URL names no database; {SHAPE}")));
        };
        let tls = secure(&opts, &options.tls)?;
        let settings = format!("{SETTINGS}{}", seconds(options.lock_timeout));
        let builder = OptsBuilder::from_opts(opts)
            .ssl_opts(tls)
            .prefer_socket(false)
            .tcp_keepalive(Some(KEEPALIVE))
            .stmt_cache_size(PREPARED)
            .init(vec![format!(
                "set session transaction isolation level read committed, read write; {settings}{limits}"
            )]);
        Ok((builder.into(), database))
    }

    /// The database that the URL names.
    pub(crate) fn database(&self) -> &str {
        &self.database
    }

    pub(crate) async fn open(&self) -> Result<Conn, StoreError> {
        let (asked, timeout) = (self.address.is_asked(), self.options.connect_timeout);
        let open = async {
            let opts = if asked { self.asked().await? } else { self.last() };
            let where_to = whereabouts(&opts);
            Conn::new(opts).await.map_err(|error| match error {
                Error::Io(IoError::Io(cause)) => NoConnection::to(where_to, cause).into(),
                // A password that was asked for may be another the next time.
                error if asked => NoConnection::to(where_to, error).into(),
                error => failed(error),
            })
        };
        match tokio::time::timeout(timeout, open).await {
            Ok(opened) => opened,
            Err(_) => Err(NoConnection::in_time(whereabouts(&self.last()), timeout).into()),
        }
    }

    /// Where the next one goes, by an address that is asked for anew.
    async fn asked(&self) -> Result<Opts, StoreError> {
        let url = self.address.url().await?;
        let (opts, database) = Self::target(&url, &self.options, &self.limits)?;
        if database != self.database {
            return Err(misconfigured(format!(
                "the URL names the database {database} now, and the tables are in {}: a store stays with \
                 the database that it began with",
                self.database
            )));
        }
        *self.opts.lock().unwrap_or_else(PoisonError::into_inner) = opts.clone();
        Ok(opts)
    }

    fn last(&self) -> Opts {
        self.opts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Where the server is.
fn whereabouts(opts: &Opts) -> String {
    match opts.socket() {
        Some(socket) => socket.to_owned(),
        None => place(opts.ip_or_hostname(), opts.tcp_port()),
    }
}

const SHAPE: &str = "the URL of a database is mysql://user:password@host:port/database";

/// Not the parser's own words where they would repeat a part of the URL, which may be a password.
fn wrong_url(error: &UrlError) -> String {
    let reason = match error {
        UrlError::FeatureRequired { feature, param } => {
            format!("parameter `{param}` needs the driver's feature `{feature}`")
        }
        UrlError::InvalidParamValue { param, .. } => {
            format!("parameter `{param}` has a wrong value")
        }
        UrlError::UnknownParameter { param } => format!("parameter `{param}` is not known"),
        UrlError::InvalidPoolConstraints { .. } => "pool_min is more than pool_max".into(),
        UrlError::UnsupportedScheme { .. } => {
            "it begins with neither `mysql:` nor `mariadb:`".into()
        }
        UrlError::Parse(error) => error.to_string(),
        UrlError::Invalid => "it is incomplete".into(),
    };
    format!("{SHAPE}: {reason}")
}

fn secure(opts: &Opts, tls: &Tls) -> Result<Option<mysql_async::SslOpts>, StoreError> {
    match tls {
        _ if opts.ssl_opts().is_some() => Ok(opts.ssl_opts().cloned()),
        #[cfg(feature = "tls-rustls")]
        Tls::Rustls(configured) => Ok(Some((**configured).clone())),
        #[cfg(not(feature = "tls-rustls"))]
        Tls::Rustls(never) => match *never {},
        Tls::Off => Ok(None),
        Tls::Auto if is_this_host(opts) => Ok(None),
        #[cfg(feature = "tls-rustls")]
        Tls::Auto => Ok(Some(mysql_async::SslOpts::default())),
        #[cfg(not(feature = "tls-rustls"))]
        Tls::Auto => Err(misconfigured(
            "the server is on another host, and this program was built without TLS: switch on \
             the feature `mysql-tls-rustls` of `sendoff` (`tls-rustls` of `sendoff-mysql`), or set \
             `tls` to `Off` where the network is trusted",
        )),
    }
}

fn is_this_host(opts: &Opts) -> bool {
    let host = opts.ip_or_hostname().trim_matches(['[', ']']);
    opts.socket().is_some()
        || host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        match Connector::limited(&url.into(), &MysqlOptions::default()) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{url} is no such URL"),
        }
    }

    #[test]
    fn a_wrong_url_is_named_and_never_shown() {
        for url in [
            "",
            "s3cret",
            "postgres://app:s3cret@localhost/shop",
            "mysql://app:s3cret@localhost",
            "mysql://app:s3cret@localhost/",
            "mysql://app:s3cret@localhost:s3cret/shop",
            "mysql://app:s3cret@localhost/shop?s=s3cret",
            "mysql://app:s3cret@localhost/shop?pool_min=s3cret",
        ] {
            let said = refusal(url);
            assert!(!said.contains("s3cret"), "{url}: {said}");
            assert!(said.contains("mysql://user:password@host:port/database"), "{url}: {said}");
        }
    }

    #[test]
    fn plain_text_stays_on_this_host() {
        let connector = |url: &str, tls| {
            let options = MysqlOptions { tls, ..MysqlOptions::default() };
            let made = Connector::limited(&url.into(), &options);
            made.map(|connector| connector.last().ssl_opts().is_some())
        };
        assert!(!connector("mysql://app@127.0.0.1/shop", Tls::Auto).unwrap());
        assert!(!connector("mariadb://app@localhost/shop", Tls::Auto).unwrap());
        assert!(!connector("mysql://app@db/shop", Tls::Off).unwrap());
        match connector("mysql://app@db/shop", Tls::Auto) {
            Ok(secured) => assert!(secured && cfg!(feature = "tls-rustls")),
            Err(error) => {
                assert!(error.to_string().contains("`mysql-tls-rustls` of `sendoff`"), "{error}")
            }
        }
    }
}
