//! Dead letters: found, requeued and discarded by operators, who are remembered.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::future::join;
use sendoff_core::{
    AuditAction, AuditNote, Death, Event, EventId, Letter, LetterAct, LetterFate, LetterFilter,
    LetterOrder, LetterPosition, Status, Timestamp,
};
use sendoff_engine::store::{
    AuditEntry, AuditPage, ChangeLetters, Cutoff, EventRecord, Held, InspectStore, LetterPage,
    LetterStore, Outcome, PayloadWanted, RetainStore, Settlement, Trail,
};
use tokio::time::timeout;

use crate::conformance::probe::{HOLD, due, event, held, hold_of};
use crate::conformance::{Probe, StoreHarness};

const EVERYTHING: usize = 100;

impl<H: StoreHarness> Probe<H> {
    /// Lets what is held die, all at once.
    async fn kill(&self, holds: &[Held], attempts: u32, error: &str) {
        let outcome = Outcome::dead(attempts, error.to_owned());
        let dead = |held: &Held| Settlement { held: *held, outcome: outcome.clone() };
        let batch: Vec<_> = holds.iter().map(dead).collect();
        assert_eq!(self.settle_all(&batch).await.len(), holds.len());
    }

    /// Lets so many new events die, all at once.
    async fn dead(&self, count: usize) -> Vec<EventId> {
        let ids = self.commit_due(count).await;
        let holds: Vec<_> = self.claim_all("node").await.iter().map(hold_of).collect();
        self.kill(&holds, 3, "it is no use").await;
        ids
    }

    async fn letters(&self, page: LetterPage<'_>) -> Vec<Letter> {
        self.store().letters(&page).await.expect("letters")
    }

    async fn letters_of(&self, filter: &LetterFilter) -> Vec<EventId> {
        let page = LetterPage { limit: EVERYTHING, ..first(filter, LetterOrder::OldestFirst) };
        let letters = self.letters(page).await;
        let count = self.store().count_letters(&page).await.expect("count");
        assert_eq!(count, letters.len() as u64, "{filter:?}");
        letters.iter().map(|letter| letter.id).collect()
    }

    async fn change(&self, act: LetterAct, deaths: &[Death]) -> Vec<LetterFate> {
        let note = note();
        let change = ChangeLetters { act, deaths, note: &note };
        // Long enough for a crowded machine, and far below how long an operator's lock may last.
        let changed = timeout(Duration::from_secs(10), self.store().change_letters(&change)).await;
        changed.expect("waits for a lock").expect("change")
    }

    async fn requeue(&self, ids: &[EventId]) -> Vec<LetterFate> {
        self.change(LetterAct::Requeue, &deaths(ids)).await
    }

    async fn audit_of(&self, event: Option<EventId>) -> Vec<AuditEntry> {
        let page = AuditPage { event, before: None, limit: EVERYTHING };
        self.store().audit(&page).await.expect("audit")
    }

    async fn record(&self, id: EventId, payload: PayloadWanted) -> EventRecord {
        self.store().record(id, payload).await.expect("record").expect("the row is there")
    }
}

fn first(filter: &LetterFilter, order: LetterOrder) -> LetterPage<'_> {
    LetterPage { order, ..LetterPage::first(filter, 1) }
}

fn note() -> AuditNote {
    AuditNote::new("ada", "it's mended; \"100%\" ✓").expect("a good note")
}

fn deaths(ids: &[EventId]) -> Vec<Death> {
    ids.iter().copied().map(Death::of).collect()
}

