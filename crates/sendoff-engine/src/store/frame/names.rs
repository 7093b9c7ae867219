/// The text of a file, which is written for a place called `sendoff`, with the names of another.
///
/// `qualified` is asked for each name that the text has in that place, `sendoff.name`, and `plain` for
/// all that stands between: names of indexes, say, which have no place.
pub fn put_names(
    text: &str,
    qualified: impl Fn(&str) -> String,
    plain: impl Fn(&str) -> String,
) -> String {
    let mut parts = text.split("sendoff.");
    let mut named = plain(parts.next().unwrap_or_default());
    for part in parts {
        let end = part.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
        let (name, rest) = part.split_at(end.unwrap_or(part.len()));
        named.push_str(&qualified(name));
        named.push_str(&plain(rest));
    }
    named
}
