//! What configures the sink.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;

use super::connect::Tls;
use super::encode::{Encoder, Target, is_free};
use super::guard::{Guard, Net};
use super::sign::Signer;
use super::url::{Host, Place, URL, Url, settled};
use crate::Secret;
use crate::class::Misconfigured;
use crate::envelope::EnvelopeOptions;
use crate::link::LinkOptions;
use crate::template::Template;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Keys at once: two of each kind.
const SECRETS: usize = 4;

/// Options of a [`WebhookSink`](super::WebhookSink).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WebhookOptions {
    /// The sink's name. `webhook`.
    pub name: String,
    /// Where events go, a template: `https://hooks.example/in/{type}`. What comes from an event is percent-encoded. There is
    /// no default.
    pub url: String,
    /// What requests are signed with: `whsec_` and a secret of 24 to 64 bytes in base64 for HMAC-SHA256, `whsk_` and a
    /// private key of 32 for ed25519. Two while one replaces another; up to 4. Without one the sink does not start.
    pub secrets: Vec<Secret>,
    /// Whether requests go unsigned where there is no secret: a receiver cannot tell who sent them. No.
    pub unsigned: bool,
    /// Headers of every request, such as `authorization`. None.
    pub headers: BTreeMap<String, Secret>,
    /// What travels beside the payload. Native.
    pub envelope: EnvelopeOptions,
    /// Whether an event may say which host it goes to: whoever writes events then chooses whom this process talks to, and all
    /// receivers share one circuit. No.
    pub host_from_event: bool,
    /// Addresses that requests may go to although they are private, loopback, link-local or otherwise not of the internet:
    /// `10.0.0.0/8`, `::1`. None.
    pub allow_addresses: Vec<String>,
    /// A proxy that requests go through, `http://host:port`: it is asked for a tunnel to the address that was judged here.
    /// Its own address is not judged. None, whatever the environment says.
    pub proxy: Option<String>,
    /// Certificates, in PEM, of authorities that are trusted beside those that the system trusts. None.
    pub ca_file: Option<PathBuf>,
    /// How long a request may take, from its connection to the answer's head. 15 s.
    #[serde(with = "sendoff_core::duration")]
    pub request_within: Duration,
    /// The longest that a receiver's `Retry-After` is followed. 1 h.
    #[serde(with = "sendoff_core::duration")]
    pub retry_after_most: Duration,
    /// How long a receiver may take nothing, with not one success, until the sink is disabled. 5 days.
    #[serde(with = "sendoff_core::duration")]
    pub disable_after: Duration,
    /// Events of a batch. 10: each is a request, and those of one key go one after the other.
    pub batch_events: usize,
    /// Requests of one batch at once. 4.
    pub requests_in_flight: usize,
    /// Deadlines and back-off.
    pub link: LinkOptions,
}

impl Default for WebhookOptions {
    fn default() -> Self {
        Self {
            name: "webhook".to_owned(),
            url: String::new(),
            secrets: Vec::new(),
            unsigned: false,
            headers: BTreeMap::new(),
            envelope: EnvelopeOptions::default(),
            host_from_event: false,
            allow_addresses: Vec::new(),
            proxy: None,
            ca_file: None,
            request_within: 15 * SECOND,
            retry_after_most: 3_600 * SECOND,
            disable_after: 5 * DAY,
            batch_events: 10,
            requests_in_flight: 4,
            link: LinkOptions::default(),
        }
    }
}

/// What they come to.
pub(super) struct Checked {
    pub(super) encoder: Encoder,
    pub(super) guard: Guard,
    pub(super) tls: Tls,
    pub(super) proxy: Option<Place>,
    /// Where all requests go, where that is the same for every event.
    pub(super) place: Option<Place>,
}

impl WebhookOptions {
    /// To this URL, signed with this secret.
    pub fn new(url: impl Into<String>, secret: impl Into<Secret>) -> Self {
        Self { url: url.into(), secrets: vec![secret.into()], ..Self::default() }
    }

    pub(super) fn check(&self) -> Result<Checked, Misconfigured> {
        self.link.check("webhook.link")?;
        let most = self.link.deliver_within;
        for (field, value, least, most) in [
            ("request_within", self.request_within, Duration::from_millis(1), most),
            ("retry_after_most", self.retry_after_most, Duration::ZERO, 30 * DAY),
            ("disable_after", self.disable_after, SECOND, 365 * DAY),
        ] {
            Misconfigured::unless_within(format!("webhook.{field}"), value, least, most)?;
        }
        let most = sendoff_core::limits::BATCH_ROWS as u64;
        Misconfigured::unless_from_to("webhook.batch_events", self.batch_events as u64, 1, most)?;
        let requests = self.requests_in_flight as u64;
        Misconfigured::unless_from_to("webhook.requests_in_flight", requests, 1, most)?;
        let guard = self.guard()?;
        let (target, place, is_tls) = self.target()?;
        if let Some(Place { host: Host::Address(address), .. }) = &place {
            guard.judge(*address).map_err(|refused| Misconfigured::new("webhook.url", refused))?;
        }
        let encoder = Encoder {
            target,
            envelope: self.envelope.check("webhook.envelope")?,
            headers: self.headers()?,
            signer: self.signer()?,
        };
        Ok(Checked { encoder, guard, tls: self.tls(is_tls)?, proxy: self.proxy()?, place })
    }

