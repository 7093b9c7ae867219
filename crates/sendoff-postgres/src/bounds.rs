//! What the server allows a session of ours (I10): a process that was stopped or cut off still holds
//! what it locked, and only the server can end that.

use std::fmt::Write;
use std::time::Duration;

use crate::options::PostgresOptions;

/// How long a statement of the outbox waits for a lock. It never waits for a row; this is for tables
/// that somebody is changing, and whoever waits for those finds out soon that he is *busy*.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// A peer that went silent is noticed by the server after about a minute, and after half of one where
/// it leaves data unanswered.
const KEEPALIVE: &str = " -c tcp_keepalives_idle=30 -c tcp_keepalives_interval=10 \
                         -c tcp_keepalives_count=3 -c tcp_user_timeout=30000";

/// What an administrator allows every transaction at most is not for one whose handlers run: it would be
/// ended with them, and they would run again for ever. Silence ends it, as our own limit says. Servers
/// before version 17 have no such limit, and would not know its name.
const NO_LIMIT_OF_ALL: &str = "; select pg_catalog.set_config('transaction_timeout', '0', true) \
                               where pg_catalog.current_setting('transaction_timeout', true) <> '0'";

/// Limits that the server keeps for us.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionBounds {
    statement: Duration,
    idle: Duration,
    lock: Option<Duration>,
}

impl SessionBounds {
    /// For an outbox, whose statements have nothing to wait for.
    pub(crate) const fn outbox(options: &PostgresOptions) -> Self {
        Self {
            statement: options.statement_timeout,
            idle: options.idle_in_transaction_timeout,
            lock: Some(LOCK_WAIT),
        }
    }

    /// For a journal, whose statements say themselves how long they wait for a lock.
    pub(crate) const fn journal(options: &PostgresOptions) -> Self {
        Self {
            statement: options.statement_timeout,
            idle: options.idle_in_transaction_timeout,
            lock: None,
        }
    }

    /// How long a transaction may be silent.
    pub(crate) const fn idle(&self) -> Duration {
        self.idle
    }

    /// As options of a session's start.
    pub(crate) fn at_start(&self) -> String {
        let mut options = KEEPALIVE.to_owned();
        for (name, value) in self.settings() {
            let _ = write!(options, " -c {name}={value}");
        }
        options
    }

    /// As the text that begins a transaction that lasts, for sessions that are not ours to configure as well.
    pub(crate) fn begin(&self) -> String {
        let mut text = "begin isolation level read committed".to_owned();
        for (name, value) in self.settings() {
            let _ = write!(text, "; set local {name} = {value}");
        }
        text + NO_LIMIT_OF_ALL
    }

    /// In milliseconds, as the server counts them; 0 is none.
    fn settings(&self) -> [(&'static str, u128); 3] {
        [
            ("statement_timeout", self.statement.as_millis()),
            ("idle_in_transaction_session_timeout", self.idle.as_millis()),
            ("lock_timeout", self.lock.unwrap_or_default().as_millis()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_limits_at_a_session_s_start_and_in_a_transaction_of_its_own() {
        let bounds = SessionBounds::outbox(&PostgresOptions::default());
        let (start, begin) = (bounds.at_start(), bounds.begin());
        for (name, value) in bounds.settings() {
            assert!(value > 0, "{name}");
            assert!(start.contains(&format!("-c {name}={value}")), "{start}");
            assert!(begin.contains(&format!("set local {name} = {value}")), "{begin}");
        }
    }
}
