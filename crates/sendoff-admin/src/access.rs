//! Who may ask.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Shorter tokens can be guessed.
const TOKEN_CHARS_MIN: usize = 16;
/// Longer ones fit into no header.
const TOKEN_CHARS_MAX: usize = 1_024;

/// What proxies add, if they are told to. Behind one of them every request comes from this machine.
const FORWARDED: [HeaderName; 6] = [
    HeaderName::from_static("forwarded"),
    HeaderName::from_static("via"),
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-real-ip"),
];

/// The token that requests must carry: `Authorization: Bearer …`.
///
/// Only its digest is kept, so that it cannot be printed, logged or found in memory.
///
/// ```
/// use sendoff_admin::Bearer;
///
/// let token = Bearer::new("d6f2a9c04b7e4f1c8a35")?;
/// assert!(!format!("{token:?}").contains("d6f2"));
/// assert!(Bearer::new("secret").is_err());
/// # Ok::<(), sendoff_admin::InvalidBearer>(())
/// ```
#[derive(Clone)]
pub struct Bearer([u8; 32]);

impl Bearer {
    /// Checks a token: 16 characters or more, of those that a header may have in this place.
    pub fn new(token: impl AsRef<str>) -> Result<Self, InvalidBearer> {
        let token = token.as_ref();
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        if !token.bytes().all(allowed) {
            return Err(InvalidBearer::Character);
        }
        if !(TOKEN_CHARS_MIN..=TOKEN_CHARS_MAX).contains(&token.len()) {
            return Err(InvalidBearer::Length { chars: token.len() });
        }
        Ok(Self(digest(token.as_bytes())))
    }

    /// In a time that says nothing about where the two differ.
    fn is(&self, given: &[u8]) -> bool {
        self.0.ct_eq(&digest(given)).into()
    }
}

fn digest(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bearer(…)")
    }
}

/// Not a token. It says nothing of what was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidBearer {
    /// It is too short to be safe, or too long for a header.
    #[error(
        "the token has {chars} characters; it needs between {TOKEN_CHARS_MIN} and \
         {TOKEN_CHARS_MAX}, best from `openssl rand -hex 32`"
    )]
    Length {
        /// How many it has.
        chars: usize,
    },
    /// It has a character that a bearer token cannot have.
    #[error("the token may have ASCII letters, digits and -._~+/= only")]
    Character,
}

/// What a request must show.
#[derive(Debug, Clone, Default)]
pub(crate) struct Access {
    pub(crate) token: Option<Bearer>,
    pub(crate) loopback_only: bool,
}

/// Why a request is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    NoToken,
    WrongToken,
    /// It does not come from this machine, or may not; with the reason.
    NotLocal(&'static str),
}

impl Access {
    pub(crate) fn check(
        &self,
        headers: &HeaderMap,
        peer: Option<SocketAddr>,
    ) -> Result<(), Refusal> {
        if self.loopback_only {
            is_local(headers, peer).map_err(Refusal::NotLocal)?;
        }
        match &self.token {
            None => Ok(()),
            Some(token) => match bearer(headers) {
                None => Err(Refusal::NoToken),
                Some(given) if token.is(given) => Ok(()),
                Some(_) => Err(Refusal::WrongToken),
            },
        }
    }
}

/// The one token of a request.
fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut all = headers.get_all(AUTHORIZATION).iter();
    let (value, None) = (all.next()?.as_bytes(), all.next()) else { return None };
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

/// Whether somebody on this machine asks, and no web page does it for somebody else: a page may send
/// requests to this machine from its visitor's browser, under a name of its own that it lets point
/// here.
fn is_local(headers: &HeaderMap, peer: Option<SocketAddr>) -> Result<(), &'static str> {
    let Some(peer) = peer else {
        return Err(
            "the peer's address is not known: serve the router with connect info, or give \
                    it a token",
        );
    };
    if !peer.ip().to_canonical().is_loopback() {
        return Err("only requests from this machine are answered");
    }
    if FORWARDED.iter().any(|name| headers.contains_key(name)) {
        return Err("the request came through a proxy: give the router a token");
    }
    let text = |name| headers.get(name).map(HeaderValue::to_str);
    let host = match text(HOST) {
        Some(Ok(host)) if is_local_host(host) => host,
        _ => return Err("the Host header must be localhost or an address of this machine"),
    };
    match text(ORIGIN) {
        None => Ok(()),
        Some(Ok(origin)) if origin.strip_prefix("http://") == Some(host) => Ok(()),
        Some(_) => Err("requests of other origins' pages are not answered"),
    }
}

