//! NATS JetStream.
//!
//! Each event is a message of one stream, on the subject that a template says. `Nats-Msg-Id` is its id and
//! the subject, so that the stream keeps an event once on a subject, however often it is delivered within the stream's duplicate window.
//!
//! Promise: an event is done when the stream has acknowledged it; the acknowledgements of a batch are awaited together. The
//! stream is there before anything is sent, and covers the subject, or the sink does not start.
//!
//! A connection that is lost is given up, with all that its client still had to send: the client never connects again by
//! itself, so that nothing is sent later by a connection that nobody listens to any more. What was in flight is unknown, is
//! delivered again over the next connection under the same id, and dropped by the stream where it had it. What a server
//! had received and not yet read, because it hung, is such a duplicate too.
//!
//! Headers whose names begin with `Nats-` are instructions to the server; those of an event are left out.
//!
//! Not here: streams that are changed, consumers, and core NATS without JetStream, which confirms nothing.

mod answer;
mod connect;
mod encode;
mod options;
mod sink;
mod stream;
mod subject;

pub use options::{NatsAuth, NatsOptions, NewStream};
pub use sink::NatsSink;
pub use subject::SUBJECT;
