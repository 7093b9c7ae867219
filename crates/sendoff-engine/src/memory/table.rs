//! The table: every statement as a function of the rows, its arguments and the time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{EventId, Holding, Pause, PauseScope, Status, Timestamp, limits};

use tokio::sync::oneshot;

use super::entry::Entry;
use super::fair::in_turns;
use super::keys::KeyRow;
use crate::store::{
    AuditEntry, Claim, Claimed, Counts, EventKind, Extended, Held, Lateness, Lock, Outcome, Purge,
    Purged, Row, Settled, Settlement, Suspects, TopicCounts,
};
use crate::weight::weight;

/// Ordered maps throughout: a simulation must find the same rows in the same order every time.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) rows: BTreeMap<EventId, Entry>,
    /// Pending rows in the order of claims.
    pub(super) pending: BTreeMap<(Timestamp, u64), EventId>,
    /// Pending rows with a key, in the order of each.
    pub(super) live: BTreeMap<String, BTreeMap<u64, EventId>>,
    /// The keys that somebody holds, that wait, or that are parked.
    pub(super) keys: BTreeMap<Arc<str>, KeyRow>,
    /// Rows that some transaction has locked; everybody else passes them by.
    locked: BTreeSet<EventId>,
    /// Who waits for one of them, the first one first.
    queue: Vec<Queued>,
    /// How many rows ended, by type and status.
    ended: BTreeMap<(String, Status), u64>,
    /// What operators did, the latest last.
    pub(super) audit: Vec<AuditEntry>,
    /// The number of the latest entry, which may be forgotten: none is drawn twice.
    pub(super) last_entry: i64,
    /// What operators paused.
    pub(super) pauses: BTreeMap<PauseScope, Pause>,
    /// What nodes handle, and when one last said so.
    pub(super) handled: BTreeMap<(String, String), Timestamp>,
    /// What consumers saw, and when.
    pub(super) seen: BTreeMap<(String, EventId), Timestamp>,
    /// The same of transactions that are open.
    pub(super) seeing: BTreeSet<(String, EventId)>,
    last_seq: u64,
    commits: u64,
}

/// An id that is there already.
pub(super) struct Duplicate;

/// An extension that waits for the lock of its row.
#[derive(Debug)]
struct Queued {
    held: Held,
    hold: Duration,
    answer: oneshot::Sender<Extended>,
}

impl Table {
    pub(super) fn contains(&self, id: EventId) -> bool {
        self.rows.contains_key(&id)
    }

    /// Adds all rows or none. Their ids differ from each other; the transaction saw to that.
    pub(super) fn insert(&mut self, entries: Vec<Entry>) -> Result<(), Duplicate> {
        if entries.iter().any(|entry| self.contains(entry.row.event.id())) {
            return Err(Duplicate);
        }
        for mut entry in entries {
            self.commits += 1;
            entry.commit = self.commits;
            self.pend(&entry);
            self.rows.insert(entry.row.event.id(), entry);
        }
        Ok(())
    }

    /// The next number: drawn when a row is written, not when it commits, as in a database.
    pub(super) fn next_seq(&mut self) -> u64 {
        self.last_seq += 1;
        self.last_seq
    }

    fn pend(&mut self, entry: &Entry) {
        let id = entry.row.event.id();
        self.pending.insert((entry.row.due_at, entry.seq), id);
        if let Some(key) = entry.row.event.ordering_key() {
            self.live.entry(key.to_owned()).or_default().insert(entry.seq, id);
        }
    }

    /// It is in no order any more.
    fn unpend(&mut self, due_at: Timestamp, seq: u64, key: Option<&str>) {
        self.pending.remove(&(due_at, seq));
        if let Some(key) = key
            && let Some(live) = self.live.get_mut(key)
        {
            live.remove(&seq);
            if live.is_empty() {
                self.live.remove(key);
            }
        }
    }

    /// The one way to change a row, so that the order of claims follows it.
    pub(super) fn change<T>(
        &mut self,
        id: EventId,
        change: impl FnOnce(&mut Entry) -> T,
    ) -> Option<T> {
        let mut entry = self.rows.remove(&id)?;
        self.unpend(entry.row.due_at, entry.seq, entry.row.event.ordering_key());
        let answer = change(&mut entry);
        if entry.row.status.is_pending() {
            self.pend(&entry);
        }
        self.rows.insert(id, entry);
        Some(answer)
    }

