//! Order within a key: held keys, their runs, and the ways out of a failure.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::order::{AfterDead, Ending, HOT_CHAIN, is_in_line};
use sendoff_core::{AuditNote, Death, Event, EventId, LetterAct, LetterFate, Status};
use sendoff_engine::store::{
    ChangeLetters, ClaimStore, Claimed, Cutoff, EventKind, Except, ExtendKeys, Held, HeldKey,
    KeyRun, KeyStore, LetterStore, Outcome, Purge, RetainStore, RunEnd, RunsWanted, Suspects,
    TakeKeys, TakenKey, TakenKeys, WalkFrom, Window,
};

use crate::conformance::probe::{HOLD, due, held, hold_of};
use crate::conformance::{Probe, StoreHarness};

pub(super) const FROM_THE_BEGINNING: WalkFrom = WalkFrom { after: 0, rows: 1_000 };

pub(super) fn keyed(key: &str) -> Event {
    Event::builder("order.changed").ordering_key(key).json(&key).build().expect("it is good")
}

impl<H: StoreHarness> Probe<H> {
    /// Commits a row of each of these keys that nobody holds, one after the other.
    pub(super) async fn in_line(&self, keys: &[&str]) -> Vec<EventId> {
        let mut ids = Vec::new();
        for key in keys {
            let row = due(keyed(key));
            self.commit(std::slice::from_ref(&row)).await;
            ids.push(row.event.id());
        }
        ids
    }

    pub(super) async fn born_held(&self, key: &str, owner: &str) -> Held {
        let row = held(keyed(key), owner, self.ticks(HOLD));
        let born = self.commit(std::slice::from_ref(&row)).await[0];
        Held::row(row.event.id(), born.token.expect("born held"))
    }

    pub(super) fn take_by<'a>(&self, owner: &'a str) -> TakeKeys<'a> {
        TakeKeys {
            owner,
            limit: 100,
            run: 10,
            hold: self.ticks(HOLD),
            except: Except::NOTHING,
            suspects: Suspects::Skip,
            walk: Some(FROM_THE_BEGINNING),
        }
    }

    pub(super) async fn take_as(&self, take: &TakeKeys<'_>) -> TakenKeys {
        self.store().take_keys(take).await.expect("take")
    }

    pub(super) async fn take(&self, owner: &str) -> Vec<TakenKey> {
        let mut keys = self.take_as(&self.take_by(owner)).await.keys;
        keys.sort_by(|a, b| a.key.cmp(&b.key));
        keys
    }

    /// The one key that can be taken.
    pub(super) async fn take_only(&self, owner: &str) -> TakenKey {
        let mut keys = self.take(owner).await;
        assert_eq!(keys.len(), 1, "one key can be taken: {keys:?}");
        keys.remove(0)
    }

    pub(super) async fn run(&self, key: &TakenKey) -> KeyRun {
        let keys = std::slice::from_ref(key);
        let wanted = RunsWanted { keys, bytes: usize::MAX };
        let mut runs = self.store().runs(&wanted).await.expect("runs");
        assert_eq!(runs.len(), 1, "one answer for each key");
        let run = runs.remove(0);
        assert_eq!(run.key, key.key);
        run
    }

    /// Everything that is in line, under holds of its keys.
    pub(super) async fn take_runs(&self, owner: &str) -> Vec<Claimed> {
        let mut rows = Vec::new();
        for key in self.take(owner).await {
            rows.extend(self.run(&key).await.rows);
        }
        rows
    }

    /// Delivers everything that is in line, and says how much that was.
    pub(super) async fn end_runs(&self, owner: &str) -> usize {
        let mut delivered = 0;
        for key in self.take(owner).await {
            let rows = ids(&self.run(&key).await);
            delivered += rows.len();
            assert!(self.end(owner, &key, &rows, Ending::Exhausted).await);
        }
        delivered
    }

    async fn end_as(&self, owner: &str, end: RunEnd) -> bool {
        let key = end.held.key.clone();
        let settled = self.store().settle_runs(owner, &[end]).await.expect("settle");
        assert!(settled.busy.is_empty(), "nobody has locked it");
        assert!(settled.applied.is_empty() || settled.applied == [key]);
        !settled.applied.is_empty()
    }

    pub(super) async fn end(
        &self,
        owner: &str,
        key: &TakenKey,
        rows: &[EventId],
        ending: Ending,
    ) -> bool {
        let rows = rows.iter().map(|id| (*id, Outcome::Done)).collect();
        self.end_as(owner, RunEnd { held: held_key(key), rows, ending }).await
    }

    pub(super) async fn fail(
        &self,
        owner: &str,
        key: &TakenKey,
        id: EventId,
        outcome: Outcome,
        then: Ending,
    ) {
        let rows = vec![(id, outcome)];
        assert!(self.end_as(owner, RunEnd { held: held_key(key), rows, ending: then }).await);
    }

    pub(super) async fn change_letter(&self, act: LetterAct, id: EventId) -> LetterFate {
        let note = AuditNote::new("ada", "mended").expect("it is good");
        let deaths = [Death { id, died_at: None }];
        let change = ChangeLetters { act, deaths: &deaths, note: &note };
        self.store().change_letters(&change).await.expect("change").remove(0)
    }
}

