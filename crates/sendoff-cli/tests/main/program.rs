//! Running the program, with deadlines.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Far beyond what anything here takes: reached only by what hangs.
const DEADLINE: Duration = Duration::from_secs(120);

/// `sendoff` with these arguments, away from the settings of whoever runs the tests.
pub(crate) fn sendoff(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sendoff"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SENDOFF_") || name == "DATABASE_URL" {
            command.env_remove(name);
        }
    }
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs to the end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    Running::start(sendoff(arguments)).ended()
}

/// The last line on stdout, as JSON.
pub(crate) fn report(output: &Output) -> Value {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let last = text.lines().last().unwrap_or_else(|| panic!("no report: {}", stderr(output)));
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {last}"))
}

pub(crate) fn number(report: &Value, field: &str) -> u64 {
    report[field].as_u64().unwrap_or_else(|| panic!("no {field} in {report}"))
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// How many lines a file has; none if it is not there.
pub(crate) fn lines(path: &Path) -> usize {
    std::fs::read(path).unwrap_or_default().iter().filter(|&&byte| byte == b'\n').count()
}

/// Looks again and again until it is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < DEADLINE, "in vain: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A process that is killed when the test is over, whichever way.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    outputs: Vec<thread::JoinHandle<Vec<u8>>>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.spawn().unwrap();
        // Read at once: a full pipe would stop the process. What goes to a file is read there.
        let stdout = read(child.stdout.take());
        let stderr = read(child.stderr.take());
        Self { child, outputs: vec![stdout, stderr] }
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends a signal by its name.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.status().is_none()
    }

    pub(crate) fn ended(mut self) -> Output {
        let mut ended = None;
        until("the process ends", || {
            ended = self.status();
            ended.is_some()
        });
        let mut outputs = self.outputs.drain(..).map(|output| output.join().unwrap());
        let (stdout, stderr) = (outputs.next().unwrap(), outputs.next().unwrap());
        drop(outputs);
        Output { status: ended.unwrap(), stdout, stderr }
    }

    fn status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.map(|mut pipe| pipe.read_to_end(&mut bytes).unwrap());
        bytes
    })
}
