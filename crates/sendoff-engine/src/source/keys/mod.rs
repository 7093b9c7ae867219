//! The keys that this node holds, and their events that it has in hand, one after the other.

mod end;
mod hand;
mod recent;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::order::{Ending, Offer};
use sendoff_core::{Attempt, EventId};
use tokio::sync::Notify;

use self::hand::{Hand, KeyHold};
use self::recent::Recent;
use super::holds::Run;
use super::{Bound, Deadline, Parcel, Ticket};
use crate::appetite::Portion;
use crate::lock::lock;
use crate::settle::Completion;
use crate::store::{HeldKey, Outcome};
use crate::weight::weight;

pub(crate) use self::end::KeyEnd;

/// Every key of which this node has events in hand.
///
/// The one place that knows which event of a key may begin: one at a time, each after the one before it
/// ended well here (K1, K2). What an event ends with is kept here too until the settlement writer takes it,
/// since it is settled together with its key.
#[derive(Debug)]
pub(crate) struct Keys {
    table: Mutex<Table>,
    /// What may be in hand of keys that are held.
    bound: Bound,
    /// How many events from memory may wait for others of their keys.
    hot: usize,
    /// As long as a statement may take; see [`ending`](Self::ending).
    horizon: Duration,
    /// Something is to be written.
    over: Notify,
    /// Something is no longer in hand.
    room: Notify,
}

#[derive(Debug, Default)]
struct Table {
    hands: BTreeMap<Arc<str>, Hand>,
    /// Keys of which something is to be written.
    over: BTreeSet<Arc<str>>,
    /// Keys whose end is on its way into the database: held on until it is there.
    closing: BTreeMap<(Arc<str>, u64), Closing>,
    /// Events whose runs ended well here, so that those just above them may begin.
    ended_well: Recent,
    /// Events from memory that wait for others.
    hot: usize,
    /// Events in hand that were read from the table.
    rows: usize,
    bytes: usize,
    ends: u64,
}

#[derive(Debug, Clone)]
struct Closing {
    held: HeldKey,
    until: Deadline,
}

/// An event of a key whose turn it is, or that waits for it.
#[derive(Debug)]
pub(crate) enum Link {
    /// To be delivered.
    Parcel(Box<Parcel>),
    /// Over without that: it cannot be read, or holders who vanished have used its attempts up.
    End(Box<Completion>),
}

impl Link {
    fn ticket(&self) -> &Ticket {
        match self {
            Self::Parcel(parcel) => &parcel.ticket,
            Self::End(completion) => &completion.ticket,
        }
    }

    fn weight(&self) -> usize {
        match self {
            Self::Parcel(parcel) => weight(&parcel.delivery.event),
            Self::End(_) => 0,
        }
    }
}

/// What follows when an event is over.
#[derive(Debug, Default)]
#[must_use = "the next event of the key begins by this"]
pub(crate) struct Next {
    /// Settled by its own row.
    pub(crate) row: Option<Completion>,
    /// Begins now.
    pub(crate) start: Option<Link>,
    /// Does not follow. To be dropped by whoever holds no lock.
    pub(crate) dropped: Vec<Link>,
}

/// A key that was taken, with what was read of it.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) held: HeldKey,
    pub(crate) until: Deadline,
    pub(crate) links: Vec<Link>,
    /// Whether these are all that it has.
    pub(crate) whole: bool,
    /// Whether some that were read are not among them.
    pub(crate) cut: bool,
}

impl Keys {
    pub(crate) fn new(bound: Bound, hot: usize, horizon: Duration) -> Self {
        let (over, room) = (Notify::new(), Notify::new());
        Self { table: Mutex::default(), bound, hot, horizon, over, room }
    }

    /// How much more may be in hand.
    pub(crate) fn room_left(&self) -> Portion {
        let table = lock(&self.table);
        Portion {
            rows: self.bound.count.saturating_sub(table.rows),
            bytes: self.bound.bytes.saturating_sub(table.bytes),
        }
    }

