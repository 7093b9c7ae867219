//! The sink.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{Delivery, Sink, Verdict};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::encode;
use super::options::{FileOptions, FileTarget};
use super::writer::Writer;
use crate::class::{Misconfigured, Trouble};
use crate::envelope::Envelope;
use crate::link::{Connect, Link, Slate};

/// Writes each event as a line of JSON. Cheap to clone; clones are the same.
///
/// ```
/// use sendoff_sinks::file::{FileOptions, FileSink};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let sink = FileSink::start(FileOptions::path(folder.path().join("events.jsonl"))).await?;
/// // …given to an outbox, a relay, a topic worker or a publisher…
/// sink.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct FileSink {
    name: String,
    envelope: Envelope,
    link: Link<Open>,
}

impl FileSink {
    /// Checks the options, and opens the file. One that another process has open, or that does not fit onto the disk, is
    /// waited for.
    ///
    /// # Errors
    ///
    /// An option is wrong, such as a path into a folder that is not there; it is named by its path.
    pub async fn start(options: FileOptions) -> Result<Self, Misconfigured> {
        let envelope = options.check()?;
        let (name, bounds) = (options.name.clone(), options.link);
        let link = Link::start(name.clone(), Open(options), bounds).await?;
        Ok(Self { name, envelope, link })
    }

    /// Takes no more events, and lets go of the file when those under way are written. Answers whether they were, within
    /// [`LinkOptions::close_within`](crate::link::LinkOptions::close_within).
    pub async fn close(&self) -> bool {
        self.link.close().await
    }
}

#[async_trait]
impl Sink for FileSink {
    fn name(&self) -> &str {
        &self.name
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
        let encode = |delivery| encode::line(&self.envelope, delivery);
        let (slate, lines) = Slate::encoded(deliveries, encode);
        let verdicts = &slate;
        let write = |writer: Arc<InTurn>| async move {
            let (places, lines): (Vec<_>, Vec<_>) = lines.into_iter().unzip();
            // Goes with the work: while a disk or a reader hangs one thread waits for it, however many batches come.
            let mut writer = InTurn::clone(&writer).lock_owned().await;
            let written = spawn_blocking(move || writer.append(&lines)).await;
            let (durable, ended) = written.map_err(Trouble::unavailable)?;
            places.into_iter().take(durable).for_each(|at| verdicts.done(at));
            ended
        };
        self.link.carry(&slate, write).await;
        slate.verdicts()
    }

    fn is_healthy(&self) -> bool {
        self.link.is_healthy()
    }
}

/// A writer that batches take in turn.
type InTurn = Arc<Mutex<Writer>>;

/// How long another sink may take to write to stdout before it counts as stuck.
const FREE_WITHIN: Duration = Duration::from_secs(1);

/// The process has one stdout, and so one writer for it, whoever writes: while nobody reads, one thread waits.
static STDOUT: LazyLock<InTurn> = LazyLock::new(|| Arc::new(Mutex::new(Writer::stdout())));

/// Opens the file.
#[derive(Debug)]
struct Open(FileOptions);

#[async_trait]
impl Connect for Open {
    type Conn = InTurn;

    async fn open(&self) -> Result<InTurn, Trouble> {
        let path = match &self.0.to {
            FileTarget::Path(path) => path.clone(),
            FileTarget::Stdout => {
                // What was given up before may still wait for its reader.
                let free = timeout(FREE_WITHIN, STDOUT.lock()).await;
                return match free {
                    Ok(_) => Ok(Arc::clone(&STDOUT)),
                    Err(_) => Err(Trouble::unavailable(Busy)),
                };
            }
        };
        let options = self.0.clone();
        let opened = spawn_blocking(move || Writer::open(&path, &options)).await;
        opened.map_err(Trouble::unavailable)?.map(|writer| Arc::new(Mutex::new(writer)))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("a batch before this one still waits for whoever reads stdout")]
struct Busy;
