//! The journal as a node sees it, over its line.

use std::sync::Arc;

use async_trait::async_trait;
use sendoff_core::journal::publish::PairId;
use sendoff_core::journal::{Append, Ask, Holder, Position, Query};
use sendoff_engine::journal::publish::{
    Change, ChangeParked, Cursor, Move, Moved, Parked, ParkedPage, PublishStore, Seen, Survey,
    TriedAgain, Which,
};
use sendoff_engine::journal::{
    AppendError, DecideError, Found, JournalStore, Mark, Page, Receipt, TailLook, TailSource,
};
use sendoff_engine::lead::{Beat, Membership, NodeCard};
use sendoff_engine::store::StoreError;

use super::super::bug::Bug;
use super::super::gate::Kept;
use super::line::Line;
use super::node::RENEW;
use crate::history::FaultKind;

#[async_trait]
impl JournalStore for Line {
    async fn append(&self, append: &Append) -> Result<Vec<Receipt>, AppendError> {
        let append = append.clone();
        self.send(move |line| {
            let append = append.clone();
            async move {
                let receipts = line.ground.journal.append(&append).await?;
                let appended = append.facts().iter().zip(&receipts);
                for (fact, receipt) in appended.filter(|(_, receipt)| receipt.fresh) {
                    line.ground.log.recorded(fact, receipt.position);
                }
                Ok(receipts)
            }
        })
        .await
    }

    async fn mark(&self, query: &Query) -> Result<Mark, DecideError> {
        self.ground.journal.mark(query).await
    }

    async fn read(&self, query: &Query, page: Page) -> Result<Found, StoreError> {
        let query = query.clone();
        self.send(move |line| {
            let query = query.clone();
            async move { line.ground.journal.read(&query, page).await }
        })
        .await
    }

    async fn head(&self) -> Result<Position, StoreError> {
        let head = self.send(|line| async move { line.ground.journal.head().await }).await;
        self.looked();
        head
    }

    async fn holders(&self) -> Result<Vec<Holder>, StoreError> {
        self.ground.journal.holders().await
    }

    async fn tail(&self) -> Result<Box<dyn TailSource>, StoreError> {
        let source = self.send(|line| async move { line.ground.journal.tail().await }).await?;
        Ok(Box::new(LineTail { line: self.clone(), source }))
    }
}

/// The journal's end, looked at over one session.
struct LineTail {
    line: Line,
    source: Box<dyn TailSource>,
}

#[async_trait]
impl TailSource for LineTail {
    async fn look(&mut self, ask: Ask, page: Page) -> Result<TailLook, StoreError> {
        let line = &self.line;
        let lost = Lost(line);
        let looked = line.send_on(self.source.look(ask, page)).await;
        if looked.is_ok() {
            std::mem::forget(lost);
            // Whoever reads for pairs that lag has not found the end again.
            if page.up_to == Position::END {
                line.set_tail_lost(false);
            }
        }
        looked
    }
}

/// A look without an answer.
struct Lost<'l>(&'l Line);

impl Drop for Lost<'_> {
    fn drop(&mut self) {
        self.0.set_tail_lost(true);
    }
}

/// A node's place among the nodes. The server keeps its session until the node ends it, and a node that
/// is stopped ends nothing.
struct LineMember {
    line: Line,
    session: Kept<Box<dyn Membership>>,
}

#[async_trait]
impl Membership for LineMember {
    async fn beat(&mut self) -> Result<Beat, StoreError> {
        let Some(session) = self.session.get_mut() else { return Err(StoreError::Closed) };
        self.line.send_on(session.beat()).await
    }

    async fn leave(mut self: Box<Self>) -> Result<(), StoreError> {
        let Some(session) = self.session.take() else { return Ok(()) };
        self.line.send_on(session.leave()).await
    }
}

impl Line {
    async fn cursor(&self, pair: &PairId) -> Option<Cursor> {
        let survey = self.ground.journal.survey().await.ok()?;
        survey.cursors.into_iter().find(|cursor| cursor.pair == *pair)
    }

    /// Moves one cursor, and logs whether it was the node's to move.
    async fn advance_one(&self, owner: &str, sent: &Move) -> Result<Moved, StoreError> {
        if self.ground.locked.is_locked(&sent.pair) {
            return Ok(Moved::Busy);
        }
        let Some(cursor) = self.cursor(&sent.pair).await else { return Ok(Moved::Fenced) };
        let leads = cursor.leader.as_deref() == Some(owner) && cursor.epoch == sent.epoch;
        let current = leads && cursor.position == sent.from;
        let (mut carried_out, mut by) = (sent.clone(), owner.to_owned());
        if self.ground.bug == Some(Bug::CursorWithoutEpoch)
            && let Some(leader) = cursor.leader
        {
            (carried_out.epoch, carried_out.from, by) = (cursor.epoch, cursor.position, leader);
        }
        let made = self.ground.journal.advance(&by, &[carried_out]).await?;
        let made = made.into_iter().next().unwrap_or(Moved::Fenced);
        let applied = matches!(made, Moved::Made(_));
        self.ground.log.moved(&sent.pair.to_string(), &self.node, sent.to, applied, current);
        Ok(made)
    }
}

