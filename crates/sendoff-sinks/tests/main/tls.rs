//! TLS with a certificate of a test's own authority: whom a sink believes.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
#[cfg(any(feature = "mqtt-tls", feature = "rabbitmq-tls"))]
use sendoff_core::{FailureClass, Verdict};
use tempfile::NamedTempFile;
#[cfg(any(feature = "mqtt-tls", feature = "rabbitmq-tls"))]
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// What takes TLS for `localhost`, and the file of its authority.
pub(crate) fn localhost() -> (TlsAcceptor, NamedTempFile) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), authority.pem()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    (TlsAcceptor::from(Arc::new(config)), file)
}

/// A certificate has to be of the host that is connected to, and of an authority that is trusted. The broker has no
/// TLS itself: what stands before it ends that. `deliver` starts a sink to a host and port that trusts this file's
/// authorities, and has it deliver an event.
#[cfg(any(feature = "mqtt-tls", feature = "rabbitmq-tls"))]
pub(crate) async fn must_be_believed(
    broker: u16,
    deliver: impl AsyncFn(&str, u16, Option<PathBuf>) -> Verdict,
) {
    let (port, file) = before(broker).await;
    let trusted = || Some(file.path().to_owned());
    deliver("localhost", port, trusted()).await.unwrap();
    for (host, roots) in [("localhost", None), ("127.0.0.1", trusted())] {
        let failure = deliver(host, port, roots).await.unwrap_err();
        assert!(matches!(failure.class(), FailureClass::Unavailable { .. }), "{host}");
    }
}

/// A place that takes TLS and gives what it reads to the broker, and the file of its authority.
#[cfg(any(feature = "mqtt-tls", feature = "rabbitmq-tls"))]
async fn before(broker: u16) -> (u16, NamedTempFile) {
    let (acceptor, file) = localhost();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // Who does not trust the certificate says so, and is gone.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            tokio::spawn(async move {
                let mut broker = TcpStream::connect(("127.0.0.1", broker)).await?;
                tokio::io::copy_bidirectional(&mut stream, &mut broker).await
            });
        }
    });
    (port, file)
}
