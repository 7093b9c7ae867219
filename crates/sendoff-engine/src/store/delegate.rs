//! Stores that leave roles to another.

use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::journal::doctor::ForgetfulSetting;
use sendoff_core::order::{KeyFate, KeyStanding};
use sendoff_core::{AuditNote, EventId, Letter, LetterFate, Pause, PauseScope, Timestamp};

use super::{
    AuditEntry, AuditPage, ChangeLetters, Claim, ClaimStore, Claims, Confirmed, Counts, Cutoff,
    EndStore, EventKind, EventRecord, ExtendInTurn, ExtendKeys, Extended, ExtendedKeys, Held,
    Horizon, InspectStore, KeyPage, KeyRun, KeyStore, Lateness, LetterPage, LetterStore, Lock,
    LockStore, LockedRows, ParkStore, PauseStore, PayloadWanted, Purge, Purged, RegisterStore,
    Registered, ReplayPage, ReplayStore, ReplayTally, Replayable, ResumeKey, RetainStore, Row,
    RunEnd, RunsWanted, SettleStore, Settled, SettledRuns, Settlement, Standing, StoreError,
    TakeKeys, TakenKeys, TenantWalk, TenantsFound, TopicCounts, Trail, WakeStore, Window,
};

/// A store that leaves a role to another: to the one it is built around, or to one of several. It has the role
/// by that, method for method.
///
/// ```
/// use sendoff_engine::memory::MemoryStore;
/// use sendoff_engine::store::{Delegates, InspectStore};
///
/// struct Counted {
///     table: MemoryStore,
/// }
///
/// impl Delegates<dyn InspectStore> for Counted {
///     fn delegate(&self) -> &dyn InspectStore {
///         &self.table
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Counted { table: MemoryStore::new() };
/// assert_eq!(store.counts().await?.pending(), 0);
/// # Ok(())
/// # }
/// ```
pub trait Delegates<Role: ?Sized>: Send + Sync + 'static {
    /// The store that has the role.
    fn delegate(&self) -> &Role;
}

#[diagnostic::do_not_recommend]
#[async_trait]
impl<S: Delegates<dyn ClaimStore>> ClaimStore for S {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claims, StoreError> {
        self.delegate().claim(claim).await
    }

    async fn confirm(&self, holds: &[Held]) -> Result<Vec<EventId>, StoreError> {
        self.delegate().confirm(holds).await
    }

    async fn rescue(&self, longest: Duration) -> Result<u64, StoreError> {
        self.delegate().rescue(longest).await
    }

    async fn check_fair(&self) -> Result<(), StoreError> {
        self.delegate().check_fair().await
    }

    async fn tenants(&self, walk: &TenantWalk<'_>) -> Result<TenantsFound, StoreError> {
        self.delegate().tenants(walk).await
    }

    fn epoch(&self) -> u64 {
        self.delegate().epoch()
    }
}

#[diagnostic::do_not_recommend]
#[async_trait]
impl<S: Delegates<dyn SettleStore> + ClaimStore> SettleStore for S {
    async fn settle(&self, batch: &[Settlement]) -> Result<Settled, StoreError> {
        self.delegate().settle(batch).await
    }

    async fn extend(&self, holds: &[Held], hold: Duration) -> Result<Extended, StoreError> {
        self.delegate().extend(holds, hold).await
    }

    async fn extend_in_turn(&self, turn: ExtendInTurn) -> Result<Extended, StoreError> {
        self.delegate().extend_in_turn(turn).await
    }
}

#[diagnostic::do_not_recommend]
#[async_trait]
impl<S: Delegates<dyn KeyStore> + SettleStore> KeyStore for S {
    fn keeps_order(&self) -> bool {
        self.delegate().keeps_order()
    }

    async fn take_keys(&self, take: &TakeKeys<'_>) -> Result<TakenKeys, StoreError> {
        self.delegate().take_keys(take).await
    }

    async fn runs(&self, wanted: &RunsWanted<'_>) -> Result<Vec<KeyRun>, StoreError> {
        self.delegate().runs(wanted).await
    }

    async fn settle_runs(&self, owner: &str, ends: &[RunEnd]) -> Result<SettledRuns, StoreError> {
        self.delegate().settle_runs(owner, ends).await
    }

    async fn extend_keys(&self, extend: &ExtendKeys<'_>) -> Result<ExtendedKeys, StoreError> {
        self.delegate().extend_keys(extend).await
    }

    async fn confirm_keys(&self, holds: &[Held]) -> Result<Vec<Confirmed>, StoreError> {
        self.delegate().confirm_keys(holds).await
    }

    async fn shelve(&self, window: Window, age: Duration) -> Result<u64, StoreError> {
        self.delegate().shelve(window, age).await
    }
}

#[diagnostic::do_not_recommend]
#[async_trait]
impl<S: Delegates<dyn ParkStore>> ParkStore for S {
    async fn parked_keys(&self, page: &KeyPage<'_>) -> Result<Vec<KeyStanding>, StoreError> {
        self.delegate().parked_keys(page).await
    }

    async fn count_parked(&self, most: usize) -> Result<u64, StoreError> {
        self.delegate().count_parked(most).await
    }

    async fn key_standing(&self, key: &str) -> Result<KeyStanding, StoreError> {
        self.delegate().key_standing(key).await
    }

    async fn resume_key(&self, resume: &ResumeKey<'_>) -> Result<KeyFate, StoreError> {
        self.delegate().resume_key(resume).await
    }
}

