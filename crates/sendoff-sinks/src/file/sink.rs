//! The sink.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{Delivery, Sink, Verdict};
use tokio::sync::Mutex;
use tokio::task::{JoinHandle, spawn_blocking};
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
        let link = Link::start(name.clone(), Open::new(options), bounds).await?;
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

    fn identity(&self) -> Option<usize> {
        Some(self.link.identity())
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
struct Open {
    options: FileOptions,
    /// A file that is being opened. Where a file system hangs, whoever tries next waits for the same thread.
    under_way: Mutex<Option<JoinHandle<Result<Writer, Trouble>>>>,
}

impl Open {
    fn new(options: FileOptions) -> Self {
        Self { options, under_way: Mutex::default() }
    }

    /// Has a thread open the file, and waits for it, or for one that was begun before.
    async fn file(
        &self,
        open: impl FnOnce() -> Result<Writer, Trouble> + Send + 'static,
    ) -> Result<Writer, Trouble> {
        let mut under_way = self.under_way.lock().await;
        let opened = under_way.get_or_insert_with(|| spawn_blocking(open)).await;
        *under_way = None;
        opened.map_err(Trouble::unavailable)?
    }
}

#[async_trait]
impl Connect for Open {
    type Conn = InTurn;

    async fn open(&self) -> Result<InTurn, Trouble> {
        let path = match &self.options.to {
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
        let options = self.options.clone();
        let writer = self.file(move || Writer::open(&path, &options)).await?;
        Ok(Arc::new(Mutex::new(writer)))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("a batch before this one still waits for whoever reads stdout")]
struct Busy;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    /// The runtime has threads for this only so many, and others need them too.
    #[tokio::test]
    async fn a_file_system_that_hangs_has_one_thread_however_often_it_is_tried() {
        let folder = tempfile::tempdir().unwrap();
        let options = FileOptions::path(folder.path().join("events.jsonl"));
        let open = Open::new(options.clone());
        let begun = Arc::new(AtomicUsize::new(0));
        let (mends, hangs) = mpsc::channel();
        let hangs = Arc::new(std::sync::Mutex::new(hangs));
        let attempt = || {
            let (begun, hangs, options) = (begun.clone(), hangs.clone(), options.clone());
            let FileTarget::Path(path) = options.to.clone() else { unreachable!("it has a path") };
            open.file(move || {
                begun.fetch_add(1, Ordering::SeqCst);
                hangs.lock().unwrap().recv().unwrap();
                Writer::open(&path, &options)
            })
        };
        for _ in 0..20 {
            assert!(timeout(Duration::from_millis(5), attempt()).await.is_err(), "it hangs");
        }
        mends.send(()).unwrap();
        let writer = attempt().await.unwrap();
        assert_eq!(begun.load(Ordering::SeqCst), 1);
        // And the next one begins anew.
        drop(writer);
        mends.send(()).unwrap();
        assert!(attempt().await.is_ok());
        assert_eq!(begun.load(Ordering::SeqCst), 2);
    }
}