/// What is asked for is found, letter by letter, and nothing else: no pattern means anything.
pub async fn letters_are_found_by_what_is_asked_for<H: StoreHarness>(probe: &Probe<H>) {
    let plain = event();
    let about = Event::builder("Mail.wanted")
        .aggregate_type("customer")
        .aggregate_id("c'1")
        .tenant_id("tenant_a")
        .json_text("{}")
        .build()
        .expect("a good event");
    let (a, b) = (plain.id(), about.id());
    probe.commit(&[due(plain), due(about)]).await;
    let claimed = probe.claim_all("node").await;
    let hold = |id| hold_of(claimed.iter().find(|row| row.id == id).expect("claimed"));
    let began = probe.harness().now().await;
    probe.kill(&[hold(a)], 10, "550 100% full_\\ of 'quotes'\nand lines").await;
    probe.harness().pass(Duration::from_millis(2)).await;
    probe.kill(&[hold(b)], 1, "wrong address").await;
    // Neither of these is dead.
    probe.commit_due(1).await;

    let text = |text: &str| Some(text.to_owned());
    let all = LetterFilter::default();
    assert_eq!(probe.letters_of(&all).await, [a, b], "those that died first come first");
    let cases = [
        (LetterFilter { event_type: text("Mail.wanted"), ..all.clone() }, vec![b]),
        (LetterFilter { event_type: text("mail.wanted"), ..all.clone() }, vec![]),
        (LetterFilter { event_type: text("Mail.wante_"), ..all.clone() }, vec![]),
        (LetterFilter { aggregate_type: text("customer"), ..all.clone() }, vec![b]),
        (LetterFilter { aggregate_id: text("c'1"), ..all.clone() }, vec![b]),
        (LetterFilter { tenant_id: text("tenant_a"), ..all.clone() }, vec![b]),
        (LetterFilter { tenant_id: text("tenant-a"), ..all.clone() }, vec![]),
        (LetterFilter { error: text("100% full_\\ of 'q"), ..all.clone() }, vec![a]),
        (LetterFilter { error: text("quotes'\nand"), ..all.clone() }, vec![a]),
        (LetterFilter { error: text("100_ full"), ..all.clone() }, vec![]),
        (LetterFilter { error: text("%"), ..all.clone() }, vec![a]),
        (LetterFilter { error: text("Wrong"), ..all.clone() }, vec![]),
        (LetterFilter { attempts_least: Some(10), ..all.clone() }, vec![a]),
        (LetterFilter { attempts_most: Some(9), ..all.clone() }, vec![b]),
        (
            LetterFilter { attempts_least: Some(1), attempts_most: Some(10), ..all.clone() },
            vec![a, b],
        ),
        (
            LetterFilter {
                event_type: text("Mail.wanted"),
                attempts_least: Some(2),
                ..all.clone()
            },
            vec![],
        ),
    ];
    for (filter, found) in cases {
        assert_eq!(probe.letters_of(&filter).await, found, "{filter:?}");
    }

    let letters =
        probe.letters(LetterPage { limit: 2, ..first(&all, LetterOrder::OldestFirst) }).await;
    let [of_a, of_b] = letters.as_slice() else { panic!("two: {letters:?}") };
    assert!(began <= of_a.died_at && of_a.died_at < of_b.died_at, "{of_a:?} {of_b:?}");
    assert_eq!(of_a.last_error.as_deref(), Some("550 100% full_\\ of 'quotes'\nand lines"));
    assert_eq!((of_a.attempts, of_a.event_type.as_str()), (10, "thing.happened"));
    assert_eq!(of_b.aggregate_id.as_deref(), Some("c'1"));
    let from = LetterFilter { died_from: Some(of_b.died_at), ..all.clone() };
    assert_eq!(probe.letters_of(&from).await, [b]);
    let to = LetterFilter { died_to: Some(of_b.died_at), ..all.clone() };
    assert_eq!(probe.letters_of(&to).await, [a]);
    let until = |until| LetterPage {
        until: Some(until),
        limit: 9,
        ..first(&all, LetterOrder::OldestFirst)
    };
    assert_eq!(probe.letters(until(of_a.died_at)).await.len(), 1, "at that time too");
    assert_eq!(probe.letters(until(began)).await.len(), usize::from(began == of_a.died_at));
    for far in [i64::MIN, -1, i64::MAX] {
        let far = LetterFilter { died_from: Some(Timestamp::from_micros(far)), ..all.clone() };
        let found = probe.letters_of(&far).await.len();
        assert!(found == 2 || found == 0, "whatever time is asked for, it is an answer");
    }
}

/// However many died at one time, and whatever comes and goes between: each is on one page.
pub async fn pages_of_letters_neither_repeat_nor_miss_any<H: StoreHarness>(probe: &Probe<H>) {
    let mut ids = probe.dead(4).await;
    ids.extend(probe.dead(3).await);
    let filter = LetterFilter::default();
    for order in [LetterOrder::OldestFirst, LetterOrder::NewestFirst] {
        let mut seen: Vec<LetterPosition> = Vec::new();
        loop {
            let page =
                LetterPage { after: seen.last().copied(), limit: 2, ..first(&filter, order) };
            let letters = probe.letters(page).await;
            if letters.is_empty() {
                break;
            }
            seen.extend(letters.iter().map(Letter::position));
        }
        assert_eq!(seen.len(), ids.len(), "{order:?}: {seen:?}");
        match order {
            LetterOrder::OldestFirst => assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}"),
            LetterOrder::NewestFirst => assert!(seen.is_sorted_by(|a, b| a > b), "{seen:?}"),
        }
    }
    let page = LetterPage { limit: 3, ..first(&filter, LetterOrder::OldestFirst) };
    let letters = probe.letters(page).await;
    let gone: Vec<_> = letters.iter().map(|letter| letter.id).collect();
    assert_eq!(probe.requeue(&gone).await, [LetterFate::Done; 3]);
    let next = LetterPage { after: letters.last().map(Letter::position), limit: 9, ..page };
    let rest: HashSet<_> = probe.letters(next).await.iter().map(|letter| letter.id).collect();
    let expected: HashSet<_> = ids.into_iter().filter(|id| !gone.contains(id)).collect();
    assert_eq!(rest, expected);
}

