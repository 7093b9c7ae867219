//! Facts that were read under the locks of a decision, so that the next one about the same only reads what
//! came later.
//!
//! Promise: a reading finds the same whatever is kept here. It is enough to see that the first fact and the
//! last one are still there, in the run of the server in which they were read: facts never change, they go in
//! the order of their positions, and while a decision has its locks, nobody takes a position below what it
//! reads.

use std::sync::Arc;

use sendoff_core::EventId;
use sendoff_core::journal::{Position, Query, Recorded, Run};
use sendoff_core::limits;

use super::books::{MemoryKey, Remembered};
use super::store::{Basis, Page};

/// What a fact takes up besides its payload and headers, about.
const FACT_BYTES: usize = 512;
/// A model of more bytes than this part of all is not kept: others would have to go for it.
const SHARE: usize = 64;

/// The facts of models that were decided by lately, in bounded memory.
#[derive(Debug)]
pub struct Shelf(Remembered<Arc<Kept>>);

/// The facts of one model, of which there is one at least.
#[derive(Debug)]
pub struct Kept {
    query: Query,
    closing: Option<Query>,
    run: Option<Run>,
    facts: Vec<Recorded>,
}

impl Shelf {
    /// What was kept of this model, to be [continued](Kept::continued).
    pub fn get(&self, basis: Basis<'_>) -> Option<Arc<Kept>> {
        let kept = self.0.get(MemoryKey::of_model(basis.query, basis.closing))?;
        // Others may have the same key.
        let same = kept.query == *basis.query && kept.closing.as_ref() == basis.closing;
        (same && basis.page.after == Position::START).then_some(kept)
    }

    /// Keeps all facts of a model, which were read under its locks in this run of the server.
    pub fn put(&self, basis: Basis<'_>, run: Option<Run>, facts: &[Recorded]) {
        let weight = facts.iter().map(|fact| fact.event().size() + FACT_BYTES).sum();
        // Where runs are not told apart, nothing proves that it is the same server's.
        if run.is_none() || facts.is_empty() || weight > limits::SHELF_BYTES / SHARE {
            return self.forget(basis);
        }
        let (query, closing) = (basis.query.clone(), basis.closing.cloned());
        let kept = Kept { query, closing, run, facts: facts.to_vec() };
        let key = MemoryKey::of_model(basis.query, basis.closing);
        self.0.put_weighing(key, Arc::new(kept), weight);
    }

    /// Forgets what could not be continued.
    pub fn forget(&self, basis: Basis<'_>) {
        self.0.forget(MemoryKey::of_model(basis.query, basis.closing));
    }
}

impl Default for Shelf {
    fn default() -> Self {
        Self(Remembered::weighing(limits::SHELF_BYTES / 2))
    }
}

impl Kept {
    /// Which fact must still be there.
    pub fn first(&self) -> Position {
        self.facts.first().map_or(Position::START, |first| first.position)
    }

    /// Where to read on: at the last fact itself, which must still be there too.
    pub fn last(&self) -> Position {
        self.end().map_or(Position::START, |(position, _)| position)
    }

    fn end(&self) -> Option<(Position, EventId)> {
        self.facts.last().map(|last| (last.position, last.fact.id()))
    }

    /// All facts of the model, from the last one on that closes: those that were kept, and what was read
    /// from the [last](Self::last) of them on in this run of the server. None where it is not the same one,
    /// or where they are more than fit into the page.
    pub fn continued(
        &self,
        run: Option<Run>,
        page: Page,
        read: Vec<Recorded>,
    ) -> Option<Vec<Recorded>> {
        let first = read.first().map(|first| (first.position, first.fact.id()));
        if first != self.end() || run != self.run {
            return None;
        }
        let closes =
            |fact: &Recorded| self.closing.as_ref().is_some_and(|closing| closing.selects(fact));
        if let Some(last) = read.iter().skip(1).rposition(closes) {
            return Some(read.into_iter().skip(1 + last).collect());
        }
        let mut facts = Vec::with_capacity(self.facts.len() + read.len() - 1);
        facts.extend_from_slice(&self.facts);
        facts.extend(read.into_iter().skip(1));
        let bytes: usize = facts.iter().map(|fact| fact.event().size()).sum();
        (facts.len() <= page.limit && bytes <= page.bytes).then_some(facts)
    }
}

#[cfg(test)]
mod tests {
    use sendoff_core::Timestamp;
    use sendoff_core::journal::{Fact, Item, Tag};

    use super::*;

    const RUN: Option<Run> = Some(Run::numbered(7));

    fn tag() -> Tag {
        Tag::new("account", "a").expect("a tag")
    }

