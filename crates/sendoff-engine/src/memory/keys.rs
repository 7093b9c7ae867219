//! Order within a key, in memory: the entries of keys, and the statements about them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::order::{
    self, AfterDead, Ending, HOT_CHAIN, Head, IN_LINE, KeyEntry, KeyToken, Look, SHELVED,
    TakeTerms, is_in_line,
};
use sendoff_core::{EventId, Holding, Timestamp};

use super::entry::Entry;
use super::store::MemoryStore;
use super::table::Table;
use crate::store::{
    Confirmed, EventKind, ExtendKeys, ExtendedKeys, Held, HeldKey, KeyRun, KeyStore, Outcome,
    RunEnd, RunsWanted, SettledRuns, StoreError, Suspects, TakeKeys, TakenKey, TakenKeys, WalkFrom,
    Walked, Window,
};
use crate::weight::weight;

const MICROSECOND: Duration = Duration::from_micros(1);

/// The entry of a key that somebody holds, that waits, or that is parked.
#[derive(Debug)]
pub(super) struct KeyRow {
    /// When to look at it; while it is held, until when.
    pub(super) due_at: Timestamp,
    pub(super) since: Timestamp,
    taken_at: Option<Timestamp>,
    pub(super) locked_by: Option<String>,
    pub(super) parked_by: Option<EventId>,
    run: u32,
    careful: u32,
    losses: u32,
    shelved: bool,
}

impl KeyRow {
    fn new(now: Timestamp) -> Self {
        Self {
            due_at: now,
            since: now,
            taken_at: None,
            locked_by: None,
            parked_by: None,
            run: 0,
            careful: 0,
            losses: 0,
            shelved: false,
        }
    }

    fn entry(&self, owner: &str) -> KeyEntry {
        let KeyRow { since, run, careful, losses, .. } = *self;
        let lost = self.locked_by.as_deref().is_some_and(|holder| holder != owner);
        KeyEntry { since, run, careful, losses, lost }
    }

    fn hold(&mut self, owner: &str, now: Timestamp, hold: Duration) -> KeyToken {
        // A server's clock has moved on between two statements; a test's may stand still.
        let taken_at = match self.taken_at {
            Some(last) if last >= now => last.saturating_add(MICROSECOND),
            _ => now,
        };
        (self.taken_at, self.since) = (Some(taken_at), now);
        self.locked_by = Some(owner.to_owned());
        self.due_at = now.saturating_add(hold);
        KeyToken::new(taken_at)
    }

    fn is_held_by(&self, owner: &str, token: KeyToken) -> bool {
        self.taken_at == Some(token.taken_at()) && self.locked_by.as_deref() == Some(owner)
    }

    fn free(&mut self, due_at: Timestamp, now: Timestamp) {
        (self.due_at, self.since, self.locked_by) = (due_at, now, None);
    }
}

#[async_trait]
impl KeyStore for MemoryStore {
    fn keeps_order(&self) -> bool {
        true
    }

    async fn take_keys(&self, take: &TakeKeys<'_>) -> Result<TakenKeys, StoreError> {
        Ok(self.with(|table, now| table.take_keys(take, now))?)
    }

    async fn runs(&self, wanted: &RunsWanted<'_>) -> Result<Vec<KeyRun>, StoreError> {
        Ok(self.with(|table, now| table.runs(wanted, now))?)
    }

    async fn settle_runs(&self, owner: &str, ends: &[RunEnd]) -> Result<SettledRuns, StoreError> {
        let keep = self.keep().is_some();
        Ok(self.with(|table, now| table.settle_runs(owner, ends, keep, now))?)
    }

    async fn extend_keys(&self, extend: &ExtendKeys<'_>) -> Result<ExtendedKeys, StoreError> {
        Ok(self.with(|table, now| table.extend_keys(extend, now))?)
    }

    async fn confirm_keys(&self, holds: &[Held]) -> Result<Vec<Confirmed>, StoreError> {
        Ok(self.with(|table, _| table.confirm_keys(holds))?)
    }

    async fn shelve(&self, window: Window, age: Duration) -> Result<u64, StoreError> {
        Ok(self.with(|table, now| table.shelve(window, age, now))?)
    }
}