/// A count goes as far as it is told, and no further.
pub async fn letters_are_counted_up_to_a_limit<H: StoreHarness>(probe: &Probe<H>) {
    probe.dead(5).await;
    let filter = LetterFilter::default();
    for (limit, counted) in [(1, 1), (4, 4), (5, 5), (6, 5), (10_000_001, 5)] {
        let page = LetterPage { limit, ..first(&filter, LetterOrder::OldestFirst) };
        assert_eq!(probe.store().count_letters(&page).await.expect("count"), counted);
    }
}

/// A requeued letter is as if it had never been tried, but for its last error; and is claimed at once.
pub async fn a_requeued_letter_is_new_and_due_at_once<H: StoreHarness>(probe: &Probe<H>) {
    let ids = probe.dead(2).await;
    let topics = probe.topics().await;
    let (fates, window) = probe.timed(probe.requeue(&ids[..1])).await;
    assert_eq!(fates, [LetterFate::Done]);
    let record = probe.record(ids[0], PayloadWanted::No).await;
    assert_eq!((record.status, record.attempts, record.losses), (Status::New, 0, 0));
    assert_eq!((record.done_at, record.locked_by), (None, None));
    assert_eq!((record.unavailable_since, record.unroutable_since), (None, None));
    assert_eq!(record.last_error.as_deref(), Some("it is no use"));
    window.assert_has(record.due_at.expect("it is due"));
    assert_eq!(probe.letters_of(&LetterFilter::default()).await, ids[1..]);
    let claimed = probe.claim_one("other").await;
    assert_eq!((claimed.id, claimed.attempts, claimed.lost), (ids[0], 0, false));
    let after = probe.topics().await;
    assert_eq!(after[0].counts.dead, topics[0].counts.dead, "counters count what ended");
}

/// A requeue is fenced as everything else: who held the row before it died holds nothing of it now.
pub async fn a_zombie_cannot_settle_what_was_requeued<H: StoreHarness>(probe: &Probe<H>) {
    let held = probe.take_one("zombie").await;
    probe.kill(&[held], 1, "no").await;
    assert_eq!(probe.requeue(&[held.id]).await, [LetterFate::Done]);
    assert!(!probe.settle(held, Outcome::Done).await);
    assert_eq!(probe.confirm(&[held]).await, []);
    assert_eq!(probe.row(held.id).await.status, Status::New);
}

/// A discarded letter is gone, and the audit knows what it was.
pub async fn a_discarded_letter_is_gone_and_remembered<H: StoreHarness>(probe: &Probe<H>) {
    let ids = probe.dead(2).await;
    let last = deaths(&ids[1..]);
    let (fates, window) = probe.timed(probe.change(LetterAct::Discard, &last)).await;
    assert_eq!(fates, [LetterFate::Done]);
    assert!(probe.find(ids[1]).await.is_none());
    assert_eq!(probe.letters_of(&LetterFilter::default()).await, ids[..1]);
    let audit = probe.audit_of(Some(ids[1])).await;
    let [entry] = audit.as_slice() else { panic!("one: {audit:?}") };
    window.assert_has(entry.at);
    assert_eq!((entry.action, entry.event), (AuditAction::Discard, Some(ids[1])));
    assert_eq!((entry.actor.as_str(), entry.reason.as_str()), (note().actor(), note().reason()));
    assert_eq!(entry.event_type.as_deref(), Some("thing.happened"));
    assert_eq!((entry.attempts, entry.last_error.as_deref()), (Some(3), Some("it is no use")));
    assert_eq!(entry.subject, None);
    assert_eq!(probe.requeue(&ids[1..]).await, [LetterFate::NotFound]);
}

