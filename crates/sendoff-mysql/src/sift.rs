//! Finding the row that makes a claim or a lock fail.

use mysql_async::Error;
use sendoff_core::BoxError;
use sendoff_engine::store::{Look, Outcome, PassedOver, Sieve, StoreError, Visible};

use crate::error::is_of_a_row;
use crate::rows;
use crate::settle::Noted;
use crate::store::MysqlStore;
use crate::wire::{EARLIEST, Literal};

impl Sieve for MysqlStore {
    fn passed_over(&self) -> &PassedOver {
        self.passed()
    }

    async fn first(&self, look: &Look<'_>) -> Result<Option<Visible>, StoreError> {
        let statement = match look.except.is_empty() {
            true => &self.sql().first_visible,
            false => &self.sql().first_visible_except,
        };
        let text = statement.with(&[
            ("owner", &Literal::text(look.owner)),
            ("skip_recent", &Literal::span(look.skip_recent)),
            ("since", &Literal::since(look.window)),
            ("from", &Literal::from(look.from)),
            ("which", &Literal::number(look.which as i64)),
            ("passed", &Literal::other_ids(look.passed)),
            ("kinds", &Literal::other_kinds(look.except.kinds)),
            ("types", &Literal::other_types(look.except.types)),
        ]);
        let found = self.links().claims.query(&text).await?;
        let Some(row) = found.first() else { return Ok(None) };
        // A date of zeros is no time; such a row is passed over, and not ended.
        let due_at = rows::time(row, 1).unwrap_or(EARLIEST);
        Ok(Some(Visible { id: rows::id(row, 0)?, due_at }))
    }

    async fn end(&self, row: Visible, error: &str) -> Result<(), StoreError> {
        let note = self.sql().set_aside.with(&[
            ("id", &Literal::id(row.id)),
            ("due_at", &Literal::time(row.due_at)),
            ("error", &Literal::text(error)),
        ]);
        let dead = Outcome::dead(0, String::new());
        let text = format!("{note};\n{}commit", self.ends_text([&dead], Noted::Keyed));
        self.links().claims.query(&text).await?;
        Ok(())
    }

    fn is_of_a_row(refusal: &BoxError) -> bool {
        match refusal.downcast_ref::<Error>() {
            Some(Error::Server(refusal)) => is_of_a_row(refusal.code, &refusal.state),
            _ => false,
        }
    }
}
