//! The doorbell: a flag that says whether the relay sleeps, and a connection that listens; to what is paused
//! as well.
//!
//! NOTIFY takes a lock that the whole server shares, so a relay that is awake is never rung. There is one flag for
//! all nodes: who disarms it tells the others, and whoever sleeps arms it again. The
//! flag may lie, and a ring may be lost with its connection; the poll interval covers both (I7).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use sendoff_core::report;
use sendoff_engine::store::{StoreError, WakeStore};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_postgres::{Client, Error};
use tracing::warn;

use crate::connect::Connector;
use crate::options::Doorbell;
use crate::store::PostgresStore;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Listens from the first time that somebody wants to be woken.
pub(crate) struct Bell {
    channel: String,
    rings: Arc<Rings>,
    listener: Mutex<Option<JoinHandle<()>>>,
}

impl Bell {
    pub(crate) fn new(channel: String) -> Self {
        Self { channel, rings: Arc::default(), listener: Mutex::new(None) }
    }

    fn listen(&self, connector: &Arc<Connector>) {
        let mut listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
        // One that ended went down with its runtime.
        if listener.as_ref().is_none_or(JoinHandle::is_finished) {
            let rings = Arc::clone(&self.rings);
            let listening = listen(Arc::clone(connector), self.channel.clone(), rings);
            *listener = Some(tokio::spawn(listening));
        }
    }

    /// Waits until what is paused changes, or may have.
    pub(crate) async fn repaused(&self, connector: &Arc<Connector>) {
        let mut changes = self.rings.repaused.subscribe();
        self.listen(connector);
        // The sender is ours, and so it is there.
        let _ = changes.changed().await;
    }

    /// Stops listening.
    pub(crate) fn silence(&self) {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(listener) = listener {
            listener.abort();
        }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.silence();
    }
}

/// What the bell is rung for.
#[derive(Debug, Default)]
pub(crate) struct Rings {
    /// There is an event, for whoever sleeps: one of them is enough.
    rung: Notify,
    /// How often what is paused changed, for all.
    repaused: watch::Sender<u64>,
    /// How often some node disarmed the bell, and after how many of those times it was armed.
    disarmed: watch::Sender<u64>,
    rearmed: AtomicU64,
}

impl Rings {
    /// Somebody rang, and said what for.
    pub(crate) fn ring(&self, what: &str) {
        match what {
            "pauses" => self.repaused.send_modify(|changes| *changes += 1),
            "disarmed" => self.disarmed.send_modify(|times| *times += 1),
            _ => self.rung.notify_one(),
        }
    }

    /// Waits until somebody rings. Cancel-safe: a ring is kept until it is heard.
    pub(crate) async fn rung(&self) {
        self.rung.notified().await;
    }

    /// It was armed after it had been disarmed so often.
    fn armed(&self, after: u64) {
        self.rearmed.fetch_max(after, Ordering::AcqRel);
    }

    /// Whoever rang so far was heard.
    pub(crate) fn hear(&self) {
        let _ = self.rung().now_or_never();
    }

    fn ring_for_all(&self) {
        self.ring("");
        self.ring("pauses");
    }
}

/// From now on the connection that the client is of hears of the channel.
pub(crate) async fn listen_to(client: &Client, channel: &str) -> Result<(), Error> {
    client.batch_execute(&format!("listen \"{channel}\"")).await
}

/// Listens until it is aborted. Rings once whenever it begins to: nobody knows who rang meanwhile.
async fn listen(connector: Arc<Connector>, channel: String, rings: Arc<Rings>) {
    let mut pause = FIRST_PAUSE;
    loop {
        match connector.open(Some(Arc::clone(&rings))).await {
            Ok(mut opened) => {
                match listen_to(&opened.client, &channel).await {
                    Ok(()) => {
                        rings.ring_for_all();
                        pause = FIRST_PAUSE;
                        // Ends when the link does; the client must live until then.
                        let _ = (&mut opened.task).await;
                        warn!("the doorbell's connection was lost");
                    }
                    Err(error) => warn!(error = report(&error), "the doorbell cannot listen"),
                }
            }
            Err(error) => warn!(error = report(&error), "the doorbell cannot connect"),
        }
        sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[async_trait]
impl WakeStore for PostgresStore {
    async fn arm(&self) -> Result<bool, StoreError> {
        self.check_open()?;
        if self.doorbell() == Doorbell::Off {
            return Ok(false);
        }
        let bell = self.bell();
        bell.listen(self.connector());
        let disarmed = *bell.rings.disarmed.borrow();
        self.links().claims.query(&self.sql().arm, &[]).await?;
        bell.rings.armed(disarmed);
        Ok(true)
    }

    async fn disarm(&self) -> Result<(), StoreError> {
        self.check_open()?;
        if self.doorbell() == Doorbell::On {
            self.links().claims.query(&self.sql().disarm, &[]).await?;
        }
        Ok(())
    }

    /// Arms the bell again meanwhile where another node disarmed it. What is written between the two is found by that node,
    /// which is at work. Cancel-safe: what is still to be done then is done the next time.
    async fn rung(&self) {
        let rings = &self.bell().rings;
        let mut disarmed = rings.disarmed.subscribe();
        loop {
            let times = *disarmed.borrow_and_update();
            if times > rings.rearmed.load(Ordering::Acquire) {
                if let Err(error) = self.arm().await {
                    warn!(error = report(&error), "could not arm the bell again");
                }
                // Not tried again and again: the poll interval covers it.
                rings.armed(times);
            }
            tokio::select! {
                biased;
                () = rings.rung() => return,
                // The sender is ours, and so it is there.
                _ = disarmed.changed() => {}
            }
        }
    }
}