    /// Waits until there is room for something more.
    pub(crate) async fn has_room(&self) {
        loop {
            let changed = self.room.notified();
            let Portion { rows, bytes } = self.room_left();
            if rows * 2 >= self.bound.count && bytes > 0 {
                return;
            }
            changed.await;
        }
    }

    /// Takes a key in hand. Answers its first event, if that may begin.
    pub(crate) fn begin(&self, taken: Taken) -> Next {
        let Taken { held, until, links, whole, cut } = taken;
        let HeldKey { key, token } = held;
        let (rows, bytes) = (links.len(), links.iter().map(Link::weight).sum::<usize>());
        let mut next = Next::default();
        {
            let table = &mut *lock(&self.table);
            let hand = table.hands.entry(key.clone()).or_default();
            let mut hold = KeyHold::new(token, until, whole, cut);
            if hand.is_idle() {
                hold.bytes = bytes;
                hand.hold = Some(hold);
                next.start = hand.begin(links);
                table.rows += rows;
                table.bytes = table.bytes.saturating_add(bytes);
            } else {
                // Events of it are in work here although another hold was lost: they come to their end
                // first, and this one is let go for a moment.
                hold.retry = Some(IN_WORK);
                next.dropped = links;
                hand.again.push(hold);
            }
            if next.start.is_none() {
                table.over.insert(key);
            }
        }
        self.over.notify_one();
        next
    }

    /// Takes an event from memory in hand, where its place is known. The answer is given back to whoever
    /// asked: it begins, waits, or goes the way of the table.
    pub(crate) fn offer(&self, parcel: Box<Parcel>, key: &Arc<str>, below: &[EventId]) -> Next {
        let table = &mut *lock(&self.table);
        if table.hot >= self.hot {
            return Next { dropped: vec![Link::Parcel(parcel)], ..Next::default() };
        }
        let hand = table.hands.entry(key.clone()).or_default();
        let (id, ended_well) = (parcel.delivery.id(), &table.ended_well);
        let offer = match hand.is_left_behind() {
            true => Offer::Refuse,
            false => hand.chain.offer(id, below, |below| ended_well.has(below)),
        };
        let link = Link::Parcel(parcel);
        let next = match offer {
            Offer::Start => Next { start: hand.start(link), ..Next::default() },
            Offer::Wait => {
                hand.waiting.push_back(link);
                table.hot += 1;
                Next::default()
            }
            Offer::Refuse => Next { dropped: vec![link], ..Next::default() },
        };
        table.tidy(key);
        next
    }

    /// Whether an event may begin: its key is certainly held now, where it goes by that.
    pub(super) fn may_start(&self, key: &str) -> bool {
        let table = lock(&self.table);
        let hold = table.hands.get(key).and_then(|hand| hand.hold.as_ref());
        hold.is_some_and(|hold| !hold.lost && !hold.until.is_past())
    }

    /// An event is over, by this outcome. What goes by its key is settled with that.
    pub(crate) fn over(&self, key: &Arc<str>, completion: Completion) -> Next {
        let follows = completion.outcome.lets_others_follow();
        let by_key = completion.ticket.goes_by_key();
        // To be dropped where no lock is held: a ticket comes back here.
        let mut nobodys = None;
        let next = {
            let table = &mut *lock(&self.table);
            let (id, run) = (completion.ticket.id(), completion.ticket.run());
            if follows {
                table.ended_well.add(id);
            }
            let mut next = Next::default();
            match table.hands.get_mut(key).filter(|hand| hand.is_running(run)) {
                Some(hand) => {
                    if by_key {
                        nobodys = hand.ended(completion);
                    } else {
                        next.row = Some(completion);
                    }
                    match follows {
                        true => next.start = hand.advance(),
                        false => next.dropped = hand.cut(),
                    }
                    table.after(key, by_key, &next);
                }
                // Its hold was lost, and the key is somebody else's by now.
                None if by_key => nobodys = Some(completion),
                None => next.row = Some(completion),
            }
            next
        };
        drop(nobodys);
        self.over.notify_one();
        self.room.notify_waiters();
        next
    }

