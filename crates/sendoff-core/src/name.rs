//! Names of event types and aggregate types, as text or as enums.

use crate::invalid::InvalidEvent;

/// The aggregate type of an event that names none.
pub const GLOBAL_AGGREGATE: &str = "__GLOBAL__";

/// What kind of event it is: an enum with `#[derive(EventType)]`, or any string.
///
/// The name is what is stored and what handlers are found by, so an event written with an enum
/// reaches a handler registered with that enum, or with the same text.
pub trait EventType {
    /// The stored name.
    fn name(&self) -> &str;
}

/// What kind of thing the event is about: an enum with `#[derive(AggregateType)]`, or any string.
pub trait AggregateType {
    /// The stored name.
    fn name(&self) -> &str;
}

macro_rules! named_by_text {
    ($($text:ty),*) => {$(
        impl EventType for $text {
            fn name(&self) -> &str {
                self
            }
        }
        impl AggregateType for $text {
            fn name(&self) -> &str {
                self
            }
        }
    )*};
}
named_by_text!(str, String);

impl<T: EventType + ?Sized> EventType for &T {
    fn name(&self) -> &str {
        (**self).name()
    }
}

impl<T: AggregateType + ?Sized> AggregateType for &T {
    fn name(&self) -> &str {
        (**self).name()
    }
}

/// Length and characters of a text field, in that order of report.
pub(crate) fn check(field: &'static str, text: &str, limit: usize) -> Result<(), InvalidEvent> {
    let chars = text.chars().count();
    if chars > limit {
        return Err(InvalidEvent::TooLong { field, chars, limit });
    }
    check_characters(field, text)
}

/// NUL is refused by PostgreSQL; CR and LF would end a header line in most protocols.
pub(crate) fn check_characters(field: &'static str, text: &str) -> Result<(), InvalidEvent> {
    match text.chars().find(|c| matches!(c, '\0' | '\r' | '\n')) {
        Some(character) => Err(InvalidEvent::Character { field, character }),
        None => Ok(()),
    }
}
