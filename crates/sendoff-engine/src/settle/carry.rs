//! Settlements on their way into the database, and what follows each answer. Nothing is sent here:
//! the outbox's writer and the relay's batches do that.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sendoff_core::{Attempt, EventId, limits, report};
use tokio::time::Instant;
use tracing::warn;

use super::fit::{Fit, halves};
use super::refusal::{AfterRefusal, Refusals};
use super::text::storable;
use crate::store::{Held, Outcome, Settled, Settlement, StoreError};

/// One settlement, with what its bearer needs when it is over.
#[derive(Debug)]
pub(crate) struct Item<B> {
    pub(crate) settlement: Settlement,
    pub(crate) bearer: B,
    /// The run that it ends; none where nothing ran.
    attempt: Option<Attempt>,
    /// Whether it was sent before, and nobody knows what became of it.
    in_doubt: bool,
    refusals: u32,
    /// How long it waited the last time.
    pause: Duration,
}

/// A settlement that need not be sent again.
#[derive(Debug)]
pub(crate) struct Over<B> {
    pub(crate) item: Item<B>,
    pub(crate) fate: Fate,
}

/// How a settlement ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Carried out.
    Applied,
    /// Somebody else has the row, or it is terminal.
    Fenced,
    /// It changed nothing, but an earlier try of ours may have.
    InDoubt,
    /// The database refuses all that could be written about it.
    Refused,
    /// The store was closed.
    Closed,
}

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
pub(crate) struct Carry<B> {
    waits: Waits,
    refusals: Refusals,
    fit: Fit,
    /// By when they are to be sent, and in the order in which they came.
    groups: BTreeMap<(Instant, u64), Group<B>>,
    last: u64,
    rows: usize,
    /// Rows whose statement had no answer although they were alone in it, since the last answer.
    silent: BTreeSet<EventId>,
    /// Until when nothing is tried, and how long that was, while the database is unavailable.
    unavailable: Option<(Instant, Duration)>,
}

#[derive(Debug)]
struct Group<B> {
    items: Vec<Item<B>>,
    /// Whether they may go out with others: what is only busy is no danger to them.
    joins: bool,
}

pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// What may be carried before nothing new is taken.
const CARRIED: usize = 10 * limits::BATCH_ROWS;
/// The longest pause of a row whose statement had no answer: everybody else waits for it meanwhile.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);
/// So many rows without an answer, each by itself and one after the other, are no trouble of theirs.
const SILENT: usize = 3;

impl<B> Item<B> {
    pub(crate) fn new(held: Held, outcome: Outcome, attempt: Option<Attempt>, bearer: B) -> Self {
        let settlement = Settlement { held, outcome: outcome.with_text(storable) };
        let (in_doubt, refusals, pause) = (false, 0, Duration::ZERO);
        Self { settlement, bearer, attempt, in_doubt, refusals, pause }
    }

    pub(crate) fn id(&self) -> EventId {
        self.settlement.held.id
    }

    /// The next pause: twice the last one, up to `longest`.
    fn wait(&mut self, longest: Duration) -> Duration {
        self.pause = (self.pause * 2).max(FIRST_PAUSE).min(longest);
        self.pause
    }
}

impl<B> Carry<B> {
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
    pub(crate) fn add(&mut self, mut items: Vec<Item<B>>, now: Instant) {
        while !items.is_empty() {
            let rest = items.split_off(items.len().min(self.fit()));
            self.put(std::mem::replace(&mut items, rest), now, true);
        }
    }

    /// What is to go out in one statement; the caller brings it back with its
    /// [answer](Self::answered).
    pub(crate) fn due(&mut self, now: Instant) -> Vec<Item<B>> {
        if self.next_at().is_none_or(|at| at > now) {
            return Vec::new();
        }
        let Some((_, Group { mut items, joins })) = self.groups.pop_first() else {
            return Vec::new();
        };
        self.rows -= items.len();
        if items.len() > self.fit() {
            let rest = items.split_off(self.fit());
            self.put(rest, now, joins);
        } else if joins {
            let room = self.fit() - items.len();
            items.extend(self.joining(now, room));
        }
        items
    }

    /// What is due and may go out with others, at most `room` of it.
    pub(crate) fn joining(&mut self, now: Instant, room: usize) -> Vec<Item<B>> {
        let (mut keys, mut left) = (Vec::new(), room);
        for (key, group) in self.groups.range(..=(now, u64::MAX)) {
            if group.joins && group.items.len() <= left {
                left -= group.items.len();
                keys.push(*key);
            }
        }
        let mut items = Vec::new();
        for key in keys {
            items.extend(self.groups.remove(&key).into_iter().flat_map(|group| group.items));
        }
        self.rows -= items.len();
        items
    }

