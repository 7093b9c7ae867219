//! Which run of the server a session belongs to: a session ends with it.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error};
use sendoff_core::journal::Run;
use tokio::time::sleep;

/// When the server was started, in whole seconds; nothing while its clock is behind that. Both numbers are
/// of the moment at which the statement began, so their difference is always the same.
macro_rules! started_at {
    () => {
        "(select if(variable_value < 4294967296, \
         cast(unix_timestamp() as signed) - cast(variable_value as signed), null) \
         from /*!80000 performance_schema.global_status */ \
              /*M!100600 information_schema.global_status */ \
         where variable_name = 'Uptime')"
    };
}

/// The number of the server's run: when it was started, and which server it is, since two may have been
/// started together.
pub(crate) const RUN: &str = concat!(
    "(",
    started_at!(),
    " * 4294967296 + crc32(concat_ws(' ', @@hostname, @@port, @@server_id, @@datadir)))"
);

/// How often a server is asked that was started in this very second: another run could begin in it.
const AGAIN: Duration = Duration::from_millis(50);

/// A connection, and what is known of its server.
pub(crate) struct Known {
    conn: Conn,
    run: Option<Run>,
}

impl Known {
    /// The run of the server, which is asked for once.
    pub(crate) async fn run(&mut self) -> Result<Option<Run>, Error> {
        while self.run.is_none() {
            let asked = format!("select {RUN}, {} < unix_timestamp()", started_at!());
            let answer: Option<(Option<i64>, Option<bool>)> = self.conn.query_first(asked).await?;
            match answer {
                Some((Some(run), Some(true))) => self.run = Some(Run::numbered(run)),
                Some((Some(_), _)) => sleep(AGAIN).await,
                _ => return Ok(None),
            }
        }
        Ok(self.run)
    }

    pub(crate) async fn disconnect(self) {
        // It is closed either way; this tells the server so.
        let _ = self.conn.disconnect().await;
    }
}

impl From<Conn> for Known {
    fn from(conn: Conn) -> Self {
        Self { conn, run: None }
    }
}

impl Deref for Known {
    type Target = Conn;

    fn deref(&self) -> &Conn {
        &self.conn
    }
}

impl DerefMut for Known {
    fn deref_mut(&mut self) -> &mut Conn {
        &mut self.conn
    }
}
