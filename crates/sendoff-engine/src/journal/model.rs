//! Deciding by what has happened.

use std::fmt;

use sendoff_core::BoxError;
use sendoff_core::journal::{Condition, Query, Recorded};

/// A state made of facts: which ones, and what each changes.
///
/// Models are composed by putting them into a tuple: what either asks for is read once, each fact
/// goes to those who asked for it, and the condition is the one of all. [`fold`] makes one of a
/// closure.
///
/// ```
/// use sendoff_core::BoxError;
/// use sendoff_core::journal::{Item, Query, Recorded, Tag};
/// use sendoff_engine::journal::Model;
///
/// struct Balance { wallet: Tag, cents: i64 }
///
/// impl Model for Balance {
///     fn query(&self) -> Query {
///         let moves = Item::any().of_type("deposited").of_type("withdrawn");
///         Query::of(moves.tagged(self.wallet.clone()))
///     }
///
///     fn apply(&mut self, fact: &Recorded) -> Result<(), BoxError> {
///         let amount: i64 = fact.event().read_json()?;
///         match fact.event().event_type() {
///             "deposited" => self.cents += amount,
///             _ => self.cents -= amount,
///         }
///         Ok(())
///     }
/// }
/// ```
pub trait Model: Send {
    /// The facts it is made of.
    fn query(&self) -> Query;

    /// Takes one of them into account. They come in the order of their positions.
    fn apply(&mut self, fact: &Recorded) -> Result<(), BoxError>;

    /// Facts that each say all that came before, as the closing of a book does: the model is made from
    /// the last of them on, however much there was before it. What they say takes the place of what
    /// the model is by then, since a store that cannot find the last one quickly begins earlier.
    /// They are part of what [`query`](Self::query) means. None, as by default and in a tuple: from
    /// the beginning on.
    fn closing(&self) -> Option<Query> {
        None
    }
}

impl<M: Model + ?Sized> Model for &mut M {
    fn query(&self) -> Query {
        (**self).query()
    }

    fn apply(&mut self, fact: &Recorded) -> Result<(), BoxError> {
        (**self).apply(fact)
    }

    fn closing(&self) -> Option<Query> {
        (**self).closing()
    }
}

macro_rules! composed {
    ($($model:ident $at:tt),*) => {
        impl<$($model: Model),*> Model for ($($model,)*) {
            fn query(&self) -> Query {
                let queries = [$(self.$at.query()),*];
                queries.into_iter().reduce(Query::or).unwrap_or(Query::all())
            }

            fn apply(&mut self, fact: &Recorded) -> Result<(), BoxError> {
                $(if self.$at.query().selects(fact) {
                    self.$at.apply(fact)?;
                })*
                Ok(())
            }
        }
    };
}
composed!(A 0);
composed!(A 0, B 1);
composed!(A 0, B 1, C 2);
composed!(A 0, B 1, C 2, D 3);
composed!(A 0, B 1, C 2, D 3, E 4);
composed!(A 0, B 1, C 2, D 3, E 4, F 5);

/// A model of a state and a closure that changes it.
///
/// ```
/// use sendoff_core::journal::{Query, Tag};
/// use sendoff_engine::journal::fold;
///
/// let seats = fold(Query::tagged(Tag::new("course_id", "c1")?), 0_u32, |seats, fact| {
///     *seats += u32::from(fact.event().event_type() == "student.subscribed");
///     Ok(())
/// });
/// # let _ = seats;
/// # Ok::<(), sendoff_core::journal::Invalid>(())
/// ```
pub fn fold<T, F>(query: Query, state: T, apply: F) -> Fold<T, F>
where
    T: Send,
    F: FnMut(&mut T, &Recorded) -> Result<(), BoxError> + Send,
{
    Fold { query, closing: None, state, apply }
}

/// What [`fold`] makes.
pub struct Fold<T, F> {
    query: Query,
    closing: Option<Query>,
    /// What the facts so far have made of it.
    pub state: T,
    apply: F,
}

impl<T, F> Fold<T, F> {
    /// The same, from the last fact on that this query means; see [`Model::closing`].
    #[must_use]
    pub fn from_last(mut self, closing: Query) -> Self {
        self.closing = Some(closing);
        self
    }
}

impl<T, F> Model for Fold<T, F>
where
    T: Send,
    F: FnMut(&mut T, &Recorded) -> Result<(), BoxError> + Send,
{
    fn query(&self) -> Query {
        self.query.clone()
    }

    fn apply(&mut self, fact: &Recorded) -> Result<(), BoxError> {
        (self.apply)(&mut self.state, fact)
    }

    fn closing(&self) -> Option<Query> {
        self.closing.clone()
    }
}

impl<T: fmt::Debug, F> fmt::Debug for Fold<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fold").field("query", &self.query).field("state", &self.state).finish()
    }
}

/// A model with everything that had happened, and the condition that nothing has happened since.
#[derive(Debug)]
pub struct Decided<M> {
    /// The model.
    pub model: M,
    /// What an append that relies on it must name.
    pub condition: Condition,
}
