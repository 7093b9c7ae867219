//! HTTPS: whom a sink believes.

use std::sync::Arc;

use sendoff_core::{Event, FailureClass};
use sendoff_sinks::webhook::{WebhookOptions, WebhookSink};
use tokio::net::TcpListener;

use super::receiver::{Receiver, serve};
use super::{SECRET, class, one, to};

/// A receiver whose certificate is for `localhost`, its authority's file, and the names that it was asked for.
async fn receiver()
-> (u16, tempfile::NamedTempFile, tokio::sync::mpsc::UnboundedReceiver<Option<String>>) {
    let (acceptor, file) = crate::tls::localhost();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let state = Receiver::start(&SECRET).await.state;
    let (tell, names) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let _ = tell.send(stream.get_ref().1.server_name().map(str::to_owned));
            tokio::spawn(serve(stream, Arc::clone(&state)));
        }
    });
    (port, file, names)
}

#[tokio::test]
async fn a_certificate_has_to_be_of_the_urls_host_and_of_an_authority_that_is_trusted() {
    let (port, file, mut names) = receiver().await;
    let start = async |host: &str, ca_file: Option<std::path::PathBuf>| {
        let url = format!("https://{host}:{port}/in");
        // A name of this host may lead to either of its addresses.
        let allow_addresses = vec!["127.0.0.1".to_owned(), "::1".to_owned()];
        let options = WebhookOptions { ca_file, allow_addresses, ..to(url) };
        WebhookSink::start(options).await.unwrap()
    };
    let trusted = || Some(file.path().to_owned());
    one(&start("localhost", trusted()).await, Event::builder("e")).await.unwrap();
    assert_eq!(names.recv().await.unwrap().as_deref(), Some("localhost"));
    for (host, ca_file) in [("127.0.0.1", trusted()), ("localhost", None)] {
        let verdict = one(&start(host, ca_file).await, Event::builder("e")).await;
        assert!(matches!(class(&verdict), Some(FailureClass::Unavailable { .. })), "{verdict:?}");
    }
}

/// Schemes have no case.
#[tokio::test]
async fn a_scheme_in_capitals_is_the_same_scheme() {
    let (port, file, _names) = receiver().await;
    for path in ["in", "in/{type}"] {
        let allow_addresses = vec!["127.0.0.1".to_owned(), "::1".to_owned()];
        let options = WebhookOptions {
            ca_file: Some(file.path().to_owned()),
            allow_addresses,
            ..to(format!("HTTPS://localhost:{port}/{path}"))
        };
        let sink = WebhookSink::start(options).await.unwrap();
        one(&sink, Event::builder("e")).await.unwrap();
    }
}

#[tokio::test]
async fn a_file_of_authorities_that_is_wrong_is_named() {
    let empty = tempfile::NamedTempFile::new().unwrap();
    for file in [empty.path().to_owned(), empty.path().join("none")] {
        let options = WebhookOptions { ca_file: Some(file), ..to("https://127.0.0.1/".to_owned()) };
        assert_eq!(WebhookSink::start(options).await.unwrap_err().path(), "webhook.ca_file");
    }
}
