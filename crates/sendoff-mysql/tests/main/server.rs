//! A server of the test's own, to be killed.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sendoff_testkit::faketime::ServerClock;
use sendoff_testkit::servers::{free_port, is_root, own};
use tempfile::TempDir;

/// A MariaDB server on loopback, with its data in a temporary folder.
pub(crate) struct Server {
    program: PathBuf,
    folder: TempDir,
    port: u16,
    options: &'static [&'static str],
    /// Its own, if it does not go by this machine's.
    clock: Option<ServerClock>,
    child: Option<Child>,
}

impl Server {
    /// `None` where no server is installed, which is a failure in CI.
    pub(crate) fn start(options: &'static [&'static str]) -> Option<Self> {
        Self::start_by(options, |_| Some(None))
    }

    /// With a clock that can be stepped back; `None` also where that cannot be had.
    pub(crate) fn start_with_clock() -> Option<Self> {
        Self::start_by(&[], |folder| ServerClock::in_folder(folder).map(Some))
    }

    pub(crate) fn clock(&self) -> &ServerClock {
        self.clock.as_ref().unwrap()
    }

    fn start_by(
        options: &'static [&'static str],
        clock: impl FnOnce(&Path) -> Option<Option<ServerClock>>,
    ) -> Option<Self> {
        let Some((program, install)) = programs() else {
            assert!(std::env::var("CI").is_err(), "no MariaDB server is installed");
            let _ = writeln!(std::io::stderr(), "SKIPPED: no MariaDB server is installed");
            return None;
        };
        let folder = TempDir::with_prefix("sendoff-mariadb-").unwrap();
        let port = free_port();
        let clock = clock(folder.path())?;
        let mut server = Self { program, folder, port, options, clock, child: None };
        own(server.folder.path(), "mysql");
        let init = Command::new(install)
            .env("TMPDIR", server.folder.path())
            .arg("--no-defaults")
            .arg(format!("--datadir={}", server.data().display()))
            .args(["--auth-root-authentication-method=normal", "--skip-test-db"])
            .args(server.account())
            .output()
            .unwrap();
        assert!(init.status.success(), "{}", String::from_utf8_lossy(&init.stderr));
        server.up();
        Some(server)
    }

    pub(crate) fn url(&self) -> String {
        format!("mysql://root@127.0.0.1:{}/mysql", self.port)
    }

    /// Starts it, after a kill as well: it recovers from its log.
    pub(crate) fn up(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        let log = std::fs::File::create(self.log()).unwrap();
        let runner = self.clock.as_ref().map(ServerClock::runner).unwrap_or_default();
        let mut line = runner.iter().map(OsString::from).chain([self.program.clone().into()]);
        let child = Command::new(line.next().unwrap())
            .args(line)
            // A server that starts removes what others have in the folder for temporary tables.
            .env("TMPDIR", self.folder.path())
            .arg("--no-defaults")
            .arg(format!("--datadir={}", self.data().display()))
            .arg(format!("--socket={}", self.folder.path().join("sock").display()))
            .arg(format!("--port={}", self.port))
            .args(["--bind-address=127.0.0.1", "--innodb-buffer-pool-size=64M"])
            .args(["--skip-name-resolve", "--max-connections=100"])
            .args(self.options)
            .args(self.account())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        let mut child = child.unwrap();
        let ready = || {
            let log = std::fs::read_to_string(self.log()).unwrap_or_default();
            log.contains("ready for connections")
        };
        while !ready() {
            let gone = child.try_wait().unwrap().is_some();
            let log = std::fs::read_to_string(self.log()).unwrap_or_default();
            assert!(!gone && Instant::now() < deadline, "the server did not come up: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
        self.child = Some(child);
    }

    /// Takes the server down without a word.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        let _ = child.kill();
        let _ = child.wait();
        if let Some(clock) = &self.clock {
            clock.forget(child.id());
        }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// MariaDB refuses to run as root unless it is told to.
    fn account(&self) -> &'static [&'static str] {
        if is_root() { &["--user=mysql"] } else { &[] }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
    }
}

/// The server, and what makes its first tables.
fn programs() -> Option<(PathBuf, PathBuf)> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> =
        std::env::split_paths(&path).chain([Path::new("/usr/sbin").to_owned()]).collect();
    let find = |name: &str| folders.iter().map(|at| at.join(name)).find(|file| file.exists());
    Some((find("mariadbd")?, find("mariadb-install-db")?))
}
