//! The stream, as the sink finds it.

use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy, PersistenceMode, StorageType};
use tracing::warn;

use super::options::{NatsOptions, NewStream};
use super::subject::{covers, may_cover};
use crate::class::Misconfigured;
use crate::template::Template;

/// What a sink has to know about its stream.
#[derive(Debug)]
pub(super) struct Known {
    subjects: Vec<String>,
    /// Whether it refuses what is new on a subject that is full, while others are not.
    pub(super) is_full_by_subject: bool,
}

impl Known {
    /// Whether its subjects cover this one, as far as is known.
    pub(super) fn covers(&self, subject: &str) -> bool {
        self.subjects.iter().any(|pattern| covers(pattern, subject))
    }
}

/// What would not be wrong for every stream, and is for a sink that promises something.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Doubt {
    /// What is delivered again later is kept twice.
    ShortWindow(Duration),
    /// What is done does not outlive the server.
    Memory,
    /// What is done may not outlive the server.
    WrittenLater,
}

/// Whether events can be delivered into this stream, and what is to be said about it.
pub(super) fn examine(
    config: &Config,
    options: &NatsOptions,
    subject: &Template,
) -> Result<(Known, Vec<Doubt>), Misconfigured> {
    let wrong = |reason| Err(Misconfigured::new("nats.stream", reason));
    match config {
        Config { sealed: true, .. } => return wrong("is sealed: it takes no messages"),
        Config { no_ack: true, .. } => return wrong("does not acknowledge messages (no_ack)"),
        Config { mirror: Some(_), .. } => return wrong("is a mirror: it takes no messages"),
        _ => {}
    }
    let is_covered = match subject.constant() {
        Some(subject) => config.subjects.iter().any(|pattern| covers(pattern, &subject)),
        None => config.subjects.iter().any(|pattern| may_cover(pattern, subject.prefix())),
    };
    if !is_covered {
        let reason =
            format_args!("is no subject of the stream, which has {}", config.subjects.join(", "));
        return Err(Misconfigured::new("nats.subject", reason));
    }
    let mut doubts = Vec::new();
    if config.duplicate_window < options.duplicate_window {
        doubts.push(Doubt::ShortWindow(config.duplicate_window));
    }
    if config.storage == StorageType::Memory {
        doubts.push(Doubt::Memory);
    }
    if config.persist_mode == Some(PersistenceMode::Async) {
        doubts.push(Doubt::WrittenLater);
    }
    let known = Known {
        subjects: config.subjects.clone(),
        is_full_by_subject: config.discard_new_per_subject,
    };
    Ok((known, doubts))
}

/// Says them in the log.
pub(super) fn say(doubts: &[Doubt], options: &NatsOptions) {
    let NatsOptions { name: sink, stream, duplicate_window: wanted, .. } = options;
    for doubt in doubts {
        match doubt {
            Doubt::ShortWindow(window) => warn!(
                sink,
                stream,
                ?window,
                ?wanted,
                "the stream's duplicate window is short: an event that is delivered again after it is there twice"
            ),
            Doubt::Memory => {
                warn!(
                    sink,
                    stream, "the stream is in memory: what is done is lost with its server"
                );
            }
            Doubt::WrittenLater => {
                warn!(sink, stream, "the stream acknowledges messages before they are written");
            }
        }
    }
}

/// The stream to be made.
pub(super) fn new(options: &NatsOptions, new: &NewStream) -> Config {
    let most = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
    Config {
        name: options.stream.clone(),
        subjects: new.subjects.clone(),
        num_replicas: new.replicas,
        max_bytes: new.max_bytes.map_or(-1, most),
        max_age: new.max_age.unwrap_or_default(),
        // Longer than its messages live it cannot be.
        duplicate_window: options.duplicate_window.min(new.max_age.unwrap_or(Duration::MAX)),
        storage: StorageType::File,
        discard: DiscardPolicy::New,
        ..Config::default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::subject::SUBJECT;
    use super::*;

    fn config() -> Config {
        Config {
            subjects: vec!["a.>".to_owned(), "b".to_owned()],
            duplicate_window: Duration::from_secs(120),
            ..Config::default()
        }
    }

    fn of(config: &Config, subject: &str) -> Result<Vec<Doubt>, String> {
        let subject = Template::parse(subject, &SUBJECT).unwrap();
        let examined = examine(config, &NatsOptions::default(), &subject);
        examined.map(|(_, doubts)| doubts).map_err(|wrong| wrong.path().to_owned())
    }

    #[test]
    fn a_stream_that_takes_nothing_is_no_target() {
        for config in [
            Config { sealed: true, ..config() },
            Config { no_ack: true, ..config() },
            Config { mirror: Some(Default::default()), ..config() },
        ] {
            assert_eq!(of(&config, "a.b"), Err("nats.stream".to_owned()));
        }
    }

    #[test]
    fn a_subject_that_is_never_covered_is_found_at_the_start() {
        for subject in ["a.b", "b", "a.{type}", "{type}", "a{type}"] {
            assert_eq!(of(&config(), subject), Ok(Vec::new()), "{subject}");
        }
        for subject in ["c", "a", "c.{type}", "b.{type}"] {
            assert_eq!(of(&config(), subject), Err("nats.subject".to_owned()), "{subject}");
        }
    }

    #[test]
    fn what_weakens_the_promise_is_said() {
        let short = Duration::from_secs(119);
        let weak = Config {
            duplicate_window: short,
            storage: StorageType::Memory,
            persist_mode: Some(PersistenceMode::Async),
            ..config()
        };
        let doubts = vec![Doubt::ShortWindow(short), Doubt::Memory, Doubt::WrittenLater];
        assert_eq!(of(&weak, "b"), Ok(doubts));
    }
}