#[diagnostic::do_not_recommend]
#[async_trait]
impl<S: Delegates<dyn EndStore>> EndStore for S {
    async fn standing(&self, ids: &[EventId]) -> Result<Vec<Standing>, StoreError> {
        self.delegate().standing(ids).await
    }

    async fn horizon(&self) -> Result<Option<Horizon>, StoreError> {
        self.delegate().horizon().await
    }

    async fn pending_within(
        &self,
        horizon: Horizon,
        limit: usize,
    ) -> Result<Vec<EventId>, StoreError> {
        self.delegate().pending_within(horizon, limit).await
    }
}

#[diagnostic::do_not_recommend]
#[async_trait]
impl<S: Delegates<dyn ReplayStore> + RetainStore + LetterStore> ReplayStore for S {
    async fn replayable(&self, page: &ReplayPage<'_>) -> Result<Replayable, StoreError> {
        self.delegate().replayable(page).await
    }

    async fn count_replayable(&self, page: &ReplayPage<'_>) -> Result<ReplayTally, StoreError> {
        self.delegate().count_replayable(page).await
    }
}

#[diagnostic::do_not_recommend]
#[async_trait]
impl<S: Delegates<dyn WakeStore>> WakeStore for S {
    async fn arm(&self) -> Result<bool, StoreError> {
        self.delegate().arm().await
    }

    async fn disarm(&self) -> Result<(), StoreError> {
        self.delegate().disarm().await
    }

    async fn rung(&self) {
        self.delegate().rung().await
    }
}

#[diagnostic::do_not_recommend]
#[async_trait]
impl<S: Delegates<dyn InspectStore>> InspectStore for S {
    async fn check_ready(&self) -> Result<(), StoreError> {
        self.delegate().check_ready().await
    }

    async fn find(&self, id: EventId) -> Result<Option<Row>, StoreError> {
        self.delegate().find(id).await
    }

    async fn peek(&self, limit: usize) -> Result<Vec<Row>, StoreError> {
        self.delegate().peek(limit).await
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        self.delegate().counts().await
    }

    async fn topics(&self) -> Result<Vec<TopicCounts>, StoreError> {
        self.delegate().topics().await
    }

    async fn lateness(&self) -> Result<Lateness, StoreError> {
        self.delegate().lateness().await
    }

    async fn forgetful(&self) -> Result<Vec<ForgetfulSetting>, StoreError> {
        self.delegate().forgetful().await
    }

    async fn first_due(&self) -> Result<Timestamp, StoreError> {
        self.delegate().first_due().await
    }
}

#[diagnostic::do_not_recommend]
#[async_trait]
impl<S: Delegates<dyn RetainStore>> RetainStore for S {
    fn keeps(&self) -> Option<Duration> {
        self.delegate().keeps()
    }

    async fn purge(&self, purge: &Purge) -> Result<Purged, StoreError> {
        self.delegate().purge(purge).await
    }

    async fn fold(&self) -> Result<u64, StoreError> {
        self.delegate().fold().await
    }

    async fn forget(&self, trail: Trail, cutoff: Cutoff, limit: usize) -> Result<u64, StoreError> {
        self.delegate().forget(trail, cutoff, limit).await
    }

    async fn purgeable(&self, purge: &Purge) -> Result<Purged, StoreError> {
        self.delegate().purgeable(purge).await
    }
}

#[diagnostic::do_not_recommend]
#[async_trait]
impl<S: Delegates<dyn LetterStore>> LetterStore for S {
    async fn clock(&self) -> Result<Timestamp, StoreError> {
        self.delegate().clock().await
    }

    async fn letters(&self, page: &LetterPage<'_>) -> Result<Vec<Letter>, StoreError> {
        self.delegate().letters(page).await
    }

    async fn count_letters(&self, page: &LetterPage<'_>) -> Result<u64, StoreError> {
        self.delegate().count_letters(page).await
    }

    async fn record(
        &self,
        id: EventId,
        payload: PayloadWanted,
    ) -> Result<Option<EventRecord>, StoreError> {
        self.delegate().record(id, payload).await
    }

    async fn change_letters(
        &self,
        change: &ChangeLetters<'_>,
    ) -> Result<Vec<LetterFate>, StoreError> {
        self.delegate().change_letters(change).await
    }

    async fn audit(&self, page: &AuditPage) -> Result<Vec<AuditEntry>, StoreError> {
        self.delegate().audit(page).await
    }
}

#[diagnostic::do_not_recommend]
#[async_trait]
impl<S: Delegates<dyn PauseStore>> PauseStore for S {
    async fn pauses(&self) -> Result<Vec<Pause>, StoreError> {
        self.delegate().pauses().await
    }

    async fn pause(&self, scope: &PauseScope, note: &AuditNote) -> Result<bool, StoreError> {
        self.delegate().pause(scope, note).await
    }

    async fn resume(&self, scope: &PauseScope, note: &AuditNote) -> Result<bool, StoreError> {
        self.delegate().resume(scope, note).await
    }

    async fn pauses_changed(&self) {
        self.delegate().pauses_changed().await
    }
}

#[diagnostic::do_not_recommend]
#[async_trait]
impl<S: Delegates<dyn RegisterStore>> RegisterStore for S {
    async fn register(&self, kinds: &[EventKind<'_>], lately: Duration) -> Registered {
        self.delegate().register(kinds, lately).await
    }
}

#[diagnostic::do_not_recommend]
#[async_trait]
impl<S: Delegates<dyn LockStore>> LockStore for S {
    async fn lock(&self, lock: &Lock<'_>) -> Result<Option<Box<dyn LockedRows>>, StoreError> {
        self.delegate().lock(lock).await
    }
}
