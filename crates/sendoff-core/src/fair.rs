//! Fair share by tenant: how many rows of a claim each tenant gets.
//!
//! A claim walks over tenants, from the one after the last that was served, and shares its rows among those
//! that wait, by their weights. What one of them has no use for goes to the others.

use std::collections::BTreeMap;

/// The name that events without a tenant go by: together they count as one.
pub const NO_TENANT: &str = "";

/// What a tenant weighs that has no weight of its own.
pub const USUAL_WEIGHT: u32 = 1;

/// How much tenants count beside each other: one of weight 3 gets three times as many rows as one of weight 1,
/// while both have enough. 1 for whoever is not named; [`NO_TENANT`] is the name of events without one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Weights(BTreeMap<String, u32>);

impl Weights {
    /// These. Nobody weighs nothing: a weight of 0 counts as 1.
    pub fn new(weights: BTreeMap<String, u32>) -> Self {
        Self(weights)
    }

    /// The weight of a tenant.
    pub fn of(&self, tenant: &str) -> u32 {
        self.0.get(tenant).copied().unwrap_or(USUAL_WEIGHT).max(1)
    }
}

/// What a tenant may have of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Its name, or [`NO_TENANT`].
    pub tenant: String,
    /// At most so many rows.
    pub rows: usize,
}

/// Shares `rows` among tenants that wait, in their order: `weight × rows / Σ weights` each, rounded down, but at
/// least one; what rounding leaves goes to the first of them. All of it is given, and no more. Where there are
/// more tenants than rows, the first ones get one each and the others none.
pub fn shares(tenants: Vec<String>, weights: &Weights, rows: usize) -> Vec<Share> {
    let tenants: Vec<String> = tenants.into_iter().take(rows).collect();
    let sum: u128 = tenants.iter().map(|tenant| u128::from(weights.of(tenant))).sum();
    let part = |tenant: &str| {
        let exact = u128::from(weights.of(tenant)) * rows as u128 / sum.max(1);
        usize::try_from(exact).unwrap_or(rows).max(1)
    };
    let mut given: Vec<Share> =
        tenants.into_iter().map(|tenant| Share { rows: part(&tenant), tenant }).collect();
    let mut total: usize = given.iter().map(|share| share.rows).sum();
    // Those who weigh too little for a row got one all the same: from whoever has most.
    while total > rows {
        let Some(most) = given.iter_mut().rev().max_by_key(|share| share.rows) else { break };
        most.rows -= 1;
        total -= 1;
    }
    let rest = rows - total;
    let count = given.len().max(1);
    for (at, share) in given.iter_mut().enumerate() {
        share.rows += rest / count + usize::from(at < rest % count);
    }
    given
}

/// Who gets the rows that are left of a claim: those that `took` all that they were given, and so may have more.
/// Nothing, if nobody did or nothing is left.
pub fn shares_of_rest(
    given: &[Share],
    took: impl Fn(&str) -> usize,
    weights: &Weights,
    rest: usize,
) -> Vec<Share> {
    let hungry = given.iter().filter(|share| took(&share.tenant) >= share.rows);
    shares(hungry.map(|share| share.tenant.clone()).collect(), weights, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|at| format!("t{at:03}")).collect()
    }

    fn weights<const N: usize>(weights: [(&str, u32); N]) -> Weights {
        Weights::new(weights.map(|(tenant, weight)| (tenant.to_owned(), weight)).into())
    }

    fn rows(given: &[Share]) -> Vec<usize> {
        given.iter().map(|share| share.rows).collect()
    }

    fn shared(tenants: &[&str], weights: &Weights, of: usize) -> Vec<usize> {
        rows(&shares(tenants.iter().map(|&tenant| tenant.to_owned()).collect(), weights, of))
    }

    #[test]
    fn a_tenant_alone_gets_everything_and_nobody_gets_nothing_of_nothing() {
        let usual = Weights::default();
        assert_eq!(shared(&["a"], &usual, 200), [200]);
        assert_eq!(shared(&[NO_TENANT], &usual, 1), [1]);
        assert!(shared(&["a"], &usual, 0).is_empty());
        assert!(shared(&[], &usual, 200).is_empty());
    }

    #[test]
    fn rows_are_shared_by_weight_and_what_rounding_leaves_goes_to_the_first() {
        let usual = Weights::default();
        assert_eq!(shared(&["a", "b", "c"], &usual, 200), [67, 67, 66]);
        let heavy = weights([("b", 3), (NO_TENANT, 2)]);
        assert_eq!(shared(&["a", "b"], &heavy, 100), [25, 75]);
        assert_eq!(shared(&[NO_TENANT, "a", "b"], &heavy, 60), [20, 10, 30]);
        assert_eq!(weights([("a", 0)]).of("a"), 1, "nobody weighs nothing");
    }

    #[test]
    fn whoever_weighs_too_little_for_a_row_still_gets_one() {
        let giant = weights([("giant", 1_000)]);
        assert_eq!(shared(&["a", "giant", "b"], &giant, 10), [1, 8, 1]);
        assert_eq!(shared(&["a", "giant", "b"], &giant, 3), [1, 1, 1]);
        assert_eq!(shared(&["a", "giant", "b"], &giant, 2), [1, 1], "the others next time");
    }

    #[test]
    fn all_rows_are_given_and_no_more_and_everybody_gets_one() {
        let heavy = weights([("t001", 1_000), ("t007", 17), ("t063", 999)]);
        for count in 1..=64 {
            for of in [count, count + 1, 100, 200, 999, 1_000] {
                let given = shares(names(count), &heavy, of);
                assert_eq!(given.len(), count.min(of));
                assert_eq!(rows(&given).iter().sum::<usize>(), of, "{count} of {of}");
                assert!(given.iter().all(|share| share.rows > 0), "{count} of {of}");
            }
        }
    }

    #[test]
    fn weights_and_rows_of_any_size_are_shared() {
        let most = weights([("a", u32::MAX), ("b", u32::MAX)]);
        assert_eq!(shared(&["a", "b"], &most, usize::MAX - 1), [usize::MAX / 2; 2]);
    }

    #[test]
    fn what_is_left_goes_to_those_who_took_all_they_had() {
        let heavy = weights([("flood", 2)]);
        let given = shares(vec!["a".into(), "flood".into(), "b".into(), "c".into()], &heavy, 100);
        assert_eq!(rows(&given), [20, 40, 20, 20]);
        let took = |tenant: &str| match tenant {
            "flood" => 40,
            "b" => 20,
            _ => 1,
        };
        let rest = shares_of_rest(&given, took, &heavy, 38);
        let share = |tenant: &str, rows| Share { tenant: tenant.to_owned(), rows };
        assert_eq!(rest, [share("flood", 26), share("b", 12)]);
        assert_eq!(shares_of_rest(&given, |_| 0, &heavy, 100), [], "nobody has more");
        assert_eq!(shares_of_rest(&given, |_| 100, &heavy, 0), [], "nothing is left");
    }
}
