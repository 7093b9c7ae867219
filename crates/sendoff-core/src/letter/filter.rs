//! Which dead letters are meant.

use super::Letter;
use crate::invalid::InvalidEvent;
use crate::{Timestamp, limits, name};

/// Which dead letters are meant: those of which everything is true that is said here. Nothing said means
/// all of them.
///
/// ```
/// use sendoff_core::LetterFilter;
///
/// let filter = LetterFilter {
///     event_type: Some("mail.wanted".into()),
///     error: Some("550 mailbox unavailable".into()),
///     ..LetterFilter::default()
/// };
/// assert!(filter.check().is_ok() && !filter.is_everything());
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LetterFilter {
    /// Of this type.
    pub event_type: Option<String>,
    /// About this kind of aggregate.
    pub aggregate_type: Option<String>,
    /// About this aggregate.
    pub aggregate_id: Option<String>,
    /// Of this tenant.
    pub tenant_id: Option<String>,
    /// Died at this time or later.
    pub died_from: Option<Timestamp>,
    /// Died before this time.
    pub died_to: Option<Timestamp>,
    /// With this in the text of the last error: letter by letter, no pattern.
    pub error: Option<String>,
    /// After so many attempts or more.
    pub attempts_least: Option<u32>,
    /// After so many attempts or fewer.
    pub attempts_most: Option<u32>,
}

impl LetterFilter {
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
            ("event_type", &self.event_type, limits::EVENT_TYPE_CHARS),
            ("aggregate_type", &self.aggregate_type, limits::AGGREGATE_TYPE_CHARS),
            ("aggregate_id", &self.aggregate_id, limits::AGGREGATE_ID_CHARS),
            ("tenant_id", &self.tenant_id, limits::TENANT_ID_CHARS),
        ];
        check_names(names)?;
        if let Some(error) = &self.error {
            check_error(error)?;
        }
        check_times(("died_from", self.died_from), ("died_to", self.died_to))?;
        if let (Some(least), Some(most)) = (self.attempts_least, self.attempts_most)
            && least > most
        {
            return Err(InvalidFilter::Empty { least: "attempts_least", most: "attempts_most" });
        }
        Ok(())
    }

    /// Whether a letter is meant.
    pub fn means(&self, letter: &Letter) -> bool {
        is(&self.event_type, Some(&letter.event_type))
            && is(&self.aggregate_type, Some(&letter.aggregate_type))
            && is(&self.aggregate_id, letter.aggregate_id.as_deref())
            && is(&self.tenant_id, letter.tenant_id.as_deref())
            && self.died_from.is_none_or(|from| letter.died_at >= from)
            && self.died_to.is_none_or(|to| letter.died_at < to)
            && self.attempts_least.is_none_or(|least| letter.attempts >= least)
            && self.attempts_most.is_none_or(|most| letter.attempts <= most)
            && self.error.as_deref().is_none_or(|wanted| {
                letter.last_error.as_deref().is_some_and(|error| error.contains(wanted))
            })
    }
}

/// Whether each text that is asked for is one that an event may have.
pub(crate) fn check_names<'t>(
    names: impl IntoIterator<Item = (&'static str, &'t Option<String>, usize)>,
) -> Result<(), InvalidEvent> {
    let said =
        names.into_iter().filter_map(|(field, text, limit)| Some((field, text.as_ref()?, limit)));
    for (field, text, limit) in said {
        name::check(field, text, limit)?;
    }
    Ok(())
}

