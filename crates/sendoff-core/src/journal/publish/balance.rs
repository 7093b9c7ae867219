use std::collections::{BTreeMap, BTreeSet};

/// How pairs are shared between nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Leadership {
    /// Each pair has its leader, and the nodes share them evenly.
    #[default]
    PerPair,
    /// The node that is there longest leads all pairs it knows; the others stand by.
    Global,
}

/// A node that is alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The pairs it has publishers for, by their keys.
    pub knows: BTreeSet<i64>,
}

/// A pair, and who has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat {
    /// The pair's key.
    pub key: i64,
    /// Which of the nodes leads it; none where nobody does who is alive.
    pub leader: Option<usize>,
}

/// What one node has to do about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Seats to take, by their place in the list: nobody has them.
    pub take: Vec<usize>,
    /// Seats to give up, so that somebody else can take them.
    pub give: Vec<usize>,
}

/// Who should lead what. `nodes` are those alive, the oldest first; `me` is one of them.
///
/// Every node that sees the same decides the same and carries out its own part. As few pairs move as
/// it takes: one is given up only to a node that would still have fewer. Where nodes see different
/// things the store's comparisons decide, and the next round mends it.
pub fn balance(leadership: Leadership, nodes: &[Node], seats: &[Seat], me: usize) -> Plan {
    let assigned = match leadership {
        Leadership::PerPair => evenly(nodes, seats),
        Leadership::Global => {
            let first = |seat: &Seat| nodes.iter().position(|node| node.knows.contains(&seat.key));
            seats.iter().map(first).collect()
        }
    };
    let mut plan = Plan::default();
    for (at, (seat, to)) in seats.iter().zip(assigned).enumerate() {
        match (seat.leader, to) {
            (None, Some(to)) if to == me => plan.take.push(at),
            (Some(leader), Some(to)) if leader == me && to != me => plan.give.push(at),
            _ => {}
        }
    }
    plan
}

fn evenly(nodes: &[Node], seats: &[Seat]) -> Vec<Option<usize>> {
    let mut assigned: Vec<_> = seats.iter().map(|seat| seat.leader).collect();
    let mut load: BTreeMap<usize, usize> = (0..nodes.len()).map(|node| (node, 0)).collect();
    for leader in assigned.iter().flatten() {
        *load.entry(*leader).or_default() += 1;
    }
    let least = |load: &BTreeMap<usize, usize>, key: i64| {
        let knowing = (0..nodes.len()).filter(|&node| nodes[node].knows.contains(&key));
        knowing.min_by_key(|node| (load[node], *node))
    };
    // What nobody has first: it must not wait for anybody to give anything up.
    for (seat, to) in seats.iter().zip(&mut assigned).filter(|(_, to)| to.is_none()) {
        *to = least(&load, seat.key);
        if let Some(to) = *to {
            *load.entry(to).or_default() += 1;
        }
    }
    for (seat, to) in seats.iter().zip(&mut assigned) {
        if let (Some(from), Some(other)) = (seat.leader, least(&load, seat.key))
            && load[&other] + 1 < load[&from]
        {
            *load.entry(from).or_default() -= 1;
            *load.entry(other).or_default() += 1;
            *to = Some(other);
        }
    }
    assigned
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn nodes(count: usize, pairs: i64) -> Vec<Node> {
        (0..count).map(|_| Node { knows: (0..pairs).collect() }).collect()
    }

    fn seats(leaders: &[Option<usize>]) -> Vec<Seat> {
        leaders.iter().zip(0..).map(|(&leader, key)| Seat { key, leader }).collect()
    }

    /// Every node carries out its part of one round.
    fn round(leadership: Leadership, nodes: &[Node], seats: &[Seat]) -> Vec<Seat> {
        let mut after = seats.to_vec();
        for me in 0..nodes.len() {
            let plan = balance(leadership, nodes, seats, me);
            plan.take.iter().for_each(|&at| after[at].leader = Some(me));
            plan.give.iter().for_each(|&at| after[at].leader = None);
        }
        after
    }

    /// Holds J12.
    #[test]
    fn a_node_that_comes_is_given_its_share_and_no_more() {
        let nodes = nodes(2, 10);
        let alone = seats(&[Some(0); 10]);
        let plan = balance(Leadership::PerPair, &nodes, &alone, 0);
        assert_eq!((plan.give.len(), plan.take.len()), (5, 0));
        let shared =
            round(Leadership::PerPair, &nodes, &round(Leadership::PerPair, &nodes, &alone));
        assert_eq!(shared.iter().filter(|seat| seat.leader == Some(1)).count(), 5);
        assert_eq!(round(Leadership::PerPair, &nodes, &shared), shared, "and stays");
    }

    /// In a rolling deploy the old node does not know the new pair.
    #[test]
    fn a_pair_goes_only_to_who_knows_it() {
        let known = [Node { knows: BTreeSet::from([0]) }, Node { knows: BTreeSet::from([0, 1]) }];
        let all = seats(&[None, None]);
        let shared = round(Leadership::PerPair, &known, &all);
        assert_eq!(shared.iter().map(|seat| seat.leader).collect::<Vec<_>>(), [Some(0), Some(1)]);
        let nobody = [Seat { key: 9, leader: None }];
        assert_eq!(balance(Leadership::PerPair, &known, &nobody, 0), Plan::default());
    }

    #[test]
    fn one_leads_all_while_it_is_there() {
        let nodes = nodes(3, 4);
        let shared = round(Leadership::Global, &nodes, &seats(&[None; 4]));
        assert!(shared.iter().all(|seat| seat.leader == Some(0)));
        assert_eq!(round(Leadership::Global, &nodes, &shared), shared);
    }

    proptest! {
        /// Holds J12.
        #[test]
        fn everything_is_led_evenly_after_a_few_rounds_and_then_nothing_moves(
            count in 1..6_usize, leaders in prop::collection::vec(prop::option::of(0..6_usize), 0..60),
        ) {
            let nodes = nodes(count, 60);
            let alive = |leader: &Option<usize>| leader.filter(|leader| *leader < count);
            let mut now = seats(&leaders.iter().map(alive).collect::<Vec<_>>());
            for _ in 0..3 {
                now = round(Leadership::PerPair, &nodes, &now);
            }
            let load = |node| now.iter().filter(|seat| seat.leader == Some(node)).count();
            let loads: Vec<_> = (0..count).map(load).collect();
            prop_assert_eq!(loads.iter().sum::<usize>(), now.len());
            let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
            prop_assert!(most - least <= 1, "{loads:?}");
            prop_assert_eq!(&round(Leadership::PerPair, &nodes, &now), &now);
        }
    }
}
