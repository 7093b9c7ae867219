//! What publishing asks of a database.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::Timestamp;
use sendoff_core::journal::Position;
use sendoff_core::journal::publish::{CursorStatus, PairId, WaitsAt};

use crate::journal::store::JournalStore;
use crate::lead::{Membership, NodeCard, NodeSeen};
use crate::store::StoreError;

/// Cursors, who leads them, and what was parked. Times are the database's. Nothing but an operator's
/// change waits for a row that somebody has locked (I11).
#[async_trait]
pub trait PublishStore: JournalStore {
    /// Whether the tables are those of this version, with all their columns, and the database's user may
    /// do with them what publishing needs. Changes nothing. A node asks once, when it starts.
    ///
    /// # Errors
    ///
    /// [`NotInstalled`](StoreError::NotInstalled), [`Schema`](StoreError::Schema),
    /// [`NewerSchema`](StoreError::NewerSchema) and [`Rights`](StoreError::Rights) name what is
    /// missing and the remedy.
    async fn check_ready(&self) -> Result<(), StoreError>;

    /// Makes the cursors that are not there yet. One that is there stays as it is.
    async fn register(&self, pairs: &[(PairId, Position)]) -> Result<(), StoreError>;

    /// Joins the nodes, on a session of its own where the database has sessions.
    async fn join(&self, card: &NodeCard) -> Result<Box<dyn Membership>, StoreError>;

    /// Everything there is to know: nodes and cursors, in the order of their names.
    async fn survey(&self) -> Result<Survey, StoreError>;

    /// Takes pairs, each only if it still stands as it was seen and whoever had it is not alive. The
    /// epoch of what was taken is a new one. One whose row somebody has locked is left for another time.
    async fn take(&self, owner: &str, wanted: &[Seen]) -> Result<Vec<Cursor>, StoreError>;

    /// Gives pairs up, each only if this owner has it under this epoch. One whose row somebody has locked
    /// stays as it is, and is anybody's once this owner is not alive.
    async fn give(&self, owner: &str, pairs: &[(Arc<PairId>, i64)]) -> Result<(), StoreError>;

    /// Moves cursors and parks facts, in one statement: each move only if this owner has the
    /// pair under this epoch and its cursor is where it came from. Says of each move what became of it. A
    /// status that an operator set stays.
    async fn advance(&self, owner: &str, moves: &[Move]) -> Result<Vec<Moved>, StoreError>;

    /// What this owner's active pairs have parked that is due, the longest due first, and so many of
    /// each pair at most: one whose target is unavailable must not hide the others.
    async fn due(&self, owner: &str, each: usize) -> Result<Vec<Parked>, StoreError>;

    /// What became of a fact that was parked and tried again; only if this owner has the pair
    /// under this epoch. Says whether it was written; [`Busy`](StoreError::Busy) where somebody has
    /// locked the pair's row.
    async fn settle_parked(&self, tried: TriedAgain<'_>) -> Result<bool, StoreError>;

    /// An operator's change; answers how many pairs there are that it means.
    async fn change(&self, which: &Which, change: Change) -> Result<u64, StoreError>;

    /// What is parked, in the order of pairs and positions.
    async fn parked(&self, page: ParkedPage<'_>) -> Result<Vec<Parked>, StoreError>;

    /// Makes what is parked due now, or forgets it. Answers how many.
    async fn change_parked(&self, change: ChangeParked<'_>) -> Result<u64, StoreError>;
}

/// Publishing from a journal that is shared, also one whose kind is chosen when the program runs.
#[async_trait]
impl<S: PublishStore + ?Sized> PublishStore for Arc<S> {
    async fn check_ready(&self) -> Result<(), StoreError> {
        (**self).check_ready().await
    }

    async fn register(&self, pairs: &[(PairId, Position)]) -> Result<(), StoreError> {
        (**self).register(pairs).await
    }

    async fn join(&self, card: &NodeCard) -> Result<Box<dyn Membership>, StoreError> {
        (**self).join(card).await
    }

    async fn survey(&self) -> Result<Survey, StoreError> {
        (**self).survey().await
    }

    async fn take(&self, owner: &str, wanted: &[Seen]) -> Result<Vec<Cursor>, StoreError> {
        (**self).take(owner, wanted).await
    }

    async fn give(&self, owner: &str, pairs: &[(Arc<PairId>, i64)]) -> Result<(), StoreError> {
        (**self).give(owner, pairs).await
    }

    async fn advance(&self, owner: &str, moves: &[Move]) -> Result<Vec<Moved>, StoreError> {
        (**self).advance(owner, moves).await
    }

    async fn due(&self, owner: &str, each: usize) -> Result<Vec<Parked>, StoreError> {
        (**self).due(owner, each).await
    }

    async fn settle_parked(&self, tried: TriedAgain<'_>) -> Result<bool, StoreError> {
        (**self).settle_parked(tried).await
    }

    async fn change(&self, which: &Which, change: Change) -> Result<u64, StoreError> {
        (**self).change(which, change).await
    }

    async fn parked(&self, page: ParkedPage<'_>) -> Result<Vec<Parked>, StoreError> {
        (**self).parked(page).await
    }

    async fn change_parked(&self, change: ChangeParked<'_>) -> Result<u64, StoreError> {
        (**self).change_parked(change).await
    }
}

/// Nodes and cursors at one moment.
#[derive(Debug, Clone, Default)]
pub struct Survey {
    /// Those that are alive, the oldest first.
    pub nodes: Vec<NodeSeen>,
    /// All there are.
    pub cursors: Vec<Cursor>,
}

/// Where a pair is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor {
    /// The pair.
    pub pair: PairId,
    /// Everything up to here was published, parked, or is not for it.
    pub position: Position,
    /// Whether it is worked.
    pub status: CursorStatus,
    /// How often it failed since it last succeeded.
    pub errors: u32,
    /// Why, the last time.
    pub last_error: Option<String>,
    /// The node that leads it, dead or alive.
    pub leader: Option<String>,
    /// Fencing epoch: grows each time the pair changes hands.
    pub epoch: i64,
    /// When something was published last.
    pub published_at: Option<Timestamp>,
    /// The fact that it waits at, if the last run failed.
    pub waits_at: Option<WaitsAt>,
}

/// A pair as it was seen before it is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The pair.
    pub pair: Arc<PairId>,
    /// Who had it.
    pub leader: Option<String>,
    /// Under which epoch.
    pub epoch: i64,
}

/// A cursor's way from one position to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// The pair.
    pub pair: Arc<PairId>,
    /// Under which epoch it is had.
    pub epoch: i64,
    /// Where it is.
    pub from: Position,
    /// Where it goes.
    pub to: Position,
    /// Whether anything was published.
    pub published: bool,
    /// How often it has failed since it last succeeded.
    pub errors: u32,
    /// Why, the last time.
    pub last_error: Option<String>,
    /// The fact that it waits at, if the last run failed. Since when, the database knows.
    pub waits_at: Option<Position>,
    /// Whether it stops as FAILED.
    pub fails: bool,
    /// What it leaves behind.
    pub parked: Vec<Park>,
}

