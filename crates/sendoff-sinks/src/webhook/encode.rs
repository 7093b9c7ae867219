//! An event as a request.

use bytes::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue, InvalidHeaderValue, USER_AGENT};
use sendoff_core::{BoxError, Delivery, Timestamp};

use super::sign::Signer;
use super::url::{URL, Url};
use crate::envelope::{Binding, Envelope};
use crate::template::Template;

/// Who sends it.
const AGENT: &str = concat!("sendoff/", env!("CARGO_PKG_VERSION"));

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Where events go.
#[derive(Debug)]
pub(super) enum Target {
    /// The same URL for all.
    One(Url),
    /// One that is made of the event.
    OfEvent(Template),
}

impl Target {
    fn of(&self, delivery: &Delivery) -> Result<Url, BoxError> {
        match self {
            Self::One(url) => Ok(url.clone()),
            Self::OfEvent(template) => {
                let text = template.render(delivery)?;
                // What was rendered was checked to be one.
                Url::read(&text).map_err(|why| format!("the {} {why}", URL.what).into())
            }
        }
    }
}

/// What every request of a sink has.
#[derive(Debug)]
pub(super) struct Encoder {
    pub(super) target: Target,
    pub(super) envelope: Envelope,
    pub(super) headers: HeaderMap,
    pub(super) signer: Signer,
}

/// A request, but for what differs between attempts.
#[derive(Debug)]
pub(super) struct Encoded {
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    id: String,
}

impl Encoder {
    /// The request of an event. What the sink was told of headers, and what it says itself, wins over the event's own.
    pub(super) fn encode(&self, delivery: &Delivery) -> Result<Encoded, BoxError> {
        let url = self.target.of(delivery)?;
        let message = self.envelope.wrap(delivery, &Binding::HTTP)?;
        let mut headers = HeaderMap::with_capacity(message.attributes.len() + 8);
        for (name, value) in &message.attributes {
            headers.insert(HeaderName::from_bytes(name.as_bytes())?, value_of(value)?);
        }
        for (name, value) in &self.headers {
            headers.insert(name.clone(), value.clone());
        }
        let id = delivery.id().to_string();
        headers.insert(USER_AGENT, HeaderValue::from_static(AGENT));
        headers.insert(ID, value_of(&id)?);
        headers.insert(IDEMPOTENCY_KEY, value_of(&id)?);
        headers.remove(SIGNATURE);
        Ok(Encoded { url, headers, body: message.body, id })
    }

    /// Signs it for an attempt that begins now.
    pub(super) fn sign(&self, encoded: &mut Encoded, now: Timestamp) -> Result<(), BoxError> {
        let seconds = now.as_micros().div_euclid(1_000_000);
        encoded.headers.insert(TIMESTAMP, HeaderValue::from(seconds));
        if let Some(signature) = self.signer.signature(&encoded.id, seconds, &encoded.body) {
            encoded.headers.insert(SIGNATURE, value_of(&signature)?);
        }
        Ok(())
    }
}

/// In UTF-8.
fn value_of(value: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    HeaderValue::from_bytes(value.as_bytes())
}

/// Whether a sink may be told a header of this name.
pub(super) fn is_free(name: &HeaderName) -> bool {
    let ours = [&ID, &TIMESTAMP, &SIGNATURE, &IDEMPOTENCY_KEY, &USER_AGENT];
    !ours.contains(&name) && !Binding::HTTP.reserved.contains(&name.as_str())
}
