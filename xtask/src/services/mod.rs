//! Private servers for tests: installed where missing, started on loopback, stopped without trace.
//!
//! Promise: a server listens on a free port, keeps its data in a temporary folder of its own, and
//! is remembered before it runs. Only a process that was started here is ever sent a signal.
//!
//! Not here: containers, and servers somebody else runs. Give those by their variable
//! (`SENDOFF_POSTGRES_URL`, …), and nothing is started in their place. How a broker is run, which tests do as
//! well, stands in `sendoff_brokers`.
//!
//! A new server is one file with an implementation of [`Service`], and one line in [`Kind`].

mod broker;
pub(crate) mod cli;
mod error;
pub(crate) mod for_tests;
mod home;
mod install;
mod keeper;
mod limits;
mod mysql;
mod port;
mod postgres;
mod process;
pub(crate) mod programs;
mod start;
mod state;

use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) use sendoff_brokers::Durability;

pub(crate) use self::error::Error;
use self::home::Home;
use self::process::Signal;

/// The servers that can be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Kind {
    /// The PostgreSQL of this machine, whatever its version.
    Postgres,
    /// PostgreSQL 18.
    Postgres18,
    /// The MariaDB of this machine, whatever its version.
    Mariadb,
    /// MySQL 9.
    Mysql,
    /// NATS, with JetStream.
    Nats,
    /// The RabbitMQ of this machine, whatever its version.
    Rabbitmq,
    /// The Redis of this machine, whatever its version.
    Redis,
    /// The Mosquitto of this machine, whatever its version: MQTT.
    Mosquitto,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Postgres,
        Self::Postgres18,
        Self::Mariadb,
        Self::Mysql,
        Self::Nats,
        Self::Rabbitmq,
        Self::Redis,
        Self::Mosquitto,
    ];

    /// What every test run has. MySQL is a large download, and has to be asked for.
    const USUAL: [Self; 7] = [
        Self::Postgres,
        Self::Postgres18,
        Self::Mariadb,
        Self::Nats,
        Self::Rabbitmq,
        Self::Redis,
        Self::Mosquitto,
    ];

    fn service(self) -> &'static dyn Service {
        match self {
            Self::Postgres => &postgres::INSTALLED,
            Self::Postgres18 => &postgres::FROM_NPM,
            Self::Mariadb => &mysql::MARIADB,
            Self::Mysql => &mysql::MYSQL,
            Self::Nats => &broker::NATS,
            Self::Rabbitmq => &broker::RABBITMQ,
            Self::Redis => &broker::REDIS,
            Self::Mosquitto => &broker::MOSQUITTO,
        }
    }
}

/// What has to be known about a server to run it.
trait Service: Sync {
    /// As given on the command line; also names files.
    fn name(&self) -> &'static str;

    /// The account it runs under when we are root, or nobody's. Databases refuse to be root.
    fn account(&self) -> &'static str;

    /// The folder of its programs, or its one program, after installing what is missing.
    fn install(&self) -> Result<PathBuf, Error>;

    /// Fills its home, once, before the first start.
    fn prepare(&self, home: &Home) -> Result<(), Error>;

    /// The server in the foreground. It is started again on another port when it dies early.
    fn command(&self, home: &Home, port: u16, durability: Durability) -> Result<Command, Error>;

    /// Whether the server of this home, and no other, takes connections.
    fn is_ready(&self, home: &Home, port: u16) -> bool;

    /// The variables that lead tests to it, without their values. The first is its address.
    fn variables(&self) -> Vec<&'static str>;

    /// The values of those variables, in the same order.
    fn values(&self, programs: &Path, port: u16) -> Vec<String>;

    /// Ends it at once. What it would save is thrown away.
    fn stop_signal(&self) -> Signal;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_service_has_its_own_name_and_variables() {
        let services = Kind::ALL.map(Kind::service);
        let mut names: Vec<_> = services.iter().map(|service| service.name()).collect();
        names.extend(services.iter().flat_map(|service| service.variables()));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_service_gives_each_of_its_variables_a_value() {
        for service in Kind::ALL.map(Kind::service) {
            let values = service.values(Path::new("/usr/bin"), 1);
            assert_eq!(values.len(), service.variables().len(), "{}", service.name());
        }
    }

    #[test]
    fn a_service_is_named_as_on_the_command_line() {
        for kind in Kind::ALL {
            let value = clap::ValueEnum::to_possible_value(&kind).unwrap();
            assert_eq!(kind.service().name(), value.get_name());
        }
    }
}
