//! Clocks that are off, for processes that tests start: by `faketime`, which Debian has.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

/// What runs a process whose wall clock is off by this much, such as `+1h`: its own command line
/// follows. Not the program `faketime`, which would stay between us and the process, and not be stopped
/// or killed with it. `None` where it is not installed.
pub(crate) fn runner(off: &str) -> Option<Vec<String>> {
    Some(preloading(&library()?, &format!("FAKETIME={off}")))
}

fn preloading(library: &Path, time: &str) -> Vec<String> {
    vec![
        "env".to_owned(),
        format!("LD_PRELOAD={}", library.display()),
        time.to_owned(),
        "FAKETIME_NO_CACHE=1".to_owned(),
        // The clock that waits are measured by stays as it is.
        "FAKETIME_DONT_FAKE_MONOTONIC=1".to_owned(),
    ]
}

/// Where its library is. Where it is not, that is said, and is a failure in CI.
fn library() -> Option<PathBuf> {
    let found = find();
    assert!(found.is_some() || std::env::var("CI").is_err(), "faketime is not installed");
    if found.is_none() {
        // Not `eprintln!`, which a test runner may capture.
        let _ = writeln!(std::io::stderr(), "SKIPPED: faketime is not installed");
    }
    found
}

/// Removes what such a process leaves behind when it is killed.
pub(crate) fn forget(pid: u32) {
    for name in ["faketime_shm_", "sem.faketime_sem_"] {
        let _ = std::fs::remove_file(format!("/dev/shm/{name}{pid}"));
    }
}

fn find() -> Option<PathBuf> {
    let systems = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let folders =
        systems.map(|system| system.path()).chain(["/usr/lib".into(), "/usr/lib64".into()]);
    folders.map(|at| at.join("faketime/libfaketimeMT.so.1")).find(|file| file.exists())
}

/// The wall clock of a server of a test's own, which can be stepped back while the server runs.
#[derive(Debug)]
pub struct ServerClock {
    library: PathBuf,
    /// What the server reads whenever it looks at the clock.
    file: PathBuf,
    /// By how much it is behind.
    behind: Mutex<Duration>,
}

impl ServerClock {
    /// A clock that is right, kept in a file of this folder, which the server's account must be able
    /// to read; `None` where `faketime` is not installed, which is a failure in CI.
    pub fn in_folder(folder: &Path) -> Option<Self> {
        let clock =
            Self { library: library()?, file: folder.join("clock"), behind: Mutex::default() };
        clock.step_back(Duration::ZERO);
        Some(clock)
    }

    /// What starts the server: this, followed by its own command line. It comes after whatever changes
    /// the account, which must not be given another time: the two would share a semaphore.
    pub fn runner(&self) -> Vec<String> {
        let file = format!("FAKETIME_TIMESTAMP_FILE={}", self.file.display());
        preloading(&self.library, &file)
    }

    /// Removes what a server leaves behind that was killed.
    pub fn forget(&self, pid: u32) {
        forget(pid);
    }

    /// Steps it back.
    ///
    /// # Panics
    ///
    /// Where its file cannot be written.
    pub fn step_back(&self, by: Duration) {
        let mut behind = self.behind.lock().expect("nobody panicked with it");
        *behind += by;
        // Renamed, so that nobody reads half of it.
        let draft = self.file.with_extension("draft");
        std::fs::write(&draft, format!("-{}\n", behind.as_secs_f64())).expect("it can be written");
        std::fs::rename(&draft, &self.file).expect("it can be replaced");
    }
}
