//! Settlements on their way into the database, and what follows each answer. Nothing is sent here:
//! the outbox's writer and the relay's batches do that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{EventId, limits, report};
use tokio::time::Instant;
use tracing::warn;

use super::fit::{Fit, halves};
use super::item::{FIRST_PAUSE, Fate, Over, Unit};
use super::refusal::{AfterRefusal, Refusals};
use crate::store::{Settled, SettledRuns, StoreError};

/// How long what is carried waits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Waits {
    /// The longest pause of a row that is busy, or in trouble of its own: well below any hold.
    pub(crate) row: Duration,
    /// The longest pause while the database is unavailable.
    pub(crate) database: Duration,
}

/// What is to be sent again, each in its own time. One row, or one batch, in trouble never delays
/// what has nothing to do with it; only a database that is unavailable does.
#[derive(Debug)]
pub(crate) struct Carry<U: Unit> {
    waits: Waits,
    refusals: Refusals,
    fit: Fit,
    /// By when they are to be sent, and in the order in which they came.
    groups: BTreeMap<(Instant, u64), Group<U>>,
    last: u64,
    rows: usize,
    /// Rows whose statement had no answer although they were alone in it, since the last answer.
    silent: BTreeSet<U::Id>,
    /// Until when nothing is tried, and how long that was, while the database is unavailable.
    unavailable: Option<(Instant, Duration)>,
}

#[derive(Debug)]
struct Group<U> {
    items: Vec<U>,
    /// Whether they may go out with others: what is only busy is no danger to them.
    joins: bool,
}

/// What the database said of a statement. What is in neither list was fenced.
#[derive(Debug, Clone)]
pub(crate) struct Decided<Id> {
    /// Carried out.
    pub(crate) applied: Vec<Id>,
    /// Locked by somebody else.
    pub(crate) busy: Vec<Id>,
}

impl From<Settled> for Decided<EventId> {
    fn from(Settled { applied, busy }: Settled) -> Self {
        Self { applied, busy }
    }
}

impl From<SettledRuns> for Decided<Arc<str>> {
    fn from(SettledRuns { applied, busy }: SettledRuns) -> Self {
        Self { applied, busy }
    }
}

/// What may be carried before nothing new is taken.
const CARRIED: usize = 10 * limits::BATCH_ROWS;
/// The longest pause of a row whose statement had no answer: everybody else waits for it meanwhile.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);
/// So many rows without an answer, each by itself and one after the other, are no trouble of theirs.
const SILENT: usize = 3;

impl<U: Unit> Carry<U> {
    pub(crate) fn new(waits: Waits, refusals: Refusals) -> Self {
        Self {
            waits,
            refusals,
            fit: Fit::default(),
            groups: BTreeMap::new(),
            last: 0,
            rows: 0,
            silent: BTreeSet::new(),
            unavailable: None,
        }
    }

    /// How many of these go into one statement: the first always does.
    fn fitting(&self, items: &[U]) -> usize {
        let mut room = self.fit();
        let fits = |item: &&U| {
            let fits = item.rows() <= room;
            room = room.saturating_sub(item.rows());
            fits
        };
        items.iter().take_while(fits).count().max(1).min(items.len())
    }

    /// How many rows a statement should have now.
    pub(crate) fn fit(&self) -> usize {
        self.fit.rows()
    }

    /// Whether something new should be begun: not while the database is unavailable, nor when too
    /// much waits already.
    pub(crate) fn takes_more(&self) -> bool {
        self.unavailable.is_none() && self.rows < CARRIED
    }

    /// When something is to be sent.
    pub(crate) fn next_at(&self) -> Option<Instant> {
        let (at, _) = self.groups.first_key_value()?.0;
        Some(self.unavailable.map_or(*at, |(until, _)| until))
    }

    /// Takes something on that was not sent yet, in parts that fit.
    pub(crate) fn add(&mut self, mut items: Vec<U>, now: Instant) {
        while !items.is_empty() {
            let rest = items.split_off(self.fitting(&items));
            self.put(std::mem::replace(&mut items, rest), now, true);
        }
    }

