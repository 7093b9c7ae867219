//! Leading pairs: what stands in the tables, what to take, what to give up.

use std::collections::BTreeMap;
use std::sync::Arc;

use sendoff_core::journal::publish::PairId;
use sendoff_core::report;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::{Event, FAILED_PAUSE, Node, Statement};
use crate::journal::publish::look::Sight;
use crate::journal::publish::pair::{Doing, Held, Sent};
use crate::journal::publish::store::{Cursor, PublishStore, Seen, Survey};
use crate::lead::{Alive, Round, SeatSeen};
use crate::store::{StoreError, within};

/// How many pairs a line of the log names.
const NAMED: usize = 3;

/// Some of these pairs, by name. A node may have thousands.
fn some<'p>(pairs: impl Iterator<Item = &'p Arc<PairId>>) -> String {
    pairs.take(NAMED).map(|pair| pair.to_string()).collect::<Vec<_>>().join(", ")
}

impl<S: PublishStore> Node<S> {
    pub(super) fn on_round(&mut self, round: &Round<Sight>) {
        let Round { alive, said_at, seen: Sight { sent, survey, head, went_back } } = round;
        let now = Instant::now();
        if *alive == Alive::Joined || *went_back {
            // The session was another, or what was read is not there any more.
            self.doubt_all();
        }
        // What others allow this node counts from when it said that it is alive.
        self.roster.said_alive(*said_at);
        self.compare(survey, *sent, now);
        if !self.is_stopping() {
            self.share(survey, now);
            self.disown(survey, *sent);
        }
        for pair in &self.pairs {
            let Some(held) = &pair.held else { continue };
            let lag = head.since(held.at);
            self.counts.lag(&pair.id, lag);
        }
        self.count_leading();
        self.saw_end(*head);
    }

    fn count_leading(&self) {
        let leading = self.pairs.iter().filter(|pair| pair.held.is_some()).count();
        self.counts.leading(leading);
    }

    /// Compares what is in the table with what is in memory. The table wins.
    fn compare(&mut self, survey: &Survey, sent: Instant, now: Instant) {
        let mut seen = vec![false; self.pairs.len()];
        let mut lost = Vec::new();
        for cursor in &survey.cursors {
            let Some(&at) = self.by_id.get(&cursor.pair) else { continue };
            seen[at] = true;
            let pair = &mut self.pairs[at];
            if pair.held.is_some() && !pair.compare(cursor, &self.owner, sent, now) {
                self.counts.gave(&pair.id);
                lost.push(Arc::clone(&pair.id));
            }
        }
        let mut gone = Vec::new();
        for (pair, _) in self.pairs.iter_mut().zip(seen).filter(|(_, seen)| !seen) {
            // Somebody deleted its row.
            if pair.held.as_ref().is_some_and(|held| held.taken <= sent) {
                pair.held = None;
                self.counts.gave(&pair.id);
                gone.push(Arc::clone(&pair.id));
            }
        }
        if !lost.is_empty() {
            let (count, pairs) = (lost.len(), some(lost.iter()));
            warn!(count, pairs, "another node leads pairs that this node led");
        }
        if !gone.is_empty() {
            let (count, pairs) = (gone.len(), some(gone.iter()));
            warn!(count, pairs, "somebody deleted the cursors of pairs that this node led");
        }
    }

    /// Gives up what this node took without being told: the answer was lost. It is taken anew, under an
    /// epoch that is known.
    fn disown(&mut self, survey: &Survey, sent: Instant) {
        // What is taken from here on, or was when it was asked, is not in what was seen.
        if !matches!(self.taking, Statement::Free { from } if from < sent) {
            return;
        }
        let mine = |cursor: &&Cursor| cursor.leader.as_deref() == Some(&*self.owner);
        let unheld = survey.cursors.iter().filter(mine).filter_map(|cursor| {
            let at = *self.by_id.get(&cursor.pair)?;
            let pair = &self.pairs[at];
            (pair.held.is_none() && pair.doing != Doing::Working).then_some((at, cursor.epoch))
        });
        self.start_giving(unheld.collect());
    }

    /// Takes what nobody has and is this node's share, and gives up what is not.
    fn share(&mut self, survey: &Survey, now: Instant) {
        let cursors = survey.cursors.iter();
        let seats: Vec<_> = cursors
            .map(|Cursor { pair, leader, epoch, .. }| SeatSeen {
                key: pair.key(),
                leader: leader.as_deref(),
                epoch: *epoch,
            })
            .collect();
        let Some(plan) = self.roster.share(&survey.nodes, &seats, now) else { return };
        let mut leaving = vec![false; self.pairs.len()];
        for at in plan.give {
            if let Some(&pair) = self.by_id.get(&survey.cursors[at].pair) {
                leaving[pair] = true;
            }
        }
        for (pair, leaving) in self.pairs.iter_mut().zip(leaving) {
            if let Some(held) = &mut pair.held {
                held.leaving = leaving;
            }
        }
        let wanted: Vec<_> = plan
            .take
            .into_iter()
            .map(|at| &survey.cursors[at])
            .filter_map(|cursor| {
                let pair = &self.pairs[*self.by_id.get(&cursor.pair)?];
                // While something of it is under way from the last time, it is not taken again.
                (pair.held.is_none() && pair.doing != Doing::Working).then(|| Seen {
                    pair: Arc::clone(&pair.id),
                    leader: cursor.leader.clone(),
                    epoch: cursor.epoch,
                })
            })
            .collect();
        if wanted.is_empty() || !self.taking.may_begin(now) {
            return;
        }
        self.taking = Statement::UnderWay;
        let (journal, owner) = (self.journal.clone(), Arc::clone(&self.owner));
        let limit = self.options.statement_limit();
        self.events.spawn(async move {
            let taken = within(limit, journal.store().take(&owner, &wanted)).await;
            Event::Took(wanted, taken)
        });
    }

