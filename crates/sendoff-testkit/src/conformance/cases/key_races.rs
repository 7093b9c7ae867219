//! Keys with several at them at once: schedules in which one could get into another's way, or past it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use sendoff_core::order::{AfterDead, Ending, HOT_CHAIN, KeyFate};
use sendoff_core::{EventId, LetterAct, LetterFate, Status};
use sendoff_engine::store::{
    AuditPage, Born, Claimed, ExtendKeys, Held, KeyStore, LetterStore, NewRow, Outcome, RunEnd,
    SettleStore, Settlement, Suspects, TakeKeys, TakenKey, WalkFrom, Window,
};
use tokio::time::timeout;

use super::order::{FROM_THE_BEGINNING, dead, held_key, ids, keyed};
use crate::conformance::probe::{HOLD, due, event, held, hold_of};
use crate::conformance::{Probe, StoreHarness};

/// A hold that is to run out soon.
const BRIEF: Duration = Duration::from_millis(5);
/// Far above what anything here takes, and far below how long a session waits for a lock.
const NO_LOCK: Duration = Duration::from_secs(10);
/// A tenth of it where nothing else keeps the machine busy.
const SOON: Duration = Duration::from_secs(1);
const EVERYTHING: Window = Window { after: 0, last: i64::MAX };

impl<H: StoreHarness> Probe<H> {
    /// Commits a row of each of these keys in one transaction.
    async fn in_line_at_once(&self, keys: &[String]) -> Vec<EventId> {
        let rows: Vec<_> = keys.iter().map(|key| due(keyed(key))).collect();
        self.commit(&rows).await;
        rows.iter().map(|row| row.event.id()).collect()
    }

    fn briefly_by<'a>(&self, owner: &'a str) -> TakeKeys<'a> {
        TakeKeys { hold: BRIEF, ..self.take_by(owner) }
    }

    /// Lets brief holds run out.
    async fn lapse(&self) {
        self.harness().pass(2 * BRIEF).await;
    }

    /// The keys that can be taken, in the order of their names.
    async fn take_briefly(&self, owner: &str) -> Vec<TakenKey> {
        let mut keys = self.take_as(&self.briefly_by(owner)).await.keys;
        keys.sort_by(|a, b| a.key.cmp(&b.key));
        keys
    }

    /// Sends ends until nobody has anything of them locked. Answers which were carried out.
    async fn end_all(&self, owner: &str, mut ends: Vec<RunEnd>) -> Vec<Arc<str>> {
        let mut applied = Vec::new();
        while !ends.is_empty() {
            let settled = self.store().settle_runs(owner, &ends).await.expect("settle");
            applied.extend(settled.applied);
            ends.retain(|end| settled.busy.contains(&end.held.key));
        }
        applied
    }

    /// Settles rows until nobody has anything of them locked.
    async fn settle_rows(&self, mut batch: Vec<Settlement>) {
        while !batch.is_empty() {
            let settled = self.store().settle(&batch).await.expect("settle");
            batch.retain(|sent| settled.busy.contains(&sent.held.id));
        }
    }

    /// Claims what is visible, puts in line what has a key, and settles the rest. Answers how many there were.
    async fn claim_and_settle(&self, owner: &str) -> usize {
        let ended = |row: &Claimed| match &row.event {
            Ok(event) if event.ordering_key().is_some() => Outcome::Released,
            _ => Outcome::Done,
        };
        let rows = self.claim_all(owner).await;
        let end = |row: &Claimed| Settlement { held: hold_of(row), outcome: ended(row) };
        self.settle_rows(rows.iter().map(end).collect()).await;
        rows.len()
    }
}

fn done(key: &TakenKey, rows: &[EventId], ending: Ending) -> RunEnd {
    let rows = rows.iter().map(|id| (*id, Outcome::Done)).collect();
    RunEnd { held: held_key(key), rows, ending }
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("key {number:02}")).collect()
}

/// Waits for what goes on at once, which nothing may keep for long.
async fn at_once<T: Send + 'static>(acts: Vec<impl Future<Output = T> + Send + 'static>) -> Vec<T> {
    let acts = acts.into_iter().map(tokio::spawn);
    let ended = timeout(NO_LOCK, join_all(acts)).await.expect("somebody waits for a lock");
    ended.into_iter().map(|ended| ended.expect("no panic")).collect()
}

