//! RabbitMQ.
//!
//! Each event is a persistent message to the exchange, and with the routing key, that templates say. Its id is the property
//! `message_id`; attributes of its envelope, and its own headers, are headers.
//!
//! Promise: an event is done when RabbitMQ has confirmed it, and, unless [`RabbitmqOptions::mandatory`] is off, when at least
//! one queue has it. Confirmed and persistent in a durable queue, it outlives a crash of the server. An exchange that is the
//! same for all events is there before anything is sent, or the sink does not start.
//!
//! A batch has a channel of its own for as long as it is under way, because the client ties a returned message to whichever
//! confirmation comes next: what was returned is known by its id, once all of the batch is confirmed. What closes a channel
//! (an exchange that is not there, a message that is too large) takes the rest of its batch with it; what was not confirmed
//! by then is sent again, one by one, so that the one event fails alone.
//!
//! RabbitMQ drops no duplicates. What was in flight when a connection was lost is unknown, and sent again under the same id:
//! a consumer knows it by `message_id`.
//!
//! The headers `CC` and `BCC` are instructions to the server; those of an event are left out. The client logs returned
//! messages with their payload. It does so on a thread of its own, on which the sink turns `tracing` off.
//!
//! Not here: exchanges, queues and bindings that are made or changed; consumers; AMQP 1.0.

mod answer;
mod connect;
mod encode;
mod options;
mod routes;
mod sink;
mod window;

pub use encode::{EXCHANGE, ROUTING_KEY};
pub use options::{RabbitmqAuth, RabbitmqOptions};
pub use sink::RabbitmqSink;
