//! Where a test starts servers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A state folder of the test's own; its servers stop with it, also when the test fails.
pub(crate) struct Place(pub(crate) PathBuf);

impl Place {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("sendoff-xtask-test-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    pub(crate) fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.arg("services").args(words.split(' ')).arg("--dir").arg(&self.0);
        command
    }

    pub(crate) fn run(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }

    pub(crate) fn stdout(&self, words: &str) -> String {
        let output = self.run(words);
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The exports of servers that were started, or nothing where there can be none.
    pub(crate) fn up(&self, words: &str) -> Option<String> {
        let output = self.run(words);
        let ci = std::env::var("CI").is_ok_and(|ci| !["", "0", "false"].contains(&ci.as_str()));
        let stderr = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(3) && !ci {
            eprintln!("SKIPPED: no server to test with: {stderr}");
            return None;
        }
        assert!(output.status.success(), "{stderr}");
        Some(String::from_utf8(output.stdout).unwrap())
    }

    /// The one server that is up here, as a process. What shows that it is down: its port may be somebody
    /// else's a moment later, who may even answer as it did.
    pub(crate) fn process(&self) -> Process {
        let status = self.stdout("status");
        let pid = status.trim_end().rsplit_once("pid ").map(|(_, pid)| pid);
        Process(Path::new("/proc").join(pid.unwrap_or_else(|| panic!("{status}"))))
    }

    pub(crate) fn is_empty(&self) -> bool {
        fs::read_dir(&self.0).is_ok_and(|mut entries| {
            entries.all(|entry| entry.unwrap().path().extension().is_none())
        })
    }
}

/// A process that was there.
pub(crate) struct Process(PathBuf);

impl Process {
    pub(crate) fn is_gone(&self) -> bool {
        !self.0.exists()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.run("down");
        let _ = fs::remove_dir_all(&self.0);
    }
}