/// Holds K5, attack 4: of operators at odds one decides, the others are told, and the key goes on by that.
pub async fn of_operators_at_odds_over_a_dead_event_one_decides<H: StoreHarness>(probe: &Probe<H>) {
    let other = probe.beside().await;
    let acts = [LetterAct::Requeue, LetterAct::Discard, LetterAct::Requeue];
    for round in 0..4 {
        let key = format!("key {round}");
        let written = probe.park(&key, 2).await;
        let ask = |(operator, act)| {
            let probe = if operator == 1 { other.clone() } else { probe.clone() };
            let id = written[0];
            async move { probe.change_letter(act, id).await }
        };
        let fates = at_once(acts.into_iter().enumerate().map(ask).collect()).await;
        let mut decided: Vec<LetterAct> = Vec::new();
        for (act, fate) in acts.into_iter().zip(fates) {
            match fate {
                LetterFate::Done => decided.push(act),
                LetterFate::Busy | LetterFate::NotFound => {}
                LetterFate::NotDead { status: Status::New } => {}
                fate => panic!("{act:?}: {fate:?}"),
            }
        }
        if decided.is_empty() {
            // Each was in the way of another.
            assert_eq!(probe.change_letter(acts[0], written[0]).await, LetterFate::Done);
            decided.push(acts[0]);
        }
        let [decided] = decided[..] else { panic!("they all did it: {decided:?}") };
        let left = if decided == LetterAct::Requeue { &written[..] } else { &written[1..] };
        let taken = probe.take_only("node").await;
        assert_eq!(ids(&probe.run(&taken).await), left, "{decided:?}");
        assert!(probe.end("node", &taken, left, Ending::Exhausted).await);
        let page = AuditPage { event: Some(written[0]), before: None, limit: 10 };
        assert_eq!(probe.store().audit(&page).await.expect("audit").len(), 1);
    }
}

/// Holds O2, K5: an event that committed late died and parks a key that somebody holds. Whatever operators do
/// with it, nobody else has the key until its holder is done.
pub async fn a_key_that_is_held_stays_held_whatever_operators_do<H: StoreHarness>(
    probe: &Probe<H>,
) {
    for act in [Some(LetterAct::Requeue), Some(LetterAct::Discard), None] {
        let written = probe.in_line(&["a", "a"]).await;
        let key = probe.take_only("node").await;
        let late = probe.born_held("a", "writer").await;
        assert!(probe.settle(late, dead(AfterDead::Park)).await);
        match act {
            Some(act) => assert_eq!(probe.change_letter(act, late.id).await, LetterFate::Done),
            None => {
                let resumed = probe.resume("a", Some(late.id)).await;
                assert_eq!(resumed, KeyFate::Resumed { event: late.id });
            }
        }
        assert!(probe.take("other").await.is_empty(), "{act:?}: it is held");
        assert!(probe.end("node", &key, &written[..1], Ending::HeldOn).await, "by its token");
        let (keys, hold) = ([held_key(&key)], probe.ticks(HOLD));
        let extend = ExtendKeys { owner: "node", keys: &keys, hold };
        let extended = probe.store().extend_keys(&extend).await.expect("extend");
        assert_eq!(extended.held.len(), 1, "{act:?}");
        assert!(probe.end("node", &key, &written[1..], Ending::Free).await);
        if act == Some(LetterAct::Requeue) {
            let key = probe.take_only("other").await;
            assert_eq!(ids(&probe.run(&key).await), [late.id], "then what was requeued");
            assert!(probe.end("other", &key, &[late.id], Ending::Exhausted).await);
        }
        assert!(probe.take("other").await.is_empty(), "{act:?}: nothing is left");
    }
}

/// Holds O1, K4, attack 5: on tables that two have at once. What was settled in time is seen by whoever takes
/// the key over; what came too late changes nothing.
pub async fn a_settlement_beside_a_takeover_comes_first_or_is_fenced<H: StoreHarness>(
    probe: &Probe<H>,
) {
    let other = probe.beside().await;
    let names = names(12);
    let first = probe.in_line_at_once(&names).await;
    let second = probe.in_line_at_once(&names).await;
    let keys = probe.take_briefly("node").await;
    assert_eq!(keys.len(), names.len());
    probe.lapse().await;

    let take = tokio::spawn({
        let other = other.clone();
        async move { other.take("other").await }
    });
    let settle = |(key, id): (&TakenKey, &EventId)| {
        let (probe, end) = (probe.clone(), done(key, &[*id], Ending::HeldOn));
        async move { !probe.end_all("node", vec![end]).await.is_empty() }
    };
    let settled = at_once(keys.iter().zip(&first).map(settle).collect()).await;
    let mut taken = take.await.expect("no panic");
    // Those that were being settled just then.
    taken.extend(other.take("other").await);

    taken.sort_by(|a, b| a.key.cmp(&b.key));
    assert!(taken.iter().map(|key| &*key.key).eq(names.iter().map(String::as_str)), "{taken:?}");
    for (number, key) in taken.iter().enumerate() {
        let head = if settled[number] { second[number] } else { first[number] };
        assert_eq!(ids(&other.run(key).await), [head], "settled in time: {}", settled[number]);
    }
    let again: Vec<_> =
        keys.iter().zip(&first).map(|(key, id)| done(key, &[*id], Ending::Exhausted)).collect();
    assert!(probe.end_all("node", again).await.is_empty(), "all of them were taken over");
}

