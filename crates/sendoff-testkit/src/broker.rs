//! A broker of a test's own, to be killed, stopped and started again.
//!
//! It is started by the program that `cargo xtask test` names in a variable, or by the one that is installed.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "test code, in a library")]

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sendoff_brokers::Durability;
pub use sendoff_brokers::{Broker, PASSWORD, READER, USER};
use tempfile::TempDir;
use tokio::task::block_in_place;

use crate::process::send;
use crate::servers::free_port;
use crate::sinks::Server;

/// For a broker to take connections, or to end. RabbitMQ needs five seconds of a core that others may have.
const PLENTY: Duration = Duration::from_secs(120);

/// A broker on loopback, with its data in a temporary folder. Dropped, it is killed, and its data is gone; it also
/// ends with the process of the test, however that ends.
#[derive(Debug)]
pub struct OwnBroker {
    broker: Broker,
    program: PathBuf,
    folder: TempDir,
    port: u16,
    running: Option<Running>,
}

impl OwnBroker {
    /// `None` where it is not installed, which is a failure in CI.
    #[must_use]
    pub fn start(broker: Broker) -> Option<Self> {
        let Some(program) = broker.find() else {
            let missing = format!("{} is not installed", broker.name());
            assert!(std::env::var("CI").is_err(), "{missing}");
            // Not `eprintln!`, which a test runner may capture.
            let _ = writeln!(std::io::stderr(), "SKIPPED: {missing}");
            return None;
        };
        let folder = TempDir::with_prefix(format!("sendoff-{}-", broker.name())).unwrap();
        let mut own = Self { broker, program, folder, port: free_port(), running: None };
        own.up();
        Some(own)
    }

    /// Its address, with [`USER`] and [`PASSWORD`].
    #[must_use]
    pub fn url(&self) -> String {
        self.broker.url(self.port)
    }

    /// Its address for another user, or another password.
    #[must_use]
    pub fn url_of(&self, user: &str, password: &str) -> String {
        self.broker.url_of(user, password, self.port)
    }

    /// Its port, for whatever is to stand before it.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process.
    ///
    /// # Panics
    ///
    /// Where it was killed.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.running.as_ref().expect("it runs").child.id()
    }

    /// The folder with its settings and its data.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Has it read its settings again, where it can do that while it runs.
    pub fn reload(&self) {
        send("-HUP", self.pid());
    }

    /// Takes it down without a word, also one that is frozen.
    pub fn kill(&mut self) {
        if let Some(mut running) = self.running.take() {
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }

    /// Ends it in good order, with what it writes then.
    pub fn stop(&mut self) {
        if let Some(mut running) = self.running.take() {
            self.end(&mut running.child);
        }
    }

    /// Starts it again on the same port and the same data, after it was killed; one that runs ends in good order
    /// first. Returns when it takes connections.
    pub fn restart(&mut self) {
        self.stop();
        self.up();
    }

    /// Stops it where it is: connections stay open, and nothing is answered.
    pub fn freeze(&self) {
        send("-STOP", self.pid());
    }

    /// Lets it go on.
    pub fn thaw(&self) {
        send("-CONT", self.pid());
    }

    fn end(&self, child: &mut Child) {
        send("-TERM", child.id());
        // Whoever is frozen cannot end.
        send("-CONT", child.id());
        let deadline = Instant::now() + PLENTY;
        while child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "it did not end: {}", self.log());
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn up(&mut self) {
        let deadline = Instant::now() + PLENTY;
        let mut running = self.spawn();
        while !self.broker.is_ready(&self.log(), self.port) {
            assert!(Instant::now() < deadline, "it did not come up: {}", self.log());
            // What is left of the one before may still have the port.
            if running.child.try_wait().unwrap().is_some() {
                running = self.spawn();
            }
            thread::sleep(Duration::from_millis(20));
        }
        self.running = Some(running);
    }

    fn spawn(&self) -> Running {
        let folder = self.folder.path();
        let launch = self.broker.launch(folder, self.port, Durability::Fast).unwrap();
        let log = File::create(folder.join("log")).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(&self.program).args(launch.arguments);
        command.envs(launch.variables).current_dir(folder).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        Running::start(command)
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

/// For the suite of sinks, on a runtime with several threads.
#[async_trait]
impl Server for Mutex<OwnBroker> {
    async fn kill(&self) {
        block_in_place(|| lock(self).kill());
    }

    async fn stop(&self) {
        block_in_place(|| lock(self).stop());
    }

    async fn start(&self) {
        block_in_place(|| lock(self).restart());
    }

    async fn freeze(&self) {
        lock(self).freeze();
    }

    async fn thaw(&self) {
        lock(self).thaw();
    }
}

fn lock(own: &Mutex<OwnBroker>) -> MutexGuard<'_, OwnBroker> {
    own.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for OwnBroker {
    fn drop(&mut self) {
        self.kill();
        if thread::panicking() {
            // Its folder is about to go, and with it what it had to say.
            eprintln!("the log of {}:\n{}", self.broker.name(), self.log());
        }
    }
}

/// A process, and the thread that started it. Linux ends the process with that thread, not only with all of us: it
/// must be there for as long.
#[derive(Debug)]
struct Running {
    child: Child,
    _starter: Sender<()>,
}

impl Running {
    fn start(mut command: Command) -> Self {
        let (starter, until_dropped) = channel::<()>();
        let (sender, started) = channel();
        thread::spawn(move || {
            let _ = sender.send(command.spawn());
            let _ = until_dropped.recv();
        });
        let child = started.recv().unwrap().expect("a process starts");
        Self { child, _starter: starter }
    }
}