    pub(super) fn on_took(
        &mut self,
        wanted: &[Seen],
        taken: Result<Vec<Cursor>, StoreError>,
        now: Instant,
    ) {
        self.taking = Statement::Free { from: now };
        let taken = match taken {
            Ok(taken) => taken,
            Err(error) => {
                warn!(error = report(&error), "pairs could not be taken; trying again");
                return;
            }
        };
        let led = wanted.iter().filter_map(|seen| Some((&*seen.pair, seen.leader.as_deref()?)));
        let led: BTreeMap<_, _> = led.collect();
        let stopping = self.is_stopping();
        // By the node that had them.
        let mut by_leader = BTreeMap::<Option<&str>, Vec<Arc<PairId>>>::new();
        for cursor in taken {
            let Some(&at) = self.by_id.get(&cursor.pair) else { continue };
            let leader = led.get(&cursor.pair).copied();
            let failover = leader.is_some();
            let pair = &mut self.pairs[at];
            debug!(pair = %pair.id, epoch = cursor.epoch, position = %cursor.position, failover,
                   "this node leads the pair");
            by_leader.entry(leader).or_default().push(Arc::clone(&pair.id));
            let mut held = Held::new(&cursor, now);
            held.leaving = stopping;
            pair.held = Some(held);
            pair.begin_afresh(now);
            self.counts.took(&pair.id, failover);
        }
        for (leader, taken) in by_leader {
            let (count, pairs) = (taken.len(), some(taken.iter()));
            match leader {
                None => info!(count, pairs, "this node leads pairs that nobody led"),
                Some(node) => {
                    warn!(node, count, pairs, "this node took over pairs of a node that is gone");
                }
            }
        }
        self.count_leading();
    }

    /// Leaves pairs as they are whose rows somebody has locked for long: who stops does not wait for that.
    pub(super) fn leave_locked(&mut self) {
        for pair in &mut self.pairs {
            let Some(held) = &pair.held else { continue };
            if held.is_locked_for_long() && held.sent != Sent::Move && pair.doing != Doing::Working
            {
                warn!(pair = %pair.id, stored = %held.stored, at = %held.at,
                      "somebody has locked a cursor: what is not stored will be published again");
                pair.held = None;
                self.counts.gave(&pair.id);
            }
        }
        self.count_leading();
    }

    /// Gives up what is to be given up, once nothing of it is under way: whoever takes it begins
    /// exactly where this node ended.
    pub(super) fn give(&mut self, now: Instant) {
        if now < self.give_not_before {
            return;
        }
        let mut giving = Vec::new();
        for (at, pair) in self.pairs.iter_mut().enumerate() {
            let Some(held) = &mut pair.held else { continue };
            let unstored = held.at > held.stored && !held.is_stale();
            let quiet = held.sent == Sent::Nothing && pair.doing != Doing::Working;
            if held.leaving && quiet && held.is_stored() && !unstored {
                held.sent = Sent::Give;
                giving.push((at, held.epoch));
            }
        }
        self.start_giving(giving);
    }

    /// Pairs, and the epochs they are had under.
    fn start_giving(&mut self, giving: Vec<(usize, i64)>) {
        if giving.is_empty() {
            return;
        }
        let named: Vec<_> =
            giving.iter().map(|(at, epoch)| (Arc::clone(&self.pairs[*at].id), *epoch)).collect();
        let (journal, owner) = (self.journal.clone(), Arc::clone(&self.owner));
        let limit = self.options.statement_limit();
        self.events.spawn(async move {
            let given = within(limit, journal.store().give(&owner, &named)).await;
            Event::Gave(giving, given)
        });
    }

    pub(super) fn on_gave(
        &mut self,
        pairs: &[(usize, i64)],
        given: Result<(), StoreError>,
        now: Instant,
    ) {
        let stopping = self.is_stopping();
        let mut released = Vec::new();
        for &(at, epoch) in pairs {
            let pair = &mut self.pairs[at];
            let Some(held) = pair.held.as_mut().filter(|held| held.epoch == epoch) else {
                continue;
            };
            if held.sent == Sent::Give {
                held.sent = Sent::Nothing;
            }
            if given.is_ok() || stopping {
                pair.held = None;
                self.counts.gave(&pair.id);
                released.push(Arc::clone(&pair.id));
            }
        }
        if given.is_ok() && !released.is_empty() {
            let (count, pairs) = (released.len(), some(released.iter()));
            info!(count, pairs, "this node released pairs to others");
        }
        self.count_leading();
        if let Err(error) = given {
            warn!(error = report(&error), "pairs could not be released; trying again");
            self.give_not_before = now + FAILED_PAUSE;
        }
    }
}
