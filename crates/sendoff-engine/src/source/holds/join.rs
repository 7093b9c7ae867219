//! How a run settles its event in a transaction of its own: nobody extends its hold from then on, and it is told
//! the token as it is.

use std::sync::Arc;

use sendoff_core::EventId;
use tokio::sync::oneshot;

use super::{Hold, Holds, Joined, Run};
use crate::lock::lock;
use crate::store::Held;

/// What a run is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Joining {
    /// It is held by this, and nobody here changes that until this run is over.
    By { held: Held, run: Run },
    /// Its hold is lost.
    Lost,
    /// No run of it is under way here.
    NotRunning,
    /// Somebody has its row locked, and a statement waits for that: nobody knows the token it will have.
    Locked,
}

/// Whether a statement that gives the row a new token is under way.
#[derive(Debug, Default)]
pub(super) enum Renewal {
    #[default]
    None,
    /// One that is answered soon. Who waits for that is told by its end being dropped.
    Soon(Vec<oneshot::Sender<()>>),
    /// One that waits until somebody unlocks the row.
    InTurn,
}

/// Holds that one statement renews. Until this is dropped, nobody takes their tokens for known.
#[derive(Debug)]
pub(crate) struct Renewing {
    holds: Arc<Holds>,
    held: Vec<Held>,
}

/// Either the answer, or what to wait for before asking again.
enum Step {
    Known(Joining),
    After(oneshot::Receiver<()>),
}

impl Holds {
    /// The run of this event settles it in a transaction of its own, by the hold that is answered, which is not
    /// extended any more.
    ///
    /// Only a statement about this very row is waited for, and none begins meanwhile. To wait for others would be a
    /// deadlock where the transaction has locked what they wait for, as on a database with one writer.
    pub(crate) async fn join(&self, id: EventId) -> Joining {
        loop {
            match self.step(id) {
                Step::Known(joining) => return joining,
                Step::After(over) => over.await.unwrap_or_default(),
            }
        }
    }

    /// The same on a thread that may block.
    pub(crate) fn join_blocking(&self, id: EventId) -> Joining {
        loop {
            match self.step(id) {
                Step::Known(joining) => return joining,
                Step::After(over) => over.blocking_recv().unwrap_or_default(),
            }
        }
    }

    fn step(&self, id: EventId) -> Step {
        let mut table = lock(&self.table);
        let runs = |hold: &&mut Hold| hold.started.is_some() && !hold.over;
        let Some(hold) = table.rows.get_mut(&id).filter(runs) else {
            return Step::Known(Joining::NotRunning);
        };
        match &mut hold.renewal {
            Renewal::InTurn => {
                hold.is_joined_no_more();
                return Step::Known(Joining::Locked);
            }
            Renewal::Soon(waiting) => {
                let (tell, told) = oneshot::channel();
                waiting.push(tell);
                // Not joined yet: who gives up while it waits has settled nothing.
                return Step::After(told);
            }
            Renewal::None => {}
        }
        let certain = hold.held.filter(|_| !hold.until.is_past());
        let Some(held) = certain else {
            hold.is_joined_no_more();
            return Step::Known(Joining::Lost);
        };
        hold.joined = Joined::Yes;
        hold.joins += 1;
        Step::Known(Joining::By { held, run: hold.run })
    }

    /// A run that was told its hold did not settle its event by it: it is proved that the row is as it was. Its verdict
    /// counts as any other's, and the hold is extended again, also one that replaced what it was told.
    pub(crate) fn not_joined(&self, id: EventId, run: Run) {
        let mut table = lock(&self.table);
        let told = |hold: &&mut Hold| hold.run == run && hold.joins > 0;
        if let Some(hold) = table.rows.get_mut(&id).filter(told) {
            hold.joins -= 1;
            hold.is_joined_no_more();
        }
    }

    /// For a statement that waits until somebody unlocks the row; not where its run settles it itself.
    pub(crate) fn renew_in_turn(self: &Arc<Self>, held: Held) -> Option<Renewing> {
        let mut table = lock(&self.table);
        let free = |hold: &&mut Hold| hold.held == Some(held) && hold.may_be_extended();
        let hold = table.rows.get_mut(&held.id).filter(free)?;
        hold.renewal = Renewal::InTurn;
        Some(Renewing { holds: self.clone(), held: vec![held] })
    }

    /// For a statement that is sent now: of these, those that are held as they were when they were chosen, and that no run
    /// settles itself.
    pub(crate) fn renew(self: &Arc<Self>, mut held: Vec<Held>) -> Renewing {
        let mut table = lock(&self.table);
        held.retain(|held| {
            let free = |hold: &&mut Hold| hold.held == Some(*held) && hold.may_be_extended();
            let hold = table.rows.get_mut(&held.id).filter(free);
            hold.map(|hold| hold.renewal = Renewal::Soon(Vec::new())).is_some()
        });
        drop(table);
        Renewing { holds: self.clone(), held }
    }
}

impl AsRef<[Held]> for Renewing {
    fn as_ref(&self) -> &[Held] {
        &self.held
    }
}

impl Hold {
    /// Where no transaction of its run may have settled it.
    fn is_joined_no_more(&mut self) {
        if self.joins == 0 && self.joined == Joined::Yes {
            self.joined = Joined::No;
        }
    }

    /// Not while its run settles it: its token must stay as it was told.
    pub(super) fn may_be_extended(&self) -> bool {
        self.joined == Joined::No || self.over
    }
}

impl Drop for Renewing {
    fn drop(&mut self) {
        let mut table = lock(&self.holds.table);
        for held in &self.held {
            if let Some(hold) = table.rows.get_mut(&held.id) {
                hold.renewal = Renewal::None;
            }
        }
    }
}
