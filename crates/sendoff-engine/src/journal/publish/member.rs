//! A node's place among the nodes: it says that it is alive, and looks at what stands in the tables.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sendoff_core::journal::Position;
use sendoff_core::report;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::options::PublishOptions;
use super::store::{Beat, Membership, NodeCard, PublishStore, Survey};
use crate::journal::handle::Journal;
use crate::store::{Answer, StoreError, within};

/// By how much sooner the next round is, while somebody has locked the node's row.
const SOONER: u32 = 10;

/// What a round brought.
#[derive(Debug)]
pub(super) struct Round {
    /// What became of the beat.
    beat: Beat,
    /// When it was sent; from then on others count.
    pub(super) beat_sent: Instant,
    /// When the survey was sent.
    pub(super) survey_sent: Instant,
    /// Whether the node has joined since the last round.
    pub(super) joined: bool,
    /// What it saw.
    pub(super) survey: Survey,
    /// The journal's end; where nothing is published, nobody else looks for it.
    pub(super) head: Position,
    /// Whether that is before what had been read: the database lost its last commits.
    pub(super) went_back: bool,
}

pub(super) struct Member<S> {
    pub(super) journal: Journal<S>,
    pub(super) options: Arc<PublishOptions>,
    pub(super) card: NodeCard,
    pub(super) tell: mpsc::Sender<Round>,
    pub(super) stop: CancellationToken,
    /// How far this node has read.
    pub(super) read_to: Arc<AtomicU64>,
}

impl<S: PublishStore> Member<S> {
    /// Until it is told to stop; then it says goodbye.
    pub(super) async fn run(self) {
        let mut membership = None;
        let mut joined = false;
        let mut operated = self.journal.operated().subscribe();
        loop {
            let began = Instant::now();
            // What is changed from here on may not be in what this round sees.
            operated.mark_unchanged();
            let round = tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                round = self.round(&mut membership, &mut joined) => round,
            };
            let mut pause = self.options.renew;
            match round {
                Ok(round) => {
                    if round.beat == Beat::Locked {
                        // Others may think that it is dead from when the row is free until it is written.
                        pause /= SOONER;
                        debug!("somebody has locked this node's row in the table of nodes");
                    }
                    if self.tell.send(round).await.is_err() {
                        break;
                    }
                    joined = false;
                }
                Err(error) => {
                    // Whoever lost its session starts nothing until it has joined again.
                    membership = None;
                    warn!(error = report(&error), "this node could not say that it is alive");
                }
            }
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                _ = operated.changed() => {}
                () = sleep_until(began + pause) => {}
            }
        }
        if let Some(membership) = membership {
            let gone = self.bounded(membership.leave()).await;
            debug!(gone = gone.is_ok(), "left the nodes");
        }
    }

    async fn round(
        &self,
        membership: &mut Option<Box<dyn Membership>>,
        joined: &mut bool,
    ) -> Result<Round, StoreError> {
        let store = self.journal.store();
        let beat_sent = Instant::now();
        let beat = match membership {
            None => {
                *membership = Some(self.bounded(store.join(&self.card)).await?);
                *joined = true;
                Beat::Written
            }
            Some(known) => {
                // It must be answered before others may think that this node is gone.
                within(self.options.lease / 2, known.beat()).await?
            }
        };
        let survey_sent = Instant::now();
        let survey = self.bounded(store.survey()).await?;
        // Asked after the survey: if that is from after a loss, this is too.
        let read_to = self.read_to.load(Ordering::Acquire);
        let head = self.bounded(store.head()).await?;
        let went_back = head.get() < read_to;
        Ok(Round { beat, beat_sent, survey_sent, joined: *joined, survey, head, went_back })
    }

    async fn bounded<T>(&self, asked: impl Future<Output = Answer<T>>) -> Answer<T> {
        let limit = self.options.statement_limit();
        within(limit, asked).await
    }
}
