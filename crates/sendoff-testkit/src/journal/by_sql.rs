//! Appends by SQL, from programs in other languages, beside those of this library.

#![allow(
    clippy::missing_panics_doc,
    reason = "what cannot be built is a mistake of the test's own"
)]
#![allow(clippy::unwrap_used, reason = "what cannot be built is a mistake of the test's own")]

use fastrand::Rng;
use sendoff_core::journal::{Append, Condition, Fact, Item, Position, Query, Tag};
use sendoff_core::limits;
use sendoff_engine::journal::{AppendError, Journal, JournalStore};
use serde_json::json;

use super::cases::found;
use super::facts::{fact, tag};

/// A condition as SQL takes it.
pub fn unless(query: &Query) -> String {
    let items = query.items().iter().map(|item| {
        let types: Vec<_> = item.types().collect();
        let tags: Vec<_> = item.tags().map(Tag::as_str).collect();
        json!({"types": types, "tags": tags})
    });
    json!(items.collect::<Vec<_>>()).to_string()
}

/// The tags of a fact as JSON.
pub fn tags(fact: &Fact) -> String {
    json!(fact.tags().iter().map(Tag::as_str).collect::<Vec<_>>()).to_string()
}

/// Many appends of one fact each: names short and long, of every alphabet and with what SQL and JSON quote, none
/// and many of them, with conditions and without.
pub fn appends() -> Vec<Append> {
    let mut rng = Rng::with_seed(20_261);
    let mut appends = Vec::new();
    for _ in 0..300 {
        let tags = rng.usize(0..4);
        let fact = made(&mut rng, tags);
        let condition = rng.bool().then(|| {
            let items = (0..rng.usize(0..4)).map(|_| item(&mut rng));
            let query = items.map(Query::of).reduce(Query::or).unwrap_or(Query::all());
            Condition { query, after: Position::START, run: None }
        });
        appends.push(Append::new(vec![fact], condition).unwrap());
    }
    // As many keys as are locked one by one, and one more: the journal and the type are two of them.
    for tags in [limits::JOURNAL_LOCKS - 2, limits::JOURNAL_LOCKS - 1, limits::TAGS] {
        appends.push(Append::new(vec![made(&mut rng, tags)], None).unwrap());
    }
    appends
}

fn item(rng: &mut Rng) -> Item {
    let mut item = Item::any();
    for _ in 0..rng.usize(0..3) {
        item = item.of_type(name(rng, limits::EVENT_TYPE_CHARS));
    }
    for nth in 0..rng.usize(0..3) {
        item = item.tagged(some_tag(rng, nth));
    }
    item
}

fn made(rng: &mut Rng, tags: usize) -> Fact {
    let name = name(rng, limits::EVENT_TYPE_CHARS);
    let tags: Vec<_> = (0..tags).map(|nth| some_tag(rng, nth)).collect();
    Fact::builder((name.as_str(), "{}")).tags(tags).build().unwrap()
}

fn some_tag(rng: &mut Rng, nth: usize) -> Tag {
    let key = name(rng, limits::TAG_KEY_CHARS - 4).replace('=', "-");
    Tag::new(format!("{key}{nth}"), name(rng, limits::TAG_VALUE_CHARS)).unwrap()
}

/// A name of a few characters, or as long as it may be.
fn name(rng: &mut Rng, most: usize) -> String {
    const LETTERS: [&str; 8] =
        ["ab.cZ09_", "äöüßéÅ", "名前登録", "🦀👩‍🚀", "\"'\\", " \t%{},:[]", "=", "e\u{301}Ω"];
    let chars = if rng.u8(0..10) == 0 { most } else { rng.usize(1..=8.min(most)) };
    let mut letter = || {
        let letters: Vec<char> = LETTERS[rng.usize(..LETTERS.len())].chars().collect();
        letters[rng.usize(..letters.len())]
    };
    (0..chars).map(|_| letter()).collect()
}

/// The name that [`one_registers`] asks for, as a tag.
pub fn registered_as(name: &str) -> String {
    format!("name={name}")
}

/// Of two who register a name at once, unless it is registered, one with this library and one by SQL, exactly
/// one does. `by_sql` appends `name.registered` and says whether the condition held.
pub async fn one_registers<S: JournalStore>(
    journal: &Journal<S>,
    by_sql: impl AsyncFn(&str) -> bool,
) {
    let mut won = [0, 0];
    for round in 0..60 {
        let name = format!("Zoë {round}");
        let wanted = registered_as(&name);
        let query = Query::of(Item::any().of_type("name.registered").tagged(tag(&wanted)));
        let condition = Condition { query: query.clone(), after: Position::START, run: None };
        let ours = async {
            match journal.append_if([fact("name.registered", &[&wanted])], condition).await {
                Ok(_) => true,
                Err(AppendError::Conflict(_)) => false,
                Err(error) => panic!("{error:?}"),
            }
        };
        // Whoever is polled first is a little ahead.
        let (ours, theirs) = if round % 2 == 0 {
            tokio::join!(ours, by_sql(&name))
        } else {
            let (theirs, ours) = tokio::join!(by_sql(&name), ours);
            (ours, theirs)
        };
        assert!(ours != theirs, "round {round}: ours {ours}, by SQL {theirs}");
        assert_eq!(found(journal, query).await.len(), 1, "round {round}");
        won[usize::from(theirs)] += 1;
    }
    assert_eq!(won[0] + won[1], 60);
}
