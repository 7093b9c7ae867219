//! A server of the test's own, to be killed.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sendoff_testkit::faketime::ServerClock;
use sendoff_testkit::servers::{free_port, is_root, own};
use tempfile::TempDir;

/// A PostgreSQL server on loopback, with its data in a temporary folder.
pub(crate) struct Server {
    programs: PathBuf,
    settings: Vec<String>,
    folder: TempDir,
    port: u16,
    /// Its own, if it does not go by this machine's.
    clock: Option<ServerClock>,
    child: Option<Child>,
}

impl Server {
    /// `None` where no server is installed, which is a failure in CI.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(|_| Vec::new())
    }

    /// Like [`start`](Self::start), with settings; files they name can be put into the folder.
    pub(crate) fn start_with(settings: impl Fn(&Path) -> Vec<String>) -> Option<Self> {
        let mut server = Self::new()?;
        server.settings = settings(server.folder.path());
        server.init();
        Some(server)
    }

    /// With a clock that can be stepped back; `None` also where that cannot be had.
    pub(crate) fn start_with_clock() -> Option<Self> {
        let mut server = Self::new()?;
        server.clock = Some(ServerClock::in_folder(server.folder.path())?);
        server.init();
        Some(server)
    }

    pub(crate) fn clock(&self) -> &ServerClock {
        self.clock.as_ref().unwrap()
    }

    fn new() -> Option<Self> {
        let Some(programs) = programs() else {
            assert!(std::env::var("CI").is_err(), "no PostgreSQL server is installed");
            let _ = writeln!(std::io::stderr(), "SKIPPED: no PostgreSQL server is installed");
            return None;
        };
        Some(Self::of(programs))
    }

    fn of(programs: PathBuf) -> Self {
        let folder = TempDir::with_prefix("sendoff-pg-").unwrap();
        let port = free_port();
        Self { programs, settings: Vec::new(), folder, port, clock: None, child: None }
    }

    /// Makes its data, and starts it.
    fn init(&mut self) {
        own(self.folder.path(), "postgres");
        let data = self.data();
        let init = self
            .command("initdb")
            .args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-D"])
            .arg(&data)
            .stdout(Stdio::null())
            .status();
        assert!(init.unwrap().success());
        self.up();
    }

    /// A standby that follows this one, begun with a copy of it.
    pub(crate) fn standby(&self) -> Self {
        let mut standby = Self::of(self.programs.clone());
        own(standby.folder.path(), "postgres");
        let copied = standby
            .command("pg_basebackup")
            .args(["-h", "127.0.0.1", "-U", "postgres", "-p", &self.port.to_string()])
            .args(["--checkpoint=fast", "--write-recovery-conf", "-D"])
            .arg(standby.data())
            .status();
        assert!(copied.unwrap().success());
        standby.up();
        standby
    }

    pub(crate) fn url(&self) -> String {
        self.url_at("127.0.0.1")
    }

    /// By another name for this host.
    pub(crate) fn url_at(&self, host: &str) -> String {
        format!("postgres://postgres@{host}:{}/postgres", self.port)
    }

    /// Starts it, after a kill as well: it recovers from its log.
    pub(crate) fn up(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let data = self.data();
        let ready = || {
            let state = std::fs::read_to_string(data.join("postmaster.pid"));
            state.is_ok_and(|state| is_ready(&state))
        };
        let mut child = self.spawn();
        while !ready() {
            assert!(Instant::now() < deadline, "the server did not come up: {}", self.log());
            // While a child of the one before still has its memory, a new one gives up at once.
            if child.try_wait().unwrap().is_some() {
                child = self.spawn();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.child = Some(child);
    }

    fn spawn(&self) -> Child {
        let log = std::fs::File::create(self.folder.path().join("log")).unwrap();
        let runner = self.clock.as_ref().map(ServerClock::runner).unwrap_or_default();
        self.command_under(&runner, "postgres")
            .arg("-D")
            .arg(self.data())
            .args(["-c", "listen_addresses=127.0.0.1", "-c", &format!("port={}", self.port)])
            .args(["-c", "unix_socket_directories="])
            .args(self.settings.iter().flat_map(|setting| ["-c", setting]))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Takes the server down without a word, with all its children.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        let pid = child.id();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let _ = child.kill();
        let _ = child.wait();
        for pid in children.unwrap_or_default().split_whitespace() {
            let _ = Command::new("kill").args(["-9", pid]).stderr(Stdio::null()).status();
        }
        if let Some(clock) = &self.clock {
            clock.forget(pid);
        }
        // Stale by now, and the next start must not take it for the new one.
        let _ = std::fs::remove_file(self.data().join("postmaster.pid"));
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn command(&self, program: &str) -> Command {
        self.command_under(&[], program)
    }

    /// PostgreSQL refuses to run as root.
    fn command_under(&self, runner: &[String], program: &str) -> Command {
        let account = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--"];
        let account = if is_root() { &account[..] } else { &[] };
        let account = account.iter().map(OsString::from);
        let program = self.programs.join(program).into_os_string();
        let mut line = account.chain(runner.iter().map(OsString::from)).chain([program]);
        let mut command = Command::new(line.next().unwrap());
        command.args(line);
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
    }
}

/// Line 8 of the file says how far the server is; a standby never gets further than that.
fn is_ready(pid_file: &str) -> bool {
    pid_file.lines().nth(7).is_some_and(|line| ["ready", "standby"].contains(&line.trim()))
}

fn programs() -> Option<PathBuf> {
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    installed
        .map(|version| version.path().join("bin"))
        .chain(std::env::split_paths(&on_path))
        .find(|folder: &PathBuf| Path::new(folder).join("postgres").exists())
}
