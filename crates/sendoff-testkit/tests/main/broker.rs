//! Brokers of a test's own. Where one is not installed, its tests say so and pass, except in CI.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use sendoff_testkit::broker::{Broker, OwnBroker, PASSWORD, READER, USER};
use sendoff_testkit::process::{Node, say};

/// Far longer than an answer takes, and an eternity for a test.
const PATIENCE: Duration = Duration::from_secs(20);

/// A client's first words, after which a broker of this kind says something, whoever the client is.
fn greeting(broker: Broker) -> &'static [u8] {
    match broker {
        Broker::Nats => b"",
        Broker::Rabbitmq => b"AMQP\x00\x00\x09\x01",
        Broker::Redis => b"PING\r\n",
        Broker::Mosquitto => b"\x10\x0d\x00\x04MQTT\x04\x02\x00\x3c\x00\x01a",
        other => panic!("{other:?} is not known here"),
    }
}

/// What a client hears within this time; nothing where nobody listens or nobody answers.
fn answer(own: &OwnBroker, words: &[u8], patience: Duration) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", own.port())).ok()?;
    stream.set_read_timeout(Some(patience)).unwrap();
    stream.write_all(words).unwrap();
    let mut heard = [0; 4096];
    match stream.read(&mut heard) {
        Ok(0) => None,
        Ok(bytes) => Some(String::from_utf8_lossy(&heard[..bytes]).into_owned()),
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(error) => panic!("{error}"),
    }
}

/// Where a process listens, by either version of IP, as Linux writes it.
fn listening(pid: u32) -> Vec<String> {
    let at = |name: &str| format!("/proc/{pid}/{name}");
    let fds = fs::read_dir(at("fd")).unwrap().flatten();
    let links = fds.filter_map(|fd| fs::read_link(fd.path()).ok());
    let sockets: Vec<_> = links.map(|link| link.display().to_string()).collect();
    let tables =
        ["net/tcp", "net/tcp6"].map(|name| fs::read_to_string(at(name)).unwrap_or_default());
    let lines = tables.iter().flat_map(|table| table.lines().skip(1));
    let columns = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    let listens = "0A";
    let is_its = |inode: &str| sockets.contains(&format!("socket:[{inode}]"));
    let its = columns.filter(|columns| columns[3] == listens && is_its(columns[9]));
    its.map(|columns| columns[1].to_owned()).collect()
}

fn comes_and_goes(broker: Broker) {
    let Some(mut own) = OwnBroker::start(broker) else { return };
    let url = own.url();
    let greets = |own: &OwnBroker| answer(own, greeting(broker), PATIENCE).is_some();
    assert!(greets(&own));
    assert_eq!(listening(own.pid()), [format!("0100007F:{:04X}", own.port())], "on loopback alone");
    let first = own.pid();

    own.kill();
    assert!(!greets(&own), "it was killed");

    own.restart();
    assert!(greets(&own), "it is back");
    assert_ne!(own.pid(), first);
    assert_eq!(own.url(), url);

    own.freeze();
    let heard = answer(&own, greeting(broker), Duration::from_millis(300));
    assert_eq!(heard, None, "it is frozen");
    own.thaw();
    assert!(greets(&own), "it goes on");

    let last = own.pid();
    drop(own);
    assert!(!Path::new(&format!("/proc/{last}")).exists(), "it ended with the test");
}

#[test]
fn nats_comes_and_goes() {
    comes_and_goes(Broker::Nats);
}

#[test]
fn rabbitmq_comes_and_goes() {
    comes_and_goes(Broker::Rabbitmq);
}

#[test]
fn redis_comes_and_goes() {
    comes_and_goes(Broker::Redis);
}

#[test]
fn mosquitto_comes_and_goes() {
    comes_and_goes(Broker::Mosquitto);
}

#[test]
fn a_broker_that_is_frozen_can_be_started_again() {
    let Some(mut own) = OwnBroker::start(Broker::Redis) else { return };
    own.freeze();

    own.restart();

    assert!(answer(&own, greeting(Broker::Redis), PATIENCE).is_some());
}

/// What Redis says to a user's command, between what it says to the password and to the farewell.
fn redis(own: &OwnBroker, user: &str, command: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", own.port())).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "AUTH {user} {PASSWORD}\r\n{command}\r\nQUIT\r\n").unwrap();
    let mut heard = String::new();
    stream.read_to_string(&mut heard).unwrap();
    let said = heard.strip_prefix("+OK\r\n").and_then(|rest| rest.strip_suffix("\r\n+OK\r\n"));
    said.unwrap_or_else(|| panic!("{heard}")).to_owned()
}

#[test]
fn what_a_killed_broker_has_confirmed_is_there_when_it_is_back() {
    let Some(mut own) = OwnBroker::start(Broker::Redis) else { return };
    assert_eq!(redis(&own, USER, "XADD s 1-1 a b"), "$3\r\n1-1");

    own.kill();
    own.restart();

    assert_eq!(redis(&own, USER, "XLEN s"), ":1");
}

#[test]
fn a_reader_may_not_publish() {
    let Some(own) = OwnBroker::start(Broker::Redis) else { return };
    assert!(redis(&own, READER, "XADD s 1-1 a b").starts_with("-NOPERM"));
    assert_eq!(redis(&own, READER, "XLEN s"), ":0");
}

const PLAYS: &str = "SENDOFF_TEST_PLAYS_A_TEST_THAT_IS_KILLED";

#[test]
fn a_test_that_is_killed_leaves_no_broker_behind() {
    if std::env::var_os(PLAYS).is_some() {
        let own = OwnBroker::start(Broker::Redis);
        say(&format!("broker {}", own.as_ref().map_or(0, OwnBroker::pid)));
        loop {
            std::thread::park();
        }
    }
    let test = "broker::a_test_that_is_killed_leaves_no_broker_behind";
    // Nobody else removes what it leaves.
    let left = tempfile::tempdir().unwrap();
    let folder = left.path().to_str().unwrap();
    let mut node = Node::start(test, &[(PLAYS, "1"), ("TMPDIR", folder)]);
    let pid = node.says_within(PATIENCE, "broker ");
    if pid == "0" {
        return;
    }
    assert!(is_alive(&pid));

    node.child.kill().unwrap();
    node.child.wait().unwrap();

    let deadline = Instant::now() + PATIENCE;
    while is_alive(&pid) {
        assert!(Instant::now() < deadline, "{pid} lives on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// One that ended and that nobody has waited for yet is not.
fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z')))
}
