//! Facts that decisions under locks were made of, so that the next one about the same need not read them.
//!
//! Promise: a decision that is made of them is appended only if it is the one that would be made of the
//! journal. Nothing here proves that: the append does, under the condition that nothing came after them.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use bytes::Bytes;
use sendoff_core::journal::{Append, Condition, Fact, Item, Position, Query, Recorded};
use sendoff_core::{Event, GLOBAL_AGGREGATE, StoredEvent, limits};
use tokio::time::timeout;

use super::books::{MemoryKey, Remembered};
use super::model::Model;
use super::store::{Mark, Receipt};
use super::turns::{Turn, Turns};

/// What a fact takes up besides its payload, headers and tags, about.
const FACT_BYTES: usize = 512;
/// What a model takes up besides its facts and the names in its query, about.
const SUBJECT_BYTES: usize = 1024;
/// What a type or a tag takes up besides its text.
const NAME_BYTES: usize = 32;
/// What is kept of one model: more of it would take the place of many others.
const MODEL_BYTES: usize = limits::SHELF_BYTES / 64;

/// How long a decision waits for others of its process. Most take a millisecond.
const TURN: Duration = Duration::from_millis(100);

/// The facts of models that were decided by lately, in bounded memory.
#[derive(Debug)]
pub(super) struct Shelf {
    kept: Remembered<Known>,
    turns: Turns,
}

/// What is decided by: the facts a model is made of, and those that close it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subject {
    pub(super) query: Query,
    pub(super) closing: Option<Query>,
}

/// All facts of a model, as far as this process knows.
#[derive(Debug)]
pub(super) struct Known {
    subject: Subject,
    /// Up to where they are all.
    mark: Mark,
    facts: Vec<Recorded>,
    weight: usize,
    /// Whether others seem to append what the model is made of.
    shared: bool,
}

/// The place of whoever decides about a model, one after the other in this process: what one keeps the
/// next one takes.
#[derive(Debug)]
pub(super) struct Place<'s> {
    kept: &'s Remembered<Known>,
    key: MemoryKey,
    /// What others have kept, whether or not it was worth deciding by it.
    before: Before,
    /// None where it took too long: then nothing was taken, and nothing is kept.
    turn: Option<Turn<'s>>,
}

#[derive(Debug)]
enum Before {
    /// Nothing is known of the model.
    Nothing,
    /// It was known up to here.
    Known(Known),
    /// It was known, and others have appended since.
    Stale,
}

impl Shelf {
    /// Waits until nobody else in this process decides by the same; not for long, since that may be waiting for
    /// others, as whoever comes can do by itself.
    pub(super) async fn turn(&self, subject: &Subject) -> Place<'_> {
        let key = MemoryKey::of(subject);
        let turn = timeout(TURN, self.turns.turn(key)).await.ok();
        // Others may have the same key.
        let known = turn.is_some().then(|| self.kept.take(key)).flatten();
        let before =
            known.filter(|known| known.subject == *subject).map_or(Before::Nothing, Before::Known);
        Place { kept: &self.kept, key, before, turn }
    }
}

impl Default for Shelf {
    fn default() -> Self {
        Self { kept: Remembered::weighing(limits::SHELF_BYTES / 2), turns: Turns::default() }
    }
}

impl Place<'_> {
    /// What is known, where it is worth deciding by it and finding out whether it is all.
    pub(super) fn take(&mut self) -> Option<Known> {
        match &self.before {
            Before::Known(known) if !known.shared => {}
            _ => return None,
        }
        match std::mem::replace(&mut self.before, Before::Nothing) {
            Before::Known(known) => Some(known),
            _ => None,
        }
    }

    /// What was known was not all.
    pub(super) fn others_append(&mut self) {
        self.before = Before::Stale;
    }

    /// The same, and whether somebody else has appended since the last time: then it is likely that somebody
    /// does the next time too.
    pub(super) fn compared(&self, mut known: Known) -> Known {
        known.shared = match &self.before {
            Before::Nothing => false,
            Before::Known(before) => before.mark.position < known.mark.position,
            Before::Stale => true,
        };
        known
    }

    /// Keeps it for the next one, if it is not too much.
    pub(super) fn keep(self, known: Known) {
        if self.turn.is_some() && known.weight <= MODEL_BYTES {
            let weight = known.weight;
            self.kept.put_weighing(self.key, known, weight);
        }
    }
}

