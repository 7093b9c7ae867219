//! Opening connections of our own.

use std::net::IpAddr;
use std::time::Duration;

use mysql_async::{Conn, Error, IoError, Opts, OptsBuilder, UrlError};
use sendoff_engine::store::StoreError;
use sendoff_engine::store::frame::{NoConnection, place};

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
    opts: Opts,
    database: String,
    timeout: Duration,
}

impl Connector {
    /// For sessions that are opened again when they are needed: the server ends what goes silent.
    pub(crate) fn limited(url: &str, options: &MysqlOptions) -> Result<Self, StoreError> {
        Self::silent(url, options, Duration::MAX)
    }

    /// The same, where transactions are not to be silent for longer than this. MySQL knows no such limit.
    pub(crate) fn silent(
        url: &str,
        options: &MysqlOptions,
        silence: Duration,
    ) -> Result<Self, StoreError> {
        Self::with(url, options, &limits(options, &seconds(SESSION_IDLE).to_string(), silence))
    }

    /// For sessions that somebody has until they are lost, and who may say nothing for long between
    /// transactions.
    pub(crate) fn lasting(url: &str, options: &MysqlOptions) -> Result<Self, StoreError> {
        let idle = format!("/*M!100600 default */ /*!80000 {} */", seconds(LASTING_IDLE));
        Self::with(url, options, &limits(options, &idle, Duration::MAX))
    }

    /// For batches of the `locked` claim mode, whose transactions last: also where the server knows no
    /// limit for those, a silent session ends.
    pub(crate) fn for_batches(url: &str, options: &MysqlOptions) -> Result<Self, StoreError> {
        let idle = seconds(options.idle_in_transaction_timeout);
        Self::with(url, options, &limits(options, &idle.to_string(), Duration::MAX))
    }

    fn with(url: &str, options: &MysqlOptions, limits: &str) -> Result<Self, StoreError> {
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
        Ok(Self { opts: builder.into(), database, timeout: options.connect_timeout })
    }

    /// The database that the URL names.
    pub(crate) fn database(&self) -> &str {
        &self.database
    }

    pub(crate) async fn open(&self) -> Result<Conn, StoreError> {
        match tokio::time::timeout(self.timeout, Conn::new(self.opts.clone())).await {
            Ok(Err(Error::Io(IoError::Io(cause)))) => {
                Err(NoConnection::to(self.place(), cause).into())
            }
            Ok(opened) => opened.map_err(failed),
            Err(_) => Err(NoConnection::in_time(self.place(), self.timeout).into()),
        }
    }

    /// Where the server is.
    fn place(&self) -> String {
        match self.opts.socket() {
            Some(socket) => socket.to_owned(),
            None => place(self.opts.ip_or_hostname(), self.opts.tcp_port()),
        }
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
        match Connector::limited(url, &MysqlOptions::default()) {
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
        let connector = |url, tls| {
            let options = MysqlOptions { tls, ..MysqlOptions::default() };
            Connector::limited(url, &options).map(|connector| connector.opts.ssl_opts().is_some())
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