impl Table {
    fn take_keys(&mut self, take: &TakeKeys<'_>, now: Timestamp) -> TakenKeys {
        let mut due: Vec<(Timestamp, Arc<str>)> = self
            .keys
            .iter()
            .filter(|(_, row)| row.parked_by.is_none() && row.due_at <= now)
            .filter(|(_, row)| {
                row.entry(take.owner).is_suspect() == (take.suspects == Suspects::Only)
            })
            .map(|(key, row)| (row.due_at, key.clone()))
            .collect();
        due.sort_unstable();
        due.truncate(take.limit);
        let mut taken = TakenKeys::default();
        let full = due.len() == take.limit;
        let terms = TakeTerms { run: take.run, suspects: take.suspects == Suspects::Only, full };
        for (_, key) in due {
            self.look_at(&key, take, terms, now, &mut taken);
        }
        let room = take.limit.saturating_sub(taken.keys.len());
        if let Some(walk) = take.walk.filter(|_| room > 0 && take.suspects == Suspects::Skip) {
            taken.walked = Some(self.walk(walk, room, take, now, &mut taken.keys));
        }
        taken
    }

    fn look_at(
        &mut self,
        key: &Arc<str>,
        take: &TakeKeys<'_>,
        terms: TakeTerms,
        now: Timestamp,
        taken: &mut TakenKeys,
    ) {
        let (first, head) = match self.first_live(key) {
            None => (None, Head::None),
            Some(row) => (Some(row.row.event.id()), head_of(row, take)),
        };
        let Some(row) = self.keys.get_mut(key) else { return };
        match order::look(&row.entry(take.owner), head, now, terms) {
            Look::Take { run, careful, losses, blame } => {
                (row.run, row.careful, row.losses) = (run, careful, losses);
                let token = row.hold(take.owner, now, take.hold);
                if let Some(first) = first.filter(|_| blame) {
                    self.change(first, |entry| {
                        entry.row.attempts = entry.row.attempts.saturating_add(1);
                        entry.row.losses = entry.row.losses.saturating_add(1);
                    });
                }
                taken.keys.push(TakenKey { key: key.clone(), token, run, lost: blame });
            }
            Look::Later { at, careful } => {
                (row.due_at, row.careful, row.run) = (at, careful, 0);
                row.locked_by = None;
                let after = at.since(now);
                taken.next = Some(taken.next.map_or(after, |next| next.min(after)));
                taken.put_off += 1;
            }
            Look::Left { last } => {
                if last {
                    row.due_at = now;
                }
                taken.put_off += 1;
            }
            Look::Gone => {
                self.keys.remove(key);
            }
        }
    }

    fn walk(
        &mut self,
        walk: WalkFrom,
        room: usize,
        take: &TakeKeys<'_>,
        now: Timestamp,
        keys: &mut Vec<TakenKey>,
    ) -> Walked {
        let from = u64::try_from(walk.after).unwrap_or(0).saturating_add(1);
        let mut walked = Walked { end: true, ..Walked::default() };
        let (mut seen, mut fresh) = (BTreeSet::new(), Vec::new());
        for ((_, seq), id) in self.pending.range((IN_LINE, from)..=(IN_LINE, u64::MAX)) {
            if walked.rows == walk.rows || fresh.len() == room {
                walked.end = false;
                break;
            }
            (walked.last, walked.rows) = (i64::try_from(*seq).ok(), walked.rows + 1);
            let Some(entry) = self.rows.get(id) else { continue };
            let Some(key) = entry.row.event.ordering_key() else { continue };
            if self.keys.contains_key(key) {
                walked.listed += 1;
            } else if seen.insert(key) && !take.except.has(EventKind::of(&entry.row.event)) {
                fresh.push(Arc::<str>::from(key));
            }
        }
        for key in fresh {
            let mut row = KeyRow { run: take.run, ..KeyRow::new(now) };
            let token = row.hold(take.owner, now, take.hold);
            self.keys.insert(key.clone(), row);
            keys.push(TakenKey { key, token, run: take.run, lost: false });
        }
        walked
    }

