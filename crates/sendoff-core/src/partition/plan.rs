//! Which partitions of the outbox's table should be made, and which may be dropped.

use std::time::Duration;

use jiff::civil::DateTime;

use super::period::{moment, time};
use super::{PartitionName, Period};
use crate::{Timestamp, limits};

/// What the partitions should be like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How much time one partition holds.
    pub period: Period,
    /// How far ahead partitions are made.
    pub lookahead: Duration,
    /// How long a partition stays after its end; `None` keeps them all.
    pub retention: Option<Duration>,
}

/// What there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// The time, by the database's clock.
    pub now: Timestamp,
    /// Every partition but the tail.
    pub partitions: Vec<Existing>,
    /// When the oldest row of the tail was created.
    pub tail_oldest: Option<Timestamp>,
}

/// A partition that is there: `from` is in it, `to` is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Existing {
    /// Its name; `None` where it was not given by us.
    pub name: Option<PartitionName>,
    /// Its beginning; `None` where it has none.
    pub from: Option<Timestamp>,
    /// Its end; `None` where it has none.
    pub to: Option<Timestamp>,
}

/// A partition to be made: `from` is in it, `to` is not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// What to call it.
    pub name: PartitionName,
    /// Its beginning.
    pub from: Timestamp,
    /// Its end.
    pub to: Timestamp,
}

/// What to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Partitions to make, the earliest first.
    pub create: Vec<Planned>,
    /// Partitions whose retention is over, the earliest first. Whether their rows are over too is for
    /// the database to say.
    pub drop: Vec<PartitionName>,
}

/// Decides which partitions to make and which to drop.
///
/// Made is what covers the time from the present to the end of the look-ahead, and the time that rows
/// in the tail go back to, as far as it is within the retention: what a maintainer that stood still
/// left undone. Where part of a month is covered already, because partitions were made by day before,
/// the rest of it is made by day, and the rest of a day by hour. Where partitions are made by hour, days
/// that are over are made whole: nobody waits for them any more, and there may be many. Ranges never
/// overlap what is there.
///
/// Dropped is what ended longer ago than the retention, and only what bears a name of ours.
///
/// ```
/// use std::time::Duration;
/// use sendoff_core::Timestamp;
/// use sendoff_core::partition::{Period, Policy, Survey, plan};
///
/// let day = Duration::from_secs(24 * 60 * 60);
/// let policy = Policy { period: Period::Day, lookahead: day, retention: None };
/// let epoch = Timestamp::from_micros(0);
/// let plan = plan(&policy, &Survey { now: epoch, partitions: vec![], tail_oldest: None });
/// let names: Vec<_> = plan.create.iter().map(|made| made.name.as_str()).collect();
/// assert_eq!(names, ["p19700101", "p19700102"]);
/// ```
pub fn plan(policy: &Policy, survey: &Survey) -> Plan {
    Plan { create: to_create(policy, survey), drop: to_drop(policy, survey) }
}

fn to_create(policy: &Policy, survey: &Survey) -> Vec<Planned> {
    let now = survey.now;
    let mut from = survey.tail_oldest.map_or(now, |oldest| oldest.min(now));
    if let Some(retention) = policy.retention {
        // Older rows stay in the tail, where cleanup finds them: their partition would be dropped
        // by the next pass.
        from = from.max(now.saturating_sub(retention)).min(now);
    }
    let until = now.saturating_add(policy.lookahead);
    let mut create = Vec::new();
    let (Some(earliest), Some(today)) = (moment(from), moment(now)) else { return create };
    let period_at = |moment| match policy.period {
        Period::Hour if moment < Period::Day.first(today) => Period::Day,
        period => period,
    };
    let mut first = period_at(earliest).first(earliest);
    while create.len() < limits::PARTITIONS_PER_PASS
        && let Some(piece) = piece(period_at(first), first)
        && piece.from <= until
    {
        let period = period_at(first);
        add_uncovered(&mut create, period, first, piece, from, &survey.partitions);
        let Some(next) = period.next(first) else { break };
        first = next;
    }
    create.truncate(limits::PARTITIONS_PER_PASS);
    create
}

/// Adds the period itself, or those of its smaller ones since `since` that nothing covers.
fn add_uncovered(
    create: &mut Vec<Planned>,
    period: Period,
    first: DateTime,
    whole: Planned,
    since: Timestamp,
    existing: &[Existing],
) {
    if !existing.iter().any(|there| overlaps(there, &whole)) {
        create.push(whole);
        return;
    }
    let covers = |there: &Existing| {
        there.from.is_none_or(|from| from <= whole.from) && there.to.is_none_or(|to| whole.to <= to)
    };
    let Some(finer) = period.finer().filter(|_| !existing.iter().any(covers)) else { return };
    let mut part = first;
    while let Some(piece) = piece(finer, part)
        && piece.from < whole.to
    {
        if since < piece.to {
            add_uncovered(create, finer, part, piece, since, existing);
        }
        let Some(next) = finer.next(part) else { return };
        part = next;
    }
}

fn piece(period: Period, first: DateTime) -> Option<Planned> {
    Some(Planned {
        name: PartitionName::of(period, first),
        from: time(first)?,
        to: time(period.next(first)?)?,
    })
}

fn overlaps(there: &Existing, planned: &Planned) -> bool {
    there.from.is_none_or(|from| from < planned.to) && there.to.is_none_or(|to| planned.from < to)
}

fn to_drop(policy: &Policy, survey: &Survey) -> Vec<PartitionName> {
    let Some(retention) = policy.retention else { return Vec::new() };
    let before = survey.now.saturating_sub(retention);
    let mut over: Vec<_> = survey
        .partitions
        .iter()
        .filter_map(|there| Some((there.to.filter(|to| *to <= before)?, there.name.clone()?)))
        .collect();
    over.sort_unstable();
    over.into_iter().map(|(_, name)| name).collect()
}
