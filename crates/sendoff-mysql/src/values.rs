//! Values of a statement, in it or apart from it.

use mysql_async::Value;
use sendoff_core::journal::Position;
use sendoff_core::{EventId, Timestamp};

use crate::wire::{Literal, time_text};

/// Where the values of a text go.
///
/// Apart from it the same text stands for all values, and a server that has prepared it once need not
/// read it again. There they are in the order of their marks: whoever makes a text asks for its values
/// in that order.
#[derive(Debug, Default)]
pub(crate) struct Values(Option<Vec<Value>>);

impl Values {
    /// Into the text.
    pub(crate) fn inside() -> Self {
        Self(None)
    }

    /// Apart from it.
    pub(crate) fn apart() -> Self {
        Self(Some(Vec::new()))
    }

    /// Those that are apart.
    pub(crate) fn into_values(self) -> Vec<Value> {
        self.0.unwrap_or_default()
    }

    fn put(&mut self, literal: impl FnOnce() -> Literal, value: impl FnOnce() -> Value) -> Literal {
        match &mut self.0 {
            Some(values) => {
                values.push(value());
                Literal::mark()
            }
            None => literal(),
        }
    }

    pub(crate) fn text(&mut self, text: &str) -> Literal {
        self.put(|| Literal::text(text), || Value::from(text))
    }

    pub(crate) fn maybe_text(&mut self, text: Option<&str>) -> Literal {
        self.put(|| Literal::maybe_text(text), || Value::from(text))
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Literal {
        self.put(|| Literal::bytes(bytes), || Value::from(bytes))
    }

    pub(crate) fn id(&mut self, id: EventId) -> Literal {
        self.bytes(id.as_bytes())
    }

    pub(crate) fn maybe_id(&mut self, id: Option<EventId>) -> Literal {
        self.put(
            || Literal::maybe_id(id),
            || id.map_or(Value::NULL, |id| Value::from(id.as_bytes())),
        )
    }

    /// A point in time; see [`is_storable`](crate::wire::is_storable).
    pub(crate) fn time(&mut self, time: Timestamp) -> Literal {
        self.put(|| Literal::time(time), || Value::from(time_text(time)))
    }

    pub(crate) fn number(&mut self, number: u16) -> Literal {
        self.put(|| Literal::number(number), || Value::from(number))
    }

    pub(crate) fn position(&mut self, position: Position) -> Literal {
        self.put(|| Literal::position(position), || Value::from(position.get()))
    }
}
