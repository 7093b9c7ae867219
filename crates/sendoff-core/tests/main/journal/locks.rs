//! Appends and decisions that could disturb one another never hold their locks at the same time.

use proptest::prelude::*;
use sendoff_core::journal::{Fact, Item, Locks, Mode, Query, Slot};
use sendoff_core::limits;

use super::{fact, tag};

/// Few enough that what is asked for is often there.
const TYPES: [&str; 3] = ["opened", "moved", "closed"];
const TAGS: [&str; 4] = ["w=1", "w=2", "w=3", "bank=1"];

fn facts() -> impl Strategy<Value = Vec<Fact>> {
    let one = (0..TYPES.len(), prop::collection::vec(0..TAGS.len(), 0..4));
    prop::collection::vec(one, 1..4).prop_map(|facts| {
        let tagged = |tags: Vec<usize>| tags.into_iter().map(|at| TAGS[at]).collect::<Vec<_>>();
        facts.into_iter().map(|(name, tags)| fact(TYPES[name], &tagged(tags))).collect()
    })
}

fn query() -> impl Strategy<Value = Query> {
    let types = prop::collection::vec(0..TYPES.len(), 0..3);
    let tags = prop::collection::vec(0..TAGS.len(), 0..3);
    let item = (types, tags).prop_map(|(types, tags)| {
        let item = types.into_iter().fold(Item::any(), |item, at| item.of_type(TYPES[at]));
        tags.into_iter().fold(item, |item, at| item.tagged(tag(TAGS[at])))
    });
    prop::collection::vec(item, 0..4).prop_map(|items| {
        items.into_iter().map(Query::of).reduce(Query::or).unwrap_or(Query::all())
    })
}

/// Whether two cannot hold their locks at the same time.
fn exclude(these: &Locks, others: &Locks) -> bool {
    these.iter().any(|lock| {
        let same = others.iter().filter(|other| other.key == lock.key);
        same.map(|other| other.mode.max(lock.mode)).max() == Some(Mode::Exclusive)
    })
}

proptest! {
    /// Holds J1: whoever appends what a condition or a decision means cannot do so beside it.
    #[test]
    fn what_could_disturb_one_another_excludes_one_another(
        appended in facts(), condition in prop::option::of(query()), read in query(), own in facts()
    ) {
        let append = Locks::of_append(&appended, condition.as_ref());
        if appended.iter().any(|fact| read.matches(fact)) {
            prop_assert!(exclude(&append, &Locks::of_decision(&read)));
            prop_assert!(exclude(&append, &Locks::of_append(&own, Some(&read))));
            prop_assert!(exclude(&Locks::of_append(&own, Some(&read)), &append));
        }
    }

    /// Appends without a condition are made side by side.
    #[test]
    fn appends_without_a_condition_never_exclude_one_another(a in facts(), b in facts()) {
        prop_assert!(!exclude(&Locks::of_append(&a, None), &Locks::of_append(&b, None)));
    }

    /// Taken in one order by everybody, locks cannot deadlock.
    #[test]
    fn every_key_is_there_once_and_they_ascend(a in facts(), condition in query()) {
        for locks in [Locks::of_append(&a, Some(&condition)), Locks::of_decision(&condition)] {
            let keys: Vec<_> = locks.iter().map(|lock| lock.key).collect();
            prop_assert!(keys.is_sorted_by(|a, b| a < b));
            prop_assert!((1..=limits::JOURNAL_LOCKS).contains(&keys.len()));
        }
    }

    /// Holds J1: what excludes one another does so by its slots too, however few there are.
    #[test]
    fn slots_keep_apart_what_the_keys_keep_apart(
        a in facts(), b in facts(), one in prop::option::of(query()), two in query(),
        count in 2_u16..5_000
    ) {
        let (these, others) = (Locks::of_append(&a, one.as_ref()), Locks::of_append(&b, Some(&two)));
        let (mine, theirs) = (these.slots(count), others.slots(count));
        for slots in [&mine, &theirs] {
            prop_assert!(slots.is_sorted_by(|a, b| a.number < b.number));
            prop_assert!(slots.iter().all(|slot| slot.number < count));
        }
        if exclude(&these, &others) {
            let meet = mine.iter().any(|slot| {
                let same = theirs.iter().filter(|other| other.number == slot.number);
                same.map(|other| other.mode.max(slot.mode)).max() == Some(Mode::Exclusive)
            });
            prop_assert!(meet);
        }
    }
}

/// Nobody shares the journal's own slot by chance: that would make everybody wait.
#[test]
fn the_journal_has_the_first_slot_to_itself() {
    let locks = Locks::of_append(&[fact("moved", &["wallet=1"])], Some(&Query::of_type("x")));
    let slots = locks.slots(4_096);
    assert_eq!(slots.len(), 4);
    assert_eq!((slots[0].number, slots[0].mode), (0, Mode::Shared));
    assert!(slots[1..].iter().all(|slot| slot.number > 0));
    let alone = Locks::of_decision(&Query::all()).slots(2);
    assert_eq!(alone, [Slot { number: 0, mode: Mode::Exclusive }]);
}

/// A thousand facts with twenty tags each are one lock.
#[test]
fn what_needs_too_many_locks_has_the_journal_alone() {
    let tagged =
        |from: usize, to: usize| -> Vec<String> { (from..to).map(|n| format!("n={n}")).collect() };
    let of = |tags: &[String]| fact("t", &tags.iter().map(String::as_str).collect::<Vec<_>>());
    // The journal, one type, and the rest.
    let most = limits::JOURNAL_LOCKS - 2;
    let fits = Locks::of_append(&[of(&tagged(0, most))], None);
    assert_eq!(fits.iter().count(), limits::JOURNAL_LOCKS);
    let many: Vec<_> = (0..1_000).map(|n| of(&tagged(n * 20, n * 20 + 20))).collect();
    for locks in [
        Locks::of_append(&[of(&tagged(0, most)), fact("t", &["n=x"])], None),
        Locks::of_append(&many, None),
    ] {
        let alone: Vec<_> = locks.iter().map(|lock| lock.mode).collect();
        assert_eq!(alone, [Mode::Exclusive]);
        let small = Locks::of_append(&[fact("other", &["other=1"])], None);
        assert!(exclude(&locks, &small), "also what shares nothing with it");
        let decision = Locks::of_decision(&Query::tagged(tag("n=1")));
        assert!(exclude(&locks, &decision), "also a decision about one of its tags");
    }
}

#[test]
fn appends_on_other_tags_go_on_beside_a_condition() {
    let of = |wallet: &str| {
        Locks::of_append(&[fact("moved", &[wallet])], Some(&Query::tagged(tag(wallet))))
    };
    assert!(!exclude(&of("wallet=1"), &of("wallet=2")));
    assert!(exclude(&of("wallet=1"), &of("wallet=1")));
}

/// Programs in other languages compute them too: a change of these numbers is a migration.
#[test]
fn the_keys_never_change() {
    let locks = Locks::of_append(&[fact("moved", &["wallet=1"])], None);
    let keys: Vec<_> = locks.iter().map(|lock| lock.key).collect();
    assert_eq!(keys, [-895_801_257, 0, 597_740_260]);
}
