//! Holds: admission, starting, fencing, releasing, and their bounds.

use futures_util::FutureExt;
use sendoff_core::{Timestamp, Token};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn held(token: i64) -> Held {
    Held::row(EventId::from_bytes([7; 16]), Token::new(Timestamp::from_micros(token)))
}

fn id() -> EventId {
    held(0).id
}

/// Holds that are extended in their last two seconds.
fn holds(ttl: Option<Duration>) -> Arc<Holds> {
    Arc::new(Holds::new(2 * SECOND, ttl))
}

fn admit(holds: &Arc<Holds>, token: i64, lasts: Duration) -> Ticket {
    match holds.admit(held(token), Deadline::after(lasts), Lane::Cold) {
        Admission::Ticket(ticket) => ticket,
        refused => panic!("{refused:?}"),
    }
}

/// Holds D3.
#[tokio::test(start_paused = true)]
async fn an_event_in_flight_is_not_taken_in_twice_but_its_run_gets_the_newer_hold() {
    let holds = holds(None);
    let ticket = admit(&holds, 1, 8 * SECOND);
    let end = Deadline::after(9 * SECOND);
    assert!(matches!(holds.admit(held(2), end, Lane::Cold), Admission::InFlight));
    assert_eq!(ticket.held(), Some(held(2)));
    ticket.settled(held(2));
    assert!(holds.take_released(usize::MAX).is_empty(), "what is settled is not released");
    assert!(matches!(holds.admit(held(3), end, Lane::Hot), Admission::Ticket(_)));
}

/// A settled row can be due, and be claimed again, before the settlement's reply is here.
#[tokio::test(start_paused = true)]
async fn a_claim_that_overtakes_the_reply_to_a_settlement_is_released() {
    let holds = holds(None);
    let ticket = admit(&holds, 1, 8 * SECOND);
    let claimed = holds.admit(held(2), Deadline::after(9 * SECOND), Lane::Cold);
    assert!(matches!(claimed, Admission::InFlight));
    ticket.settled(held(1));
    assert_eq!(holds.take_released(usize::MAX), [held(2)]);
}

/// Holds D3: others may have it, and this node does not lose a second worker to it.
#[tokio::test(start_paused = true)]
async fn with_a_ttl_a_stuck_run_is_not_extended_and_its_event_not_taken_in_again() {
    let holds = holds(Some(5 * SECOND));
    let stuck = admit(&holds, 1, 6 * SECOND);
    assert!(stuck.may_start());
    tokio::time::advance(5 * SECOND).await;
    assert!(holds.ending(|_| false).is_empty(), "a stuck run is not extended");
    let again = holds.admit(held(2), Deadline::after(9 * SECOND), Lane::Cold);
    assert!(matches!(again, Admission::Stuck));
    assert_eq!(holds.take_released(usize::MAX), [held(2)]);
    assert!(!holds.rings(), "it is for others");
    assert_eq!(stuck.held(), Some(held(1)), "and settles by a token that is over");
    drop(stuck);
    assert!(holds.rings());
    admit(&holds, 3, 9 * SECOND);
}

/// Holds D3: the wait in a lane is not work.
#[tokio::test(start_paused = true)]
async fn what_has_not_started_is_never_stuck() {
    let holds = holds(Some(SECOND));
    let _waits = admit(&holds, 1, 3 * SECOND);
    tokio::time::advance(2 * SECOND).await;
    assert_eq!(holds.ending(|_| false), [held(1)]);
}

#[tokio::test(start_paused = true)]
async fn a_run_may_not_start_once_its_hold_ran_out() {
    let holds = holds(None);
    let ticket = admit(&holds, 1, 3 * SECOND);
    assert!(ticket.may_start());
    tokio::time::advance(3 * SECOND).await;
    assert!(!ticket.may_start());
}

#[tokio::test(start_paused = true)]
async fn a_ticket_that_is_dropped_gives_its_hold_up() {
    let holds = holds(None);
    drop(admit(&holds, 1, 9 * SECOND));
    assert_eq!(holds.take_released(usize::MAX), [held(1)]);
}

