//! Runs the command that handles one event, and makes a verdict of how it ended.

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use sendoff::event::Origin;
use sendoff::{Delivery, Failure, HandlerResult};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// The command is not there, or may not be run.
#[derive(Debug, thiserror::Error)]
#[error("the command {program:?} could not be started")]
pub(crate) struct NotStarted {
    program: OsString,
    source: io::Error,
}

/// The command said that it failed.
#[derive(Debug, thiserror::Error)]
#[error("the command ended with {0}")]
struct Ended(ExitStatus);

/// How long an event waits whose command could not be started.
const UNTIL_MENDED: Duration = Duration::from_secs(1);

/// Runs a command for an event: payload on standard input, the rest in its environment.
pub(crate) async fn run(
    program: &OsStr,
    arguments: &[OsString],
    delivery: &Delivery,
) -> HandlerResult {
    let mut command = Command::new(program);
    // A timeout or a signal drops the future, and must not leave the command behind.
    command.args(arguments).stdin(Stdio::piped()).kill_on_drop(true);
    describe(&mut command, delivery);
    let mut child = command.spawn().map_err(|source| {
        let error = NotStarted { program: program.to_owned(), source };
        Failure::unavailable(UNTIL_MENDED, error)
    })?;
    let stdin = child.stdin.take();
    let payload = delivery.payload().clone();
    let feed = async move {
        if let Some(mut stdin) = stdin {
            // A command that does not read it all has its reasons; its exit code counts.
            let _ = stdin.write_all(&payload).await;
            let _ = stdin.shutdown().await;
        }
    };
    let (status, ()) = tokio::join!(child.wait(), feed);
    let status = status?;
    if status.success() { Ok(()) } else { Err(Ended(status).into()) }
}

fn describe(command: &mut Command, delivery: &Delivery) {
    // Ours may hold a password. DATABASE_URL is the application's, and its command may well need it.
    command.env_remove("SENDOFF_DATABASE_URL");
    command
        .env("SENDOFF_EVENT_ID", delivery.id().to_string())
        .env("SENDOFF_EVENT_TYPE", delivery.event_type())
        .env("SENDOFF_ATTEMPT", delivery.attempt.to_string())
        .env("SENDOFF_CONTENT_TYPE", delivery.content_type())
        .env("SENDOFF_AGGREGATE_TYPE", delivery.aggregate_type())
        .env("SENDOFF_CREATED_AT", delivery.created_at.to_string())
        .env("SENDOFF_OCCURRED_AT", delivery.occurred_at().to_string());
    let done_at = match delivery.origin {
        Origin::Replay { done_at } => Some(done_at.to_string()),
        _ => None,
    };
    let optional = [
        ("SENDOFF_AGGREGATE_ID", delivery.aggregate_id().map(str::to_owned)),
        ("SENDOFF_TENANT_ID", delivery.tenant_id().map(str::to_owned)),
        ("SENDOFF_ORDERING_KEY", delivery.ordering_key().map(str::to_owned)),
        ("SENDOFF_DONE_AT", done_at),
        ("SENDOFF_HEADERS", delivery.headers().to_json()),
    ];
    for (name, value) in optional {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}
