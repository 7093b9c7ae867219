//! Makes partitions ahead of time and drops those that are over.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::partition::{PartitionName, Period, Plan, Planned, Policy, plan};
use sendoff_core::{limits, report};
use tokio::time::sleep;
use tracing::{info, warn};

use crate::options::{LONGEST, OptionsError, SHORTEST, check_counts, check_times};
use crate::store::{Bounds, Created, Dropped, PartitionSession, PartitionStore, StoreError};

/// How partitions are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct PartitionOptions {
    /// How much time one partition holds. A day.
    pub period: Period,
    /// How far ahead partitions are made. 30 days; by the hour 2, see [`by`](Self::by).
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub lookahead: Duration,
    /// How long a partition stays after its end; `None` keeps them all, and is the default.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration::optional"))]
    pub retention: Option<Duration>,
    /// Whether dead rows go with their partition. No: a partition with a dead row in it stays, and is
    /// reported, until somebody requeued or purged them.
    pub drop_dead: bool,
    /// How often to look again, in [`run`](PartitionMaintainer::run). 1 h.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub check_every: Duration,
    /// How long a change waits for its lock, and others with it, before it is left for the next
    /// time. 500 ms.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub lock_wait: Duration,
    /// Rows of the tail that move into a new partition in one transaction, while writers wait.
    /// 100,000.
    pub most_moved: usize,
}

impl Default for PartitionOptions {
    fn default() -> Self {
        Self {
            period: Period::Day,
            lookahead: Duration::from_secs(30 * 24 * 60 * 60),
            retention: None,
            drop_dead: false,
            check_every: Duration::from_secs(60 * 60),
            lock_wait: Duration::from_millis(500),
            most_moved: 100_000,
        }
    }
}

/// How often a busy partition is tried in one pass.
const TRIES: usize = 3;
/// More rows than anybody should move while writers wait.
const MOST_MOVED: usize = 100_000_000;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

impl PartitionOptions {
    /// Partitions of this period, and the look-ahead that suits it: by the hour 2 days, because every
    /// partition costs each poll a little; 30 days otherwise.
    pub fn by(period: Period) -> Self {
        let usual = Self::default();
        let lookahead = if period == Period::Hour { DAY * 2 } else { usual.lookahead };
        Self { period, lookahead, ..usual }
    }

    /// Checks every field; the error names the first that is out of range.
    pub fn validate(&self) -> Result<(), OptionsError> {
        check_counts(&[("most_moved", self.most_moved, MOST_MOVED)])?;
        let ahead_most = match self.period {
            Period::Hour => DAY * 14,
            Period::Day => DAY * 366,
            Period::Month => LONGEST,
        };
        check_times(&[
            ("check_every", self.check_every, SHORTEST, LONGEST),
            ("lock_wait", self.lock_wait, SHORTEST, limits::HOLD),
            ("retention", self.retention.unwrap_or_default(), Duration::ZERO, LONGEST),
            // Shorter than the time between two looks, and rows would fall into the tail.
            ("lookahead", self.lookahead, self.check_every.min(DAY), ahead_most),
        ])
    }
}

/// Keeps the partitions of a table: makes them ahead of time, and drops them when their retention is
/// over and every row in them is terminal.
///
/// Of several on one table one works at a time; the others say so and try again later. Everything
/// happens on one session of the database, so one connection is enough; a pass that is dropped ends
/// it, and with it the lock.
#[derive(Clone)]
pub struct PartitionMaintainer {
    store: Arc<dyn PartitionStore>,
    options: PartitionOptions,
}

/// How a pass went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Maintained {
    /// This maintainer did it.
    Here(PartitionReport),
    /// Another maintainer was at work, and this one did nothing.
    Elsewhere,
}

/// What a pass did, or would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PartitionReport {
    /// Partitions made.
    pub created: Vec<PartitionName>,
    /// Rows of the tail that moved into them.
    pub moved: u64,
    /// Partitions dropped.
    pub dropped: Vec<PartitionName>,
    /// Those of them that had dead rows, which are gone too.
    pub dropped_dead: Vec<PartitionName>,
    /// What was left for the next time, and why.
    pub skipped: Vec<Skipped>,
}

/// A partition that was left as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Which.
    pub name: PartitionName,
    /// Why.
    pub why: WhySkipped,
}

/// Why a partition was left as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhySkipped {
    /// Its retention is over, and a row in it is owed a delivery.
    Pending,
    /// Its retention is over, and a row in it is dead.
    Dead,
    /// A lock was not to be had in time.
    Busy,
    /// More rows of the tail belong to it than may move at once.
    TailTooFull,
    /// Of a journal: somebody who follows it was put back meanwhile, and has not passed it.
    Followed,
    /// Of a journal: a fact in it is younger than what may go, though its position is not.
    Young,
}

impl fmt::Display for WhySkipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pending => "a row in it is still to be delivered",
            Self::Dead => {
                "a row in it is dead and would be lost; requeue or purge it, or allow dead rows to go"
            }
            Self::Followed => "somebody who follows the journal has not passed it",
            Self::Young => "a fact in it is too young to go",
            Self::Busy => "a transaction kept it locked; the next pass tries again",
            Self::TailTooFull => {
                "more rows of the tail belong to it than may move at once; clean up, or allow more"
            }
        })
    }
}

/// A pass that failed half-way.
#[derive(Debug, thiserror::Error)]
#[error(
    "the partitions could not be kept; {} were made and {} dropped before",
    so_far.created.len(),
    so_far.dropped.len()
)]
pub struct PartitionError {
    /// What it had done by then, committed.
    pub so_far: PartitionReport,
    /// What went wrong.
    pub source: StoreError,
}

