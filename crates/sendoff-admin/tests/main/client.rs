//! A client that shows what is on the wire.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::document;

pub(crate) const TOKEN: &str = "test-0123456789abcdef";

#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    /// Header lines that every request has.
    headers: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Value,
}

impl Client {
    /// With the token.
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, headers: vec![format!("authorization: Bearer {TOKEN}")] }
    }

    /// With these headers instead.
    pub(crate) fn with(&self, headers: &[&str]) -> Self {
        Self {
            address: self.address,
            headers: headers.iter().map(|&header| header.to_owned()).collect(),
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, None).await
    }

    pub(crate) async fn post(&self, path: &str) -> Answer {
        self.ask("POST", path, None).await
    }

    pub(crate) async fn post_json(&self, path: &str, body: &str) -> Answer {
        self.ask("POST", path, Some(body)).await
    }

    /// One request under `/api/outbox`, over a connection of its own. Its answer is held against the
    /// document.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: Option<&str>) -> Answer {
        let answer = self.send(method, path, body).await;
        if method != "HEAD" {
            document::check(method, &format!("/api/outbox{path}"), &answer).await;
        }
        answer
    }

    /// The same, and whatever the answer is.
    pub(crate) async fn send(&self, method: &str, path: &str, body: Option<&str>) -> Answer {
        let path = format!("/api/outbox{path}");
        let mut head = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !self.headers.iter().any(|header| header.to_lowercase().starts_with("host:")) {
            head += &format!("host: {}\r\n", self.address);
        }
        for header in &self.headers {
            head += &format!("{header}\r\n");
        }
        if let Some(body) = body {
            head += &format!("content-length: {}\r\n", body.len());
            if !self.headers.iter().any(|header| header.starts_with("content-type")) {
                head += "content-type: application/json\r\n";
            }
        }
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream
            .write_all(format!("{head}\r\n{}", body.unwrap_or_default()).as_bytes())
            .await
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let answer = Answer {
            status: head[9..12].parse().unwrap(),
            head: head.to_lowercase(),
            body: serde_json::from_str(body).unwrap_or(Value::Null),
        };
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert!(!head.contains("access-control"), "no other origin may use it");
        answer
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The end of a problem's type.
    pub(crate) fn problem(&self) -> (u16, &str) {
        let kind = self.body["type"].as_str().unwrap();
        assert_eq!(self.body["status"], self.status);
        (self.status, kind.strip_prefix("urn:sendoff:problem:").unwrap())
    }

    pub(crate) fn detail(&self) -> &str {
        self.body["detail"].as_str().unwrap()
    }
}
