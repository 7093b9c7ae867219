//! Reads the journal's end once for all pairs of a node.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::journal::Position;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, timeout};

use super::options::PublishOptions;
use super::store::PublishStore;
use crate::appetite::Appetite;
use crate::journal::error::TailError;
use crate::journal::handle::Journal;
use crate::journal::store::TailRow;
use crate::journal::tail::{Batch, TailOptions, TailReader};
use crate::lock::lock;
use crate::store::{StoreError, within};
use crate::until::until;

/// What the feed tells.
#[derive(Debug)]
pub(super) enum Fed {
    /// It reads on from where a pair is. Somebody may have put it there: what lies before it may not be
    /// decided.
    FromPair(Position),
    /// It reads on from the end that the journal had. Everything up to there is decided.
    FromNow(Position),
    /// Rows, and how far everything is decided with them.
    Rows(Vec<TailRow>, Position),
    /// It is over. Nothing of what it told can be relied on any more.
    Lost(TailError),
}

/// A feed, until its link is lost.
pub(super) struct Feed<S> {
    pub(super) journal: Journal<S>,
    pub(super) options: Arc<PublishOptions>,
    /// Where the pairs are that it is for.
    pub(super) pairs_at: Vec<Position>,
    pub(super) tell: mpsc::Sender<Fed>,
    /// When somebody wants to know whether there is something new.
    pub(super) look_at: watch::Receiver<Instant>,
    /// Nobody wants it more often than that.
    pub(super) interval: Duration,
    /// How much it asks for. It outlives the feed: what did not come in time is asked for by halves by
    /// the next one.
    pub(super) appetite: Arc<Mutex<Appetite>>,
}

impl<S: PublishStore> Feed<S> {
    pub(super) async fn run(mut self) {
        if let Err(error) = self.read().await {
            let _ = self.tell.send(Fed::Lost(error)).await;
        }
    }

    /// Ends with an error, or when nobody listens any more.
    async fn read(&mut self) -> Result<(), TailError> {
        let mut reader = self.open().await?;
        let (mut begun, from_now) = (false, reader.is_starting());
        loop {
            let appended = Arc::clone(self.journal.appended());
            let mut appended = std::pin::pin!(appended.notified());
            // Before the look, so that whatever it comes too early for is heard of.
            appended.as_mut().enable();
            if !begun && !reader.is_starting() {
                begun = true;
                let at = reader.at();
                let from = if from_now { Fed::FromNow(at) } else { Fed::FromPair(at) };
                if self.tell.send(from).await.is_err() {
                    return Ok(());
                }
            }
            let (from, looked) = (reader.at(), Instant::now());
            let batch = self.look(&mut reader, looked).await?;
            let rest = reader.rest_after(&batch);
            if begun && batch.up_to > from {
                let rows = Fed::Rows(batch.rows, batch.up_to);
                if self.tell.send(rows).await.is_err() {
                    return Ok(());
                }
            }
            if !begun && !reader.is_starting() {
                // Somebody waits to be told where it begins.
                continue;
            }
            let interval = wanted(&mut self.look_at, looked + self.interval);
            reader.rest(rest, looked, appended, interval).await?;
        }
    }

    /// One look, of as much as comes in time.
    async fn look(&self, reader: &mut TailReader, now: Instant) -> Result<Batch, TailError> {
        let asked = lock(&self.appetite).portion();
        reader.ask_for(asked);
        let limit = self.options.statement_limit();
        let Ok(looked) = timeout(limit, reader.look()).await else {
            lock(&self.appetite).timed_out(asked);
            return Err(StoreError::Timeout.into());
        };
        let batch = looked?;
        lock(&self.appetite).answered(batch.portion(), now.elapsed(), limit);
        Ok(batch)
    }

    /// From the lowest pair that a window reaches back to; from now, where there is none.
    async fn open(&self) -> Result<TailReader, TailError> {
        let head = self.journal.head();
        let head = within(self.options.statement_limit(), head).await?;
        let reach = self.options.window_rows as u64;
        let near =
            self.pairs_at.iter().copied().filter(|at| *at <= head && head.since(*at) <= reach);
        let gap_interval = self.options.gap_interval;
        let options = TailOptions { gap_interval, ..TailOptions::default() };
        Ok(match near.min() {
            Some(lowest) => self.journal.tail(lowest, options).await?,
            None => self.journal.tail_from_now(options).await?,
        })
    }
}

/// Until somebody wants a look, but not before it makes sense. The time may be moved while it is waited
/// for.
async fn wanted(look_at: &mut watch::Receiver<Instant>, not_before: Instant) {
    // Whether somebody's time came before it made sense, and found nothing: the look is still owed.
    let mut owed = false;
    loop {
        let wanted = *look_at.borrow_and_update();
        let at = if owed { not_before } else { wanted.max(not_before) };
        tokio::select! {
            biased;
            changed = look_at.changed() => {
                if changed.is_err() {
                    return until(at).await;
                }
                let now = Instant::now();
                if now >= at {
                    return;
                }
                owed |= now >= wanted;
            }
            () = until(at) => return,
        }
    }
}
