//! Reading a journal's end without skipping what commits late: when a missing position is gone for
//! good.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;

use super::position::Position;
use crate::timestamp::Timestamp;

/// Reads a journal in the order of its positions and never skips one, however late it commits.
///
/// A reader who only asks for what is above its last position loses facts: numbers are taken in one
/// order and commit in another. So at a number that is missing this one stops until it is **proved**
/// that nobody can still bring it:
///
/// 1. numbers without a gap need no proof;
/// 2. whoever takes a number locks the sequence first, and holds that lock to the end of the
///    transaction. So whoever could bring a number up to the sequence's `head` of one look is among
///    the holders that are listed after it, or is over;
/// 3. a transaction is visible before it lets go. So when none of those holders is left, what a read
///    begun after that does not see will never be there, up to that head.
///
/// No timer decides anything, and transactions that never touched the journal cannot matter.
///
/// This is the decision alone. A store makes the looks; [`take`](Self::take) says how much of each
/// may be passed on, and [`ask`](Self::ask) and [`up_to`](Self::up_to) what the next look has to bring.
/// While it waits, that is the gap alone: what lies after it is read when the gap has closed, not again
/// and again until then.
#[derive(Debug, Clone)]
pub struct Tail {
    at: Position,
    /// Every number up to here is decided: it is there, or it never will be.
    proved: Position,
    /// Proofs under way, the oldest first. Each look at a gap begins another: what is committed while
    /// one is waiting must not wait for that one and then for its own.
    proofs: VecDeque<Proof>,
    /// All holders of the look before, while there are proofs.
    before: BTreeSet<HolderId>,
    /// The sequence's last number, as the look before this one found it.
    head: Option<Position>,
    /// Since when the server runs that the looks so far were made on.
    server: Option<Timestamp>,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing is passed on until everything up to the head of the first look is decided.
    Starting,
    /// As far as anybody knows there is no gap.
    Reading,
    /// Numbers up to this one are missing, and a later one is there.
    AtGap(Position),
    /// The gap is closed. What lies after it has not been read since.
    Closed,
}

/// A proof under way: no number up to `up_to` is missing for good until none of `awaited` is left.
#[derive(Debug, Clone)]
struct Proof {
    up_to: Position,
    awaited: BTreeSet<HolderId>,
}

/// Proofs under way at once. More would only be a little sooner.
const PROOFS: usize = 64;

/// What the next look has to bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// The rows above the position.
    Rows,
    /// The holders, and then, begun after they were listed, the rows.
    HoldersThenRows,
}

/// One look at a journal.
#[derive(Debug, Clone, Copy)]
pub struct Look<'a> {
    /// The server that the rows were read on, by the same statement.
    pub server: Server,
    /// How the sequence counts.
    pub sequence: Sequence,
    /// The last number taken, read after the rows or with them.
    pub head: Position,
    /// Who holds the sequence or the table for writing, listed before the rows were read.
    pub holders: Option<&'a [HolderId]>,
    /// Where the store decides gaps by itself: every number up to here is among the rows, or will
    /// never be a fact. [`Position::START`] where it leaves the proof to the tail.
    pub proved: Position,
    /// The positions that are there above the tail's own, ascending, from the first on.
    pub rows: &'a [Position],
    /// Whether there was nothing above the last of them, as far as was [asked](Tail::up_to).
    pub complete: bool,
}

/// The server a look was made on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Server {
    /// Since when it runs.
    pub started_at: Timestamp,
    /// Whether it is a standby: locks of the primary are not known there.
    pub in_recovery: bool,
}

/// How a sequence counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequence {
    /// How many numbers a session takes at once.
    pub cache: i64,
    /// From one to the next.
    pub increment: i64,
    /// Whether it begins again at its end.
    pub cycles: bool,
}

impl Sequence {
    /// The only way of counting that the proof holds for.
    pub const ONE_BY_ONE: Self = Self { cache: 1, increment: 1, cycles: false };
}

/// A transaction, by the name that its locks are listed under. The name outlives `PREPARE`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HolderId(String);

impl HolderId {
    /// The transaction of this name: `4/217`.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the name is one that prepared transactions are *given*: after a restart, and on
    /// servers older than the releases of late 2021 by PREPARE itself.
    fn is_given(&self) -> bool {
        self.0.starts_with("-1/")
    }
}

