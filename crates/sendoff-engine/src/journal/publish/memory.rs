//! Cursors in memory, for tests. Its clock follows tokio's, and can be paused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::Timestamp;
use sendoff_core::journal::Position;
use sendoff_core::journal::publish::{CursorStatus, PairId, WaitsAt};

use super::store::{
    Change, ChangeParked, Cursor, Move, Moved, Parked, ParkedChange, ParkedPage, PublishStore,
    Retried, Seen, Survey, TriedAgain, Which,
};
use crate::capture::{CursorMove, JoinError};
use crate::clock::{Clock, TokioClock};
use crate::journal::memory::MemoryJournal;
use crate::lead::{Beat, Membership, NodeCard, NodeSeen};
use crate::store::StoreError;

/// Nodes, cursors and what was parked.
#[derive(Debug, Default)]
pub(in crate::journal) struct Desk {
    clock: Option<TokioClock>,
    joined: u64,
    nodes: BTreeMap<u64, Node>,
    cursors: BTreeMap<PairId, Cursor>,
    parked: BTreeMap<(PairId, Position), Parked>,
    /// Cursors that transactions are to move, each with the number of its lock.
    locked: BTreeMap<PairId, u64>,
    locks: u64,
}

/// A cursor that a transaction of a store in memory is to move: until its end nobody else moves, takes or gives
/// it. Dropped, it stays where it is.
#[derive(Debug)]
pub(crate) struct LockedCursor {
    journal: MemoryJournal,
    pair: PairId,
    lock: u64,
    from: Position,
    to: Position,
}

#[derive(Debug)]
struct Node {
    card: NodeCard,
    came_at: Timestamp,
    beat_at: Timestamp,
    /// Whether its session is there.
    session: bool,
}

impl Desk {
    /// Puts cursors back to a position.
    pub(in crate::journal) fn lose_after(&mut self, position: Position) {
        for cursor in self.cursors.values_mut() {
            cursor.position = cursor.position.min(position);
        }
    }

    fn now(&mut self) -> Timestamp {
        self.clock.get_or_insert_default().now()
    }

    fn is_alive(&mut self, owner: &str) -> bool {
        let now = self.now();
        self.nodes.values().any(|node| &*node.card.owner == owner && node.is_alive(now))
    }

    /// How far everybody is.
    pub(in crate::journal) fn cursors(&self) -> impl Iterator<Item = &Cursor> {
        self.cursors.values()
    }

    /// What is parked, each pair's lowest position first.
    pub(in crate::journal) fn set_aside(&self) -> impl Iterator<Item = &(PairId, Position)> {
        self.parked.keys()
    }

    fn led(&mut self, owner: &str, pair: &PairId, epoch: i64) -> Option<&mut Cursor> {
        let cursor = self.cursors.get_mut(pair)?;
        (cursor.leader.as_deref() == Some(owner) && cursor.epoch == epoch).then_some(cursor)
    }
}

impl MemoryJournal {
    /// Locks a cursor, if it is where the move comes from and this owner leads it under this epoch.
    pub(crate) fn lock_cursor(
        &self,
        to: CursorMove<'_>,
    ) -> Result<Option<LockedCursor>, JoinError> {
        let CursorMove { pair, owner, epoch, from, to } = to;
        let mut desk = self.desk();
        if desk.locked.contains_key(pair) {
            return Err(JoinError::Busy(format!("the cursor of {pair} is locked").into()));
        }
        if desk.led(owner, pair, epoch).is_none_or(|cursor| cursor.position != from) {
            return Ok(None);
        }
        desk.locks += 1;
        let lock = desk.locks;
        desk.locked.insert(pair.clone(), lock);
        Ok(Some(LockedCursor { journal: self.clone(), pair: pair.clone(), lock, from, to }))
    }
}

impl LockedCursor {
    /// Its transaction commits.
    pub(crate) fn commit(self) {
        let mut desk = self.journal.desk();
        let now = desk.now();
        // An operator does not wait in here, and wrote after it.
        let cursor = desk.cursors.get_mut(&self.pair);
        if let Some(cursor) = cursor.filter(|cursor| cursor.position == self.from) {
            cursor.position = self.to;
            (cursor.errors, cursor.last_error, cursor.waits_at) = (0, None, None);
            cursor.published_at = Some(now);
        }
    }
}

impl Drop for LockedCursor {
    fn drop(&mut self) {
        let mut desk = self.journal.desk();
        if desk.locked.get(&self.pair) == Some(&self.lock) {
            desk.locked.remove(&self.pair);
        }
    }
}

impl Node {
    fn is_alive(&self, now: Timestamp) -> bool {
        let silent = now.since(self.beat_at);
        silent < self.card.lease && (self.session || silent < self.card.renew * 2)
    }
}

