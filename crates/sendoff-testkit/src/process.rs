//! Nodes in processes of their own, to be stopped, continued and killed: a test starts its own program
//! again, with one test that plays the node.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const PLENTY: Duration = Duration::from_secs(60);

/// What a node says to the test that started it.
///
/// # Panics
///
/// Where nobody listens any more.
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "node: {line}").and_then(|()| out.flush()).expect("somebody listens");
}

/// A node in another process. Dropped, it is killed.
#[derive(Debug)]
pub struct Node {
    /// Its process.
    pub child: Child,
    /// None while somebody else listens.
    lines: Option<Receiver<String>>,
}

impl Node {
    /// One that runs the given test of this program, told these things by its environment.
    ///
    /// # Panics
    ///
    /// Where no process can be started.
    pub fn start(test: &str, told: &[(&str, &str)]) -> Self {
        Self::start_under(&[], test, told)
    }

    /// The same, run by another program, which must become it: `["env", "TZ=UTC"]`.
    ///
    /// # Panics
    ///
    /// Where no process can be started.
    pub fn start_under(runner: &[&str], test: &str, told: &[(&str, &str)]) -> Self {
        let program = env::current_exe().expect("this program has a file");
        let mut line = runner.iter().map(OsString::from).chain([program.into()]);
        let mut child = Command::new(line.next().expect("at least the program"))
            .args(line)
            .args(["--exact", test, "--nocapture"])
            .envs(told.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a process starts");
        let (sender, lines) = channel();
        let out = BufReader::new(child.stdout.take().expect("it can be heard"));
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if let Some((_, said)) = line.split_once("node: ") {
                    let _ = sender.send(said.to_owned());
                }
            }
        });
        Self { child, lines: Some(lines) }
    }

    /// Waits until it says something that begins like this.
    ///
    /// # Panics
    ///
    /// Where it does not for a minute.
    pub fn says(&self, what: &str) {
        self.says_within(PLENTY, what);
    }

    /// Waits until it says something that begins like this, and returns what followed.
    ///
    /// # Panics
    ///
    /// Where it does not for so long.
    pub fn says_within(&self, time: Duration, what: &str) -> String {
        let lines = self.lines.as_ref().expect("nobody else listens");
        loop {
            let line = lines.recv_timeout(time).unwrap_or_else(|_| panic!("no `{what}`"));
            if let Some(rest) = line.strip_prefix(what) {
                return rest.trim().to_owned();
            }
        }
    }

    /// Gives everything it says from now on to `listen`, on a thread of its own.
    pub fn hear(&mut self, mut listen: impl FnMut(&str) + Send + 'static) {
        if let Some(lines) = self.lines.take() {
            std::thread::spawn(move || lines.into_iter().for_each(|line| listen(&line)));
        }
    }

    /// Sends it a signal: `-STOP`, `-CONT`, `-KILL`. One that was stopped does nothing any more when this returns: a
    /// thread that is at work goes on for a moment after the signal was sent.
    ///
    /// # Panics
    ///
    /// Where it cannot be sent.
    pub fn signal(&self, signal: &str) {
        send(signal, self.child.id());
    }
}

/// Sends a process a signal. One that was stopped does nothing any more when this returns.
pub(crate) fn send(signal: &str, pid: u32) {
    let sent = Command::new("kill").args([signal, &pid.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "{signal} was not sent");
    let deadline = Instant::now() + NOTICED;
    while signal == "-STOP" && !is_stopped(pid) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether each thread of a process is stopped, as Linux tells.
fn is_stopped(pid: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return true;
    };
    let is_stopped = |stat: String| {
        let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        matches!(state, Some('T' | 'Z' | 'X'))
    };
    let stats = threads.flatten().map(|thread| fs::read_to_string(thread.path().join("stat")));
    stats.flatten().all(is_stopped)
}

/// How long a signal may take to be noticed by all threads.
const NOTICED: Duration = Duration::from_secs(2);

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
