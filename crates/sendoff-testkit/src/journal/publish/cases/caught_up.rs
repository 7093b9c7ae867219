//! Waiting until a pair has passed what was appended before.

use std::time::Duration;

use sendoff_core::Failure;
use sendoff_core::journal::Append;
use sendoff_engine::journal::publish::{PairCaughtUp, Which};

use super::{append, fact, pair, position, watched};
use crate::journal::{Ending, Latch, PublishHarness};

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(60);

/// Whoever asks, on whichever node, is told once everything is published that was committed before, and not
/// earlier: a pair that waits, or is paused, has not passed it.
pub async fn a_pair_has_caught_up_when_it_has_passed_what_was_appended_before(
    harness: impl PublishHarness,
) {
    let (journal, elsewhere) = (harness.journal(), harness.elsewhere().await);
    let nobody = elsewhere.caught_up("everything", "one", SECOND).await.unwrap();
    assert_eq!(nobody, PairCaughtUp::NoSuchPair);
    let latch = Latch::new("one");
    let (node, rounds) = watched(journal, &[&latch]).await;
    append(journal, 250).await;
    assert!(elsewhere.caught_up("everything", "one", LONG).await.unwrap().is_yes());
    assert_eq!(latch.positions().len(), 250);

    latch.refuse(|_| Some(Failure::unavailable(Duration::from_millis(10), "not now")));
    append(journal, 1).await;
    let late = elsewhere.caught_up("everything", "one", SECOND).await.unwrap();
    let PairCaughtUp::TimedOut { cursor: Some(cursor) } = late else { panic!("{late:?}") };
    assert_eq!((cursor.pair, cursor.position), (pair("one"), position(250)));
    latch.accept();
    assert!(journal.caught_up("everything", "one", LONG).await.unwrap().is_yes());

    let which = Which::publisher("one");
    assert_eq!(journal.publishers().pause(&which).await.unwrap(), 1);
    rounds.pass(&pair("one")).await;
    append(journal, 1).await;
    assert!(!journal.caught_up("everything", "one", SECOND).await.unwrap().is_yes());
    assert_eq!(journal.publishers().resume(&which).await.unwrap(), 1);
    assert!(journal.caught_up("everything", "one", LONG).await.unwrap().is_yes());
    assert_eq!(latch.positions().len(), 252);

    // A number that nobody ever commits is no reason to wait.
    let undone = Append::new(vec![fact(1)], None).unwrap();
    harness.append_in(&undone, Duration::ZERO, Ending::RollBack).await.unwrap();
    assert!(elsewhere.caught_up("everything", "one", LONG).await.unwrap().is_yes());
    node.close().await;
}
