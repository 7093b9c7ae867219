//! What an answer means.

use std::time::{Duration, SystemTime};

use crate::class::Class;

/// How much of a URL an event chooses: of what it does, an answer may be about that event alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EventChooses {
    /// Nothing: the URL is the same for all.
    Nothing,
    /// Where at one host it goes. All go to one receiver.
    Path,
    /// The host: there is a receiver for each.
    Host,
}

/// What an answer means for the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Taken,
    NotTaken {
        class: Class,
        /// How long an unavailable receiver asked to be left alone.
        wait: Duration,
    },
    /// The receiver wants no more events, ever.
    Gone,
}

/// What a status means, from a receiver that asked to be left alone for so long, if it did.
pub(super) fn meaning(
    status: u16,
    retry_after: Option<Duration>,
    event_chooses: EventChooses,
) -> Meaning {
    use EventChooses::{Host, Nothing, Path};
    let class = match (status, event_chooses) {
        (200..=299, _) => return Meaning::Taken,
        // Of a URL that the event chooses a part of, it may be said of that part alone.
        (410, Nothing) => return Meaning::Gone,
        // It is too busy, full, or not there behind its gateway (some say so with numbers of their own): no event is to
        // blame.
        (429 | 502 | 503 | 504 | 507 | 521..=526 | 530, _) => Class::Unavailable,
        // What it was told about the sender is wrong, or the URL is: somebody has to put it right.
        (401 | 403 | 407 | 421, Nothing | Path) => Class::Misconfigured,
        (300..=399 | 404 | 405, Nothing) => Class::Misconfigured,
        // Either nothing is there for this event, or nothing is there at all for a moment, as while an ingress is told of a new
        // version.
        (300..=399 | 404 | 405 | 410, Path) => Class::RefusedNow { retry_after },
        (401 | 403 | 407 | 421, Host) => Class::RefusedNow { retry_after },
        // 409 is also what a receiver says that still works on the request before with the same `Idempotency-Key`.
        (408 | 409 | 423 | 425 | 500..=599, _) => Class::RefusedNow { retry_after },
        (300..=499, _) => Class::Poison,
        // None of HTTP's.
        _ => Class::RefusedNow { retry_after },
    };
    Meaning::NotTaken { class, wait: retry_after.unwrap_or_default() }
}

/// Reads `Retry-After`, seconds or a date, and bounds it. What is neither says nothing.
pub(super) fn retry_after(value: &str, now: SystemTime, most: Duration) -> Option<Duration> {
    let value = value.trim();
    let delay = match value.bytes().all(|b| b.is_ascii_digit()) && !value.is_empty() {
        // More digits than a number has are a long time too.
        true => Duration::from_secs(value.parse().unwrap_or(u64::MAX)),
        // A date that has passed is now.
        false => {
            httpdate::parse_http_date(value).ok()?.duration_since(now).unwrap_or(Duration::ZERO)
        }
    };
    Some(delay.min(most))
}

/// A receiver did not take an event.
#[derive(Debug, thiserror::Error)]
pub(super) enum Answered {
    #[error("the receiver answered {0}")]
    Status(u16),
    #[error(
        "the receiver answered {0}: redirects are not followed, `webhook.url` has to be where events are taken"
    )]
    Redirect(u16),
    #[error(
        "the receiver answered {0}: it refuses what this sink was told in `webhook.url`, `webhook.secrets` or `webhook.headers`"
    )]
    Misconfigured(u16),
}

impl Answered {
    pub(super) fn of(status: u16, class: Class) -> Self {
        match (status, class) {
            (300..=399, _) => Self::Redirect(status),
            (_, Class::Misconfigured) => Self::Misconfigured(status),
            _ => Self::Status(status),
        }
    }
}

