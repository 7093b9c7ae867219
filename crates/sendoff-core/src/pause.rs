//! What operators may pause, and what a set of pauses keeps from being delivered.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::invalid::InvalidEvent;
use crate::limits;
use crate::name::check;
use crate::timestamp::Timestamp;

/// What is paused by one order: all delivery, one event type, or one handler.
///
/// As text it is `all`, `type:` and an event type, or `handler:` and a name, both ways.
///
/// ```
/// use sendoff_core::PauseScope;
///
/// let mails = PauseScope::event_type("order.mailed")?;
/// assert_eq!(mails.to_string(), "type:order.mailed");
/// assert_eq!("type:order.mailed".parse::<PauseScope>()?, mails);
/// assert_eq!("all".parse::<PauseScope>()?, PauseScope::All);
/// # Ok::<(), sendoff_core::InvalidPause>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PauseScope {
    /// Everything: nothing of the outbox is delivered.
    All,
    /// Events of this type, whatever they are about and whoever handles them.
    #[non_exhaustive]
    EventType(String),
    /// What the handler, or another sink, of this name receives, on the nodes that have it.
    #[non_exhaustive]
    Handler(String),
}

/// Something that operators paused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    /// What.
    pub scope: PauseScope,
    /// Since when, by the database's clock.
    pub since: Timestamp,
    /// Who ordered it.
    pub actor: String,
    /// Why.
    pub reason: String,
}

/// Why something cannot be paused or resumed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPause {
    /// It is named by what cannot be the name of a type or a handler.
    #[error("{0}")]
    Name(#[source] InvalidEvent),
    /// It is none of the three forms.
    #[error("what is paused is `all`, `type:` and an event type, or `handler:` and its name")]
    Form,
}

impl PauseScope {
    /// Events of this type.
    pub fn event_type(name: impl Into<String>) -> Result<Self, InvalidPause> {
        checked("event type", name.into(), limits::EVENT_TYPE_CHARS).map(Self::EventType)
    }

    /// What a handler of this name receives.
    pub fn handler(name: impl Into<String>) -> Result<Self, InvalidPause> {
        checked("handler", name.into(), limits::HANDLER_CHARS).map(Self::Handler)
    }

    /// As it is stored: 0, 1 or 2, and the name.
    pub fn stored(&self) -> (u8, &str) {
        match self {
            Self::All => (0, ""),
            Self::EventType(name) => (1, name),
            Self::Handler(name) => (2, name),
        }
    }

    /// Of what was stored.
    pub fn of_stored(scope: i64, name: &str) -> Result<Self, InvalidPause> {
        match scope {
            0 => Ok(Self::All),
            1 => Self::event_type(name),
            2 => Self::handler(name),
            _ => Err(InvalidPause::Form),
        }
    }

    /// What it is one of: `all`, `type` or `handler`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::All => "all",
            Self::EventType(_) => "type",
            Self::Handler(_) => "handler",
        }
    }
}

fn checked(field: &'static str, name: String, limit: usize) -> Result<String, InvalidPause> {
    if name.is_empty() {
        return Err(InvalidPause::Name(InvalidEvent::Empty { field }));
    }
    check(field, &name, limit).map_err(InvalidPause::Name)?;
    Ok(name)
}

impl fmt::Display for PauseScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.stored() {
            (0, _) => f.write_str(self.kind()),
            (_, name) => write!(f, "{}:{name}", self.kind()),
        }
    }
}

impl FromStr for PauseScope {
    type Err = InvalidPause;

    fn from_str(text: &str) -> Result<Self, InvalidPause> {
        match text.split_once(':') {
            None if text == "all" => Ok(Self::All),
            Some(("type", name)) => Self::event_type(name),
            Some(("handler", name)) => Self::handler(name),
            _ => Err(InvalidPause::Form),
        }
    }
}

/// Everything that is paused at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paused {
    all: bool,
    types: BTreeSet<String>,
    handlers: BTreeSet<String>,
}