/// Whether something lies between two times.
pub(crate) fn check_times(
    (least, from): (&'static str, Option<Timestamp>),
    (most, to): (&'static str, Option<Timestamp>),
) -> Result<(), InvalidFilter> {
    match from.zip(to) {
        Some((from, to)) if from >= to => Err(InvalidFilter::Empty { least, most }),
        _ => Ok(()),
    }
}

/// Whether what was found is what is wanted, where anything is.
pub(crate) fn is(wanted: &Option<String>, found: Option<&str>) -> bool {
    wanted.as_deref().is_none_or(|wanted| Some(wanted) == found)
}

/// An error may have several lines, so its text may be asked for with them.
fn check_error(text: &str) -> Result<(), InvalidEvent> {
    let field = "error";
    if text.is_empty() {
        return Err(InvalidEvent::Empty { field });
    }
    let (chars, limit) = (text.chars().count(), limits::ERROR_CHARS);
    if chars > limit {
        return Err(InvalidEvent::TooLong { field, chars, limit });
    }
    // No stored error has it, and PostgreSQL would refuse it.
    if text.contains('\0') {
        return Err(InvalidEvent::Character { field, character: '\0' });
    }
    Ok(())
}

/// Why a filter was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidFilter {
    /// A text is one that no event has.
    #[error(transparent)]
    Text(#[from] InvalidEvent),
    /// Two bounds leave nothing between them.
    #[error("nothing lies between {least} and {most}: exchange them, or leave one out")]
    Empty {
        /// The lower bound.
        least: &'static str,
        /// The upper one.
        most: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EventId;

    fn letter() -> Letter {
        Letter {
            id: EventId::from_bytes([7; 16]),
            seq: 1,
            event_type: "mail.wanted".into(),
            aggregate_type: "customer".into(),
            aggregate_id: Some("c1".into()),
            tenant_id: None,
            attempts: 10,
            created_at: Timestamp::from_micros(10),
            died_at: Timestamp::from_micros(20),
            last_error: Some("550 100% full_\\".into()),
        }
    }

    fn filter(set: impl FnOnce(&mut LetterFilter)) -> LetterFilter {
        let mut filter = LetterFilter::default();
        set(&mut filter);
        filter
    }

    #[test]
    fn a_letter_is_meant_if_everything_said_is_true_of_it() {
        let at = |micros| Some(Timestamp::from_micros(micros));
        let text = |text: &str| Some(text.to_owned());
        let cases = [
            (filter(|_| {}), true),
            (filter(|f| f.event_type = text("mail.wanted")), true),
            (filter(|f| f.event_type = text("mail")), false),
            (filter(|f| f.aggregate_type = text("order")), false),
            (filter(|f| f.aggregate_id = text("c1")), true),
            (filter(|f| f.tenant_id = text("t1")), false),
            (filter(|f| (f.died_from, f.died_to) = (at(20), at(21))), true),
            (filter(|f| f.died_from = at(21)), false),
            (filter(|f| f.died_to = at(20)), false),
            (filter(|f| (f.attempts_least, f.attempts_most) = (Some(10), Some(10))), true),
            (filter(|f| f.attempts_least = Some(11)), false),
            (filter(|f| f.attempts_most = Some(9)), false),
            (filter(|f| f.error = text("100% full_\\")), true),
            (filter(|f| f.error = text("1__%")), false),
        ];
        for (filter, meant) in cases {
            assert!(filter.check().is_ok(), "{filter:?}");
            assert_eq!(filter.means(&letter()), meant, "{filter:?}");
        }
        assert!(LetterFilter::default().is_everything());
    }

    #[test]
    fn what_no_event_has_and_what_leaves_nothing_is_refused_by_its_name() {
        let at = |micros| Some(Timestamp::from_micros(micros));
        let refused = |filter: LetterFilter| filter.check().unwrap_err().to_string();
        let long = |chars| Some("ä".repeat(chars));
        assert!(filter(|f| f.event_type = long(limits::EVENT_TYPE_CHARS)).check().is_ok());
        assert_eq!(
            refused(filter(|f| f.event_type = long(limits::EVENT_TYPE_CHARS + 1))),
            "event_type has 129 characters; the limit is 128"
        );
        assert!(refused(filter(|f| f.tenant_id = Some("a\n".into()))).contains("tenant_id"));
        assert!(filter(|f| f.error = Some("a\nb".into())).check().is_ok());
        assert!(filter(|f| f.error = long(limits::ERROR_CHARS)).check().is_ok());
        assert!(refused(filter(|f| f.error = long(limits::ERROR_CHARS + 1))).contains("4000"));
        assert!(refused(filter(|f| f.error = Some(String::new()))).contains("empty"));
        assert!(refused(filter(|f| f.error = Some("a\0".into()))).contains("error"));
        assert!(refused(filter(|f| (f.died_from, f.died_to) = (at(2), at(2)))).contains("died_to"));
        let bounds = filter(|f| (f.attempts_least, f.attempts_most) = (Some(3), Some(2)));
        assert!(refused(bounds).contains("attempts_least"));
    }
}