fn is_local_host(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map(|(name, _)| name),
        None => host.split(':').next(),
    };
    name.is_some_and(|name| {
        name.eq_ignore_ascii_case("localhost")
            || name.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "0123456789abcdef";

    fn headers(list: &[(HeaderName, &str)]) -> HeaderMap {
        list.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect()
    }

    fn local() -> Option<SocketAddr> {
        Some(([127, 0, 0, 1], 4000).into())
    }

    #[test]
    fn a_token_is_long_and_plain_enough() {
        let chars = |n: usize| Bearer::new("a".repeat(n));
        assert!(matches!(chars(15), Err(InvalidBearer::Length { chars: 15 })));
        assert!(chars(16).is_ok() && chars(1_024).is_ok() && chars(1_025).is_err());
        for token in ["0123456789 abcdef", "0123456789\nabcdef", "0123456789ä0123456"] {
            assert!(matches!(Bearer::new(token), Err(InvalidBearer::Character)));
        }
    }

    #[test]
    fn the_token_is_compared_whole() {
        let access = Access { token: Some(Bearer::new(SECRET).unwrap()), loopback_only: false };
        let ask = |value: &str| access.check(&headers(&[(AUTHORIZATION, value)]), None);
        assert_eq!(ask("Bearer 0123456789abcdef"), Ok(()));
        assert_eq!(ask("bearer  0123456789abcdef"), Ok(()));
        for wrong in ["Bearer 0123456789abcde", "Bearer 0123456789abcdef0", "Bearer x", "Bearer  "]
        {
            assert_eq!(ask(wrong), Err(Refusal::WrongToken), "{wrong}");
        }
        for none in ["Basic 0123456789abcdef", "0123456789abcdef", "Bearer"] {
            assert_eq!(ask(none), Err(Refusal::NoToken), "{none}");
        }
        assert_eq!(access.check(&HeaderMap::new(), local()), Err(Refusal::NoToken));
        let mut twice = headers(&[(AUTHORIZATION, "Bearer 0123456789abcdef")]);
        twice.append(AUTHORIZATION, HeaderValue::from_static("Bearer x"));
        assert_eq!(access.check(&twice, None), Err(Refusal::NoToken));
    }

    #[test]
    fn without_a_token_only_this_machine_asks_and_no_page_for_it() {
        let access = Access { token: None, loopback_only: true };
        let ok = |list: &[(HeaderName, &str)]| access.check(&headers(list), local()).is_ok();
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:8080", "127.9.9.9", "[::1]:8080"] {
            assert!(ok(&[(HOST, host)]), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "10.0.0.1", "[::2]", "", "[::1"] {
            assert!(!ok(&[(HOST, host)]), "{host}");
        }
        assert!(!ok(&[]));
        let host = (HOST, "localhost:80");
        assert!(ok(&[host.clone(), (ORIGIN, "http://localhost:80")]));
        for origin in ["http://localhost:81", "https://evil.example", "null"] {
            assert!(!ok(&[host.clone(), (ORIGIN, origin)]), "{origin}");
        }
        for name in FORWARDED {
            assert!(!ok(&[host.clone(), (name, "10.0.0.1")]));
        }
        let good = headers(&[host]);
        for peer in ["10.0.0.1:1", "[2001:db8::1]:1", "0.0.0.0:1"] {
            assert!(access.check(&good, Some(peer.parse().unwrap())).is_err(), "{peer}");
        }
        for peer in ["[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(access.check(&good, Some(peer.parse().unwrap())).is_ok(), "{peer}");
        }
        assert!(access.check(&good, None).is_err());
    }
}