    /// Nothing of a key that is held begins here now: it is let alone for a moment when it is let go.
    pub(crate) fn put_off(&self, key: &str) {
        let table = &mut *lock(&self.table);
        if let Some(hold) = table.hands.get_mut(key).and_then(|hand| hand.hold.as_mut()) {
            hold.retry.get_or_insert(IN_WORK);
        }
    }

    /// The bearer of an event is lost, or gave it back: what waits for it does not follow.
    pub(super) fn dropped(&self, key: &Arc<str>, run: Run, by_key: bool) {
        let next = {
            let table = &mut *lock(&self.table);
            let hand = table.hands.get_mut(key).filter(|hand| hand.is_running(run));
            let Some(hand) = hand else { return };
            let dropped = hand.cut();
            if let Some(hold) = hand.hold.as_mut().filter(|_| by_key) {
                hold.cut = true;
                hold.in_hand = hold.in_hand.saturating_sub(1);
            }
            let next = Next { dropped, ..Next::default() };
            table.after(key, by_key, &next);
            next
        };
        self.over.notify_one();
        self.room.notify_waiters();
        drop(next);
    }

    /// The keys whose holds end soon and should be extended, save those whose run is stuck.
    pub(crate) fn ending(&self, is_stuck: impl Fn(EventId) -> bool) -> Vec<HeldKey> {
        let early = self.horizon * 3 / 2;
        let table = lock(&self.table);
        let in_hand = table.hands.iter().filter_map(|(key, hand)| {
            let hold = hand.hold.as_ref().filter(|hold| !hold.lost)?;
            let ends = hold.until.is_within(early) && !hand.running_id().is_some_and(&is_stuck);
            ends.then(|| HeldKey { key: key.clone(), token: hold.token })
        });
        let closing = table.closing.values().filter(|closing| closing.until.is_within(early));
        in_hand.chain(closing.map(|closing| closing.held.clone())).collect()
    }

    /// Whatever waits for an event that others may have by now is let go: they may have that too (I11). Its run here
    /// may never end. Answers how much.
    pub(crate) fn let_go_after(&self, has_lost: impl Fn(EventId) -> bool) -> usize {
        let mut dropped = Vec::new();
        {
            let table = &mut *lock(&self.table);
            for (key, hand) in &mut table.hands {
                if !hand.waiting.is_empty() && hand.running_id().is_some_and(&has_lost) {
                    dropped.extend(hand.let_go());
                    table.over.insert(key.clone());
                }
            }
            table.left(&dropped);
        }
        self.over.notify_one();
        self.room.notify_waiters();
        dropped.len()
    }

    /// The database's answer to an extension of `asked`: these are held until then, and the others lost,
    /// but for those that were busy.
    pub(crate) fn extended(
        &self,
        asked: &[HeldKey],
        held: &BTreeSet<Arc<str>>,
        busy: &BTreeSet<Arc<str>>,
        until: Deadline,
    ) {
        let mut dropped = Vec::new();
        let mut guard = lock(&self.table);
        let table = &mut *guard;
        for asked in asked.iter().filter(|asked| !busy.contains(&asked.key)) {
            let is_held = held.contains(&asked.key);
            for closing in table.closing.values_mut().filter(|closing| closing.held == *asked) {
                if is_held {
                    closing.until = until;
                }
            }
            let Some(hand) = table.hands.get_mut(&asked.key) else { continue };
            let Some(hold) = hand.hold.as_mut().filter(|hold| hold.token == asked.token) else {
                continue;
            };
            if is_held {
                hold.until = until;
            } else {
                hold.lost = true;
                let gone = hand.let_go();
                table.left(&gone);
                dropped.extend(gone);
                table.over.insert(asked.key.clone());
            }
        }
        drop(guard);
        drop(dropped);
    }

    /// Whether something is to be written.
    pub(crate) fn has_ends(&self) -> bool {
        !lock(&self.table).over.is_empty()
    }

    /// Waits until something is to be written.
    pub(crate) async fn ends(&self) {
        loop {
            let changed = self.over.notified();
            if self.has_ends() {
                return;
            }
            changed.await;
        }
    }

