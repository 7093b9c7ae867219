//! A journal's database as far as its tail can see it: transactions that take numbers, hold the
//! sequence, become visible, and let go.

use sendoff_core::Timestamp;
use sendoff_core::journal::{Ask, HolderId, Look, Position, Seen, Sequence, Server, Tail, Unsafe};

use super::position;

pub(crate) const SERVER: Server =
    Server { started_at: Timestamp::from_micros(1), in_recovery: false };

#[derive(Debug, Clone)]
struct Transaction {
    name: Option<HolderId>,
    numbers: Vec<u64>,
    ended: bool,
}

#[derive(Debug, Default)]
pub(crate) struct World {
    transactions: Vec<Transaction>,
    visible: Vec<u64>,
    head: u64,
}

impl World {
    /// Locks the sequence for writing.
    pub(crate) fn begin(&mut self) -> usize {
        let at = self.transactions.len();
        let name = Some(HolderId::new(format!("3/{at}")));
        self.transactions.push(Transaction { name, numbers: Vec::new(), ended: false });
        at
    }

    fn open(&mut self, at: usize) -> Option<&mut Transaction> {
        let mut open: Vec<_> = self.transactions.iter_mut().filter(|tx| !tx.ended).collect();
        if open.is_empty() { None } else { Some(open.swap_remove(at % open.len())) }
    }

    /// Takes the next number in an open transaction.
    pub(crate) fn number(&mut self, at: usize) {
        let next = self.head + 1;
        if let Some(tx) = self.open(at) {
            tx.numbers.push(next);
            self.head = next;
        }
    }

    /// Begins one that takes the next number.
    pub(crate) fn begin_numbered(&mut self) -> usize {
        let tx = self.begin();
        let open = self.transactions.iter().filter(|tx| !tx.ended).count();
        self.number(open - 1);
        tx
    }

    /// Undoes the last number, to a savepoint. The lock stays.
    pub(crate) fn undo(&mut self, at: usize) {
        if let Some(tx) = self.open(at) {
            tx.numbers.pop();
        }
    }

    /// Prepares: on older servers under another name.
    pub(crate) fn prepare(&mut self, at: usize, renamed: bool) {
        if let Some(tx) = self.open(at)
            && renamed
            && let Some(name) = &tx.name
        {
            let number = name.as_str().rsplit('/').next().unwrap_or_default().to_owned();
            tx.name = Some(HolderId::new(format!("-1/{number}")));
        }
    }

    /// Becomes visible; the locks go later.
    pub(crate) fn commit(&mut self, at: usize) {
        if let Some(tx) = self.open(at) {
            tx.ended = true;
            let numbers = tx.numbers.clone();
            self.visible.extend(numbers);
            self.visible.sort_unstable();
        }
    }

    pub(crate) fn roll_back(&mut self, at: usize) {
        if let Some(tx) = self.open(at) {
            tx.ended = true;
            tx.numbers.clear();
        }
    }

    /// Lets go of the locks of one that is over.
    pub(crate) fn release(&mut self, at: usize) {
        let held = |tx: &&mut Transaction| tx.ended && tx.name.is_some();
        let count = self.transactions.iter_mut().filter(held).count();
        if count > 0
            && let Some(tx) = self.transactions.iter_mut().filter(held).nth(at % count)
        {
            tx.name = None;
        }
    }

    pub(crate) fn end_all(&mut self, commit: bool) {
        while self.transactions.iter().any(|tx| !tx.ended) {
            if commit { self.commit(0) } else { self.roll_back(0) }
        }
        self.transactions.clear();
    }

    pub(crate) fn visible(&self) -> &[u64] {
        &self.visible
    }

    pub(crate) fn holders(&self) -> Vec<HolderId> {
        self.transactions.iter().filter_map(|tx| tx.name.clone()).collect()
    }

    pub(crate) fn rows(
        &self,
        after: Position,
        up_to: Position,
        limit: usize,
    ) -> (Vec<Position>, bool) {
        let between = |n: &&u64| **n > after.get() && **n <= up_to.get();
        let above: Vec<_> = self.visible.iter().filter(between).collect();
        let rows = above.iter().take(limit).map(|&&n| position(n)).collect();
        (rows, above.len() <= limit)
    }

    pub(crate) fn head(&self) -> Position {
        position(self.head)
    }
}

/// A tail with what it passed on.
pub(crate) struct Reader {
    pub(crate) tail: Tail,
    pub(crate) delivered: Vec<u64>,
    pub(crate) limit: usize,
    /// How many rows its looks brought.
    pub(crate) read: usize,
}

impl Reader {
    pub(crate) fn new(tail: Tail) -> Self {
        Self { tail, delivered: Vec::new(), limit: 100, read: 0 }
    }

    /// A look during which nothing else happens, and where it closed a gap the next one, for which
    /// nobody waits.
    pub(crate) fn look(&mut self, world: &mut World) -> Seen {
        let seen = self.look_while(world, |_| {}).unwrap();
        if !self.tail.is_closed() {
            return seen;
        }
        let next = self.look_while(world, |_| {}).unwrap();
        Seen { deliver: seen.deliver + next.deliver, ..next }
    }

    /// A look in its steps, with something happening between any two.
    pub(crate) fn look_while(
        &mut self,
        world: &mut World,
        mut meanwhile: impl FnMut(&mut World),
    ) -> Result<Seen, Unsafe> {
        let holders = match self.tail.ask() {
            Ask::Rows => None,
            Ask::HoldersThenRows => Some(world.holders()),
        };
        meanwhile(world);
        let (rows, complete) = world.rows(self.tail.at(), self.tail.up_to(), self.limit);
        self.read += rows.len();
        meanwhile(world);
        let seen = self.tail.take(&Look {
            server: SERVER,
            sequence: Sequence::ONE_BY_ONE,
            head: world.head(),
            holders: holders.as_deref(),
            proved: Position::START,
            rows: &rows,
            complete,
        })?;
        self.delivered.extend(rows[..seen.deliver].iter().map(|row| row.get()));
        Ok(seen)
    }
}