pub(super) fn held_key(key: &TakenKey) -> HeldKey {
    HeldKey { key: key.key.clone(), token: key.token }
}

pub(super) fn ids(run: &KeyRun) -> Vec<EventId> {
    run.rows.iter().map(|row| row.id).collect()
}

pub(super) fn dead(then: AfterDead) -> Outcome {
    Outcome::Dead { attempts: 3, error: "no".to_owned(), then }
}

/// Holds K1: only whoever holds its key may deliver it.
pub async fn a_row_with_a_key_is_in_line_and_no_claim_sees_it<H: StoreHarness>(probe: &Probe<H>) {
    assert!(probe.store().keeps_order());
    let id = probe.in_line(&["a"]).await[0];
    assert!(probe.claim_all("node").await.is_empty());
    let row = probe.row(id).await;
    assert!(is_in_line(row.due_at) && row.locked_by.is_none() && row.delayed_until.is_none());
    assert_eq!(row.status, Status::New);
}

/// Holds O1: by their numbers, from the first live one on.
pub async fn a_walk_holds_keys_and_their_runs_are_in_order<H: StoreHarness>(probe: &Probe<H>) {
    let written = probe.in_line(&["b", "a", "b", "a", "b"]).await;
    let taken = probe.take_as(&probe.take_by("node")).await;
    let walked = taken.walked.expect("there was room");
    assert_eq!((walked.rows, walked.end, walked.listed), (5, true, 0));
    let mut keys = taken.keys;
    keys.sort_by(|a, b| a.key.cmp(&b.key));
    let [a, b] = &keys[..] else { panic!("{keys:?}") };
    assert!((a.run, b.run) == (10, 10) && !a.lost && !b.lost);
    let (of_a, of_b) = (probe.run(a).await, probe.run(b).await);
    assert_eq!(ids(&of_a), [written[1], written[3]]);
    assert_eq!(ids(&of_b), [written[0], written[2], written[4]]);
    assert!(of_a.whole && of_b.whole);
    let short = TakenKey { run: 2, ..b.clone() };
    let cut = probe.run(&short).await;
    assert!(ids(&cut) == written[..1].iter().chain(&written[2..3]).copied().collect::<Vec<_>>());
    assert!(!cut.whole, "there is more");
}

/// A walk goes on where the last one ended.
pub async fn a_walk_is_bounded_and_goes_on_where_it_ended<H: StoreHarness>(probe: &Probe<H>) {
    probe.in_line(&["a", "b", "c"]).await;
    let walk = |after, rows| Some(WalkFrom { after, rows });
    let first = probe.take_as(&TakeKeys { walk: walk(0, 2), ..probe.take_by("node") }).await;
    let walked = first.walked.expect("there was room");
    assert_eq!((first.keys.len(), walked.rows, walked.end), (2, 2, false));
    let last = walked.last.expect("there were rows");
    let rest = probe.take_as(&TakeKeys { walk: walk(last, 2), ..probe.take_by("node") }).await;
    assert_eq!(rest.keys.len(), 1);
    assert!(rest.walked.is_some_and(|walked| walked.end && walked.rows == 1));
    let none = probe.take_as(&TakeKeys { walk: None, ..probe.take_by("other") }).await;
    assert!(none.keys.is_empty() && none.walked.is_none());
    let few = probe.in_line(&["d", "e"]).await.len();
    let limited = probe.take_as(&TakeKeys { limit: 1, ..probe.take_by("node") }).await;
    assert_eq!((few, limited.keys.len()), (2, 1));
}