    pub(super) fn live(&self, key: &str) -> impl Iterator<Item = &Entry> {
        let seqs = self.live.get(key);
        seqs.into_iter().flat_map(|seqs| seqs.values()).filter_map(|id| self.rows.get(id))
    }

    fn first_live(&self, key: &str) -> Option<&Entry> {
        self.live(key).next()
    }

    fn runs(&self, wanted: &RunsWanted<'_>, now: Timestamp) -> Vec<KeyRun> {
        let mut bytes = None;
        let mut fits = |entry: &Entry| {
            let sum = bytes.unwrap_or(0_usize).saturating_add(weight(&entry.row.event));
            let fits = bytes.is_none() || sum <= wanted.bytes;
            bytes = Some(sum);
            fits
        };
        let run = |taken: &TakenKey| {
            let mut rows = Vec::new();
            // One that is dead since the key was taken may park it.
            let is_parked = self.is_parked(&taken.key);
            let mut whole = !is_parked;
            for entry in self.live(&taken.key).take_while(|_| !is_parked) {
                if rows.len() >= taken.run as usize || !is_in_line(entry.row.due_at) || !fits(entry)
                {
                    whole = false;
                    break;
                }
                let lost = taken.lost && rows.is_empty();
                rows.push(entry.claimed(Holding::Key(taken.token), lost, now));
            }
            KeyRun { key: taken.key.clone(), rows, whole }
        };
        wanted.keys.iter().map(run).collect()
    }

    fn settle_runs(
        &mut self,
        owner: &str,
        ends: &[RunEnd],
        keep: bool,
        now: Timestamp,
    ) -> SettledRuns {
        let mut settled = SettledRuns::default();
        for end in ends {
            let key = &end.held.key;
            let held = self.keys.get(key).is_some_and(|row| row.is_held_by(owner, end.held.token));
            if !held {
                continue;
            }
            if end.rows.iter().any(|(id, _)| self.is_locked(*id)) {
                settled.busy.push(key.clone());
                continue;
            }
            let mut parked_by = None;
            for (id, outcome) in &end.rows {
                if self.get(*id).is_some_and(Entry::is_in_line) {
                    self.end_in_line(*id, outcome, keep, now);
                    if matches!(outcome, Outcome::Dead { then: AfterDead::Park, .. }) {
                        parked_by = Some(*id);
                    }
                }
            }
            if let Some(row) = self.keys.get_mut(key).filter(|_| !end.rows.is_empty()) {
                row.losses = 0;
            }
            self.end_key(key, end.ending, parked_by, now);
            settled.applied.push(key.clone());
        }
        settled
    }

    fn end_key(
        &mut self,
        key: &Arc<str>,
        ending: Ending,
        parked_by: Option<EventId>,
        now: Timestamp,
    ) {
        let Some(row) = self.keys.get_mut(key) else { return };
        row.parked_by = parked_by.or(row.parked_by);
        match ending {
            Ending::HeldOn => {}
            Ending::After(delay) => row.free(now.saturating_add(delay), now),
            Ending::Exhausted if !row.shelved && row.parked_by.is_none() => {
                self.keys.remove(key);
            }
            Ending::Free | Ending::Exhausted => row.free(now, now),
        }
    }

    fn extend_keys(&mut self, extend: &ExtendKeys<'_>, now: Timestamp) -> ExtendedKeys {
        let ExtendKeys { owner, keys, hold } = *extend;
        let mut extended = ExtendedKeys::default();
        for HeldKey { key, token } in keys {
            if let Some(row) = self.keys.get_mut(key).filter(|row| row.is_held_by(owner, *token)) {
                row.due_at = now.saturating_add(hold);
                extended.held.push(key.clone());
            }
        }
        extended
    }

    fn confirm_keys(&self, holds: &[Held]) -> Vec<Confirmed> {
        let confirmed = |held: &Held| {
            let entry = self.get(held.id).filter(|_| self.is_held(held))?;
            let key = entry.row.event.ordering_key();
            let live = key.and_then(|key| self.live.get(key)).into_iter();
            let below = live.flat_map(|seqs| seqs.range(..entry.seq).map(|(_, id)| *id));
            Some(Confirmed {
                id: held.id,
                seq: i64::try_from(entry.seq).unwrap_or(i64::MAX),
                below: below.take(HOT_CHAIN + 1).collect(),
                parked: key.is_some_and(|key| self.is_parked(key)),
            })
        };
        let mut confirmed: Vec<Confirmed> = holds.iter().filter_map(confirmed).collect();
        confirmed.sort_unstable_by_key(|confirmed| confirmed.seq);
        confirmed
    }

