//! Turns and medians. Nothing here takes a time, so that all of it can be tested.

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    /// From 0.
    pub(crate) round: usize,
    /// The contender, from 0.
    pub(crate) contender: usize,
}

/// Every contender once a round. Each round begins with another one: whatever the first leaves
/// behind (a warm cache, a checkpoint that is due) must not always fall to the same.
pub(crate) fn turns(rounds: usize, contenders: usize) -> impl Iterator<Item = Turn> {
    (0..rounds).flat_map(move |round| {
        (0..contenders).map(move |place| Turn { round, contender: (round + place) % contenders })
    })
}

/// What was measured, by contender, in the order of the rounds.
#[derive(Debug, Clone)]
pub(crate) struct Tally<K, T> {
    series: Vec<(K, Vec<T>)>,
}

impl<K: Copy + PartialEq, T> Tally<K, T> {
    pub(crate) fn new(contenders: &[K]) -> Self {
        Self { series: contenders.iter().map(|&contender| (contender, Vec::new())).collect() }
    }

    /// Adds a value to the contender at `place`.
    pub(crate) fn add(&mut self, place: usize, value: T) {
        if let Some((_, values)) = self.series.get_mut(place) {
            values.push(value);
        }
    }

    /// A figure of each round of a contender; none where it took no part.
    pub(crate) fn of<F>(&self, contender: K, figure: impl Fn(&T) -> F) -> Vec<F> {
        let mine = self.series.iter().filter(|(known, _)| *known == contender);
        mine.flat_map(|(_, values)| values).map(figure).collect()
    }
}

/// The middle value, or the mean of the two in the middle; nothing of nothing.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { f64::midpoint(sorted[middle - 1], upper) })
}

/// How the medians compare; nothing where either side is missing or the limit is zero.
pub(crate) fn ratio(ours: &[f64], limit: &[f64]) -> Option<f64> {
    let (ours, limit) = (median(ours)?, median(limit)?);
    (limit > 0.0).then(|| ours / limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(rounds: usize, contenders: usize) -> Vec<Vec<usize>> {
        let mut rows = vec![Vec::new(); rounds];
        for turn in turns(rounds, contenders) {
            rows[turn.round].push(turn.contender);
        }
        rows
    }

    #[test]
    fn two_take_turns_in_going_first() {
        assert_eq!(order(4, 2), [[0, 1], [1, 0], [0, 1], [1, 0]]);
    }

    #[test]
    fn everybody_goes_first_equally_often() {
        assert_eq!(order(3, 3), [[0, 1, 2], [1, 2, 0], [2, 0, 1]]);
    }

    #[test]
    fn nobody_to_measure_is_no_turn() {
        assert_eq!(turns(3, 0).count() + turns(0, 3).count(), 0);
    }

    #[test]
    fn a_median_is_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0), "one bad round does not count");
        assert_eq!(median(&[4.0, 1.0, 2.0, 100.0]), Some(3.0));
    }

    #[test]
    fn a_ratio_needs_both_sides() {
        assert_eq!(ratio(&[30.0, 10.0, 20.0], &[40.0]), Some(0.5));
        assert_eq!(ratio(&[], &[40.0]), None);
        assert_eq!(ratio(&[40.0], &[]), None);
        assert_eq!(ratio(&[40.0], &[0.0]), None);
    }

    #[test]
    fn values_stay_with_their_contender() {
        let mut tally = Tally::new(&['a', 'b']);
        for turn in turns(2, 2) {
            tally.add(turn.contender, (turn.round * 10 + turn.contender) as f64);
        }
        assert_eq!(tally.of('a', |value| *value), [0.0, 10.0]);
        assert_eq!(tally.of('b', |value| *value), [1.0, 11.0]);
        assert!(tally.of('c', |value| *value).is_empty());
    }
}
