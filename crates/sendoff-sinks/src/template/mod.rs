//! Destinations and keys as templates over an event: `orders.{type}.{header.region|eu}`.
//!
//! | in a template | what it becomes |
//! |---|---|
//! | `{id}`, `{type}` | the event's id and type |
//! | `{aggregate_type}`, `{aggregate_id}` | its aggregate, where it has one |
//! | `{tenant}` | its tenant; of a fact, the tag `tenant_id` |
//! | `{key}` | its ordering key |
//! | `{header.NAME}` | a header |
//! | `{tag.KEY}`, `{position}`, `{correlation_id}`, `{causation_id}` | of a fact of a journal |
//! | `{key,aggregate_id}` | the first of these that the event has |
//! | `{tenant\|none}` | the text `none` where the event has no tenant |
//! | `{{`, `}}` | a brace |
//!
//! Promise: a template is checked when its sink starts, and rendering depends on nothing but the event. An event that
//! lacks a field, or whose field has what the target can never take, is poison; the error names the field and never a value.

mod field;
mod key;
mod parse;
mod shape;

use std::borrow::Cow;
use std::fmt;

use sendoff_core::Delivery;

pub(crate) use field::{aggregate_type, tenant};
pub use key::{Key, KeyOptions};
pub use parse::InvalidTemplate;
pub use shape::Shape;

use field::Field;

/// Bytes of a template. Names of topics have a few hundred at most; more is a mistake.
pub const TEMPLATE_BYTES: usize = 1_024;

/// A text with places for an event's fields, checked for what it is to become.
#[derive(Clone)]
pub struct Template {
    shape: &'static Shape,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    /// The first field that the event has, or the text that stands for none of them.
    Value {
        fields: Vec<Field>,
        fallback: Option<String>,
    },
}

impl Template {
    /// Reads a template of something of this shape.
    ///
    /// ```
    /// use sendoff_sinks::template::{Shape, Template};
    ///
    /// let topic = Template::parse("orders.{type}", &Shape::TEXT)?;
    /// assert!(!topic.is_constant());
    /// let wrong = Template::parse("orders.{typ}", &Shape::TEXT).unwrap_err().to_string();
    /// assert!(wrong.starts_with("column 9:"), "{wrong}");
    /// # Ok::<(), sendoff_sinks::template::InvalidTemplate>(())
    /// ```
    pub fn parse(text: &str, shape: &'static Shape) -> Result<Self, InvalidTemplate> {
        let template = Self { shape, parts: parse::parts(text, shape)? };
        match template.constant() {
            Some(text) => shape
                .check_whole(&text)
                .map_err(|why| InvalidTemplate::Whole { what: shape.what, why })
                .map(|()| template),
            None => Ok(template),
        }
    }

    /// Whether it is the same text for every event.
    pub fn is_constant(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Text(_)))
    }

    /// The text, where it is the same for every event.
    pub fn constant(&self) -> Option<String> {
        let text = |part: &Part| match part {
            Part::Text(text) => Some(text.clone()),
            Part::Value { .. } => None,
        };
        self.parts.iter().map(text).collect()
    }

    /// The text before its first field: what every event's begins with.
    pub fn prefix(&self) -> &str {
        match self.parts.first() {
            Some(Part::Text(text)) => text,
            _ => "",
        }
    }

    /// The text for this event.
    ///
    /// # Errors
    ///
    /// Poison: no later attempt renders what this one could not.
    pub fn render(&self, delivery: &Delivery) -> Result<String, Unrendered> {
        let mut text = String::new();
        for part in &self.parts {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Value { fields, fallback } => {
                    self.push(&mut text, delivery, fields, fallback.as_deref())?;
                }
            }
        }
        let what = self.shape.what;
        self.shape.check_whole(&text).map_err(|why| Unrendered::Whole {
            what,
            why,
            fields: self.fields(),
        })?;
        Ok(text)
    }

    fn push(
        &self,
        text: &mut String,
        delivery: &Delivery,
        fields: &[Field],
        fallback: Option<&str>,
    ) -> Result<(), Unrendered> {
        let Shape { what, expected, encode, .. } = *self.shape;
        let found = fields.iter().find_map(|field| Some((field, field.of(delivery)?)));
        let Some((field, value)) = found else {
            let missing = || Unrendered::Missing { what, field: names(fields) };
            text.push_str(fallback.ok_or_else(missing)?);
            return Ok(());
        };
        let value = match encode {
            Some(encode) => Cow::Owned(encode(&value)),
            None => value,
        };
        if !value.chars().all(self.shape.takes) {
            return Err(Unrendered::Character { what, field: field.to_string(), expected });
        }
        text.push_str(&value);
        Ok(())
    }

    fn fields(&self) -> String {
        let fields = self.parts.iter().filter_map(|part| match part {
            Part::Text(_) => None,
            Part::Value { fields, .. } => Some(format!("{{{}}}", names(fields))),
        });
        fields.collect::<Vec<_>>().join(" ")
    }
}

