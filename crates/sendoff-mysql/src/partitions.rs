//! The partitions a table begins with. Maintenance makes the others.

use std::fmt::Write;

use sendoff_core::Timestamp;

use crate::options::Period;
use crate::wire::civil;

/// This period and the next, and a tail for whatever comes later.
pub(crate) fn first(period: Period, now: Timestamp) -> String {
    let mut clause = String::from("\n  partition by range columns (created_at) (\n");
    let mut start = Start::of(period, now);
    for _ in 0..2 {
        let end = start.next();
        let _ = writeln!(
            clause,
            "      partition {} values less than ('{}'),",
            start.name(),
            end.date()
        );
        start = end;
    }
    clause.push_str("      partition pmax values less than (maxvalue)\n  )");
    clause
}

/// The first day of a period.
struct Start {
    period: Period,
    /// Since 1970-01-01.
    day: i64,
}

impl Start {
    fn of(period: Period, now: Timestamp) -> Self {
        let day = now.as_micros().div_euclid(24 * 60 * 60 * 1_000_000);
        match period {
            Period::Day => Self { period, day },
            Period::Month => Self { period, day: day - civil(day).2 + 1 },
        }
    }

    fn next(&self) -> Self {
        let day = match self.period {
            Period::Day => self.day + 1,
            // The last day of no month is the 32nd.
            Period::Month => self.day + 32 - civil(self.day + 31).2,
        };
        Self { period: self.period, day }
    }

    fn name(&self) -> String {
        let (year, month, day) = civil(self.day);
        match self.period {
            Period::Day => format!("p{year:04}{month:02}{day:02}"),
            Period::Month => format!("p{year:04}{month:02}"),
        }
    }

    fn date(&self) -> String {
        let (year, month, day) = civil(self.day);
        format!("{year:04}-{month:02}-{day:02}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds L6.
    #[test]
    fn a_table_begins_with_this_period_the_next_and_a_tail() {
        // 2028-02-28 23:59:59, in a leap year.
        let now = Timestamp::from_micros(1_835_395_199_000_000);
        let days = first(Period::Day, now);
        assert!(days.contains("partition p20280228 values less than ('2028-02-29')"), "{days}");
        assert!(days.contains("partition p20280229 values less than ('2028-03-01')"), "{days}");
        let months = first(Period::Month, now);
        assert!(months.contains("partition p202802 values less than ('2028-03-01')"), "{months}");
        assert!(months.contains("partition p202803 values less than ('2028-04-01')"), "{months}");
        assert!(months.trim_end().ends_with("partition pmax values less than (maxvalue)\n  )"));
    }
}