    /// The events that wait here.
    pub(crate) fn ids(&self) -> BTreeSet<EventId> {
        self.groups.values().flat_map(|group| &group.items).map(Item::id).collect()
    }

    /// The events here whose last try may have been carried out, or may still be: it must not find
    /// another token.
    pub(crate) fn in_doubt(&self) -> BTreeSet<EventId> {
        let items = self.groups.values().flat_map(|group| &group.items);
        items.filter(|item| item.in_doubt).map(Item::id).collect()
    }

    /// What follows the answer to a statement: what is over, while the rest is carried on.
    pub(crate) fn answered(
        &mut self,
        batch: Vec<Item<B>>,
        answer: Result<Settled, &StoreError>,
        now: Instant,
    ) -> Vec<Over<B>> {
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
                self.apart(batch, self.waits.row, now);
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

    fn settled(&mut self, batch: Vec<Item<B>>, settled: Settled, now: Instant) -> Vec<Over<B>> {
        self.fit.answered(batch.len());
        self.heard();
        let applied: BTreeSet<EventId> = settled.applied.into_iter().collect();
        let busy: BTreeSet<EventId> = settled.busy.into_iter().collect();
        let mut ended = Vec::with_capacity(batch.len());
        for mut item in batch {
            if busy.contains(&item.id()) {
                let at = now + item.wait(self.waits.row);
                self.put(vec![item], at, true);
                continue;
            }
            let fate = match (applied.contains(&item.id()), item.in_doubt) {
                (true, _) => Fate::Applied,
                (false, false) => Fate::Fenced,
                // After a lost reply our own first try may have been carried out.
                (false, true) => Fate::InDoubt,
            };
            ended.push(Over { item, fate });
        }
        ended
    }

    fn refused(&mut self, batch: Vec<Item<B>>, reason: &str, now: Instant) -> Vec<Over<B>> {
        if batch.len() > 1 {
            for half in halves(batch) {
                self.put(half, now, false);
            }
            return Vec::new();
        }
        let mut abandoned = Vec::new();
        for mut item in batch {
            item.refusals += 1;
            let (id, refusals) = (item.id(), item.refusals);
            warn!(event.id = %id, refusals, reason, "settlement refused");
            let Item { attempt, settlement, .. } = &item;
            match self.refusals.after(&settlement.outcome, *attempt, refusals, reason) {
                AfterRefusal::Instead(outcome) => {
                    item.settlement.outcome = outcome;
                    self.put(vec![item], now, false);
                }
                AfterRefusal::Again => {
                    let at = now + item.wait(self.waits.row);
                    self.put(vec![item], at, false);
                }
                AfterRefusal::Abandon => abandoned.push(item),
            }
        }
        over(abandoned, Fate::Refused).collect()
    }

    /// No answer came in time.
    fn silence(&mut self, batch: Vec<Item<B>>, now: Instant) {
        self.fit.too_long(batch.len());
        if let [alone] = &batch[..] {
            let id = alone.id();
            warn!(event.id = %id, "settlement not answered in time, trying again");
            self.silent.insert(id);
            if self.silent.len() >= SILENT {
                self.set_unavailable(now);
            }
        } else {
            warn!(rows = batch.len(), "settlement not answered in time, trying halves of it");
        }
        self.apart(doubted(batch), LONGEST_SILENCE, now);
    }

    /// Sends these again, not all in one statement, each half after a pause of its own.
    fn apart(&mut self, batch: Vec<Item<B>>, longest: Duration, now: Instant) {
        for mut half in halves(batch) {
            let pause = half.iter_mut().map(|item| item.wait(longest)).max();
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

    fn put(&mut self, items: Vec<Item<B>>, at: Instant, joins: bool) {
        if !items.is_empty() {
            self.rows += items.len();
            self.last += 1;
            self.groups.insert((at, self.last), Group { items, joins });
        }
    }
}

fn doubted<B>(mut batch: Vec<Item<B>>) -> Vec<Item<B>> {
    batch.iter_mut().for_each(|item| item.in_doubt = true);
    batch
}

fn over<B>(items: Vec<Item<B>>, fate: Fate) -> impl Iterator<Item = Over<B>> {
    items.into_iter().map(move |item| Over { item, fate })
}
