//! The journal's end, in memory, for all pairs.

use std::collections::VecDeque;
use std::sync::Arc;

use sendoff_core::journal::{Position, Recorded, Topic};
use sendoff_core::report;

use crate::journal::store::TailRow;

/// A row, also one that is no fact any more.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) position: Position,
    pub(super) fact: Result<Arc<Recorded>, String>,
}

impl From<TailRow> for Row {
    fn from(row: TailRow) -> Self {
        let fact = row.recorded.map(Arc::new).map_err(|error| report(&error));
        Self { position: row.position, fact }
    }
}

impl Row {
    pub(super) fn bytes(&self) -> usize {
        self.fact.as_ref().map_or(0, |fact| fact.event().size())
    }
}

/// Everything between `floor` and `head`; all of it is decided. Bounded: the oldest goes first.
#[derive(Debug)]
pub(super) struct Window {
    rows: VecDeque<Row>,
    /// The bytes that had gone by with each row, since the window began.
    gone_by: VecDeque<u64>,
    floor: Position,
    head: Position,
    bytes: usize,
    rows_max: usize,
    bytes_max: usize,
}

/// What a pair finds after its position.
#[derive(Debug, Default)]
pub(super) struct Cut {
    /// What is to be published.
    pub(super) facts: Vec<Arc<Recorded>>,
    /// Everything up to here is in it, or not for the pair.
    pub(super) up_to: Position,
    /// The row at `up_to` is nothing that could be published, and why.
    pub(super) broken: Option<String>,
}

impl Cut {
    /// Whether there is nothing in it to be published.
    pub(super) fn passes_only(&self) -> bool {
        self.facts.is_empty() && self.broken.is_none()
    }
}

impl Window {
    pub(super) fn new(rows_max: usize, bytes_max: usize) -> Self {
        let (rows, gone_by, start) = (VecDeque::new(), VecDeque::new(), Position::START);
        Self { rows, gone_by, floor: start, head: start, bytes: 0, rows_max, bytes_max }
    }

    /// Begins again, empty, after a position up to which everything is decided.
    pub(super) fn begin(&mut self, floor: Position) {
        self.rows.clear();
        self.gone_by.clear();
        (self.floor, self.head, self.bytes) = (floor, floor, 0);
    }

    pub(super) fn floor(&self) -> Position {
        self.floor
    }

    /// How far it was read.
    pub(super) fn end(&self) -> Position {
        self.head
    }

    /// Adds what a look passed on.
    pub(super) fn extend(&mut self, rows: Vec<TailRow>, up_to: Position) {
        for row in rows.into_iter().map(Row::from) {
            let bytes = row.bytes();
            self.bytes += bytes;
            self.gone_by.push_back(self.gone_by.back().unwrap_or(&0) + bytes as u64);
            self.rows.push_back(row);
        }
        self.head = self.head.max(up_to);
        while self.rows.len() > self.rows_max
            || (self.bytes > self.bytes_max && self.rows.len() > 1)
        {
            let Some(row) = self.rows.pop_front() else { break };
            self.gone_by.pop_front();
            self.bytes -= row.bytes();
            self.floor = row.position;
        }
    }

    /// Whether more is wanted for whoever is at a position: what it finds is less than half of what the
    /// window holds. So nothing that it has not seen is dropped for what comes.
    pub(super) fn wants_more(&self, position: Position) -> bool {
        let passed = self.rows.partition_point(|row| row.position <= position);
        let rows = self.rows.len() - passed;
        let bytes = match (passed.checked_sub(1), self.gone_by.back()) {
            (_, None) => 0,
            (None, Some(_)) => self.bytes as u64,
            (Some(last), Some(all)) => all - self.gone_by[last],
        };
        rows <= self.rows_max / 2 && bytes <= self.bytes_max as u64 / 2
    }

    /// What a topic selects after a position; none where the window does not reach back so far.
    pub(super) fn cut(&self, after: Position, topic: &Topic, most: usize) -> Option<Cut> {
        if after < self.floor {
            return None;
        }
        let from = self.rows.partition_point(|row| row.position <= after);
        Some(cut(self.rows.range(from..), self.head.max(after), topic, most))
    }
}

