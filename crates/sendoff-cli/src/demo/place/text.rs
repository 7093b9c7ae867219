//! Statements that are the same in every database, but for names and parameters.

use sendoff::Ident;

pub(super) const EARLIER: &str = include_str!("../sql/earlier.sql");
pub(super) const FORGET_ORDERS: &str = include_str!("../sql/forget_orders.sql");
pub(super) const IS_PLACED: &str = include_str!("../sql/is_placed.sql");
pub(super) const ORDERS_AFTER: &str = include_str!("../sql/orders_after.sql");
pub(super) const PLACE: &str = include_str!("../sql/place.sql");
pub(super) const RECEIVE: &str = include_str!("../sql/receive.sql");
pub(super) const RECEIVED: &str = include_str!("../sql/received.sql");

/// The name that the files have for where the demo is.
const NAME: &str = "sendoff_demo";

/// In an SQLite file, which is all the demo's.
pub(super) fn in_file(text: &str) -> String {
    text.replace(&format!("{NAME}."), "")
}

/// In a schema of PostgreSQL.
pub(super) fn in_schema(text: &str, schema: &Ident) -> String {
    let mut parts = text.split('?');
    let mut numbered = parts.next().unwrap_or_default().to_owned();
    for (number, part) in (1..).zip(parts) {
        numbered.push_str(&format!("${number}{part}"));
    }
    numbered.replace(NAME, schema.as_str())
}

/// Under a prefix, on MySQL and MariaDB.
pub(super) fn under_prefix(text: &str, name: &Ident) -> String {
    text.replace(&format!("{NAME}."), &format!("{NAME}_")).replace(NAME, name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_parameters_are_those_of_the_database() {
        let text = "select a from sendoff_demo.b where c = ? and d = ?";
        let name = Ident::new("x").unwrap();
        assert_eq!(in_file(text), "select a from b where c = ? and d = ?");
        assert_eq!(in_schema(text, &name), "select a from x.b where c = $1 and d = $2");
        assert_eq!(under_prefix(text, &name), "select a from x_b where c = ? and d = ?");
    }
}
