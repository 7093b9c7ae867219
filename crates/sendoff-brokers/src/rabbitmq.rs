//! RabbitMQ, as a node that no other ever meets.

use std::io;

use super::{Launch, PASSWORD, Place, READER, Recipe, USER};

pub(crate) struct Rabbitmq;

/// Nodes of Erlang talk to each other, and RabbitMQ is always one. It does not listen for others; where Erlang is
/// too old for that (before 25), it does on another address of loopback, which nobody asks for.
const NODE_ADDRESS: &str = "{127,0,0,2}";

/// Bytes of a message, at most.
const MESSAGE_BYTES: usize = 2 * 1024 * 1024;

impl Recipe for Rabbitmq {
    fn name(&self) -> &'static str {
        "rabbitmq"
    }

    fn program(&self) -> &'static str {
        "rabbitmq-server"
    }

    /// Debian's program of this name in the search path is for root alone, and changes the account.
    fn folders(&self) -> &'static [&'static str] {
        &["/usr/lib/rabbitmq/bin"]
    }

    fn account(&self) -> &'static str {
        "rabbitmq"
    }

    fn url_variable(&self) -> &'static str {
        "SENDOFF_RABBITMQ_URL"
    }

    fn program_variable(&self) -> &'static str {
        "SENDOFF_RABBITMQ_SERVER"
    }

    fn launch(&self, place: &Place<'_>) -> io::Result<Launch> {
        let port = place.port;
        let user = |name: &str, tags: &str| {
            format!("{{\"name\": \"{name}\", \"password\": \"{PASSWORD}\", \"tags\": \"{tags}\"}}")
        };
        let rights = |name: &str, change: &str| {
            format!(
                "{{\"user\": \"{name}\", \"vhost\": \"/\", \"configure\": \"{change}\", \
                 \"write\": \"{change}\", \"read\": \".*\"}}"
            )
        };
        let definitions = format!(
            "{{\"vhosts\": [{{\"name\": \"/\"}}],\n\"users\": [{}, {}],\n\"permissions\": [{}, {}]}}\n",
            user(USER, "administrator"),
            user(READER, ""),
            rights(USER, ".*"),
            rights(READER, "^$"),
        );
        let definitions = place.write("definitions.json", &definitions)?;
        let settings = format!(
            "listeners.tcp.1 = 127.0.0.1:{port}\n\
             load_definitions = {definitions}\n\
             # Small, so that a test can exceed it.\n\
             max_message_size = {MESSAGE_BYTES}\n\
             log.file = false\n\
             log.console = true\n\
             log.console.use_colors = off\n"
        );
        let settings = place.write("rabbitmq.conf", &settings)?;
        let plugins = place.write("enabled_plugins", "[].\n")?;
        let node = format!("sendoff-{port}@localhost");
        // A node that has its name and port from the beginning asks no `epmd` for them, which would be one process
        // for the whole machine, listen to the whole world, and outlive all.
        let node_arguments = format!("-noinput -sname {node}");
        // For every Erlang below this one: once a minute RabbitMQ starts another, only to start an `epmd`.
        let all_arguments = format!(
            "-start_epmd false -erl_epmd_port {port} -dist_listen false \
             -kernel inet_dist_use_interface {NODE_ADDRESS}"
        );
        let variables = vec![
            ("RABBITMQ_NODENAME", node),
            ("RABBITMQ_MNESIA_BASE", place.at("data")),
            ("RABBITMQ_LOG_BASE", place.at("logs")),
            ("RABBITMQ_CONFIG_FILE", settings),
            ("RABBITMQ_ENABLED_PLUGINS_FILE", plugins),
            // What this machine's own broker is told is not for this one.
            ("RABBITMQ_CONF_ENV_FILE", "/dev/null".to_owned()),
            ("RABBITMQ_ADVANCED_CONFIG_FILE", place.at("advanced.config")),
            // The cookie is made here.
            ("HOME", place.folder.display().to_string()),
            // The script becomes the broker, instead of waiting for it.
            ("RABBITMQ_ALLOW_INPUT", "1".to_owned()),
            ("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", node_arguments),
            ("ERL_FLAGS", all_arguments),
            // Several brokers share the cores.
            ("RABBITMQ_SCHEDULER_BIND_TYPE", "u".to_owned()),
        ];
        Ok(Launch { arguments: Vec::new(), variables })
    }

    fn says(&self, port: u16) -> (String, &'static str) {
        (format!("listener on 127.0.0.1:{port}"), "Server startup complete")
    }

    fn url_ends(&self) -> (&'static str, &'static str) {
        ("amqp", "/%2f")
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Broker, Durability};

    /// Seen: RabbitMQ starts another Erlang a minute after itself, and that one an `epmd` for the whole world.
    #[test]
    fn whatever_erlang_rabbitmq_starts_is_told_to_start_no_epmd() {
        let folder =
            std::env::temp_dir().join(format!("sendoff-rabbitmq-test-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let launch = Broker::Rabbitmq.launch(&folder, 5, Durability::Fast).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let flags = launch.variables.iter().find(|(name, _)| *name == "ERL_FLAGS").unwrap();
        assert!(flags.1.contains("-start_epmd false") && flags.1.contains("-dist_listen false"));
    }
}
