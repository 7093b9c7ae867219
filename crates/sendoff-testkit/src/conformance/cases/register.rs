//! Who handles what.

use sendoff_engine::store::{ANY, EventKind, RegisterStore};

use crate::conformance::{Probe, StoreHarness};

/// What a node says that it handles is heard by others for as long as it is believed, whatever its name, and
/// however often it is said.
pub async fn what_nodes_handle_is_known_for_a_while<H: StoreHarness>(probe: &Probe<H>) {
    let kind = |aggregate_type, event_type| EventKind { aggregate_type, event_type };
    let names = ["it's", "\"", "a", "A", "a ", "ä", "\\"];
    let mine: Vec<_> = names.iter().map(|name| kind("Order", *name)).collect();
    let theirs = [kind(ANY, "a"), kind(ANY, ANY), kind("Order", "a")];
    let lately = probe.ticks(6);
    let heard = async |kinds: &[EventKind<'_>]| {
        let mut heard = probe.store().register(kinds, lately).await.expect("they are heard");
        heard.sort();
        heard
    };
    let told = |kinds: &[EventKind<'_>]| {
        let kind = |kind: &EventKind<'_>| (kind.aggregate_type.into(), kind.event_type.into());
        let mut kinds: Vec<(String, String)> = kinds.iter().map(kind).collect();
        kinds.sort();
        kinds.dedup();
        kinds
    };
    assert!(heard(&[]).await.is_empty(), "nobody said anything");
    heard(&mine).await;
    heard(&mine).await;
    assert_eq!(heard(&[]).await, told(&mine));
    heard(&theirs).await;
    assert_eq!(heard(&[]).await, told(&[&mine[..], &theirs].concat()));
    probe.pass(4).await;
    heard(&theirs).await;
    probe.pass(4).await;
    assert_eq!(heard(&[]).await, told(&theirs), "who says nothing is not believed for ever");
}
