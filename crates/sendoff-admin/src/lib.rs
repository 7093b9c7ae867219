//! An outbox and a journal, over HTTP: dead letters are listed, seen, requeued and discarded; delivery is paused
//! and resumed; publishers
//! listed, seen, paused, resumed, reset and put back, and what they parked tried again or discarded. A router
//! of axum's, for a service of yours or by itself.
//!
//! ```
//! use sendoff_admin::{Admin, Bearer};
//! use sendoff_engine::journal::{Journal, MemoryJournal};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let journal = Journal::new(MemoryJournal::new()); // any store that has publishers
//! let token = Bearer::new("d6f2a9c04b7e4f1c8a35")?; // from your secrets
//!
//! let admin = Admin::new(&journal).token(token).router()?;
//! let service: axum::Router = axum::Router::new().merge(admin); // with your own routes
//! # Ok(())
//! # }
//! ```
//!
//! [`Admin::serve`] does without a service of yours:
//!
//! ```
//! use sendoff_admin::Admin;
//! use sendoff_engine::journal::{Journal, MemoryJournal};
//! use tokio::net::TcpListener;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let journal = Journal::new(MemoryJournal::new());
//! # let stop = async {};
//! let listener = TcpListener::bind("127.0.0.1:0").await?;
//! Admin::new(&journal).loopback_only().serve(listener, stop).await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Admin::outbox`] serves the dead letters of an outbox instead, and
//! [`with_outbox`](Admin::with_outbox) both; [`with_pauses`](Admin::with_pauses) adds what is paused,
//! [`with_keys`](Admin::with_keys) keys that are parked.
//!
//! | under `/api/outbox` | |
//! |---|---|
//! | `GET /events` | dead letters, in the order in which they died; by type, aggregate, tenant, time, error, attempts |
//! | `GET /events/{id}` | one event, dead or not, and what operators did to it; `?payload=true` |
//! | `POST /events/{id}/requeue` | it is tried again; `{"actor": "ada", "reason": "…"}` |
//! | `POST /events/{id}/discard` | it will not be delivered; the same |
//! | `POST /events/requeue`, `POST /events/discard` | all of a `filter`; `dry_run` counts |
//! | `GET /audit` | what operators did; `?event_id=` |
//! | `GET /pauses` | what is paused of an outbox, since when, by whom and why |
//! | `POST /pauses` | `{"scope": "type:order.mailed", "actor": "ada", "reason": "…"}`; or `all`, `handler:…` |
//! | `POST /pauses/resume` | the same, and it is delivered again |
//! | `GET /publishers` | all pairs of topic and publisher; `?publisher=`, `?topic=` |
//! | `GET /publishers/lag` | how far each lags, and the longest lag of all |
//! | `GET /publishers/{name}` | where a publisher is, in each of its topics |
//! | `POST /publishers/{name}/pause` | it stops after the batch it is at |
//! | `POST /publishers/{name}/resume` | it goes on where it was |
//! | `POST /publishers/{name}/reset` | the same for one that has failed; its errors are forgotten |
//! | `POST /publishers/{name}/rewind` | `{"position": 7}` or `{"time": "2026-01-31T12:00:00Z"}` |
//! | `GET /publishers/{name}/parked` | what it has parked |
//! | `POST /publishers/{name}/parked/retry` | is tried again now; `?position=` or `?all=true` |
//! | `POST /publishers/{name}/parked/discard` | will not be published; `?position=` or `?all=true` |
//! | `GET /openapi.json` | all of this as an OpenAPI 3.1 document |
//!
//! With `?topic=` one pair is meant, without it a publisher in all its topics. Lists come in pages:
//! `?limit=`, and `?after=` with what the page before gave as `next`. A publisher that is named `lag`
//! is found by `GET /publishers?publisher=lag`.
//!
//! Promise: nothing is answered without the token, unless you say [`loopback_only`](Admin::loopback_only);
//! the token is compared in constant time, and neither kept nor logged. Whatever goes wrong is one kind
//! of JSON (RFC 9457) that says why. There is a limit on everything: bodies, pages, requests at once,
//! time.
//!
//! Not here: TLS (serve it behind what has it), CORS (no page of another origin can use it), users and
//! roles (there is one token, and who acts is as the caller says), and what delivering and publishing is (see
//! `sendoff-engine`).

mod access;
mod admin;
mod answer;
mod desk;
mod document;
mod keys;
mod letters;
mod page;
mod parameter;
mod parked;
mod pauses;
mod places;
mod problem;
mod publishers;
mod routes;
mod serve;

pub use access::{Bearer, InvalidBearer};
pub use admin::{Admin, AdminError};
