//! The partitions a table begins with. Maintenance makes the others.

use std::fmt::Write;
use std::time::Duration;

use sendoff_core::Timestamp;
use sendoff_core::partition::{Period, Policy, Survey, plan};

/// At least to the end of any month.
const AHEAD: Duration = Duration::from_secs(31 * 24 * 60 * 60);

/// This period and the next, and a tail for whatever comes later.
pub(crate) fn first(period: Period, now: Timestamp) -> String {
    let policy = Policy { period, lookahead: AHEAD, retention: None };
    let survey = Survey { now, partitions: Vec::new(), tail_oldest: None };
    let mut clause = String::from("\n  partition by range columns (created_at) (\n");
    for planned in plan(&policy, &survey).create.iter().take(2) {
        let (name, end) = (&planned.name, end(planned.to));
        let _ = writeln!(clause, "      partition {name} values less than ('{end}'),");
    }
    clause.push_str("      partition pmax values less than (maxvalue)\n  )");
    clause
}

/// When a partition ends: a day begins, or an hour.
pub(crate) fn end(end: Timestamp) -> String {
    let text = end.to_string().replacen('T', " ", 1);
    let seconds = text.get(.."2026-11-15 00:00:00".len()).unwrap_or(&text);
    seconds.strip_suffix(" 00:00:00").unwrap_or(seconds).to_owned()
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
        let hours = first(Period::Hour, now);
        assert!(hours.contains("partition p2028022823 values less than ('2028-02-29')"), "{hours}");
        let next = "partition p2028022900 values less than ('2028-02-29 01:00:00')";
        assert!(hours.contains(next), "{hours}");
        let months = first(Period::Month, now);
        assert!(months.contains("partition p202802 values less than ('2028-03-01')"), "{months}");
        assert!(months.contains("partition p202803 values less than ('2028-04-01')"), "{months}");
        assert!(months.trim_end().ends_with("partition pmax values less than (maxvalue)\n  )"));
    }
}
