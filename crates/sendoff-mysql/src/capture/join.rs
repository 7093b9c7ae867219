//! Taking part in a transaction that the caller holds, whichever driver it is of.
//!
//! Ids, names of consumers and tokens are no secrets, so the texts have them as digits, whether or not a driver logs
//! what it sends.

use sendoff_engine::capture::{CursorMove, JoinError, Part};

use super::draft::Proof;
use super::insert::{Carrier, undoes};
use crate::durable;
use crate::error::{code, explained};
use crate::options::Retention;
use crate::store::MysqlStore;
use crate::wire::Literal;

pub(super) async fn take_part<C: Carrier>(
    store: &MysqlStore,
    conn: &mut C,
    part: &Part<'_>,
) -> Result<bool, JoinError> {
    store.check_open().map_err(|_| JoinError::Closed)?;
    let (sql, open) = (store.sql(), Proof::Open.text(store).unwrap_or("do 0"));
    match *part {
        Part::Once { consumer, id } => {
            let consumer = Literal::text(consumer.as_str());
            let insert = sql.once.with(&[("consumer", &consumer), ("id", &Literal::id(id))]);
            match conn.run(&format!("{open};\n{insert}")).await {
                Ok(()) => Ok(true),
                // The statement is undone, and the transaction goes on. Whoever is told so lets go of the event.
                Err(error) if C::number(&error) == Some(code::DUPLICATE_ENTRY) => {
                    let durable = store.links().proofs.query(&durable::inbox(sql)).await;
                    durable.map(|_| false).map_err(|error| JoinError::Driver(error.into()))
                }
                Err(error) => Err(refused::<C>(error)),
            }
        }
        Part::Done { id, token, created_at } => {
            let settle = match store.retention() {
                Retention::DeleteWhenDone => &sql.settle_in_delete,
                Retention::Keep(_) => &sql.settle_in,
            };
            let settle = settle.with(&[
                ("id", &Literal::id(id)),
                ("token", &Literal::time(token.due_at())),
                ("created", &Literal::nearest_time(created_at)),
                ("part", &Literal::number(fastrand::i64(..))),
            ]);
            conn.run(&format!("{open};\n{settle}")).await.map_err(refused::<C>)?;
            conn.ask(sql.was_settled_in.text()).await.map_err(refused::<C>)
        }
        Part::Moved(CursorMove { pair, owner, epoch, from, to }) => {
            let moves = sql.journal.move_in.with(&[
                ("topic", &Literal::text(pair.topic())),
                ("publisher", &Literal::text(pair.publisher())),
                ("owner", &Literal::text(owner)),
                ("epoch", &Literal::number(epoch)),
                ("from", &Literal::number(from)),
                ("to", &Literal::number(to)),
            ]);
            conn.run(&format!("{open};\n{moves}")).await.map_err(refused::<C>)?;
            conn.ask(sql.journal.was_moved_in.text()).await.map_err(refused::<C>)
        }
    }
}

/// By the server's number.
fn refused<C: Carrier>(error: C::Error) -> JoinError {
    match C::number(&error) {
        Some(code::DOES_NOT_EXIST) => JoinError::NoTransaction,
        Some(code::LOCK_TIMEOUT | code::NOWAIT) => JoinError::Busy(error.into()),
        Some(number) if undoes(number) => JoinError::LostRace(error.into()),
        number => JoinError::Driver(explained(number, error.into())),
    }
}