impl Subject {
    pub(super) fn of(model: &impl Model) -> Self {
        Self { query: model.query(), closing: model.closing() }
    }

    fn items(&self) -> impl Iterator<Item = &Item> {
        [&self.query].into_iter().chain(&self.closing).flat_map(Query::items)
    }

    fn weight(&self) -> usize {
        let types = self.items().flat_map(Item::types).map(|name| NAME_BYTES + name.len());
        let tags = self.items().flat_map(Item::tags).map(|tag| NAME_BYTES + tag.as_str().len());
        SUBJECT_BYTES + types.chain(tags).sum::<usize>()
    }
}

impl Hash for Subject {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for item in self.items() {
            item.types().for_each(|event_type| event_type.hash(state));
            item.tags().for_each(|tag| tag.as_str().hash(state));
        }
    }
}

impl Known {
    /// Nothing yet.
    pub(super) fn of(subject: Subject) -> Self {
        let (mark, weight) = (Mark::from(Position::START), subject.weight());
        Self { subject, mark, facts: Vec::new(), weight, shared: false }
    }

    /// The same with what was read after it. None where that is too much to be kept.
    pub(super) fn and(mut self, facts: Vec<Recorded>) -> Option<Self> {
        self.weight += facts.iter().map(weight).sum::<usize>();
        self.facts.extend(facts);
        (self.weight <= MODEL_BYTES).then_some(self)
    }

    /// The same, all facts up to this mark. None where nothing would tell that the server is another by now.
    pub(super) fn up_to(mut self, mark: Mark) -> Option<Self> {
        mark.run?;
        self.mark = mark;
        Some(self)
    }

    pub(super) fn facts(&self) -> &[Recorded] {
        &self.facts
    }

    /// Under which a decision by these facts is one by all of them.
    pub(super) fn condition(&self) -> Condition {
        let Mark { position, run } = self.mark;
        self.subject.query.clone().none_after(position).read_in(run)
    }

    /// The same after what was decided by it has been appended; from the last fact on that closes. None where an
    /// earlier append had put one of the facts there, which proves nothing of the condition, or where the journal
    /// would give one back otherwise than it was appended.
    pub(super) fn with(mut self, append: &Append, receipts: &[Receipt]) -> Option<Self> {
        for (fact, receipt) in append.facts().iter().zip(receipts) {
            let &Receipt { position, recorded_at, fresh } = receipt;
            if !fresh || !is_given_back_as_it_is(fact.event()) {
                return None;
            }
            self.mark.position = self.mark.position.max(position);
            let mut fact = Recorded { position, recorded_at, fact: fact.clone() };
            if !self.subject.query.selects(&fact) {
                continue;
            }
            fact.fact = with_own_payload(&fact.fact)?;
            if self.subject.closing.as_ref().is_some_and(|closing| closing.selects(&fact)) {
                (self.facts, self.weight) = (Vec::new(), self.subject.weight());
            }
            self.weight += weight(&fact);
            self.facts.push(fact);
        }
        Some(self)
    }
}

fn weight(fact: &Recorded) -> usize {
    let tags: usize = fact.tags().iter().map(|tag| NAME_BYTES + tag.as_str().len()).sum();
    fact.event().size() + tags + FACT_BYTES
}

/// The same fact with a payload of its own: a slice of what came with a request would keep all of that in memory, of which
/// nothing is counted here.
fn with_own_payload(fact: &Fact) -> Option<Fact> {
    let stored: &StoredEvent = fact.event().as_ref();
    let payload = Bytes::copy_from_slice(&stored.payload);
    let event = Event::restore(StoredEvent { payload, ..stored.clone() }).ok()?;
    let (correlation_id, causation_id) = (fact.correlation_id(), fact.causation_id());
    Some(Fact::restore(event, fact.tags().clone(), correlation_id, causation_id))
}