    /// Where events go, where all of them do, and whether it is over TLS.
    fn target(&self) -> Result<(Target, Option<Place>, bool), Misconfigured> {
        let wrong = |reason: &dyn std::fmt::Display| Misconfigured::new("webhook.url", reason);
        let template = Template::parse(&self.url, &URL).map_err(|error| wrong(&error))?;
        let read =
            |text: &str| Url::read(text).map_err(|why| wrong(&format_args!("the URL {why}")));
        if let Some(text) = template.constant() {
            let url = read(&text)?;
            let place = url.place.clone();
            let is_tls = place.is_tls;
            self.has_tls(is_tls)?;
            return Ok((Target::One(url), Some(place), is_tls));
        }
        let place = match settled(template.prefix()) {
            Some(before) => Some(read(&before)?.place),
            None if !self.host_from_event => {
                return Err(wrong(
                    &"its host depends on the event, which `webhook.host_from_event` allows",
                ));
            }
            None => None,
        };
        let is_tls = match template.prefix().split_once("://") {
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("https") => true,
            Some((scheme, _)) if scheme.eq_ignore_ascii_case("http") => false,
            _ => return Err(wrong(&"the URL begins neither with `https://` nor with `http://`")),
        };
        self.has_tls(is_tls)?;
        Ok((Target::OfEvent(template), place, is_tls))
    }

    fn has_tls(&self, is_tls: bool) -> Result<(), Misconfigured> {
        match is_tls && !cfg!(feature = "webhook-tls") {
            true => Err(Misconfigured::new("webhook.url", super::connect::Unconnected::NoTls)),
            false => Ok(()),
        }
    }

    #[cfg(feature = "webhook-tls")]
    fn tls(&self, is_tls: bool) -> Result<Tls, Misconfigured> {
        // Reading what the system trusts takes a while.
        is_tls.then(|| super::tls::Encrypt::new(self.ca_file.as_deref())).transpose()
    }

    #[cfg(not(feature = "webhook-tls"))]
    fn tls(&self, _: bool) -> Result<Tls, Misconfigured> {
        Ok(())
    }

    fn proxy(&self) -> Result<Option<Place>, Misconfigured> {
        let Some(text) = &self.proxy else { return Ok(None) };
        let wrong = |why| Misconfigured::new("webhook.proxy", why);
        let Url { uri, place } = Url::read(text).map_err(wrong)?;
        match (place.is_tls, uri.path_and_query().map(|path| path.as_str())) {
            (true, _) => {
                Err(wrong("is asked over plain HTTP; what goes through it is encrypted by itself"))
            }
            (false, None | Some("/")) => Ok(Some(place)),
            (false, Some(_)) => Err(wrong("has a path")),
        }
    }

    fn guard(&self) -> Result<Guard, Misconfigured> {
        let read = |(at, text): (usize, &String)| {
            let reason = "is no range of addresses such as `10.0.0.0/8`";
            Net::read(text)
                .ok_or_else(|| Misconfigured::new(format!("webhook.allow_addresses[{at}]"), reason))
        };
        let allowed =
            self.allow_addresses.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        Ok(Guard { allowed })
    }

    fn signer(&self) -> Result<Signer, Misconfigured> {
        if self.secrets.is_empty() && !self.unsigned {
            let reason = "there is none; `webhook.unsigned` says that requests go unsigned";
            return Err(Misconfigured::new("webhook.secrets", reason));
        }
        if self.secrets.len() > SECRETS {
            let reason = format_args!("there are {}; the most is {SECRETS}", self.secrets.len());
            return Err(Misconfigured::new("webhook.secrets", reason));
        }
        Signer::read(self.secrets.iter().map(Secret::expose))
            .map_err(|(at, why)| Misconfigured::new(format!("webhook.secrets[{at}]"), why))
    }

    fn headers(&self) -> Result<HeaderMap, Misconfigured> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let wrong = |why| Misconfigured::new(format!("webhook.headers.{name}"), why);
            let name: HeaderName = name.parse().map_err(|_| wrong("is no name of a header"))?;
            if !is_free(&name) {
                return Err(wrong("is a header that the sink writes itself"));
            }
            let value = HeaderValue::from_bytes(value.expose().as_bytes());
            let mut value = value.map_err(|_| wrong("has a value that no header can have"))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(headers)
    }
}
