//! A broker that refuses every password, which the mock cluster cannot: as much of the protocol as comes before that.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Requests, by their numbers: `SaslHandshake`, `ApiVersions`, `SaslAuthenticate`.
const HANDSHAKE: i16 = 17;
const VERSIONS: i16 = 18;
const AUTHENTICATE: i16 = 36;
/// Answers.
const UNSUPPORTED_VERSION: i16 = 35;
const SASL_AUTHENTICATION_FAILED: i16 = 58;

/// Listens until the test ends.
pub(super) async fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    address
}

async fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    loop {
        let mut request = vec![0; usize::try_from(stream.read_i32().await?).unwrap()];
        stream.read_exact(&mut request).await?;
        let number = |at: usize| i16::from_be_bytes([request[at], request[at + 1]]);
        let mut answer = request[4..8].to_vec();
        match (number(0), number(2)) {
            (VERSIONS, 0) => versions(&mut answer, 0),
            // In the form of the oldest version, whatever was asked for.
            (VERSIONS, _) => versions(&mut answer, UNSUPPORTED_VERSION),
            (HANDSHAKE, _) => {
                answer.extend(0_i16.to_be_bytes());
                answer.extend(1_i32.to_be_bytes());
                text(&mut answer, "PLAIN");
            }
            (AUTHENTICATE, _) => {
                answer.extend(SASL_AUTHENTICATION_FAILED.to_be_bytes());
                text(&mut answer, "wrong user or password");
                answer.extend(0_i32.to_be_bytes());
            }
            _ => return Ok(()),
        }
        stream.write_i32(i32::try_from(answer.len()).unwrap()).await?;
        stream.write_all(&answer).await?;
    }
}

fn versions(answer: &mut Vec<u8>, error: i16) {
    let known: [(i16, i16); 5] = [(0, 7), (3, 4), (HANDSHAKE, 1), (VERSIONS, 0), (AUTHENTICATE, 0)];
    answer.extend(error.to_be_bytes());
    answer.extend(5_i32.to_be_bytes());
    for (api, newest) in known {
        [api, 0, newest].iter().for_each(|number| answer.extend(number.to_be_bytes()));
    }
}

fn text(answer: &mut Vec<u8>, text: &str) {
    answer.extend(i16::try_from(text.len()).unwrap().to_be_bytes());
    answer.extend(text.as_bytes());
}
