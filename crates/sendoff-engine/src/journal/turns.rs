//! Who decides by the same model in one process, one after the other.
//!
//! Promise: whoever waits, waits for those with the same key and for nobody else; what nobody has or waits
//! for takes no room.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::OwnedMutexGuard;

use super::books::MemoryKey;

type Gate = Arc<tokio::sync::Mutex<()>>;

#[derive(Debug, Default)]
pub(super) struct Turns {
    gates: Mutex<HashMap<MemoryKey, Gate>>,
}

/// It is the turn of whoever has this.
#[derive(Debug)]
pub(super) struct Turn<'t> {
    // Fields are dropped in this order: the turn is over before the place is left.
    _guard: OwnedMutexGuard<()>,
    _place: Place<'t>,
}

/// A place in the line. Whoever leaves it as the last one takes the line away.
#[derive(Debug)]
struct Place<'t> {
    turns: &'t Turns,
    key: MemoryKey,
    gate: Option<Gate>,
}

impl Turns {
    /// Waits for its turn.
    pub(super) async fn turn(&self, key: MemoryKey) -> Turn<'_> {
        let gate = Arc::clone(self.gates().entry(key).or_default());
        let place = Place { turns: self, key, gate: Some(Arc::clone(&gate)) };
        Turn { _guard: gate.lock_owned().await, _place: place }
    }

    fn gates(&self) -> MutexGuard<'_, HashMap<MemoryKey, Gate>> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut gates = self.turns.gates();
        drop(self.gate.take());
        // Places are taken and left under the same lock: what is here alone, nobody else has.
        if gates.get(&self.key).is_some_and(|gate| Arc::strong_count(gate) == 1) {
            gates.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn those_with_one_key_take_turns_and_others_do_not_wait() {
        let turns = Turns::default();
        let (one, other) = (MemoryKey::of("one"), MemoryKey::of("other"));
        let first = turns.turn(one).await;
        let mut second = Box::pin(turns.turn(one));
        assert!((&mut second).now_or_never().is_none());
        drop(turns.turn(other).await);
        drop(first);
        drop(second.await);
        assert!(turns.gates().is_empty(), "nobody is left");
    }

    #[tokio::test]
    async fn who_stops_waiting_leaves_nothing_and_nobody_behind() {
        let turns = Turns::default();
        let key = MemoryKey::of("one");
        let first = turns.turn(key).await;
        let mut impatient = Box::pin(turns.turn(key));
        assert!((&mut impatient).now_or_never().is_none());
        drop(impatient);
        assert!(
            (&mut Box::pin(turns.turn(key))).now_or_never().is_none(),
            "it is still the first's"
        );
        drop(first);
        assert!(turns.turn(key).now_or_never().is_some());
        assert!(turns.gates().is_empty());
    }
}
