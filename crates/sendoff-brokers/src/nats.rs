//! NATS, with JetStream in its folder.

use std::io;

use super::{Durability, Launch, PASSWORD, Place, READER, Recipe, USER};

pub(crate) struct Nats;

impl Recipe for Nats {
    fn name(&self) -> &'static str {
        "nats"
    }

    fn program(&self) -> &'static str {
        "nats-server"
    }

    fn account(&self) -> &'static str {
        "nats"
    }

    fn url_variable(&self) -> &'static str {
        "SENDOFF_NATS_URL"
    }

    fn program_variable(&self) -> &'static str {
        "SENDOFF_NATS_SERVER"
    }

    fn launch(&self, place: &Place<'_>) -> io::Result<Launch> {
        // Written at once it is in any case; otherwise the disk has it within two minutes.
        let sync = match place.durability {
            Durability::Fast => "2m",
            Durability::Durable => "always",
        };
        let data = place.at("jetstream");
        let settings = format!(
            "listen: \"127.0.0.1:{port}\"\n\
             jetstream {{ store_dir: \"{data}\", sync_interval: {sync} }}\n\
             authorization {{ users: [\n\
             {{ user: {USER}, password: \"{PASSWORD}\" }}\n\
             {{ user: {READER}, password: \"{PASSWORD}\", permissions: {{ publish: [\"$JS.API.>\"] }} }}\n\
             ] }}\n",
            port = place.port,
        );
        let settings = place.write("nats.conf", &settings)?;
        Ok(Launch { arguments: vec!["--config".to_owned(), settings], variables: Vec::new() })
    }

    fn says(&self, port: u16) -> (String, &'static str) {
        (format!("connections on 127.0.0.1:{port}"), "Server is ready")
    }

    fn url_ends(&self) -> (&'static str, &'static str) {
        ("nats", "")
    }
}
