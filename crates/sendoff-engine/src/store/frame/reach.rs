//! A server that cannot be reached, by name.

use std::time::Duration;

use sendoff_core::BoxError;

use crate::store::StoreError;

/// No connection to a server, which an operator has to find: named once, with its port.
#[derive(Debug, thiserror::Error)]
#[error("no connection to {place}")]
pub struct NoConnection {
    place: String,
    source: BoxError,
}

impl NoConnection {
    /// None to the server at this place, for this reason.
    pub fn to(place: impl Into<String>, source: impl Into<BoxError>) -> Self {
        Self { place: place.into(), source: source.into() }
    }

    /// It did not answer in time.
    pub fn in_time(place: impl Into<String>, limit: Duration) -> Self {
        Self::to(place, format!("it did not answer within {limit:?}"))
    }
}

impl From<NoConnection> for StoreError {
    fn from(error: NoConnection) -> Self {
        Self::Unavailable(error.into())
    }
}

/// A host and a port, as people write them.
pub fn place(host: &str, port: u16) -> String {
    let is_bare_v6 = host.contains(':') && !host.starts_with('[');
    if is_bare_v6 { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use std::io;

    use sendoff_core::report;

    use super::*;

    #[test]
    fn a_place_is_named_once_and_so_is_the_reason() {
        let refused = io::Error::from(io::ErrorKind::ConnectionRefused);
        let error = StoreError::from(NoConnection::to(place("db.local", 5432), refused));
        assert_eq!(
            report(&error),
            "the database is unavailable: no connection to db.local:5432: connection refused"
        );
        let late = NoConnection::in_time(place("::1", 3306), Duration::from_secs(5));
        assert_eq!(report(&late), "no connection to [::1]:3306: it did not answer within 5s");
    }
}
