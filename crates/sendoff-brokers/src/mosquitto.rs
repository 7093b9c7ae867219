//! Mosquitto, which writes what it keeps when it ends in good order, and not when it is killed.

use std::io;

use super::{Launch, Place, READER, Recipe, USER};

pub(crate) struct Mosquitto;

/// What `mosquitto_passwd` makes of the password.
const HASHED: &str = "$7$101$c2VuZG9mZnRlc3Rz$gGcSOumOhKspXyHMjsRidM5VnYnQJU/xkCMp/X6tRcozDWu3qP5ddKghmAyg\
                      LiTL3REDmbIwcOj1FkuOQEyo2w==";

/// Bytes of a packet, and of a payload, at most. A broker tells clients of the one, and not of the other.
const PACKET_BYTES: usize = 3 * 1024 * 1024;
const PAYLOAD_BYTES: usize = 2 * 1024 * 1024;

impl Recipe for Mosquitto {
    fn name(&self) -> &'static str {
        "mosquitto"
    }

    fn program(&self) -> &'static str {
        "mosquitto"
    }

    fn account(&self) -> &'static str {
        "mosquitto"
    }

    fn url_variable(&self) -> &'static str {
        "SENDOFF_MQTT_URL"
    }

    fn program_variable(&self) -> &'static str {
        "SENDOFF_MQTT_SERVER"
    }

    fn launch(&self, place: &Place<'_>) -> io::Result<Launch> {
        let passwords = format!("{USER}:{HASHED}\n{READER}:{HASHED}\n");
        let passwords = place.write("passwords", &passwords)?;
        let rights = format!("user {USER}\ntopic readwrite #\nuser {READER}\ntopic read #\n");
        let rights = place.write("rights", &rights)?;
        let settings = format!(
            "listener {port} 127.0.0.1\n\
             allow_anonymous false\n\
             password_file {passwords}\n\
             acl_file {rights}\n\
             persistence true\n\
             persistence_location {folder}/\n\
             # Nothing that waits for a subscriber is dropped.\n\
             max_queued_messages 0\n\
             # Small, so that a test can exceed them.\n\
             max_packet_size {PACKET_BYTES}\n\
             message_size_limit {PAYLOAD_BYTES}\n\
             log_dest stderr\n\
             # Started by root, it goes on as root, and can write to its folder.\n\
             user root\n",
            port = place.port,
            folder = place.folder.display(),
        );
        let settings = place.write("mosquitto.conf", &settings)?;
        Ok(Launch { arguments: vec!["-c".to_owned(), settings], variables: Vec::new() })
    }

    fn says(&self, port: u16) -> (String, &'static str) {
        (format!("listen socket on port {port}."), " running")
    }

    fn url_ends(&self) -> (&'static str, &'static str) {
        ("mqtt", "")
    }
}