    pub(super) fn claim(&mut self, claim: &Claim<'_>, now: Timestamp) -> Vec<Claimed> {
        let visible = self
            .visible(claim.skip_recent, claim.window, claim.from, now)
            .filter(|entry| !claim.except.has(EventKind::of(&entry.row.event)))
            .filter(|entry| {
                let losses = entry.row.losses + u32::from(entry.is_lost_to(claim.owner));
                let suspect = losses >= limits::SUSPECT_LOSSES;
                suspect == (claim.suspects == Suspects::Only)
            });
        let turns = match claim.shares {
            [] => visible.take(claim.limit).collect(),
            shares => in_turns(visible, shares, claim.limit),
        };
        let mut ids: Vec<EventId> = turns
            .into_iter()
            .scan(None, |sum, entry| within(sum, entry, claim.bytes))
            .map(|entry| entry.row.event.id())
            .collect();
        if !claim.shares.is_empty() {
            ids.sort_by_key(|id| self.rows.get(id).map(|entry| (entry.row.due_at, entry.seq)));
        }
        ids.into_iter().filter_map(|id| self.change(id, |entry| take(entry, claim, now))).collect()
    }

    /// Visible rows that nobody has locked, in the order of claims.
    fn visible(
        &self,
        skip_recent: Duration,
        window: Option<Duration>,
        from: Option<Timestamp>,
        now: Timestamp,
    ) -> impl Iterator<Item = &Entry> {
        let oldest = window.map(|window| now.saturating_sub(window));
        self.pending
            .range(..=(now, u64::MAX))
            .filter(move |((due_at, _), _)| from.is_none_or(|from| *due_at >= from))
            .filter(|(_, id)| !self.locked.contains(id))
            .filter_map(|(_, id)| self.rows.get(id))
            .filter(move |entry| !is_young(entry.row.created_at, skip_recent, now))
            .filter(move |entry| oldest.is_none_or(|oldest| entry.row.created_at >= oldest))
    }

    /// Locks rows for a transaction; nothing about them changes.
    pub(super) fn lock(&mut self, lock: &Lock<'_>, now: Timestamp) -> Vec<Claimed> {
        let rows: Vec<Claimed> = self
            .visible(lock.skip_recent, lock.window, lock.from, now)
            .filter(|entry| !lock.except.has(EventKind::of(&entry.row.event)))
            .take(lock.limit)
            .scan(None, |sum, entry| within(sum, entry, lock.bytes))
            .map(|entry| {
                let lost = entry.row.locked_by.is_some();
                Claimed {
                    attempts: entry.row.attempts.saturating_add(u32::from(lost)),
                    ..entry.claimed(Holding::Lock, lost, now)
                }
            })
            .collect();
        self.locked.extend(rows.iter().map(|row| row.id));
        rows
    }

    /// Locks one row, held or not; nothing about it changes.
    pub(super) fn lock_row(&mut self, id: EventId) -> bool {
        self.contains(id) && self.locked.insert(id)
    }

    pub(super) fn is_locked(&self, id: EventId) -> bool {
        self.locked.contains(&id)
    }

    /// The rows that are owed, the earliest due first.
    pub(super) fn pending(&self) -> Vec<EventId> {
        self.pending.values().copied().collect()
    }

    /// The transaction that locked them is over.
    pub(super) fn unlock(&mut self, ids: &[EventId], now: Timestamp) {
        for id in ids {
            self.locked.remove(id);
        }
        // Whoever waited has the row before anybody can see that it is free.
        let is_next = |queued: &mut Queued| !self.locked.contains(&queued.held.id);
        let next: Vec<_> = self.queue.extract_if(.., is_next).collect();
        for Queued { held, hold, answer } in next {
            if !answer.is_closed() {
                let _ = answer.send(self.extend(&[held], hold, now));
            }
        }
    }

    /// Extends a hold when the lock of its row is gone.
    pub(super) fn extend_in_turn(
        &mut self,
        held: Held,
        hold: Duration,
        now: Timestamp,
    ) -> oneshot::Receiver<Extended> {
        let (answer, answered) = oneshot::channel();
        self.queue.retain(|queued| !queued.answer.is_closed());
        if self.is_busy(&held) {
            self.queue.push(Queued { held, hold, answer });
        } else {
            let _ = answer.send(self.extend(&[held], hold, now));
        }
        answered
    }

    pub(super) fn confirm(&self, holds: &[Held]) -> Vec<EventId> {
        holds.iter().filter(|held| self.is_held(held)).map(|held| held.id).collect()
    }

    pub(super) fn is_held(&self, held: &Held) -> bool {
        match held.by {
            Holding::Row(token) => {
                self.rows.get(&held.id).is_some_and(|entry| entry.is_held_by(token))
            }
            // Its transaction settles by `settle_locked`; to anybody else it proves nothing. And a key's
            // holder settles by `settle_runs`.
            Holding::Lock | Holding::Key(_) => false,
        }
    }

