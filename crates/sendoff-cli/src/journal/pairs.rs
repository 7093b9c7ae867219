//! Pairs of topic and publisher, as people and programs see them.

use std::fmt::{self, Write};

use sendoff::journal::doctor::PairCheckup;
use sendoff::journal::publish::WaitsAt;
use serde_json::{Value, json};

/// How pairs are.
pub(crate) struct Pairs<'c>(pub(crate) &'c [PairCheckup]);

impl Pairs<'_> {
    pub(crate) fn json(&self) -> Vec<Value> {
        self.0.iter().map(json).collect()
    }
}

fn json(pair: &PairCheckup) -> Value {
    json!({
        "topic": pair.pair.topic(),
        "publisher": pair.pair.publisher(),
        "status": pair.status.as_str(),
        "position": pair.position,
        "lag": pair.lag,
        "errors": pair.errors,
        "last_error": pair.last_error,
        "waits_at": pair.waits_at.map(|at| at.position),
        "waits_since": pair.waits_at.map(|at| at.since.to_string()),
        "published_at": pair.published_at.map(|time| time.to_string()),
        "leader": pair.leader.name(),
        "leader_alive": pair.leader.is_alive(),
        "parked": pair.parked.retried + pair.parked.given_up,
        "parked_given_up": pair.parked.given_up,
        "parked_more": pair.parked.more,
    })
}

/// One line for each, without one at the end.
impl fmt::Display for Pairs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |pair: &PairCheckup| pair.pair.to_string();
        let width = self.0.iter().map(|pair| name(pair).chars().count()).max().unwrap_or(0);
        for (at, pair) in self.0.iter().enumerate() {
            let between = if at > 0 { "\n" } else { "" };
            write!(f, "{between}{:<width$}  {}", name(pair), line(pair)?)?;
        }
        Ok(())
    }
}

fn line(pair: &PairCheckup) -> Result<String, fmt::Error> {
    let mut line = format!("{:<6} at {}, lags by {}", pair.status, pair.position, pair.lag);
    match (pair.leader.name(), pair.leader.is_alive()) {
        (Some(leader), true) => write!(line, ", led by {leader}")?,
        (Some(leader), false) => write!(line, ", led by nobody, {leader} is gone")?,
        (None, _) => line.push_str(", led by nobody"),
    }
    if pair.errors > 0 {
        write!(line, ", {} errors", pair.errors)?;
        if let Some(WaitsAt { position, since }) = pair.waits_at {
            write!(line, " at {position} since {since}")?;
        }
    }
    let parked = pair.parked.retried + pair.parked.given_up;
    if parked > 0 {
        let least = if pair.parked.more { "at least " } else { "" };
        write!(line, ", {least}{parked} parked")?;
    }
    Ok(line)
}
