//! A broker of the test's own: the test says what becomes of each message.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// Packets of the client's: `CONNECT`, `PUBLISH` with QoS 1, `PINGREQ`.
const CONNECT: u8 = 0x10;
const PUBLISH: u8 = 0x32;
const PING: u8 = 0xc0;

/// Reasons to end a connection.
pub(super) const PACKET_TOO_LARGE: u8 = 0x95;
const SESSION_TAKEN_OVER: u8 = 0x8e;

/// Listens until the test ends.
pub(super) struct Fake {
    port: u16,
    messages: mpsc::UnboundedReceiver<Asked>,
}

/// A message that waits for its answer.
pub(super) struct Asked {
    pub(super) payload: String,
    number: [u8; 2],
    answers: mpsc::UnboundedSender<Vec<u8>>,
}

impl Fake {
    /// Who comes takes the place of who was there.
    pub(super) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (told, messages) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut before: Option<mpsc::UnboundedSender<Vec<u8>>> = None;
            while let Ok((stream, _)) = listener.accept().await {
                let (answers, written) = mpsc::unbounded_channel();
                if let Some(before) = before.replace(answers.clone()) {
                    // Who is gone already needs not be told.
                    let _ = before.send(vec![0xe0, 2, SESSION_TAKEN_OVER, 0]);
                }
                tokio::spawn(serve(stream, answers, written, told.clone()));
            }
        });
        Self { port, messages }
    }

    pub(super) fn url(&self) -> String {
        format!("mqtt://127.0.0.1:{}", self.port)
    }

    pub(super) async fn next(&mut self) -> Asked {
        self.messages.recv().await.unwrap()
    }
}

impl Asked {
    pub(super) fn acknowledge(self) {
        let [high, low] = self.number;
        let _ = self.answers.send(vec![0x40, 2, high, low]);
    }

    pub(super) fn end_connection(self, reason: u8) {
        let _ = self.answers.send(vec![0xe0, 2, reason, 0]);
    }
}

async fn serve(
    stream: TcpStream,
    answers: mpsc::UnboundedSender<Vec<u8>>,
    mut written: mpsc::UnboundedReceiver<Vec<u8>>,
    told: mpsc::UnboundedSender<Asked>,
) -> std::io::Result<()> {
    let (mut reads, mut writes) = stream.into_split();
    tokio::spawn(async move {
        while let Some(answer) = written.recv().await {
            let is_end = answer[0] == 0xe0;
            if writes.write_all(&answer).await.is_err() || is_end {
                break;
            }
        }
    });
    loop {
        let kind = reads.read_u8().await?;
        let (mut length, mut shift) = (0_usize, 0);
        loop {
            let byte = reads.read_u8().await?;
            length |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                break;
            }
        }
        let mut packet = vec![0; length];
        reads.read_exact(&mut packet).await?;
        let answer = |bytes: &[u8]| drop(answers.send(bytes.to_vec()));
        match kind {
            CONNECT => answer(&[0x20, 3, 0, 0, 0]),
            PING => answer(&[0xd0, 0]),
            PUBLISH => {
                let topic = usize::from(u16::from_be_bytes([packet[0], packet[1]]));
                let number = [packet[2 + topic], packet[3 + topic]];
                // What the tests send ends with a payload after the last blank.
                let text = String::from_utf8_lossy(&packet).into_owned();
                let payload = text.rsplit(' ').next().unwrap().to_owned();
                drop(told.send(Asked { payload, number, answers: answers.clone() }));
            }
            _ => return Ok(()),
        }
    }
}
