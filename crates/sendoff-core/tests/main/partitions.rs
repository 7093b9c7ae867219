//! Plans of partitions over leap days, ends of months and changes of policy.

use std::time::Duration;

use proptest::prelude::*;
use sendoff_core::partition::{Existing, PartitionName, Period, Plan, Policy, Survey, plan};
use sendoff_core::{Timestamp, limits};

const HOUR: Duration = Duration::from_secs(60 * 60);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// 2024-02-28, 12:00.
const BEFORE_A_LEAP_DAY: i64 = 1_709_121_600_000_000;

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn days(count: u32) -> Duration {
    DAY * count
}

fn existing(plan: &Plan) -> Vec<Existing> {
    let there = |made: &sendoff_core::partition::Planned| Existing {
        name: Some(made.name.clone()),
        from: Some(made.from),
        to: Some(made.to),
    };
    plan.create.iter().map(there).collect()
}

fn names(plan: &Plan) -> Vec<&str> {
    plan.create.iter().map(|made| made.name.as_str()).collect()
}

fn policy(period: Period, lookahead: Duration) -> Policy {
    Policy { period, lookahead, retention: None }
}

fn fresh(now: Timestamp) -> Survey {
    Survey { now, partitions: Vec::new(), tail_oldest: None }
}

/// Holds L6: leap days and the ends of months and years.
#[test]
fn names_and_ranges_follow_the_calendar() {
    let now = at(BEFORE_A_LEAP_DAY);
    let daily = plan(&policy(Period::Day, days(2)), &fresh(now));
    assert_eq!(names(&daily), ["p20240228", "p20240229", "p20240301"]);
    assert_eq!(daily.create[1].from.to_string(), "2024-02-29T00:00:00.000000Z");
    assert_eq!(daily.create[1].to.to_string(), "2024-03-01T00:00:00.000000Z");
    let common_year = plan(&policy(Period::Day, days(1)), &fresh(now.saturating_sub(days(365))));
    assert_eq!(names(&common_year), ["p20230228", "p20230301"]);

    let december = now.saturating_add(days(300));
    let monthly = plan(&policy(Period::Month, days(30)), &fresh(december));
    assert_eq!(names(&monthly), ["p202412", "p202501"]);
    assert_eq!(monthly.create[0].to, monthly.create[1].from);
    assert_eq!(monthly.create[0].to.to_string(), "2025-01-01T00:00:00.000000Z");
}

/// Holds L6: by the hour, also over midnight and the end of a leap year's February.
#[test]
fn hours_have_names_of_their_own() {
    let now = at(BEFORE_A_LEAP_DAY).saturating_add(35 * HOUR).saturating_add(HOUR / 2);
    let hourly = plan(&policy(Period::Hour, 2 * HOUR), &fresh(now));
    assert_eq!(names(&hourly), ["p2024022923", "p2024030100", "p2024030101"]);
    assert_eq!(hourly.create[0].from.to_string(), "2024-02-29T23:00:00.000000Z");
    assert_eq!(hourly.create[0].to, hourly.create[1].from);
}

/// Holds L6: from hours to days and back, nothing is left out and nothing is covered twice.
#[test]
fn the_rest_of_a_day_that_began_by_hours_is_made_by_hours() {
    let now = at(BEFORE_A_LEAP_DAY);
    let hourly = plan(&policy(Period::Hour, 9 * HOUR), &fresh(now));
    let survey = Survey { partitions: existing(&hourly), ..fresh(now) };
    let daily = plan(&policy(Period::Day, DAY), &survey);
    assert_eq!(names(&daily), ["p2024022822", "p2024022823", "p20240229"]);
    let survey = Survey { partitions: existing(&daily), ..fresh(now.saturating_add(DAY)) };
    let hourly = plan(&policy(Period::Hour, DAY), &survey);
    assert_eq!(names(&hourly)[..2], ["p2024030100", "p2024030101"], "the day is covered");
}

/// Holds L6: after a long rest by the hour, days that are over are made whole, and a pass gets as far as
/// the present.
#[test]
fn what_was_missed_by_the_hour_is_made_by_day() {
    let now = at(BEFORE_A_LEAP_DAY);
    let survey = Survey { tail_oldest: Some(now.saturating_sub(days(60))), ..fresh(now) };
    let caught_up = plan(&policy(Period::Hour, HOUR), &survey);
    let names = names(&caught_up);
    assert_eq!(names[..2], ["p20231230", "p20231231"]);
    assert_eq!(names[58..62], ["p20240226", "p20240227", "p2024022800", "p2024022801"]);
    assert_eq!(names.last(), Some(&"p2024022813"));
}

/// Holds L6: days made before stay, and the rest of their month is made by day.
#[test]
fn a_change_from_days_to_months_leaves_no_gap_and_no_overlap() {
    let now = at(BEFORE_A_LEAP_DAY);
    let by_day = plan(&policy(Period::Day, days(20)), &fresh(now));
    let survey = Survey { partitions: existing(&by_day), ..fresh(now) };
    let by_month = plan(&policy(Period::Month, days(40)), &survey);
    assert_eq!(by_day.create.last().unwrap().name.as_str(), "p20240319");
    assert_eq!(names(&by_month)[..2], ["p20240320", "p20240321"]);
    assert_eq!(names(&by_month)[11..], ["p20240331", "p202404"]);

    let monthly = plan(&policy(Period::Month, days(40)), &fresh(now));
    let survey = Survey { partitions: existing(&monthly), ..fresh(now) };
    assert!(plan(&policy(Period::Day, days(20)), &survey).create.is_empty(), "covered already");
}

