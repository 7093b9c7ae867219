//! What of a page may run side by side, and how far that has come.

use std::collections::HashMap;

use sendoff_core::ReplayPosition;

use crate::store::DoneRow;

/// Keys of which it is remembered how far they are, beyond a page.
const KEYS: usize = 10_000;

/// The rows of a page that run one after the other, each with its place on the page.
pub(super) type Chain = Vec<(usize, DoneRow)>;

/// Takes a page apart: what has a key with the others of that key, in the order of their numbers; what has none
/// together, in the order of the page. Those whose first row stands first come first.
pub(super) fn chains(rows: Vec<DoneRow>) -> Vec<Chain> {
    let mut of_key: HashMap<Option<String>, usize> = HashMap::new();
    let mut chains: Vec<(bool, Chain)> = Vec::new();
    for (place, row) in rows.into_iter().enumerate() {
        let key = key_of(&row).map(str::to_owned);
        let has_key = key.is_some();
        let chain = *of_key.entry(key).or_insert_with(|| {
            chains.push((has_key, Vec::new()));
            chains.len() - 1
        });
        chains[chain].1.push((place, row));
    }
    let sorted = |(has_key, mut chain): (bool, Chain)| {
        if has_key {
            chain.sort_by_key(|(_, row)| row.position.seq);
        }
        chain
    };
    chains.into_iter().map(sorted).collect()
}

/// The key of a row that can be read.
pub(super) fn key_of(row: &DoneRow) -> Option<&str> {
    row.event.as_ref().ok().and_then(|event| event.ordering_key())
}

/// Which rows of a page are over, and up to where all of them are.
#[derive(Debug, Default)]
pub(super) struct Finished {
    places: Vec<(ReplayPosition, bool)>,
    all: usize,
}

impl Finished {
    pub(super) fn none_of(rows: &[DoneRow]) -> Self {
        Self { places: rows.iter().map(|row| (row.position, false)).collect(), all: 0 }
    }

    /// Whether all of them are.
    pub(super) fn is_whole(&self) -> bool {
        self.all == self.places.len()
    }

    /// One more is over. Answers up to where all are now, if that is further than before.
    pub(super) fn add(&mut self, place: usize) -> Option<ReplayPosition> {
        if let Some((_, over)) = self.places.get_mut(place) {
            *over = true;
        }
        let before = self.all;
        while self.places.get(self.all).is_some_and(|(_, over)| *over) {
            self.all += 1;
        }
        (self.all > before).then(|| self.places[self.all - 1].0)
    }
}

/// How far each key is, as far as that is remembered.
#[derive(Debug, Default)]
pub(super) struct LastOfKey(HashMap<String, i64>);

impl LastOfKey {
    /// Whether an event of this key with a higher number was there before.
    pub(super) fn is_late(&mut self, key: &str, seq: i64) -> bool {
        if let Some(last) = self.0.get_mut(key) {
            let late = seq < *last;
            *last = seq.max(*last);
            return late;
        }
        // With more keys than that it begins anew: what is counted is then too few, never too many.
        if self.0.len() >= KEYS {
            self.0.clear();
        }
        self.0.insert(key.to_owned(), seq);
        false
    }
}

#[cfg(test)]
mod tests {
    use sendoff_core::{Event, Timestamp, Undecodable};

    use super::*;

    fn row(key: Option<&str>, done_at: i64, seq: i64) -> DoneRow {
        let mut event = Event::builder("t").json_text("{}");
        if let Some(key) = key {
            event = event.ordering_key(key);
        }
        let event = event.build().expect("a good event");
        let done_at = Timestamp::from_micros(done_at);
        let position = ReplayPosition { done_at, seq };
        DoneRow { id: event.id(), position, created_at: done_at, event: Ok(event) }
    }

    #[test]
    fn keys_run_side_by_side_each_by_its_numbers_and_the_rest_in_the_page_s_order() {
        let rows = vec![
            row(Some("a"), 1, 5),
            row(None, 1, 9),
            row(Some("b"), 2, 1),
            row(Some("a"), 3, 2),
            row(None, 4, 4),
            DoneRow {
                event: Err(Undecodable { field: "headers", source: None }),
                ..row(None, 5, 6)
            },
        ];
        let told: Vec<Vec<(usize, i64)>> = chains(rows)
            .into_iter()
            .map(|chain| chain.iter().map(|(place, row)| (*place, row.position.seq)).collect())
            .collect();
        assert_eq!(told, [vec![(3, 2), (0, 5)], vec![(1, 9), (4, 4), (5, 6)], vec![(2, 1)]]);
    }

    #[test]
    fn a_mark_is_where_everything_before_it_is_over() {
        let rows: Vec<_> = (0..4).map(|seq| row(None, 1, seq)).collect();
        let mut finished = Finished::none_of(&rows);
        let seqs: Vec<Option<i64>> =
            [2, 1, 0, 3].into_iter().map(|place| finished.add(place).map(|at| at.seq)).collect();
        assert_eq!(seqs, [None, None, Some(2), Some(3)]);
    }

    #[test]
    fn what_comes_after_a_higher_number_of_its_key_is_late() {
        let mut last = LastOfKey::default();
        let late: Vec<bool> = [("a", 1), ("a", 3), ("b", 2), ("a", 2), ("a", 4)]
            .into_iter()
            .map(|(key, seq)| last.is_late(key, seq))
            .collect();
        assert_eq!(late, [false, false, false, true, false]);
        (0..=KEYS).for_each(|number| _ = last.is_late(&number.to_string(), 1));
        assert!(last.0.len() <= KEYS);
    }
}
