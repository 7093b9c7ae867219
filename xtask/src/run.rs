//! Running the steps of a plan, one after the other.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::Instant;

use crate::copies;
use crate::plan::{self, Step};
use crate::services;

/// The clone this command works on, and the cargo it was started with.
#[derive(Debug)]
pub(crate) struct Workspace {
    root: PathBuf,
    cargo: OsString,
}

/// Why a task ended early.
#[derive(Debug)]
pub(crate) enum Error {
    NoWorkspace,
    NotCopied(io::Error),
    NotLocked { name: &'static str, source: io::Error },
    NotStarted { title: &'static str, source: io::Error },
    Failed { title: &'static str, line: String, status: ExitStatus },
    NotRefused { title: &'static str, line: String, unsaid: Option<&'static str> },
    Services(services::Error),
}

impl From<services::Error> for Error {
    fn from(error: services::Error) -> Self {
        Self::Services(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoWorkspace => write!(f, "start this as `cargo xtask`, inside a clone"),
            Self::NotCopied(error) => write!(f, "what packages carry was not copied: {error}"),
            Self::NotLocked { name, source } => {
                write!(f, "xtask/outside/{name}/Cargo.lock not written: {source}")
            }
            Self::NotStarted { title, source } => write!(f, "{title}: cargo not started: {source}"),
            Self::Failed { title, line, status } => {
                write!(f, "{title} failed ({status}); to repeat it alone: {line}")
            }
            Self::NotRefused { title, line, unsaid: None } => {
                write!(f, "{title} compiles, and must not; to repeat it alone: {line}")
            }
            Self::NotRefused { title, line, unsaid: Some(unsaid) } => {
                write!(f, "{title} is refused without `{unsaid}`; to repeat it alone: {line}")
            }
            Self::Services(error) => error.fmt(f),
        }
    }
}

impl Workspace {
    /// From what `cargo run` tells its child. The path known while compiling would be wrong where
    /// two clones share a target folder and one runs the other's binary.
    pub(crate) fn find() -> Result<Self, Error> {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let root = manifest.as_deref().and_then(Path::parent).ok_or(Error::NoWorkspace)?;
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        Ok(Self { root: root.to_owned(), cargo })
    }

    /// Brings up to date what packages carry of the repository.
    pub(crate) fn copy(&self) -> Result<(), Error> {
        let copied = copies::renew(&self.root).map_err(Error::NotCopied)?;
        eprintln!("xtask: {copied} files were copied or removed");
        Ok(())
    }

    pub(crate) fn has_nextest(&self) -> bool {
        let mut probe = self.cargo();
        probe.args(["nextest", "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success())
    }

    /// What running servers are remembered in.
    pub(crate) fn services_folder(&self) -> PathBuf {
        let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        target.unwrap_or_else(|| self.root.join("target")).join("services")
    }

    /// Gives each program outside the workspace's versions to begin with, so that what it resolves is the
    /// same today and tomorrow but for what it adds. Its own file of versions is nobody's to keep.
    pub(crate) fn lock_outside(&self) -> Result<(), Error> {
        for (name, _) in plan::OUTSIDE {
            let lock = self.root.join("xtask/outside").join(name).join("Cargo.lock");
            let copied = std::fs::copy(self.root.join("Cargo.lock"), &lock);
            copied.map_err(|source| Error::NotLocked { name, source })?;
        }
        Ok(())
    }

    /// Runs the steps in order with these variables, up to the first that fails.
    pub(crate) fn run(&self, steps: &[Step], variables: &[(String, String)]) -> Result<(), Error> {
        let started = Instant::now();
        for (number, step) in (1..).zip(steps) {
            let title = step.title;
            let line = format!("cargo {}", step.arguments.join(" "));
            say(format_args!("[{number}/{}] {title}: {line}", steps.len()));
            let step_started = Instant::now();
            let mut command = self.cargo();
            command.args(&step.arguments);
            command.envs(variables.iter().map(|(name, value)| (name, value)));
            if step.refusals.is_empty() {
                let status = command.status();
                let status = status.map_err(|source| Error::NotStarted { title, source })?;
                if !status.success() {
                    return Err(Error::Failed { title, line, status });
                }
            } else {
                let output = command.output();
                let output = output.map_err(|source| Error::NotStarted { title, source })?;
                let said = String::from_utf8_lossy(&output.stderr);
                let unsaid = step.refusals.iter().find(|refusal| !said.contains(**refusal));
                if output.status.success() || unsaid.is_some() {
                    eprint!("{said}");
                    return Err(Error::NotRefused { title, line, unsaid: unsaid.copied() });
                }
            }
            say(format_args!("[{number}/{}] {title}: ok in {}", steps.len(), took(step_started)));
        }
        say(format_args!("all ok in {}", took(started)));
        Ok(())
    }

    /// Cargo at the root of the clone, as a person would start it there.
    fn cargo(&self) -> Command {
        let mut cargo = Command::new(&self.cargo);
        cargo.current_dir(&self.root);
        for (variable, for_each_core) in TEST_THREADS {
            if std::env::var_os(variable).is_none() {
                cargo.env(variable, (for_each_core * cores()).to_string());
            }
        }
        // What `cargo run` sets for this program would leak into build scripts that watch it, and
        // make each of them run again whenever somebody changes between `cargo` and `cargo xtask`.
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(describes_this_package) {
                cargo.env_remove(name);
            }
        }
        cargo
    }
}

/// What either runner of tests asks for the number of tests that run at once, and how many for each core: most
/// tests wait for a server or a clock, not for a core. Nextest counts those double that do not
/// (`.config/nextest.toml`).
const TEST_THREADS: [(&str, usize); 2] = [("NEXTEST_TEST_THREADS", 4), ("RUST_TEST_THREADS", 4)];

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn describes_this_package(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_") || variable.starts_with("CARGO_MANIFEST_")
}

pub(crate) fn took(since: Instant) -> String {
    format!("{:.1} s", since.elapsed().as_secs_f64())
}

/// Progress goes to stderr: stdout belongs to what is run.
pub(crate) fn say(line: fmt::Arguments<'_>) {
    eprintln!("xtask: {line}");
}

/// Reports the error that ends this program. A server that this machine lacks has its own code,
/// for callers who can do without.
pub(crate) fn fail(error: &Error) -> ExitCode {
    say(format_args!("error: {error}"));
    match error {
        Error::Services(error) if error.is_unavailable() => ExitCode::from(3),
        _ => ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_describes_this_package_is_kept_from_cargo() {
        assert!(describes_this_package("CARGO_PKG_NAME"));
        assert!(describes_this_package("CARGO_MANIFEST_DIR"));
        for kept in ["CARGO_TARGET_DIR", "CARGO_HOME", "CARGO", "PATH", "CARGO_BUILD_JOBS"] {
            assert!(!describes_this_package(kept), "{kept}");
        }
    }
}
