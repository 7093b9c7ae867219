//! Every fixed limit, with its reason. Limits a user may tune are options; these are not.

use std::time::Duration;

/// Characters of an event type. Wide enough for reverse-domain names, narrow enough for an index.
pub const EVENT_TYPE_CHARS: usize = 128;
/// Characters of an aggregate type.
pub const AGGREGATE_TYPE_CHARS: usize = 64;
/// Characters of an aggregate id.
pub const AGGREGATE_ID_CHARS: usize = 128;
/// Characters of a tenant id.
pub const TENANT_ID_CHARS: usize = 64;
/// Tenants that one claim is shared among, where claims are fair: each is a step in an index, and a part of the
/// statement.
pub const TENANTS_SERVED: usize = 64;
/// Tenants that one claim walks over to find those, because others have rows that are not visible: delayed,
/// held, or in line. Each is two steps in an index.
pub const TENANTS_WALKED: usize = 1_024;
/// Tenants that may have a weight of their own.
pub const TENANT_WEIGHTS: usize = 1_000;
/// The most that a tenant weighs, where others weigh 1. More would leave those a row of a claim, whatever it is.
pub const TENANT_WEIGHT: u32 = 1_000;
/// Characters of an ordering key; as long as an aggregate id, which is the usual key.
pub const ORDERING_KEY_CHARS: usize = 128;
/// Characters of a content type. RFC 6838 allows 127 on each side of the slash; nobody uses them.
pub const CONTENT_TYPE_CHARS: usize = 128;
/// Bytes of a payload: 1 MiB, what common brokers accept in one message.
pub const PAYLOAD_BYTES: usize = 1_048_576;
/// Headers of one event. Trace context, tenancy and routing need a handful.
pub const HEADERS: usize = 64;
/// Characters of a header's name.
pub const HEADER_NAME_CHARS: usize = 128;
/// Bytes of all header names and values together; HTTP servers commonly refuse more than 32 KiB.
pub const HEADER_BYTES: usize = 32 * 1024;
/// Characters of a stored error text, so that a stack trace cannot bloat the table.
pub const ERROR_CHARS: usize = 4_000;
/// Characters of a node's name.
pub const OWNER_CHARS: usize = 128;
/// Characters of a table prefix or schema: PostgreSQL cuts names at 63 bytes, and ours add a suffix.
pub const IDENT_CHARS: usize = 40;
/// The longest delay a retry or a delayed event may ask for: ten years keeps every database's
/// timestamp arithmetic far from its edge.
pub const DELAY: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);
/// The longest a row may be held without an extension. A hold further ahead than this was made by
/// a clock that has since stepped back, and counts as run out.
pub const HOLD: Duration = Duration::from_secs(10 * 60);
/// Losses in a row that make an event a suspect. One crash is recovered from at full speed; an event
/// that was in two of them runs alone, so that it takes no neighbours with it.
pub const SUSPECT_LOSSES: u32 = 2;
/// Rows in one statement, whatever the options say: bounds memory and the size of one transaction.
pub const BATCH_ROWS: usize = 1_000;
/// How long a type of which no event ended stays in the counters by type: without a limit they would
/// grow with every type there ever was.
pub const TALLY: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Events of one `write_all`, which is one statement and so all or none, whenever its future is dropped.
/// MySQL takes 65,535 parameters in one, which is little more than this.
pub const WRITE_EVENTS: usize = 4_000;
/// Payload bytes of one `write_all`: far from where PostgreSQL refuses a message. The store for MySQL and
/// MariaDB has a lower limit of its own, since these servers refuse packets of 16 MiB.
pub const WRITE_BYTES: usize = 64 * 1024 * 1024;
/// Partitions that one pass of maintenance makes. More than a year of days ahead is a mistake of
/// units, and every one of them costs each poll a little.
pub const PARTITIONS_PER_PASS: usize = 400;
/// Characters of a tag's key; as long as an aggregate's type, which may be one.
pub const TAG_KEY_CHARS: usize = 64;
/// Characters of a tag's value; as long as an aggregate's id, which may be one.
pub const TAG_VALUE_CHARS: usize = 128;
/// Tags of one fact, and of one item of a query. Each is a row of an index.
pub const TAGS: usize = 64;
/// Facts of one append, which is one transaction.
pub const APPEND_FACTS: usize = 1_000;
/// Payload bytes of one append, which is one statement: far from where servers refuse a message.
pub const APPEND_BYTES: usize = 64 * 1024 * 1024;
/// Payload and header bytes of one reading of the journal, whatever its rows are: a few times as many
/// are in memory while it is taken in, and a line that is slow carries them in seconds.
pub const READ_BYTES: usize = 8 * 1024 * 1024;
/// How long a decision under locks may take: then the server takes them back, so that a process that
/// stops while it decides holds nobody up for long.
pub const DECISION: Duration = Duration::from_secs(3);
/// Facts that a journal keeps in memory for the next decision under locks about the same.
pub const SHELF_BYTES: usize = 16 * 1024 * 1024;
/// Items of a query. Each is looked up by itself.
pub const QUERY_ITEMS: usize = 256;
/// Types of one item of a query, and of a topic.
pub const QUERY_TYPES: usize = 256;
/// Characters of the name of a topic or a publisher.
pub const TOPIC_CHARS: usize = 128;
/// Characters of a consumer's name in an inbox; as long as a publisher's, which may be one.
pub const CONSUMER_CHARS: usize = 128;
/// How long remembering an event in an inbox, or settling it in the effect's transaction, waits for another
/// transaction that has the same, on PostgreSQL, where a wait has no end by itself. Longer than a short
/// transaction ever takes, and shorter than anybody waits for an answer.
pub const JOIN_WAIT: Duration = Duration::from_secs(10);
/// Characters of the name of who acts on an outbox: as wide as the widest column that keeps a name.
pub const ACTOR_CHARS: usize = 255;
/// Characters of why somebody acted: a sentence or a few, kept with every event it was done to.
pub const REASON_CHARS: usize = 500;
/// Dead letters of one page, and of one transaction that requeues or discards them: short for whoever
/// else uses the table.
pub const LETTERS: usize = 500;
/// Keys of one page: each is looked at by itself.
pub const KEYS: usize = 500;
/// Events of a key that are counted when somebody looks at it: beyond that the exact number is worth less than
/// the time.
pub const KEY_EVENTS: usize = 1_000;
/// Parked keys that are counted, for whoever watches.
pub const PARKED_KEYS: usize = 10_000;
/// Characters of a handler's name where it is paused by it; as long as an event type, which most handlers
/// are named after.
pub const HANDLER_CHARS: usize = 128;
/// Things that are paused at one time: every claim looks for each of them. Who needs more pauses all.
pub const PAUSES: usize = 100;
/// Locks of one append. A server has room for a few thousand in all, 64 for each connection by
/// default in PostgreSQL; whoever needs more locks the whole journal.
pub const JOURNAL_LOCKS: usize = 64;

/// Cuts `text` to at most `chars` characters, on a character boundary.
///
/// ```
/// assert_eq!(sendoff_core::limits::truncate("naïve", 3), "naï");
/// ```
pub fn truncate(text: &str, chars: usize) -> &str {
    match text.char_indices().nth(chars) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}