    /// What is to go out in one statement; the caller brings it back with its
    /// [answer](Self::answered).
    pub(crate) fn due(&mut self, now: Instant) -> Vec<U> {
        if self.next_at().is_none_or(|at| at > now) {
            return Vec::new();
        }
        let Some((_, Group { mut items, joins })) = self.groups.pop_first() else {
            return Vec::new();
        };
        self.rows -= rows_of(&items);
        if rows_of(&items) > self.fit() && items.len() > 1 {
            let rest = items.split_off(self.fitting(&items));
            self.put(rest, now, joins);
        } else if joins {
            let room = self.fit().saturating_sub(rows_of(&items));
            items.extend(self.joining(now, room));
        }
        items
    }

    /// What is due and may go out with others, at most `room` of it.
    pub(crate) fn joining(&mut self, now: Instant, room: usize) -> Vec<U> {
        let (mut keys, mut left) = (Vec::new(), room);
        for (key, group) in self.groups.range(..=(now, u64::MAX)) {
            let rows = rows_of(&group.items);
            if group.joins && rows <= left {
                left -= rows;
                keys.push(*key);
            }
        }
        let mut items = Vec::new();
        for key in keys {
            items.extend(self.groups.remove(&key).into_iter().flat_map(|group| group.items));
        }
        self.rows -= rows_of(&items);
        items
    }

    /// Takes something back that was not sent, because nothing may be sent about it now.
    pub(crate) fn put_back(&mut self, items: Vec<U>, now: Instant) {
        self.put(items, now + self.waits.row, true);
    }

    /// A lock is gone: whatever is only busy may go out at once.
    pub(crate) fn hurry(&mut self, now: Instant) {
        let groups = std::mem::take(&mut self.groups);
        self.rows = 0;
        for ((at, _), Group { items, joins }) in groups {
            self.put(items, if joins { at.min(now) } else { at }, joins);
        }
    }

    /// What waits here.
    pub(crate) fn items(&self) -> impl Iterator<Item = &U> {
        self.groups.values().flat_map(|group| &group.items)
    }

    /// The events that wait here.
    pub(crate) fn ids(&self) -> BTreeSet<U::Id> {
        self.items().map(Unit::id).collect()
    }

    /// The events here whose last try may have been carried out, or may still be: it must not find
    /// another token.
    pub(crate) fn in_doubt(&self) -> BTreeSet<U::Id> {
        self.items().filter(|item| item.is_in_doubt()).map(Unit::id).collect()
    }

    /// What follows the answer to a statement: what is over, while the rest is carried on.
    pub(crate) fn answered(
        &mut self,
        batch: Vec<U>,
        answer: Result<Decided<U::Id>, &StoreError>,
        now: Instant,
    ) -> Vec<Over<U>> {
        match answer {
            Ok(settled) => self.settled(batch, settled, now),
            Err(StoreError::Closed) => over(batch, Fate::Closed).collect(),
            Err(StoreError::Refused(error)) => {
                self.heard();
                let reason = report(&**error);
                self.refused(batch, &reason, now)
            }
            Err(StoreError::Busy(error)) => {
                self.heard();
                let reason = report(&**error);
                warn!(rows = batch.len(), reason, "settlement finds something locked");
                self.locked_out(batch, now);
                Vec::new()
            }
            Err(StoreError::Timeout) => {
                self.silence(batch, now);
                Vec::new()
            }
            Err(error) => {
                let rows = batch.len();
                warn!(error = report(error), rows, "settlement failed, trying again");
                self.put(doubted(batch), now, false);
                self.set_unavailable(now);
                Vec::new()
            }
        }
    }

    fn settled(&mut self, batch: Vec<U>, settled: Decided<U::Id>, now: Instant) -> Vec<Over<U>> {
        self.fit.answered(rows_of(&batch));
        self.heard();
        let applied: BTreeSet<U::Id> = settled.applied.into_iter().collect();
        let busy: BTreeSet<U::Id> = settled.busy.into_iter().collect();
        let mut ended = Vec::with_capacity(batch.len());
        for mut item in batch {
            if busy.contains(&item.id()) {
                let at = now + item.trouble().wait_for_lock(self.waits.row);
                self.put(vec![item], at, true);
                continue;
            }
            let fate = match (applied.contains(&item.id()), item.is_in_doubt()) {
                (true, _) => Fate::Applied,
                (false, false) => Fate::Fenced,
                // After a lost reply our own first try may have been carried out.
                (false, true) => Fate::InDoubt,
            };
            ended.push(Over { item, fate });
        }
        ended
    }

