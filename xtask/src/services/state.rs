//! What runs, remembered in a folder: one file for each server.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::error::Error;
use super::home;
use super::process::{Identity, Signal};
use super::{Durability, Service};

const EXTENSION: &str = "server";

/// Everything needed to use and to stop a server, also by a later version of this program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) name: String,
    pub(super) home: PathBuf,
    pub(super) stop: Signal,
    pub(super) durability: Durability,
    /// Absent until the process runs. The home is remembered first, so that nothing is left
    /// behind by whoever is killed in between.
    pub(super) process: Option<Identity>,
    /// Empty until the server is ready.
    pub(super) exports: Vec<(String, String)>,
}

impl Record {
    pub(super) fn planned(service: &dyn Service, home: &Path, durability: Durability) -> Self {
        Self {
            name: service.name().to_owned(),
            home: home.to_owned(),
            stop: service.stop_signal(),
            durability,
            process: None,
            exports: Vec::new(),
        }
    }

    pub(super) fn is_up(&self) -> bool {
        !self.exports.is_empty() && self.process.is_some_and(Identity::is_alive)
    }

    fn to_text(&self) -> String {
        let mut lines = vec![
            format!("home {}", self.home.display()),
            format!("stop {}", self.stop.name()),
            format!("durable {}", self.durability == Durability::Durable),
        ];
        if let Some(Identity { pid, started }) = self.process {
            lines.push(format!("process {pid} {started}"));
        }
        lines.extend(self.exports.iter().map(|(name, value)| format!("export {name} {value}")));
        lines.join("\n") + "\n"
    }

    /// Nothing, unless every line is as we write it.
    fn parse(name: &str, text: &str) -> Option<Self> {
        let (mut home, mut stop, mut durable, mut process) = (None, None, None, None);
        let mut exports = Vec::new();
        for line in text.lines() {
            let (key, value) = line.split_once(' ')?;
            match key {
                "home" => home = Some(PathBuf::from(value)).filter(|home| home::is_home(home)),
                "stop" => stop = Some(value.parse().ok()?),
                "durable" => durable = Some(value.parse().ok()?),
                "process" => {
                    let (pid, started) = value.split_once(' ')?;
                    process = Some(Identity {
                        // Zero and one would stand for groups, or for everybody.
                        pid: pid.parse().ok().filter(|pid| *pid > 1)?,
                        started: started.parse().ok()?,
                    });
                }
                "export" => {
                    let (name, value) = value.split_once(' ')?;
                    exports.push((name.to_owned(), value.to_owned()));
                }
                _ => return None,
            }
        }
        Some(Self {
            name: name.to_owned(),
            home: home?,
            stop: stop?,
            durability: Durability::when(durable?),
            process,
            exports,
        })
    }
}

/// A folder of records.
#[derive(Debug, Clone)]
pub(super) struct State {
    folder: PathBuf,
}

impl State {
    pub(super) fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes others who would change this state wait while the returned file is open. The system
    /// opens the lock of a process that was killed.
    pub(super) fn lock(&self) -> Result<File, Error> {
        lock(&self.folder.join("lock"))
    }

    pub(super) fn records(&self) -> Result<Vec<Record>, Error> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(self.trouble())?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let path = entry.map_err(self.trouble())?.path();
            if path.extension().is_some_and(|extension| extension == EXTENSION) {
                names.extend(path.file_stem().and_then(|name| name.to_str()).map(str::to_owned));
            }
        }
        names.sort_unstable();
        names.iter().filter_map(|name| self.read(name).transpose()).collect()
    }

    pub(super) fn read(&self, name: &str) -> Result<Option<Record>, Error> {
        let path = self.file(name);
        match fs::read_to_string(&path) {
            Ok(text) => Record::parse(name, &text).map(Some).ok_or(Error::Unreadable { path }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.trouble()(error)),
        }
    }

    /// Whole or not at all, for readers that come at the same time or after a crash.
    pub(super) fn write(&self, record: &Record) -> Result<(), Error> {
        let path = self.file(&record.name);
        let draft = path.with_extension("draft");
        fs::write(&draft, record.to_text())
            .and_then(|()| fs::rename(&draft, &path))
            .map_err(self.trouble())
    }

    pub(super) fn forget(&self, name: &str) -> Result<(), Error> {
        match fs::remove_file(self.file(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.trouble()(error)),
            _ => Ok(()),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name).with_extension(EXTENSION)
    }

    fn trouble(&self) -> impl FnOnce(io::Error) -> Error {
        Error::io(self.folder.display().to_string())
    }
}

/// An exclusive lock on a file that is made where it is missing, with its folder.
pub(super) fn lock(path: &Path) -> Result<File, Error> {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| File::options().create(true).append(true).open(path))
        .and_then(|file| file.lock().map(|()| file))
        .map_err(Error::io(path.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            name: "postgres".into(),
            home: "/tmp/sendoff-postgres-1-0".into(),
            stop: Signal::Quit,
            durability: Durability::Durable,
            process: Some(Identity { pid: 4711, started: 815 }),
            exports: vec![("SENDOFF_POSTGRES_URL".into(), "postgres://127.0.0.1:5/a b".into())],
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let started = record();
        let planned = Record { process: None, exports: vec![], ..record() };
        for record in [started, planned] {
            assert_eq!(Record::parse("postgres", &record.to_text()), Some(record));
        }
    }

    #[test]
    fn a_record_that_is_not_ours_is_refused() {
        let good = record().to_text();
        for (from, to) in [
            ("home /tmp/sendoff-postgres-1-0", "home /"),
            ("home /tmp/sendoff-postgres-1-0\n", ""),
            ("4711 815", "4711"),
            ("4711", "1"),
            ("4711", "-4711"),
            ("QUIT", "WINCH"),
            ("durable true", "durable perhaps"),
            ("durable", "endurable"),
        ] {
            let bad = good.replace(from, to);
            assert_ne!(bad, good, "{from}");
            assert_eq!(Record::parse("postgres", &bad), None, "{bad}");
        }
        assert_eq!(Record::parse("postgres", ""), None);
    }

    #[test]
    fn a_record_whose_process_is_gone_is_not_up() {
        let own = Identity::of(std::process::id()).unwrap();
        let up = Record { process: Some(own), ..record() };
        assert!(up.is_up());
        let before = Identity { started: own.started - 1, ..own };
        assert!(!Record { process: Some(before), ..record() }.is_up());
        assert!(!Record { process: None, ..record() }.is_up());
        assert!(!Record { exports: vec![], ..up }.is_up());
    }

    #[test]
    fn a_folder_that_was_never_made_remembers_nothing() {
        let state = State::at("/nonexistent/sendoff".into());
        assert_eq!(state.records().unwrap(), []);
        assert_eq!(state.read("postgres").unwrap(), None);
    }
}
