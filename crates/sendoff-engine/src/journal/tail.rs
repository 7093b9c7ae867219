//! Carries out what the pure `Tail` asks for, over one connection, and waits in between.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::journal::{HolderId, Look, Position, Tail};
use sendoff_core::limits;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::{Instant, sleep, sleep_until};

use super::error::TailError;
use super::store::{Armed, Page, TailRow, TailSource, Undecided};
use super::vigil::{AWAKE_PAUSE, Vigil};
use crate::appetite::Portion;
use crate::store::within;

/// How a tail waits. Nothing here decides what it passes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct TailOptions {
    /// How many rows a batch has at most.
    pub batch: usize,
    /// How many bytes of payloads and headers; a row that is larger by itself comes alone.
    pub batch_bytes: usize,
    /// How long after a look in vain the next one is made, if nobody in this process appends and nobody
    /// rings.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub interval: Duration,
    /// The same while it waits for somebody to finish.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub gap_interval: Duration,
}

impl Default for TailOptions {
    /// Batches of 100 rows or 8 MiB, a look every half second, and every 10 ms at a gap.
    fn default() -> Self {
        Self {
            batch: 100,
            batch_bytes: limits::READ_BYTES,
            interval: Duration::from_millis(500),
            gap_interval: Duration::from_millis(10),
        }
    }
}

/// Reads the journal's end. Skips nothing, passes nothing on twice, in the order of positions.
///
/// It lives on one connection. An error is its end: open another from the position you stored, not
/// from one in memory, because a database that lost its last commits gives their positions again.
pub struct TailReader {
    source: Box<dyn TailSource>,
    tail: Tail,
    options: TailOptions,
    /// For one look.
    wait: Duration,
    appended: Arc<Notify>,
    vigil: Vigil,
}

/// At a gap the next look is made after so small a part of the interval, however often somebody in this
/// process appends meanwhile.
const GAP_PART: u32 = 10;

/// What a reader waits for before it looks again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// For nothing: there may be more.
    None,
    /// For somebody to finish.
    AtGap,
    /// For something new.
    Idle,
}

/// What a look passed on.
#[derive(Debug)]
pub struct Batch {
    /// The rows, in order.
    pub rows: Vec<TailRow>,
    /// Everything up to here was passed on, or never will be there.
    pub up_to: Position,
    /// The numbers that hold the rest back, the first and the last, where there is a gap.
    pub gap: Option<(Position, Position)>,
    /// Who is waited for; [`Journal::holders`](super::Journal::holders) says more of them.
    pub waits_for: Vec<HolderId>,
}

impl Batch {
    /// How much was passed on.
    pub(super) fn portion(&self) -> Portion {
        let sizes = self.rows.iter().filter_map(|row| row.recorded.as_ref().ok());
        let bytes = sizes.map(|fact| fact.event().size()).sum();
        Portion { rows: self.rows.len(), bytes }
    }
}

impl TailReader {
    pub(super) fn new(
        source: Box<dyn TailSource>,
        tail: Tail,
        options: TailOptions,
        wait: Duration,
        appended: Arc<Notify>,
    ) -> Self {
        Self { source, tail, options, wait, appended, vigil: Vigil::default() }
    }

    /// The next rows, as soon as there are some.
    ///
    /// Cancel-safe: what was not returned is read again.
    pub async fn next(&mut self) -> Result<Batch, TailError> {
        loop {
            let appended = Arc::clone(&self.appended);
            let appended = appended.notified();
            let mut appended = std::pin::pin!(appended);
            // Before the look, so that whatever it comes too early for is heard of.
            appended.as_mut().enable();
            let looked = Instant::now();
            let batch = self.look().await?;
            if !batch.rows.is_empty() {
                return Ok(batch);
            }
            let (rest, interval) = (self.rest_after(&batch), sleep(self.options.interval));
            self.rest(rest, looked, appended, interval).await?;
        }
    }

