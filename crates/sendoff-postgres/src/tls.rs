//! Which connections may go unencrypted, and how the others are encrypted.

use std::net::IpAddr;

use sendoff_engine::store::StoreError;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::error::misconfigured;
use crate::options::Tls;

/// What was decided.
#[derive(Clone)]
pub(crate) enum Security {
    Plain,
    #[cfg(feature = "tls-rustls")]
    Rustls(tokio_postgres_rustls::MakeRustlsConnect),
}

/// Decides, and makes the configuration say so: what is to be encrypted never falls back.
pub(crate) fn secure(config: &mut Config, tls: &Tls) -> Result<Security, StoreError> {
    let asked = config.get_ssl_mode();
    let plain = match tls {
        Tls::Off => true,
        Tls::Auto => asked == SslMode::Disable || asked != SslMode::Require && is_here(config),
        Tls::Rustls(_) => false,
    };
    config.ssl_mode(if plain { SslMode::Disable } else { SslMode::Require });
    if plain { Ok(Security::Plain) } else { encrypted(tls) }
}

#[cfg(feature = "tls-rustls")]
fn encrypted(tls: &Tls) -> Result<Security, StoreError> {
    use std::sync::Arc;

    let client = match tls {
        Tls::Rustls(client) => client.as_ref().clone(),
        Tls::Auto | Tls::Off => {
            let mut roots = rustls::RootCertStore::empty();
            let found = rustls_native_certs::load_native_certs();
            // One bad file among hundreds must not keep us from connecting.
            roots.add_parsable_certificates(found.certs);
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            rustls::ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .map_err(|error| misconfigured(error.to_string()))?
                .with_root_certificates(roots)
                .with_no_client_auth()
        }
    };
    Ok(Security::Rustls(tokio_postgres_rustls::MakeRustlsConnect::new(client)))
}

#[cfg(not(feature = "tls-rustls"))]
fn encrypted(_: &Tls) -> Result<Security, StoreError> {
    Err(misconfigured(
        "the server is not on this host (or sslmode=require was asked for), and this build has no \
         TLS: switch on the feature `postgres-tls-rustls` of `sendoff` (`tls-rustls` of \
         `sendoff-postgres`), or, in a network you trust, say sslmode=disable in the URL or \
         Tls::Off in the options",
    ))
}

/// Whether every host is this one.
fn is_here(config: &Config) -> bool {
    let addresses = config.get_hostaddrs();
    let is_loopback = |host: &Host| match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
        }
        #[cfg(unix)]
        Host::Unix(_) => true,
    };
    if addresses.is_empty() {
        config.get_hosts().iter().all(is_loopback)
    } else {
        addresses.iter().all(IpAddr::is_loopback)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(url: &str, tls: &Tls) -> (Result<Security, StoreError>, SslMode) {
        let mut config: Config = url.parse().unwrap();
        let decided = secure(&mut config, tls);
        (decided, config.get_ssl_mode())
    }

    #[test]
    fn only_this_host_or_an_explicit_wish_goes_unencrypted() {
        for url in [
            "postgres://a@localhost/db",
            "postgres://a@127.0.0.1/db",
            "postgres://a@[::1]/db",
            "host=/var/run/postgresql user=a",
            "postgres://a@db.example/db?sslmode=disable",
        ] {
            let (decided, mode) = decide(url, &Tls::Auto);
            assert!(matches!(decided, Ok(Security::Plain)), "{url}");
            assert_eq!(mode, SslMode::Disable, "{url}");
        }
        assert!(matches!(decide("postgres://a@db.example/db", &Tls::Off).0, Ok(Security::Plain)));
        for url in [
            "postgres://a@db.example/db",
            "postgres://a@127.0.0.1,db.example/db",
            "postgres://a@localhost/db?sslmode=require",
            "host=localhost hostaddr=10.0.0.1 user=a",
        ] {
            let (decided, mode) = decide(url, &Tls::Auto);
            assert!(!matches!(decided, Ok(Security::Plain)), "{url}");
            assert_eq!(mode, SslMode::Require, "never falls back: {url}");
        }
    }

    #[cfg(not(feature = "tls-rustls"))]
    #[test]
    fn without_tls_a_remote_host_is_refused_with_the_way_out() {
        let (decided, _) = decide("postgres://a@db.example/db", &Tls::Auto);
        let Err(StoreError::Misconfigured { reason }) = decided else { panic!("not refused") };
        assert!(
            reason.contains("`postgres-tls-rustls` of `sendoff`")
                && reason.contains("sslmode=disable"),
            "{reason}"
        );
    }
}
