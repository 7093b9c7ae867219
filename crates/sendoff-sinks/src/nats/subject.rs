//! Subjects: what they take, and which of them a stream covers.

use crate::template::Shape;

/// A subject to publish to. Nobody's data makes one of the server's own, which begin with `$`, or an inbox.
pub static SUBJECT: Shape = Shape {
    what: "subject",
    // With a reply and two sizes it has to fit into a line of 4,096 bytes.
    bytes: 2_048,
    takes: |c| !c.is_whitespace() && !c.is_control() && c != '*' && c != '>',
    expected: "anything but blanks, control characters, * and >",
    whole: |subject| match subject {
        _ if subject.split('.').any(str::is_empty) => Err("has an empty token"),
        _ if subject.starts_with('$') => Err("begins with $, as the server's own do"),
        _ if subject.starts_with("_INBOX.") => Err("is an inbox"),
        _ => Ok(()),
    },
    ..Shape::TEXT
};

/// Whether a subject with wildcards covers this one.
pub(super) fn covers(pattern: &str, subject: &str) -> bool {
    let mut tokens = subject.split('.');
    for wanted in pattern.split('.') {
        match (wanted, tokens.next()) {
            (">", Some(_)) => return true,
            ("*", Some(_)) => {}
            (wanted, Some(token)) if wanted == token => {}
            _ => return false,
        }
    }
    tokens.next().is_none()
}

/// Whether it covers one that begins so, as far as that can be known.
pub(super) fn may_cover(pattern: &str, prefix: &str) -> bool {
    // The last token may go on.
    let Some((whole, _)) = prefix.rsplit_once('.') else { return true };
    let mut wanted = pattern.split('.');
    for token in whole.split('.') {
        match wanted.next() {
            Some(">") => return true,
            Some("*") => {}
            Some(wanted) if wanted == token => {}
            _ => return false,
        }
    }
    wanted.next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Template;

    #[test]
    fn a_pattern_covers_what_its_wildcards_say() {
        for (pattern, subject, covered) in [
            ("a.b", "a.b", true),
            ("a.b", "a.c", false),
            ("a.b", "a", false),
            ("a", "a.b", false),
            ("a.*", "a.b", true),
            ("a.*", "a.b.c", false),
            ("a.*", "a", false),
            ("a.>", "a.b.c", true),
            ("a.>", "a", false),
            (">", "a", true),
            ("*.b", "a.b", true),
        ] {
            assert_eq!(covers(pattern, subject), covered, "{pattern} {subject}");
        }
    }

    #[test]
    fn a_beginning_that_no_pattern_has_is_seen() {
        for (pattern, prefix, may) in [
            ("a.>", "a.", true),
            ("a.>", "a.b.c.", true),
            ("a.>", "b.", false),
            ("a.>", "", true),
            ("a.>", "ab", true),
            ("a.b", "a.", true),
            ("a.b", "a.b.", false),
            ("a.*.c", "a.b.c", true),
            ("a.*.c", "a.b.c.", false),
        ] {
            assert_eq!(may_cover(pattern, prefix), may, "{pattern} {prefix}");
        }
    }

    #[test]
    fn a_subject_is_no_wildcard_and_none_of_the_servers_own() {
        for wrong in
            ["a..b", ".a", "a.", "a b", "a.*", "a.>", "$JS.API.INFO", "_INBOX.x", "", "a\n"]
        {
            assert!(Template::parse(wrong, &SUBJECT).is_err(), "{wrong:?}");
        }
        for right in ["a", "orders.{type}", "é.$.x-y_z/1"] {
            assert!(Template::parse(right, &SUBJECT).is_ok(), "{right:?}");
        }
    }
}
