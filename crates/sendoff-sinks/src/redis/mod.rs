//! Redis Streams.
//!
//! Each event is an entry of the stream that a template says: a field for each attribute of its envelope, one for each of its
//! headers (`header.NAME`), and its payload as `data`. Entries are added by pipelined `XADD`s.
//!
//! Promise: an event is done when Redis has answered with its entry, and, with [`RedisOptions::wait`], when so many replicas
//! have it. Whether that outlives a crash is the server's. With `appendonly yes` and `appendfsync always` it does. With
//! `everysec`, Redis answers before it writes while a sync is under way: what it said to have in the last two seconds can be
//! lost even when its process alone is killed. Without `appendonly`, everything since the last snapshot can.
//!
//! Redis drops no duplicates. What was in flight when a connection was lost is unknown, and added again under the same id: a
//! consumer knows it by `sendoff-id` (`ce-id`).
//!
//! Not here: clusters, sentinels, consumer groups.

mod answer;
mod encode;
mod options;
mod sink;

pub use encode::STREAM;
pub use options::{RedisAuth, RedisOptions, RedisWait};
pub use sink::RedisSink;