/// A journal stores nothing of what only an outbox knows.
fn is_given_back_as_it_is(event: &Event) -> bool {
    event.aggregate_type() == GLOBAL_AGGREGATE
        && event.aggregate_id().is_none()
        && event.tenant_id().is_none()
        && event.ordering_key().is_none()
}

#[cfg(test)]
mod tests {
    use sendoff_core::Timestamp;
    use sendoff_core::journal::{Item, Run, Tag};

    use super::*;

    const RUN: Option<Run> = Some(Run::numbered(7));

    fn tag() -> Tag {
        Tag::new("account", "a").expect("a tag")
    }

    fn position(number: i64) -> Position {
        Position::try_from(number).expect("a position")
    }

    fn fact(event_type: &str) -> Fact {
        Fact::builder((event_type.to_owned(), "{}")).tags([tag()]).build().expect("a fact")
    }

    fn recorded(number: i64, event_type: &str) -> Recorded {
        let recorded_at = Timestamp::from_micros(number);
        Recorded { position: position(number), recorded_at, fact: fact(event_type) }
    }

    fn subject() -> Subject {
        let closing = Query::of(Item::any().of_type("closed").tagged(tag()));
        Subject { query: Query::tagged(tag()), closing: Some(closing) }
    }

    fn known(facts: Vec<Recorded>) -> Known {
        let position = facts.last().map_or(Position::START, |last| last.position);
        let known = Known::of(subject()).and(facts).expect("few");
        known.up_to(Mark { position, run: RUN }).expect("of a known run")
    }

    fn appended(facts: Vec<Fact>, from: i64) -> (Append, Vec<Receipt>) {
        let receipts = (from..).zip(&facts).map(|(number, _)| Receipt {
            position: position(number),
            recorded_at: Timestamp::from_micros(number),
            fresh: true,
        });
        let receipts = receipts.collect();
        (Append::new(facts, None).expect("facts"), receipts)
    }

    fn positions(known: &Known) -> Vec<i64> {
        known.facts().iter().map(|fact| fact.position.into()).collect()
    }

    #[test]
    fn what_was_appended_is_known_and_the_next_condition_begins_there() {
        let (append, receipts) = appended(vec![fact("moved"), fact("moved")], 7);
        let known = known(vec![recorded(1, "moved"), recorded(4, "moved")]);
        let known = known.with(&append, &receipts).expect("fresh");
        assert_eq!(positions(&known), [1, 4, 7, 8]);
        assert_eq!(known.condition(), subject().query.none_after(position(8)).read_in(RUN));
    }

    /// Its payload is a slice of a request's whole body.
    #[test]
    fn what_is_kept_of_a_fact_keeps_nothing_else_in_memory() {
        let body = Bytes::from(vec![b' '; 1_000_000]);
        let event = Event::builder("moved").bytes(body.slice(..2)).build().expect("an event");
        let sent = Fact::builder(event).tags([tag()]).build().expect("a fact");
        let (append, receipts) = appended(vec![sent.clone()], 7);
        let known = known(Vec::new()).with(&append, &receipts).expect("fresh");
        let kept = known.facts()[0].event();
        assert_eq!((kept.id(), kept.payload()), (sent.id(), sent.event().payload()));
        drop((append, sent));
        assert!(body.is_unique(), "the shelf has none of it");
    }

    #[test]
    fn a_book_begins_with_the_fact_that_closed_it_last() {
        let (append, receipts) = appended(vec![fact("moved"), fact("closed"), fact("moved")], 7);
        let known = known(vec![recorded(1, "moved")]).with(&append, &receipts).expect("fresh");
        assert_eq!(positions(&known), [8, 9]);
    }

    #[test]
    fn what_the_model_does_not_ask_for_is_not_known_and_raises_the_mark() {
        let other = Fact::builder(("moved", "{}")).tag("account", "b").build().expect("a fact");
        let (append, receipts) = appended(vec![other], 9);
        let known = known(vec![recorded(1, "moved")]).with(&append, &receipts).expect("fresh");
        assert_eq!(positions(&known), [1]);
        assert_eq!(known.condition(), subject().query.none_after(position(9)).read_in(RUN));
    }

