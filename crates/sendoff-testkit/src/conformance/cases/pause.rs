//! What operators pause, and claims that leave it out.

use std::time::Duration;

use sendoff_core::{AuditAction, AuditNote, Event, PauseScope, limits};
use sendoff_engine::store::{
    AuditPage, Claim, EventKind, Except, InspectStore, LetterStore, Lock, LockStore, NewRow,
    PauseStore, StoreError, Suspects,
};
use tokio::time::timeout;

use crate::conformance::probe::{HOLD, due, ids};
use crate::conformance::{Probe, StoreHarness};

/// Rows of one type about several kinds of aggregates, among others.
fn rows() -> [NewRow; 6] {
    [("x", "a"), ("y", "a"), ("x", "A"), ("x", "a "), ("it's", "\""), ("x", "b")].map(
        |(aggregate, event_type)| {
            let event = Event::builder(event_type).aggregate(aggregate, "1").json(&1).build();
            due(event.expect("an event"))
        },
    )
}

/// A claim leaves event types out whatever their events are about, suspects too, and kinds beside them;
/// nothing is written to them.
pub async fn a_claim_leaves_out_the_types_it_is_told_to<H: StoreHarness>(probe: &Probe<H>) {
    let rows = rows();
    let id = |at: usize| rows[at].event.id();
    probe.commit(&rows).await;
    let kinds = [EventKind::of(&rows[5].event)];
    let except = Except { kinds: &kinds, types: &["a", "nobody's"] };
    let others = Claim { except, ..probe.claim_by("one") };
    let two = Claim { limit: 2, ..others };
    assert_eq!(ids(&probe.claim(&two).await), [id(2), id(3)]);
    assert_eq!(ids(&probe.claim(&others).await), [id(4)]);
    assert!(probe.claim(&others).await.is_empty());
    assert_eq!(probe.row(id(0)).await.locked_by, None);
    assert_eq!(ids(&probe.claim_all("one").await), [id(0), id(1), id(5)]);

    probe.pass(HOLD).await;
    assert_eq!(probe.claim_all("two").await.len(), rows.len());
    probe.pass(HOLD).await;
    let suspects = |types| Claim {
        suspects: Suspects::Only,
        except: Except::types(types),
        ..probe.claim_by("three")
    };
    assert_eq!(ids(&probe.claim(&suspects(&["a", "A", "a ", "\""])).await), [id(5)]);
    assert_eq!(probe.claim(&suspects(&[])).await.len(), rows.len() - 1);
}

/// A lock leaves event types out whatever their events are about.
pub async fn a_lock_leaves_out_the_types_it_is_told_to<H: StoreHarness>(probe: &Probe<H>) {
    let rows = rows();
    let id = |at: usize| rows[at].event.id();
    probe.commit(&rows).await;
    let kinds = [EventKind::of(&rows[5].event)];
    for (except, expected) in [
        (Except { kinds: &kinds, types: &["a"] }, vec![id(2), id(3), id(4)]),
        (Except::types(&["A", "a ", "\"", "b"]), vec![id(0), id(1)]),
    ] {
        let lock = Lock { except, ..Lock::new(10) };
        let mut batch = probe.store().lock(&lock).await.expect("lock").expect("some are visible");
        assert_eq!(ids(&batch.take()), expected);
        batch.rollback().await.expect("rollback");
    }
    let all = Lock { except: Except::types(&["a", "A", "a ", "\"", "b"]), ..Lock::new(10) };
    assert!(probe.store().lock(&all).await.expect("lock").is_none());
}

fn note(reason: &str) -> AuditNote {
    AuditNote::new("ann", reason).expect("a note")
}

fn scopes() -> [PauseScope; 4] {
    ["all", "type:A", "type:a", "handler:it's \"ö\""].map(|scope| scope.parse().expect("a scope"))
}

/// What is paused stays so, with since when, by whom and why, until it is resumed.
pub async fn a_pause_is_kept_with_who_and_why_until_it_is_resumed<H: StoreHarness>(
    probe: &Probe<H>,
) {
    let store = probe.store();
    assert_eq!(store.pauses().await.expect("pauses"), []);
    let (_, window) = probe
        .timed(async {
            for scope in scopes().into_iter().rev() {
                let reason = format!("because of {scope}; 'quoted' \\ and\ttabbed");
                assert!(store.pause(&scope, &note(&reason)).await.expect("pause"));
            }
        })
        .await;
    let pauses = store.pauses().await.expect("pauses");
    let found: Vec<_> = pauses.iter().map(|pause| pause.scope.clone()).collect();
    assert_eq!(found, scopes());
    for pause in &pauses {
        window.assert_has(pause.since);
        assert_eq!(pause.actor, "ann");
        assert!(pause.reason.starts_with(&format!("because of {}; 'q", pause.scope)));
    }
    let [all, .., mails] = scopes();
    assert!(store.resume(&all, &note("over")).await.expect("resume"));
    assert!(store.resume(&mails, &note("over")).await.expect("resume"));
    let left = store.pauses().await.expect("pauses");
    assert_eq!(left, pauses[1..3]);
    store.check_ready().await.expect("ready");
}