/// Holds I2, O1, K4, attacks 5, 6, 11, 14: a zombie that goes on finishes what it had read. Whatever it says of that, beside
/// what it has again itself or what somebody else has by now, changes nothing of a key that was taken over.
pub async fn a_zombie_settles_nothing_of_a_key_that_was_taken_over<H: StoreHarness>(
    probe: &Probe<H>,
) {
    let other = probe.beside().await;
    let written = probe.in_line(&["a", "a", "a"]).await;
    let first = probe.take_briefly("node").await.remove(0);
    assert_eq!(ids(&probe.run(&first).await), written, "read, and begun");
    probe.lapse().await;
    let second = probe.take_briefly("node").await.remove(0);
    assert_ne!(first.token, second.token);
    let late = vec![done(&first, &written[..1], Ending::Exhausted)];
    assert!(probe.end_all("node", late).await.is_empty(), "it has the key by another token");
    probe.lapse().await;
    let third = other.take_only("other").await;
    assert_eq!((third.run, third.lost), (1, false), "one by one, and nobody is blamed");

    let retry = Outcome::Retry { delay: BRIEF, attempts: 1, error: "no".to_owned() };
    let outcomes = [Outcome::Done, retry, dead(AfterDead::Park)];
    let zombies = async |at: usize| {
        for zombie in [&first, &second] {
            for outcome in &outcomes {
                let rows = vec![(written[at], outcome.clone())];
                let end = RunEnd { held: held_key(zombie), rows, ending: Ending::Exhausted };
                assert!(probe.end_all("node", vec![end]).await.is_empty(), "{outcome:?}");
            }
        }
        let (keys, hold) = ([held_key(&first), held_key(&second)], probe.ticks(HOLD));
        let extend = ExtendKeys { owner: "node", keys: &keys, hold };
        assert!(probe.store().extend_keys(&extend).await.expect("extend").held.is_empty());
        let row = probe.row(written[at]).await;
        assert_eq!((row.status, row.attempts), (Status::New, 0));
    };
    zombies(0).await;
    let end = || vec![done(&third, &written[..1], Ending::Free)];
    assert_eq!(other.end_all("other", end()).await.len(), 1);
    assert!(other.end_all("other", end()).await.is_empty(), "it was settled");
    // Also while nobody has it.
    zombies(1).await;
    for id in &written[1..] {
        let key = other.take_only("other").await;
        assert_eq!(ids(&other.run(&key).await), [*id], "in order, and not parked");
        assert!(other.end("other", &key, &[*id], Ending::Free).await);
    }
    assert!(other.take("other").await.is_empty(), "nothing is left");
}

/// Attack 8: a transaction that commits late is behind where walks have come to, and found from the front.
pub async fn what_commits_late_is_found<H: StoreHarness>(probe: &Probe<H>) {
    let row = due(keyed("late"));
    let id = row.event.id();
    let Some(late) = probe.harness().write_late(&[row]).await else { return };
    probe.in_line(&["a"]).await;
    let taken = probe.take_as(&probe.take_by("node")).await;
    let last = taken.walked.and_then(|walked| walked.last).expect("a row was walked over");
    late.commit().await;
    let on = Some(WalkFrom { after: last, ..FROM_THE_BEGINNING });
    let taken = probe.take_as(&TakeKeys { walk: on, ..probe.take_by("node") }).await;
    assert!(taken.keys.is_empty(), "it is behind");
    let key = probe.take_only("node").await;
    assert_eq!((&*key.key, ids(&probe.run(&key).await)), ("late", vec![id]));
}