#[tokio::test(start_paused = true)]
async fn a_hold_that_might_run_out_before_it_is_extended_is_released() {
    let holds = holds(None);
    let soon = Deadline::after(2 * SECOND);
    assert!(matches!(holds.admit(held(1), soon, Lane::Hot), Admission::TooLate));
    assert_eq!(holds.take_released(usize::MAX), [held(1)]);
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_was_refused_takes_the_hold_away_but_not_the_run() {
    let holds = holds(None);
    let ticket = admit(&holds, 1, 3 * SECOND);
    tokio::time::advance(2 * SECOND).await;
    let asked = holds.ending(|_| false);
    assert_eq!(asked, [held(1)]);
    let end = Deadline::after(9 * SECOND);
    holds.extended(&asked, &[], end);
    assert_eq!(ticket.held(), None);
    assert!(matches!(holds.admit(held(5), end, Lane::Cold), Admission::InFlight));
    holds.extended(&asked, &[], end);
    assert_eq!(ticket.held(), Some(held(5)), "a late answer about an old hold");
}

#[tokio::test(start_paused = true)]
async fn an_extension_nobody_waits_for_any_more_is_released() {
    let holds = holds(None);
    admit(&holds, 1, 3 * SECOND).settled(held(1));
    holds.extended(&[held(1)], &[held(2)], Deadline::after(9 * SECOND));
    assert_eq!(holds.take_released(usize::MAX), [held(2)]);
}

#[tokio::test(start_paused = true)]
async fn being_alone_waits_for_the_others_but_not_for_one_that_hangs() {
    let holds = holds(None);
    let other = EventId::from_bytes([9; 16]);
    let company = admit(&holds, 1, 90 * SECOND);
    assert!(!holds.alone(other, SECOND).await, "it waits in its lane");
    assert!(holds.alone(id(), SECOND).await, "one is no company to itself");
    assert!(company.may_start());
    tokio::time::advance(2 * SECOND).await;
    assert!(holds.alone(other, SECOND).await, "it has been in work for longer than that");
    let settle = async { company.settled(held(1)) };
    tokio::join!(biased; holds.gone(id(), 9 * SECOND), settle);
}

#[tokio::test(start_paused = true)]
async fn what_is_released_is_bounded_and_taken_once() {
    let holds = holds(None);
    for token in 0..(RELEASED as i64 + 5) {
        holds.release(held(token));
    }
    holds.released().await;
    assert_eq!(holds.take_released(7).len(), 7);
    assert_eq!(holds.take_released(usize::MAX).len(), RELEASED - 7);
    assert_eq!((holds.take_overflow(), holds.take_overflow()), (5, 0));
    assert!(holds.take_all_but(&BTreeSet::new()).is_empty());
}

/// What a batch put back is visible before the reply is here, and another batch may have it.
#[tokio::test(start_paused = true)]
async fn in_a_relay_only_what_ran_out_serves_the_run_under_way() {
    let holds = Arc::new(Holds::unreleased());
    let first = admit(&holds, 1, 3 * SECOND);
    let second = admit(&holds, 2, 3 * SECOND);
    assert_eq!((first.held(), second.held()), (None, Some(held(2))));
    first.settled(held(1));
    tokio::time::advance(3 * SECOND).await;
    let again = holds.admit(held(3), Deadline::after(3 * SECOND), Lane::Cold);
    assert!(matches!(again, Admission::InFlight));
    assert_eq!(second.held(), Some(held(3)));
}

#[tokio::test(start_paused = true)]
async fn a_newer_hold_serves_its_run_however_late_it_comes_and_an_older_one_does_not() {
    let holds = holds(None);
    let ticket = admit(&holds, 1, 9 * SECOND);
    let (older, newer) = (Deadline::after(8 * SECOND), Deadline::after(10 * SECOND));
    tokio::time::advance(9 * SECOND).await;
    for (token, until, expected) in [(2, newer, 2), (3, older, 2)] {
        let late = holds.admit(held(token), until, Lane::Cold);
        assert!(matches!(late, Admission::InFlight));
        assert_eq!(ticket.held(), Some(held(expected)));
    }
}

/// A token that a statement is about to change is not known before that is over.
#[tokio::test(start_paused = true)]
async fn a_run_that_settles_itself_waits_for_an_extension_under_way_and_none_begins_after() {
    let holds = holds(None);
    let ticket = admit(&holds, 1, 3 * SECOND);
    assert!(ticket.may_start());
    tokio::time::advance(2 * SECOND).await;
    let ending = holds.renew(holds.ending(|_| false));
    let mut joins = Box::pin(holds.join(held(1).id));
    assert!((&mut joins).now_or_never().is_none());
    holds.extended(ending.as_ref(), &[held(2)], Deadline::after(3 * SECOND));
    assert!((&mut joins).now_or_never().is_none());
    drop(ending);
    assert!(matches!(joins.await, Joining::By { held: now, .. } if now == held(2)));
    assert_eq!(ticket.joined(), Joined::Yes);
    tokio::time::advance(2 * SECOND).await;
    assert!(holds.ending(|_| false).is_empty());
    assert!(holds.renew_in_turn(held(2)).is_none());
}

/// A run settles the event by the hold that it was admitted with.
async fn joined(holds: &Holds) {
    let joining = holds.join(held(1).id).await;
    assert!(matches!(joining, Joining::By { held: now, .. } if now == held(1)), "{joining:?}");
}

/// Of a run that settles itself the hold is extended again where that was not carried out, as far as any of its tries is known.
#[tokio::test(start_paused = true)]
async fn a_run_that_could_not_settle_itself_is_as_any_other() {
    let holds = holds(None);
    let ticket = admit(&holds, 1, 3 * SECOND);
    assert!(ticket.may_start());
    for _ in 0..2 {
        joined(&holds).await;
    }
    holds.not_joined(held(1).id, ticket.run());
    assert_eq!(ticket.joined(), Joined::Yes, "what the other try did is not known");
    holds.not_joined(held(1).id, Run(0));
    assert_eq!(ticket.joined(), Joined::Yes, "that is about another run");
    holds.not_joined(held(1).id, ticket.run());
    assert_eq!(ticket.joined(), Joined::No);
    tokio::time::advance(2 * SECOND).await;
    assert_eq!(holds.ending(|_| false), [held(1)]);
}

/// Statements about others are none of its concern: they may wait for its own transaction.
#[tokio::test(start_paused = true)]
async fn a_run_that_settles_itself_waits_for_no_statement_about_others() {
    let holds = holds(None);
    let ticket = admit(&holds, 1, 3 * SECOND);
    assert!(ticket.may_start());
    tokio::time::advance(2 * SECOND).await;
    let id = held(1).id;
    let _others = holds.renew(holds.ending(|row| row == id));
    joined(&holds).await;
}

/// A look chooses for several statements, one after the other.
#[tokio::test(start_paused = true)]
async fn a_run_that_settles_itself_before_the_statement_about_its_row_is_sent_is_left_out_of_that()
{
    let holds = holds(None);
    let ticket = admit(&holds, 1, 3 * SECOND);
    assert!(ticket.may_start());
    tokio::time::advance(2 * SECOND).await;
    let ending = holds.ending(|_| false);
    assert_eq!(ending, [held(1)]);
    joined(&holds).await;
    assert!(holds.renew(ending).as_ref().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_row_is_waited_for_is_told_so() {
    let holds = holds(None);
    let ticket = admit(&holds, 1, 3 * SECOND);
    assert!(ticket.may_start());
    let in_turn = holds.renew_in_turn(held(1)).unwrap();
    assert_eq!(holds.join(held(1).id).await, Joining::Locked);
    drop(in_turn);
    joined(&holds).await;
    tokio::time::advance(3 * SECOND).await;
    assert_eq!(holds.join(held(1).id).await, Joining::Lost);
    drop(ticket);
    assert_eq!(holds.join(held(1).id).await, Joining::NotRunning);
}
