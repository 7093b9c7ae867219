//! Which partitions of a journal should be made, and which may be dropped.

use std::num::NonZeroU64;

use super::RangeName;
use crate::journal::Position;
use crate::limits;

/// How a journal is cut into partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct Ranges {
    /// Positions in one partition.
    pub size: NonZeroU64,
    /// Partitions that are there before they are needed.
    pub ahead: u32,
    /// Positions in a partition that takes over rows from the tail, where they fell because none was
    /// there: appends wait while they move.
    pub most_moved: NonZeroU64,
}

impl Ranges {
    /// 1,000,000 positions each, 3 ahead, and 20,000 where rows of the tail have to move.
    pub const DEFAULT: Self = Self {
        size: NonZeroU64::new(1_000_000).expect("it is not zero"),
        ahead: 3,
        most_moved: NonZeroU64::new(20_000).expect("it is not zero"),
    };
}

impl Default for Ranges {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A partition that is there: `from` is in it, `to` is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExistingRange {
    /// Its name; `None` where it was not given by us.
    pub name: Option<RangeName>,
    /// Its beginning; `None` where it has none.
    pub from: Option<Position>,
    /// Its end; `None` where it has none.
    pub to: Option<Position>,
}

impl ExistingRange {
    fn covers(&self, position: Position) -> bool {
        self.from.is_none_or(|from| from <= position) && self.to.is_none_or(|to| position < to)
    }
}

/// The partitions of one table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RangeSurvey {
    /// Every partition but the tail.
    pub partitions: Vec<ExistingRange>,
    /// The lowest position in the tail.
    pub tail_lowest: Option<Position>,
}

/// A partition to be made: `from` is in it, `to` is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedRange {
    /// What to call it.
    pub name: RangeName,
    /// Its beginning.
    pub from: Position,
    /// Its end.
    pub to: Position,
}

/// Decides which partitions to make, the lowest first.
///
/// Made is what covers the positions from the next one to the end of the look-ahead, and those of rows
/// in the tail. Partitions begin at whole multiples of their size, and never overlap what is there.
pub fn to_make(ranges: &Ranges, head: Position, survey: &RangeSurvey) -> Vec<PlannedRange> {
    let size = ranges.size.get();
    let lowest = survey.tail_lowest.map_or(head.next(), |lowest| lowest.min(head.next()));
    // The last cell is the one so many after the cell of the next position.
    let until = cell_of(head.next(), size).ahead(size.saturating_mul(u64::from(ranges.ahead) + 1));
    let mut made = Vec::new();
    // Not from the beginning of the cell where part of it was there: that part was dropped.
    let ends = survey.partitions.iter().filter_map(|there| there.to).filter(|to| *to <= lowest);
    let covered = survey.partitions.iter().any(|there| there.covers(lowest));
    let begins =
        if covered || survey.tail_lowest.is_some() { lowest } else { cell_of(lowest, size) };
    let mut at = ends.max().map_or(begins, |end| end.max(begins));
    while at < until && made.len() < limits::PARTITIONS_PER_PASS {
        if let Some(there) = survey.partitions.iter().find(|there| there.covers(at)) {
            let Some(to) = there.to else { break };
            at = to;
            continue;
        }
        let cell_end = cell_of(at, size).ahead(size);
        let next =
            survey.partitions.iter().filter_map(|there| there.from).filter(|f| *f > at).min();
        let mut to = next.map_or(cell_end, |next| next.min(cell_end));
        // As many positions as rows may move: there cannot be more rows than positions.
        if survey.tail_lowest.is_some_and(|lowest| lowest < to) && at <= head {
            to = to.min(at.ahead(ranges.most_moved.get()));
        }
        made.push(PlannedRange { name: RangeName(at), from: at, to });
        at = to;
    }
    made
}

/// The beginning of the cell that a position is in: 1, 1 + size, 1 + 2 · size …
fn cell_of(position: Position, size: u64) -> Position {
    let from = position.back(1).get() / size * size;
    Position::START.ahead(from.saturating_add(1))
}

/// Decides which partitions may go whole, the lowest first: those that end at or below `up_to` and
/// bear a name of ours.
pub fn to_drop(up_to: Position, partitions: &[ExistingRange]) -> Vec<RangeName> {
    let ends = |there: &&ExistingRange| there.to.is_some_and(|to| to.back(1) <= up_to);
    let mut over: Vec<_> = partitions.iter().filter(ends).filter_map(|there| there.name).collect();
    over.sort_unstable();
    over
}

/// The last position below everything that these tables hold: up to here an index of theirs is of no
/// use any more.
pub fn below(survey: &RangeSurvey) -> Position {
    let lowest = survey.partitions.iter().map(|there| there.from.unwrap_or_default());
    lowest.chain(survey.tail_lowest).min().map_or(Position::END, |lowest| lowest.back(1))
}
