//! What operators do to an outbox, by whom and why.

use std::fmt;
use std::str::FromStr;

use crate::invalid::InvalidEvent;
use crate::{limits, name};

/// Who acts, and why. Every act of an operator carries one, and the audit keeps it.
///
/// ```
/// use sendoff_core::AuditNote;
///
/// let note = AuditNote::new("ada", "the mail server takes our certificate again")?;
/// assert_eq!(note.actor(), "ada");
/// assert!(AuditNote::new("ada", "  ").is_err());
/// # Ok::<(), sendoff_core::InvalidNote>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditNote {
    actor: String,
    reason: String,
}

impl AuditNote {
    /// Checks both: neither may be blank, longer than it may be, or of several lines.
    pub fn new(actor: impl Into<String>, reason: impl Into<String>) -> Result<Self, InvalidNote> {
        let (actor, reason) = (actor.into(), reason.into());
        check("actor", &actor, limits::ACTOR_CHARS)?;
        check("reason", &reason, limits::REASON_CHARS)?;
        Ok(Self { actor, reason })
    }

    /// Who acts.
    pub fn actor(&self) -> &str {
        &self.actor
    }

    /// Why.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

fn check(field: &'static str, text: &str, limit: usize) -> Result<(), InvalidNote> {
    if text.trim().is_empty() {
        return Err(InvalidEvent::Empty { field }.into());
    }
    Ok(name::check(field, text, limit)?)
}

/// Why an act was refused before anything was done: its actor or its reason is empty, too long, or has a
/// character that no line of text has.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct InvalidNote(#[from] InvalidEvent);

/// What an operator did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AuditAction {
    /// A dead letter became NEW again.
    Requeue,
    /// A dead letter was deleted.
    Discard,
    /// Something is not delivered for now.
    Pause,
    /// It is delivered again: what was paused, or, of the subject `key:…`, a key that was parked.
    Resume,
}

impl AuditAction {
    /// The stored word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Requeue => "requeue",
            Self::Discard => "discard",
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }
}

impl fmt::Display for AuditAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for AuditAction {
    type Err = UnknownAction;

    fn from_str(text: &str) -> Result<Self, UnknownAction> {
        [Self::Requeue, Self::Discard, Self::Pause, Self::Resume]
            .into_iter()
            .find(|action| action.name() == text)
            .ok_or(UnknownAction)
    }
}

/// A stored action that this version does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the action is not one of requeue, discard, pause, resume")]
pub struct UnknownAction;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actor_and_reason_are_required_bounded_and_one_line_each() {
        let long = |chars| "ä".repeat(chars);
        assert!(AuditNote::new(long(limits::ACTOR_CHARS), long(limits::REASON_CHARS)).is_ok());
        let refused =
            |actor: &str, reason: &str| AuditNote::new(actor, reason).unwrap_err().to_string();
        assert_eq!(refused("", "r"), "actor must not be empty");
        assert_eq!(refused("a", " \t"), "reason must not be empty");
        assert_eq!(
            refused(&long(limits::ACTOR_CHARS + 1), "r"),
            format!(
                "actor has {} characters; the limit is {}",
                limits::ACTOR_CHARS + 1,
                limits::ACTOR_CHARS
            )
        );
        assert!(refused("a", &long(limits::REASON_CHARS + 1)).starts_with("reason has "));
        assert_eq!(refused("a", "b\nc"), "reason must not contain '\\n'");
        assert_eq!(refused("a\0", "r"), "actor must not contain '\\0'");
    }

    #[test]
    fn actions_are_read_as_they_are_written() {
        for action in
            [AuditAction::Requeue, AuditAction::Discard, AuditAction::Pause, AuditAction::Resume]
        {
            assert_eq!(action.to_string().parse(), Ok(action));
        }
        assert_eq!("delete".parse::<AuditAction>(), Err(UnknownAction));
    }
}
