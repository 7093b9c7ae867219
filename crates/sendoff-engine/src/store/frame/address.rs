//! Where a server is, and who we are to it.

use std::borrow::Cow;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use sendoff_core::BoxError;

use super::NoConnection;
use crate::sink::shield;
use crate::store::StoreError;

/// The URL of a database: one that stays, or one that is asked for anew at every connection, so that a
/// password, a token or a server may change while a store is in use.
///
/// ```
/// use sendoff_engine::store::frame::Address;
///
/// let fixed = Address::from("postgres://app@db/shop");
/// let rotated = Address::asked(|| async {
///     let password = std::env::var("SHOP_PASSWORD")?;
///     Ok(format!("postgres://app:{password}@db/shop"))
/// });
/// # let _ = (fixed, rotated);
/// ```
#[derive(Clone)]
pub struct Address(Way);

#[derive(Clone)]
enum Way {
    Fixed(Arc<str>),
    Asked(Arc<Ask>),
}

type Answer = Pin<Box<dyn Future<Output = Result<String, BoxError>> + Send>>;
type Ask = dyn Fn() -> Answer + Send + Sync;

impl Address {
    /// Asks `ask` for the URL before every connection, within the time that connecting may take. Where it
    /// fails, or panics, the database counts as unavailable, and is tried again as after any lost
    /// connection.
    pub fn asked<F>(ask: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<String, BoxError>> + Send + 'static,
    {
        Self(Way::Asked(Arc::new(move || Box::pin(ask()))))
    }

    /// The URL that stays, where it is one.
    pub fn fixed(&self) -> Option<&str> {
        match &self.0 {
            Way::Fixed(url) => Some(url),
            Way::Asked(_) => None,
        }
    }

    /// Whether it is asked for anew.
    pub fn is_asked(&self) -> bool {
        matches!(self.0, Way::Asked(_))
    }

    /// The URL now.
    ///
    /// # Errors
    ///
    /// [`Unavailable`](StoreError::Unavailable), with what the function answered.
    pub async fn url(&self) -> Result<Cow<'_, str>, StoreError> {
        let ask = match &self.0 {
            Way::Fixed(url) => return Ok(Cow::Borrowed(url)),
            Way::Asked(ask) => ask,
        };
        match shield(|| ask()).await {
            Ok(Ok(url)) => Ok(Cow::Owned(url)),
            Ok(Err(error)) => Err(NoConnection::to(NOWHERE, error).into()),
            Err(panic) => Err(NoConnection::to(NOWHERE, panic.report()).into()),
        }
    }
}

const NOWHERE: &str = "a database whose URL could not be asked for";

impl From<&str> for Address {
    fn from(url: &str) -> Self {
        Self(Way::Fixed(url.into()))
    }
}

impl From<&String> for Address {
    fn from(url: &String) -> Self {
        url.as_str().into()
    }
}

impl From<String> for Address {
    fn from(url: String) -> Self {
        url.as_str().into()
    }
}

impl From<&Address> for Address {
    fn from(address: &Address) -> Self {
        address.clone()
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the URL: it may hold a password.
        f.write_str(if self.is_asked() { "Address(asked)" } else { "Address(fixed)" })
    }
}

#[cfg(test)]
mod tests {
    use sendoff_core::report;

    use super::*;

    /// Holds S10: anew every time, and what is wrong with the answer is said, without a password.
    #[tokio::test]
    async fn a_url_is_asked_for_anew_and_a_failure_is_an_unavailable_database() {
        let asked = std::sync::atomic::AtomicU32::default();
        let address = Address::asked(move || {
            let nth = asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            async move {
                match nth {
                    0 | 1 => Ok(format!("postgres://app:{nth}@db/shop")),
                    2 => Err("the vault is sealed".into()),
                    _ => panic!("the vault is gone"),
                }
            }
        });
        assert_eq!(address.url().await.unwrap(), "postgres://app:0@db/shop");
        assert_eq!(address.url().await.unwrap(), "postgres://app:1@db/shop");
        let sealed = address.url().await.unwrap_err();
        assert!(matches!(sealed, StoreError::Unavailable(_)));
        assert!(report(&sealed).ends_with("the vault is sealed"), "{}", report(&sealed));
        let gone = address.url().await.unwrap_err();
        assert!(report(&gone).contains("the vault is gone"), "{}", report(&gone));
        let fixed = Address::from("postgres://app:s3cret@db/shop");
        assert_eq!(fixed.url().await.unwrap(), "postgres://app:s3cret@db/shop");
        assert!(!format!("{fixed:?}").contains("s3cret"));
    }
}
