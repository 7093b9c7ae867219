//! A server of the test's own, which says as much of AMQP as it is told to, and then nothing.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;

/// Kinds of frames.
const METHOD: u8 = 1;
const HEADER: u8 = 2;
const END: u8 = 0xce;
/// Methods, by class and number.
const START_OK: (u16, u16) = (10, 11);
const TUNE_OK: (u16, u16) = (10, 31);
const OPEN: (u16, u16) = (10, 40);
const CLOSE: (u16, u16) = (10, 50);
const OPEN_CHANNEL: (u16, u16) = (20, 10);
const CLOSE_CHANNEL: (u16, u16) = (20, 40);
const DECLARE_EXCHANGE: (u16, u16) = (40, 10);
const PUBLISH: (u16, u16) = (60, 40);
const SELECT_CONFIRM: (u16, u16) = (85, 10);

/// How far it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Says {
    /// It takes connections, and says nothing.
    Nothing,
    /// It begins to shake hands, and leaves it at that.
    Start,
    /// It shakes hands, and leaves it at that.
    Tune,
    /// It opens the connection, and no channel.
    Open,
    /// It confirms each message so long after the one before.
    All {
        /// How long that takes.
        each: Duration,
    },
    /// All of that; then it blocks the connection, says that it closes it, waits for an answer, and hears none.
    BlockedAndClosed,
}

/// Listens until the test ends.
pub(super) struct Fake {
    port: u16,
    says: watch::Sender<Says>,
    /// How many connections were made, and how many were closed.
    connections: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
}

impl Fake {
    pub(super) async fn start(says: Says) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (says, told) = watch::channel(says);
        let (connections, closed) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let (count, ends) = (connections.clone(), closed.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, told.clone(), ends.clone()));
            }
        });
        Self { port, says, connections, closed }
    }

    pub(super) fn url(&self) -> String {
        format!("amqp://127.0.0.1:{}", self.port)
    }

    /// From now on, of what is open too.
    pub(super) fn says(&self, says: Says) {
        self.says.send_replace(says);
    }

    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    pub(super) fn closed(&self) -> usize {
        self.closed.load(Ordering::SeqCst)
    }
}

/// A frame with a method of this channel.
fn method(channel: u16, (class, number): (u16, u16), arguments: &[u8]) -> Vec<u8> {
    let mut frame = vec![METHOD];
    frame.extend(channel.to_be_bytes());
    frame.extend(u32::try_from(4 + arguments.len()).unwrap().to_be_bytes());
    frame.extend(class.to_be_bytes());
    frame.extend(number.to_be_bytes());
    frame.extend(arguments);
    frame.push(END);
    frame
}

fn long(text: &str) -> Vec<u8> {
    let length = u32::try_from(text.len()).unwrap();
    length.to_be_bytes().into_iter().chain(text.bytes()).collect()
}

fn short(text: &str) -> Vec<u8> {
    [u8::try_from(text.len()).unwrap()].into_iter().chain(text.bytes()).collect()
}

async fn serve(
    stream: TcpStream,
    says: watch::Receiver<Says>,
    closed: Arc<AtomicUsize>,
) -> io::Result<()> {
    let (mut reads, mut writes) = stream.into_split();
    let now = || *says.borrow();
    reads.read_exact(&mut [0; 8]).await?;
    if now() != Says::Nothing {
        let arguments = [&[0, 9][..], &[0; 4], &long("PLAIN"), &long("en_US")].concat();
        writes.write_all(&method(0, (10, 10), &arguments)).await?;
    }
    let mut published = 0_u64;
    let mut is_end_watched = false;
    loop {
        let mut head = [0; 7];
        if !is_end_watched && now() == Says::BlockedAndClosed {
            is_end_watched = true;
            closes(&mut writes).await?;
            closed.fetch_add(1, Ordering::SeqCst);
        }
        tokio::select! {
            read = reads.read_exact(&mut head) => { read?; }
            // It is told so while nobody asks anything.
            () = becomes_blocked(says.clone()), if !is_end_watched => continue,
        }
        let channel = u16::from_be_bytes([head[1], head[2]]);
        let length = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
        let mut frame = vec![0; length + 1];
        reads.read_exact(&mut frame).await?;
        let says = now();
        if head[0] == HEADER {
            if let Says::All { each } = says {
                sleep(each).await;
                published += 1;
                let tag = [&published.to_be_bytes()[..], &[0]].concat();
                writes.write_all(&method(channel, (60, 80), &tag)).await?;
            }
            continue;
        }
        if head[0] != METHOD {
            continue;
        }
        let asked =
            (u16::from_be_bytes([frame[0], frame[1]]), u16::from_be_bytes([frame[2], frame[3]]));
        let answer = match asked {
            START_OK if says != Says::Start => {
                let tune = [&100_u16.to_be_bytes()[..], &131_072_u32.to_be_bytes(), &[0, 10]];
                method(0, (10, 30), &tune.concat())
            }
            OPEN if says != Says::Tune => method(0, (10, 41), &short("")),
            CLOSE => method(0, (10, 51), &[]),
            OPEN_CHANNEL if says != Says::Open => {
                published = 0;
                method(channel, (20, 11), &long(""))
            }
            CLOSE_CHANNEL => method(channel, (20, 41), &[]),
            DECLARE_EXCHANGE => method(channel, (40, 11), &[]),
            SELECT_CONFIRM => method(channel, (85, 11), &[]),
            TUNE_OK | PUBLISH => continue,
            _ => continue,
        };
        writes.write_all(&answer).await?;
    }
}

async fn becomes_blocked(mut says: watch::Receiver<Says>) {
    let _ = says.wait_for(|says| *says == Says::BlockedAndClosed).await;
}

/// An alarm, and the end of the connection in good order.
async fn closes(writes: &mut OwnedWriteHalf) -> io::Result<()> {
    writes.write_all(&method(0, (10, 60), &short("low on disk"))).await?;
    let forced = [&320_u16.to_be_bytes()[..], &short("CONNECTION_FORCED"), &[0; 4]].concat();
    writes.write_all(&method(0, CLOSE, &forced)).await
}
