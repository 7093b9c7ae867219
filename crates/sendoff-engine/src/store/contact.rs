//! The first contact with a database: are the tables what this version needs, and may its user use them?
//!
//! A component looks once, when it starts. What no waiting mends is refused there and then, with the
//! remedy. A database that is unavailable is no reason not to start: then the same look is made as soon as
//! it answers, and nothing is asked of the tables before.

use std::future::Future;
use std::time::Duration;

use sendoff_core::report;
use tokio::time::sleep;
use tracing::{error, info, warn};

use super::error::Answer;
use super::{ClaimStore, InspectStore};

/// Between two looks at a database that was unavailable: twice as long each time, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The same where something is wrong that a person has to mend, and reads about at each look.
const LONGEST_REFUSED_PAUSE: Duration = Duration::from_secs(30);

/// Whether a component has had contact with its database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contact {
    /// Everything is as it should be.
    Made,
    /// The database is unavailable; [`first_contact`] waits for it.
    Pending,
}

/// Whether tables and rights are as delivering needs them, and what fair claims need besides, where these are
/// wanted.
pub(crate) async fn check_ready<S>(store: &S, fair: bool) -> Answer<()>
where
    S: InspectStore + ClaimStore + ?Sized,
{
    store.check_ready().await?;
    if fair { store.check_fair().await } else { Ok(()) }
}

/// Looks once, for whoever starts. `look` has a limit of its own.
///
/// # Errors
///
/// What waiting does not mend: a wrong schema, a missing right, a closed store.
pub(crate) async fn contact_at_start(look: impl Future<Output = Answer<()>>) -> Answer<Contact> {
    match look.await {
        Ok(()) => Ok(Contact::Made),
        Err(error) if error.may_pass() => {
            warn!(
                error = report(&error),
                "started without the database: its tables are checked as soon as it is available"
            );
            Ok(Contact::Pending)
        }
        Err(error) => Err(error),
    }
}

/// Looks until everything is as it should be. Whoever drops it has left nothing behind.
pub(crate) async fn first_contact<F>(look: impl Fn() -> F)
where
    F: Future<Output = Answer<()>>,
{
    let mut pause = FIRST_PAUSE;
    loop {
        let longest = match look().await {
            Ok(()) => break,
            Err(error) if error.may_pass() => LONGEST_PAUSE,
            Err(error) => {
                error!(error = report(&error), "the database cannot be worked with as it is");
                LONGEST_REFUSED_PAUSE
            }
        };
        sleep(pause).await;
        pause = (pause * 2).min(longest);
    }
    info!("the database is available, and its tables are as they should be");
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tokio::time::Instant;

    use super::*;
    use crate::store::StoreError;

    fn unavailable() -> StoreError {
        StoreError::Unavailable("nobody listens".into())
    }

    #[tokio::test]
    async fn only_what_waiting_does_not_mend_is_refused_at_the_start() {
        let start = async |error| contact_at_start(async { Err(error) }).await;
        for error in [unavailable(), StoreError::Timeout, StoreError::Busy("locked".into())] {
            assert_eq!(start(error).await.unwrap(), Contact::Pending);
        }
        for error in [
            StoreError::Closed,
            StoreError::NewerSchema { found: 9, known: 3 },
            StoreError::NotInstalled { missing: "no table".into(), remedy: "migrate".into() },
            StoreError::Schema { missing: "no column".into(), remedy: "migrate".into() },
            StoreError::Rights { missing: "no right".into(), remedy: "grant".into() },
            StoreError::Misconfigured { reason: "wrong password".into() },
            StoreError::Refused("no".into()),
        ] {
            let said = error.to_string();
            assert_eq!(start(error).await.unwrap_err().to_string(), said);
        }
        assert_eq!(contact_at_start(async { Ok(()) }).await.unwrap(), Contact::Made);
    }

    #[tokio::test(start_paused = true)]
    async fn looks_go_on_until_all_is_well_and_their_pauses_have_a_bound() {
        let refused = || StoreError::NewerSchema { found: 9, known: 3 };
        let mut answers = vec![Ok(())];
        answers.extend((0..12).map(|_| Err(refused())));
        answers.extend((0..12).map(|_| Err(unavailable())));
        let answers = RefCell::new(answers);
        let began = Instant::now();
        first_contact(async || answers.borrow_mut().pop().unwrap()).await;
        assert!(answers.borrow().is_empty());
        assert!(began.elapsed() < 12 * LONGEST_PAUSE + 12 * LONGEST_REFUSED_PAUSE);
    }
}