/// Attack 8: so is what was requeued, and what its holder released.
pub async fn what_is_put_in_line_late_is_found<H: StoreHarness>(probe: &Probe<H>) {
    let written = probe.in_line(&["requeued"]).await;
    let key = probe.take_only("node").await;
    probe.fail("node", &key, written[0], dead(AfterDead::Skip), Ending::Exhausted).await;
    let hot = probe.born_held("released", "writer").await;
    probe.in_line(&["a"]).await;
    let taken = probe.take_as(&probe.take_by("node")).await;
    let last = taken.walked.and_then(|walked| walked.last).expect("a row was walked over");
    assert_eq!(taken.keys.len(), 1);
    assert_eq!(probe.change_letter(LetterAct::Requeue, written[0]).await, LetterFate::Done);
    assert!(probe.settle(hot, Outcome::Released).await);
    let on = Some(WalkFrom { after: last, ..FROM_THE_BEGINNING });
    let taken = probe.take_as(&TakeKeys { walk: on, ..probe.take_by("node") }).await;
    assert!(taken.keys.is_empty(), "they are behind: {taken:?}");
    let keys = probe.take("node").await;
    let found: Vec<_> = keys.iter().map(|key| &*key.key).collect();
    assert_eq!(found, ["released", "requeued"]);
    assert_eq!(ids(&probe.run(&keys[0]).await), [hot.id]);
    assert_eq!(ids(&probe.run(&keys[1]).await), written);
}

/// Holds K3, attack 9: in either order, and both at once.
pub async fn a_row_shelved_beside_the_end_of_its_key_is_not_left_behind<H: StoreHarness>(
    probe: &Probe<H>,
) {
    let other = probe.beside().await;
    let names = names(10);
    let first = probe.in_line_at_once(&names).await;
    let keys = probe.take("node").await;
    assert_eq!(keys.len(), names.len());
    // Nobody has read these: as far as their holder knows, his keys are empty.
    let second = probe.in_line_at_once(&names).await;
    probe.lapse().await;
    let mut ends: Vec<_> =
        keys.iter().zip(&first).map(|(key, id)| done(key, &[*id], Ending::Exhausted)).collect();
    let (last, before) = (ends.split_off(9), ends.drain(..1).collect());
    let shelve = async |probe: &Probe<H>| {
        probe.store().shelve(EVERYTHING, Duration::ZERO).await.expect("shelve")
    };

    assert_eq!(probe.end_all("node", before).await.len(), 1);
    let (shelving, ending) = (other.clone(), probe.clone());
    let shelving = tokio::spawn(async move {
        shelving.store().shelve(EVERYTHING, Duration::ZERO).await.expect("shelve")
    });
    let end = |end: RunEnd| {
        let probe = ending.clone();
        async move { probe.end_all("node", vec![end]).await.len() }
    };
    let ended = at_once(ends.into_iter().map(end).collect()).await;
    assert_eq!(ended.iter().sum::<usize>(), 8, "each by its token");
    assert!(shelving.await.expect("no panic") <= 18, "what is not listed stays in line");
    // Those whose entry was locked just then, and the last one for sure.
    shelve(probe).await;
    assert_eq!(probe.end_all("node", last).await.len(), 1);

    let taken = probe.take("other").await;
    let found = join_all(taken.iter().map(|key| async { ids(&probe.run(key).await) })).await;
    assert_eq!(found.concat(), second, "every one is found");
}

/// Attack 10: a look that misses the end of the hot row it waits for costs a moment.
pub async fn a_key_listed_beside_the_end_of_its_hot_row_is_looked_at_soon<H: StoreHarness>(
    probe: &Probe<H>,
) {
    let other = probe.beside().await;
    let names = names(8);
    let rows: Vec<_> =
        names.iter().map(|key| held(keyed(key), "writer", probe.ticks(HOLD))).collect();
    let born = probe.commit(&rows).await;
    let written = probe.in_line_at_once(&names).await;
    let listed = probe.take("node").await;
    assert_eq!(listed.len(), names.len());
    let free = listed.iter().map(|key| done(key, &[], Ending::Free)).collect();
    assert_eq!(probe.end_all("node", free).await.len(), names.len());

    let take = tokio::spawn({
        let other = other.clone();
        async move { other.take_as(&TakeKeys { walk: None, ..other.take_by("other") }).await }
    });
    let hot = |(row, born): (&NewRow, &Born)| {
        let token = born.token.expect("born held");
        let held = Held::row(row.event.id(), token);
        let probe = probe.clone();
        async move { probe.settle_rows(vec![Settlement { held, outcome: Outcome::Done }]).await }
    };
    at_once(rows.iter().zip(&born).map(hot).collect()).await;
    let taken = take.await.expect("no panic");
    let next = taken.next.unwrap_or_default();
    assert!(next <= SOON, "{next:?}");
    let mut keys = taken.keys;
    probe.harness().pass(next + BRIEF).await;
    let again = TakeKeys { walk: None, ..other.take_by("other") };
    keys.extend(other.take_as(&again).await.keys);
    keys.sort_by(|a, b| a.key.cmp(&b.key));
    let found = join_all(keys.iter().map(|key| async { ids(&other.run(key).await) })).await;
    assert_eq!(found.concat(), written, "each was looked at again");
}

