//! How a private broker is started: its program, its settings, its address, and when it is ready.
//!
//! Promise: a broker listens on loopback alone, keeps everything in the folder it is given, and needs nothing that
//! another one has, so that any number of them run side by side.
//!
//! Not here: processes and installing. `cargo xtask services` starts the brokers that all tests share,
//! `sendoff_testkit::broker` one that a test may kill; both by what stands here.

mod mosquitto;
mod nats;
mod rabbitmq;
mod redis;

use std::env;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A user who may do everything.
pub const USER: &str = "sendoff";

/// A user who may connect, look and receive, and not publish.
pub const READER: &str = "reader";

/// The password of both. Nobody else reaches a broker on loopback whose data is thrown away.
pub const PASSWORD: &str = "let-me-in";

/// The brokers that can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Broker {
    /// NATS, with JetStream.
    Nats,
    /// RabbitMQ.
    Rabbitmq,
    /// Redis.
    Redis,
    /// Mosquitto, a broker of MQTT.
    Mosquitto,
}

/// Whether what was confirmed survives a power cut. The end of a process it survives in any case, where the
/// broker promises that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// No: tests throw the data away, and want speed.
    Fast,
    /// Yes: benchmarks measure what users will have.
    Durable,
}

impl Durability {
    /// Durable when asked for.
    #[must_use]
    pub fn when(durable: bool) -> Self {
        if durable { Self::Durable } else { Self::Fast }
    }
}

/// A broker in the foreground, to be run with these arguments and variables, in its folder.
#[derive(Debug)]
pub struct Launch {
    /// What follows the program.
    pub arguments: Vec<String>,
    /// What the program is told beside them.
    pub variables: Vec<(&'static str, String)>,
}

impl Broker {
    /// Each of them.
    pub const ALL: [Self; 4] = [Self::Nats, Self::Rabbitmq, Self::Redis, Self::Mosquitto];

    fn recipe(self) -> &'static dyn Recipe {
        match self {
            Self::Nats => &nats::Nats,
            Self::Rabbitmq => &rabbitmq::Rabbitmq,
            Self::Redis => &redis::Redis,
            Self::Mosquitto => &mosquitto::Mosquitto,
        }
    }

    /// Its name on a command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.recipe().name()
    }

    /// The file name of its program.
    #[must_use]
    pub fn program(self) -> &'static str {
        self.recipe().program()
    }

    /// The account that it has on most systems. Each of them can be run by anybody.
    #[must_use]
    pub fn account(self) -> &'static str {
        self.recipe().account()
    }

    /// The variable that leads tests to one that runs.
    #[must_use]
    pub fn url_variable(self) -> &'static str {
        self.recipe().url_variable()
    }

    /// The port of one that runs by this recipe, where its variable leads to such a one.
    #[must_use]
    pub fn given(self) -> Option<u16> {
        let url = env::var(self.url_variable()).ok()?;
        let port = url.split(['@', '/']).find_map(|part| part.strip_prefix("127.0.0.1:"))?;
        let port = port.parse().ok()?;
        (self.url(port) == url).then_some(port)
    }

    /// The variable that names the program to start one by.
    #[must_use]
    pub fn program_variable(self) -> &'static str {
        self.recipe().program_variable()
    }

    /// The program that its variable names, else the one that is installed.
    #[must_use]
    pub fn find(self) -> Option<PathBuf> {
        let given = env::var_os(self.program_variable()).filter(|given| !given.is_empty());
        given.map(PathBuf::from).or_else(|| {
            let path = env::var_os("PATH").unwrap_or_default();
            let own = self.recipe().folders().iter().map(PathBuf::from);
            // Debian keeps servers where only root looks.
            let folders = own.chain(env::split_paths(&path)).chain(["/usr/sbin".into()]);
            folders.map(|folder| folder.join(self.program())).find(|file| file.is_file())
        })
    }

    /// Writes its settings into its folder, which outlives it, and says how it is run. Its account must be able to
    /// write there.
    ///
    /// # Errors
    ///
    /// Where the folder cannot be written to.
    pub fn launch(self, folder: &Path, port: u16, durability: Durability) -> io::Result<Launch> {
        self.recipe().launch(&Place { folder, port, durability })
    }

    /// Whether it takes connections on this port, by what it has written to its output. An answer on the port
    /// could be somebody else's.
    #[must_use]
    pub fn is_ready(self, output: &str, port: u16) -> bool {
        let (listens, ready) = self.recipe().says(port);
        let lines: Vec<_> = output.lines().map(str::trim_end).collect();
        let listens = lines.iter().rposition(|line| line.ends_with(&listens));
        listens.is_some_and(|line| lines[line..].iter().any(|line| line.contains(ready)))
    }

    /// Its address, with [`USER`] and [`PASSWORD`].
    #[must_use]
    pub fn url(self, port: u16) -> String {
        self.url_of(USER, PASSWORD, port)
    }

    /// Its address for another user, or another password.
    #[must_use]
    pub fn url_of(self, user: &str, password: &str, port: u16) -> String {
        let (scheme, path) = self.recipe().url_ends();
        format!("{scheme}://{user}:{password}@127.0.0.1:{port}{path}")
    }
}

