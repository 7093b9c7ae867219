//! The thread that owns the store's connection.
//!
//! SQLite has one writer at a time whatever we do; one thread of ours queues for that lock instead of
//! many, and an async caller never blocks.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rusqlite::Connection;
use sendoff_engine::store::StoreError;
use tokio::sync::{mpsc, oneshot, watch};

use crate::file::DatabaseFile;
use crate::wal::Wal;

/// Calls that may wait for the thread; more make their callers wait.
const QUEUED_CALLS: usize = 256;

type Call = Box<dyn FnOnce(&mut Connection) + Send>;

/// The only way to the thread. Dropping it ends the thread after what is queued.
#[derive(Debug)]
pub(crate) struct Writer {
    calls: Mutex<Option<mpsc::Sender<Call>>>,
    file: Arc<DatabaseFile>,
    ended: watch::Receiver<()>,
}

impl Writer {
    /// Starts the thread, which opens its connection to the file with `open`. Between its calls it sees
    /// to the file's log.
    pub(crate) async fn start(
        file: Arc<DatabaseFile>,
        busy_timeout: Duration,
        open: impl FnOnce() -> Result<Connection, StoreError> + Send + 'static,
    ) -> Result<Self, StoreError> {
        let (calls, mut queue) = mpsc::channel::<Call>(QUEUED_CALLS);
        let (ended_guard, ended) = watch::channel(());
        let (ready, opened) = oneshot::channel();
        let mut wal = Wal::new(file.log(), busy_timeout);
        let at = Arc::clone(&file);
        let run = move || {
            // Dropped last, so that whoever waits for the end finds the connection closed.
            let _ended = ended_guard;
            let opened = open().and_then(|conn| {
                at.opened()?;
                Ok(conn)
            });
            let mut conn = match opened {
                Ok(conn) => conn,
                Err(error) => {
                    let _ = ready.send(Err(error));
                    return;
                }
            };
            if ready.send(Ok(())).is_err() {
                return;
            }
            while let Some(call) = queue.blocking_recv() {
                call(&mut conn);
                wal.tend(&conn);
            }
        };
        thread::Builder::new()
            .name("sendoff-sqlite".into())
            .spawn(run)
            .map_err(|error| StoreError::Unavailable(error.into()))?;
        opened.await.map_err(|_| StoreError::Closed)??;
        Ok(Self { calls: Mutex::new(Some(calls)), file, ended })
    }

    /// Runs `work` on the connection, if its file is still where it was.
    ///
    /// Dropping the future takes the call back if it has not begun; one that has begun runs whole.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let calls = self.calls().ok_or(StoreError::Closed)?;
        let (reply, answer) = oneshot::channel();
        let file = Arc::clone(&self.file);
        let call: Call = Box::new(move |conn| {
            if !reply.is_closed() {
                // A caller who left meanwhile learns nothing; the rows say what was done.
                let _ =
                    reply.send(file.check().map_err(StoreError::from).and_then(|()| work(conn)));
            }
        });
        calls.send(call).await.map_err(|_| StoreError::Closed)?;
        drop(calls);
        answer.await.map_err(|_| StoreError::Closed)?
    }

    /// Runs `work` on the connection when its turn comes; nobody waits for it. Where the thread is
    /// gone it never runs.
    pub(crate) fn post(&self, work: impl FnOnce(&mut Connection) + Send + 'static) {
        if let Some(calls) = self.calls() {
            // The queue is for callers who wait, so there is room but for those who are many.
            let _ = calls.try_send(Box::new(work));
        }
    }

    /// Refuses new calls, and returns when the queued ones are done and the connection is closed.
    pub(crate) async fn close(&self) {
        drop(self.calls.lock().unwrap_or_else(PoisonError::into_inner).take());
        // Nothing is ever sent: an error means that the thread is gone.
        let _ = self.ended.clone().changed().await;
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.calls().is_none_or(|calls| calls.is_closed())
    }

    fn calls(&self) -> Option<mpsc::Sender<Call>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
