//! Claims on SQLite: order, limits, holds that run out, rows that cannot be read.

use std::time::Duration;

use sendoff_core::{Event, EventId};
use sendoff_engine::Clock;
use sendoff_engine::store::frame::text;
use sendoff_engine::store::{Birth, Claim, ClaimStore, InspectStore, NewRow, Outcome, Suspects};
use sendoff_testkit::steps::token_of;

use crate::outbox::{HOLD, Outbox, by, due, held};

/// Holds S4 and S5.
#[tokio::test]
async fn two_claimers_never_get_the_same_row_while_it_is_held() {
    let outbox = Outbox::new().await;
    let other = outbox.again().await;
    outbox.write(&[due(), due(), due()]);
    let two = Claim { limit: 2, ..by("a") };
    let first = outbox.store.claim(&two).await.unwrap().rows;
    let second = other.claim(&by("b")).await.unwrap().rows;
    assert_eq!((first.len(), second.len()), (2, 1));
    assert!(first.iter().all(|claimed| claimed.id != second[0].id));
    assert!(outbox.claim("a").await.is_empty());

    let token = token_of(&first[0].held()).due_at();
    assert_eq!(token, outbox.clock.now().saturating_add(HOLD));
    let row = outbox.row(first[0].id).await;
    assert_eq!((row.due_at, row.locked_by.as_deref()), (token, Some("a")));
}

/// Holds S5.
#[tokio::test]
async fn a_hold_that_ran_out_can_be_taken_and_counts_for_whoever_vanished() {
    let outbox = Outbox::new().await;
    outbox.write_due();
    let first = outbox.claim_one("a").await;
    assert_eq!((first.attempts, first.lost), (0, false));

    outbox.clock.advance(HOLD - Duration::from_micros(1));
    assert!(outbox.claim("b").await.is_empty());
    outbox.clock.advance(Duration::from_micros(1));
    let second = outbox.claim_one("b").await;
    assert_eq!((second.attempts, second.lost), (1, true));
    assert_ne!(second.by, first.by);

    // Its own holder did not vanish.
    outbox.clock.advance(HOLD);
    let third = outbox.claim_one("b").await;
    assert_eq!((third.attempts, third.lost), (1, false));
    assert!(!outbox.settle(held(&first), Outcome::Done).await, "the zombie is fenced");
}

/// Holds S4.
#[tokio::test]
async fn young_and_delayed_rows_are_left_alone() {
    let outbox = Outbox::new().await;
    let later = Event::builder("later").delay(Duration::from_secs(5)).bytes("x").build().unwrap();
    outbox.write(&[due(), NewRow { event: later, birth: Birth::Due }]);
    let settled = Claim { skip_recent: Duration::from_secs(1), ..by("a") };
    assert!(outbox.store.claim(&settled).await.unwrap().rows.is_empty());
    outbox.clock.advance(Duration::from_secs(1));
    assert_eq!(outbox.store.claim(&settled).await.unwrap().rows.len(), 1);
    outbox.clock.advance(Duration::from_secs(4));
    assert_eq!(outbox.store.claim(&settled).await.unwrap().rows.len(), 1);
}

/// Holds S4.
#[tokio::test]
async fn a_claim_takes_the_oldest_due_and_no_more_than_its_limit() {
    let outbox = Outbox::new().await;
    let delayed = |seconds| NewRow {
        event: Event::builder("x").delay(Duration::from_secs(seconds)).bytes("x").build().unwrap(),
        birth: Birth::Due,
    };
    let rows = [delayed(3), delayed(1), delayed(2), delayed(1)];
    outbox.write(&rows);
    outbox.clock.advance(Duration::from_secs(9));
    let three = Claim { limit: 3, ..by("a") };
    let claimed = outbox.store.claim(&three).await.unwrap().rows;
    let order: Vec<_> = claimed.iter().map(|claimed| claimed.id).collect();
    assert_eq!(order, [1, 3, 2].map(|at: usize| rows[at].event.id()));
    assert!(outbox.store.claim(&Claim { limit: 0, ..by("a") }).await.unwrap().rows.is_empty());
}

