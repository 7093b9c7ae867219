//! A tunnel through a proxy, to an address that was judged here.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::url::{Host, Place};

/// Bytes of a proxy's answer that are read.
const ANSWER_BYTES: usize = 8 * 1024;

/// A tunnel to `address`. The proxy is told no name, so that it looks none up.
pub(super) async fn tunnel(proxy: &Place, address: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = match &proxy.host {
        Host::Address(host) => TcpStream::connect((*host, proxy.port)).await?,
        Host::Name(host) => TcpStream::connect((host.as_str(), proxy.port)).await?,
    };
    let asked = format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(asked.as_bytes()).await?;
    // Byte by byte: what comes after the head is the receiver's.
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
        if head.len() > ANSWER_BYTES {
            return Err(io::Error::other("the proxy's answer does not end"));
        }
    }
    match is_open(&head) {
        true => Ok(stream),
        false => Err(io::Error::other("the proxy opens no tunnel")),
    }
}

/// Whether the proxy answered 2xx.
fn is_open(head: &[u8]) -> bool {
    let status = head.strip_prefix(b"HTTP/1.1 ").or_else(|| head.strip_prefix(b"HTTP/1.0 "));
    matches!(status, Some([b'2', b'0'..=b'9', b'0'..=b'9', b' ' | b'\r', ..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tunnel_is_open_when_the_proxy_says_so() {
        for head in [
            &b"HTTP/1.1 200 OK\r\n\r\n"[..],
            b"HTTP/1.0 200 Established\r\n\r\n",
            b"HTTP/1.1 204\r\n\r\n",
        ] {
            assert!(is_open(head));
        }
        for head in [
            &b"HTTP/1.1 403 No\r\n\r\n"[..],
            b"HTTP/2 200\r\n\r\n",
            b"200\r\n\r\n",
            b"HTTP/1.1 2000\r\n\r\n",
        ] {
            assert!(!is_open(head));
        }
    }
}
