//! What a round sees: nodes, cursors, and whether the journal is still as long as it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sendoff_core::journal::Position;
use tokio::time::Instant;

use super::options::PublishOptions;
use super::store::{PublishStore, Survey};
use crate::journal::handle::Journal;
use crate::lead::{Look, Membership, NodeCard};
use crate::store::{Answer, within};

/// What was seen.
#[derive(Debug)]
pub(super) struct Sight {
    /// When the survey was sent.
    pub(super) sent: Instant,
    pub(super) survey: Survey,
    /// The journal's end; where nothing is published, nobody else looks for it.
    pub(super) head: Position,
    /// Whether that is before what had been read: the database lost its last commits.
    pub(super) went_back: bool,
}

/// Looks at pairs and their journal.
pub(super) struct LookAtPairs<S> {
    pub(super) journal: Journal<S>,
    pub(super) options: Arc<PublishOptions>,
    /// How far this node has read.
    pub(super) read_to: Arc<AtomicU64>,
}

impl<S: PublishStore> Look for LookAtPairs<S> {
    type Seen = Sight;

    async fn join(&self, card: &NodeCard) -> Answer<Box<dyn Membership>> {
        self.journal.store().join(card).await
    }

    async fn look(&self) -> Answer<Sight> {
        let (store, limit) = (self.journal.store(), self.options.statement_limit());
        let sent = Instant::now();
        let survey = within(limit, store.survey()).await?;
        // Asked after the survey: if that is from after a loss, this is too.
        let read_to = self.read_to.load(Ordering::Acquire);
        let head = within(limit, store.head()).await?;
        Ok(Sight { sent, survey, head, went_back: head.get() < read_to })
    }
}