impl fmt::Display for HolderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for HolderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Who may hold a tail back: a transaction that has appended, or may have, and is not over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its name.
    pub id: HolderId,
    /// The process of its session; none where it is prepared.
    pub pid: Option<i32>,
    /// The name it was prepared under.
    pub gid: Option<String>,
    /// Since when it is open, or prepared; none where the role may not know.
    pub since: Option<Timestamp>,
    /// What its session calls itself.
    pub application: Option<String>,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.gid, self.pid) {
            (Some(gid), _) => write!(f, "the prepared transaction '{gid}'")?,
            (None, Some(pid)) => write!(f, "process {pid}")?,
            (None, None) => write!(f, "transaction {}", self.id)?,
        }
        match &self.application {
            Some(application) => write!(f, " (application {application:?})"),
            None => Ok(()),
        }
    }
}

/// What became of a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// How many of its rows may be passed on, from the first. The others will be read again.
    pub deliver: usize,
    /// The numbers that are missing and hold the rest back: the first and the last of them.
    pub gap: Option<(Position, Position)>,
    /// Who they are waited for; nobody where the next look decides.
    pub waits_for: Vec<HolderId>,
}

/// Why a tail can go no further. Positions in memory are worth nothing then: begin again from the
/// stored one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsafe {
    /// The server is a standby.
    #[error(
        "the server is a standby or read-only, where it cannot be known who is appending: ask the primary"
    )]
    Standby,
    /// The sequence does not count one by one.
    #[error(
        "the journal's sequence has cache {}, increment {} and {}; positions are in order only with \
         cache 1, increment 1 and no cycle: set it back with ALTER SEQUENCE (on MySQL and MariaDB \
         auto_increment_increment = 1 and one server that is written to), and end the sessions that \
         still have numbers",
        .0.cache, .0.increment, if .0.cycles { "a cycle" } else { "no cycle" }
    )]
    Sequence(Sequence),
    /// It is another server than before, or the same one started again.
    #[error("the server was started again, or is another: what was read before may be gone")]
    Restarted,
    /// The sequence is lower than what was passed on: the database lost its last commits, or was set
    /// back.
    #[error("position {at} was passed on, and the journal ends at {head}: it was set back")]
    WentBack {
        /// What was passed on.
        at: Position,
        /// Where the sequence is.
        head: Position,
    },
    /// Rows that are not above the tail's position, or not in order.
    #[error("the rows of a look were not in order")]
    Disorder,
}

impl Tail {
    /// Passes on everything above this position.
    pub fn after(position: Position) -> Self {
        Self::new(position, State::Reading)
    }

    /// Passes on everything above the head as the first look finds it, once all below is decided.
    pub fn from_now() -> Self {
        Self::new(Position::START, State::Starting)
    }

    fn new(at: Position, state: State) -> Self {
        let (proofs, before) = (VecDeque::new(), BTreeSet::new());
        Self { at, proved: at, proofs, before, head: None, server: None, state }
    }

    /// Everything up to here was passed on, or never will be there.
    pub const fn at(&self) -> Position {
        self.at
    }

    /// What the next look has to bring.
    pub fn ask(&self) -> Ask {
        match self.state {
            State::Reading => Ask::Rows,
            State::Starting | State::AtGap(_) | State::Closed => Ask::HoldersThenRows,
        }
    }

    /// Up to which position the next look is of any use: to the end of the gap while it waits there.
    pub fn up_to(&self) -> Position {
        match self.state {
            State::AtGap(last) if self.is_waiting() => last,
            _ => Position::END,
        }
    }

    /// Whether somebody else must finish before another look can decide anything. Where not, and
    /// there is a gap, there is no reason to wait with it.
    pub fn is_waiting(&self) -> bool {
        self.state != State::Closed && !self.proofs.is_empty()
    }

    /// Whether a gap has just closed, so that there is something after it to be read at once.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Whether rows are of any use yet.
    pub fn wants_rows(&self) -> bool {
        self.state != State::Starting
    }

