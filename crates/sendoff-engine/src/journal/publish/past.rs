//! What lies before the window, for pairs that lag: read in pages, one after the other, the next one
//! while the last is published, and kept for a while, because pairs that lag often lag together.

use std::collections::VecDeque;

use sendoff_core::journal::{Position, Topic};
use sendoff_core::limits;

use super::window::{Cut, Row, cut};

/// Rows of a page, at least, where many wait.
const PAGE: usize = 100;

/// Pages that were read, and those that somebody wants. Bounded: the oldest goes first.
#[derive(Debug)]
pub(super) struct Past {
    pages: VecDeque<Page>,
    /// After which positions pages are wanted, in the order of asking.
    wanted: VecDeque<Position>,
    reading: Option<Position>,
    /// How often it was forgotten: what was being read by then does not count.
    times: u64,
    rows_max: usize,
    bytes_max: usize,
}

/// A page to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) after: Position,
    pub(super) most: usize,
    times: u64,
}

/// Everything after `after`, up to `up_to`.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) after: Position,
    pub(super) up_to: Position,
    pub(super) rows: Vec<Row>,
}

impl Page {
    fn reaches(&self, position: Position) -> bool {
        self.after <= position && position < self.up_to
    }

    fn bytes(&self) -> usize {
        self.rows.iter().map(Row::bytes).sum()
    }
}

impl Past {
    pub(super) fn new(rows_max: usize, bytes_max: usize) -> Self {
        Self {
            pages: VecDeque::new(),
            wanted: VecDeque::new(),
            reading: None,
            times: 0,
            rows_max,
            bytes_max,
        }
    }

    /// What a topic selects after a position, up to the end of the page that has it; none where there
    /// is no such page.
    pub(super) fn cut(&self, after: Position, topic: &Topic, most: usize) -> Option<Cut> {
        let page = self.page(after)?;
        let from = page.rows.partition_point(|row| row.position <= after);
        Some(cut(page.rows[from..].iter(), page.up_to, topic, most))
    }

    /// Asks for the page after a position; or, where it is there, for the one after that, so that it
    /// is there in time. Nothing is wanted from `floor` on.
    pub(super) fn want(&mut self, after: Position, floor: Position) {
        let missing = self.page(after).map_or(after, |page| page.up_to);
        let known = self.reading == Some(missing)
            || self.wanted.contains(&missing)
            || self.page(missing).is_some();
        if missing < floor && !known {
            self.wanted.push_back(missing);
        }
    }

    /// The page to be read next; none while one is being read.
    pub(super) fn next(&mut self) -> Option<Wanted> {
        if self.reading.is_some() {
            return None;
        }
        let waiting = self.wanted.len().max(1);
        let after = self.wanted.pop_front()?;
        self.reading = Some(after);
        let most = (limits::BATCH_ROWS / waiting).max(PAGE);
        Some(Wanted { after, most, times: self.times })
    }

    /// Keeps a page that was read.
    pub(super) fn add(&mut self, wanted: Wanted, page: Page) {
        if wanted.times != self.times {
            return;
        }
        self.reading = None;
        if page.up_to <= page.after {
            // Not decided yet: whoever wants it asks again.
            return;
        }
        self.pages.push_back(page);
        let rows = |pages: &VecDeque<Page>| pages.iter().map(|page| page.rows.len()).sum::<usize>();
        let bytes = |pages: &VecDeque<Page>| pages.iter().map(Page::bytes).sum::<usize>();
        while self.pages.len() > 1
            && (rows(&self.pages) > self.rows_max || bytes(&self.pages) > self.bytes_max)
        {
            self.pages.pop_front();
        }
    }

    /// Nothing of it can be relied on, or nothing could be read: whoever still wants a page asks again.
    pub(super) fn forget(&mut self) {
        self.pages.clear();
        self.wanted.clear();
        self.reading = None;
        self.times += 1;
    }

    /// The last one read of those that reach it: an older one may end earlier.
    fn page(&self, after: Position) -> Option<&Page> {
        self.pages.iter().rev().find(|page| page.reaches(after))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sendoff_core::Timestamp;
    use sendoff_core::journal::{Fact, Recorded};

    use super::*;

    fn at(number: u64) -> Position {
        Position::new(number).unwrap()
    }

    fn page(after: u64, up_to: u64) -> Page {
        let row = |number| {
            let fact = Fact::builder(("a", "{}")).build().unwrap();
            let recorded_at = Timestamp::from_micros(0);
            let recorded = Recorded { position: at(number), recorded_at, fact };
            Row { position: at(number), fact: Ok(Arc::new(recorded)) }
        };
        Page { after: at(after), up_to: at(up_to), rows: (after + 1..=up_to).map(row).collect() }
    }

    /// Wants and reads a page.
    fn read(past: &mut Past, after: u64, up_to: u64) {
        past.want(at(after), at(10_000));
        let wanted = past.next().unwrap();
        assert_eq!(wanted.after, at(after));
        past.add(wanted, page(after, up_to));
    }

    #[test]
    fn the_next_page_is_wanted_while_one_is_there_and_each_once() {
        let mut past = Past::new(1_000, 1_000_000);
        past.want(at(0), at(500));
        past.want(at(0), at(500));
        let first = past.next().unwrap();
        assert_eq!(past.next(), None, "one at a time");
        past.want(at(0), at(500));
        past.add(first, page(0, 100));
        assert_eq!(past.next(), None, "it was being read already");
        read(&mut past, 100, 200);
        past.want(at(150), at(200));
        assert_eq!(past.next(), None, "the window begins there");
    }

    #[test]
    fn a_cut_ends_with_its_page() {
        let topic = Topic::builder("t").build().unwrap();
        let mut past = Past::new(1_000, 1_000_000);
        read(&mut past, 10, 15);
        let cut = |after, most| {
            let cut = past.cut(at(after), &topic, most)?;
            Some((cut.facts.len(), cut.up_to.get()))
        };
        assert_eq!(cut(9, 10), None);
        assert_eq!(cut(10, 2), Some((2, 12)));
        assert_eq!(cut(12, 10), Some((3, 15)));
        assert_eq!(cut(15, 10), None);
    }

    #[test]
    fn it_is_bounded_by_rows_and_by_bytes_and_shared_by_those_who_wait() {
        let mut past = Past::new(150, 1_000_000);
        past.want(at(0), at(5_000));
        let first = past.next().unwrap();
        past.add(first, page(0, 100));
        past.want(at(2_000), at(5_000));
        let second = past.next().unwrap();
        assert_eq!(second.most, limits::BATCH_ROWS);
        past.add(second, page(2_000, 2_100));
        assert!(past.page(at(50)).is_none(), "the oldest goes first");
        (0..20).for_each(|n| past.want(at(3_000 + n), at(5_000)));
        assert_eq!(past.next().unwrap().most, PAGE);
    }

    #[test]
    fn what_was_being_read_when_it_was_forgotten_does_not_count() {
        let mut past = Past::new(1_000, 1_000_000);
        past.want(at(0), at(500));
        let before = past.next().unwrap();
        past.forget();
        past.add(before, page(0, 100));
        assert!(past.page(at(0)).is_none());
        read(&mut past, 0, 100);
        assert!(past.page(at(0)).is_some());
    }
}
