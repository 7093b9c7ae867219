//! `cargo xtask services` against real brokers: who is let in, and that two runs do not meet.
//!
//! Where one cannot be had, these tests say so and pass, except in CI.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap says less, not more")]

mod place;

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use sendoff_brokers::{Broker, PASSWORD, READER, USER};

use crate::place::Place;

/// The port that a broker's exports name, which must be as they are promised.
fn port(broker: Broker, exports: &str) -> u16 {
    let begin = format!("export {}='", broker.url_variable());
    let url = exports.lines().find_map(|line| line.strip_prefix(&begin)?.strip_suffix('\''));
    let url = url.unwrap_or_else(|| panic!("{exports}"));
    let digits = url.rsplit(':').next().unwrap().split('/').next().unwrap();
    let port = digits.parse().unwrap();
    assert_eq!(url, broker.url(port));
    assert!(exports.contains(&format!("export {}='/", broker.program_variable())), "{exports}");
    port
}

/// Brings one up, or says why it cannot be had.
fn up(place: &Place, broker: Broker) -> Option<u16> {
    place.up(&format!("up {}", broker.name())).map(|exports| port(broker, &exports))
}

/// Whether a broker lets this user in, asked in its own protocol.
fn lets_in(broker: Broker, port: u16, user: &str, password: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    match broker {
        Broker::Nats => {
            let said =
                format!("CONNECT {{\"user\":\"{user}\",\"pass\":\"{password}\"}}\r\nPING\r\n");
            stream.write_all(said.as_bytes()).unwrap();
            heard_until(&mut stream, &["PONG", "Authorization Violation"]) == "PONG"
        }
        Broker::Redis => {
            write!(stream, "AUTH {user} {password}\r\n").unwrap();
            heard_until(&mut stream, &["+OK", "-WRONGPASS"]) == "+OK"
        }
        Broker::Rabbitmq => {
            stream.write_all(b"AMQP\0\0\x09\x01").unwrap();
            // The offer of its ways to log in, which ends with the languages it speaks.
            heard_until(&mut stream, &["en_US"]);
            let plain = format!("\0{user}\0{password}");
            let mut arguments = b"\0\x0a\0\x0b\0\0\0\0\x05PLAIN\0\0\0".to_vec();
            arguments.push(u8::try_from(plain.len()).unwrap());
            arguments.extend_from_slice(plain.as_bytes());
            arguments.extend_from_slice(b"\x05en_US");
            let mut frame = b"\x01\0\0\0\0\0".to_vec();
            frame.push(u8::try_from(arguments.len()).unwrap());
            frame.extend_from_slice(&arguments);
            frame.push(0xce);
            stream.write_all(&frame).unwrap();
            // It proposes limits, or closes: with a word to whoever said that it understands one.
            heard_until(&mut stream, &["\0\n\0\x1e", ""]) == "\0\n\0\x1e"
        }
        Broker::Mosquitto => {
            let text =
                |text: &str| [&[0, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
            let mut body = b"\0\x04MQTT\x04\xc2\0\x3c\0\x01a".to_vec();
            body.extend(text(user));
            body.extend(text(password));
            let mut packet = vec![0x10, u8::try_from(body.len()).unwrap()];
            packet.extend(body);
            stream.write_all(&packet).unwrap();
            let mut answer = [0; 4];
            stream.read_exact(&mut answer).is_ok() && answer == [0x20, 2, 0, 0]
        }
        other => panic!("{other:?} is not known here"),
    }
}

/// The first of these that is heard; the empty one at the end of the connection.
fn heard_until<'a>(stream: &mut TcpStream, any: &[&'a str]) -> &'a str {
    let (mut heard, mut bytes) = (Vec::new(), [0; 4096]);
    loop {
        let read = match stream.read(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::ConnectionReset => 0,
            read => read.unwrap_or_else(|error| panic!("{error}, after {heard:?}")),
        };
        heard.extend_from_slice(&bytes[..read]);
        let has = |what: &&&str| {
            let what = what.as_bytes();
            if what.is_empty() { read == 0 } else { heard.windows(what.len()).any(|it| it == what) }
        };
        match any.iter().find(has) {
            Some(found) => return found,
            None => assert!(read > 0, "the end, after {:?}", String::from_utf8_lossy(&heard)),
        }
    }
}

fn lets_in_whom_it_should(broker: Broker) {
    let place = Place::new(broker.name());
    let Some(port) = up(&place, broker) else { return };

    for user in [USER, READER] {
        assert!(lets_in(broker, port, user, PASSWORD), "{user}");
        assert!(!lets_in(broker, port, user, "guessed"), "{user}");
    }
    assert!(!lets_in(broker, port, "stranger", PASSWORD));

    let process = place.process();
    place.stdout("down");
    assert!(process.is_gone(), "it is down");
    assert!(place.is_empty());
}

#[test]
fn nats_lets_in_whom_it_should() {
    lets_in_whom_it_should(Broker::Nats);
}

#[test]
fn rabbitmq_lets_in_whom_it_should() {
    lets_in_whom_it_should(Broker::Rabbitmq);
}

#[test]
fn redis_lets_in_whom_it_should() {
    lets_in_whom_it_should(Broker::Redis);
}

#[test]
fn mosquitto_lets_in_whom_it_should() {
    lets_in_whom_it_should(Broker::Mosquitto);
}

/// Nodes of Erlang have names and ports that a whole machine shares, unless they are told otherwise.
#[test]
fn two_places_have_nodes_of_rabbitmq_of_their_own() {
    let (one, other) = (Place::new("one-node"), Place::new("other-node"));
    let (of_one, of_other) = std::thread::scope(|scope| {
        let of_other = scope.spawn(|| up(&other, Broker::Rabbitmq));
        (up(&one, Broker::Rabbitmq), of_other.join().unwrap())
    });
    let (Some(of_one), Some(of_other)) = (of_one, of_other) else { return };
    assert_ne!(of_one, of_other);

    let process = one.process();
    one.stdout("down");

    assert!(process.is_gone());
    assert!(lets_in(Broker::Rabbitmq, of_other, USER, PASSWORD));
}