    /// Takes a look into account.
    pub fn take(&mut self, look: &Look<'_>) -> Result<Seen, Unsafe> {
        self.check(look)?;
        let asked = self.up_to();
        if let Some(holders) = look.holders {
            self.hear(holders);
        }
        self.proved = self.proved.max(look.proved);
        let seen = match self.state {
            State::Starting => {
                let empty = self.head == Some(self.at) && self.proofs.is_empty();
                if self.proved > self.at || empty {
                    self.at = self.proved;
                    self.read_on();
                }
                Seen { deliver: 0, gap: None, waits_for: self.awaited() }
            }
            State::Reading | State::AtGap(_) | State::Closed => self.pass(look, asked),
        };
        self.head = Some(look.head);
        Ok(seen)
    }

    fn check(&mut self, look: &Look<'_>) -> Result<(), Unsafe> {
        if look.server.in_recovery {
            return Err(Unsafe::Standby);
        }
        if look.sequence != Sequence::ONE_BY_ONE {
            return Err(Unsafe::Sequence(look.sequence));
        }
        if *self.server.get_or_insert(look.server.started_at) != look.server.started_at {
            return Err(Unsafe::Restarted);
        }
        if look.head < self.at {
            return Err(Unsafe::WentBack { at: self.at, head: look.head });
        }
        let in_order = look.rows.is_sorted_by(|a, b| a < b);
        if !in_order || look.rows.first().is_some_and(|first| *first <= self.at) {
            // While it is starting, everything is below.
            if self.state != State::Starting {
                return Err(Unsafe::Disorder);
            }
        }
        Ok(())
    }

    /// Who is left, by a list that was made before the rows of this look were read.
    fn hear(&mut self, holders: &[HolderId]) {
        let now: BTreeSet<_> = holders.iter().cloned().collect();
        for proof in &mut self.proofs {
            let awaited = proof.awaited.len();
            proof.awaited.retain(|holder| now.contains(holder));
            if proof.awaited.len() < awaited {
                // One that is gone may have been prepared, and go by another name now.
                let renamed = now.iter().filter(|id| id.is_given());
                let new = renamed.filter(|id| !self.before.contains(*id)).cloned();
                proof.awaited.extend(new);
            }
        }
        // Without a head there is nothing yet that these holders could be said to be above.
        let proving = self.proofs.back().map_or(self.proved, |newest| newest.up_to);
        if let Some(up_to) = self.head
            && up_to > proving
            && self.proofs.len() < PROOFS
            && (self.state != State::Starting || self.proofs.is_empty())
        {
            self.proofs.push_back(Proof { up_to, awaited: now.clone() });
        }
        while let Some(proof) = self.proofs.pop_front_if(|proof| proof.awaited.is_empty()) {
            self.proved = self.proved.max(proof.up_to);
        }
        self.before = now;
    }

    /// How many rows are without a gap, or with gaps that are decided; of a look up to `asked`.
    fn pass(&mut self, look: &Look<'_>, asked: Position) -> Seen {
        let mut deliver = 0;
        for &row in look.rows {
            if row > self.at.next() && row.get() - 1 > self.proved.get() {
                // A look at a gap alone says nothing of where it ends.
                let last = Position::new(row.get() - 1).unwrap_or(Position::END);
                let last = if asked == Position::END { last } else { asked };
                return self.stop(deliver, last);
            }
            self.at = row;
            deliver += 1;
        }
        let decided = if look.complete { self.proved } else { look.proved };
        self.at = self.at.max(decided.min(asked));
        if self.at < asked && asked < Position::END {
            return self.stop(deliver, asked);
        }
        if asked < Position::END {
            // The proofs go on: there may be other gaps after this one.
            self.state = State::Closed;
        } else {
            self.read_on();
        }
        Seen { deliver, gap: None, waits_for: Vec::new() }
    }

    /// Waits where a number is missing.
    fn stop(&mut self, deliver: usize, last: Position) -> Seen {
        self.state = State::AtGap(last);
        let first = self.at.next().max(self.proved.next());
        Seen { deliver, gap: Some((first, last)), waits_for: self.awaited() }
    }

    /// There is nothing to prove any more.
    fn read_on(&mut self) {
        self.state = State::Reading;
        self.proofs.clear();
        self.before.clear();
    }

    /// Who the oldest proof waits for.
    fn awaited(&self) -> Vec<HolderId> {
        self.proofs.front().map_or_else(Vec::new, |proof| proof.awaited.iter().cloned().collect())
    }
}
