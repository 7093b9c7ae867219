//! Keys that stand still: seen, explained, and let go on by people.

use std::time::Duration;

use sendoff_core::order::{AfterDead, Ending, KeyFate, KeyStanding, KeyState, key_subject};
use sendoff_core::{
    AuditAction, AuditNote, Event, EventId, LetterAct, LetterCount, LetterFate, Status, limits,
};
use sendoff_engine::store::{
    AuditPage, Cutoff, KeyPage, LetterStore, Outcome, ParkStore, PayloadWanted, Purge, ResumeKey,
    RetainStore,
};

use super::order::{dead, ids, keyed};
use crate::conformance::probe::{HOLD, due};
use crate::conformance::{Probe, StoreHarness};

impl<H: StoreHarness> Probe<H> {
    /// Writes so many events of a key, and lets the first one die.
    pub(super) async fn park(&self, key: &str, events: usize) -> Vec<EventId> {
        let written = self.in_line(&vec![key; events]).await;
        let taken = self.take("node").await;
        let taken = taken.iter().find(|taken| &*taken.key == key).expect("it can be taken");
        self.fail("node", taken, written[0], dead(AfterDead::Park), Ending::Free).await;
        written
    }

    async fn key_standing(&self, key: &str) -> KeyStanding {
        self.store().key_standing(key).await.expect("standing")
    }

    async fn parked(&self, after: Option<&str>, limit: usize) -> Vec<String> {
        let page = KeyPage { after, limit };
        let parked = self.store().parked_keys(&page).await.expect("parked");
        assert!(parked.iter().all(|key| key.parking().is_some()), "{parked:?}");
        parked.into_iter().map(|key| key.key).collect()
    }

    pub(super) async fn resume(&self, key: &str, event: Option<EventId>) -> KeyFate {
        let note = AuditNote::new("ada", "mended by hand").expect("it is good");
        self.store().resume_key(&ResumeKey { key, event, note: &note }).await.expect("resume")
    }
}

/// Parked keys are listed in pages, in the order of their bytes, and counted up to a bound.
pub async fn parked_keys_are_listed_in_pages<H: StoreHarness>(probe: &Probe<H>) {
    assert!(probe.parked(None, 10).await.is_empty());
    for key in ["b", "ä", "a", "B", "a "] {
        probe.park(key, 1).await;
    }
    probe.in_line(&["c"]).await;
    assert_eq!(probe.take_only("node").await.key.as_ref(), "c", "others go on");
    assert_eq!(probe.parked(None, 10).await, ["B", "a", "a ", "b", "ä"]);
    assert_eq!(probe.parked(None, 2).await, ["B", "a"]);
    assert_eq!(probe.parked(Some("a"), 2).await, ["a ", "b"]);
    assert_eq!(probe.parked(Some("az"), 10).await, ["b", "ä"], "also after one that is gone");
    assert!(probe.parked(Some("ä"), 10).await.is_empty());
    let count = async |most| probe.store().count_parked(most).await.expect("count");
    assert_eq!((count(100).await, count(3).await), (5, 3));
}

/// A parked key says which dead event it waits for, since when and why, and what waits in it.
pub async fn a_parked_key_says_why_and_what_waits_in_it<H: StoreHarness>(probe: &Probe<H>) {
    let written = probe.park("a", 3).await;
    let standing = probe.key_standing("a").await;
    let parking = standing.parking().expect("it is parked");
    let died_at = probe.row(written[0]).await.done_at.expect("it is dead");
    assert_eq!((parking.event, parking.since), (written[0], died_at));
    let letter = parking.letter.as_ref().expect("its row is there");
    assert_eq!((&*letter.event_type, letter.attempts), ("order.changed", 3));
    assert_eq!(letter.last_error.as_deref(), Some("no"));
    assert_eq!((standing.events, &*standing.key), (LetterCount::Exactly(2), "a"));
    let first = standing.first.as_ref().expect("two wait");
    let row = probe.row(written[1]).await;
    assert_eq!((first.id, first.created_at), (written[1], row.created_at));
    assert_eq!((&*first.event_type, first.attempts), ("order.changed", 0));
    let page = KeyPage { after: None, limit: 10 };
    let listed = probe.store().parked_keys(&page).await.expect("parked");
    assert_eq!(listed[0].parking(), Some(parking), "the list says the same");
    assert_eq!(listed[0].events, LetterCount::Exactly(2));
    let waiting = probe.store().record(written[1], PayloadWanted::No).await.expect("record");
    assert_eq!(
        waiting.map(|record| record.due_at),
        Some(None),
        "what is in line is due at no time"
    );
}