/// What has to be known about a broker to run it.
trait Recipe: Sync {
    fn name(&self) -> &'static str;

    fn program(&self) -> &'static str;

    /// Where its program is looked for before the search path.
    fn folders(&self) -> &'static [&'static str] {
        &[]
    }

    fn account(&self) -> &'static str;

    fn url_variable(&self) -> &'static str;

    fn program_variable(&self) -> &'static str;

    fn launch(&self, place: &Place<'_>) -> io::Result<Launch>;

    /// How the line ends by which it says that it listens, and what a line says once it is ready.
    fn says(&self, port: u16) -> (String, &'static str);

    /// What stands before the user and after the port.
    fn url_ends(&self) -> (&'static str, &'static str);
}

/// Where one broker lives.
struct Place<'a> {
    folder: &'a Path,
    port: u16,
    durability: Durability,
}

impl Place<'_> {
    fn at(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Writes a file that the broker's account can read, whatever our own umask, and gives its path.
    fn write(&self, name: &str, text: &str) -> io::Result<String> {
        let file = self.folder.join(name);
        fs::write(&file, text)?;
        fs::set_permissions(&file, Permissions::from_mode(0o644))?;
        Ok(self.at(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each of them says, as seen.
    fn output(broker: Broker, port: u16) -> String {
        match broker {
            Broker::Nats => format!(
                "[1] [INF] Listening for client connections on 127.0.0.1:{port}\n\
                 [1] [INF] Server is ready\n"
            ),
            Broker::Rabbitmq => format!(
                "[info] <0.5.0> started TCP listener on 127.0.0.1:{port}\n\
                 [info] <0.4.0> Server startup complete; 0 plugins started.\n"
            ),
            Broker::Redis => format!(
                "1:M * Running mode=standalone, port={port}.\n1:M * Ready to accept connections\n"
            ),
            Broker::Mosquitto => format!(
                "1: Opening ipv4 listen socket on port {port}.\n1: mosquitto version 2.0.11 running\n"
            ),
        }
    }

    #[test]
    fn a_broker_is_ready_when_it_says_so_after_its_port() {
        for broker in Broker::ALL {
            let said = output(broker, 4711);
            assert!(broker.is_ready(&said, 4711), "{said}");
            let (listens, ready) = said.split_once('\n').unwrap();
            for unready in ["", listens, ready] {
                assert!(!broker.is_ready(unready, 4711), "{unready}");
            }
            for port in [471, 711, 5] {
                assert!(!broker.is_ready(&said, port), "{said} {port}");
            }
            // It was ready on a port that it lost, and is about to be on another.
            let again = format!("{said}{listens}\n");
            assert!(!broker.is_ready(&again, 4711), "{again}");
        }
    }

    #[test]
    fn an_address_has_the_user_and_the_password() {
        let urls = Broker::ALL.map(|broker| broker.url(5));
        assert_eq!(
            urls,
            [
                "nats://sendoff:let-me-in@127.0.0.1:5",
                "amqp://sendoff:let-me-in@127.0.0.1:5/%2f",
                "redis://sendoff:let-me-in@127.0.0.1:5/0",
                "mqtt://sendoff:let-me-in@127.0.0.1:5",
            ]
        );
    }
}