impl PartitionMaintainer {
    /// Checks the options.
    pub fn new(
        store: Arc<dyn PartitionStore>,
        options: PartitionOptions,
    ) -> Result<Self, OptionsError> {
        options.validate()?;
        Ok(Self { store, options })
    }

    /// One pass.
    ///
    /// Dropped half-way, it leaves whole changes behind, and no lock.
    pub async fn run_once(&self) -> Result<Maintained, PartitionError> {
        self.pass(Doing::Really).await
    }

    /// What a pass would do now; changes nothing.
    pub async fn dry_run(&self) -> Result<Maintained, PartitionError> {
        self.pass(Doing::Dry).await
    }

    /// Runs a pass again and again until `stop` is ready, which also ends one under way. What fails
    /// is logged and tried again the next time.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        loop {
            let pass = tokio::select! {
                biased;
                () = &mut stop => return,
                pass = self.run_once() => pass,
            };
            match pass {
                Ok(Maintained::Here(_)) => {}
                Ok(Maintained::Elsewhere) => info!("another maintainer keeps the partitions"),
                Err(error) => warn!(error = report(&error), "the partitions could not be kept"),
            }
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = sleep(self.options.check_every) => {}
            }
        }
    }

    async fn pass(&self, doing: Doing) -> Result<Maintained, PartitionError> {
        let mut report = PartitionReport::default();
        match self.attempt(doing, &mut report).await {
            Ok(true) => Ok(Maintained::Here(report)),
            Ok(false) => Ok(Maintained::Elsewhere),
            Err(source) => Err(PartitionError { so_far: report, source }),
        }
    }

    /// Whether the lock was ours.
    async fn attempt(
        &self,
        doing: Doing,
        report: &mut PartitionReport,
    ) -> Result<bool, StoreError> {
        let Some(mut session) = self.store.maintain().await? else { return Ok(false) };
        let survey = session.survey().await?;
        let PartitionOptions { period, lookahead, retention, .. } = self.options;
        let Plan { create, drop } = plan(&Policy { period, lookahead, retention }, &survey);
        for planned in &create {
            self.create(&mut *session, planned, doing, report).await?;
        }
        for name in &drop {
            self.drop(&mut *session, name, doing, report).await?;
        }
        session.release().await?;
        Ok(true)
    }

    async fn create(
        &self,
        session: &mut dyn PartitionSession,
        planned: &Planned,
        doing: Doing,
        report: &mut PartitionReport,
    ) -> Result<(), StoreError> {
        let name = &planned.name;
        if doing == Doing::Dry {
            report.created.push(name.clone());
            return Ok(());
        }
        let mut created = Created::Busy;
        for attempt in 0..TRIES {
            self.rest(attempt).await;
            created = session.create(planned, self.bounds()).await?;
            if created != Created::Busy {
                break;
            }
        }
        match created {
            Created::Made { moved } => {
                info!(partition = %name, from = %planned.from, to = %planned.to, moved, "partition made");
                report.moved += moved;
                report.created.push(name.clone());
            }
            Created::Busy => report.skip(name, WhySkipped::Busy),
            Created::TailTooFull => report.skip(name, WhySkipped::TailTooFull),
        }
        Ok(())
    }

    async fn drop(
        &self,
        session: &mut dyn PartitionSession,
        name: &PartitionName,
        doing: Doing,
        report: &mut PartitionReport,
    ) -> Result<(), StoreError> {
        // Asked first without a lock: nobody has to wait for an answer that is no.
        if session.is_pending(name).await? {
            report.skip(name, WhySkipped::Pending);
            return Ok(());
        }
        let has_dead = session.has_dead(name).await?;
        if has_dead && !self.options.drop_dead {
            report.skip(name, WhySkipped::Dead);
            return Ok(());
        }
        if doing == Doing::Dry {
            report.dropped(name, has_dead);
            return Ok(());
        }
        let mut dropped = Dropped::Busy;
        for attempt in 0..TRIES {
            self.rest(attempt).await;
            dropped = session.drop(name, self.bounds()).await?;
            if dropped != Dropped::Busy {
                break;
            }
        }
        match dropped {
            Dropped::Gone => {
                info!(partition = %name, has_dead, "partition dropped");
                report.dropped(name, has_dead);
            }
            Dropped::Dead => report.skip(name, WhySkipped::Dead),
            Dropped::Pending => report.skip(name, WhySkipped::Pending),
            Dropped::Busy => report.skip(name, WhySkipped::Busy),
        }
        Ok(())
    }

    /// Lets those go on who waited for a lock that this change did not get.
    async fn rest(&self, attempt: usize) {
        if attempt > 0 {
            sleep(self.options.lock_wait).await;
        }
    }

    fn bounds(&self) -> Bounds {
        let PartitionOptions { lock_wait, most_moved, drop_dead, .. } = self.options;
        Bounds { lock_wait, most_moved: most_moved as u64, drop_dead }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Really,
    Dry,
}

impl PartitionReport {
    fn dropped(&mut self, name: &PartitionName, has_dead: bool) {
        self.dropped.push(name.clone());
        if has_dead {
            self.dropped_dead.push(name.clone());
        }
    }

    fn skip(&mut self, name: &PartitionName, why: WhySkipped) {
        warn!(partition = %name, %why, "partition left as it is");
        self.skipped.push(Skipped { name: name.clone(), why });
    }
}

impl fmt::Debug for PartitionMaintainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionMaintainer")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