    /// Whether nothing can be said of a hold, because somebody has its row locked.
    fn is_busy(&self, held: &Held) -> bool {
        match held.by {
            Holding::Row(_) => self.locked.contains(&held.id),
            Holding::Lock | Holding::Key(_) => false,
        }
    }

    pub(super) fn rescue(&mut self, longest: Duration, now: Timestamp) -> u64 {
        self.rescue_keys(longest, now);
        let ids: Vec<EventId> = self
            .pending
            .range((now, 0)..)
            .filter(|(_, id)| !self.locked.contains(id))
            .filter_map(|(_, id)| self.rows.get(id))
            .filter(|entry| entry.rescued(longest, now).is_some())
            .take(limits::BATCH_ROWS)
            .map(|entry| entry.row.event.id())
            .collect();
        for id in &ids {
            // The holder stays on record: whoever takes the row over must count the loss.
            self.change(*id, |entry| {
                if let Some((created_at, due_at)) = entry.rescued(longest, now) {
                    (entry.row.created_at, entry.row.due_at) = (created_at, due_at);
                }
            });
        }
        ids.len() as u64
    }

    /// Carries out what is not stale. `keep` says whether delivered rows stay.
    pub(super) fn settle(&mut self, batch: &[Settlement], keep: bool, now: Timestamp) -> Settled {
        let mut settled = Settled::default();
        for Settlement { held, outcome } in batch {
            if self.is_busy(held) {
                settled.busy.push(held.id);
            } else if self.is_held(held) {
                self.end_hold(held.id, outcome, keep, now);
                settled.applied.push(held.id);
            }
        }
        settled
    }

    /// Forgets what was seen before a moment, the oldest first and at most `limit` of it. Answers how many.
    pub(super) fn forget_seen(&mut self, before: Timestamp, limit: usize) -> u64 {
        let mut old: Vec<_> = self
            .seen
            .iter()
            .filter(|(_, at)| **at < before)
            .map(|(key, at)| (*at, key.clone()))
            .collect();
        old.sort_unstable();
        old.truncate(limit);
        for (_, key) in &old {
            self.seen.remove(key);
        }
        old.len() as u64
    }

    /// Carries out what a transaction decided about rows that it has locked.
    pub(super) fn settle_locked(
        &mut self,
        outcomes: &[(EventId, Outcome)],
        keep: bool,
        now: Timestamp,
    ) {
        for (id, outcome) in outcomes {
            if self.locked.contains(id) {
                self.end_hold(*id, outcome, keep, now);
            }
        }
    }

    fn end_hold(&mut self, id: EventId, outcome: &Outcome, keep: bool, now: Timestamp) {
        let settled = self.change(id, |entry| {
            entry.settle(outcome, now);
            entry.row.event.ordering_key().map(str::to_owned)
        });
        self.ended(id, outcome, keep);
        if let Some(key) = settled.flatten() {
            self.row_ended(id, &key, outcome, now);
        }
    }

    /// The same of a row that is in line, whose key is held.
    pub(super) fn end_in_line(
        &mut self,
        id: EventId,
        outcome: &Outcome,
        keep: bool,
        now: Timestamp,
    ) {
        self.change(id, |entry| entry.settle_in_line(outcome, now));
        self.ended(id, outcome, keep);
    }

    fn ended(&mut self, id: EventId, outcome: &Outcome, keep: bool) {
        let event_type = self.rows.get(&id).map(|entry| entry.row.event.event_type().to_owned());
        if let (Some(event_type), Some(status)) = (event_type, outcome.end()) {
            *self.ended.entry((event_type, status)).or_default() += 1;
        }
        if !keep && *outcome == Outcome::Done {
            self.rows.remove(&id);
        }
    }

    pub(super) fn extend(&mut self, holds: &[Held], hold: Duration, now: Timestamp) -> Extended {
        let mut extended = Extended::default();
        for held in holds {
            if self.is_busy(held) {
                extended.busy.push(held.id);
            } else if self.is_held(held) {
                let token = self.change(held.id, |entry| entry.hold(now, hold));
                extended.held.extend(token.map(|token| Held::row(held.id, token)));
            }
        }
        extended
    }

    pub(super) fn get(&self, id: EventId) -> Option<&Entry> {
        self.rows.get(&id)
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.rows.values()
    }

    /// Deletes a row that is terminal.
    pub(super) fn forget(&mut self, id: EventId) {
        self.rows.remove(&id);
    }

