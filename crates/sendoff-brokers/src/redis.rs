//! Redis, which writes every change to its log before it answers.

use std::io;

use super::{Durability, Launch, PASSWORD, Place, READER, Recipe, USER};

pub(crate) struct Redis;

impl Recipe for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn program(&self) -> &'static str {
        "redis-server"
    }

    fn account(&self) -> &'static str {
        "redis"
    }

    fn url_variable(&self) -> &'static str {
        "SENDOFF_REDIS_URL"
    }

    fn program_variable(&self) -> &'static str {
        "SENDOFF_REDIS_SERVER"
    }

    fn launch(&self, place: &Place<'_>) -> io::Result<Launch> {
        let sync = match place.durability {
            // With `everysec` it answers before it writes for as long as a sync is under way, for up to two seconds:
            // killed then, it has lost what it confirmed.
            Durability::Fast => "no",
            Durability::Durable => "always",
        };
        let settings = format!(
            "bind 127.0.0.1\n\
             port {port}\n\
             dir \"{folder}\"\n\
             save \"\"\n\
             appendonly yes\n\
             appendfsync {sync}\n\
             user default off\n\
             user {USER} on >{PASSWORD} ~* &* +@all\n\
             user {READER} on >{PASSWORD} ~* &* +@read +@connection\n",
            port = place.port,
            folder = place.folder.display(),
        );
        let settings = place.write("redis.conf", &settings)?;
        Ok(Launch { arguments: vec![settings], variables: Vec::new() })
    }

    fn says(&self, port: u16) -> (String, &'static str) {
        (format!(" port={port}."), "Ready to accept connections")
    }

    fn url_ends(&self) -> (&'static str, &'static str) {
        ("redis", "/0")
    }
}
