//! Encryption. Certificates and host names are always verified.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::url::Host;
use crate::class::Misconfigured;

/// Encrypts connections.
#[derive(Clone)]
pub(super) struct Encrypt(TlsConnector);

impl Encrypt {
    /// Trusts whom the system trusts, and the authorities of this file.
    pub(super) fn new(ca_file: Option<&Path>) -> Result<Self, Misconfigured> {
        let mut roots = RootCertStore::empty();
        // One bad file among hundreds must not keep us from connecting.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if let Some(file) = ca_file {
            let wrong = |reason: &str| Misconfigured::new("webhook.ca_file", reason);
            let unread = |error| wrong("cannot be read as PEM").because(error);
            let mut found = 0;
            for certificate in CertificateDer::pem_file_iter(file).map_err(unread)? {
                let refused = |error| wrong("has a certificate that is none").because(error);
                roots.add(certificate.map_err(unread)?).map_err(refused)?;
                found += 1;
            }
            if found == 0 {
                return Err(wrong("has no certificate in it"));
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Misconfigured::new("webhook.url", "no TLS").because(error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// With the name that the URL has, which the certificate has to be for.
    pub(super) async fn encrypt(
        &self,
        host: &Host,
        plain: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let name = match host {
            Host::Address(address) => ServerName::from(*address),
            Host::Name(name) => ServerName::try_from(name.clone()).map_err(io::Error::other)?,
        };
        self.0.connect(name, plain).await
    }
}
