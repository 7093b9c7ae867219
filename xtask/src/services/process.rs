//! Processes: waiting for them with a limit, and stopping those we started, never others.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use super::error::{Error, tail};
use super::limits;

/// One process among all that ever had its number: numbers are used again, start times are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) pid: u32,
    /// Clock ticks since boot.
    pub(super) started: u64,
}

/// A signal a server may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    Quit,
    Kill,
}

impl Signal {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Quit => "QUIT",
            Self::Kill => "KILL",
        }
    }
}

impl FromStr for Signal {
    type Err = UnknownSignal;

    fn from_str(name: &str) -> Result<Self, UnknownSignal> {
        [Self::Quit, Self::Kill]
            .into_iter()
            .find(|signal| signal.name() == name)
            .ok_or(UnknownSignal)
    }
}

#[derive(Debug)]
pub(super) struct UnknownSignal;

impl Identity {
    pub(super) fn of(pid: u32) -> io::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let (_, started) = state_and_start(&stat).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { pid, started })
    }

    /// Whether it runs. One that ended and was not yet waited for does not.
    pub(super) fn is_alive(self) -> bool {
        fs::read_to_string(format!("/proc/{}/stat", self.pid)).is_ok_and(|stat| {
            state_and_start(&stat)
                .is_some_and(|(state, started)| started == self.started && !"ZXx".contains(state))
        })
    }

    /// Sends the signal, and kills the whole group if that does not end it in time.
    pub(super) fn stop(self, name: &str, signal: Signal) -> Result<(), Error> {
        for (signal, target) in
            [(signal, self.pid.to_string()), (Signal::Kill, format!("-{}", self.pid))]
        {
            // Looked at again before each signal: the number could have passed to somebody else.
            if !self.is_alive() {
                return Ok(());
            }
            send(signal, &target).map_err(Error::io(format!("kill {}", self.pid)))?;
            if until(limits::STOP, || !self.is_alive()) {
                return Ok(());
            }
        }
        Err(Error::Unstoppable { name: name.to_owned(), pid: self.pid })
    }
}

/// Through the shell, which always has `kill`.
fn send(signal: Signal, target: &str) -> io::Result<ExitStatus> {
    Command::new("sh")
        .args(["-c", "kill -s \"$1\" -- \"$2\"", "kill", signal.name(), target])
        .stderr(Stdio::null())
        .status()
}

/// The fields of `/proc/PID/stat` that identify a process. The second field is a command name in
/// parentheses and may hold anything, parentheses too.
fn state_and_start(stat: &str) -> Option<(char, u64)> {
    let (_, after_name) = stat.rsplit_once(") ")?;
    let mut fields = after_name.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let started = fields.nth(18)?.parse().ok()?;
    Some((state, started))
}

/// Looks at a condition until it holds or the time is up.
pub(super) fn until(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(limits::POLL);
    }
}

/// Directs what a command prints into a log, and gives it nothing to read.
pub(super) fn logged<'a>(command: &'a mut Command, log: &Path) -> io::Result<&'a mut Command> {
    let out = OpenOptions::new().create(true).append(true).open(log)?;
    let err = out.try_clone()?;
    Ok(command.stdin(Stdio::null()).stdout(out).stderr(err))
}

/// Runs a program to its end.
pub(super) fn run(
    what: &str,
    command: &mut Command,
    log: &Path,
    limit: Duration,
) -> Result<(), Error> {
    let mut child = logged(command, log)
        .and_then(Command::spawn)
        .map_err(Error::io(format!("{what} not started")))?;
    match wait(&mut child, limit).map_err(Error::io(what))? {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(Error::Ended { what: what.to_owned(), status, log: tail(log) }),
        None => {
            child.kill().and_then(|()| child.wait()).map_err(Error::io(what))?;
            Err(Error::TooSlow { what: what.to_owned(), limit, log: tail(log) })
        }
    }
}

/// How a child ended, or nothing if it still runs at the end of the time.
pub(super) fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let mut outcome = Ok(None);
    until(limit, || {
        outcome = child.try_wait();
        !matches!(outcome, Ok(None))
    });
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_time_is_found_after_any_command_name() {
        let fields: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        let rest = fields.join(" ");
        for name in ["postgres", "a b", "x) R 1 (y"] {
            let stat = format!("17 ({name}) S {rest}\n");
            assert_eq!(state_and_start(&stat), Some(('S', 22)), "{name}");
        }
        assert_eq!(state_and_start("17 (short) S 1 2"), None);
        assert_eq!(state_and_start(""), None);
    }

    #[test]
    fn a_process_with_another_start_time_is_neither_alive_nor_killed() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let identity = Identity::of(child.id()).unwrap();
        let earlier = Identity { started: identity.started.wrapping_sub(1), ..identity };

        earlier.stop("sleep", Signal::Kill).unwrap();

        assert!(!earlier.is_alive());
        assert!(identity.is_alive());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_stopped_process_is_gone_before_it_is_waited_for() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let identity = Identity::of(child.id()).unwrap();

        identity.stop("sleep", Signal::Kill).unwrap();

        assert!(!identity.is_alive());
        child.wait().unwrap();
    }

    #[test]
    fn each_signal_is_read_as_it_is_written() {
        for signal in [Signal::Quit, Signal::Kill] {
            assert_eq!(signal.name().parse::<Signal>().unwrap(), signal);
        }
        assert!("QUI".parse::<Signal>().is_err());
    }
}