fn names(fields: &[Field]) -> String {
    fields.iter().map(Field::to_string).collect::<Vec<_>>().join(",")
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Template")
            .field("of", &self.shape.what)
            .field("parts", &self.parts)
            .finish()
    }
}

/// A template has no text for an event, and never will.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unrendered {
    /// The event lacks a field.
    #[error("the {what} needs {{{field}}}, which the event does not have")]
    Missing {
        /// What was to be rendered.
        what: &'static str,
        /// The field, or those of which it has none.
        field: String,
    },
    /// A field has a character that the target never takes.
    #[error("{{{field}}} has a character that a {what} cannot have; it takes {expected}")]
    Character {
        /// What was to be rendered.
        what: &'static str,
        /// The field.
        field: String,
        /// What may be there.
        expected: &'static str,
    },
    /// What was rendered is not what the target takes, as a whole.
    #[error("the {what} made of {fields} {why}")]
    Whole {
        /// What was to be rendered.
        what: &'static str,
        /// What is wrong with it.
        why: Cow<'static, str>,
        /// The fields it was made of.
        fields: String,
    },
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use sendoff_core::journal::{Fact, Position, Recorded};
    use sendoff_core::{Event, EventBuilder, Lane, Origin, Timestamp};

    use super::*;

    fn of(event: EventBuilder) -> Delivery {
        Delivery {
            event: event.bytes("").build().unwrap(),
            created_at: Timestamp::now(),
            attempt: 1,
            origin: Origin::Row(Lane::Cold),
        }
    }

    fn render(template: &str, delivery: &Delivery) -> Result<String, Unrendered> {
        Template::parse(template, &Shape::TEXT).unwrap().render(delivery)
    }

    #[test]
    fn every_field_is_rendered() {
        let event = Event::builder("order.placed").aggregate("order", "4711").tenant_id("acme");
        let event = of(event.ordering_key("k").header("region", "eu").header("a.b-c", "x"));
        let all =
            "{type}/{aggregate_type}/{aggregate_id}/{tenant}/{key}/{header.region}/{header.a.b-c}";
        assert_eq!(render(all, &event).unwrap(), "order.placed/order/4711/acme/k/eu/x");
        assert_eq!(render("{id}", &event).unwrap(), event.id().to_string());
        assert_eq!(render("{{{type}}}", &event).unwrap(), "{order.placed}");
    }

    #[test]
    fn what_is_missing_falls_back_or_is_named() {
        let event = of(Event::builder("e").header("region", "eu"));
        assert_eq!(render("{tenant|none}", &event).unwrap(), "none");
        assert_eq!(render("x{tenant|}", &event).unwrap(), "x");
        assert_eq!(render("{key,header.region|none}", &event).unwrap(), "eu");
        // Events without an aggregate are stored under a name that nobody gave them.
        for missing in
            ["tenant", "key", "aggregate_type", "aggregate_id", "header.x", "tag.x", "key,tenant"]
        {
            let error = render(&format!("a.{{{missing}}}"), &event).unwrap_err();
            assert_eq!(error, Unrendered::Missing { what: "text", field: missing.into() });
        }
    }

    #[test]
    fn a_fact_has_tags_and_its_tenant_is_one() {
        let fact = Fact::builder(Event::builder("e").tenant_id("acme").bytes("").build().unwrap())
            .tag("wallet", "w1")
            .build()
            .unwrap();
        // As a journal gives it back: tags are all that is left of it.
        let event = Event::builder("e").bytes("").build().unwrap();
        let fact = Fact::restore(event, fact.tags().clone(), None, None);
        let recorded =
            Recorded { position: Position::new(7).unwrap(), recorded_at: Timestamp::now(), fact };
        let delivery = Delivery::of_fact(&Arc::new(recorded), 1);
        assert_eq!(render("{tenant}.{tag.wallet}.{position}", &delivery).unwrap(), "acme.w1.7");
        assert!(render("{correlation_id}", &delivery).is_err());
    }

    /// Holds I-secrecy: an error is stored and logged.
    #[test]
    fn an_error_names_the_field_and_never_the_value() {
        static WORD: Shape = Shape { takes: |c| c.is_ascii_alphanumeric(), ..Shape::TEXT };
        let event = of(Event::builder("e").header("token", "canary secret"));
        let error = Template::parse("a{header.token}", &WORD).unwrap().render(&event).unwrap_err();
        assert!(
            error.to_string().contains("header.token") && !error.to_string().contains("canary")
        );
    }

    #[test]
    fn a_text_that_is_too_long_is_refused_with_its_limit() {
        static SHORT: Shape = Shape { bytes: 4, ..Shape::TEXT };
        let template = Template::parse("{type}", &SHORT).unwrap();
        assert_eq!(template.render(&of(Event::builder("four"))).unwrap(), "four");
        let error = template.render(&of(Event::builder("fives"))).unwrap_err().to_string();
        assert_eq!(error, "the text made of {type} has 5 bytes; the most is 4");
    }
}
