//! How many rows go into one statement, learned from how long the last ones took.

use sendoff_core::limits;

/// How many rows go into one statement: half as many after one that took too long, twice as many
/// after some that were answered. The more often it took too long, the more of them: a database that
/// is slow for long is not asked for too much every other time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fit {
    rows: usize,
    /// Full statements that were answered in a row, and how many it takes to grow.
    answered: u32,
    patience: u32,
}

const LONGEST_PATIENCE: u32 = 256;

impl Fit {
    pub(crate) fn rows(self) -> usize {
        self.rows
    }

    pub(crate) fn answered(&mut self, rows: usize) {
        if rows < self.rows || self.rows == limits::BATCH_ROWS {
            return;
        }
        self.answered += 1;
        if self.answered >= self.patience {
            self.rows = (self.rows * 2).min(limits::BATCH_ROWS);
            self.answered = 0;
        }
        if self.rows == limits::BATCH_ROWS {
            self.patience = 1;
        }
    }

    pub(crate) fn too_long(&mut self, rows: usize) {
        self.rows = self.rows.min((rows / 2).max(1));
        self.answered = 0;
        self.patience = (self.patience * 2).min(LONGEST_PATIENCE);
    }
}

impl Default for Fit {
    fn default() -> Self {
        Self { rows: limits::BATCH_ROWS, answered: 0, patience: 1 }
    }
}

/// Cuts what failed together into two, so that whatever is the reason is found by itself in the end.
pub(crate) fn halves<T>(mut whole: Vec<T>) -> [Vec<T>; 2] {
    let rest = whole.split_off(whole.len().div_ceil(2));
    [whole, rest]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_shrinks_when_it_takes_too_long_and_grows_by_itself() {
        let mut fit = Fit::default();
        fit.too_long(600);
        assert_eq!(fit.rows(), 300);
        fit.answered(20);
        fit.answered(20);
        assert_eq!(fit.rows(), 300, "small ones prove nothing");
        (0..4).for_each(|_| fit.answered(600));
        assert_eq!(fit.rows(), limits::BATCH_ROWS);
        fit.too_long(1);
        assert_eq!(fit.rows(), 1);
    }

    #[test]
    fn a_database_that_stays_slow_is_seldom_asked_for_too_much() {
        let (mut fit, mut too_long) = (Fit::default(), 0);
        for _ in 0..2_000 {
            let rows = fit.rows();
            if rows > 40 {
                too_long += 1;
                fit.too_long(rows);
            } else {
                fit.answered(rows);
            }
        }
        assert!(too_long < 20, "{too_long} of 2000");
    }

    #[test]
    fn halves_are_all_of_it() {
        assert_eq!(halves(vec![1, 2, 3]), [vec![1, 2], vec![3]]);
        assert_eq!(halves(vec![1]), [vec![1], vec![]]);
    }
}
