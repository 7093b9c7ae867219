//! `cargo xtask services` against a real PostgreSQL.
//!
//! Where none can be had, these tests say so and pass, except in CI.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap says less, not more")]

mod place;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

use crate::place::Place;

fn port(exports: &str) -> u16 {
    let url = exports
        .strip_prefix("export SENDOFF_POSTGRES_URL='postgres://postgres@127.0.0.1:")
        .and_then(|rest| rest.strip_suffix("/postgres'\n"));
    url.unwrap_or_else(|| panic!("{exports}")).parse().unwrap()
}

/// The port of a PostgreSQL that was started, or nothing where there can be none.
fn up(place: &Place, words: &str) -> Option<u16> {
    place.up(words).map(|exports| port(&exports))
}

/// Asks whether the server speaks TLS; only PostgreSQL answers with one of these letters.
fn answers(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(&[0, 0, 0, 8, 4, 210, 22, 47]).unwrap();
    let mut answer = [0];
    stream.read_exact(&mut answer).is_ok() && [b'N', b'S'].contains(&answer[0])
}

#[test]
fn a_server_is_up_until_it_is_taken_down() {
    let place = Place::new("up-down");
    let Some(first) = up(&place, "up postgres") else { return };

    assert!(answers(first));
    assert_eq!(port(&place.stdout("env")), first);
    assert!(place.stdout("status").starts_with("postgres up, fast, pid "));
    assert_eq!(up(&place, "up postgres"), Some(first), "a second `up` keeps what runs");
    assert!(!place.run("up postgres --durable").status.success(), "nor is its mode changed");

    let process = place.process();
    place.stdout("down");

    assert!(process.is_gone());
    assert_eq!(place.stdout("env"), "");
    assert_eq!(place.stdout("status"), "");
    assert!(place.is_empty());
    place.stdout("down");
}

#[test]
fn servers_stop_when_the_run_they_are_kept_for_is_gone() {
    let place = Place::new("keep");
    let Some(port) = up(&place, "up postgres --durable") else { return };
    let mut keeper = place.command("keep").stdin(Stdio::piped()).spawn().unwrap();
    assert!(answers(port));
    let process = place.process();

    // All that is left of a run that was killed: the end of a pipe.
    drop(keeper.stdin.take());

    assert!(keeper.wait().unwrap().success());
    assert!(process.is_gone());
    assert!(!place.0.exists());
}

#[test]
fn two_places_have_servers_of_their_own() {
    let (one, other) = (Place::new("one"), Place::new("other"));
    let Some(port_of_one) = up(&one, "up postgres") else { return };
    let Some(port_of_other) = up(&other, "up postgres") else { return };
    assert_ne!(port_of_one, port_of_other);

    let process = one.process();
    one.stdout("down");

    assert!(process.is_gone());
    assert!(answers(port_of_other));
}
