//! Finding the row that makes a claim or a lock fail.

use std::time::Duration;

use mysql_async::Error;
use sendoff_core::{BoxError, EventId, Timestamp};
use sendoff_engine::store::{self, Outcome, Sieve, Sifted, StoreError, Visible};

use crate::error::is_of_a_row;
use crate::rows;
use crate::store::MysqlStore;
use crate::wire::{EARLIEST, Literal};

/// What a claim or a lock looks at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) owner: &'a str,
    pub(crate) skip_recent: Duration,
    pub(crate) window: Option<Duration>,
    pub(crate) from: Option<Timestamp>,
    /// No events of these types.
    pub(crate) except: &'a [&'a str],
    pub(crate) which: Which,
}

/// Which of the visible rows; the numbers are those of `first_visible`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Which {
    Any = 0,
    Company = 1,
    Suspects = 2,
}

/// A statement that takes rows.
pub(crate) trait Take: Sync {
    /// What it takes.
    type Taken: Send;

    /// Takes up to `limit` rows, and none of those that are passed over; `None` if there are none.
    fn take(
        &self,
        store: &MysqlStore,
        limit: usize,
        passed: &[EventId],
    ) -> impl Future<Output = Result<Option<Self::Taken>, StoreError>> + Send;
}

/// A statement, what it looks at, and where.
struct Taking<'a, T> {
    store: &'a MysqlStore,
    look: Look<'a>,
    statement: &'a T,
}

impl MysqlStore {
    /// Takes up to `most` rows, whichever of the others refuse.
    pub(crate) async fn sift<T: Take>(
        &self,
        most: usize,
        look: Look<'_>,
        statement: &T,
    ) -> Result<Option<Sifted<T::Taken>>, StoreError> {
        store::sift(&Taking { store: self, look, statement }, self.passed(), most).await
    }
}

impl<T: Take> Sieve for Taking<'_, T> {
    type Taken = T::Taken;

    async fn take(&self, limit: usize, passed: &[EventId]) -> Result<Option<T::Taken>, StoreError> {
        self.statement.take(self.store, limit, passed).await
    }

    async fn first(&self, passed: &[EventId]) -> Result<Option<Visible>, StoreError> {
        let look = self.look;
        let text = self.store.sql().first_visible.with(&[
            ("owner", &Literal::text(look.owner)),
            ("skip_recent", &Literal::span(look.skip_recent)),
            ("since", &Literal::since(look.window)),
            ("from", &Literal::from(look.from)),
            ("which", &Literal::number(look.which as i64)),
            ("passed", &Literal::other_ids(passed)),
            ("except", &Literal::other_texts(look.except)),
        ]);
        let found = self.store.links().claims.query(&text).await?;
        let Some(row) = found.first() else { return Ok(None) };
        // A date of zeros is no time; such a row is passed over, and not ended.
        let due_at = rows::time(row, 1).unwrap_or(EARLIEST);
        Ok(Some(Visible { id: rows::id(row, 0)?, due_at }))
    }

    async fn end(&self, row: Visible, error: &str) -> Result<(), StoreError> {
        let note = self.store.sql().set_aside.with(&[
            ("id", &Literal::id(row.id)),
            ("due_at", &Literal::time(row.due_at)),
            ("error", &Literal::text(error)),
        ]);
        let dead = Outcome::Dead { attempts: 0, error: String::new() };
        let text = format!("{note};\n{}commit", self.store.ends_text([&dead]));
        self.store.links().claims.query(&text).await?;
        Ok(())
    }

    fn is_of_a_row(refusal: &BoxError) -> bool {
        match refusal.downcast_ref::<Error>() {
            Some(Error::Server(refusal)) => is_of_a_row(refusal.code, &refusal.state),
            _ => false,
        }
    }
}
