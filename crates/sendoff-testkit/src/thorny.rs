//! Values that a driver's encoding could get wrong.

#![allow(clippy::missing_panics_doc, reason = "a check that panics is a driver that failed it")]
#![allow(clippy::unwrap_used, reason = "a check that cannot unwrap says less, not more")]

use std::time::Duration;

use sendoff_core::order::IN_LINE;
use sendoff_core::{Event, Timestamp, limits};
use sendoff_engine::store::{Birth, Born, InspectStore, KeyStore, NewRow};

/// One row for each; `times` are the ends of what the database can keep, in microseconds since 1970.
pub fn rows(times: &[i64]) -> Vec<NewRow> {
    let due = |event| NewRow { event, birth: Birth::Due };
    let grace = Duration::from_micros(7_200_000_001);
    let held = |event| NewRow { event, birth: Birth::Held { owner: "null".into(), grace } };
    let payload = |bytes: &[u8]| Event::builder("t").bytes(bytes.to_vec()).build().unwrap();
    let at = |micros| {
        let time = Timestamp::from_micros(micros);
        Event::builder("t").occurred_at(time).json(&1).build().unwrap()
    };
    let late = |delay| Event::builder("t").delay(delay).json(&1).build().unwrap();
    let named = |name: &str| {
        Event::builder(name)
            .aggregate(name, name)
            .tenant_id(name)
            .ordering_key(name)
            .content_type(name.to_owned())
            .header(name, name)
            .header("empty", "")
            .json(&1)
            .build()
            .unwrap()
    };
    let bytes: Vec<u8> = (0..=255).collect();
    let payloads = [&bytes[..], b"", b"\0", b"\\x41", b"'; --", b"{ \"a\":1, \"a\":2 }"];
    let times = [0, -1, 1, 951_782_400_000_001].iter().chain(times).copied();
    let delays = [Duration::from_micros(1), Duration::from_secs(90_061), limits::DELAY];
    let names = [
        "NULL",
        "{a,b}",
        r#"a "b" \\ \c"#,
        "'; --$1",
        "'; --?:ids",
        " \u{1f600} ",
        ",",
        "`@sendoff_at`",
    ];
    let mut rows: Vec<_> = payloads.map(payload).map(due).into();
    rows.extend(times.map(at).map(due));
    rows.extend(delays.map(late).map(due));
    rows.extend(names.map(named).map(due));
    rows.extend([held(named("NULL")), held(payload(b"1"))]);
    rows
}

/// Every row is in the table as it was written, and the driver told so.
pub async fn check(store: &(impl InspectStore + KeyStore), rows: &[NewRow], born: &[Born]) {
    assert_eq!(rows.len(), born.len());
    for (NewRow { event, birth }, born) in rows.iter().zip(born) {
        let row = store.find(event.id()).await.unwrap().unwrap();
        assert_eq!(row.event.as_ref(), event.as_ref());
        let (owner, after) = match birth {
            Birth::Due => (None, event.delay()),
            Birth::Held { owner, grace } => (Some(&**owner), *grace),
        };
        assert_eq!(row.created_at, born.created_at);
        let in_line = store.keeps_order() && event.ordering_key().is_some() && after.is_zero();
        let due_at = if in_line { IN_LINE } else { row.created_at.saturating_add(after) };
        assert_eq!(row.due_at, due_at);
        assert_eq!(row.locked_by.as_deref(), owner);
        let delayed = owner.is_none() && after > Duration::ZERO;
        assert_eq!(
            row.delayed_until,
            delayed.then_some(row.due_at),
            "how late it is counts from there"
        );
        assert_eq!(born.token.map(|token| token.due_at()), owner.map(|_| row.due_at));
    }
}