impl Paused {
    /// Everything, and nothing by name.
    pub const ALL: Self = Self { all: true, types: BTreeSet::new(), handlers: BTreeSet::new() };

    /// Whether nothing is paused.
    pub fn is_empty(&self) -> bool {
        !self.all && self.types.is_empty() && self.handlers.is_empty()
    }

    /// Whether nothing at all is delivered.
    pub const fn is_all(&self) -> bool {
        self.all
    }

    /// Whether events of this type are not delivered, whoever handles them.
    pub fn has_type(&self, event_type: &str) -> bool {
        self.all || self.types.contains(event_type)
    }

    /// Whether a handler of this name receives nothing.
    pub fn has_handler(&self, name: &str) -> bool {
        self.all || self.handlers.contains(name)
    }

    /// The event types that are paused by name.
    pub fn types(&self) -> impl ExactSizeIterator<Item = &str> {
        self.types.iter().map(String::as_str)
    }

    /// What is paused, one by one.
    pub fn scopes(&self) -> impl Iterator<Item = PauseScope> {
        let all = self.all.then_some(PauseScope::All);
        let types = self.types.iter().cloned().map(PauseScope::EventType);
        all.into_iter().chain(types).chain(self.handlers.iter().cloned().map(PauseScope::Handler))
    }
}

impl FromIterator<PauseScope> for Paused {
    fn from_iter<I: IntoIterator<Item = PauseScope>>(scopes: I) -> Self {
        let mut paused = Self::default();
        for scope in scopes {
            match scope {
                PauseScope::All => paused.all = true,
                PauseScope::EventType(name) => drop(paused.types.insert(name)),
                PauseScope::Handler(name) => drop(paused.handlers.insert(name)),
            }
        }
        paused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_its_text_and_its_stored_form_both_ways() {
        let scopes = [
            (PauseScope::All, "all"),
            (PauseScope::event_type("a:b").unwrap(), "type:a:b"),
            (PauseScope::handler("all").unwrap(), "handler:all"),
        ];
        for (scope, text) in scopes {
            assert_eq!(scope.to_string(), text);
            assert_eq!(text.parse::<PauseScope>().unwrap(), scope);
            let (number, name) = scope.stored();
            assert_eq!(PauseScope::of_stored(number.into(), name).unwrap(), scope);
        }
        for text in ["", "ALL", "all:", "order.placed", "topic:a"] {
            assert!(matches!(text.parse::<PauseScope>(), Err(InvalidPause::Form)), "{text}");
        }
        assert!(matches!(PauseScope::of_stored(3, "a"), Err(InvalidPause::Form)));
    }

    #[test]
    fn a_name_that_no_type_and_no_handler_can_have_is_refused() {
        let error = |scope: &str| scope.parse::<PauseScope>().unwrap_err().to_string();
        assert_eq!(error("type:"), "event type must not be empty");
        assert_eq!(error("handler:"), "handler must not be empty");
        assert_eq!(error("type:a\nb"), "event type must not contain '\\n'");
        let long = "n".repeat(limits::EVENT_TYPE_CHARS);
        assert!(PauseScope::event_type(long.clone()).is_ok());
        assert_eq!(
            PauseScope::event_type(long + "n").unwrap_err().to_string(),
            "event type has 129 characters; the limit is 128"
        );
    }

    #[test]
    fn a_pause_of_all_is_one_of_every_type_and_handler() {
        let scopes = ["type:a", "handler:b"].map(|scope| scope.parse::<PauseScope>().unwrap());
        let mut paused: Paused = scopes.iter().cloned().collect();
        assert_eq!(paused.scopes().collect::<Vec<_>>(), scopes);
        assert!(paused.has_type("a") && !paused.has_type("b"));
        assert!(paused.has_handler("b") && !paused.has_handler("a"));
        assert!(!paused.is_all() && !paused.is_empty() && Paused::default().is_empty());
        paused = [PauseScope::All].into_iter().collect();
        assert!(paused.has_type("x") && paused.has_handler("x") && !paused.is_empty());
        assert_eq!(paused, Paused::ALL);
    }
}