/// Keys are told apart to the byte, as events' fields are.
pub async fn keys_that_look_alike_are_different_keys<H: StoreHarness>(probe: &Probe<H>) {
    let long = "k".repeat(128);
    let keys = ["a", "A", "a ", "á", "a\u{301}", "ß", "ss", &*long, "%", "_"];
    probe.in_line(&keys).await;
    let taken = probe.take("node").await;
    let names: BTreeSet<&str> = taken.iter().map(|key| &*key.key).collect();
    assert_eq!(names, keys.into_iter().collect());
    for key in &taken {
        let run = probe.run(key).await;
        assert_eq!((run.rows.len(), run.whole), (1, true), "{:?}", key.key);
        let event = run.rows[0].event.as_ref().expect("it can be read");
        assert_eq!(event.ordering_key(), Some(&*key.key));
    }
}

/// Holds I1, attack 21: nobody waits, and nobody shares.
pub async fn two_walks_share_nothing<H: StoreHarness>(probe: &Probe<H>) {
    let keys: Vec<String> = (0..40).map(|key| format!("key {key}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    probe.in_line(&keys).await;
    let take = |owner| async move { probe.take(owner).await };
    let (one, two, three) = tokio::join!(take("one"), take("two"), take("three"));
    let all: Vec<Arc<str>> =
        one.iter().chain(&two).chain(&three).map(|key| key.key.clone()).collect();
    let different: BTreeSet<_> = all.iter().collect();
    assert_eq!((all.len(), different.len()), (40, 40));
}

/// Holds O2, O4: and then its run goes one by one, since nobody knows whose fault it was.
pub async fn a_key_whose_holder_vanished_is_taken_after_its_hold<H: StoreHarness>(
    probe: &Probe<H>,
) {
    let written = probe.in_line(&["a", "a", "a"]).await;
    let lost = probe.take_only("vanished").await;
    assert!(probe.take("node").await.is_empty(), "it is held");
    probe.pass(HOLD + 1).await;
    let taken = probe.take_only("node").await;
    assert_eq!((taken.run, taken.lost), (1, false), "alone, and nobody is blamed");
    assert_ne!(taken.token, lost.token);
    let run = probe.run(&taken).await;
    assert_eq!((ids(&run), run.rows[0].attempts, run.whole), (written[..1].to_vec(), 0, false));
    assert!(!probe.end("vanished", &lost, &written[..1], Ending::Exhausted).await, "fenced");
    assert_eq!(probe.row(written[0]).await.status, Status::New);
    assert!(probe.end("node", &taken, &written[..1], Ending::Free).await);
    let next = probe.take_only("node").await;
    assert_eq!(next.run, 1, "so does the next one");
    assert_eq!(ids(&probe.run(&next).await), written[1..2]);
}

/// Holds O3: an event that was alone with its holder is counted, and the second time it is a suspect.
pub async fn an_event_lost_alone_is_counted_and_becomes_a_suspect<H: StoreHarness>(
    probe: &Probe<H>,
) {
    let written = probe.in_line(&["a", "a"]).await;
    let alone = |owner| TakeKeys { run: 1, ..probe.take_by(owner) };
    assert_eq!(probe.take_as(&alone("first")).await.keys.len(), 1);
    probe.pass(HOLD + 1).await;
    let second = probe.take_as(&alone("second")).await.keys.remove(0);
    assert!(second.lost && second.run == 1);
    let run = probe.run(&second).await;
    assert!(run.rows[0].lost);
    assert_eq!((run.rows[0].attempts, probe.row(written[0]).await.losses), (1, 1));
    probe.pass(HOLD + 1).await;
    assert!(probe.take("node").await.is_empty(), "a suspect is left out");
    let suspects = TakeKeys { suspects: Suspects::Only, walk: None, ..probe.take_by("node") };
    let suspect = probe.take_as(&suspects).await.keys.remove(0);
    let run = probe.run(&suspect).await;
    assert_eq!((run.rows.len(), run.rows[0].attempts), (1, 2));
    assert!(probe.end("node", &suspect, &written[..1], Ending::Free).await);
    let next = probe.take_only("node").await;
    assert!(!next.lost, "whoever comes after it is no suspect");
    assert_eq!(probe.row(written[1]).await.attempts, 0);
}

/// Holds I2, attack 6: the same node takes its key again, and its older hold settles nothing.
pub async fn a_key_taken_again_by_its_holder_has_another_token<H: StoreHarness>(probe: &Probe<H>) {
    let written = probe.in_line(&["a"]).await;
    let first = probe.take_only("node").await;
    probe.pass(HOLD + 1).await;
    let second = probe.take_only("node").await;
    assert!(first.token != second.token && !second.lost && second.run == 10, "it did not vanish");
    assert!(!probe.end("node", &first, &written, Ending::Exhausted).await);
    assert!(probe.end("node", &second, &written, Ending::Exhausted).await);
}

/// Attack 13: a lost reply to an extension costs nothing.
pub async fn an_extension_keeps_the_token_of_a_key<H: StoreHarness>(probe: &Probe<H>) {
    let written = probe.in_line(&["a"]).await;
    let key = probe.take_only("node").await;
    probe.pass(HOLD - 3).await;
    let (keys, hold) = ([held_key(&key)], probe.ticks(HOLD));
    let by = |owner| ExtendKeys { owner, keys: &keys, hold };
    let extended = probe.store().extend_keys(&by("node")).await.expect("extend");
    assert_eq!(extended.held, std::slice::from_ref(&key.key));
    let stranger = probe.store().extend_keys(&by("stranger")).await.expect("extend");
    assert!(stranger.held.is_empty() && stranger.busy.is_empty(), "it is not theirs");
    probe.pass(HOLD - 3).await;
    assert!(probe.take("other").await.is_empty(), "held for longer");
    assert!(probe.end("node", &key, &written, Ending::Exhausted).await);
    let extended = probe.store().extend_keys(&by("node")).await.expect("extend");
    assert!(extended.held.is_empty(), "there is nothing to hold");
}

/// Attacks 2, 7: what is over is seen by whoever comes next, and the list is as long as what is in work.
pub async fn a_run_that_is_over_takes_its_key_off_the_list<H: StoreHarness>(probe: &Probe<H>) {
    let written = probe.in_line(&["a", "a"]).await;
    let key = probe.take_only("node").await;
    assert_eq!(ids(&probe.run(&key).await), written);
    assert!(probe.end("node", &key, &written[..1], Ending::HeldOn).await);
    assert!(probe.take("other").await.is_empty(), "held on");
    assert_eq!(ids(&probe.run(&key).await), written[1..]);
    assert!(probe.end("node", &key, &written[1..], Ending::Exhausted).await);
    for id in written {
        let ended = probe.find(id).await.is_none_or(|row| row.status == Status::Done);
        assert!(ended, "done, or deleted where nothing is kept");
    }
    assert!(probe.take("other").await.is_empty());
    assert!(!probe.end("node", &key, &[], Ending::Free).await, "there is no such hold");
    let topics = probe.topics().await;
    assert_eq!(topics.iter().map(|topic| topic.counts.done).sum::<u64>(), 2);
}

/// Attack 8: whatever arrived meanwhile is in line, and found by the next walk.
pub async fn what_arrives_while_a_key_is_held_is_found_afterwards<H: StoreHarness>(
    probe: &Probe<H>,
) {
    let first = probe.in_line(&["a"]).await;
    let key = probe.take_only("node").await;
    assert_eq!(ids(&probe.run(&key).await), first);
    let later = probe.in_line(&["a"]).await;
    assert!(probe.end("node", &key, &first, Ending::Exhausted).await);
    let key = probe.take_only("other").await;
    assert_eq!(ids(&probe.run(&key).await), later);
}

/// Holds O3, attack 1: a failed head waits with its key, also when something new arrives and its holder is
/// gone.
pub async fn a_failed_head_waits_with_its_key<H: StoreHarness>(probe: &Probe<H>) {
    let written = probe.in_line(&["a", "a"]).await;
    let key = probe.take_only("node").await;
    let delay = probe.ticks(4);
    let retry = Outcome::Retry { delay, attempts: 1, error: "not yet".to_owned() };
    probe.fail("node", &key, written[0], retry, Ending::After(delay)).await;
    probe.in_line(&["a"]).await;
    assert!(probe.take("other").await.is_empty(), "it waits");
    let row = probe.row(written[0]).await;
    assert_eq!((row.status, row.attempts), (Status::Retry, 1));
    assert_eq!(row.last_error.as_deref(), Some("not yet"));
    assert!(is_in_line(row.due_at), "in its place");
    probe.pass(5).await;
    let key = probe.take_only("other").await;
    let run = probe.run(&key).await;
    assert_eq!((run.rows.len(), run.rows[0].id), (3, written[0]));
    assert_eq!((run.rows[0].attempts, key.lost, key.run), (1, false, 10));
}

/// Holds K5, attacks 3, 4: parked in the transaction that makes it dead, and both ways out of it.
pub async fn a_dead_head_parks_its_key_and_both_ways_lead_out<H: StoreHarness>(probe: &Probe<H>) {
    for act in [LetterAct::Requeue, LetterAct::Discard] {
        let written = probe.in_line(&["a", "a"]).await;
        let key = probe.take_only("node").await;
        probe.fail("node", &key, written[0], dead(AfterDead::Park), Ending::Free).await;
        probe.in_line(&["a"]).await;
        probe.pass(2).await;
        assert!(probe.take("other").await.is_empty(), "it is parked, whatever arrives");
        assert_eq!(probe.change_letter(act, written[0]).await, LetterFate::Done);
        let again = probe.change_letter(act, written[0]).await;
        assert!(again != LetterFate::Done, "the second is told: {again:?}");
        let key = probe.take_only("other").await;
        let run = probe.run(&key).await;
        let first = if act == LetterAct::Requeue { written[0] } else { written[1] };
        assert_eq!(run.rows[0].id, first, "{act:?}");
        let rows = ids(&run);
        assert!(probe.end("other", &key, &rows, Ending::Exhausted).await);
    }
}

/// A dead event that is skipped is over.
pub async fn a_dead_head_that_is_skipped_lets_others_follow<H: StoreHarness>(probe: &Probe<H>) {
    let written = probe.in_line(&["a", "a"]).await;
    let key = probe.take_only("node").await;
    let rows = vec![(written[0], dead(AfterDead::Skip)), (written[1], Outcome::Done)];
    let end = RunEnd { held: held_key(&key), rows, ending: Ending::Exhausted };
    assert!(probe.end_as("node", end).await);
    assert_eq!(probe.row(written[0]).await.status, Status::Dead);
    let later = probe.in_line(&["a"]).await;
    let key = probe.take_only("node").await;
    assert_eq!(ids(&probe.run(&key).await), later);
}

/// Holds I2, attack 14: nothing changes the second time, also when somebody else has the key.
pub async fn an_end_of_a_run_sent_twice_is_carried_out_once<H: StoreHarness>(probe: &Probe<H>) {
    let written = probe.in_line(&["a", "a"]).await;
    let key = probe.take_only("node").await;
    assert!(probe.end("node", &key, &written[..1], Ending::Free).await);
    assert!(!probe.end("node", &key, &written[..1], Ending::Free).await);
    let other = probe.take_only("other").await;
    assert!(!probe.end("node", &key, &written, Ending::Exhausted).await);
    assert_eq!(ids(&probe.run(&other).await), written[1..]);
}

/// Ends of several keys are told apart.
pub async fn ends_of_several_keys_are_decided_one_by_one<H: StoreHarness>(probe: &Probe<H>) {
    let written = probe.in_line(&["a", "b", "c"]).await;
    let keys = probe.take("node").await;
    let end = |at: usize, ending| {
        let rows = vec![(written[at], Outcome::Done)];
        RunEnd { held: held_key(&keys[at]), rows, ending }
    };
    assert!(probe.end("node", &keys[1], &[], Ending::Free).await);
    let ends = [end(0, Ending::Exhausted), end(1, Ending::Exhausted), end(2, Ending::HeldOn)];
    let settled = probe.store().settle_runs("node", &ends).await.expect("settle");
    let mut applied = settled.applied;
    applied.sort();
    assert_eq!(applied, [keys[0].key.clone(), keys[2].key.clone()]);
    assert_eq!(probe.row(written[1]).await.status, Status::New);
}

/// Holds K2, attack 15: rows that somebody holds by themselves cut a run, and keep their keys waiting.
pub async fn a_row_held_by_itself_cuts_a_run<H: StoreHarness>(probe: &Probe<H>) {
    let first = probe.in_line(&["a"]).await;
    let hot = probe.born_held("a", "writer").await;
    probe.in_line(&["a"]).await;
    let key = probe.take_only("node").await;
    let run = probe.run(&key).await;
    assert_eq!((ids(&run), run.whole), (first.clone(), false));
    assert!(probe.end("node", &key, &first, Ending::Free).await);
    let taken = probe.take_as(&TakeKeys { walk: None, ..probe.take_by("node") }).await;
    assert!(taken.keys.is_empty() && taken.put_off == 1, "its first one is somebody else's");
    assert!(taken.next.is_some_and(|next| next <= Duration::from_secs(5)));
    assert!(probe.settle(hot, Outcome::Done).await);
    let key = probe.take_only("node").await;
    assert_eq!(probe.run(&key).await.rows.len(), 1, "looked at as soon as that is over");
}

/// What its holder releases is in line, and its loss stays counted.
pub async fn a_row_held_by_itself_is_in_line_when_it_is_released<H: StoreHarness>(
    probe: &Probe<H>,
) {
    let hot = probe.born_held("a", "vanished").await;
    assert!(probe.take("node").await.is_empty(), "no walk sees it");
    probe.pass(HOLD + 1).await;
    let stray = probe.claim_one("node").await;
    assert!(stray.lost && stray.id == hot.id);
    assert!(probe.settle(hold_of(&stray), Outcome::Released).await);
    let row = probe.row(hot.id).await;
    assert!(is_in_line(row.due_at) && row.locked_by.is_none());
    assert_eq!((row.attempts, row.losses), (1, 1));
    let key = probe.take_only("node").await;
    assert_eq!(ids(&probe.run(&key).await), [hot.id]);
}

/// Holds K2: what lies below a row from memory, all of it up to a bound.
pub async fn a_row_from_memory_is_confirmed_with_what_lies_below_it<H: StoreHarness>(
    probe: &Probe<H>,
) {
    let first = probe.born_held("a", "writer").await;
    let between = probe.in_line(&["a"]).await[0];
    let second = probe.born_held("a", "writer").await;
    let other = probe.born_held("b", "writer").await;
    let gone = Held::row(EventId::generate(), crate::steps::token_of(&other));
    let asked = [second, other, gone, first];
    let confirmed = probe.store().confirm_keys(&asked).await.expect("confirm");
    let below: Vec<_> = confirmed.iter().map(|row| (row.id, row.below.clone())).collect();
    let expected = [(first.id, vec![]), (second.id, vec![first.id, between]), (other.id, vec![])];
    assert_eq!(below, expected, "in the order of their numbers");
    assert!(confirmed.iter().all(|row| !row.parked));
    assert!(probe.settle(first, dead(AfterDead::Park)).await);
    let confirmed = probe.store().confirm_keys(&[second]).await.expect("confirm");
    assert!(confirmed[0].parked && confirmed[0].below == [between]);
    let many: Vec<&str> = vec!["c"; HOT_CHAIN + 3];
    probe.in_line(&many).await;
    let last = probe.born_held("c", "writer").await;
    let confirmed = probe.store().confirm_keys(&[last]).await.expect("confirm");
    assert_eq!(confirmed[0].below.len(), HOT_CHAIN + 1);
}

/// Holds K5: also of a row that was held by itself, with an entry or without.
pub async fn a_dead_row_that_was_held_by_itself_parks_its_key<H: StoreHarness>(probe: &Probe<H>) {
    let hot = probe.born_held("a", "writer").await;
    let skipped = probe.born_held("b", "writer").await;
    probe.in_line(&["a", "b"]).await;
    assert!(probe.settle(hot, dead(AfterDead::Park)).await);
    assert!(probe.settle(skipped, dead(AfterDead::Skip)).await);
    let key = probe.take_only("node").await;
    assert_eq!(&*key.key, "b", "the other one is parked");
    assert_eq!(probe.change_letter(LetterAct::Requeue, hot.id).await, LetterFate::Done);
    let key = probe.take_only("node").await;
    let run = probe.run(&key).await;
    assert_eq!((&*key.key, run.rows.len(), run.rows[0].id), ("a", 2, hot.id));
}

/// Holds K5, O1: a walk lists a key by a row in line, while an event before that is in work from memory. Where that one
/// dies, what was listed waits with all others.
pub async fn nothing_runs_of_a_key_that_was_parked_after_it_was_listed<H: StoreHarness>(
    probe: &Probe<H>,
) {
    let hot = probe.born_held("a", "writer").await;
    let behind = probe.in_line(&["a"]).await[0];
    let key = probe.take_only("node").await;
    assert!(probe.settle(hot, dead(AfterDead::Park)).await);
    let run = probe.run(&key).await;
    assert_eq!(ids(&run), []);
    assert!(probe.end("node", &key, &[], Ending::Free).await);
    assert!(probe.take("node").await.is_empty(), "it is parked");
    assert_eq!(probe.change_letter(LetterAct::Requeue, hot.id).await, LetterFate::Done);
    let key = probe.take_only("node").await;
    assert_eq!(ids(&probe.run(&key).await), [hot.id, behind]);
}

/// Holds O3: neither a walk nor an entry brings what is left out.
pub async fn a_key_whose_head_is_left_out_is_not_taken<H: StoreHarness>(probe: &Probe<H>) {
    let other = Event::builder("other").ordering_key("a").json(&1).build().expect("it is good");
    probe.commit(&[due(other)]).await;
    probe.in_line(&["a", "b"]).await;
    let kinds = [EventKind { aggregate_type: "__GLOBAL__", event_type: "other" }];
    let types = ["other"];
    for except in [Except::kinds(&kinds), Except::types(&types)] {
        let take = TakeKeys { except, ..probe.take_by("node") };
        let keys = probe.take_as(&take).await.keys;
        assert!(keys.len() == 1 && &*keys[0].key == "b", "{keys:?}");
        assert!(probe.end("node", &keys[0], &[], Ending::Free).await);
    }
    let keys = probe.take("node").await;
    assert_eq!(keys.len(), 2);
    let a = &keys[0];
    assert!(probe.end("node", a, &[], Ending::Free).await);
    let take = TakeKeys { except: Except::types(&types), walk: None, ..probe.take_by("node") };
    let listed = probe.take_as(&take).await;
    assert!(listed.keys.is_empty() && listed.put_off == 1 && listed.next.is_none(), "{listed:?}");
    assert_eq!(&*probe.take_only("other").await.key, "a", "others may have it at once");
}

/// Holds O3: whoever cannot deliver some keys gets to those that come after them.
pub async fn keys_that_are_left_out_hide_no_others<H: StoreHarness>(probe: &Probe<H>) {
    let other = Event::builder("other").ordering_key("a").json(&1).build().expect("it is good");
    probe.commit(&[due(other)]).await;
    probe.in_line(&["b"]).await;
    for key in probe.take("node").await {
        assert!(probe.end("node", &key, &[], Ending::Free).await);
        probe.pass(1).await;
    }
    let except = Except::types(&["other"]);
    let take = TakeKeys { except, limit: 1, walk: None, ..probe.take_by("node") };
    assert!(probe.take_as(&take).await.keys.is_empty(), "a comes first");
    let keys = probe.take_as(&take).await.keys;
    assert!(keys.len() == 1 && &*keys[0].key == "b", "{keys:?}");
    assert_eq!(&*probe.take_only("other").await.key, "a", "it is due for others all the while");
}

/// Holds K3, attacks 9, 19: out of the way of walks, and yet in its place.
pub async fn a_shelved_row_is_always_listed<H: StoreHarness>(probe: &Probe<H>) {
    let written = probe.in_line(&["a", "a", "a"]).await;
    let key = probe.take_only("node").await;
    probe.pass(2).await;
    let fresh = probe.in_line(&["b"]).await;
    let window = Window { after: 0, last: i64::MAX };
    let shelved = probe.store().shelve(window, probe.ticks(1)).await.expect("shelve");
    assert_eq!(shelved, 3, "those of a key that has not moved");
    let walked = probe.take_as(&probe.take_by("other")).await;
    assert_eq!(walked.walked.map(|walked| walked.rows), Some(1), "no walk meets them");
    assert_eq!(ids(&probe.run(&walked.keys[0]).await), fresh);
    assert_eq!(ids(&probe.run(&key).await), written);
    assert!(probe.end("node", &key, &written[..1], Ending::Exhausted).await);
    let key = probe.take("other").await;
    let [key] = &key[..] else { panic!("its entry must not go: {key:?}") };
    assert_eq!(ids(&probe.run(key).await), written[1..]);
    assert!(probe.end("other", key, &written[1..], Ending::Exhausted).await);
    assert!(probe.end("other", &walked.keys[0], &fresh, Ending::Exhausted).await);
    assert!(probe.take("other").await.is_empty());
    assert_eq!(probe.store().shelve(window, Duration::ZERO).await.expect("shelve"), 0);
}

/// Holds I11: a row that somebody has locked makes its key busy, and no other.
pub async fn a_locked_row_makes_its_key_busy_and_no_other<H: StoreHarness>(probe: &Probe<H>) {
    let written = probe.in_line(&["a", "b"]).await;
    let long = TakeKeys { hold: probe.ticks(HOLD * 10), ..probe.take_by("node") };
    let mut keys = probe.take_as(&long).await.keys;
    keys.sort_by(|a, b| a.key.cmp(&b.key));
    let Some(lock) = probe.harness().lock_row(written[0]).await else { return };
    let end = |at: usize| RunEnd {
        held: held_key(&keys[at]),
        rows: vec![(written[at], Outcome::Done)],
        ending: Ending::Exhausted,
    };
    let ends = [end(0), end(1)];
    let settle = probe.store().settle_runs("node", &ends);
    let settled = tokio::time::timeout(Duration::from_secs(10), settle).await;
    let settled = settled.expect("waits for a lock").expect("settle");
    assert_eq!(
        (settled.applied, settled.busy),
        (vec![keys[1].key.clone()], vec![keys[0].key.clone()])
    );
    lock.release().await;
    assert!(probe.end("node", &keys[0], &written[..1], Ending::Exhausted).await);
}

/// Holds I8, attack 3: what parks a key is kept.
pub async fn no_purge_deletes_a_dead_event_that_parks_its_key<H: StoreHarness>(probe: &Probe<H>) {
    let written = probe.in_line(&["a", "b"]).await;
    let keys = probe.take("node").await;
    probe.fail("node", &keys[0], written[0], dead(AfterDead::Park), Ending::Free).await;
    probe.fail("node", &keys[1], written[1], dead(AfterDead::Skip), Ending::Free).await;
    probe.pass(2).await;
    let purge = Purge { cutoff: Cutoff::Age(Duration::ZERO), dead: true, limit: 100 };
    let purged = probe.store().purge(&purge).await.expect("purge");
    assert_eq!(purged.dead, 1, "the one that parks nothing");
    assert!(probe.find(written[0]).await.is_some() && probe.find(written[1]).await.is_none());
}

/// Attack 23: a due time that is no time is not put right.
pub async fn rescue_leaves_rows_in_line_alone<H: StoreHarness>(probe: &Probe<H>) {
    let written = probe.in_line(&["a", "b"]).await;
    let key = probe.take_as(&TakeKeys { limit: 1, ..probe.take_by("node") }).await.keys.remove(0);
    let rescued = probe.store().rescue(probe.ticks(HOLD * 2)).await.expect("rescue");
    assert_eq!(rescued, 0);
    for id in &written {
        assert!(is_in_line(probe.row(*id).await.due_at));
    }
    assert!(probe.end("node", &key, &[], Ending::Free).await, "it is still held");
    assert_eq!(probe.take("node").await.len(), 2);
}

/// Holds G7: as much as was asked for, and always the first one.
pub async fn runs_are_bounded_in_bytes<H: StoreHarness>(probe: &Probe<H>) {
    let large = |key: &str| {
        let payload = vec![b'x'; 10_000];
        due(Event::builder("large").ordering_key(key).bytes(payload).build().expect("it is good"))
    };
    for _ in 0..4 {
        probe.commit(&[large("a")]).await;
    }
    let key = probe.take_only("node").await;
    let keys = std::slice::from_ref(&key);
    let read = |bytes| async move {
        let runs = probe.store().runs(&RunsWanted { keys, bytes }).await.expect("runs");
        (runs[0].rows.len(), runs[0].whole)
    };
    assert_eq!(read(1).await, (1, false));
    let (rows, whole) = read(25_000).await;
    assert!((1..=2).contains(&rows) && !whole, "{rows}");
    assert_eq!(read(usize::MAX).await, (4, true));
}
