//! A sink whose target wants no more events is paused, as an operator would pause it.

use sendoff_core::{AuditNote, Failure, InvalidNote, PauseScope, Sink, limits, report};
use tracing::error;

use super::worker::Worker;
use crate::sink::{error_text, shielded};
use crate::store::within;

impl Worker {
    /// Where the failure says so, pauses the handler of this name for every node, with the failure for the reason. Where that
    /// fails its events wait all the same, and the next of them asks for it again.
    pub(super) async fn disable(&self, sink: &dyn Sink, failure: Option<&Failure>) {
        let Some(failure) = failure.filter(|failure| failure.disables()) else { return };
        let name = shielded(|| sink.name().to_owned()).unwrap_or_default();
        if self.handover.pauses.now().has_handler(&name) {
            return;
        }
        let (scope, note) = match (PauseScope::handler(&*name), note(&name, failure)) {
            (Ok(scope), Ok(note)) => (scope, note),
            (Err(error), _) => {
                return error!(handler = name, error = report(&error), "cannot be paused");
            }
            (_, Err(error)) => {
                return error!(handler = name, error = report(&error), "cannot be paused");
            }
        };
        match within(self.limit, self.handover.store.pause(&scope, &note)).await {
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

/// By the handler, for the reason that its failure has, in one line.
fn note(name: &str, failure: &Failure) -> Result<AuditNote, InvalidNote> {
    let line: String =
        error_text(failure).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    AuditNote::new(format!("handler:{name}"), limits::truncate(&line, limits::REASON_CHARS))
}