    pub(super) fn token_of_key(&self, owner: &str, key: &str) -> Option<KeyToken> {
        let row = self.keys.get(key).filter(|row| row.locked_by.as_deref() == Some(owner))?;
        row.taken_at.map(KeyToken::new)
    }

    pub(super) fn is_parked(&self, key: &str) -> bool {
        self.keys.get(key).is_some_and(|row| row.parked_by.is_some())
    }

    /// Whether a key waits for what becomes of this dead event.
    pub(super) fn parks(&self, id: EventId, key: Option<&str>) -> bool {
        let row = key.and_then(|key| self.keys.get(key));
        row.is_some_and(|row| row.parked_by == Some(id))
    }

    fn shelve(&mut self, window: Window, age: Duration, now: Timestamp) -> u64 {
        let seq = |number: i64| u64::try_from(number).unwrap_or(0);
        let (after, last) = (seq(window.after).saturating_add(1), seq(window.last));
        let before = now.saturating_sub(age);
        let ids: Vec<EventId> = self
            .pending
            .range((IN_LINE, after)..=(IN_LINE, last.max(after)))
            .filter(|((_, number), id)| *number <= last && !self.is_locked(**id))
            .filter_map(|(_, id)| self.rows.get(id))
            .filter(|entry| entry.row.created_at < before)
            .filter(|entry| {
                let row = entry.row.event.ordering_key().and_then(|key| self.keys.get(key));
                row.is_some_and(|row| row.parked_by.is_some() || row.since < before)
            })
            .map(|entry| entry.row.event.id())
            .collect();
        for id in &ids {
            let key = self.change(*id, |entry| {
                entry.row.due_at = SHELVED;
                entry.row.event.ordering_key().map(str::to_owned)
            });
            if let Some(row) = key.flatten().and_then(|key| self.keys.get_mut(&*key)) {
                row.shelved = true;
            }
        }
        ids.len() as u64
    }

    /// A row that was held by itself ended: its key's entry is looked at now, if it waits, or parked.
    pub(super) fn row_ended(&mut self, id: EventId, key: &str, outcome: &Outcome, now: Timestamp) {
        if matches!(outcome, Outcome::Dead { then: AfterDead::Park, .. }) {
            let row = self.keys.entry(key.into()).or_insert_with(|| KeyRow::new(now));
            row.parked_by = Some(id);
        } else if let Some(row) = self.keys.get_mut(key).filter(|row| row.locked_by.is_none()) {
            row.due_at = now;
        }
    }

    /// A key goes on that this dead event parks.
    pub(super) fn unpark(&mut self, id: EventId, key: Option<&str>, now: Timestamp) {
        let row = key.and_then(|key| self.keys.get_mut(key));
        if let Some(row) = row.filter(|row| row.parked_by == Some(id)) {
            row.parked_by = None;
            // Whoever holds it goes on.
            if row.locked_by.is_none() {
                (row.due_at, row.since) = (now, now);
            }
        }
    }

    /// Entries that a clock which has since stepped back left held for too long are due now.
    pub(super) fn rescue_keys(&mut self, longest: Duration, now: Timestamp) {
        for row in self.keys.values_mut() {
            let most = if row.locked_by.is_some() { longest } else { sendoff_core::limits::DELAY };
            if row.due_at > now.saturating_add(most) {
                row.due_at = now;
            }
        }
    }
}

fn head_of(entry: &Entry, take: &TakeKeys<'_>) -> Head {
    let row = &entry.row;
    if is_in_line(row.due_at) {
        match take.except.has(EventKind::of(&row.event)) {
            true => Head::LeftOut,
            false => Head::InLine,
        }
    } else if row.locked_by.is_some() {
        Head::Held(row.due_at)
    } else {
        Head::Due(row.due_at)
    }
}