/// Whatever is not dead is left as it is, whoever asks, and says where it stands.
pub async fn only_dead_letters_are_changed<H: StoreHarness>(probe: &Probe<H>) {
    let ids = probe.commit_due(3).await;
    let held: Vec<_> = probe.claim_all("node").await.iter().map(hold_of).collect();
    assert!(probe.settle(held[0], Outcome::Done).await);
    let retry = Outcome::Retry { delay: probe.ticks(9), attempts: 1, error: "no".to_owned() };
    assert!(probe.settle(held[1], retry).await);
    let unknown = EventId::generate();
    let asked = [ids[0], unknown, ids[1], ids[2]];
    let done = if probe.store().keeps().is_some() {
        LetterFate::NotDead { status: Status::Done }
    } else {
        LetterFate::NotFound
    };
    let expected = [
        done,
        LetterFate::NotFound,
        LetterFate::NotDead { status: Status::Retry },
        LetterFate::NotDead { status: Status::New },
    ];
    for act in [LetterAct::Requeue, LetterAct::Discard] {
        assert_eq!(probe.change(act, &deaths(&asked)).await, expected, "{act:?}");
    }
    let row = probe.row(ids[2]).await;
    assert_eq!(row.locked_by.as_deref(), Some("node"), "it is still held");
    assert!(probe.settle(held[2], Outcome::Done).await, "by the token it had");
    assert_eq!(probe.row(ids[1]).await.attempts, 1);
    assert_eq!(probe.audit_of(None).await, [], "nothing was done");
}

/// One that was requeued and died again is another letter.
pub async fn a_letter_that_died_again_is_another<H: StoreHarness>(probe: &Probe<H>) {
    let ids = probe.dead(1).await;
    let filter = LetterFilter::default();
    let seen = probe.letters(first(&filter, LetterOrder::OldestFirst)).await[0].death();
    assert_eq!(probe.requeue(&ids).await, [LetterFate::Done]);
    probe.harness().pass(Duration::from_millis(2)).await;
    let held = hold_of(&probe.claim_one("node").await);
    probe.kill(&[held], 7, "again").await;
    assert_eq!(probe.change(LetterAct::Requeue, &[seen]).await, [LetterFate::DiedAgain]);
    assert_eq!(probe.record(ids[0], PayloadWanted::No).await.attempts, 7);
    let now = probe.letters(first(&filter, LetterOrder::OldestFirst)).await[0].death();
    assert_eq!(probe.change(LetterAct::Requeue, &[now]).await, [LetterFate::Done]);
    assert_eq!(probe.audit_of(Some(ids[0])).await.len(), 2, "each time it was done");
}

/// A letter that somebody has locked is busy, at once, and keeps no other from being requeued (I11).
pub async fn a_locked_letter_is_busy_and_the_others_are_changed<H: StoreHarness>(probe: &Probe<H>) {
    let ids = probe.dead(3).await;
    let Some(lock) = probe.harness().lock_row(ids[1]).await else { return };
    let busy = [LetterFate::Done, LetterFate::Busy, LetterFate::Done];
    assert_eq!(probe.requeue(&ids).await, busy);
    assert_eq!(probe.change(LetterAct::Discard, &deaths(&ids[1..2])).await, [LetterFate::Busy]);
    lock.release().await;
    assert_eq!(probe.audit_of(Some(ids[1])).await, [], "what was not done is not remembered");
    assert_eq!(probe.requeue(&ids[1..2]).await, [LetterFate::Done]);
}

/// Two operators at once: each letter is requeued by one of them.
pub async fn letters_are_requeued_once_by_whomever<H: StoreHarness>(probe: &Probe<H>) {
    let ids = probe.dead(100).await;
    let reversed: Vec<_> = ids.iter().rev().copied().collect();
    let (one, mut other) = join(probe.requeue(&ids), probe.requeue(&reversed)).await;
    other.reverse();
    let done = |fate: &LetterFate| *fate == LetterFate::Done;
    for (one, other) in one.iter().zip(&other) {
        assert!(!(done(one) && done(other)), "{one:?} {other:?}");
    }
    let told = one.iter().chain(&other).filter(|fate| done(fate)).count();
    assert_eq!(probe.store().counts().await.expect("counts").new, told as u64);
    let entries = probe.audit_of(None).await;
    let events: HashSet<_> = entries.iter().map(|entry| entry.event).collect();
    assert_eq!((entries.len(), events.len()), (told, told), "one entry each");
}