fn after(now: Timestamp, delay: Option<Duration>) -> Option<Timestamp> {
    delay.map(|delay| now.saturating_add(delay))
}

#[async_trait]
impl PublishStore for MemoryJournal {
    async fn check_ready(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn register(&self, pairs: &[(PairId, Position)]) -> Result<(), StoreError> {
        let mut desk = self.desk();
        for (pair, position) in pairs {
            desk.cursors.entry(pair.clone()).or_insert_with(|| Cursor {
                pair: pair.clone(),
                position: *position,
                status: CursorStatus::Active,
                errors: 0,
                last_error: None,
                leader: None,
                epoch: 0,
                published_at: None,
                waits_at: None,
            });
        }
        Ok(())
    }

    async fn join(&self, card: &NodeCard) -> Result<Box<dyn Membership>, StoreError> {
        let mut desk = self.desk();
        let beat_at = desk.now();
        let before = desk.nodes.values().find(|node| node.card.owner == card.owner);
        let came_at = before.map_or(beat_at, |node| node.came_at);
        desk.nodes.retain(|_, node| node.card.owner != card.owner);
        desk.joined += 1;
        let number = desk.joined;
        desk.nodes.insert(number, Node { card: card.clone(), came_at, beat_at, session: true });
        Ok(Box::new(MemoryMember { journal: self.clone(), number }))
    }

    async fn survey(&self) -> Result<Survey, StoreError> {
        let mut desk = self.desk();
        let now = desk.now();
        let alive = desk.nodes.values().filter(|node| node.is_alive(now));
        let seen = |node: &Node| NodeSeen {
            owner: node.card.owner.to_string(),
            knows: node.card.knows.clone(),
            lived: node.beat_at.since(node.came_at),
            silent: now.since(node.beat_at),
        };
        Ok(Survey {
            nodes: alive.map(seen).collect(),
            cursors: desk.cursors.values().cloned().collect(),
        })
    }

    async fn take(&self, owner: &str, wanted: &[Seen]) -> Result<Vec<Cursor>, StoreError> {
        let mut desk = self.desk();
        let mut taken = Vec::new();
        for seen in wanted {
            let led = seen.leader.as_deref().is_some_and(|leader| desk.is_alive(leader));
            let stays = led || desk.locked.contains_key(&*seen.pair);
            let Some(cursor) = desk.cursors.get_mut(&*seen.pair).filter(|_| !stays) else {
                continue;
            };
            if cursor.leader == seen.leader && cursor.epoch == seen.epoch {
                cursor.leader = Some(owner.to_owned());
                cursor.epoch += 1;
                taken.push(cursor.clone());
            }
        }
        Ok(taken)
    }

    async fn give(&self, owner: &str, pairs: &[(Arc<PairId>, i64)]) -> Result<(), StoreError> {
        let mut desk = self.desk();
        for (pair, epoch) in pairs {
            let locked = desk.locked.contains_key(&**pair);
            if let Some(cursor) = desk.led(owner, pair, *epoch).filter(|_| !locked) {
                cursor.leader = None;
            }
        }
        Ok(())
    }

    async fn advance(&self, owner: &str, moves: &[Move]) -> Result<Vec<Moved>, StoreError> {
        let mut desk = self.desk();
        let now = desk.now();
        let mut made = Vec::new();
        for next in moves {
            let locked = desk.locked.contains_key(&*next.pair);
            // A move that goes nowhere asks where the cursor is, once whoever has locked it is done.
            let asks = locked && next.from == next.to;
            let cursor = desk.led(owner, &next.pair, next.epoch);
            let Some(cursor) = cursor.filter(|cursor| asks || cursor.position == next.from) else {
                made.push(Moved::Fenced);
                continue;
            };
            if locked {
                made.push(Moved::Busy);
                continue;
            }
            cursor.position = next.to;
            cursor.errors = next.errors;
            if next.errors == 0 || next.last_error.is_some() {
                cursor.last_error.clone_from(&next.last_error);
            }
            let known = cursor.waits_at.filter(|at| Some(at.position) == next.waits_at);
            cursor.waits_at =
                known.or(next.waits_at.map(|position| WaitsAt { position, since: now }));
            if next.published {
                cursor.published_at = Some(now);
            }
            if next.fails && cursor.status == CursorStatus::Active {
                cursor.status = CursorStatus::Failed;
            }
            made.push(Moved::Made(cursor.status));
            for park in &next.parked {
                let parked = Parked {
                    pair: (*next.pair).clone(),
                    position: park.position,
                    attempts: park.attempts,
                    parked_at: now,
                    next_at: after(now, Some(park.delay)),
                    error: Some(park.error.clone()),
                };
                desk.parked.insert((parked.pair.clone(), parked.position), parked);
            }
        }
        Ok(made)
    }

    async fn due(&self, owner: &str, each: usize) -> Result<Vec<Parked>, StoreError> {
        let mut desk = self.desk();
        let now = desk.now();
        let led = desk.cursors.values().filter(|cursor| {
            cursor.status == CursorStatus::Active && cursor.leader.as_deref() == Some(owner)
        });
        let of_pair = |cursor: &Cursor| {
            let parked = desk.parked.values().filter(|parked| parked.pair == cursor.pair);
            let mut due: Vec<_> =
                parked.filter(|p| p.next_at.is_some_and(|at| at <= now)).cloned().collect();
            due.sort_by_key(|parked| parked.next_at);
            due.truncate(each);
            due
        };
        Ok(led.flat_map(of_pair).collect())
    }

    async fn settle_parked(&self, tried: TriedAgain<'_>) -> Result<bool, StoreError> {
        let TriedAgain { owner, epoch, parked, outcome } = tried;
        let mut desk = self.desk();
        let now = desk.now();
        if desk.led(owner, &parked.pair, epoch).is_none() {
            return Ok(false);
        }
        if desk.locked.contains_key(&parked.pair) {
            return Err(StoreError::Busy("its cursor is locked".into()));
        }
        let key = (parked.pair.clone(), parked.position);
        match outcome {
            Retried::Published => drop(desk.parked.remove(&key)),
            Retried::Failed { attempts, delay, error } => {
                if let Some(known) = desk.parked.get_mut(&key) {
                    known.attempts = *attempts;
                    known.next_at = after(now, *delay);
                    known.error = Some(error.clone());
                }
            }
        }
        Ok(true)
    }

    async fn change(&self, which: &Which, change: Change) -> Result<u64, StoreError> {
        let mut desk = self.desk();
        let mut count = 0;
        for cursor in desk.cursors.values_mut().filter(|cursor| which.means(&cursor.pair)) {
            count += 1;
            match change {
                Change::Pause => cursor.status = CursorStatus::Paused,
                Change::Resume if cursor.status == CursorStatus::Paused => {
                    cursor.status = CursorStatus::Active;
                }
                Change::Resume => {}
                Change::Reset => {
                    cursor.status = CursorStatus::Active;
                    (cursor.errors, cursor.last_error, cursor.waits_at) = (0, None, None);
                }
                Change::MoveTo(position) => {
                    (cursor.position, cursor.waits_at) = (position, None);
                }
            }
        }
        Ok(count)
    }

    async fn parked(&self, page: ParkedPage<'_>) -> Result<Vec<Parked>, StoreError> {
        let ParkedPage { which, after, limit } = page;
        let desk = self.desk();
        let comes_after = |parked: &&Parked| {
            after.is_none_or(|(pair, at)| (&parked.pair, parked.position) > (pair, at))
        };
        let meant = desk.parked.values().filter(|parked| which.means(&parked.pair));
        Ok(meant.filter(comes_after).take(limit).cloned().collect())
    }

    async fn change_parked(&self, change: ChangeParked<'_>) -> Result<u64, StoreError> {
        let ChangeParked { which, position, change } = change;
        let mut desk = self.desk();
        let now = desk.now();
        let meant = |parked: &Parked| {
            which.means(&parked.pair) && position.is_none_or(|at| at == parked.position)
        };
        let count = desk.parked.values().filter(|parked| meant(parked)).count();
        match change {
            ParkedChange::Discard => desk.parked.retain(|_, parked| !meant(parked)),
            ParkedChange::Retry => {
                let parked = desk.parked.values_mut().filter(|parked| meant(parked));
                parked.for_each(|parked| parked.next_at = Some(now));
            }
        }
        Ok(count as u64)
    }
}

/// A node in memory. Dropping it is its death.
struct MemoryMember {
    journal: MemoryJournal,
    number: u64,
}

#[async_trait]
impl Membership for MemoryMember {
    async fn beat(&mut self) -> Result<Beat, StoreError> {
        let mut desk = self.journal.desk();
        let now = desk.now();
        let node = desk.nodes.get_mut(&self.number).ok_or(StoreError::Closed)?;
        node.beat_at = now;
        Ok(Beat::Written)
    }

    async fn leave(self: Box<Self>) -> Result<(), StoreError> {
        self.journal.desk().nodes.remove(&self.number);
        Ok(())
    }
}

impl Drop for MemoryMember {
    fn drop(&mut self) {
        if let Some(node) = self.journal.desk().nodes.get_mut(&self.number) {
            node.session = false;
        }
    }
}