    fn refused(&mut self, batch: Vec<U>, reason: &str, now: Instant) -> Vec<Over<U>> {
        if batch.len() > 1 {
            for half in halves(batch) {
                self.put(half, now, false);
            }
            return Vec::new();
        }
        let mut abandoned = Vec::new();
        for mut item in batch {
            let number = item.trouble().refused(&self.refusals, now);
            let id = item.event().map(tracing::field::display);
            warn!(event.id = id, refusals = number, reason, "settlement refused");
            match item.after_refusal(&self.refusals, number, reason) {
                AfterRefusal::Instead(outcome) => {
                    item.becomes(outcome);
                    self.put(vec![item], now, false);
                }
                AfterRefusal::Again => {
                    let at = now + item.trouble().wait(self.refusals.longest_pause());
                    self.put(vec![item], at, false);
                }
                AfterRefusal::Abandon => abandoned.push(item),
            }
        }
        over(abandoned, Fate::Refused).collect()
    }

    /// A statement could not be carried out for what somebody has locked: the whole table, perhaps,
    /// and then soon again. If it lasts, one row of it, which shows when it is alone.
    fn locked_out(&mut self, mut batch: Vec<U>, now: Instant) {
        let longest = self.waits.row;
        let pauses = batch.iter_mut().map(|item| item.trouble().wait(longest));
        let pause = pauses.max().unwrap_or_default();
        let parts = if pause >= longest { halves(batch) } else { [batch, Vec::new()] };
        for part in parts {
            self.put(part, now + pause, false);
        }
    }

    /// No answer came in time.
    fn silence(&mut self, batch: Vec<U>, now: Instant) {
        self.fit.too_long(rows_of(&batch));
        if let [alone] = &batch[..] {
            let id = alone.event().map(tracing::field::display);
            warn!(event.id = id, "settlement not answered in time, trying again");
            self.silent.insert(alone.id());
            if self.silent.len() >= SILENT {
                self.set_unavailable(now);
            }
        } else {
            warn!(rows = batch.len(), "settlement not answered in time, trying halves of it");
        }
        for mut half in halves(doubted(batch)) {
            let pause = half.iter_mut().map(|item| item.trouble().wait(LONGEST_SILENCE)).max();
            self.put(half, now + pause.unwrap_or_default(), false);
        }
    }

    /// The database is there.
    fn heard(&mut self) {
        self.silent.clear();
        self.unavailable = None;
    }

    fn set_unavailable(&mut self, now: Instant) {
        let pause = self.unavailable.map_or(FIRST_PAUSE, |(_, last)| last * 2);
        let pause = pause.min(self.waits.database);
        self.unavailable = Some((now + pause, pause));
    }

    fn put(&mut self, items: Vec<U>, at: Instant, joins: bool) {
        if !items.is_empty() {
            self.rows += rows_of(&items);
            self.last += 1;
            self.groups.insert((at, self.last), Group { items, joins });
        }
    }
}

fn rows_of<U: Unit>(items: &[U]) -> usize {
    items.iter().map(Unit::rows).sum()
}

fn doubted<U: Unit>(mut batch: Vec<U>) -> Vec<U> {
    batch.iter_mut().for_each(|item| item.trouble().in_doubt = true);
    batch
}

fn over<U>(items: Vec<U>, fate: Fate) -> impl Iterator<Item = Over<U>> {
    items.into_iter().map(move |item| Over { item, fate })
}

#[cfg(test)]
mod tests {
    use sendoff_core::order::AfterDead;
    use sendoff_core::{Attempt, Timestamp, Token};

    use super::super::item::Item;
    use super::*;
    use crate::store::{Held, Outcome};

    const MILLI: Duration = Duration::from_millis(1);

