/// The text of a file, which is written for a place called `sendoff`, with the names of another.
///
/// `qualified` is asked for each name that the text has in that place, `sendoff.name`, and `plain` for
/// each of the beginnings `plain_names` that stands elsewhere: of the names of indexes, say, which have no
/// place.
pub fn put_names(
    text: &str,
    qualified: impl Fn(&str) -> String,
    plain_names: &[&str],
    plain: impl Fn(&str) -> String,
) -> String {
    let renamed = |text: &str| {
        let rename = |text: String, name: &&str| text.replace(name, &plain(name));
        plain_names.iter().fold(text.to_owned(), rename)
    };
    let mut parts = text.split("sendoff.");
    let mut named = renamed(parts.next().unwrap_or_default());
    for part in parts {
        let end = part.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
        let (name, rest) = part.split_at(end.unwrap_or(part.len()));
        named.push_str(&qualified(name));
        named.push_str(&renamed(rest));
    }
    named
}
