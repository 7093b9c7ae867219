//! Clients that write, as fast as they can or at a steady rate.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::latency::Stamps;

/// One client with one connection.
#[async_trait]
pub(crate) trait Writer: Send {
    /// One transaction: a business row and the event of this number. `trace` is told when the commit
    /// is asked for; when its answer is there, it is told by whoever sees that first.
    async fn write(&mut self, number: u64, trace: &Trace) -> Result<()>;
}

pub(crate) type Writers = Vec<Box<dyn Writer>>;

/// Where times are kept, if they are.
#[derive(Debug, Clone, Default)]
pub(crate) struct Trace(pub(crate) Option<Arc<Stamps>>);

impl Trace {
    /// Whether anybody will look at the times.
    pub(crate) fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn called(&self, number: u64) {
        if let Some(stamps) = &self.0 {
            stamps.called(number);
        }
    }

    pub(crate) fn replied(&self, number: u64) {
        if let Some(stamps) = &self.0 {
            stamps.replied(number);
        }
    }

    pub(crate) fn handled(&self, number: u64) {
        if let Some(stamps) = &self.0 {
            stamps.handled(number);
        }
    }
}

/// How many transactions committed, and in what time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written {
    pub(crate) count: u64,
    pub(crate) took: Duration,
}

/// Writes with every client at once until the time is over.
pub(crate) async fn flood(writers: Writers, time: Duration) -> Result<Written> {
    let started = Instant::now();
    flood_while(writers, move || started.elapsed() < time).await
}

/// Writes with every client at once for as long as `going` says so.
pub(crate) async fn flood_while(
    writers: Writers,
    going: impl Fn() -> bool + Clone + Send + 'static,
) -> Result<Written> {
    let (started, next) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    let mut clients = JoinSet::new();
    for mut writer in writers {
        let (next, going) = (next.clone(), going.clone());
        clients.spawn(async move {
            let mut count = 0;
            while going() {
                let number = next.fetch_add(1, Ordering::Relaxed);
                writer.write(number, &Trace::default()).await?;
                count += 1;
            }
            anyhow::Ok(count)
        });
    }
    let count = sum(clients).await?;
    Ok(Written { count, took: started.elapsed() })
}

/// Writes `count` events, `rate` in a second, dealt out evenly to the clients.
pub(crate) async fn paced(
    writers: Writers,
    count: u64,
    rate: u32,
    trace: Trace,
) -> Result<Written> {
    let started = Instant::now();
    let step = Duration::from_secs(1) / rate.max(1);
    let lanes = writers.len() as u64;
    let mut clients = JoinSet::new();
    for (lane, mut writer) in (0..lanes).zip(writers) {
        let trace = trace.clone();
        let first = started + step * u32::try_from(lane)?;
        let period = step * u32::try_from(lanes)?;
        clients.spawn(async move {
            let mut ticks = interval_at(first, period);
            // A slow commit must not be followed by a burst.
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut written = 0;
            for number in (lane..count).step_by(usize::try_from(lanes)?) {
                ticks.tick().await;
                writer.write(number, &trace).await?;
                written += 1;
            }
            anyhow::Ok(written)
        });
    }
    let count = sum(clients).await?;
    Ok(Written { count, took: started.elapsed() })
}

async fn sum(mut clients: JoinSet<Result<u64>>) -> Result<u64> {
    let mut count = 0;
    while let Some(written) = clients.join_next().await {
        count += written??;
    }
    Ok(count)
}
