//! What an answer of Redis means.

use redis::{ErrorKind, RedisError};

use crate::class::{Class, Misconfigured, Trouble};

/// Redis did not take an event. Its own words are left out: they can repeat a command.
#[derive(Debug, thiserror::Error)]
#[error("Redis refused the event: {code}")]
pub(super) struct Refused {
    code: String,
}

/// Fewer replicas have the event than were asked for.
#[derive(Debug, thiserror::Error)]
#[error("{had} replicas have the event, of {wanted} that were waited for")]
pub(super) struct TooFew {
    pub(super) had: u64,
    pub(super) wanted: u32,
}

/// What follows for the event, and for the connection.
#[derive(Debug)]
pub(super) enum Follows {
    /// The event has this class; the connection is as good as before.
    Event(Class, sendoff_core::BoxError),
    /// The connection is given up.
    Reopen(Trouble),
}

/// What an error means.
pub(super) fn follows(error: RedisError) -> Follows {
    if error.kind() == ErrorKind::AuthenticationFailed {
        return Follows::Reopen(not_known().into());
    }
    let Some(code) = error.code().map(str::to_owned) else {
        return Follows::Reopen(Trouble::unavailable(Lost(error)));
    };
    let wrong = |path, reason| {
        Follows::Event(Class::Misconfigured, Misconfigured::new(path, reason).into())
    };
    let class = match &*code {
        "NOAUTH" | "WRONGPASS" => return Follows::Reopen(not_known().into()),
        // Another server may be the one to write to by now.
        "READONLY" | "MASTERDOWN" => {
            return Follows::Reopen(Trouble::unavailable(Refused { code }));
        }
        "NOPERM" => return wrong("redis.auth", "has no permission for what the sink does"),
        "WRONGTYPE" => return wrong("redis.stream", "is a key that holds no stream"),
        "MOVED" | "ASK" | "CROSSSLOT" => {
            return wrong("redis.server", "is a node of a cluster, which this sink does not know");
        }
        // Full, starting, busy, or without a disk to write to.
        "OOM" | "LOADING" | "CLUSTERDOWN" | "TRYAGAIN" | "BUSY" | "MISCONF" | "NOREPLICAS" => {
            Class::Unavailable
        }
        _ => Class::REFUSED_NOW,
    };
    Follows::Event(class, Refused { code }.into())
}

/// Why there is no connection, or none that can be used.
pub(super) fn trouble(error: RedisError) -> Trouble {
    match follows(error) {
        Follows::Reopen(trouble) => trouble,
        Follows::Event(_, error) => match error.downcast::<Misconfigured>() {
            Ok(wrong) => Trouble::Misconfigured(*wrong),
            Err(error) => Trouble::Unavailable(error),
        },
    }
}

fn not_known() -> Misconfigured {
    Misconfigured::new("redis.auth", "the server refuses it")
}

#[derive(Debug, thiserror::Error)]
#[error("no connection to Redis; whether it has what was under way is not known")]
struct Lost(#[source] RedisError);

#[cfg(test)]
mod tests {
    use redis::make_extension_error;

    use super::*;

    #[test]
    fn each_answer_has_its_class() {
        for (code, class) in [
            ("OOM", Class::Unavailable),
            ("LOADING", Class::Unavailable),
            ("CLUSTERDOWN", Class::Unavailable),
            ("MISCONF", Class::Unavailable),
            ("WRONGTYPE", Class::Misconfigured),
            ("NOPERM", Class::Misconfigured),
            ("MOVED", Class::Misconfigured),
            ("ERR", Class::REFUSED_NOW),
        ] {
            let error = make_extension_error(code.to_owned(), Some("canary".to_owned()));
            match follows(error) {
                Follows::Event(found, error) => {
                    assert_eq!(found, class, "{code}");
                    assert!(!format!("{error} {error:?}").contains("canary"));
                }
                Follows::Reopen(trouble) => panic!("{code}: {trouble}"),
            }
        }
        for (code, class) in [
            ("READONLY", Class::Unavailable),
            ("NOAUTH", Class::Misconfigured),
            ("WRONGPASS", Class::Misconfigured),
        ] {
            match follows(make_extension_error(code.to_owned(), None)) {
                Follows::Reopen(trouble) => assert_eq!(trouble.class(), class, "{code}"),
                Follows::Event(..) => panic!("{code}"),
            }
        }
    }
}
