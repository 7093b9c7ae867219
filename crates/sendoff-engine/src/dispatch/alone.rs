//! Keeps suspects apart from everything else that is in work: what a suspect waits for, in an outbox and
//! in a relay, and the places of a relay's batches.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::lock::lock;

/// Whether a suspect waits for somebody: for who waits to be begun, and for who was begun, but not for as
/// long as `hangs`: that one may never end, and must not keep the others waiting for ever.
pub(crate) fn is_company(begun: Option<Instant>, hangs: Duration) -> bool {
    begun.is_none_or(|begun| begun.elapsed() < hangs)
}

/// Waits, for at most `patience`, until it is so; looks whenever something `changed`. Answers whether it
/// came to that.
pub(crate) async fn comes_to(
    changed: &Notify,
    patience: Duration,
    it_is_so: impl Fn() -> bool,
) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        let next = changed.notified();
        if it_is_so() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        tokio::select! {
            biased;
            () = next => {}
            () = sleep_until(deadline) => {}
        }
    }
}

/// Who may be in work beside whom: batches in company, and a suspect, which may kill the process,
/// with nobody beside it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Company(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Somebody left.
    left: Notify,
}

#[derive(Debug, Default)]
struct State {
    places: u64,
    /// Since when each is in work.
    members: BTreeMap<u64, Instant>,
    /// A suspect that is in work, or waits for the others to leave.
    suspect: Option<u64>,
}

/// A place among those in work, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    company: Company,
    number: u64,
}

impl Company {
    /// Waits for a suspect to end, for at most `patience`: one that hangs is left to hang.
    pub(crate) async fn join(&self, patience: Duration) -> Place {
        self.comes_to(patience, |state| state.suspect.is_none()).await;
        let mut state = lock(&self.0.state);
        let number = state.next();
        state.members.insert(number, Instant::now());
        Place { company: self.clone(), number }
    }

    /// Waits until nobody is in work, for at most `patience`. Nobody joins meanwhile, and whoever has
    /// been in work for as long as `hangs` is no company.
    pub(crate) async fn alone(&self, patience: Duration, hangs: Duration) -> Option<Place> {
        let place = {
            let mut state = lock(&self.0.state);
            if state.suspect.is_some() {
                return None;
            }
            let number = state.next();
            state.suspect = Some(number);
            Place { company: self.clone(), number }
        };
        let company = |since: &Instant| is_company(Some(*since), hangs);
        let alone = |state: &State| !state.members.values().any(company);
        self.comes_to(patience, alone).await.then_some(place)
    }

    async fn comes_to(&self, patience: Duration, reached: impl Fn(&State) -> bool) -> bool {
        comes_to(&self.0.left, patience, || reached(&lock(&self.0.state))).await
    }
}

impl State {
    fn next(&mut self) -> u64 {
        self.places += 1;
        self.places
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = lock(&self.company.0.state);
        state.members.remove(&self.number);
        state.suspect.take_if(|number| *number == self.number);
        drop(state);
        self.company.0.left.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_suspect_waits_for_the_others_who_join_only_after_it() {
        let company = Company::default();
        let other = company.join(SECOND).await;
        let began = Instant::now();
        let suspect = async {
            let place = company.alone(60 * SECOND, 60 * SECOND).await.unwrap();
            assert_eq!(began.elapsed().as_secs(), 5, "the other has left");
            tokio::time::sleep(5 * SECOND).await;
            drop(place);
        };
        let leaves = async {
            tokio::time::sleep(5 * SECOND).await;
            drop(other);
        };
        let joins = async {
            let place = company.join(60 * SECOND).await;
            assert_eq!(began.elapsed().as_secs(), 10, "the suspect is over");
            drop(place);
        };
        tokio::join!(biased; suspect, leaves, joins);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_hangs_keeps_nobody_waiting_for_ever() {
        let company = Company::default();
        let _hangs = company.join(SECOND).await;
        let began = Instant::now();
        assert!(company.alone(2 * SECOND, 10 * SECOND).await.is_none(), "it may be at work");
        tokio::time::sleep(8 * SECOND).await;
        let suspect = company.alone(2 * SECOND, 10 * SECOND).await.unwrap();
        assert!(company.alone(SECOND, SECOND).await.is_none(), "one suspect at a time");
        assert_eq!(began.elapsed(), 10 * SECOND);
        let _beside = company.join(20 * SECOND).await;
        assert_eq!(began.elapsed(), 30 * SECOND);
        drop(suspect);
        let dropped = company.alone(60 * SECOND, 60 * SECOND);
        assert!(tokio::time::timeout(SECOND, dropped).await.is_err());
        company.join(60 * SECOND).await;
        assert_eq!(began.elapsed(), 31 * SECOND, "a suspect that gave up waiting keeps nobody out");
    }
}