    fn carry() -> Carry<Item<()>> {
        let waits = Waits { row: 200 * MILLI, database: 1_000 * MILLI };
        let (patience, after_dead) = (Duration::ZERO, AfterDead::Park);
        Carry::new(waits, Refusals { patience, delay: MILLI, max_attempts: 3, after_dead })
    }

    fn items(count: u8) -> Vec<Item<()>> {
        let item = |number| {
            let token = Token::new(Timestamp::from_micros(1));
            let held = Held::row(EventId::from_bytes([number; 16]), token);
            Item::new(held, Outcome::Done, Some(Attempt::next(0)), ())
        };
        (0..count).map(item).collect()
    }

    fn all(batch: &[Item<()>]) -> Decided<EventId> {
        Decided { applied: batch.iter().map(Item::id).collect(), busy: Vec::new() }
    }

    #[test]
    fn a_busy_row_waits_twice_as_long_each_time_and_goes_out_with_others() {
        let (mut carry, mut now) = (carry(), Instant::now());
        let busy = items(1)[0].id();
        let mut batch = items(3);
        for pause in [2, 4, 8, 16, 32, 64, 128, 200, 200] {
            let settled = Decided { busy: vec![busy], ..all(&batch[1..]) };
            let over = carry.answered(batch, Ok(settled), now);
            assert!(over.iter().all(|over| over.fate == Fate::Applied));
            assert!(carry.takes_more() && carry.in_doubt().is_empty());
            assert_eq!(carry.next_at(), Some(now + pause * MILLI));
            assert!(carry.joining(now, 10).is_empty(), "not before its time");
            now += pause * MILLI;
            batch = carry.joining(now, 10);
            assert_eq!(batch.len(), 1);
        }
        let settled = all(&batch);
        assert_eq!(carry.answered(batch, Ok(settled), now).len(), 1);
        assert_eq!(carry.next_at(), None);
    }

    #[test]
    fn only_several_rows_without_an_answer_each_by_itself_mean_that_nobody_is_there() {
        let (mut carry, now) = (carry(), Instant::now());
        carry.answered(items(8), Err(&StoreError::Timeout), now);
        assert!(carry.takes_more() && carry.fit() == 4 && carry.in_doubt().len() == 8);
        for _ in 0..9 {
            carry.answered(items(1), Err(&StoreError::Timeout), now);
            assert!(carry.takes_more(), "one row, however often");
        }
        for item in items(3).into_iter().skip(1) {
            carry.answered(vec![item], Err(&StoreError::Timeout), now);
        }
        assert!(!carry.takes_more());
        assert_eq!(carry.next_at(), Some(now + 50 * MILLI));
        let batch = carry.due(now + 50 * MILLI);
        let settled = all(&batch);
        carry.answered(batch, Ok(settled), now);
        assert!(carry.takes_more(), "the database is there");
    }

    #[test]
    fn an_unavailable_database_is_asked_more_and_more_seldom() {
        let (mut carry, mut now) = (carry(), Instant::now());
        let mut batch = items(2);
        for pause in [50, 100, 200, 400, 800, 1_000, 1_000] {
            carry.answered(batch, Err(&StoreError::Unavailable("down".into())), now);
            assert!(!carry.takes_more());
            now += pause * MILLI;
            assert!(carry.due(now - MILLI).is_empty());
            batch = carry.due(now);
            assert_eq!(batch.len(), 2);
        }
        let over = carry.answered(batch, Ok(Settled::default().into()), now);
        assert!(over.iter().all(|over| over.fate == Fate::InDoubt), "our own first try, perhaps");
    }

    #[test]
    fn a_statement_that_finds_something_locked_is_tried_whole_before_it_is_taken_apart() {
        let (mut carry, mut now) = (carry(), Instant::now());
        let mut batch = items(4);
        for (pause, rows) in [(50, 4), (100, 4), (200, 2)] {
            carry.answered(batch, Err(&StoreError::Busy("locked".into())), now);
            assert!(carry.takes_more() && carry.in_doubt().is_empty());
            now += pause * MILLI;
            batch = carry.due(now);
            assert_eq!(batch.len(), rows);
        }
    }
}
