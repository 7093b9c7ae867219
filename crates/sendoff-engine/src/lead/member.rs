//! A node's place among the nodes: it says that it is alive, and looks at what stands in the tables.

use std::time::Duration;

use sendoff_core::report;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::membership::{Beat, Membership, NodeCard};
use crate::rarely::Rarely;
use crate::store::{Answer, StoreError, within};

/// By how much sooner the next round is, while somebody has locked the node's row.
const SOONER: u32 = 10;

/// The tables that a node is a member in, and what it looks at there.
pub(crate) trait Look: Send + Sync {
    /// What a look brings: nodes, seats, and whatever belongs to them.
    type Seen: Send;

    /// Joins the nodes.
    fn join(&self, card: &NodeCard) -> impl Future<Output = Answer<Box<dyn Membership>>> + Send;

    /// Looks, once the node is known to be alive. Each statement of it is bounded.
    fn look(&self) -> impl Future<Output = Answer<Self::Seen>> + Send;
}

/// What a round brought.
#[derive(Debug)]
pub(crate) struct Round<T> {
    /// How the node is alive for the others.
    pub(crate) alive: Alive,
    /// When it said so; from then on others count.
    pub(crate) said_at: Instant,
    /// What it saw.
    pub(crate) seen: T,
}

/// How a node is alive for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alive {
    /// It has joined since the last round: its session is a new one.
    Joined,
    /// It has renewed its lease.
    Renewed,
    /// By its session alone: somebody has locked its row.
    Locked,
}

/// Says again and again that a node is alive, and tells what it sees.
pub(crate) struct Member<L: Look> {
    pub(crate) look: L,
    pub(crate) card: NodeCard,
    /// How long a statement may take.
    pub(crate) limit: Duration,
    pub(crate) tell: mpsc::Sender<Round<L::Seen>>,
    /// Somebody changed what a look sees: the next round is now.
    pub(crate) changed: watch::Receiver<()>,
    pub(crate) stop: CancellationToken,
}

impl<L: Look> Member<L> {
    /// Until it is told to stop; then it says goodbye.
    pub(crate) async fn run(mut self) {
        let (mut membership, mut silent) = (None, Rarely::default());
        loop {
            let began = Instant::now();
            // What is changed from here on may not be in what this round sees.
            self.changed.mark_unchanged();
            let round = tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                round = self.round(&mut membership) => round,
            };
            let mut pause = self.card.renew;
            match round {
                Ok(round) => {
                    if let Some(after) = silent.over(Instant::now()) {
                        info!(?after, "this node says again that it is alive");
                    }
                    if round.alive == Alive::Locked {
                        // Others may think that it is dead from when the row is free until it is written.
                        pause /= SOONER;
                        debug!("somebody has locked this node's row in the table of nodes");
                    }
                    if self.tell.send(round).await.is_err() {
                        break;
                    }
                }
                Err(error) => {
                    // Whoever lost its session starts nothing until it has joined again.
                    membership = None;
                    if let Some(failures) = silent.again(Instant::now()) {
                        let error = report(&error);
                        warn!(failures, error, "this node could not say that it is alive");
                    }
                }
            }
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                _ = self.changed.changed() => {}
                () = sleep_until(began + pause) => {}
            }
        }
        if let Some(membership) = membership {
            let gone = within(self.limit, membership.leave()).await;
            debug!(gone = gone.is_ok(), "left the nodes");
        }
    }

    async fn round(
        &self,
        membership: &mut Option<Box<dyn Membership>>,
    ) -> Result<Round<L::Seen>, StoreError> {
        let said_at = Instant::now();
        let alive = match membership {
            None => {
                *membership = Some(within(self.limit, self.look.join(&self.card)).await?);
                Alive::Joined
            }
            // It must be answered before others may think that this node is gone.
            Some(known) => match within(self.card.lease / 2, known.beat()).await? {
                Beat::Written => Alive::Renewed,
                Beat::Locked => Alive::Locked,
            },
        };
        let seen = self.look.look().await?;
        Ok(Round { alive, said_at, seen })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, VecDeque};
    use std::sync::{Arc, Mutex};

    use async_trait::async_trait;

    use super::*;
    use crate::lock::lock;

    /// Beats as they are told to, and looks at nothing.
    #[derive(Clone, Default)]
    struct Table(Arc<Mutex<VecDeque<Answer<Beat>>>>);

    #[async_trait]
    impl Membership for Table {
        async fn beat(&mut self) -> Answer<Beat> {
            lock(&self.0).pop_front().unwrap_or(Ok(Beat::Written))
        }

        async fn leave(self: Box<Self>) -> Answer<()> {
            Ok(())
        }
    }

    impl Look for Table {
        type Seen = ();

        async fn join(&self, _: &NodeCard) -> Answer<Box<dyn Membership>> {
            Ok(Box::new(self.clone()))
        }

        async fn look(&self) -> Answer<()> {
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_whose_beat_was_lost_joins_again_and_one_that_is_locked_beats_sooner() {
        let beats = [Ok(Beat::Written), Ok(Beat::Locked), Err(StoreError::Timeout)];
        let table = Table(Arc::new(Mutex::new(beats.into())));
        let (renew, lease) = (Duration::from_secs(1), Duration::from_secs(10));
        let card = NodeCard { owner: "a".into(), knows: BTreeSet::new(), renew, lease };
        let ((tell, mut told), changes) = (mpsc::channel(1), watch::Sender::new(()));
        let (changed, stop) = (changes.subscribe(), CancellationToken::new());
        let began = Instant::now();
        let member = Member { look: table, card, limit: lease, tell, changed, stop: stop.clone() };
        let running = tokio::spawn(member.run());
        let mut round = async || {
            let round = told.recv().await.unwrap();
            (round.alive, round.said_at.duration_since(began).as_millis())
        };
        assert_eq!(round().await, (Alive::Joined, 0));
        assert_eq!(round().await, (Alive::Renewed, 1_000));
        assert_eq!(round().await, (Alive::Locked, 2_000));
        assert_eq!(round().await, (Alive::Joined, 3_100), "what failed at 2,100 is told to nobody");
        changes.send_replace(());
        assert_eq!(round().await, (Alive::Renewed, 3_100), "somebody changed something");
        stop.cancel();
        running.await.unwrap();
    }
}
