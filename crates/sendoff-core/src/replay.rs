//! Replays: which delivered events are meant, and how far one has come.

use std::fmt;
use std::str::FromStr;

use crate::letter::{InvalidFilter, check_names, check_times, is};
use crate::{Event, Timestamp, limits};

/// Which delivered events are meant: those of which everything is true that is said here. Nothing said means
/// all of them.
///
/// ```
/// use sendoff_core::ReplayFilter;
///
/// let filter = ReplayFilter {
///     event_type: Some("order.placed".into()),
///     done_from: Some("2026-01-31T08:00:00Z".parse()?),
///     ..ReplayFilter::default()
/// };
/// assert!(filter.check().is_ok() && !filter.is_everything());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReplayFilter {
    /// With this ordering key.
    pub ordering_key: Option<String>,
    /// Of this type.
    pub event_type: Option<String>,
    /// About this kind of aggregate.
    pub aggregate_type: Option<String>,
    /// About this aggregate.
    pub aggregate_id: Option<String>,
    /// Of this tenant.
    pub tenant_id: Option<String>,
    /// Delivered at this time or later, by the database's clock.
    pub done_from: Option<Timestamp>,
    /// Delivered before this time.
    pub done_to: Option<Timestamp>,
}

impl ReplayFilter {
    /// Whether it leaves nothing out.
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it can be asked for.
    ///
    /// # Errors
    ///
    /// [`InvalidFilter`] names the field that is longer than any event has it, or the two that leave
    /// nothing between them.
    pub fn check(&self) -> Result<(), InvalidFilter> {
        let names = [
            ("ordering_key", &self.ordering_key, limits::ORDERING_KEY_CHARS),
            ("event_type", &self.event_type, limits::EVENT_TYPE_CHARS),
            ("aggregate_type", &self.aggregate_type, limits::AGGREGATE_TYPE_CHARS),
            ("aggregate_id", &self.aggregate_id, limits::AGGREGATE_ID_CHARS),
            ("tenant_id", &self.tenant_id, limits::TENANT_ID_CHARS),
        ];
        check_names(names)?;
        check_times(("done_from", self.done_from), ("done_to", self.done_to))
    }

    /// Whether an event is meant that was delivered at this time.
    pub fn means(&self, event: &Event, done_at: Timestamp) -> bool {
        is(&self.ordering_key, event.ordering_key())
            && is(&self.event_type, Some(event.event_type()))
            && is(&self.aggregate_type, Some(event.aggregate_type()))
            && is(&self.aggregate_id, event.aggregate_id())
            && is(&self.tenant_id, event.tenant_id())
            && self.done_from.is_none_or(|from| done_at >= from)
            && self.done_to.is_none_or(|to| done_at < to)
    }
}

/// The place of a delivered event among all: when it was delivered, then its number. A store without an index of
/// delivered rows goes by the number alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplayPosition {
    /// When it was delivered.
    pub done_at: Timestamp,
    /// Its number.
    pub seq: i64,
}

/// How far a replay has come: everything up to here was replayed, or skipped. Another one goes on from it, with
/// the same filter on the same table. Prints as one word, and is read from it.
///
/// ```
/// use sendoff_core::ReplayMark;
///
/// let mark: ReplayMark = "1769846400000000.1769842800000000.42".parse()?;
/// assert_eq!(mark.after.seq, 42);
/// assert_eq!(mark.to_string(), "1769846400000000.1769842800000000.42");
/// # Ok::<(), sendoff_core::InvalidMark>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReplayMark {
    /// What was delivered later than this is for another replay.
    pub until: Timestamp,
    /// The last event that was replayed before all that are left.
    pub after: ReplayPosition,
}

impl fmt::Display for ReplayMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { until, after } = self;
        write!(f, "{}.{}.{}", until.as_micros(), after.done_at.as_micros(), after.seq)
    }
}