    /// What is to be written, of about so many rows.
    pub(crate) fn take_ends(&self, rows: usize) -> Vec<KeyEnd> {
        let table = &mut *lock(&self.table);
        let (mut ends, mut taken) = (Vec::new(), 0);
        for key in std::mem::take(&mut table.over) {
            if taken >= rows {
                table.over.insert(key);
                continue;
            }
            let Some(hand) = table.hands.get_mut(&key) else { continue };
            if let Some(mut end) = hand.take_end(&key) {
                taken += end.rows.len().max(1);
                table.bytes = table.bytes.saturating_sub(end.bytes);
                table.ends += 1;
                end.number = table.ends;
                let closing = Closing { held: end.held.clone(), until: end.until };
                table.closing.insert((key.clone(), table.ends), closing);
                ends.push(end);
            }
            if hand.has_something_to_say() {
                table.over.insert(key.clone());
            }
            table.tidy(&key);
        }
        ends
    }

    /// An end is written, or never will be.
    pub(crate) fn written(&self, end: &KeyEnd, applied: bool) {
        let mut dropped = Vec::new();
        let mut guard = lock(&self.table);
        let table = &mut *guard;
        table.closing.remove(&(end.held.key.clone(), end.number));
        if end.ending == Ending::HeldOn
            && let Some(hand) = table.hands.get_mut(&end.held.key)
            && let Some(hold) = hand.hold.as_mut().filter(|hold| hold.token == end.held.token)
        {
            hold.sent = false;
            hold.lost |= !applied;
            if hold.lost {
                dropped = hand.let_go();
            }
            let says = hand.hold.as_ref().is_some_and(KeyHold::has_something_to_say);
            table.left(&dropped);
            if says {
                table.over.insert(end.held.key.clone());
                self.over.notify_one();
            }
        }
        drop(guard);
        drop(dropped);
    }

    /// Everything still in hand, at the end: whatever has not begun is let go, and every key with it.
    pub(crate) fn let_all_go(&self) {
        let mut dropped = Vec::new();
        {
            let table = &mut *lock(&self.table);
            for (key, hand) in &mut table.hands {
                dropped.extend(hand.let_go());
                table.over.insert(key.clone());
            }
            table.left(&dropped);
        }
        drop(dropped);
    }

    /// Whether nothing is in hand, and nothing on its way into the database.
    pub(crate) fn is_empty(&self) -> bool {
        let table = lock(&self.table);
        table.hands.is_empty() && table.closing.is_empty()
    }
}

/// How long a key is let alone of which another event is in work here: from memory, or under a hold that was
/// lost.
const IN_WORK: Duration = Duration::from_millis(100);

impl Table {
    /// An event of a key came to its end.
    fn after(&mut self, key: &Arc<str>, by_key: bool, next: &Next) {
        self.rows = self.rows.saturating_sub(usize::from(by_key));
        self.left(&next.dropped);
        if next.start.as_ref().is_some_and(|link| !link.ticket().goes_by_key()) {
            self.hot = self.hot.saturating_sub(1);
        }
        if self.hands.get(key).is_some_and(Hand::has_something_to_say) {
            self.over.insert(key.clone());
        }
        self.tidy(key);
    }

    /// These wait no longer.
    fn left(&mut self, links: &[Link]) {
        let by_key = links.iter().filter(|link| link.ticket().goes_by_key()).count();
        self.rows = self.rows.saturating_sub(by_key);
        self.hot = self.hot.saturating_sub(links.len() - by_key);
    }

    /// A key of which nothing is in hand is forgotten.
    fn tidy(&mut self, key: &Arc<str>) {
        if self.hands.get(key).is_some_and(Hand::is_over) {
            self.hands.remove(key);
        }
    }
}

/// The right of an event that goes through a key.
#[derive(Debug)]
pub(super) struct InKey {
    pub(super) keys: Arc<Keys>,
    pub(super) key: Arc<str>,
    /// Whether it is held by that.
    pub(super) by_key: bool,
}

pub(crate) fn ended_without_run(ticket: Ticket, attempt: Attempt, outcome: Outcome) -> Link {
    Link::End(Box::new(Completion { ticket, attempt, outcome }))
}
