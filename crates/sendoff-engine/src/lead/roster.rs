//! What a node makes of the others: who can be believed in, and what nobody leads for too long.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::lead::{Lead, Node, Plan, Seat, Sharing, Standing, balance};
use tokio::time::Instant;
use tracing::warn;

use super::membership::NodeSeen;

/// After so many rounds a seat that nobody leads is for whoever sees it: any node that works would have
/// taken it, in its next round.
const OVERDUE: u32 = 4;

/// What nodes agree on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) sharing: Sharing,
    /// How often a node says that it is alive.
    pub(crate) renew: Duration,
    /// After what silence it counts as dead.
    pub(crate) lease: Duration,
}

/// A seat as it stands in the tables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SeatSeen<'a> {
    pub(crate) key: i64,
    /// The node that leads it, dead or alive.
    pub(crate) leader: Option<&'a str>,
    /// Grows each time the seat changes hands.
    pub(crate) epoch: i64,
}

/// One node among the others.
#[derive(Debug)]
pub(crate) struct Roster {
    me: Arc<str>,
    terms: Terms,
    /// Until when others believe that this node is alive; none until it joined.
    fit_until: Option<Instant>,
    /// Nodes that left seats to nobody that they should have taken, and until when that counts.
    late: BTreeMap<String, Instant>,
    /// Of the seats this node knows, those that nobody leads.
    free: BTreeMap<i64, Free>,
}

/// Since when nobody leads a seat, as far as this node has seen, and the epoch that this was under.
#[derive(Debug, Clone, Copy)]
struct Free {
    epoch: i64,
    since: Instant,
}

impl Roster {
    pub(crate) fn new(me: Arc<str>, terms: Terms) -> Self {
        Self { me, terms, fit_until: None, late: BTreeMap::new(), free: BTreeMap::new() }
    }

    /// It said at this time that it is alive, and was answered.
    pub(crate) fn said_alive(&mut self, at: Instant) {
        self.fit_until = Some(at + self.terms.renew * 2);
    }

    /// Whether nobody may have taken this node's place. Ask before each run, so that a node that was
    /// stopped begins nothing that is another's by now.
    pub(crate) fn is_fit(&self, now: Instant) -> bool {
        self.fit_until.is_some_and(|until| now < until)
    }

    /// What this node has to take and to give up, by the places of the seats; none where the others do
    /// not know it yet.
    pub(crate) fn share(
        &mut self,
        nodes: &[NodeSeen],
        seats: &[SeatSeen<'_>],
        now: Instant,
    ) -> Option<Plan> {
        let me = nodes.iter().position(|node| node.owner == *self.me)?;
        self.late.retain(|_, until| now < *until);
        let peers: Vec<_> = nodes
            .iter()
            .enumerate()
            .map(|(at, node)| Node {
                knows: node.knows.clone(),
                standing: self.standing(node, at == me),
            })
            .collect();
        let by_name: BTreeMap<_, _> =
            nodes.iter().enumerate().map(|(at, node)| (node.owner.as_str(), at)).collect();
        let mut free = BTreeMap::new();
        let seats: Vec<_> = seats
            .iter()
            .map(|seat| {
                let leader = seat.leader.and_then(|leader| by_name.get(leader));
                let lead = match leader {
                    Some(&leader) => Lead::By(leader),
                    None if nodes[me].knows.contains(&seat.key) => {
                        let known = self.free.get(&seat.key);
                        let since = known.filter(|free| free.epoch == seat.epoch);
                        let since = since.map_or(now, |free| free.since);
                        free.insert(seat.key, Free { epoch: seat.epoch, since });
                        self.lead(since, now)
                    }
                    None => Lead::Free,
                };
                Seat { key: seat.key, lead }
            })
            .collect();
        self.free = free;
        let plan = balance(self.terms.sharing, &peers, &seats, me);
        for late in &plan.late {
            let owner = &nodes[*late].owner;
            warn!(
                node = owner,
                "a node does not take what is free: nothing is left to it for a while"
            );
            self.late.insert(owner.clone(), now + self.terms.lease);
        }
        Some(plan)
    }

    /// Of a seat that nobody has led since then.
    fn lead(&self, since: Instant, now: Instant) -> Lead {
        if since + self.terms.renew * OVERDUE <= now { Lead::Overdue } else { Lead::Free }
    }

    fn standing(&self, node: &NodeSeen, is_me: bool) -> Standing {
        if self.late.contains_key(&node.owner) {
            return Standing::Doubtful;
        }
        // Whatever the tables say of it, this node is here.
        let silent = if is_me { Duration::ZERO } else { node.silent };
        Standing::of(node.lived, silent, self.terms.renew, self.terms.lease)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RENEW: Duration = Duration::from_millis(500);
    const LEASE: Duration = Duration::from_secs(10);

    fn roster(me: &str) -> Roster {
        let terms = Terms { sharing: Sharing::Evenly, renew: RENEW, lease: LEASE };
        Roster::new(me.into(), terms)
    }

    fn node(owner: &str) -> NodeSeen {
        let (lived, silent) = (LEASE * 2, Duration::ZERO);
        NodeSeen { owner: owner.into(), knows: (0..2).collect(), lived, silent }
    }

    fn seat(key: i64, leader: Option<&str>, epoch: i64) -> SeatSeen<'_> {
        SeatSeen { key, leader, epoch }
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_is_fit_for_two_renewals_after_it_said_that_it_is_alive() {
        let (mut roster, now) = (roster("a"), Instant::now());
        assert!(!roster.is_fit(now), "it has not joined");
        roster.said_alive(now);
        assert!(roster.is_fit(now + RENEW * 2 - Duration::from_millis(1)));
        assert!(!roster.is_fit(now + RENEW * 2));
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_the_others_do_not_know_does_nothing() {
        let free = [seat(0, None, 1)];
        assert_eq!(roster("a").share(&[node("b")], &free, Instant::now()), None);
    }

    /// Holds J12.
    #[tokio::test(start_paused = true)]
    async fn what_nobody_takes_for_four_rounds_is_taken_and_who_left_it_is_doubtful_for_a_lease() {
        let (mut roster, began) = (roster("b"), Instant::now());
        let nodes = [node("a"), node("b")];
        let left = [seat(0, None, 3), seat(1, Some("b"), 1)];
        let plan = roster.share(&nodes, &left, began).unwrap();
        assert_eq!((plan.take, plan.give), (vec![], vec![]), "the first is for the other one");
        let early = began + RENEW * OVERDUE - Duration::from_millis(1);
        assert!(roster.share(&nodes, &left, early).unwrap().take.is_empty());
        let late = began + RENEW * OVERDUE;
        assert_eq!(roster.share(&nodes, &left, late).unwrap().take, [0]);
        let mine = [seat(0, Some("b"), 4), seat(1, Some("b"), 1)];
        let then = late + LEASE;
        assert!(roster.share(&nodes, &mine, then - RENEW).unwrap().give.is_empty());
        assert_eq!(roster.share(&nodes, &mine, then).unwrap().give, [0], "believed in again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_seat_that_was_taken_in_between_is_free_anew() {
        let (mut roster, began) = (roster("b"), Instant::now());
        let nodes = [node("a"), node("b")];
        let left = |epoch| [seat(0, None, epoch), seat(1, Some("b"), 1)];
        roster.share(&nodes, &left(3), began).unwrap();
        let later = began + RENEW * OVERDUE;
        assert!(roster.share(&nodes, &left(4), later).unwrap().take.is_empty());
    }
}