    /// Waits as it is said, until `interval` is over at the latest. `appended` hears of appends in this
    /// process, and of those that came after the look that was made at `looked`.
    ///
    /// Cancel-safe, as a look is.
    pub(super) async fn rest(
        &mut self,
        rest: Rest,
        looked: Instant,
        appended: Pin<&mut Notified<'_>>,
        interval: impl Future<Output = ()>,
    ) -> Result<(), TailError> {
        match rest {
            Rest::None => {}
            // Nobody is rung for: it looks often enough by itself.
            Rest::AtGap => {
                let pause = self.options.gap_interval;
                tokio::select! {
                    biased;
                    () = async { appended.await; sleep_until(looked + pause / GAP_PART).await } => {}
                    () = sleep(pause) => {}
                }
            }
            Rest::Idle if self.vigil.is_awake(Instant::now()) => tokio::select! {
                biased;
                () = appended => {}
                () = sleep(AWAKE_PAUSE) => {}
            },
            Rest::Idle => self.sleep(appended, interval).await?,
        }
        Ok(())
    }

    /// Waits until somebody appends, here or elsewhere, but not longer than the interval.
    async fn sleep(
        &mut self,
        appended: Pin<&mut Notified<'_>>,
        interval: impl Future<Output = ()>,
    ) -> Result<(), TailError> {
        let armed = within(self.wait, self.source.arm()).await?;
        if armed == Armed::FromNow {
            return Ok(());
        }
        let asleep = Instant::now();
        tokio::select! {
            biased;
            () = appended => {}
            () = self.source.rung() => {}
            () = interval => return Ok(()),
        }
        let now = Instant::now();
        if armed == Armed::Already && self.vigil.woken(now - asleep, now) {
            within(self.wait, self.source.disarm()).await?;
        }
        Ok(())
    }

    /// What to wait for after a look that brought this.
    pub(super) fn rest_after(&self, batch: &Batch) -> Rest {
        match (batch.gap, self.tail.is_waiting()) {
            _ if !batch.rows.is_empty() => Rest::None,
            (_, true) => Rest::AtGap,
            (Some(_), false) => Rest::None,
            (None, false) if self.is_starting() || self.tail.is_closed() => Rest::None,
            (None, false) => Rest::Idle,
        }
    }

    /// Whether it is still finding out where now is.
    pub(super) fn is_starting(&self) -> bool {
        !self.tail.wants_rows()
    }

    /// One look, whatever comes of it.
    pub async fn look(&mut self) -> Result<Batch, TailError> {
        let most = self.options.batch.clamp(1, limits::BATCH_ROWS);
        let limit = if self.tail.wants_rows() { most } else { 1 };
        let bytes = self.options.batch_bytes;
        let page = Page { after: self.tail.at(), up_to: self.tail.up_to(), limit, bytes };
        let mut look = within(self.wait, self.source.look(self.tail.ask(), page)).await?;
        let positions: Vec<_> = look.rows.iter().map(|row| row.position).collect();
        let seen = self.tail.take(&Look {
            server: look.server,
            sequence: look.sequence,
            head: look.head,
            holders: look.holders.as_deref(),
            proved: look.proved,
            rows: &positions,
            complete: look.complete,
        })?;
        look.rows.truncate(seen.deliver);
        if seen.deliver > 0 {
            self.vigil.brought(Instant::now());
        }
        let (gap, waits_for) = match look.undecided {
            Some(Undecided { gap, waits_for }) => (Some(gap), waits_for),
            None => (seen.gap, seen.waits_for),
        };
        Ok(Batch { rows: look.rows, up_to: self.tail.at(), gap, waits_for })
    }

    /// Looks for so much from now on.
    pub(super) fn ask_for(&mut self, Portion { rows, bytes }: Portion) {
        (self.options.batch, self.options.batch_bytes) = (rows, bytes);
    }

    /// Everything up to here was passed on, or never will be there.
    pub fn at(&self) -> Position {
        self.tail.at()
    }
}

impl fmt::Debug for TailReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TailReader").field("tail", &self.tail).finish_non_exhaustive()
    }
}
