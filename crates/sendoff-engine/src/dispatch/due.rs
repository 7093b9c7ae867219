use sendoff_core::order::AfterDead;
use sendoff_core::{Attempt, Delivery, Lane, Origin, Waited, report};
use tracing::error;

use crate::store::{Claimed, Outcome};

/// A claimed row as an event to be delivered.
#[derive(Debug, Clone)]
pub(crate) struct Due {
    pub(crate) delivery: Delivery,
    pub(crate) attempt: Attempt,
    pub(crate) waited: Waited,
}

impl Due {
    /// Or how the row ends without that.
    pub(crate) fn of(row: Claimed, max_attempts: u32, then: AfterDead) -> Result<Self, Outcome> {
        let attempt = row.attempt();
        let waited = row.waited();
        let event = row.event.map_err(|undecodable| {
            let error = report(&undecodable);
            error!(event.id = %row.id, error, "stored row cannot be decoded");
            Outcome::Dead { attempts: attempt.uncounted(), error, then }
        })?;
        if attempt.is_exhausted(max_attempts) {
            let error = format!("its {max_attempts} attempts are used up by holders who vanished");
            let event_type = event.event_type();
            error!(event.id = %row.id, event.r#type = event_type, error, "event is dead");
            return Err(Outcome::Dead { attempts: max_attempts, error, then });
        }
        let origin = Origin::Row(Lane::Cold);
        let delivery =
            Delivery { event, created_at: row.created_at, attempt: attempt.number, origin };
        Ok(Self { delivery, attempt, waited })
    }
}
