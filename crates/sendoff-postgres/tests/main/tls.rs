//! Encrypted connections: whom they trust, and that they never do without.

use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use sendoff_core::report;
use sendoff_engine::store::{InspectStore, StoreError};
use sendoff_postgres::{Doorbell, PostgresOptions, PostgresStore, Tls};
use sendoff_testkit::wait::eventually;

use crate::place::{claim, due, event, hold_of, settle_one};
use crate::server::Server;

/// An authority of the test's own, and a server whose certificate is for `localhost` alone.
struct Encrypted {
    authority: CertificateDer<'static>,
    server: Server,
}

impl Encrypted {
    /// `None` where no server is installed, which is an error in CI.
    fn start() -> Option<Self> {
        let (authority, issuer) = authority();
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap();
        let certificate = certificate.signed_by(&key, &issuer).unwrap();
        let server = Server::start_with(|folder| {
            let put = |name: &str, text: String| write_private(&folder.join(name), &text);
            put("server.crt", certificate.pem());
            put("server.key", key.serialize_pem());
            let file = |name: &str| folder.join(name).display().to_string();
            vec![
                "ssl=on".to_owned(),
                format!("ssl_cert_file={}", file("server.crt")),
                format!("ssl_key_file={}", file("server.key")),
            ]
        });
        assert!(server.is_some() || std::env::var_os("CI").is_none(), "no server is installed");
        Some(Self { authority, server: server? })
    }

    /// Connects to `host`, trusting whoever `authority` vouches for.
    async fn connect(
        &self,
        host: &str,
        authority: &CertificateDer<'static>,
    ) -> Result<PostgresStore, StoreError> {
        self.connect_with(host, authority, PostgresOptions::default()).await
    }

    async fn connect_with(
        &self,
        host: &str,
        authority: &CertificateDer<'static>,
        options: PostgresOptions,
    ) -> Result<PostgresStore, StoreError> {
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let client = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let options = PostgresOptions { tls: Tls::Rustls(Arc::new(client)), ..options };
        PostgresStore::connect_with(&self.server.url_at(host), options).await
    }
}

fn authority() -> (CertificateDer<'static>, CertifiedIssuer<'static, KeyPair>) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    (issuer.der().clone(), issuer)
}

/// The server takes no key that others can read.
fn write_private(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn refusal(answer: Result<PostgresStore, StoreError>) -> String {
    match answer {
        Ok(_) => panic!("connected"),
        Err(error) => report(&error),
    }
}

#[tokio::test]
async fn an_encrypted_connection_does_everything() {
    let Some(encrypted) = Encrypted::start() else { return };
    let store = encrypted.connect("localhost", &encrypted.authority).await.unwrap();
    store.migrate().await.unwrap();
    let mut client = crate::place::connect(&encrypted.server.url()).await.unwrap();
    crate::place::write(&store, &mut client, &[due(event())]).await;
    let claimed = claim(&store, "a").await;
    assert!(settle_one(&store, hold_of(&claimed[0]), sendoff_engine::store::Outcome::Done).await);
    assert_eq!(store.counts().await.unwrap().done, 1);
    let encrypted = "select count(*) from pg_stat_ssl s join pg_stat_activity a using (pid)
                      where s.ssl and a.application_name = 'sendoff'";
    let sessions: i64 = client.query_one(encrypted, &[]).await.unwrap().get(0);
    assert!(sessions > 0, "no session of ours is encrypted");
}

/// A request to cancel is encrypted as well. Without doorbell nothing else would end the statement.
#[tokio::test]
async fn a_statement_that_is_given_up_is_ended_over_an_encrypted_connection() {
    let Some(encrypted) = Encrypted::start() else { return };
    let options = PostgresOptions { doorbell: Doorbell::Off, ..PostgresOptions::default() };
    let store = encrypted.connect_with("localhost", &encrypted.authority, options).await.unwrap();
    store.migrate().await.unwrap();
    let client = crate::place::connect(&encrypted.server.url()).await.unwrap();
    client.batch_execute("begin; lock table outbox_event").await.unwrap();
    let waiting = async || {
        let waiting = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'";
        client.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0)
    };
    let asks = tokio::spawn(async move { store.counts().await });
    eventually("it to wait", async || waiting().await == 1).await;
    asks.abort();
    eventually("its end", async || waiting().await == 0).await;
}

/// Holds fault 39: the certificate is for `localhost`, and we were told another name.
#[tokio::test]
async fn a_certificate_for_another_host_is_refused() {
    let Some(encrypted) = Encrypted::start() else { return };
    let why = refusal(encrypted.connect("127.0.0.1", &encrypted.authority).await);
    assert!(why.contains("certificate"), "{why}");
}

#[tokio::test]
async fn a_certificate_from_an_unknown_issuer_is_refused() {
    let Some(encrypted) = Encrypted::start() else { return };
    let (stranger, _) = authority();
    let why = refusal(encrypted.connect("localhost", &stranger).await);
    assert!(why.contains("certificate"), "{why}");
    // The roots of this machine do not vouch for it either.
    let url = format!("{}?sslmode=require", encrypted.server.url_at("localhost"));
    let why = refusal(PostgresStore::connect_with(&url, PostgresOptions::default()).await);
    assert!(why.contains("certificate"), "{why}");
}

#[tokio::test]
async fn a_server_without_tls_is_not_talked_to_in_the_clear() {
    let Some(server) = Server::start() else { return };
    let url = format!("{}?sslmode=require", server.url_at("localhost"));
    let why = refusal(PostgresStore::connect_with(&url, PostgresOptions::default()).await);
    assert!(why.contains("TLS"), "{why}");
}