    /// It may have been there before what is known, or after something that is not.
    #[test]
    fn a_fact_that_was_there_already_proves_nothing() {
        let (append, mut receipts) = appended(vec![fact("moved"), fact("moved")], 7);
        receipts[1].fresh = false;
        assert!(known(vec![recorded(1, "moved")]).with(&append, &receipts).is_none());
    }

    #[test]
    fn a_fact_that_the_journal_would_give_back_otherwise_is_not_kept() {
        let event = Event::builder("moved").tenant_id("t").bytes("{}");
        let event = event.build().expect("an event");
        let of_a_tenant = Fact::builder(event).tags([tag()]).build().expect("a fact");
        let (append, receipts) = appended(vec![of_a_tenant], 7);
        assert!(known(vec![recorded(1, "moved")]).with(&append, &receipts).is_none());
    }

    #[test]
    fn what_was_read_in_no_known_run_of_the_server_is_not_kept() {
        assert!(Known::of(subject()).up_to(Mark::from(Position::START)).is_none());
    }

    /// Or refusals about things that do not exist would be kept without end.
    #[test]
    fn a_model_without_facts_weighs_something() {
        assert!(Known::of(subject()).weight >= SUBJECT_BYTES);
    }

    #[tokio::test]
    async fn what_one_keeps_the_next_one_takes_once() {
        let shelf = Shelf::default();
        shelf.turn(&subject()).await.keep(known(vec![recorded(1, "moved")]));
        let mut place = shelf.turn(&subject()).await;
        assert!(place.take().is_some());
        assert!(place.take().is_none());
        drop(place);
        assert!(shelf.turn(&subject()).await.take().is_none(), "and nobody kept it again");
        let other = Subject { closing: None, ..subject() };
        shelf.turn(&other).await.keep(Known::of(other.clone()));
        assert!(shelf.turn(&subject()).await.take().is_none(), "of another model");
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_too_long_goes_on_without_what_is_kept() {
        let shelf = Shelf::default();
        shelf.turn(&subject()).await.keep(known(vec![recorded(1, "moved")]));
        let slow = shelf.turn(&subject()).await;
        let mut second = shelf.turn(&subject()).await;
        assert!(second.take().is_none());
        second.keep(known(vec![recorded(2, "moved")]));
        slow.keep(known(vec![recorded(1, "moved")]));
        let taken = shelf.turn(&subject()).await.take().expect("the one whose turn it was");
        assert_eq!(positions(&taken), [1]);
    }

    #[tokio::test]
    async fn a_model_to_which_others_append_is_read_until_nobody_did() {
        let shelf = Shelf::default();
        let read = |last| known(vec![recorded(last, "moved")]);
        shelf.turn(&subject()).await.keep(read(1));

        let mut stale = shelf.turn(&subject()).await;
        assert!(stale.take().is_some());
        stale.others_append();
        let known = stale.compared(read(2));
        stale.keep(known);

        let mut again = shelf.turn(&subject()).await;
        assert!(again.take().is_none(), "not worth it");
        let known = again.compared(read(3));
        again.keep(known);

        let mut quiet = shelf.turn(&subject()).await;
        assert!(quiet.take().is_none(), "somebody had appended once more");
        let known = quiet.compared(read(3));
        quiet.keep(known);
        assert!(shelf.turn(&subject()).await.take().is_some(), "nobody had");
    }

    #[tokio::test]
    async fn a_model_that_would_take_the_place_of_many_is_not_kept() {
        let most = (MODEL_BYTES - subject().weight()) / weight(&recorded(1, "moved"));
        let facts = |count| (1..).map(|at| recorded(at, "moved")).take(count).collect::<Vec<_>>();
        assert!(Known::of(subject()).and(facts(most + 1)).is_none());
        let full = known(facts(most));
        let (append, receipts) = appended(vec![fact("moved")], 1_000_000);
        let shelf = Shelf::default();
        shelf.turn(&subject()).await.keep(full.with(&append, &receipts).expect("fresh"));
        assert!(shelf.turn(&subject()).await.take().is_none());
    }
}
