//! A sink whose target wants no more events is paused, as an operator would pause it.

use std::time::Duration;

use sendoff_core::{
    AuditNote, Failure, FailureClass, InvalidNote, PauseScope, Sink, limits, report,
};
use tracing::error;

use super::handlers::name_of;
use crate::sink::error_text;
use crate::source::Pauses;
use crate::store::{PauseStore, within};

/// How long the event waits by which a handler was paused. By then every node has heard of that; and once the handler is
/// resumed nothing is left to wait for.
const HEARD_WITHIN: Duration = Duration::from_secs(1);

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
        Some(Self { name: name_of(sink), reason: reason(&error_text(failure)) })
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
            (Err(error), _) => return cannot(pauses, &name, &error),
            (_, Err(error)) => return cannot(pauses, &name, &error),
        };
        let paused = within(limit, store.pause(&scope, &note)).await;
        if paused.is_ok() {
            pauses.was_granted(&name);
        }
        match paused {
            Ok(true) => error!(
                %scope,
                reason = note.reason(),
                "its target wants no more events: paused, until somebody resumes it"
            ),
            // Somebody else was first.
            Ok(false) => {}
            Err(error) => {
                let Some(times) = pauses.was_refused(&name) else { return };
                error!(
                    %scope,
                    error = report(&error),
                    times,
                    "its target wants no more events, and it could not be paused"
                );
            }
        }
    }
}

/// Its name, or its reason, is none of a pause.
fn cannot(pauses: &Pauses, name: &str, error: &(dyn std::error::Error + 'static)) {
    let Some(times) = pauses.was_refused(name) else { return };
    error!(handler = name, error = report(error), times, "cannot be paused");
}

/// What a failure of this class is about. A handler that is paused because of it waits for whoever resumes it, and flows
/// at once then. One that could not be paused is left alone for as long as the failure says.
pub(crate) fn class_of(
    failure: &Failure,
    class: FailureClass,
    sink: &dyn Sink,
    pauses: &Pauses,
) -> FailureClass {
    match class {
        FailureClass::Unavailable { .. }
            if failure.disables() && !pauses.is_refused(&name_of(sink)) =>
        {
            FailureClass::Unavailable { delay: HEARD_WITHIN }
        }
        class => class,
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
