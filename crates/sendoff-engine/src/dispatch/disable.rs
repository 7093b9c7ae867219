//! A sink whose target wants no more events is paused, as an operator would pause it.

use std::time::Duration;

use sendoff_core::{AuditNote, Failure, InvalidNote, PauseScope, Sink, limits, report};
use tracing::error;

use crate::sink::{error_text, shielded};
use crate::source::Pauses;
use crate::store::{PauseStore, within};

/// A handler that said that its target wants no more.
#[derive(Debug)]
pub(crate) struct Disabled {
    name: String,
    reason: String,
}

impl Disabled {
    /// Where the failure says so.
    pub(crate) fn by(failure: Option<&Failure>, sink: &dyn Sink) -> Option<Self> {
        let failure = failure.filter(|failure| failure.disables())?;
        let name = shielded(|| sink.name().to_owned()).unwrap_or_default();
        Some(Self { name, reason: reason(&error_text(failure)) })
    }

    /// Pauses the handler of this name for every node, with the failure for the reason. Where that fails its events
    /// wait all the same, and the next of them asks for it again.
    pub(crate) async fn pause<S>(self, store: &S, pauses: &Pauses, limit: Duration)
    where
        S: PauseStore + ?Sized,
    {
        let Self { name, reason } = self;
        if pauses.now().has_handler(&name) {
            return;
        }
        let (scope, note) = match (PauseScope::handler(&*name), note(&name, &reason)) {
            (Ok(scope), Ok(note)) => (scope, note),
            (Err(error), _) => {
                return error!(handler = name, error = report(&error), "cannot be paused");
            }
            (_, Err(error)) => {
                return error!(handler = name, error = report(&error), "cannot be paused");
            }
        };
        match within(limit, store.pause(&scope, &note)).await {
            Ok(true) => error!(
                %scope,
                reason = note.reason(),
                "its target wants no more events: paused, until somebody resumes it"
            ),
            // Somebody else was first.
            Ok(false) => {}
            Err(error) => error!(
                %scope,
                error = report(&error),
                "its target wants no more events, and it could not be paused"
            ),
        }
    }
}

/// What an error says, in one line, which is never blank.
fn reason(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match line.trim() {
        "" => "its target wants no more events".to_owned(),
        said => said.to_owned(),
    }
}

/// By the handler, for the reason that its failure has.
fn note(name: &str, reason: &str) -> Result<AuditNote, InvalidNote> {
    AuditNote::new(format!("handler:{name}"), limits::truncate(reason, limits::REASON_CHARS))
}
