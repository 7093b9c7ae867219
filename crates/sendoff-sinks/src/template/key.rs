//! The key that events of a partition, or of one order, share at a target.

use sendoff_core::Delivery;
use serde::{Deserialize, Serialize};

use super::{InvalidTemplate, Shape, Template, Unrendered};

/// Which key an event has at its target, as it is configured.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum KeyOptions {
    /// Its ordering key; its aggregate's id where it has none; no key where it has neither.
    #[default]
    Natural,
    /// No key.
    None,
    /// A template. An event that lacks what it names is poison.
    Template(String),
}

/// Which key an event has at its target, checked.
#[derive(Debug, Clone)]
pub enum Key {
    /// Its ordering key; its aggregate's id where it has none; no key where it has neither.
    Natural,
    /// No key.
    None,
    /// What the template says.
    Template(Template),
}

impl KeyOptions {
    /// Checks it for a key of this shape.
    pub fn check(&self, shape: &'static Shape) -> Result<Key, InvalidTemplate> {
        Ok(match self {
            Self::Natural => Key::Natural,
            Self::None => Key::None,
            Self::Template(text) => Key::Template(Template::parse(text, shape)?),
        })
    }
}

impl Key {
    /// The key of this event.
    pub fn of(&self, delivery: &Delivery) -> Result<Option<String>, Unrendered> {
        match self {
            Self::Natural => {
                Ok(delivery.ordering_key().or(delivery.aggregate_id()).map(str::to_owned))
            }
            Self::None => Ok(None),
            Self::Template(template) => template.render(delivery).map(Some),
        }
    }
}