/// To pause what is paused, or to resume what is not, changes nothing and says so.
pub async fn a_pause_is_one_however_often_it_is_ordered<H: StoreHarness>(probe: &Probe<H>) {
    let store = probe.store();
    let [_, scope, other, _] = scopes();
    assert!(!store.resume(&scope, &note("never paused")).await.expect("resume"));
    assert!(store.pause(&scope, &note("first")).await.expect("pause"));
    assert!(!store.pause(&scope, &note("second")).await.expect("pause"));
    assert!(!store.resume(&other, &note("names compare exactly")).await.expect("resume"));
    let [pause] = &store.pauses().await.expect("pauses")[..] else { panic!("one is paused") };
    assert_eq!(pause.reason, "first");
    assert!(store.resume(&scope, &note("over")).await.expect("resume"));
    assert!(!store.resume(&scope, &note("over")).await.expect("resume"));
}

/// Whoever changed what is paused is in the audit, once for each change.
pub async fn every_change_of_a_pause_is_in_the_audit<H: StoreHarness>(probe: &Probe<H>) {
    let store = probe.store();
    let scopes = scopes();
    let (_, window) = probe
        .timed(async {
            for scope in &scopes {
                for reason in ["first", "second"] {
                    store.pause(scope, &note(reason)).await.expect("pause");
                }
            }
            for reason in ["third", "fourth"] {
                store.resume(&scopes[2], &note(reason)).await.expect("resume");
            }
        })
        .await;
    let page = AuditPage { event: None, before: None, limit: 10 };
    let entries = store.audit(&page).await.expect("audit");
    let said: Vec<_> = entries
        .iter()
        .rev()
        .map(|entry| {
            window.assert_has(entry.at);
            let about_an_event =
                (entry.event, &entry.event_type, entry.attempts, &entry.last_error);
            assert_eq!(about_an_event, (None, &None, None, &None));
            assert_eq!(entry.actor, "ann");
            (entry.action, entry.subject.clone(), entry.reason.as_str())
        })
        .collect();
    let paused = scopes.iter().map(|scope| (AuditAction::Pause, Some(scope.to_string()), "first"));
    let resumed = (AuditAction::Resume, Some(scopes[2].to_string()), "third");
    assert_eq!(said, paused.chain([resumed]).collect::<Vec<_>>());
}

/// There is a limit on what is paused by name, which is named; what is paused can be resumed all the same.
pub async fn pauses_have_a_limit<H: StoreHarness>(probe: &Probe<H>) {
    let store = probe.store();
    let scope = |number: usize| PauseScope::event_type(format!("type {number}")).expect("a scope");
    for number in 0..limits::PAUSES {
        assert!(store.pause(&scope(number), &note("many")).await.expect("pause"));
    }
    let refused = store.pause(&scope(limits::PAUSES), &note("one more")).await;
    assert!(
        matches!(refused, Err(StoreError::TooManyPauses { limit }) if limit == limits::PAUSES),
        "{refused:?}"
    );
    assert!(!store.pause(&scope(0), &note("it is already")).await.expect("no change"));
    assert!(store.resume(&scope(0), &note("room")).await.expect("resume"));
    assert!(store.pause(&scope(limits::PAUSES), &note("fits")).await.expect("pause"));
    assert_eq!(store.pauses().await.expect("pauses").len(), limits::PAUSES);
}

/// Whoever waits for a change of what is paused hears of it within a second, or looks as often.
pub async fn a_pause_is_heard_of_within_a_second<H: StoreHarness>(probe: &Probe<H>) {
    let store = probe.store();
    let [_, scope, ..] = scopes();
    // What it takes to begin to listen, with a connection of its own perhaps.
    let _ = timeout(Duration::from_secs(1), store.pauses_changed()).await;
    let hears = async {
        let changed = timeout(Duration::from_secs(5), store.pauses_changed()).await;
        (changed.is_ok(), tokio::time::Instant::now())
    };
    let pauses = async {
        let began = tokio::time::Instant::now();
        assert!(store.pause(&scope, &note("now")).await.expect("pause"));
        began
    };
    let ((heard, at), began) = tokio::join!(biased; hears, pauses);
    assert!(heard, "nothing was heard");
    let took = at.saturating_duration_since(began);
    assert!(took < Duration::from_secs(1), "heard of it after {took:?}");
    let paused = store.pauses().await.expect("pauses");
    assert!(paused.iter().any(|pause| pause.scope == scope), "it is there by then: {paused:?}");
}