    fn fact(position: i64, event_type: &str) -> Recorded {
        let fact = Fact::builder((event_type.to_owned(), "{}")).tags([tag()]).build();
        Recorded {
            position: Position::try_from(position).expect("a position"),
            recorded_at: Timestamp::from_micros(position),
            fact: fact.expect("a fact"),
        }
    }

    fn page() -> Page {
        let (limit, bytes) = (limits::BATCH_ROWS, limits::READ_BYTES);
        Page { after: Position::START, up_to: Position::END, limit, bytes }
    }

    fn closing() -> Query {
        Query::of(Item::any().of_type("closed").tagged(tag()))
    }

    /// A shelf with these facts of the model, and what it has of them.
    fn kept(facts: &[Recorded]) -> Arc<Kept> {
        let (shelf, query, closing) = (Shelf::default(), Query::tagged(tag()), closing());
        let basis = Basis { query: &query, closing: Some(&closing), page: page() };
        shelf.put(basis, RUN, facts);
        shelf.get(basis).expect("it was kept")
    }

    #[test]
    fn what_came_later_stands_after_what_was_kept() {
        let facts = [fact(1, "moved"), fact(4, "moved"), fact(9, "moved")];
        let kept = kept(&facts[..2]);
        assert_eq!((kept.first(), kept.last()), (facts[0].position, facts[1].position));
        assert_eq!(kept.continued(RUN, page(), facts[1..].to_vec()).as_deref(), Some(&facts[..]));
        assert_eq!(kept.continued(RUN, page(), facts[1..2].to_vec()).as_deref(), Some(&facts[..2]));
    }

    #[test]
    fn a_book_that_was_closed_since_begins_with_what_closed_it_last() {
        let facts = [fact(1, "closed"), fact(4, "moved"), fact(5, "closed"), fact(6, "closed")];
        let read = [facts[1].clone(), facts[2].clone(), facts[3].clone(), fact(8, "moved")];
        let all = kept(&facts[..2]).continued(RUN, page(), read.to_vec());
        assert_eq!(all.as_deref(), Some(&read[2..]));
    }

    #[test]
    fn nothing_is_continued_that_is_not_the_same_any_more() {
        let (first, last) = (fact(1, "moved"), fact(4, "moved"));
        let kept = kept(&[first, last.clone()]);
        let same = || vec![last.clone(), fact(5, "moved")];
        assert!(kept.continued(RUN, page(), same()).is_some());
        assert!(kept.continued(Some(Run::numbered(8)), page(), same()).is_none(), "another run");
        assert!(kept.continued(None, page(), same()).is_none(), "a run that is not known");
        assert!(kept.continued(RUN, page(), vec![fact(4, "moved")]).is_none(), "another fact");
        assert!(kept.continued(RUN, page(), vec![fact(5, "moved")]).is_none(), "it is gone");
        assert!(kept.continued(RUN, page(), Vec::new()).is_none(), "all are gone");
        assert!(kept.continued(RUN, Page { limit: 3, ..page() }, same()).is_some());
        assert!(kept.continued(RUN, Page { limit: 2, ..page() }, same()).is_none(), "too many");
        assert!(kept.continued(RUN, Page { bytes: 1, ..page() }, same()).is_none(), "too large");
    }

    #[test]
    fn what_proves_nothing_or_is_another_model_is_not_kept() {
        let (shelf, query, closing) = (Shelf::default(), Query::tagged(tag()), closing());
        let basis = Basis { query: &query, closing: Some(&closing), page: page() };
        let facts = [fact(1, "moved")];
        shelf.put(basis, None, &facts);
        assert!(shelf.get(basis).is_none(), "of no known run");
        shelf.put(basis, RUN, &[]);
        assert!(shelf.get(basis).is_none(), "no fact");
        shelf.put(basis, RUN, &facts);
        assert!(shelf.get(Basis { closing: None, ..basis }).is_none(), "another model");
        let further = Page { after: facts[0].position, ..page() };
        assert!(shelf.get(Basis { page: further, ..basis }).is_none(), "a further page");
        shelf.forget(basis);
        assert!(shelf.get(basis).is_none());
    }

    #[test]
    fn a_model_that_would_take_the_place_of_many_is_not_kept() {
        let (shelf, query) = (Shelf::default(), Query::tagged(tag()));
        let basis = Basis { query: &query, closing: None, page: page() };
        let most = limits::SHELF_BYTES / SHARE / (fact(1, "moved").event().size() + FACT_BYTES);
        let facts: Vec<_> = (1..).map(|at| fact(at, "moved")).take(most + 1).collect();
        shelf.put(basis, RUN, &facts[..most]);
        assert!(shelf.get(basis).is_some());
        shelf.put(basis, RUN, &facts);
        assert!(shelf.get(basis).is_none());
    }
}
