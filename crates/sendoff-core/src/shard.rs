use sha2::{Digest, Sha256};

use crate::id::EventId;

/// How many shards the key space has. Fixed at install: rows remember theirs.
pub const SHARDS: u8 = 64;

/// The shard of an event: by its ordering key, so that one key is always in one shard; else by its
/// id, so that load spreads.
///
/// The first byte of SHA-256 is something every database can compute itself, also where MD5 is
/// switched off; the last byte of a UUIDv7 or a ULID is random already.
pub fn shard_of(id: EventId, ordering_key: Option<&str>) -> u8 {
    let byte = match ordering_key {
        Some(key) => Sha256::digest(key.as_bytes())[0],
        None => id.as_bytes()[15],
    };
    byte % SHARDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_stays_in_its_shard_and_the_hash_never_changes() {
        // Stored in rows: a change of this number is a migration.
        assert_eq!(
            shard_of(EventId::generate(), Some("order-1")),
            shard_of(EventId::generate(), Some("order-1"))
        );
        assert_eq!(shard_of(EventId::generate(), Some("abc")), 0xba % 64);
    }

    #[test]
    fn events_without_a_key_spread() {
        let mut seen = [false; SHARDS as usize];
        for _ in 0..5_000 {
            seen[usize::from(shard_of(EventId::generate(), None))] = true;
        }
        assert!(seen.iter().all(|&s| s));
    }
}
