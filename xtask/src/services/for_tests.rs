//! The servers the tests need, and what it means when one cannot be had.

use std::env;
use std::path::Path;

use super::error::Error;
use super::keeper::Run;
use super::start::up;
use super::{Durability, Kind, programs};
use crate::run::say;

/// What tests are given. Its servers stop when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    exports: Vec<(String, String)>,
    _run: Option<Run>,
}

impl Servers {
    /// Starts what the environment does not name already.
    ///
    /// A server that cannot be had is an error in CI. Elsewhere it is a warning: the tests that
    /// need it skip themselves.
    pub(crate) fn start(folder: &Path, mysql: bool) -> Result<Self, Error> {
        let given = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
        let wanted = if mysql { &Kind::ALL[..] } else { &Kind::USUAL[..] };
        let kinds = missing(wanted, given);
        if kinds.is_empty() {
            return Ok(Self::default());
        }
        let ci = is_ci(env::var("CI").ok().as_deref());
        let started = Run::begin(&super::cli::runs(folder)).and_then(|run| {
            let outcomes = up(&run.state, &kinds, Durability::Fast)?;
            Ok((run, outcomes))
        });
        let (run, outcomes) = match started {
            Ok((run, outcomes)) => (Some(run), outcomes),
            Err(error) => (None, vec![Err(error)]),
        };
        let mut exports = Vec::new();
        let mut errors = programs::install();
        for outcome in outcomes {
            match outcome {
                Ok(record) => exports.extend(record.exports),
                Err(error) => errors.push(error),
            }
        }
        if ci {
            Error::all(errors)?;
        } else {
            errors.iter().for_each(warn);
        }
        Ok(Self { exports, _run: run })
    }

    /// One server, for something that cannot do without.
    pub(crate) fn only(folder: &Path, kind: Kind) -> Result<Self, Error> {
        let run = Run::begin(&super::cli::runs(folder))?;
        let mut exports = Vec::new();
        for outcome in up(&run.state, &[kind], Durability::Fast)? {
            exports.extend(outcome?.exports);
        }
        Ok(Self { exports, _run: Some(run) })
    }

    /// Variables for the tests.
    pub(crate) fn exports(&self) -> &[(String, String)] {
        &self.exports
    }
}

fn warn(error: &Error) {
    say(format_args!("WARNING: {error}"));
    say(format_args!("WARNING: the tests that need this server WILL BE SKIPPED"));
}

/// Those whose address is not given. With one given, its server is somebody else's.
fn missing(kinds: &[Kind], given: impl Fn(&str) -> bool) -> Vec<Kind> {
    let is_given = |kind: &Kind| kind.service().variables().first().is_some_and(|name| given(name));
    kinds.iter().copied().filter(|kind| !is_given(kind)).collect()
}

fn is_ci(variable: Option<&str>) -> bool {
    !matches!(variable, None | Some("" | "0" | "false"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_given_is_not_started() {
        let wanted = [Kind::Postgres, Kind::Postgres18, Kind::Nats];
        let kinds = |given: &[&str]| missing(&wanted, |name| given.contains(&name));
        assert_eq!(kinds(&[]), wanted);
        assert_eq!(kinds(&["SENDOFF_POSTGRES_URL"]), [Kind::Postgres18, Kind::Nats]);
        assert_eq!(kinds(&["SENDOFF_POSTGRES18_URL", "SENDOFF_NATS_URL"]), [Kind::Postgres]);
        let all = ["SENDOFF_POSTGRES_URL", "SENDOFF_POSTGRES18_URL", "SENDOFF_NATS_URL"];
        assert_eq!(kinds(&all), []);
        // A program is there to be started.
        assert_eq!(kinds(&["SENDOFF_NATS_SERVER"]), wanted);
    }

    #[test]
    fn ci_is_a_variable_that_is_not_off() {
        assert!(is_ci(Some("true")) && is_ci(Some("1")));
        assert!(!is_ci(None) && !is_ci(Some("")) && !is_ci(Some("false")) && !is_ci(Some("0")));
    }
}
