//! Signed requests over HTTP, one for each event.
//!
//! Each event is a `POST` with the payload as its body (in CloudEvents' structured mode, the object around it), signed after
//! [Standard Webhooks](https://www.standardwebhooks.com):
//!
//! | header | value |
//! |---|---|
//! | `webhook-id`, `idempotency-key` | the event's id, the same in every attempt |
//! | `webhook-timestamp` | seconds, of this attempt |
//! | `webhook-signature` | one of each secret: `v1,` (HMAC-SHA256) or `v1a,` (ed25519); two while one replaces another |
//!
//! Promise: an event is done when the receiver answered 2xx. The address that a request goes to is judged where it is
//! connected to, whatever the URL spells and whatever a resolver says a moment later: loopback, private, link-local, metadata
//! and translated addresses are refused unless an option allows them. No redirect is followed. A request has a total deadline, and of
//! an answer no more is read than a bound says. No proxy is used that an option does not name, whatever the environment says.
//!
//! A receiver that answers 410, or has not taken one event for five days, is left alone: the failure
//! [disables](sendoff_core::Failure::disable) the sink.
//!
//! Order: events of one ordering key, and facts of a journal, go one after the other; others go side by side.
//!
//! Not here: HTTP/2, and endpoints that are kept in a database; one sink has one URL, or a template of one.

mod answer;
mod connect;
mod encode;
mod guard;
mod options;
mod patience;
mod proxy;
mod sign;
mod sink;
#[cfg(feature = "webhook-tls")]
mod tls;
mod url;

pub use options::WebhookOptions;
pub use sink::WebhookSink;
