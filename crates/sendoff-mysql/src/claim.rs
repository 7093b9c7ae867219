//! Claims, holds and confirmations on MySQL and MariaDB.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use async_trait::async_trait;
use mysql_async::Row;
use sendoff_core::{EventId, Holding, Timestamp, Token, limits};
use sendoff_engine::store::{
    Claim, ClaimStore, Claimed, Claims, Held, RESCUE_SLACK, StoreError, Suspects, Take, TenantWalk,
    TenantsFound, sift_claim,
};

use crate::fair;
use crate::rows;
use crate::store::MysqlStore;
use crate::wire::Literal;

#[async_trait]
impl ClaimStore for MysqlStore {
    /// One round trip, and nothing is locked any more while the rows are sent: whoever freezes keeps
    /// nobody else from anything.
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claims, StoreError> {
        self.check_open()?;
        if !claim.shares.is_empty() {
            return match claim.limit {
                0 => Ok(Claims::default()),
                _ => fair::claim(self, claim).await,
            };
        }
        if self.is_in_vain(claim).await? {
            return Ok(Claims::default());
        }
        let claims = sift_claim(self, claim).await?;
        self.idle().learn(claim, !claims.rows.is_empty());
        Ok(claims)
    }

    async fn confirm(&self, holds: &[Held]) -> Result<Vec<EventId>, StoreError> {
        self.check_open()?;
        if holds.is_empty() {
            return Ok(Vec::new());
        }
        let ids = Literal::ids(holds.iter().map(|held| held.id));
        let rows = self.links().proofs.query(&self.sql().confirm.with(&[("ids", &ids)])).await?;
        let held = Tokens::of(&rows)?;
        Ok(holds.iter().filter(|hold| held.proves(hold)).map(|hold| hold.id).collect())
    }

    async fn rescue(&self, longest: Duration) -> Result<u64, StoreError> {
        self.check_open()?;
        let text = self.sql().rescue.with(&[
            ("longest", &Literal::span(longest)),
            ("longest_delay", &Literal::span(limits::DELAY)),
            ("slack", &Literal::span(RESCUE_SLACK)),
            ("limit", &Literal::count(limits::BATCH_ROWS)),
        ]);
        let rows = self.links().upkeep.query(&text).await?;
        let rescued = rows.first().map_or(Ok(0), |row| rows::integer(row, 0))?;
        Ok(u64::try_from(rescued).unwrap_or(0))
    }

    async fn check_fair(&self) -> Result<(), StoreError> {
        self.check_open()?;
        fair::check(self).await
    }

    async fn tenants(&self, walk: &TenantWalk<'_>) -> Result<TenantsFound, StoreError> {
        self.check_open()?;
        fair::tenants(self, walk).await
    }

    fn epoch(&self) -> u64 {
        self.lost_links()
    }
}

impl Take<MysqlStore> for Claim<'_> {
    type Taken = Claims;

    async fn take(
        &self,
        store: &MysqlStore,
        limit: usize,
        passed: &[EventId],
    ) -> Result<Option<Claims>, StoreError> {
        let mut passed = passed.to_vec();
        for _ in 0..ROUNDS {
            let Round { claimed: rows, missed } = round(self, store, limit, &passed).await?;
            if !rows.is_empty() {
                return Ok(Some(Claims { cut: !missed.is_empty(), ..rows.into() }));
            }
            if missed.is_empty() {
                break;
            }
            // Whoever has them locked must hide no others.
            passed.extend(missed);
        }
        Ok(None)
    }
}

/// So many portions of rows that somebody has locked are passed over by one claim or lock.
pub(crate) const ROUNDS: usize = 16;

/// What one text claimed.
struct Round {
    claimed: Vec<Claimed>,
    /// What a plain read saw, and somebody else has or had locked.
    missed: Vec<EventId>,
}

async fn round(
    claim: &Claim<'_>,
    store: &MysqlStore,
    limit: usize,
    passed: &[EventId],
) -> Result<Round, StoreError> {
    let sql = store.sql();
    let look = match (claim.suspects, claim.except.is_empty()) {
        (Suspects::Skip, true) => &sql.claim,
        (Suspects::Only, true) => &sql.claim_suspects,
        (Suspects::Skip, false) => &sql.claim_except,
        (Suspects::Only, false) => &sql.claim_suspects_except,
    };
    let values = [
        ("owner", &Literal::text(claim.owner)),
        ("limit", &Literal::count(limit)),
        ("bytes", &Literal::count(claim.bytes)),
        // A visible row was due before now: one that is held for later than now has another token.
        ("hold", &Literal::span(claim.hold.max(Duration::from_micros(1)))),
        ("skip_recent", &Literal::span(claim.skip_recent)),
        ("since", &Literal::since(claim.window)),
        ("from", &Literal::from(claim.from)),
        ("passed", &Literal::other_ids(passed)),
        ("kinds", &Literal::other_kinds(claim.except.kinds)),
        ("types", &Literal::other_types(claim.except.types)),
    ];
    let (look, hold) = (look.with(&values), sql.hold.with(&values));
    let ahead = match claim.except.is_empty() {
        true => String::new(),
        false => format!("{};\n", sql.ahead.text()),
    };
    let text = format!("{look};\n{hold};\ncommit;\n{ahead}{}", sql.claimed.with(&values));
    let mut results = store.links().claims.results(&text).await?;
    let claimed = rows::claimed(results.pop().unwrap_or_default())?;
    note_keys(store, &claimed);
    let got: HashSet<_> = claimed.iter().map(|row| row.id).collect();
    let seen = results.pop().unwrap_or_default();
    let seen = seen.iter().map(|row| rows::id(row, 0)).collect::<Result<Vec<_>, _>>()?;
    let missed = seen.into_iter().filter(|id| !got.contains(id)).collect();
    Ok(Round { claimed, missed })
}

/// Whether there are keys at all is known from rows that have one.
pub(crate) fn note_keys(store: &MysqlStore, claimed: &[Claimed]) {
    let keyed =
        |row: &Claimed| row.event.as_ref().is_ok_and(|event| event.ordering_key().is_some());
    if claimed.iter().any(keyed) {
        store.has_keys().set();
    }
}

/// The token of a row that is held; none where no statement of its own can prove the holding.
pub(crate) fn row_token(held: &Held) -> Option<Token> {
    match held.by {
        Holding::Row(token) => Some(token),
        // Its transaction settles it: see `locked.rs`; and a key its rows: see `keys.rs`.
        Holding::Lock | Holding::Key(_) => None,
    }
}

/// Which rows are held, and by which tokens: the first two columns of `confirm`.
pub(crate) struct Tokens(HashMap<EventId, Timestamp>);

impl Tokens {
    pub(crate) fn of(rows: &[Row]) -> Result<Self, StoreError> {
        let pairs = rows.iter().map(|row| Ok((rows::id(row, 0)?, rows::time(row, 1)?)));
        pairs.collect::<Result<_, _>>().map(Self)
    }

    pub(crate) fn proves(&self, held: &Held) -> bool {
        row_token(held).is_some_and(|token| self.are(held.id, token))
    }

    /// Whether the row is held by this one.
    pub(crate) fn are(&self, id: EventId, token: Token) -> bool {
        self.0.get(&id) == Some(&token.due_at())
    }
}
