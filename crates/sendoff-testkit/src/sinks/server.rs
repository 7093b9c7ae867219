//! A server in a process of its own, to be killed, frozen and started again.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "test code, in a library")]

use std::fmt;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use async_trait::async_trait;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use super::ground::Server;

const PLENTY: Duration = Duration::from_secs(60);
/// How often to look.
const AGAIN: Duration = Duration::from_millis(5);

type Run = Arc<Mutex<Option<Child>>>;

/// A server that listens on a port of this host. It ends with the test, also when that is killed.
pub struct ServerProcess {
    command: Box<dyn Fn() -> Command + Send + Sync>,
    address: SocketAddr,
    run: Run,
}

impl ServerProcess {
    /// Starts `command`, which is made anew for each start, and comes back when something listens at `address`. The program
    /// stays in the foreground, and neither writes a PID file nor changes its process group.
    pub async fn start(
        command: impl Fn() -> Command + Send + Sync + 'static,
        address: SocketAddr,
    ) -> Self {
        let server = Self { command: Box::new(command), address, run: Run::default() };
        Server::start(&server).await;
        server
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// To it and to what it started.
    fn signal(&self, signal: &str) {
        let mut run = lock(&self.run);
        // While it is locked nobody takes note of its end, so that its number is nobody else's.
        let Some(child) = run.as_mut() else { return };
        if !matches!(child.try_wait(), Ok(None)) {
            return;
        }
        let group = format!("-{}", child.id());
        let _ = Command::new("kill").args([signal, "--", &group]).stderr(Stdio::null()).status();
    }

    async fn end(&self, signal: &str) {
        self.signal(signal);
        let deadline = Instant::now() + PLENTY;
        while !self.ended() {
            assert!(Instant::now() < deadline, "it is not gone after {signal}");
            sleep(AGAIN).await;
        }
    }

    fn ended(&self) -> bool {
        lock(&self.run).is_none()
    }
}

fn lock(run: &Run) -> MutexGuard<'_, Option<Child>> {
    run.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts it from a thread that stays until it ends: the system tells a server that its parent is gone when the thread that
/// started it is.
fn keep(mut command: Command, run: &Run) {
    let program = command.get_program().to_owned();
    let mut guarded = Command::new("setpriv");
    guarded.args(["--pdeathsig", "KILL", "--"]).arg(program).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => guarded.env(name, value),
            None => guarded.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        guarded.current_dir(folder);
    }
    let (run, (started, is_started)) = (Arc::clone(run), mpsc::channel());
    thread::spawn(move || {
        let quiet = |command: &mut Command| {
            command.process_group(0);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
        };
        let child = quiet(&mut guarded).or_else(|_| quiet(&mut command));
        let failed = child.as_ref().err().map(ToString::to_string);
        *lock(&run) = child.ok();
        let _ = started.send(failed);
        loop {
            let mut kept = lock(&run);
            match kept.as_mut().map(Child::try_wait) {
                Some(Ok(None)) => {}
                _ => return *kept = None,
            }
            drop(kept);
            thread::sleep(AGAIN);
        }
    });
    let failed = is_started.recv().unwrap();
    assert!(failed.is_none(), "the server does not start: {failed:?}");
}

#[async_trait]
impl Server for ServerProcess {
    async fn kill(&self) {
        self.end("-KILL").await;
    }

    async fn stop(&self) {
        self.end("-TERM").await;
    }

    async fn start(&self) {
        assert!(self.ended(), "it runs");
        keep((self.command)(), &self.run);
        let deadline = Instant::now() + PLENTY;
        while !matches!(timeout(PLENTY, TcpStream::connect(self.address)).await, Ok(Ok(_))) {
            assert!(!self.ended(), "the server ended by itself");
            assert!(Instant::now() < deadline, "the server does not listen");
            sleep(AGAIN).await;
        }
    }

    async fn freeze(&self) {
        self.signal("-STOP");
    }

    async fn thaw(&self) {
        self.signal("-CONT");
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.signal("-KILL");
    }
}

impl fmt::Debug for ServerProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerProcess").field("address", &self.address).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::free_port;

    #[tokio::test]
    async fn a_server_is_killed_frozen_and_started_again() {
        let port = free_port();
        let serve = move || {
            let mut command = Command::new("python3");
            command.args(["-m", "http.server", "--bind", "127.0.0.1", &port.to_string()]);
            command
        };
        if serve().arg("--help").stdout(Stdio::null()).status().is_err() {
            return eprintln!("left out: no python3 to serve anything");
        }
        let server = ServerProcess::start(serve, ([127, 0, 0, 1], port).into()).await;
        server.freeze().await;
        server.thaw().await;
        server.kill().await;
        assert!(TcpStream::connect(server.address()).await.is_err());
        Server::start(&server).await;
        server.stop().await;
        Server::start(&server).await;
        assert!(TcpStream::connect(server.address()).await.is_ok());
    }
}
