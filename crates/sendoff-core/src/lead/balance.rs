//! Which node should lead which seat: decided alike by every node from the same tables.

use std::collections::{BTreeMap, BTreeSet};

use super::Standing;

/// How seats are shared between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Evenly: each seat has its leader.
    Evenly,
    /// The node that is there longest leads all seats it knows; the others stand by.
    Oldest,
}

/// A node that is alive, as far as its lease says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The seats it can work on, by their keys.
    pub knows: BTreeSet<i64>,
    /// How sure it is that it works.
    pub standing: Standing,
}

/// Something that one node at a time works on, and the node that leads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat {
    /// Its key.
    pub key: i64,
    /// Who leads it.
    pub lead: Lead,
}

/// Who leads a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lead {
    /// Nobody who is alive.
    Free,
    /// Nobody, for longer than whoever should take it needs for that.
    Overdue,
    /// This one of the nodes.
    By(usize),
}

impl Lead {
    fn leader(self) -> Option<usize> {
        match self {
            Self::Free | Self::Overdue => None,
            Self::By(leader) => Some(leader),
        }
    }
}

/// What one node has to do about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Seats to take, by their place in the list: nobody has them.
    pub take: Vec<usize>,
    /// Seats to give up, so that somebody else can take them.
    pub give: Vec<usize>,
    /// Nodes that should have taken what is overdue. Whatever their lease says, they are doubtful.
    pub late: BTreeSet<usize>,
}

/// Who should lead what. `nodes` are those alive, the oldest first; `me` is one of them.
///
/// Every node that sees the same decides the same and carries out its own part. As few seats move as
/// it takes: one is given up only to a node that would still have fewer. Where nodes see different
/// things the store's comparisons decide, and the next round mends it.
///
/// Seats go to those of the nodes that are surest to work; whoever crashes at each start never becomes
/// one of them while another is there. A seat that is overdue is for whoever sees it, so that none
/// waits for somebody who does not take it.
pub fn balance(sharing: Sharing, nodes: &[Node], seats: &[Seat], me: usize) -> Plan {
    let assigned = match sharing {
        Sharing::Evenly => evenly(nodes, seats),
        Sharing::Oldest => seats.iter().map(|seat| first(nodes, seat)).collect(),
    };
    let mut plan = Plan::default();
    for (at, (seat, to)) in seats.iter().zip(assigned).enumerate() {
        match seat.lead {
            Lead::Free if to == Some(me) => plan.take.push(at),
            Lead::Overdue if nodes[me].knows.contains(&seat.key) => {
                plan.take.push(at);
                plan.late.extend(to.filter(|to| *to != me));
            }
            Lead::By(leader) if leader == me && to.is_some_and(|to| to != me) => plan.give.push(at),
            _ => {}
        }
    }
    plan
}

/// Those that know a seat and are the surest to work, the oldest first.
fn able(nodes: &[Node], key: i64) -> impl Iterator<Item = usize> {
    let knowing = (0..nodes.len()).filter(move |&node| nodes[node].knows.contains(&key));
    let surest = knowing.clone().map(|node| nodes[node].standing).max();
    knowing.filter(move |&node| Some(nodes[node].standing) == surest)
}

/// The oldest. Whoever leads makes way only for one that is older and no less sure to work.
fn first(nodes: &[Node], seat: &Seat) -> Option<usize> {
    let Some(leader) = seat.lead.leader() else { return able(nodes, seat.key).next() };
    let better = |node: &usize| {
        let Node { knows, standing } = &nodes[*node];
        knows.contains(&seat.key) && *standing >= nodes[leader].standing
    };
    Some((0..leader).find(better).unwrap_or(leader))
}