/// A text is no mark of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a replay's mark is three whole numbers with points between them, as a replay printed it")]
pub struct InvalidMark;

impl FromStr for ReplayMark {
    type Err = InvalidMark;

    fn from_str(text: &str) -> Result<Self, InvalidMark> {
        let mut numbers = text.split('.').map(|number| number.parse::<i64>());
        let mut next = || numbers.next().and_then(Result::ok).ok_or(InvalidMark);
        let (until, done_at, seq) = (next()?, next()?, next()?);
        match numbers.next() {
            Some(_) => Err(InvalidMark),
            None => Ok(Self {
                until: Timestamp::from_micros(until),
                after: ReplayPosition { done_at: Timestamp::from_micros(done_at), seq },
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(set: impl FnOnce(&mut ReplayFilter)) -> ReplayFilter {
        let mut filter = ReplayFilter::default();
        set(&mut filter);
        filter
    }

    #[test]
    fn an_event_is_meant_if_everything_said_is_true_of_it() {
        let event = Event::builder("mail.wanted").aggregate_type("customer").aggregate_id("c1");
        let event = event.ordering_key("k1").json_text("{}").build();
        let event = event.unwrap_or_else(|invalid| panic!("{invalid}"));
        let at = |micros| Some(Timestamp::from_micros(micros));
        let text = |text: &str| Some(text.to_owned());
        let cases = [
            (filter(|_| {}), true),
            (filter(|f| f.ordering_key = text("k1")), true),
            (filter(|f| f.ordering_key = text("k")), false),
            (filter(|f| f.event_type = text("mail.wanted")), true),
            (filter(|f| f.event_type = text("mail")), false),
            (filter(|f| f.aggregate_type = text("order")), false),
            (filter(|f| f.aggregate_id = text("c1")), true),
            (filter(|f| f.tenant_id = text("t1")), false),
            (filter(|f| (f.done_from, f.done_to) = (at(20), at(21))), true),
            (filter(|f| f.done_from = at(21)), false),
            (filter(|f| f.done_to = at(20)), false),
        ];
        for (filter, meant) in cases {
            assert!(filter.check().is_ok(), "{filter:?}");
            assert_eq!(filter.means(&event, Timestamp::from_micros(20)), meant, "{filter:?}");
        }
        assert!(ReplayFilter::default().is_everything());
    }

    #[test]
    fn what_no_event_has_and_what_leaves_nothing_is_refused_by_its_name() {
        let refused = |filter: ReplayFilter| match filter.check() {
            Err(invalid) => invalid.to_string(),
            Ok(()) => panic!("{filter:?} is good"),
        };
        let long = |chars| Some("ä".repeat(chars));
        assert!(filter(|f| f.ordering_key = long(limits::ORDERING_KEY_CHARS)).check().is_ok());
        let key = filter(|f| f.ordering_key = long(limits::ORDERING_KEY_CHARS + 1));
        assert_eq!(refused(key), "ordering_key has 129 characters; the limit is 128");
        assert!(refused(filter(|f| f.tenant_id = Some("a\n".into()))).contains("tenant_id"));
        let now = Some(Timestamp::from_micros(2));
        let times = filter(|f| (f.done_from, f.done_to) = (now, now));
        assert!(refused(times).contains("done_to"));
    }

    #[test]
    fn a_mark_is_read_as_it_was_printed_and_nothing_else_is_one() {
        let mark = ReplayMark {
            until: Timestamp::from_micros(i64::MAX),
            after: ReplayPosition { done_at: Timestamp::from_micros(-5), seq: 42 },
        };
        assert_eq!(mark.to_string().parse(), Ok(mark));
        for wrong in ["", "1", "1.2", "1.2.3.4", "1.2.x", "1..3", "1.2.99999999999999999999"] {
            assert_eq!(wrong.parse::<ReplayMark>(), Err(InvalidMark), "{wrong}");
        }
    }
}
