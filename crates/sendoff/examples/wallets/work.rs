//! Workers that move money between few wallets, so that they get in each other's way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use sendoff::journal::{ExecuteError, Executed, Journal, JournalStore};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::bank::{Refused, deposit, open, transfer};

/// How much is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) wallets: usize,
    pub(crate) workers: usize,
    /// Transfers of each worker, one after the other.
    pub(crate) transfers: usize,
    /// The pause between further ones, until it is over.
    pub(crate) trickle: Duration,
}

/// What became of the commands.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) carried_out: AtomicU64,
    pub(crate) insufficient: AtomicU64,
    /// Decisions that somebody else was quicker than, and that were made again.
    pub(crate) decided_again: AtomicU64,
    /// Commands that lost every time.
    pub(crate) given_up: AtomicU64,
}

impl Tally {
    fn count(&self, answer: Result<Executed, ExecuteError<Refused>>) -> Result<()> {
        let add = |counter: &AtomicU64, more: u32| {
            counter.fetch_add(more.into(), Ordering::Relaxed);
        };
        match answer {
            Ok(executed) => {
                add(&self.carried_out, 1);
                add(&self.decided_again, executed.tries - 1);
            }
            Err(ExecuteError::Handler(Refused::Insufficient { .. })) => add(&self.insufficient, 1),
            Err(ExecuteError::Contended { tries, .. }) => {
                add(&self.given_up, 1);
                add(&self.decided_again, tries - 1);
            }
            Err(error) => bail!("{error}"),
        }
        Ok(())
    }
}

fn name(number: usize) -> String {
    format!("w{number}")
}

/// Opens the wallets and puts money into each. Those of an earlier run are open already.
pub(crate) async fn begin<S: JournalStore>(
    journal: &Journal<S>,
    plan: Plan,
    tally: &Tally,
) -> Result<()> {
    for wallet in (0..plan.wallets).map(name) {
        match open(journal, &wallet).await {
            Err(ExecuteError::Handler(Refused::AlreadyOpen)) => {}
            answer => tally.count(answer)?,
        }
        tally.count(deposit(journal, &wallet, 10_000).await)?;
    }
    Ok(())
}

/// Every worker makes its transfers, all at once.
pub(crate) async fn rush<S: JournalStore>(
    journal: &Journal<S>,
    plan: Plan,
    tally: &Arc<Tally>,
) -> Result<()> {
    let mut workers = JoinSet::new();
    for _ in 0..plan.workers {
        let (journal, tally) = (journal.clone(), Arc::clone(tally));
        workers.spawn(async move {
            for _ in 0..plan.transfers {
                move_some(&journal, plan, &tally).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    Ok(())
}

/// A transfer now and then, until it is over, so that there is something to watch.
pub(crate) async fn trickle<S: JournalStore>(
    journal: &Journal<S>,
    plan: Plan,
    tally: &Tally,
    mut over: watch::Receiver<bool>,
) -> Result<()> {
    loop {
        move_some(journal, plan, tally).await?;
        tokio::select! {
            _ = over.wait_for(|over| *over) => return Ok(()),
            () = tokio::time::sleep(plan.trickle) => {}
        }
    }
}

/// An amount between two wallets, which may be more than there is.
async fn move_some<S: JournalStore>(journal: &Journal<S>, plan: Plan, tally: &Tally) -> Result<()> {
    let from = fastrand::usize(..plan.wallets);
    let to = (from + fastrand::usize(1..plan.wallets)) % plan.wallets;
    let cents = fastrand::i64(1..=8_000);
    tally.count(transfer(journal, &name(from), &name(to), cents).await)
}
