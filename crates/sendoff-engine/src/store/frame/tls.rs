use std::fmt;

/// How connections are secured; `C` is what a driver's TLS is configured with.
#[derive(Clone, Default)]
pub enum Tls<C> {
    /// Plain text on a Unix socket or to this host itself. To anywhere else TLS, with certificate and host
    /// name verified, which needs a feature of `sendoff` (`postgres-tls-rustls`, `mysql-tls-rustls`). What the URL
    /// says of TLS goes before this.
    #[default]
    Auto,
    /// Plain text, wherever the server is.
    Off,
    /// TLS with this configuration: roots of one's own, or a client's certificate.
    Rustls(C),
}

/// Without the configuration, which may have a key in it.
impl<C> fmt::Debug for Tls<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "Auto",
            Self::Off => "Off",
            Self::Rustls(_) => "Rustls",
        })
    }
}