/// The audit is read from its end, page by page.
pub async fn the_audit_is_read_from_its_end<H: StoreHarness>(probe: &Probe<H>) {
    let ids = probe.dead(3).await;
    for id in &ids {
        assert_eq!(probe.requeue(&[*id]).await, [LetterFate::Done]);
    }
    let page = AuditPage { limit: 2, ..AuditPage::default() };
    let latest = probe.store().audit(&page).await.expect("audit");
    let events: Vec<_> = latest.iter().filter_map(|entry| entry.event).collect();
    assert_eq!(events, [ids[2], ids[1]]);
    let before = latest.last().map(|entry| entry.seq);
    let rest = probe.store().audit(&AuditPage { before, ..page }).await.expect("audit");
    assert_eq!(rest.iter().filter_map(|entry| entry.event).collect::<Vec<_>>(), ids[..1]);
    assert_eq!(probe.audit_of(Some(ids[1])).await.len(), 1);
    assert_eq!(probe.audit_of(Some(EventId::generate())).await, []);
}

/// What operators did long ago is forgotten in batches, the oldest first, and what they did lately is not; no number is
/// drawn twice. Holds L7.
pub async fn the_audit_is_forgotten_in_batches<H: StoreHarness>(probe: &Probe<H>) {
    let ids = probe.dead(5).await;
    for id in &ids[..3] {
        assert_eq!(probe.requeue(&[*id]).await, [LetterFate::Done]);
    }
    probe.pass(1).await;
    let between = Cutoff::Before(probe.harness().now().await);
    assert_eq!(probe.requeue(&ids[3..4]).await, [LetterFate::Done]);
    let forget = async |cutoff, limit| {
        probe.store().forget(Trail::Audit, cutoff, limit).await.expect("forget")
    };
    let left = async || -> Vec<_> {
        probe.audit_of(None).await.iter().filter_map(|entry| entry.event).collect()
    };
    let earliest = Timestamp::from_micros(i64::MIN);
    assert_eq!(forget(Cutoff::Age(Duration::from_secs(3_600)), EVERYTHING).await, 0);
    assert_eq!(forget(Cutoff::Before(earliest), EVERYTHING).await, 0);
    assert_eq!(forget(between, 0).await, 0);
    assert_eq!(forget(between, 2).await, 2, "no more than asked for");
    assert_eq!(left().await, [ids[3], ids[2]]);
    assert_eq!(forget(between, 2).await, 1, "until nothing is left");
    assert_eq!(left().await, [ids[3]]);

    let last = probe.audit_of(None).await[0].seq;
    let latest = Timestamp::from_micros(i64::MAX);
    assert_eq!(forget(Cutoff::Before(latest), EVERYTHING).await, 1);
    assert_eq!(left().await, []);
    assert_eq!(probe.requeue(&ids[4..]).await, [LetterFate::Done]);
    assert!(probe.audit_of(None).await[0].seq > last);
}

/// Every column is shown, and the payload only to whoever asks for it.
pub async fn a_record_shows_every_column<H: StoreHarness>(probe: &Probe<H>) {
    let event = Event::builder("mail.wanted")
        .aggregate_type("customer")
        .aggregate_id("c1")
        .tenant_id("t1")
        .ordering_key("k1")
        .header("trace", "1-2")
        .bytes(vec![0, 159, 146, 150])
        .build()
        .expect("a good event");
    let row = held(event.clone(), "node", probe.ticks(HOLD));
    let token = probe.commit(&[row]).await[0].token.expect("born held");
    probe.kill(&[Held::row(event.id(), token)], 4, "no").await;
    let found = probe.record(event.id(), PayloadWanted::No).await;
    assert_eq!((found.payload_bytes, &found.payload), (4, &None));
    assert_eq!((found.id, found.status, found.attempts), (event.id(), Status::Dead, 4));
    assert_eq!(found.event_type, "mail.wanted");
    assert_eq!(
        (found.aggregate_type.as_str(), found.aggregate_id.as_deref()),
        ("customer", Some("c1"))
    );
    assert_eq!(
        (found.tenant_id.as_deref(), found.ordering_key.as_deref()),
        (Some("t1"), Some("k1"))
    );
    assert_eq!(
        (found.shard, found.content_type.as_str()),
        (event.shard().into(), event.content_type())
    );
    assert!(
        found.headers.as_deref().is_some_and(|text| text.contains("1-2")),
        "{:?}",
        found.headers
    );
    assert_eq!(found.occurred_at, event.occurred_at());
    assert_eq!(found.last_error.as_deref(), Some("no"));
    let row = probe.row(event.id()).await;
    assert_eq!((found.created_at, found.done_at), (row.created_at, row.done_at));
    let with = probe.record(event.id(), PayloadWanted::Yes).await;
    assert_eq!(with.payload.as_deref(), Some(&[0, 159, 146, 150][..]));
    assert_eq!(EventRecord { payload: None, ..with }, found);
    let unknown = probe.store().record(EventId::generate(), PayloadWanted::Yes).await;
    assert!(unknown.expect("record").is_none());
}
