//! Dead letters on SQLite, beyond the suite that every store passes.

use std::sync::Arc;

use sendoff_core::{AuditNote, LetterAct, LetterFilter, LetterOrder};
use sendoff_engine::store::{Outcome, PayloadWanted};
use sendoff_engine::{DeadLetters, SweepOptions};

use crate::outbox::{Outbox, held};

fn letters(outbox: &Outbox) -> DeadLetters {
    DeadLetters::new(Arc::new(outbox.store.clone()))
}

/// Whatever stands in a row, an operator can see it, and do something about it.
#[tokio::test]
async fn a_row_that_cannot_be_read_is_shown_and_requeued() {
    let outbox = Outbox::new().await;
    let id = outbox.write_due();
    let claimed = outbox.claim_one("a").await;
    assert!(outbox.settle(held(&claimed), Outcome::dead(1, "no")).await);
    outbox.execute(
        "update outbox_event set event_type = cast(x'ff' as text), last_error = cast(x'fe' as text),
                headers = 'no json'",
    );
    let letters = letters(&outbox);
    let all = LetterFilter::default();
    let page = letters.list(&all, LetterOrder::NewestFirst, None, 9).await.unwrap();
    assert_eq!((page.letters[0].id, page.letters[0].event_type.as_str()), (id, "\u{fffd}"));
    let shown = letters.show(id, PayloadWanted::Yes).await.unwrap().unwrap().record.unwrap();
    assert_eq!(
        (shown.headers.as_deref(), shown.last_error.as_deref()),
        (Some("no json"), Some("\u{fffd}"))
    );
    let note = AuditNote::new("ada", "once more").unwrap();
    let sweep = letters.sweep(LetterAct::Requeue, all, note, SweepOptions::default()).unwrap();
    assert_eq!(sweep.run().await.unwrap().done, 1);
    let entry = &letters.audit(Some(id), None, 1).await.unwrap().entries[0];
    assert_eq!(entry.event_type.as_deref(), Some("\u{fffd}"));
}

/// More letters than one step looks at, and those that are meant are the last of all: none is missed.
#[tokio::test]
async fn a_walk_of_many_steps_misses_none() {
    let outbox = Outbox::new().await;
    outbox.execute(
        "with recursive n(n) as (select 1 union all select n + 1 from n where n < 5001)
         insert into outbox_event (event_id, event_type, shard, status, occurred_at, due_at, created_at,
                                   done_at, attempts, payload)
         select randomblob(16), 't', 0, 3, 0, 0, 0, n / 3000, n, x'' from n",
    );
    let letters = letters(&outbox);
    let last = LetterFilter { attempts_least: Some(4_999), ..LetterFilter::default() };
    assert_eq!(letters.count(&LetterFilter::default()).await.unwrap().counted(), 5_001);
    assert_eq!(letters.count(&last).await.unwrap().counted(), 3);
    for order in [LetterOrder::OldestFirst, LetterOrder::NewestFirst] {
        let page = letters.list(&last, order, None, 2).await.unwrap();
        let rest = letters.list(&last, order, page.next, 9).await.unwrap();
        assert_eq!((page.letters.len(), rest.letters.len(), rest.next), (2, 1, None));
    }
}