/// Whatever a key waits for, it says so.
pub async fn a_key_stands_as_it_is<H: StoreHarness>(probe: &Probe<H>) {
    let idle = probe.key_standing("nobody's").await;
    assert_eq!((idle.state, idle.events), (KeyState::Idle, LetterCount::Exactly(0)));
    assert!(idle.first.is_none());

    let written = probe.in_line(&["a", "a"]).await;
    let in_line = probe.key_standing("a").await;
    assert_eq!((in_line.state, in_line.events), (KeyState::InLine, LetterCount::Exactly(2)));
    assert_eq!(in_line.first.map(|first| first.id), Some(written[0]));

    let key = probe.take_only("node").await;
    let held = probe.key_standing("a").await.state;
    assert!(matches!(&held, KeyState::Held { by, .. } if by == "node"), "{held:?}");

    let delay = probe.ticks(HOLD * 10);
    let retry = Outcome::Retry { delay, attempts: 1, error: "not yet".to_owned() };
    probe.fail("node", &key, written[0], retry, Ending::After(delay)).await;
    let waiting = probe.key_standing("a").await;
    assert!(matches!(waiting.state, KeyState::Waiting { .. }), "{waiting:?}");
    let first = waiting.first.expect("two wait");
    assert_eq!((first.attempts, first.last_error.as_deref()), (1, Some("not yet")));

    probe.born_held("b", "writer").await;
    let hot = probe.key_standing("b").await.state;
    assert!(matches!(&hot, KeyState::Held { by, .. } if by == "writer"), "{hot:?}");

    let delayed = Event::builder("later").ordering_key("c").delay(delay).bytes("x").build();
    probe.commit(&[due(delayed.expect("it is good"))]).await;
    let delayed = probe.key_standing("c").await.state;
    assert!(matches!(delayed, KeyState::Waiting { .. }), "{delayed:?}");
    assert!(probe.parked(None, 10).await.is_empty(), "none of these is parked");
}

/// Events of a key are counted up to a bound.
pub async fn the_events_of_a_key_are_counted_up_to_a_bound<H: StoreHarness>(probe: &Probe<H>) {
    let most = limits::KEY_EVENTS;
    let rows: Vec<_> = (0..most).map(|_| due(keyed("a"))).collect();
    probe.commit(&rows).await;
    assert_eq!(probe.key_standing("a").await.events, LetterCount::Exactly(most as u64));
    probe.in_line(&["a"]).await;
    assert_eq!(probe.key_standing("a").await.events, LetterCount::AtLeast(most as u64));
}

/// A key that somebody lets go on leaves its dead event where it is, and remembers it in the audit. Requeued
/// later, that comes after whatever overtook it.
pub async fn a_key_that_is_resumed_goes_on_without_its_dead_event<H: StoreHarness>(
    probe: &Probe<H>,
) {
    let written = probe.park("a", 3).await;
    probe.pass(2).await;
    assert!(probe.take("other").await.is_empty(), "it is parked");
    assert_eq!(probe.resume("a", Some(written[0])).await, KeyFate::Resumed { event: written[0] });
    assert_eq!(probe.resume("a", None).await, KeyFate::NotParked, "once");
    assert!(probe.parked(None, 10).await.is_empty());
    assert_eq!(probe.row(written[0]).await.status, Status::Dead, "the letter stays");

    let page = AuditPage { event: Some(written[0]), before: None, limit: 10 };
    let entries = probe.store().audit(&page).await.expect("audit");
    let [entry] = &entries[..] else { panic!("one entry: {entries:?}") };
    assert_eq!(
        (entry.action, entry.subject.clone()),
        (AuditAction::Resume, Some(key_subject("a")))
    );
    assert_eq!((&*entry.actor, &*entry.reason), ("ada", "mended by hand"));
    assert_eq!((entry.event_type.as_deref(), entry.attempts), (Some("order.changed"), Some(3)));
    assert_eq!(entry.last_error.as_deref(), Some("no"));

    let key = probe.take_only("other").await;
    let run = probe.run(&key).await;
    assert_eq!((ids(&run), run.whole), (written[1..].to_vec(), true), "the others follow");
    assert_eq!(probe.change_letter(LetterAct::Requeue, written[0]).await, LetterFate::Done);
    assert!(probe.end("other", &key, &written[1..], Ending::Free).await, "nobody was disturbed");
    let key = probe.take_only("other").await;
    assert_eq!(ids(&probe.run(&key).await), written[..1], "after what overtook it");
    assert!(probe.end("other", &key, &written[..1], Ending::Exhausted).await);
}

