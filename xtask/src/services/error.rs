//! Why a server cannot be had, or cannot be stopped.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use super::limits;

#[derive(Debug)]
pub(crate) enum Error {
    /// This machine lacks something; a person can supply it.
    Unavailable { what: &'static str, advice: String, cause: Option<Box<Error>> },
    /// A program ended badly, or a server before it was ready.
    Ended { what: String, status: ExitStatus, log: String },
    /// A program or a server took too long.
    TooSlow { what: String, limit: Duration, log: String },
    /// The server runs already, in the other mode.
    OtherDurability { name: String },
    /// The process is still there after being killed.
    Unstoppable { name: String, pid: u32 },
    /// A state file that nobody here wrote.
    Unreadable { path: PathBuf },
    /// Some of several servers.
    Several(Vec<Error>),
    /// A file or a process could not be had.
    Io { what: String, source: io::Error },
}

impl Error {
    /// For `map_err`.
    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// None, the one, or all of them.
    pub(super) fn all(mut errors: Vec<Self>) -> Result<(), Self> {
        match errors.len() {
            0 => Ok(()),
            1 => Err(errors.remove(0)),
            _ => Err(Self::Several(errors)),
        }
    }

    /// Whether a person has to supply something first.
    pub(crate) fn is_unavailable(&self) -> bool {
        match self {
            Self::Unavailable { .. } => true,
            Self::Several(errors) => errors.iter().all(Self::is_unavailable),
            _ => false,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unavailable { what, advice, cause: None } => {
                write!(f, "{what} is not available: {advice}")
            }
            Self::Unavailable { what, advice, cause: Some(cause) } => {
                write!(f, "{what} is not available: {advice}\n{cause}")
            }
            Self::Ended { what, status, log } => write!(f, "{what} ended with {status}{log}"),
            Self::TooSlow { what, limit, log } => {
                write!(f, "{what} took more than {} s{log}", limit.as_secs())
            }
            Self::OtherDurability { name } => write!(
                f,
                "{name} is up already, and --durable cannot be changed while it runs: \
                 `cargo xtask services down {name}` first"
            ),
            Self::Unstoppable { name, pid } => write!(f, "{name} (pid {pid}) does not end"),
            Self::Unreadable { path } => write!(f, "{} is no state file", path.display()),
            Self::Several(errors) => {
                let lines: Vec<_> = errors.iter().map(ToString::to_string).collect();
                f.write_str(&lines.join("\n"))
            }
            Self::Io { what, source } => write!(f, "{what}: {source}"),
        }
    }
}

/// The end of a log, for people to read: lines that follow a message.
pub(super) fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    last_lines(&String::from_utf8_lossy(&text), limits::LOG_TAIL_LINES)
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<_> = text.lines().collect();
    let shown = &lines[lines.len().saturating_sub(count)..];
    shown.iter().map(|line| format!("\n  | {line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_the_end_of_a_log() {
        assert_eq!(last_lines("a\nb\nc\n", 2), "\n  | b\n  | c");
        assert_eq!(last_lines("a\n", 2), "\n  | a");
        assert_eq!(last_lines("", 2), "");
    }

    #[test]
    fn several_are_unavailable_only_if_each_is() {
        let missing =
            || Error::Unavailable { what: "npm", advice: "install it".into(), cause: None };
        let broken = || Error::OtherDurability { name: "postgres".into() };
        assert!(Error::Several(vec![missing(), missing()]).is_unavailable());
        assert!(!Error::Several(vec![missing(), broken()]).is_unavailable());
    }
}
