//! MariaDB: the machine's own. MySQL: Debian's newest, unpacked beside the system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::error::Error;
use super::home::Home;
use super::process::{self, Signal};
use super::{Durability, Service, install, limits};

/// The one installed here.
pub(super) static MARIADB: MariaDb = MariaDb;

/// The newest that Debian has, which only its unstable release does.
pub(super) static MYSQL: MySql = MySql;

pub(super) struct MariaDb;

pub(super) struct MySql;

impl Service for MariaDb {
    fn name(&self) -> &'static str {
        "mariadb"
    }

    fn account(&self) -> &'static str {
        "mysql"
    }

    fn install(&self) -> Result<PathBuf, Error> {
        find_mariadb().map_or_else(|| install::apt("mariadb-server", find_mariadb), Ok)
    }

    fn prepare(&self, home: &Home) -> Result<(), Error> {
        let program = program("mariadb-install-db").unwrap_or_else(|| "mariadb-install-db".into());
        let mut init = home.command(&program.to_string_lossy());
        init.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
        init.arg(format!("--datadir={}", home.folder.join("data").display()));
        process::run("mariadb-install-db", &mut init, &home.log(), limits::PREPARE)
    }

    fn command(&self, home: &Home, port: u16, durability: Durability) -> Result<Command, Error> {
        let mut command = home.command("mariadbd");
        command.arg("--no-defaults").args(settings(home, port, durability));
        Ok(command)
    }

    fn is_ready(&self, home: &Home, port: u16) -> bool {
        says_ready(home, port)
    }

    fn variables(&self) -> Vec<&'static str> {
        vec!["SENDOFF_MARIADB_URL"]
    }

    fn values(&self, _programs: &Path, port: u16) -> Vec<String> {
        vec![url(port)]
    }

    fn stop_signal(&self) -> Signal {
        Signal::Kill
    }
}

impl Service for MySql {
    fn name(&self) -> &'static str {
        "mysql"
    }

    /// Unpacked packages make no account of their own.
    fn account(&self) -> &'static str {
        "nobody"
    }

    /// The folder of a whole small system: the server is newer than the C library of this one.
    fn install(&self) -> Result<PathBuf, Error> {
        install::unpacked_debian("MySQL", "sid", "mysql-server-core", "usr/sbin/mysqld")
    }

    fn prepare(&self, home: &Home) -> Result<(), Error> {
        let mut init = self.server(home);
        init.arg("--initialize-insecure");
        init.arg(format!("--datadir={}", home.folder.join("data").display()));
        process::run("mysqld --initialize-insecure", &mut init, &home.log(), limits::PREPARE)
    }

    fn command(&self, home: &Home, port: u16, durability: Durability) -> Result<Command, Error> {
        let mut command = self.server(home);
        command.args(settings(home, port, durability));
        command.args(["--mysqlx=OFF", "--secure-file-priv="]);
        if durability == Durability::Fast {
            command.arg("--disable-log-bin");
        }
        Ok(command)
    }

    fn is_ready(&self, home: &Home, port: u16) -> bool {
        says_ready(home, port)
    }

    fn variables(&self) -> Vec<&'static str> {
        vec!["SENDOFF_MYSQL_URL"]
    }

    fn values(&self, _programs: &Path, port: u16) -> Vec<String> {
        vec![url(port)]
    }

    fn stop_signal(&self) -> Signal {
        Signal::Kill
    }
}

impl MySql {
    /// The server, started by the loader it came with, so that it finds the libraries it came with.
    fn server(&self, home: &Home) -> Command {
        let system = home.programs();
        let loader = loader(system).unwrap_or_default();
        let libraries = loader.parent().unwrap_or(system).display().to_string();
        let at = |path: &str| system.join(path).display().to_string();
        let mut command = home.command(&loader.to_string_lossy());
        command.args(["--library-path", &format!("{libraries}:{}", at("usr/lib/mysql/private"))]);
        command.arg(at("usr/sbin/mysqld"));
        command.args(["--no-defaults", &format!("--basedir={}", at("usr"))]);
        command.arg(format!("--lc-messages-dir={}", at("usr/share/mysql")));
        command.arg(format!("--character-sets-dir={}", at("usr/share/mysql/charsets")));
        command
    }
}

fn loader(system: &Path) -> Option<PathBuf> {
    let entries = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = entries(system.join("usr/lib")).map(|entry| entry.path());
    let files = folders.filter(|path| path.is_dir()).flat_map(entries);
    files.map(|entry| entry.path()).find(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("ld-linux") && name.contains(".so"))
    })
}

fn find_mariadb() -> Option<PathBuf> {
    program("mariadb-install-db")?;
    program("mariadbd")?.parent().map(Path::to_owned)
}

/// Where a program is. Debian keeps servers out of the search path of ordinary users.
fn program(name: &str) -> Option<PathBuf> {
    let folders = install::search_path().into_iter().chain(["/usr/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn url(port: u16) -> String {
    format!("mysql://root@127.0.0.1:{port}/mysql")
}

fn settings(home: &Home, port: u16, durability: Durability) -> Vec<String> {
    let at = |name: &str| home.folder.join(name).display().to_string();
    let mut settings = vec![
        format!("--datadir={}", at("data")),
        format!("--socket={}", at("sock")),
        format!("--pid-file={}", at("pid")),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--port={port}"),
        // Tests run side by side, each with a pool of its own.
        "--max-connections=400".to_owned(),
        "--innodb-buffer-pool-size=256M".to_owned(),
        "--character-set-server=utf8mb4".to_owned(),
    ];
    if durability == Durability::Fast {
        settings.push("--innodb-flush-log-at-trx-commit=0".to_owned());
        settings.push("--innodb-doublewrite=0".to_owned());
        settings.push("--sync-binlog=0".to_owned());
    }
    settings
}

/// The server says so in its log, with its port: an answer on the port could be somebody else's.
fn says_ready(home: &Home, port: u16) -> bool {
    fs::read_to_string(home.log()).is_ok_and(|log| is_ready_line(&log, port))
}

fn is_ready_line(log: &str, port: u16) -> bool {
    let Some((_, after)) = log.rsplit_once("ready for connections") else { return false };
    after.contains(&format!("port: {port} "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_ready_when_its_log_names_its_port() {
        let log = "ready for connections.\nVersion: '10.11'  socket: '/s'  port: 4711  Debian 12";
        assert!(is_ready_line(log, 4711));
        for (log, port) in [(log, 471), (log, 711), ("port: 4711 ", 4711), ("", 1)] {
            assert!(!is_ready_line(log, port), "{log} {port}");
        }
        assert!(!is_ready_line(&format!("{log}\nready for connections. port: 5 "), 4711));
    }
}
