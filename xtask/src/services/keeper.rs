//! Servers for one run, which end with it, however it ends.
//!
//! The run holds a pipe to a second process, the keeper, and never writes to it. When the run is
//! over, has failed, was interrupted or was killed, the system closes the pipe, and the keeper
//! stops the servers. No signal has to be caught for that. Should the keeper be killed as well,
//! the next run finds the folder without a holder, and cleans up.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::error::Error;
use super::limits;
use super::process::{self, Identity};
use super::start::down;
use super::state::{self, State};
use crate::run::say;

/// Held, shared, by a run and by its keeper.
const HELD: &str = "held";

/// The servers of this run. Dropping it stops them.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) state: State,
    keeper: Child,
    _held: File,
}

impl Run {
    /// Makes a state of its own among those of other runs, and removes those without a holder.
    pub(super) fn begin(runs: &Path) -> Result<Self, Error> {
        // So that no folder is taken for abandoned before its holder holds it.
        let _lock = state::lock(&runs.join("lock"))?;
        // What another run left is no reason not to run.
        if let Err(error) = sweep_locked(runs) {
            say(format_args!("warning: servers left behind: {error}"));
        }
        let own = Identity::of(std::process::id()).map_err(Error::io("/proc"))?;
        let folder = runs.join(format!("{}-{}", own.pid, own.started));
        let trouble = || Error::io(folder.display().to_string());
        fs::create_dir_all(&folder).map_err(trouble())?;
        let held = hold(&folder).map_err(trouble())?;
        // This very program, even if a build just put another in its place.
        let keeper = Command::new("/proc/self/exe")
            .arg0("sendoff-keeper")
            .args(["services", "keep", "--dir"])
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // A group of its own, or Ctrl-C would end it with the run.
            .process_group(0)
            .spawn()
            .map_err(Error::io("keeper not started"))?;
        Ok(Self { state: State::at(folder), keeper, _held: held })
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let ended = process::wait(&mut self.keeper, limits::KEEPER);
        let kept = matches!(ended, Ok(Some(status)) if status.success());
        // Nothing to do unless the keeper was killed.
        if !kept && let Err(error) = remove(self.state.folder()) {
            say(format_args!("warning: servers left behind: {error}"));
        }
    }
}

/// The keeper's whole life.
pub(super) fn keep(folder: &Path) -> Result<(), Error> {
    let trouble = || Error::io(folder.display().to_string());
    let _held = hold(folder).map_err(trouble())?;
    // Nothing comes; it ends when the run does.
    io::stdin().read_to_end(&mut Vec::new()).map_err(trouble())?;
    remove(folder)
}

/// Stops the servers of runs that nobody holds.
pub(super) fn sweep(runs: &Path) -> Result<(), Error> {
    if !runs.exists() {
        return Ok(());
    }
    let _lock = state::lock(&runs.join("lock"))?;
    sweep_locked(runs)
}

fn sweep_locked(runs: &Path) -> Result<(), Error> {
    let errors = abandoned(runs)
        .map_err(Error::io(runs.display().to_string()))?
        .iter()
        .filter_map(|folder| {
            say(format_args!("cleaning up after an earlier run: {}", folder.display()));
            remove(folder).err()
        })
        .collect();
    Error::all(errors)
}

fn abandoned(runs: &Path) -> io::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for entry in fs::read_dir(runs)? {
        let folder = entry?.path();
        if folder.is_dir() && !is_held(&folder)? {
            folders.push(folder);
        }
    }
    Ok(folders)
}

fn hold(folder: &Path) -> io::Result<File> {
    let file = File::options().create(true).append(true).open(folder.join(HELD))?;
    file.lock_shared()?;
    Ok(file)
}

fn is_held(folder: &Path) -> io::Result<bool> {
    match File::options().append(true).open(folder.join(HELD)) {
        Ok(file) => Ok(file.try_lock().is_err()),
        // Never held: whoever made it was killed on the spot. Or it is just being removed.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn remove(folder: &Path) -> Result<(), Error> {
    down(&State::at(folder.to_owned()), None)?;
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io(folder.display().to_string())(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_run_that_nobody_holds_is_abandoned() {
        let runs = std::env::temp_dir().join(format!("sendoff-runs-{}", std::process::id()));
        for name in ["held", "left", "bare"] {
            fs::create_dir_all(runs.join(name)).unwrap();
        }
        let held = hold(&runs.join("held")).unwrap();
        drop(hold(&runs.join("left")).unwrap());

        let mut before = abandoned(&runs).unwrap();
        before.sort();
        assert_eq!(before, [runs.join("bare"), runs.join("left")]);
        sweep(&runs).unwrap();
        assert!(runs.join("held").exists());
        assert!(!runs.join("left").exists() && !runs.join("bare").exists());
        drop(held);
        sweep(&runs).unwrap();
        assert!(!runs.join("held").exists());
        fs::remove_dir_all(&runs).unwrap();
    }
}