/// Holds L6: what fell into the tail while nobody made partitions gets its own, within the retention.
#[test]
fn a_gap_is_filled_as_far_back_as_rows_of_the_tail_go() {
    let now = at(BEFORE_A_LEAP_DAY);
    let survey = Survey { tail_oldest: Some(now.saturating_sub(days(3))), ..fresh(now) };
    let plan_with = |retention| plan(&Policy { retention, ..policy(Period::Day, DAY) }, &survey);
    let all = ["p20240225", "p20240226", "p20240227", "p20240228", "p20240229"];
    assert_eq!(names(&plan_with(None)), all);
    assert_eq!(names(&plan_with(Some(days(7)))), all);
    assert_eq!(names(&plan_with(Some(DAY))), all[2..]);
    let later = Survey { tail_oldest: Some(now.saturating_add(days(9))), ..fresh(now) };
    assert_eq!(names(&plan(&policy(Period::Day, DAY), &later)), all[3..], "the clock stepped back");
}

/// Holds L6: what others made, and what has no end, is not ours to drop.
#[test]
fn only_our_own_names_expire_and_the_boundary_itself_does() {
    let now = at(BEFORE_A_LEAP_DAY);
    let there = |name: Option<&str>, to: Option<Timestamp>| Existing {
        name: name.map(|name| name.parse().unwrap()),
        from: None,
        to,
    };
    let edge = now.saturating_sub(days(7));
    let partitions = vec![
        there(Some("p20240222"), Some(edge.saturating_add(Duration::from_micros(1)))),
        there(Some("p20240221"), Some(edge)),
        there(Some("p20240101"), Some(edge.saturating_sub(days(40)))),
        there(None, Some(edge)),
        there(Some("p20240102"), None),
    ];
    let survey = Survey { partitions, ..fresh(now) };
    let with = |retention| plan(&Policy { retention, ..policy(Period::Day, DAY) }, &survey).drop;
    let name = |text: &str| text.parse::<PartitionName>().unwrap();
    assert_eq!(with(Some(days(7))), [name("p20240101"), name("p20240221")]);
    assert!(with(None).is_empty());
}

/// Holds L6: times outside the calendar plan nothing rather than something wrong.
#[test]
fn the_ends_of_time_are_survived_and_a_pass_is_bounded() {
    for now in [i64::MIN, i64::MAX] {
        let everything =
            Policy { period: Period::Month, lookahead: Duration::MAX, retention: Some(DAY) };
        assert!(plan(&everything, &fresh(at(now))).create.is_empty());
    }
    let long = plan(&policy(Period::Day, Duration::MAX), &fresh(at(BEFORE_A_LEAP_DAY)));
    assert_eq!(long.create.len(), limits::PARTITIONS_PER_PASS);
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let period = prop_oneof![Just(Period::Hour), Just(Period::Day), Just(Period::Month)];
    (period, 0_u32..120, proptest::option::of(0_u32..60)).prop_map(|(period, ahead, kept)| Policy {
        period,
        lookahead: if period == Period::Hour { HOUR * ahead } else { days(ahead) },
        retention: kept.map(days),
    })
}

proptest! {
    /// Holds L6: whatever was done before, and however long nobody did anything, after a pass the
    /// present and the look-ahead are covered, nothing overlaps, and a second pass has nothing to do.
    #[test]
    fn the_present_is_always_covered_once(
        start in -60_000_000_000_000_000_i64..60_000_000_000_000_000,
        passes in prop::collection::vec((any_policy(), 0_u32..500, any::<bool>()), 1..6),
    ) {
        let mut now = at(start);
        let mut there: Vec<Existing> = Vec::new();
        for (policy, pause, rows_in_tail) in passes {
            now = now.saturating_add(days(pause).saturating_add(Duration::from_micros(start as u64 & 0xffff)));
            let tail_oldest = rows_in_tail.then(|| now.saturating_sub(days(pause / 2)));
            let survey = Survey { now, partitions: there.clone(), tail_oldest };
            let done = plan(&policy, &survey);
            for name in &done.drop {
                let dropped = there.iter().find(|old| old.name.as_ref() == Some(name)).unwrap();
                prop_assert!(dropped.to.unwrap() <= now, "the present is never dropped");
            }
            there.retain(|old| !done.drop.iter().any(|name| old.name.as_ref() == Some(name)));
            there.extend(existing(&done));
            there.sort_by_key(|old| old.from);
            for pair in there.windows(2) {
                prop_assert!(pair[0].to <= pair[1].from, "{:?} overlaps {:?}", pair[0], pair[1]);
            }
            for offset in 0..=policy.lookahead.as_secs() / HOUR.as_secs() {
                let time = now.saturating_add(HOUR * u32::try_from(offset).unwrap());
                let covering = there
                    .iter()
                    .filter(|old| old.from.unwrap() <= time && time < old.to.unwrap())
                    .count();
                prop_assert_eq!(covering, 1, "{} is covered once", time);
            }
            let again = plan(&policy, &Survey { now, partitions: there.clone(), tail_oldest: None });
            prop_assert!(again.create.is_empty(), "{:?}", again.create);
        }
    }

    /// Holds L6: every name planned is one that is read again.
    #[test]
    fn every_planned_name_is_read_again(now in any::<i64>(), policy in any_policy()) {
        for made in plan(&policy, &fresh(at(now))).create {
            prop_assert!(made.from < made.to);
            if made.from >= at(-62_135_596_800_000_000) {
                prop_assert_eq!(made.name.as_str().parse::<PartitionName>().unwrap(), made.name);
            }
        }
    }
}