/// Cuts rows where the pair's run ends: it is full, or something is broken, or there are no more.
pub(super) fn cut<'r>(
    rows: impl Iterator<Item = &'r Row>,
    end: Position,
    topic: &Topic,
    most: usize,
) -> Cut {
    let mut cut = Cut { up_to: end, ..Cut::default() };
    let mut before = None;
    for row in rows {
        match &row.fact {
            Ok(fact) if !topic.selects(&fact.fact) => {}
            Ok(fact) if cut.facts.len() < most => cut.facts.push(Arc::clone(fact)),
            Err(error) if cut.facts.is_empty() => {
                cut.up_to = row.position;
                cut.broken = Some(error.clone());
                return cut;
            }
            // Not this time. What is between is not for the pair.
            Ok(_) | Err(_) => {
                cut.up_to = before.unwrap_or(cut.up_to);
                return cut;
            }
        }
        before = Some(row.position);
    }
    cut
}

#[cfg(test)]
mod tests {
    use sendoff_core::Timestamp;
    use sendoff_core::journal::Fact;

    use super::*;

    fn position(number: u64) -> Position {
        Position::new(number).unwrap()
    }

    fn row(number: u64, event_type: &str) -> TailRow {
        let fact = Fact::builder((event_type, "{}")).build().unwrap();
        let recorded_at = Timestamp::from_micros(0);
        let recorded = Recorded { position: position(number), recorded_at, fact };
        TailRow { position: position(number), recorded: Ok(recorded) }
    }

    fn found(cut: &Cut) -> (Vec<u64>, u64) {
        (cut.facts.iter().map(|fact| fact.position.get()).collect(), cut.up_to.get())
    }

    #[test]
    fn a_cut_ends_where_it_is_full_and_passes_what_is_not_for_it() {
        let topic = Topic::builder("t").types(["a"]).build().unwrap();
        let mut window = Window::new(10, 1_000);
        window.begin(position(3));
        window.extend(vec![row(5, "a"), row(6, "b"), row(7, "a"), row(8, "b")], position(9));
        let cut = |after, most| window.cut(position(after), &topic, most);
        assert!(cut(2, 5).is_none(), "before the window");
        assert_eq!(found(&cut(3, 5).unwrap()), (vec![5, 7], 9));
        assert_eq!(found(&cut(3, 1).unwrap()), (vec![5], 6));
        assert_eq!(found(&cut(5, 1).unwrap()), (vec![7], 9));
        assert_eq!(found(&cut(9, 1).unwrap()), (vec![], 9));
        assert_eq!(found(&cut(20, 1).unwrap()), (vec![], 20));
    }

    #[test]
    fn it_is_bounded_by_rows_and_by_bytes() {
        let mut window = Window::new(3, 5);
        window.extend((1..=4).map(|number| row(number, "a")).collect(), position(4));
        // Two bytes each.
        assert_eq!((window.floor().get(), window.rows.len()), (2, 2));
    }

    #[test]
    fn more_is_wanted_while_what_was_not_seen_is_less_than_half_of_what_it_holds() {
        let fill = |rows_max, bytes_max, count| {
            let mut window = Window::new(rows_max, bytes_max);
            window.extend((1..=count).map(|number| row(number, "a")).collect(), position(count));
            window
        };
        let by_rows = fill(8, 1_000, 5);
        assert!(!by_rows.wants_more(Position::START) && by_rows.wants_more(position(1)));
        // Two bytes each.
        let by_bytes = fill(100, 16, 5);
        assert!(!by_bytes.wants_more(Position::START) && by_bytes.wants_more(position(1)));
        assert!(fill(100, 16, 0).wants_more(Position::START));
        let moved_on = fill(100, 16, 20);
        assert!(!moved_on.wants_more(position(14)) && moved_on.wants_more(position(16)));
    }
}