#[async_trait]
impl PublishStore for Line {
    async fn check_ready(&self) -> Result<(), StoreError> {
        self.ground.journal.check_ready().await
    }

    async fn register(&self, pairs: &[(PairId, Position)]) -> Result<(), StoreError> {
        let pairs = pairs.to_vec();
        self.send(move |line| {
            let pairs = pairs.clone();
            async move { line.ground.journal.register(&pairs).await }
        })
        .await
    }

    async fn join(&self, card: &NodeCard) -> Result<Box<dyn Membership>, StoreError> {
        let session = self.send_on(self.ground.journal.join(card)).await?;
        if self.had_trouble() {
            self.rejoin();
        }
        let session = Kept::new(&self.gate, session);
        Ok(Box::new(LineMember { line: self.clone(), session }))
    }

    async fn survey(&self) -> Result<Survey, StoreError> {
        self.send(|line| async move {
            let mut survey = line.ground.journal.survey().await?;
            if line.ground.bug == Some(Bug::TakesFromTheLiving) {
                survey.nodes.retain(|node| node.silent < RENEW + RENEW / 2);
            }
            Ok(survey)
        })
        .await
    }

    async fn take(&self, owner: &str, wanted: &[Seen]) -> Result<Vec<Cursor>, StoreError> {
        let (owner, mut wanted) = (owner.to_owned(), wanted.to_vec());
        wanted.retain(|seen| !self.ground.locked.is_locked(&seen.pair));
        self.send(move |line| {
            let (owner, mut wanted) = (owner.clone(), wanted.clone());
            async move {
                let journal = &line.ground.journal;
                if line.ground.bug == Some(Bug::TakesFromTheLiving) {
                    for seen in &mut wanted {
                        let Some(leader) = seen.leader.take() else { continue };
                        journal.give(&leader, &[(Arc::clone(&seen.pair), seen.epoch)]).await?;
                    }
                }
                journal.take(&owner, &wanted).await
            }
        })
        .await
    }

    async fn give(&self, owner: &str, pairs: &[(Arc<PairId>, i64)]) -> Result<(), StoreError> {
        let (owner, mut pairs) = (owner.to_owned(), pairs.to_vec());
        pairs.retain(|(pair, _)| !self.ground.locked.is_locked(pair));
        self.send(move |line| {
            let (owner, pairs) = (owner.clone(), pairs.clone());
            async move { line.ground.journal.give(&owner, &pairs).await }
        })
        .await
    }

    async fn advance(&self, owner: &str, moves: &[Move]) -> Result<Vec<Moved>, StoreError> {
        let (owner, moves) = (owner.to_owned(), moves.to_vec());
        let moved = self.send(move |line| {
            let (owner, moves) = (owner.clone(), moves.clone());
            async move {
                let mut made = Vec::new();
                for sent in &moves {
                    made.push(line.advance_one(&owner, sent).await?);
                }
                Ok::<_, StoreError>(made)
            }
        });
        let made = moved.await?;
        if made.contains(&Moved::Fenced) && self.had_trouble() {
            // What an answer that was lost led to: it publishes again what it does not know to be stored.
            self.trouble(FaultKind::LostReply);
        }
        Ok(made)
    }

    async fn due(&self, owner: &str, each: usize) -> Result<Vec<Parked>, StoreError> {
        let owner = owner.to_owned();
        self.send(move |line| {
            let owner = owner.clone();
            async move { line.ground.journal.due(&owner, each).await }
        })
        .await
    }

    async fn settle_parked(&self, tried: TriedAgain<'_>) -> Result<bool, StoreError> {
        self.ground.journal.settle_parked(tried).await
    }

    async fn change(&self, which: &Which, change: Change) -> Result<u64, StoreError> {
        self.ground.journal.change(which, change).await
    }

    async fn parked(&self, page: ParkedPage<'_>) -> Result<Vec<Parked>, StoreError> {
        self.ground.journal.parked(page).await
    }

    async fn change_parked(&self, change: ChangeParked<'_>) -> Result<u64, StoreError> {
        self.ground.journal.change_parked(change).await
    }
}
