//! What a claim or a lock leaves out.

use super::EventKind;

/// Rows that a statement leaves as they are, and does not even lock: they may be many.
#[derive(Debug, Clone, Copy, Default)]
pub struct Except<'a> {
    /// Those of these kinds.
    pub kinds: &'a [EventKind<'a>],
    /// Those of these event types, whatever they are about.
    pub types: &'a [&'a str],
}

impl<'a> Except<'a> {
    /// Nothing is left out.
    pub const NOTHING: Self = Self { kinds: &[], types: &[] };

    /// Events of these kinds.
    pub const fn kinds(kinds: &'a [EventKind<'a>]) -> Self {
        Self { kinds, ..Self::NOTHING }
    }

    /// Events of these types.
    pub const fn types(types: &'a [&'a str]) -> Self {
        Self { types, ..Self::NOTHING }
    }

    /// Whether nothing is left out.
    pub const fn is_empty(&self) -> bool {
        self.kinds.is_empty() && self.types.is_empty()
    }

    /// Whether rows of this kind are.
    pub fn has(&self, kind: EventKind<'_>) -> bool {
        self.kinds.contains(&kind) || self.types.contains(&kind.event_type)
    }
}
