//! The URL that an event goes to. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hyper::Uri;

use crate::envelope::percent_encode;
use crate::template::Shape;

/// The shape of a URL. What comes from an event is percent-encoded, and so is never more than a part of what it stands in.
pub(super) const URL: Shape = Shape {
    what: "URL",
    bytes: 8_192,
    takes: |c| c.is_ascii_graphic() && !r##""#<>\^`{|}"##.contains(c),
    expected: "what a URL may have, without a fragment",
    whole: |text| Url::read(text).map(drop),
    encode: Some(percent_encode),
    ..Shape::TEXT
};

/// A URL that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Url {
    pub(super) uri: Uri,
    pub(super) place: Place,
}

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) is_tls: bool,
    pub(super) host: Host,
    pub(super) port: u16,
}

/// A host as it stands in a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Host {
    Address(IpAddr),
    /// Without a dot at its end.
    Name(String),
}

impl Url {
    /// Reads one. The error goes on after "the URL".
    pub(super) fn read(text: &str) -> Result<Self, &'static str> {
        let uri: Uri = text.parse().map_err(|_| "is none")?;
        let place = Place::of(&uri)?;
        // Servers resolve them, and a part of an event must not choose another place on its host.
        if uri.path().split('/').any(is_dots) {
            return Err("has `.` or `..` for a part of its path");
        }
        Ok(Self { uri, place })
    }
}

impl Place {
    /// Of a URL with a host.
    pub(super) fn of(uri: &Uri) -> Result<Self, &'static str> {
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("begins neither with `https://` nor with `http://`"),
        };
        let authority = uri.authority().ok_or("has no host")?;
        if authority.as_str().contains('@') {
            return Err("has a name or a password in it; `webhook.headers` is the place for these");
        }
        let host = authority.host();
        let port = match authority.as_str().strip_prefix(host) {
            Some("") if is_tls => 443,
            Some("") => 80,
            Some(port) => port
                .strip_prefix(':')
                .and_then(|port| port.parse().ok())
                .filter(|port| *port > 0)
                .ok_or("has a port that is none")?,
            None => return Err("has a host that is none"),
        };
        Ok(Self { is_tls, host: Host::read(host)?, port })
    }
}

impl Host {
    /// Reads a host as strictly as it can be written: what some resolvers take for an address (`2130706433`, `0x7f.1`,
    /// `127.1`) is no name, and has no business here.
    fn read(text: &str) -> Result<Self, &'static str> {
        if let Some(inner) = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
            let address = inner.parse::<Ipv6Addr>();
            return address
                .map(|address| Self::Address(address.into()))
                .map_err(|_| "has an IPv6 address that is none; zones are not taken");
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        if let Ok(address) = name.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        let last = name.rsplit('.').next().unwrap_or_default();
        let hex = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if is_number(last) || hex.is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit())) {
            return Err("has a number for its host that is not four decimal numbers");
        }
        let is_label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        };
        match name.len() <= 253 && name.split('.').all(is_label) {
            true => Ok(Self::Name(name.to_ascii_lowercase())),
            false => Err("has a host that is no name; it takes letters, digits, `-`, `_` and dots"),
        }
    }
}

/// Whether a part of a path stands for another, percent-encoded or not.
fn is_dots(part: &str) -> bool {
    let part = part.to_ascii_lowercase().replace("%2e", ".");
    part == "." || part == ".."
}

/// The part of a template's text before its first field that settles where a request goes, as a URL; none where an event
/// has a say in that.
pub(super) fn settled(before: &str) -> Option<String> {
    let (scheme, rest) = before.split_once("://")?;
    let (authority, _) = rest.split_once(['/', '?'])?;
    Some(format!("{scheme}://{authority}/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(url: &str) -> Result<Host, &'static str> {
        Url::read(url).map(|url| url.place.host)
    }

    #[test]
    fn a_url_says_where_a_request_goes() {
        let place = |url| Url::read(url).unwrap().place;
        let name = |name: &str| Host::Name(name.to_owned());
        let hooks = Place { is_tls: true, host: name("hooks.example"), port: 443 };
        assert_eq!(place("https://hooks.example"), hooks);
        assert_eq!(place("https://Hooks.Example./in?a=b"), hooks);
        let plain = Place { is_tls: false, host: name("hooks_1.example"), port: 80 };
        assert_eq!(place("http://hooks_1.example/"), plain);
        let v6 = Host::Address("2606::1".parse().unwrap());
        assert_eq!(place("https://[2606::1]:8443/"), Place { is_tls: true, host: v6, port: 8443 });
    }

    /// Holds fault 34: what a resolver or a reader of another kind would take for an address is none.
    #[test]
    fn odd_spellings_of_hosts_are_refused() {
        for odd in [
            "2130706433",
            "0x7f000001",
            "0X7F000001",
            "017700000001",
            "0x7f.1",
            "0x7f.0.0.1",
            "0177.0.0.1",
            "127.1",
            "127.0.1",
            "127.0.0.01",
            "127.0.0.256",
            "127.0.0.1.1",
            "0",
            "0x",
            "1.2.3.0x4",
            "a.1",
            "127.0.0.1..",
            "127.0.0.1%00",
            "127%2e0%2e0%2e1",
            "[::1%25eth0]",
            "[fe80::1%eth0]",
            "[::ffff:7f.1]",
            "[127.0.0.1]",
            "[::1",
            "::1",
            "[]",
            "localhost%00.example",
            "a..b",
            ".a",
            "a b",
            "a\u{3002}b",
            "\u{2460}27.0.0.1",
            "",
            "user@127.0.0.1",
            "good.example@127.0.0.1",
            "user:word@a",
            "a:0",
            "a:x",
            "a:65536",
            "a:",
            "a:80:80",
            "a\\@b",
        ] {
            assert!(Url::read(&format!("http://{odd}/")).is_err(), "{odd}");
        }
        for (literal, address) in [
            ("127.0.0.1", "127.0.0.1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("[::ffff:127.0.0.1]", "::ffff:127.0.0.1"),
            ("[::ffff:7f00:1]", "::ffff:127.0.0.1"),
            ("[0:0:0:0:0:0:0:1]", "::1"),
        ] {
            let expected = Host::Address(address.parse().unwrap());
            assert_eq!(host(&format!("http://{literal}/")), Ok(expected), "{literal}");
        }
    }

    #[test]
    fn what_is_no_webhook_is_refused() {
        for url in
            ["", "/in", "hooks.example", "ftp://a/", "file:///etc/passwd", "https:///in", "//a/in"]
        {
            assert!(Url::read(url).is_err(), "{url}");
        }
        for dots in ["a/../b", "..", ".", "a/%2e%2E/b", "a/.%2e"] {
            assert!(Url::read(&format!("https://a/{dots}")).is_err(), "{dots}");
        }
        assert!(Url::read("https://a/...").is_ok());
    }

    #[test]
    fn an_event_has_a_say_in_the_host_unless_that_is_settled_before() {
        let settled = |text| settled(text);
        assert_eq!(settled("https://a.example/in/").as_deref(), Some("https://a.example/"));
        assert_eq!(settled("https://a.example:1?x=").as_deref(), Some("https://a.example:1/"));
        for open in ["", "https", "https://", "https://a.example", "https://a.example:"] {
            assert_eq!(settled(open), None, "{open}");
        }
    }
}