impl Move {
    /// Goes nowhere: asks whether the cursor is there, in a run that published something.
    pub fn asks(pair: Arc<PairId>, epoch: i64, there: Position) -> Self {
        Self {
            pair,
            epoch,
            from: there,
            to: there,
            published: true,
            errors: 0,
            last_error: None,
            waits_at: None,
            fails: false,
            parked: Vec::new(),
        }
    }
}

/// What became of a [`Move`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// The cursor is there, and this status stands with it.
    Made(CursorStatus),
    /// The pair is another's, or its cursor is somewhere else.
    Fenced,
    /// Somebody has locked the row: nothing is known, and nothing was changed.
    Busy,
}

/// A fact to be parked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Park {
    /// Where it is.
    pub position: Position,
    /// How often it was tried.
    pub attempts: u32,
    /// When it is to be tried again, from now.
    pub delay: Duration,
    /// Why.
    pub error: String,
}

/// A fact that was parked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parked {
    /// By whom.
    pub pair: PairId,
    /// Where it is.
    pub position: Position,
    /// How often it was tried.
    pub attempts: u32,
    /// Since when it is parked.
    pub parked_at: Timestamp,
    /// When it is tried again; never by itself where there is none.
    pub next_at: Option<Timestamp>,
    /// Why.
    pub error: Option<String>,
}

/// What became of a fact that was parked and tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retried {
    /// It is published, and forgotten.
    Published,
    /// It is tried again after so long, or not by itself any more.
    Failed {
        /// How often it was tried by now.
        attempts: u32,
        /// From now.
        delay: Option<Duration>,
        /// Why.
        error: String,
    },
}

/// Which pairs are meant. Nothing said means all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Which {
    /// Those of this topic.
    pub topic: Option<String>,
    /// Those of this publisher.
    pub publisher: Option<String>,
}

impl Which {
    /// All pairs.
    pub fn all() -> Self {
        Self::default()
    }

    /// A publisher, in all its topics.
    pub fn publisher(name: impl Into<String>) -> Self {
        Self { topic: None, publisher: Some(name.into()) }
    }

    /// One pair.
    pub fn pair(pair: &PairId) -> Self {
        Self { topic: Some(pair.topic().into()), publisher: Some(pair.publisher().into()) }
    }

    /// Whether it means this one.
    pub fn means(&self, pair: &PairId) -> bool {
        self.topic.as_deref().is_none_or(|topic| topic == pair.topic())
            && self.publisher.as_deref().is_none_or(|publisher| publisher == pair.publisher())
    }
}

/// What an operator changes about pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// They stop after what they are at.
    Pause,
    /// They go on where they were; what had failed has to be reset.
    Resume,
    /// They go on where they were, and their errors are forgotten.
    Reset,
    /// They go on after this position, whatever their status is.
    MoveTo(Position),
}

impl Change {
    /// What it is called in the tables, and where to, if anywhere.
    pub fn in_words(self) -> (&'static str, Option<i64>) {
        match self {
            Self::Pause => ("PAUSE", None),
            Self::Resume => ("RESUME", None),
            Self::Reset => ("RESET", None),
            Self::MoveTo(position) => ("MOVE", Some(i64::from(position))),
        }
    }
}

/// A fact that was parked and tried again, by whom, and what became of it.
#[derive(Debug, Clone, Copy)]
pub struct TriedAgain<'a> {
    /// Who leads the pair.
    pub owner: &'a str,
    /// The epoch under which.
    pub epoch: i64,
    /// What was parked.
    pub parked: &'a Parked,
    /// What became of it.
    pub outcome: &'a Retried,
}

/// A page of what is parked.
#[derive(Debug, Clone, Copy)]
pub struct ParkedPage<'a> {
    /// By which pairs.
    pub which: &'a Which,
    /// What comes after this one.
    pub after: Option<(&'a PairId, Position)>,
    /// So many at most.
    pub limit: usize,
}

/// A change of what is parked.
#[derive(Debug, Clone, Copy)]
pub struct ChangeParked<'a> {
    /// By which pairs.
    pub which: &'a Which,
    /// At one position, or at all of them.
    pub position: Option<Position>,
    /// What is changed.
    pub change: ParkedChange,
}

/// What an operator changes about facts that were parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParkedChange {
    /// They are due now.
    Retry,
    /// They are forgotten.
    Discard,
}
