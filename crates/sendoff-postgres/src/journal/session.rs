//! Locks of a decision that a session has, and no transaction.
//!
//! Each statement costs the server and this process about as much as reading ten facts. A transaction
//! would have to be begun and committed by two of them; the append takes a session's locks over, and is a
//! transaction of its own.

use tokio_postgres::Error;

use super::store::PostgresJournal;
use crate::link::{Kept, Taken};

pub(super) struct SessionLocks {
    pub(super) shared: i32,
    pub(super) alone: i32,
    /// How long the session may be silent when it has none.
    pub(super) silence: String,
}

impl SessionLocks {
    /// Those of one tag, or of one type. None where a transaction has to have them: for others, in a
    /// session that is not ours, and on a server that would not end a session that falls silent.
    pub(super) async fn of(
        journal: &PostgresJournal,
        session: &Taken,
        keys: &[i32],
        alone: &[bool],
    ) -> Result<Option<Self>, Error> {
        let (shared, alone) = match (keys, alone) {
            (&[shared, alone], [false, true]) | (&[alone, shared], [true, false]) => {
                (shared, alone)
            }
            _ => return Ok(None),
        };
        if journal.kept() == Kept::Unnamed {
            return Ok(None);
        }
        let silence = session.told_once(&journal.sql().journal.session_limit).await?;
        Ok(silence.map(|silence| Self { shared, alone, silence: silence.to_owned() }))
    }
}