/// Holds O3, attack 12: a run that was lost goes one by one, and nobody is blamed for another's crash.
pub async fn of_a_run_with_one_killer_only_that_becomes_a_suspect<H: StoreHarness>(
    probe: &Probe<H>,
) {
    let written = probe.in_line_at_once(&vec!["a".to_owned(); 8]).await;
    let killer = written[2];
    let lost = probe.take_briefly("first").await.remove(0);
    assert_eq!(ids(&probe.run(&lost).await), written);
    probe.lapse().await;
    for id in &written[..2] {
        let key = probe.take_only("second").await;
        assert_eq!((key.run, key.lost, ids(&probe.run(&key).await)), (1, false, vec![*id]));
        assert!(probe.end("second", &key, &[*id], Ending::Free).await);
    }
    for (owner, blamed) in [("second", 0), ("third", 1)] {
        let key = probe.take_briefly(owner).await.remove(0);
        let run = probe.run(&key).await;
        assert_eq!((ids(&run), run.rows[0].attempts), (vec![killer], blamed), "{owner}");
        assert_eq!(key.lost, blamed > 0);
        probe.lapse().await;
    }
    assert!(probe.take("fourth").await.is_empty(), "a suspect is left out");
    let suspects = TakeKeys { suspects: Suspects::Only, walk: None, ..probe.take_by("fourth") };
    let key = probe.take_as(&suspects).await.keys.remove(0);
    let run = probe.run(&key).await;
    assert_eq!((ids(&run), run.rows[0].attempts), (vec![killer], 2));
    probe.fail("fourth", &key, killer, dead(AfterDead::Skip), Ending::Free).await;
    let mut next = 3;
    while next < written.len() {
        let key = probe.take_only("fourth").await;
        let run = probe.run(&key).await;
        assert!(!key.lost && run.rows.iter().all(|row| row.attempts == 0 && !row.lost));
        let rows = ids(&run);
        assert_eq!(rows, written[next..next + rows.len()]);
        for id in &rows {
            assert_eq!(probe.row(*id).await.losses, 0);
        }
        assert!(probe.end("fourth", &key, &rows, Ending::Free).await);
        next += rows.len();
    }
}

/// Holds O1, attack 16: events of one transaction are told apart by their numbers, and what was rolled back
/// left nothing in between.
pub async fn events_of_one_write_keep_their_order_within_each_key<H: StoreHarness>(
    probe: &Probe<H>,
) {
    let rows: Vec<_> = ["a", "b", "a", "b", "a"].into_iter().map(|key| due(keyed(key))).collect();
    probe.harness().roll_back(&rows[..2]).await.expect("the rows are good");
    probe.commit(&rows).await;
    let written: Vec<_> = rows.iter().map(|row| row.event.id()).collect();
    let keys = probe.take("node").await;
    let [a, b] = &keys[..] else { panic!("{keys:?}") };
    assert_eq!(ids(&probe.run(a).await), [written[0], written[2], written[4]]);
    assert_eq!(ids(&probe.run(b).await), [written[1], written[3]]);

    let hot = |_| held(keyed("hot"), "writer", probe.ticks(HOLD));
    let rows: Vec<_> = (0..3).map(hot).collect();
    probe.harness().roll_back(&[hot(3)]).await.expect("the row is good");
    let born = probe.commit(&rows).await;
    let holds: Vec<_> = rows
        .iter()
        .zip(&born)
        .map(|(row, born)| Held::row(row.event.id(), born.token.expect("born held")))
        .collect();
    let confirmed = probe.store().confirm_keys(&holds).await.expect("confirm");
    let below: Vec<_> = confirmed.iter().map(|row| (row.id, row.below.clone())).collect();
    let id = |at: usize| holds[at].id;
    assert_eq!(below, [(id(0), vec![]), (id(1), vec![id(0)]), (id(2), vec![id(0), id(1)])]);
}