    pub(super) fn spoil(&mut self, id: EventId) -> bool {
        self.change(id, |entry| entry.spoiled = true).is_some()
    }

    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for entry in self.rows.values() {
            *counts.of(entry.row.status) += 1;
        }
        counts
    }

    pub(super) fn topics(&self, now: Timestamp) -> Vec<TopicCounts> {
        let mut topics: BTreeMap<String, TopicCounts> = BTreeMap::new();
        for id in self.pending.values() {
            let Some(Entry { row, .. }) = self.rows.get(id) else { continue };
            let topic = topics.entry(row.event.event_type().to_owned()).or_default();
            *topic.counts.of(row.status) += 1;
            topic.held += u64::from(row.locked_by.is_some() && row.due_at > now);
        }
        for ((event_type, status), count) in &self.ended {
            *topics.entry(event_type.clone()).or_default().counts.of(*status) += count;
        }
        let named = |(event_type, counts)| TopicCounts { event_type, ..counts };
        topics.into_iter().map(named).collect()
    }

    pub(super) fn peek(&self, limit: usize) -> Vec<Row> {
        let entries = self.pending.values().filter_map(|id| self.rows.get(id));
        entries.filter(|entry| !entry.spoiled).take(limit).map(|entry| entry.row.clone()).collect()
    }

    pub(super) fn lateness(&self, now: Timestamp) -> Lateness {
        let first = self.pending.values().take(Lateness::ROWS as usize);
        let first: Vec<&Row> = first.filter_map(|id| Some(&self.rows.get(id)?.row)).collect();
        let due = |row: &&Row| row.delayed_until.unwrap_or(row.created_at);
        let oldest = first.iter().map(due).min();
        Lateness::seen(first.len() as u64, oldest, first.first().map(|row| row.due_at), now)
    }

    /// When the first pending row is due, or now if that is earlier.
    pub(super) fn first_due(&self, now: Timestamp) -> Timestamp {
        self.pending.first_key_value().map_or(now, |(&(due_at, _), _)| due_at.min(now))
    }

    pub(super) fn purge(&mut self, purge: &Purge, now: Timestamp) -> Purged {
        let (over, purged) = self.over(purge, now);
        for id in over {
            self.rows.remove(&id);
        }
        purged
    }

    /// The rows that a purge would delete, and how many of each kind.
    pub(super) fn over(&self, purge: &Purge, now: Timestamp) -> (Vec<EventId>, Purged) {
        let before = purge.cutoff.at(now);
        let goes = |status| status == Status::Done || purge.dead && status == Status::Dead;
        let mut old: Vec<(Timestamp, u64, &Row)> = self
            .rows
            .values()
            .filter(|entry| goes(entry.row.status))
            .filter(|Entry { row, .. }| !self.parks(row.event.id(), row.event.ordering_key()))
            .filter_map(|entry| Some((entry.row.done_at?, entry.seq, &entry.row)))
            .filter(|&(done_at, _, _)| done_at < before)
            .collect();
        old.sort_unstable_by_key(|&(done_at, seq, _)| (done_at, seq));
        old.truncate(purge.limit);
        let mut purged = Purged::default();
        for (_, _, row) in &old {
            match row.status {
                Status::Dead => purged.dead += 1,
                _ => purged.done += 1,
            }
        }
        (old.into_iter().map(|(_, _, row)| row.event.id()).collect(), purged)
    }

    /// Every row, in the order of commits.
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut entries: Vec<&Entry> = self.rows.values().collect();
        entries.sort_unstable_by_key(|entry| entry.commit);
        entries.into_iter().map(|entry| entry.row.clone()).collect()
    }
}

/// A row from the future is not young: the clock has stepped back, and it may be old enough.
fn is_young(created_at: Timestamp, skip_recent: Duration, now: Timestamp) -> bool {
    created_at <= now && now.since(created_at) < skip_recent
}

/// Lets rows through as long as they fit into `bytes` together, and the first one always.
fn within<'a>(sum: &mut Option<usize>, entry: &'a Entry, bytes: usize) -> Option<&'a Entry> {
    let before = sum.unwrap_or(0);
    let with = before.saturating_add(weight(&entry.row.event));
    let fits = sum.is_none() || with <= bytes;
    *sum = Some(with);
    fits.then_some(entry)
}

fn take(entry: &mut Entry, claim: &Claim<'_>, now: Timestamp) -> Claimed {
    let lost = entry.is_lost_to(claim.owner);
    let was_due = entry.row.due_at;
    if lost {
        // Counted now: if this run kills its process too, nobody is left to count it.
        entry.row.attempts = entry.row.attempts.saturating_add(1);
        entry.row.losses = entry.row.losses.saturating_add(1);
    }
    entry.row.locked_by = Some(claim.owner.to_owned());
    let token = entry.hold(now, claim.hold);
    Claimed { was_due, ..entry.claimed(Holding::Row(token), lost, now) }
}
