//! PgBouncer, pooling by transaction, in front of the server.

use std::io::Write;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sendoff_testkit::servers::{free_port, is_root, own};
use tempfile::TempDir;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// A pooler of the test's own. Fewer sessions than connections, so that they do get mixed.
pub(crate) struct Pooler {
    child: Child,
    port: u16,
    _folder: TempDir,
}

impl Pooler {
    /// Without the program a test fails in CI; elsewhere it says so and is over.
    pub(crate) fn start(server: &str) -> Self {
        let Some(program) = program() else {
            let ci = std::env::var("CI").is_ok_and(|ci| ci == "true");
            assert!(!ci, "pgbouncer is not installed");
            let _ = writeln!(std::io::stderr(), "SKIPPED: pgbouncer is not installed");
            std::process::exit(0);
        };
        let folder = TempDir::with_prefix("sendoff-pgbouncer-").unwrap();
        let port = free_port();
        let settings = folder.path().join("pgbouncer.ini");
        std::fs::write(&settings, configuration(server, port)).unwrap();
        own(folder.path(), "postgres");
        let mut command = Command::new(program);
        command.arg("-q").arg(settings).stdout(Stdio::null()).stderr(Stdio::null());
        if is_root() {
            // It refuses to be root, and says under whom to run instead.
            command.args(["-u", "postgres"]);
        }
        let mut child = command.spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(child.try_wait().unwrap().is_none(), "pgbouncer ended");
            assert!(Instant::now() < deadline, "pgbouncer did not come up");
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { child, port, _folder: folder }
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/pooled", self.port)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn configuration(server: &str, port: u16) -> String {
    let server: Config = server.parse().unwrap();
    let Some(Host::Tcp(host)) = server.get_hosts().first() else { panic!("not by TCP") };
    let (user, database) = (server.get_user().unwrap(), server.get_dbname().unwrap());
    let password = server
        .get_password()
        .map(|password| format!(" password={}", String::from_utf8_lossy(password)));
    let password = password.unwrap_or_default();
    format!(
        "[databases]\n\
         pooled = host={host} port={} user={user}{password} dbname={database}\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         auth_type = any\n\
         pool_mode = transaction\n\
         default_pool_size = 3\n",
        server.get_ports().first().unwrap_or(&5432),
    )
}

/// Debian keeps it where only root looks.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    folders.map(|folder| folder.join("pgbouncer")).find(|program| program.is_file())
}