/// A receiver wants no more events.
#[derive(Debug, thiserror::Error)]
#[error("the receiver answered 410: it wants no more events")]
pub(super) struct IsGone;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const HOUR: Duration = Duration::from_secs(3_600);

    fn class(status: u16, event_chooses: EventChooses) -> Option<Class> {
        match meaning(status, None, event_chooses) {
            Meaning::NotTaken { class, .. } => Some(class),
            Meaning::Taken | Meaning::Gone => None,
        }
    }

    #[test]
    fn each_answer_has_its_class() {
        for status in [200, 201, 202, 204, 299] {
            assert_eq!(meaning(status, None, EventChooses::Host), Meaning::Taken);
        }
        for status in [429, 502, 503, 504, 507, 521, 522, 523, 524, 525, 526, 530] {
            for event_chooses in [EventChooses::Nothing, EventChooses::Path, EventChooses::Host] {
                assert_eq!(class(status, event_chooses), Some(Class::Unavailable), "{status}");
            }
        }
        for status in [408, 409, 423, 425, 500, 501, 505, 599, 199, 600] {
            assert_eq!(class(status, EventChooses::Nothing), Some(Class::REFUSED_NOW), "{status}");
        }
        for status in [400, 402, 406, 411, 413, 414, 415, 418, 422, 431, 451, 499] {
            assert_eq!(class(status, EventChooses::Nothing), Some(Class::Poison), "{status}");
        }
        for status in [300, 301, 302, 303, 304, 307, 308, 401, 403, 404, 405, 407, 421] {
            assert_eq!(
                class(status, EventChooses::Nothing),
                Some(Class::Misconfigured),
                "{status}"
            );
        }
    }

    /// An ingress answers 404 for a moment, while a new version of what is behind it comes.
    #[test]
    fn at_one_host_an_answer_about_a_path_ends_no_event() {
        for status in [301, 302, 307, 308, 404, 405, 410] {
            assert_eq!(class(status, EventChooses::Path), Some(Class::REFUSED_NOW), "{status}");
        }
        for status in [401, 403, 407, 421] {
            assert_eq!(class(status, EventChooses::Path), Some(Class::Misconfigured), "{status}");
        }
        for status in [400, 406, 413, 414, 415, 422, 431] {
            assert_eq!(class(status, EventChooses::Path), Some(Class::Poison), "{status}");
        }
    }

    /// One tenant's receiver must not stop the others'.
    #[test]
    fn where_an_event_chooses_the_host_an_answer_is_about_that_event() {
        for status in [301, 307, 404, 405, 410] {
            assert_eq!(class(status, EventChooses::Host), Some(Class::Poison), "{status}");
        }
        for status in [401, 403] {
            assert_eq!(class(status, EventChooses::Host), Some(Class::REFUSED_NOW), "{status}");
        }
        assert_eq!(meaning(410, None, EventChooses::Nothing), Meaning::Gone);
    }

    #[test]
    fn a_receiver_says_how_long_it_wants_to_be_left_alone() {
        let asked = meaning(503, Some(SECOND), EventChooses::Nothing);
        assert_eq!(asked, Meaning::NotTaken { class: Class::Unavailable, wait: SECOND });
        let told = Class::RefusedNow { retry_after: Some(SECOND) };
        let asked = meaning(500, Some(SECOND), EventChooses::Nothing);
        assert_eq!(asked, Meaning::NotTaken { class: told, wait: SECOND });
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_and_bounded() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let read = |value| retry_after(value, now, HOUR);
        assert_eq!(read("0"), Some(Duration::ZERO));
        assert_eq!(read(" 120 "), Some(SECOND * 120));
        assert_eq!(read("3600"), Some(HOUR));
        assert_eq!(read("3601"), Some(HOUR));
        assert_eq!(read("99999999999999999999999999"), Some(HOUR));
        assert_eq!(read("Sun, 06 Nov 1994 08:50:37 GMT"), Some(SECOND * 60));
        assert_eq!(read("Sun, 06 Nov 1994 08:49:36 GMT"), Some(Duration::ZERO));
        assert_eq!(read("Fri, 31 Dec 9999 23:59:59 GMT"), Some(HOUR));
        for value in ["", "-1", "1.5", "soon", "\u{661}"] {
            assert_eq!(read(value), None, "{value}");
        }
    }
}