#[tokio::test]
async fn suspects_are_claimed_apart() {
    let outbox = Outbox::new().await;
    let suspect = outbox.write_due();
    outbox.claim_one("a").await;
    outbox.clock.advance(HOLD);
    outbox.claim_one("b").await;
    outbox.clock.advance(HOLD);
    let innocent = outbox.write_due();

    let only = Claim { suspects: Suspects::Only, ..by("c") };
    assert_eq!(outbox.claim_one("c").await.id, innocent);
    // To its own holder it is none.
    let own = Claim { suspects: Suspects::Only, ..by("b") };
    assert!(outbox.store.claim(&own).await.unwrap().rows.is_empty());
    let found = outbox.store.claim(&only).await.unwrap().rows;
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].id, found[0].attempts, found[0].lost), (suspect, 2, true));
}

/// Holds S6: SQLite's part. Claims of many stores at once share the rows out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_of_several_stores_at_once_share_the_rows_out() {
    let outbox = Outbox::new().await;
    outbox.write(&(0..300).map(|_| due()).collect::<Vec<_>>());
    let mut claimers = tokio::task::JoinSet::new();
    for owner in ["a", "b", "c"] {
        let store = outbox.again().await;
        claimers.spawn(async move {
            let mut mine = Vec::new();
            loop {
                let claim = Claim { limit: 7, ..by(owner) };
                let claimed = store.claim(&claim).await.unwrap().rows;
                if claimed.is_empty() {
                    return mine;
                }
                mine.extend(claimed.into_iter().map(|claimed| claimed.id));
            }
        });
    }
    let mut all: Vec<EventId> = claimers.join_all().await.concat();
    assert_eq!(all.len(), 300);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 300, "none was claimed twice");
}

/// Holds S6: a claim walks the pending rows, however many others there are.
#[tokio::test]
async fn claims_walk_the_partial_indexes() {
    const STATEMENTS: [(&str, &str, &str); 7] = [
        ("claim", include_str!("../../sql/outbox/claim.sql"), "outbox_event_due"),
        ("claim_suspects", include_str!("../../sql/outbox/claim.sql"), "outbox_event_suspect"),
        ("claim_except", include_str!("../../sql/outbox/claim.sql"), "outbox_event_due"),
        (
            "claim_suspects_except",
            include_str!("../../sql/outbox/claim.sql"),
            "outbox_event_suspect",
        ),
        ("lock_except", include_str!("../../sql/outbox/claim.sql"), "outbox_event_due"),
        ("oldest_due", include_str!("../../sql/outbox/oldest_due.sql"), "outbox_event_due"),
        ("horizon", include_str!("../../sql/outbox/horizon.sql"), "outbox_event_due"),
    ];
    let outbox = Outbox::new().await;
    let conn = outbox.store.connect().unwrap();
    let check = |when: &str| {
        for (name, file, index) in STATEMENTS {
            let statement = text(file, &[name]);
            let plan: Vec<String> = conn
                .prepare(&format!("explain query plan {statement}"))
                .unwrap()
                .raw_query()
                .mapped(|row| row.get("detail"))
                .collect::<Result<_, _>>()
                .unwrap();
            // The lists of what is left out, kinds and types, are read once.
            let lists = if name.ends_with("_except") { 6 } else { 0 };
            assert_eq!(plan.len(), 1 + lists, "{when}: one step, and no sorting: {plan:?}");
            assert!(!plan.iter().any(|step| step.contains("ORDER BY")), "{when}: {plan:?}");
            assert!(plan[0].contains(&format!("INDEX {index}")), "{when}: {plan:?}");
        }
    };
    check("empty");
    let rows: Vec<_> = (0..2_000).map(|_| due()).collect();
    outbox.write(&rows);
    outbox.execute("update outbox_event set status = 1, done_at = created_at where seq % 10 > 2");
    outbox.execute("update outbox_event set due_at = due_at + 60000000 where seq % 10 > 0");
    check("many done and delayed rows");
    conn.execute_batch("analyze").unwrap();
    check("with statistics");
    assert_eq!(outbox.claim("a").await.len(), 100);
}