/// Holds I11, O1, attack 21: two settlements in opposite orders, shelving, a claim and a walk, all at once:
/// none waits, each key is settled once, and nothing is lost or out of its order.
pub async fn shelving_settlements_and_claims_are_in_nobody_s_way<H: StoreHarness>(
    probe: &Probe<H>,
) {
    let other = probe.beside().await;
    let third = probe.beside().await;
    for round in 0..3 {
        let names = names(10);
        let first = probe.in_line_at_once(&names).await;
        let backwards: Vec<_> = names.iter().rev().cloned().collect();
        let mut second = probe.in_line_at_once(&backwards).await;
        second.reverse();
        let keys = probe.take("node").await;
        assert_eq!(keys.len(), names.len());
        // Rows by themselves: what nobody settled in time, in keys of others' and in none.
        let stray = |key: &String| held(keyed(key), "vanished", BRIEF);
        let strays: Vec<_> = names.iter().map(stray).collect();
        probe.commit(&strays).await;
        probe.commit(&[due(event()), due(event())]).await;
        probe.lapse().await;
        let ends: Vec<_> =
            keys.iter().zip(&first).map(|(key, id)| done(key, &[*id], Ending::Free)).collect();
        let opposite: Vec<_> = ends.iter().rev().cloned().collect();

        let settle = |probe: &Probe<H>, ends: Vec<RunEnd>| {
            let probe = probe.clone();
            tokio::spawn(async move { probe.end_all("node", ends).await })
        };
        let (one, two) = (settle(probe, ends), settle(&other, opposite));
        let beside = tokio::spawn({
            let probe = third.clone();
            async move {
                probe.store().shelve(EVERYTHING, Duration::ZERO).await.expect("shelve");
                probe.take("third").await
            }
        });
        let claiming = tokio::spawn({
            let probe = third.clone();
            async move { probe.claim_and_settle("claimer").await }
        });
        let all = async { tokio::join!(one, two, beside, claiming) };
        let (one, two, taken, claimed) =
            timeout(NO_LOCK, all).await.expect("somebody waits for a lock");
        let mut applied = [one.expect("no panic"), two.expect("no panic")].concat();
        applied.sort();
        assert!(applied.iter().map(|key| &**key).eq(names.iter().map(String::as_str)));
        // Where index entries are locked as well, a claim may have passed some by.
        let claimed = claimed.expect("no panic") + probe.claim_and_settle("claimer").await;
        assert_eq!(claimed, names.len() + 2, "round {round}");

        let mut taken = taken.expect("no panic");
        taken.extend(probe.take("third").await);
        taken.sort_by(|a, b| a.key.cmp(&b.key));
        let mut found = BTreeMap::new();
        for key in &taken {
            let run = ids(&probe.run(key).await);
            assert!(probe.end("third", key, &run, Ending::Free).await);
            found.insert(key.key.clone(), run);
        }
        for (number, name) in names.iter().enumerate() {
            let expected = [second[number], strays[number].event.id()];
            assert_eq!(found.get(&**name).map(Vec::as_slice), Some(&expected[..]), "{name}");
        }
        assert!(probe.take("third").await.is_empty(), "nothing is left");
    }
}

/// Holds K2: what lies below a row from memory is seen at once, also while a holder settles more of it than a proof
/// looks at. A proof in two looks would miss what comes after that.
pub async fn what_lies_below_is_seen_at_once<H: StoreHarness>(probe: &Probe<H>) {
    let other = probe.beside().await;
    for round in 0..20 {
        let key = format!("key {round}");
        let mut names = vec![key.clone(); 2 * HOT_CHAIN];
        let over = probe.in_line_at_once(&names).await;
        names.truncate(5);
        let left = probe.in_line_at_once(&names).await;
        let hot = probe.born_held(&key, "writer").await;
        let taken = probe.take("node").await.into_iter().find(|taken| *taken.key == *key);
        let end = done(&taken.expect("it is due"), &over, Ending::Free);
        let settling = tokio::spawn({
            let other = other.clone();
            async move { other.end_all("node", vec![end]).await }
        });
        loop {
            let is_settled = settling.is_finished();
            let confirmed = probe.store().confirm_keys(&[hot]).await.expect("confirm");
            let below = &confirmed[0].below;
            assert!(below.len() > HOT_CHAIN || *below == left, "{} of {}", below.len(), left.len());
            if is_settled {
                break;
            }
            tokio::task::yield_now().await;
        }
        assert_eq!(settling.await.expect("no panic").len(), 1);
    }
}