fn evenly(nodes: &[Node], seats: &[Seat]) -> Vec<Option<usize>> {
    let mut assigned: Vec<_> = seats.iter().map(|seat| seat.lead.leader()).collect();
    let mut load: BTreeMap<usize, usize> = (0..nodes.len()).map(|node| (node, 0)).collect();
    for leader in assigned.iter().flatten() {
        *load.entry(*leader).or_default() += 1;
    }
    let least = |load: &BTreeMap<usize, usize>, key: i64| {
        able(nodes, key).min_by_key(|node| (load[node], *node))
    };
    // What nobody has first: it must not wait for anybody to give anything up.
    for (seat, to) in seats.iter().zip(&mut assigned).filter(|(_, to)| to.is_none()) {
        *to = least(&load, seat.key);
        if let Some(to) = *to {
            *load.entry(to).or_default() += 1;
        }
    }
    for (seat, to) in seats.iter().zip(&mut assigned) {
        if let (Lead::By(from), Some(other)) = (seat.lead, least(&load, seat.key))
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

    fn nodes(count: usize, seats: i64) -> Vec<Node> {
        (0..count).map(|_| node(Standing::Steady, seats)).collect()
    }

    fn node(standing: Standing, seats: i64) -> Node {
        Node { knows: (0..seats).collect(), standing }
    }

    fn seats(leaders: &[Option<usize>]) -> Vec<Seat> {
        let lead = |leader: &Option<usize>| leader.map_or(Lead::Free, Lead::By);
        leaders.iter().zip(0..).map(|(leader, key)| Seat { key, lead: lead(leader) }).collect()
    }

    fn led_by(seats: &[Seat], node: usize) -> usize {
        seats.iter().filter(|seat| seat.lead == Lead::By(node)).count()
    }

    /// Every node carries out its part of one round.
    fn round(sharing: Sharing, nodes: &[Node], seats: &[Seat]) -> Vec<Seat> {
        let mut after = seats.to_vec();
        for me in 0..nodes.len() {
            let plan = balance(sharing, nodes, seats, me);
            plan.take.iter().for_each(|&at| after[at].lead = Lead::By(me));
            plan.give.iter().for_each(|&at| after[at].lead = Lead::Free);
        }
        after
    }

    /// Holds J12.
    #[test]
    fn a_node_that_comes_is_given_its_share_and_no_more() {
        let nodes = nodes(2, 10);
        let alone = seats(&[Some(0); 10]);
        let plan = balance(Sharing::Evenly, &nodes, &alone, 0);
        assert_eq!((plan.give.len(), plan.take.len()), (5, 0));
        let shared = round(Sharing::Evenly, &nodes, &round(Sharing::Evenly, &nodes, &alone));
        assert_eq!(led_by(&shared, 1), 5);
        assert_eq!(round(Sharing::Evenly, &nodes, &shared), shared, "and stays");
    }

    /// In a rolling deploy the old node does not know the new seat.
    #[test]
    fn a_seat_goes_only_to_who_knows_it() {
        let known = [node(Standing::Steady, 1), node(Standing::Heard, 2)];
        let all = seats(&[None, None]);
        let shared = round(Sharing::Evenly, &known, &all);
        assert_eq!(shared, seats(&[Some(0), Some(1)]));
        let nobody = [Seat { key: 9, lead: Lead::Free }, Seat { key: 9, lead: Lead::Overdue }];
        assert_eq!(balance(Sharing::Evenly, &known, &nobody, 0), Plan::default());
    }

    #[test]
    fn one_leads_all_while_it_is_there() {
        let nodes = nodes(3, 4);
        let shared = round(Sharing::Oldest, &nodes, &seats(&[None; 4]));
        assert_eq!(led_by(&shared, 0), 4);
        assert_eq!(round(Sharing::Oldest, &nodes, &shared), shared);
    }

    /// One that has just begun to be steady and an older one that is not yet, by a beat.
    #[test]
    fn who_leads_all_makes_way_for_none_that_is_less_sure_to_work() {
        let two = [node(Standing::Heard, 2), node(Standing::Steady, 2)];
        for (all, moves) in [([Some(1); 2], false), ([Some(0); 2], false), ([None; 2], true)] {
            let after = round(Sharing::Oldest, &two, &seats(&all));
            assert_eq!(after != seats(&all), moves, "{all:?}");
            assert!(!moves || led_by(&after, 1) == 2);
        }
        let back = round(Sharing::Oldest, &nodes(2, 2), &seats(&[Some(1); 2]));
        assert_eq!(back, seats(&[None; 2]), "the older one is as sure by now");
    }

    /// Holds J12: a process that crashes at each start leaves a name in the list for a lease each time.
    #[test]
    fn seats_are_neither_given_to_nor_kept_for_those_that_only_came() {
        let mut all = nodes(1, 10);
        all.extend((0..20).map(|_| node(Standing::Doubtful, 10)));
        for ghost in [Standing::Doubtful, Standing::Heard] {
            all[20].standing = ghost;
            let mine = seats(&[Some(0); 10]);
            assert_eq!(balance(Sharing::Evenly, &all, &mine, 0), Plan::default());
            let free = balance(Sharing::Evenly, &all, &seats(&[None; 10]), 0);
            assert_eq!(free.take.len(), 10, "whoever works takes all of them at once");
        }
    }

    /// Where nobody has been there for long, whoever was heard of shares; where nobody was, all do.
    #[test]
    fn a_young_cluster_shares_at_once() {
        let young = [Standing::Heard, Standing::Doubtful, Standing::Heard];
        let young = young.map(|standing| node(standing, 10));
        let shared = round(Sharing::Evenly, &young, &seats(&[None; 10]));
        assert_eq!([0, 1, 2].map(|node| led_by(&shared, node)), [5, 0, 5]);
        let new = [Standing::Doubtful; 2].map(|standing| node(standing, 10));
        let shared = round(Sharing::Evenly, &new, &seats(&[None; 10]));
        assert_eq!([0, 1].map(|node| led_by(&shared, node)), [5, 5]);
    }

    /// Holds J12: whatever the list says of whoever should have taken it.
    #[test]
    fn what_is_overdue_is_for_whoever_sees_it_and_who_left_it_is_doubtful() {
        let mut all = nodes(2, 3);
        let mut now = seats(&[Some(0), Some(0), None]);
        now[2].lead = Lead::Overdue;
        for (sharing, should) in [(Sharing::Evenly, 1), (Sharing::Oldest, 0)] {
            for me in 0..2 {
                let plan = balance(sharing, &all, &now, me);
                assert_eq!(plan.take, [2]);
                assert_eq!(plan.late.contains(&should), me != should, "{sharing:?}, {me}");
                assert!(!plan.late.contains(&(1 - should)));
            }
        }
        all[1].standing = Standing::Doubtful;
        now[2].lead = Lead::By(0);
        assert_eq!(balance(Sharing::Evenly, &all, &now, 0), Plan::default(), "it stays");
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
                now = round(Sharing::Evenly, &nodes, &now);
            }
            let loads: Vec<_> = (0..count).map(|node| led_by(&now, node)).collect();
            prop_assert_eq!(loads.iter().sum::<usize>(), now.len());
            let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
            prop_assert!(most - least <= 1, "{loads:?}");
            prop_assert_eq!(&round(Sharing::Evenly, &nodes, &now), &now);
        }
    }
}