/// Holds P3: its store's part.
#[tokio::test]
async fn a_row_that_is_no_event_comes_with_the_reason_and_keeps_nobody_waiting() {
    let outbox = Outbox::new().await;
    let faults = [
        ("headers", "headers = '{\"token\":'"),
        ("headers", "headers = '{\"token\":\"s3cret\",\"n\":5}'"),
        ("headers", "headers = '\"s3cret\"'"),
        ("event_type", "event_type = ''"),
        ("event_type", "event_type = cast(x'ff' as text)"),
        ("aggregate_id", "aggregate_id = cast(x'c328' as text)"),
    ];
    let rows: Vec<_> = (0..=faults.len()).map(|_| due()).collect();
    outbox.write(&rows);
    for (at, (_, fault)) in faults.iter().enumerate() {
        assert_eq!(
            outbox.execute(&format!("update outbox_event set {fault} where seq = {}", at + 1)),
            1
        );
    }
    let claimed = outbox.claim("a").await;
    assert_eq!(claimed.len(), rows.len());
    for (claimed, (field, fault)) in claimed.iter().zip(faults) {
        let error = claimed.event.as_ref().unwrap_err();
        assert_eq!(error.field, field, "{fault}");
        assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
        assert!(outbox.store.find(claimed.id).await.is_err(), "{fault}");
        let dead = Outcome::dead(1, error.to_string());
        assert!(outbox.settle(held(claimed), dead).await);
    }
    assert!(claimed.last().unwrap().event.is_ok());
    assert_eq!(outbox.store.counts().await.unwrap().dead, faults.len() as u64);
}

#[tokio::test]
async fn a_clock_that_stepped_back_holds_nothing_for_ever() {
    let outbox = Outbox::new().await;
    let id = outbox.write_due();
    let delay = Duration::from_secs(3_600 * 3);
    let later = Event::builder("later").delay(delay).bytes("x").build().unwrap();
    outbox.write(&[NewRow { event: later.clone(), birth: Birth::Due }]);
    let lost = outbox.claim_one("a").await;
    outbox.clock.step_back(Duration::from_secs(3_600));
    assert!(outbox.claim("b").await.is_empty());

    let longest = Duration::from_secs(600);
    assert_eq!(outbox.store.rescue(longest).await.unwrap(), 2);
    assert_eq!(outbox.store.rescue(longest).await.unwrap(), 0);
    assert!(!outbox.settle(held(&lost), Outcome::Done).await, "a rescued hold is over");
    let claimed = outbox.claim_one("b").await;
    assert_eq!((claimed.id, claimed.lost, claimed.attempts), (id, true, 1));
    assert_eq!(
        outbox.row(later.id()).await.due_at,
        outbox.clock.now().saturating_add(delay),
        "a delay is no hold, and lasts as long as it was asked for"
    );
}

#[tokio::test]
async fn a_hold_at_its_maximum_is_not_rescued() {
    let outbox = Outbox::new().await;
    outbox.write_due();
    outbox.claim_one("a").await;
    assert_eq!(outbox.store.rescue(HOLD).await.unwrap(), 0);
    assert_eq!(outbox.store.rescue(HOLD - Duration::from_micros(1)).await.unwrap(), 1);
}

