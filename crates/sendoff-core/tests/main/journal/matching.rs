//! Which facts queries and topics select.

use sendoff_core::journal::{Item, Query, Topic};
use sendoff_core::limits;

use super::{fact, tag};

/// Holds J2: types are alternatives, tags are all asked for, items are alternatives.
#[test]
fn a_query_means_what_one_of_its_items_means() {
    let moved = fact("moved", &["from=a", "to=b"]);
    let item = |types: &[&str], tags: &[&str]| {
        let typed = types.iter().fold(Item::any(), |item, name| item.of_type(*name));
        tags.iter().fold(typed, |item, text| item.tagged(tag(text)))
    };
    for (types, tags, expected) in [
        (&[][..], &[][..], true),
        (&["moved"], &[], true),
        (&["opened", "moved"], &[], true),
        (&["opened"], &[], false),
        (&[], &["from=a"], true),
        (&[], &["from=a", "to=b"], true),
        (&[], &["from=a", "to=c"], false),
        (&["moved"], &["to=b"], true),
        (&["opened"], &["to=b"], false),
    ] {
        assert_eq!(Query::of(item(types, tags)).matches(&moved), expected, "{types:?} {tags:?}");
    }
    assert!(Query::all().matches(&moved));
    let either = Query::of_type("opened").or(Query::tagged(tag("to=b")));
    assert!(either.matches(&moved));
    assert!(!Query::of_type("opened").or(Query::tagged(tag("to=c"))).matches(&moved));
}

/// Holds J2.
#[test]
fn composed_queries_mean_either_and_everything_stays_everything() {
    let (a, b) = (Query::of_type("a"), Query::of_type("b"));
    assert_eq!(a.clone().or(b.clone()).or(a.clone()).items().len(), 2);
    assert_eq!(a.or(Query::all()), Query::all());
    assert_eq!(Query::all().or(b), Query::all());
}

#[test]
fn a_query_is_held_to_its_limits() {
    let items = |count: usize| {
        let queries = (0..count).map(|n| Query::tagged(tag(&format!("n={n}"))));
        queries.reduce(Query::or).unwrap()
    };
    assert!(items(limits::QUERY_ITEMS).check().is_ok());
    assert!(items(limits::QUERY_ITEMS + 1).check().is_err());
    let types = |count: usize| (0..count).fold(Item::any(), |i, n| i.of_type(format!("t{n}")));
    assert!(Query::of(types(limits::QUERY_TYPES)).check().is_ok());
    assert!(Query::of(types(limits::QUERY_TYPES + 1)).check().is_err());
}

/// Holds J4.
#[test]
fn a_topic_selects_by_types_and_by_required_any_of_and_exact_tags() {
    let payment = fact("paid", &["payment_id=1", "region=eu", "wallet_id=7"]);
    let topic = || Topic::builder("t");
    for (built, expected) in [
        (topic(), true),
        (topic().types(["paid"]), true),
        (topic().types(["opened"]), false),
        (topic().required_tags(["wallet_id", "region"]), true),
        (topic().required_tags(["wallet_id", "owner"]), false),
        (topic().any_of_tags(["transfer_id", "payment_id"]), true),
        (topic().any_of_tags(["transfer_id"]), false),
        (topic().exact_tags([tag("region=eu")]), true),
        (topic().exact_tags([tag("region=us")]), false),
        (topic().types(["paid"]).required_tags(["region"]).exact_tags([tag("region=us")]), false),
    ] {
        let built = built.build().unwrap();
        assert_eq!(built.selects(&payment), expected, "{built:?}");
    }
}
