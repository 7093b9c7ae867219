//! Bringing servers up and taking them down.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;
use std::time::Instant;

use super::error::{Error, tail};
use super::home::{self, Home};
use super::process::{self, Identity};
use super::state::{Record, State};
use super::{Durability, Kind, Service, limits, port};
use crate::run::{say, took};

/// Brings servers up side by side. Those that run already stay as they are.
pub(super) fn up(
    state: &State,
    kinds: &[Kind],
    durability: Durability,
) -> Result<Vec<Result<Record, Error>>, Error> {
    let _lock = state.lock()?;
    let kinds = BTreeSet::from_iter(kinds);
    let outcomes = thread::scope(|scope| {
        let threads: Vec<_> = kinds
            .into_iter()
            .map(|kind| scope.spawn(|| up_one(state, kind.service(), durability)))
            .collect();
        threads.into_iter().map(|thread| thread.join()).collect::<Result<Vec<_>, _>>()
    });
    // A panic in a thread is ours, and goes on.
    Ok(outcomes.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}

/// Stops the servers with these names, or all, and removes what they left.
pub(super) fn down(state: &State, names: Option<&[&str]>) -> Result<(), Error> {
    if !state.folder().exists() {
        return Ok(());
    }
    let _lock = state.lock()?;
    let errors = state
        .records()?
        .iter()
        .filter(|record| names.is_none_or(|names| names.contains(&record.name.as_str())))
        .filter_map(|record| down_one(state, record).err())
        .collect();
    Error::all(errors)
}

fn up_one(state: &State, service: &dyn Service, durability: Durability) -> Result<Record, Error> {
    let name = service.name();
    match state.read(name)? {
        Some(record) if record.is_up() && record.durability == durability => return Ok(record),
        Some(record) if record.is_up() => {
            return Err(Error::OtherDurability { name: name.to_owned() });
        }
        Some(left_behind) => down_one(state, &left_behind)?,
        None => {}
    }
    if Identity::of(std::process::id()).is_err() {
        let advice = format!("processes are told apart by /proc; give {}", service.variables()[0]);
        return Err(Error::Unavailable { what: "a private server", advice, cause: None });
    }
    let programs = service.install()?;
    let started = Instant::now();
    let home = Home::make(name, service.account(), programs, durability)
        .map_err(Error::io(format!("{name}: no folder")))?;
    let planned = Record::planned(service, &home.folder, durability);
    state.write(&planned)?;
    match start(state, service, &home, planned.clone()) {
        Ok(record) => {
            say(format_args!("{name}: ready in {}", took(started)));
            Ok(record)
        }
        Err(error) => {
            // The first error says more than one from cleaning up after it.
            let _ = down_one(state, &state.read(name)?.unwrap_or(planned));
            Err(error)
        }
    }
}

fn start(
    state: &State,
    service: &dyn Service,
    home: &Home,
    mut record: Record,
) -> Result<Record, Error> {
    let name = service.name();
    service.prepare(home)?;
    let mut attempt = 1;
    loop {
        let port = port::free().map_err(Error::io("no free port"))?;
        let mut command = service.command(home, port, record.durability)?;
        // A group of its own: Ctrl-C is for the tests, who still need the server to end well.
        let mut child = process::logged(&mut command, &home.log())
            .and_then(|command: &mut Command| command.process_group(0).spawn())
            .map_err(Error::io(format!("{name} not started")))?;
        record.process = Some(Identity::of(child.id()).map_err(Error::io(name))?);
        state.write(&record)?;

        let mut ended = None;
        let ready = process::until(limits::READY, || {
            ended = child.try_wait().ok().flatten();
            ended.is_some() || service.is_ready(home, port)
        });
        match ended {
            // Most likely somebody took the port; whatever it was, another try is cheap.
            Some(_) if attempt < limits::START_ATTEMPTS => attempt += 1,
            Some(status) => {
                let log = tail(&home.log());
                return Err(Error::Ended { what: name.to_owned(), status, log });
            }
            None if ready => {
                let names = service.variables().into_iter().map(str::to_owned);
                record.exports = names.zip(service.values(home.programs(), port)).collect();
                state.write(&record)?;
                return Ok(record);
            }
            None => {
                let log = tail(&home.log());
                return Err(Error::TooSlow { what: name.to_owned(), limit: limits::READY, log });
            }
        }
    }
}

/// The record goes last: whoever is killed before leaves it for the next to try again.
fn down_one(state: &State, record: &Record) -> Result<(), Error> {
    if let Some(process) = record.process {
        process.stop(&record.name, record.stop)?;
    }
    home::remove(&record.home).map_err(Error::io(record.home.display().to_string()))?;
    state.forget(&record.name)
}

/// A shell line for each variable of the servers that are up.
pub(super) fn export_lines(records: &[Record]) -> String {
    let exports = records.iter().filter(|record| record.is_up()).flat_map(|record| &record.exports);
    exports.map(|(name, value)| format!("export {name}={}\n", quoted(value))).collect()
}

fn quoted(value: &str) -> String {
    format!("'{}'", value.replace('\'', r"'\''"))
}

/// A line for each server that is remembered.
pub(super) fn status_line(record: &Record) -> String {
    let Record { name, exports, .. } = record;
    if !record.is_up() {
        return format!("{name} down, left behind in {}\n", record.home.display());
    }
    let mode = match record.durability {
        Durability::Fast => "fast",
        Durability::Durable => "durable",
    };
    let pid = record.process.map_or(0, |process| process.pid);
    let values: Vec<_> = exports.iter().map(|(_, value)| value.as_str()).collect();
    format!("{name} up, {mode}, pid {pid}, {}\n", values.join(" "))
}

#[cfg(test)]
mod tests {
    use super::super::process::Signal;
    use super::*;

    fn running() -> Record {
        Record {
            name: "postgres".into(),
            home: "/tmp/sendoff-postgres-1-0".into(),
            stop: Signal::Quit,
            durability: Durability::Fast,
            process: Some(Identity::of(std::process::id()).unwrap()),
            exports: vec![("A_URL".into(), "a://it's".into()), ("B".into(), "1 2".into())],
        }
    }

    #[test]
    fn exports_are_lines_a_shell_can_read() {
        assert_eq!(export_lines(&[running()]), "export A_URL='a://it'\\''s'\nexport B='1 2'\n");
    }

    #[test]
    fn a_server_that_is_down_exports_nothing() {
        let gone = Record { process: None, ..running() };
        assert_eq!(export_lines(std::slice::from_ref(&gone)), "");
        assert_eq!(status_line(&gone), "postgres down, left behind in /tmp/sendoff-postgres-1-0\n");
    }

    #[test]
    fn a_status_names_the_mode_and_the_process() {
        let line = status_line(&running());
        let pid = std::process::id();
        assert_eq!(line, format!("postgres up, fast, pid {pid}, a://it's 1 2\n"));
    }
}