/// Nothing that is stored may stop the claims of others.
#[tokio::test]
async fn counts_beyond_their_bound_stop_no_claim() {
    let outbox = Outbox::new().await;
    let worn = outbox.write_due();
    let most = i64::MAX;
    outbox.execute(&format!("update outbox_event set attempts = {most}"));
    outbox.claim_one("a").await;
    outbox.execute(&format!("update outbox_event set losses = {most}"));
    outbox.clock.advance(HOLD);
    let other = outbox.write_due();
    assert_eq!(outbox.claim_one("b").await.id, other);
    let suspects = Claim { suspects: Suspects::Only, ..by("b") };
    let claimed = outbox.store.claim(&suspects).await.unwrap().rows;
    assert_eq!((claimed.len(), claimed[0].id, claimed[0].attempts), (1, worn, u32::MAX));
    assert!(outbox.settle(held(&claimed[0]), Outcome::Released).await);
}

/// What cannot be held is dead with the reason, and what cannot even be that is passed by.
#[tokio::test]
async fn a_row_that_cannot_be_held_is_put_aside_and_the_others_go_on() {
    let outbox = Outbox::new().await;
    let ids = [outbox.write_due(), outbox.write_due(), outbox.write_due()];
    let refusing = |name: &str, at: &EventId, of: &str| {
        let id: String = at.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        outbox.execute(&format!(
            "create trigger {name} before update {of} on outbox_event
             when new.event_id = x'{id}' begin select raise(abort, 'told to refuse'); end"
        ));
    };
    refusing("no_hold", &ids[0], "of due_at");
    refusing("no_change", &ids[1], "");
    assert_eq!(outbox.claim_one("a").await.id, ids[2]);
    let row = outbox.row(ids[0]).await;
    assert_eq!(row.status, sendoff_core::Status::Dead);
    assert!(row.last_error.unwrap().contains("told to refuse"));
    assert_eq!(outbox.row(ids[1]).await.status, sendoff_core::Status::New);
}

#[tokio::test]
async fn a_new_token_differs_from_the_one_it_replaces() {
    let outbox = Outbox::new().await;
    outbox.write_due();
    let first = outbox.claim_one("a").await;
    outbox.clock.advance(HOLD);
    // A hold of no length would end exactly when the last one did.
    let none = Claim { hold: Duration::ZERO, ..by("b") };
    let second = outbox.store.claim(&none).await.unwrap().rows.remove(0);
    assert_eq!(
        token_of(&second.held()).due_at(),
        token_of(&first.held()).due_at().saturating_add(Duration::from_micros(1))
    );
}

/// Holds S1: the payload is bytes, and they come back as they were.
#[tokio::test]
async fn payloads_come_back_to_the_byte() {
    let outbox = Outbox::new().await;
    let payloads: [&[u8]; 6] = [
        b"",
        b"\0",
        b"a\0b\0",
        b"\xff\xfe\xed\xa0\x80",
        br#"{"a":1,"a":2, "b" : 1.0e0, "nul":"\u0000"}"#,
        "\u{feff}ü".as_bytes(),
    ];
    let rows = payloads.map(|payload| NewRow {
        event: Event::builder("x").header("k", "v\u{1f600}\"").bytes(payload).build().unwrap(),
        birth: Birth::Due,
    });
    outbox.write(&rows);
    let claimed = outbox.claim("a").await;
    for ((claimed, row), payload) in claimed.iter().zip(&rows).zip(payloads) {
        let event = claimed.event.as_ref().unwrap();
        assert_eq!(event.payload(), payload);
        assert_eq!(event, &row.event);
        assert_eq!(outbox.row(row.event.id()).await.event, row.event);
    }
}

#[tokio::test]
async fn the_lag_is_that_of_the_oldest_row_that_is_due() {
    let outbox = Outbox::new().await;
    assert_eq!(outbox.store.lateness().await.unwrap().overdue, Duration::ZERO);
    outbox.write_due();
    outbox.clock.advance(Duration::from_secs(3));
    outbox.write_due();
    assert_eq!(outbox.store.lateness().await.unwrap().overdue, Duration::from_secs(3));
    outbox.claim("a").await;
    assert_eq!(outbox.store.lateness().await.unwrap().overdue, Duration::ZERO, "held is not due");
}