/// Holds K5: a key goes on only without the event that was named, whatever parks it meanwhile.
pub async fn a_key_is_resumed_only_without_the_event_that_was_named<H: StoreHarness>(
    probe: &Probe<H>,
) {
    let other = EventId::generate();
    assert_eq!(probe.resume("a", Some(other)).await, KeyFate::NotParked, "nobody's");
    let written = probe.park("a", 2).await;
    assert_eq!(probe.resume("a", Some(other)).await, KeyFate::ParkedBy { event: written[0] });
    assert_eq!(probe.resume("A", Some(written[0])).await, KeyFate::NotParked, "another key");
    let page = AuditPage { event: None, before: None, limit: 10 };
    assert!(probe.store().audit(&page).await.expect("audit").is_empty(), "nothing was done");
    assert_eq!(probe.parked(None, 10).await, ["a"]);

    // The event that an operator saw is requeued by another, and the next one dies.
    assert_eq!(probe.change_letter(LetterAct::Discard, written[0]).await, LetterFate::Done);
    let key = probe.take_only("node").await;
    probe.fail("node", &key, written[1], dead(AfterDead::Park), Ending::Free).await;
    let seen = Some(written[0]);
    assert_eq!(probe.resume("a", seen).await, KeyFate::ParkedBy { event: written[1] });
    assert_eq!(probe.resume("a", None).await, KeyFate::Resumed { event: written[1] });
    probe.in_line(&["a"]).await;
    assert_eq!(probe.take_only("node").await.key.as_ref(), "a");
}

/// Of operators who do the same at once, one did it, and it is written down once.
pub async fn of_operators_who_resume_a_key_at_once_one_did_it<H: StoreHarness>(probe: &Probe<H>) {
    for round in 0..5 {
        let key = format!("key {round}");
        let written = probe.park(&key, 2).await;
        let resume = |_| {
            let (probe, key) = (probe.clone(), key.clone());
            tokio::spawn(async move { probe.resume(&key, None).await })
        };
        let mut done = 0;
        for operator in (0..4).map(resume).collect::<Vec<_>>() {
            match operator.await.expect("no panic") {
                KeyFate::Resumed { event } if event == written[0] => done += 1,
                KeyFate::NotParked | KeyFate::Busy => {}
                other => panic!("{other:?}"),
            }
        }
        let page = AuditPage { event: Some(written[0]), before: None, limit: 10 };
        let noted = probe.store().audit(&page).await.expect("audit").len();
        assert_eq!((done, noted), (1, 1));
    }
}

/// What parks no key any more may be purged, as one that was skipped.
pub async fn a_dead_event_that_parks_no_key_any_more_may_be_purged<H: StoreHarness>(
    probe: &Probe<H>,
) {
    let written = probe.park("a", 1).await;
    probe.pass(2).await;
    let purge = Purge { cutoff: Cutoff::Age(Duration::ZERO), dead: true, limit: 100 };
    let purged = async || probe.store().purge(&purge).await.expect("purge").dead;
    assert_eq!(purged().await, 0, "it parks its key");
    assert_eq!(probe.resume("a", None).await, KeyFate::Resumed { event: written[0] });
    assert_eq!(purged().await, 1);
    assert!(probe.find(written[0]).await.is_none());
    assert!(probe.take("node").await.is_empty(), "there is nothing of it");
    assert_eq!(probe.key_standing("a").await.state, KeyState::Idle);
}
