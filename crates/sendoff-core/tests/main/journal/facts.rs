//! What a fact and its tags may be, and what is refused.

use std::time::Duration;

use sendoff_core::journal::{Append, Fact, IntoFact, Invalid, Tag, Tags, Topic};
use sendoff_core::{Event, EventId, InvalidEvent, limits};

use super::tag;

#[test]
fn a_tag_has_a_key_and_a_value_and_the_first_equals_sign_divides_them() {
    let odd = tag("formula=a=b");
    assert_eq!((odd.key(), odd.value(), odd.as_str()), ("formula", "a=b", "formula=a=b"));
    assert!(matches!("=x".parse::<Tag>(), Err(Invalid::EmptyTag { part: "key" })));
    assert!(matches!("x=".parse::<Tag>(), Err(Invalid::EmptyTag { part: "value" })));
    assert!(matches!("x".parse::<Tag>(), Err(Invalid::EmptyTag { part: "value" })));
    assert!(matches!(Tag::new("a=b", "c"), Err(Invalid::KeyWithEquals)));
    let broken = Tag::new("a", "b\nc");
    assert!(matches!(broken, Err(Invalid::Event(InvalidEvent::Character { .. }))));
}

#[test]
fn tags_are_limited_in_size_and_number() {
    let (key, value) = ("k".repeat(limits::TAG_KEY_CHARS), "ü".repeat(limits::TAG_VALUE_CHARS));
    assert!(Tag::new(&*key, &value).is_ok());
    assert!(Tag::new(format!("{key}k"), &value).is_err());
    assert!(Tag::new(key, format!("{value}v")).is_err());

    let numbered = |count: usize| (0..count).map(|n| Tag::new("n", n.to_string()).unwrap());
    assert_eq!(Tags::new(numbered(limits::TAGS)).unwrap().len(), limits::TAGS);
    let refused = Tags::new(numbered(limits::TAGS + 1));
    assert!(matches!(refused, Err(Invalid::TooMany { what: "tags", count: 65, limit: 64 })));
    let twice = Tags::new(numbered(limits::TAGS).chain(numbered(3))).unwrap();
    assert_eq!(twice.len(), limits::TAGS, "what is there twice counts once");
}

#[test]
fn aggregate_and_tenant_become_tags() {
    let event = Event::builder("placed").aggregate("order", "7").tenant_id("acme").bytes("x");
    let fact = Fact::builder(event).tag("customer", 12).build().unwrap();
    let tags: Vec<_> = fact.tags().iter().map(Tag::as_str).collect();
    assert_eq!(tags, ["customer=12", "order=7", "tenant_id=acme"]);
}

#[test]
fn a_fact_is_refused_for_what_is_wrong_first() {
    let wrong = Fact::builder(("", "{}")).tag("", "").build();
    assert!(matches!(wrong, Err(Invalid::Event(InvalidEvent::Empty { field: "event_type" }))));
    let wrong = Fact::builder(("t", "{}")).tag("", "x").tag("y", "").build();
    assert!(matches!(wrong, Err(Invalid::EmptyTag { part: "key" })));
    let wrong = ("t", "{").into_fact();
    assert!(matches!(wrong, Err(Invalid::Event(InvalidEvent::NotJson(_)))));
    let delayed = Event::builder("t").bytes("x").delay(Duration::from_secs(1));
    assert!(matches!(delayed.into_fact(), Err(Invalid::Delayed)));
}

#[test]
fn a_conversation_is_handed_on() {
    let first = Fact::builder(("asked", "{}")).build().unwrap();
    let second = Fact::builder(("answered", "{}")).caused_by(&first).build().unwrap();
    let third = Fact::builder(("thanked", "{}")).caused_by(&second).build().unwrap();
    assert_eq!(second.correlation_id(), Some(first.id()));
    assert_eq!(third.correlation_id(), Some(first.id()));
    assert_eq!(third.causation_id(), Some(second.id()));
    let given = Fact::builder(("x", "{}")).correlation_id(EventId::from_bytes([7; 16]));
    assert_eq!(given.build().unwrap().correlation_id(), Some(EventId::from_bytes([7; 16])));
}

#[test]
fn a_topic_is_held_to_the_limits() {
    assert!(Topic::builder("").build().is_err());
    assert!(Topic::builder("t".repeat(limits::TOPIC_CHARS + 1)).build().is_err());
    assert!(Topic::builder("t").required_tags(["a=b"]).build().is_err());
    let keys = |count: usize| (0..count).map(|n| format!("k{n}"));
    assert!(Topic::builder("t").any_of_tags(keys(limits::TAGS)).build().is_ok());
    assert!(Topic::builder("t").any_of_tags(keys(limits::TAGS + 1)).build().is_err());
}

/// Holds J1: one to a thousand facts, each once.
#[test]
fn an_append_is_held_to_its_limits() {
    let facts = |count: usize| (0..count).map(|_| ("t", "{}").into_fact().unwrap()).collect();
    let append = |facts: Vec<Fact>| Append::new(facts, None);
    assert!(matches!(append(Vec::new()), Err(Invalid::NoFacts)));
    assert!(append(facts(limits::APPEND_FACTS)).is_ok());
    assert!(matches!(append(facts(limits::APPEND_FACTS + 1)), Err(Invalid::TooMany { .. })));
    let one: Fact = ("t", "{}").into_fact().unwrap();
    assert!(matches!(append(vec![one.clone(), one]), Err(Invalid::SameId)));
}
