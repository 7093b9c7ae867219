//! What a server of a test's own needs of the machine: a port, and an account that may run it.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "test code, in a library")]

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::Path;
use std::process::Command;

/// Below what systems give to outgoing connections: one of those would have the port before the server has
/// made its data, and one that tries again while the server is down would even meet itself.
const PORTS: Range<u16> = 10_000..30_000;

/// A port on loopback that nobody listens on.
#[must_use]
pub fn free_port() -> u16 {
    let mut ports = std::iter::repeat_with(|| fastrand::u16(PORTS));
    ports.find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()).unwrap()
}

/// Whether this process may run others under another account; servers refuse to be run by root.
#[must_use]
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

/// Gives a folder and what is in it to the account that servers run under, where that is another.
pub fn own(folder: &Path, account: &str) {
    if is_root() {
        let owned = Command::new("chown").args(["-R", account]).arg(folder).status();
        assert!(owned.unwrap().success());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_port_is_none_of_those_that_outgoing_connections_get() {
        let given = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
        let first: Option<u16> =
            given.ok().and_then(|range| range.split_whitespace().next()?.parse().ok());
        for _ in 0..20 {
            assert!(free_port() < first.unwrap_or(PORTS.end));
        }
    }
}
