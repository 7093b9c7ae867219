//! The one writer of settlements, releases and extensions.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::WaitsFor;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use super::keys::{KeyWriter, KeysExtended};
use super::overtaken::{Known, Overtaken};
use super::{
    Carry, Completion, Ended, ExtendedPart, Extender, FIRST_PAUSE, Fate, InTurn, Item, Over,
    Refusals, Turn, Unit, Waits, decided, put_off, send,
};
use crate::dispatch::DID_NOT_COMMIT;
use crate::source::{Handover, Joined, Mark, Ticket};
use crate::store::{Held, OutboxStore, Outcome};
use crate::until::until;

/// Writes settlements, releases and extensions, one statement after the other.
///
/// One writer for all three: an extension that overtook a settlement would make it look stale, and
/// the event would be delivered twice (G4). There is no timer in front of a settlement either:
/// completions gather while the previous statement is under way, so an idle node settles one event
/// at once and a busy one thousands together. What fails is [carried](Carry) apart from the rest.
pub(crate) struct SettleWriter {
    store: Arc<dyn OutboxStore>,
    handover: Arc<Handover>,
    completions: mpsc::Receiver<Completion>,
    pace: Pace,
    carry: Carry<Carried>,
    /// The same of keys, whose events are settled with them.
    keys: KeyWriter,
    overtaken: Overtaken,
    extender: Extender,
    /// A row that somebody has locked while its hold ends.
    turn: Turn,
    extend_at: Instant,
    /// How soon holds are looked at again after some of them could not be extended.
    extend_pause: Duration,
    /// Whether it is the turn of keys: they and rows have theirs one after the other.
    keys_first: bool,
}

/// How the writer keeps time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// What an extension extends by.
    pub(crate) hold: Duration,
    /// The shortest time for which anything is held.
    pub(crate) shortest_hold: Duration,
    /// How long one statement may take.
    pub(crate) statement_limit: Duration,
    pub(crate) refusals: Refusals,
}

impl Pace {
    /// How often to look for holds to extend: often enough that one statement that is lost in
    /// between lets none of them run out.
    fn extend_every(&self) -> Duration {
        self.shortest_hold / 8
    }

    /// The longest pause of a busy row. When its lock is gone and its hold has run out meanwhile,
    /// this writer should be there before anybody's poller.
    fn longest_wait(&self) -> Duration {
        self.shortest_hold / 40
    }

    pub(super) fn waits(&self) -> Waits {
        let database = LONGEST_PAUSE.min(self.shortest_hold / 4);
        Waits { row: self.longest_wait(), database }
    }
}

type Carried = Item<Option<Ticket>>;

const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The share of a statement that is for releases, or for rows that were busy, while there are more
/// completions than fit.
const SHARE: usize = 4;

impl SettleWriter {
    pub(crate) fn new(
        store: Arc<dyn OutboxStore>,
        handover: Arc<Handover>,
        completions: mpsc::Receiver<Completion>,
        pace: Pace,
        owner: Arc<str>,
    ) -> Self {
        let keys = KeyWriter::new(store.clone(), handover.clone(), owner, &pace);
        let carry = Carry::new(pace.waits(), pace.refusals);
        let (overtaken, extender) = (Overtaken::default(), Extender::default());
        let (extend_at, extend_pause) = (Instant::now() + pace.extend_every(), FIRST_PAUSE);
        Self {
            store,
            handover,
            completions,
            pace,
            carry,
            keys,
            overtaken,
            extender,
            turn: Turn::default(),
            extend_at,
            extend_pause,
            keys_first: true,
        }
    }

    /// Runs until every sender of completions is gone, then releases what is still held.
    ///
    /// After a panic it can be run again: what it had in hand is released by its tickets.
    pub(crate) async fn run(&mut self) {
        let mut completed = Vec::new();
        let mut open = true;
        while open {
            // While the database is unavailable nothing new is taken: workers wait.
            let takes = self.carry.takes_more();
            let again_at = self.carry.next_at();
            let room = self.room();
            let claims = self.overtaken.claims();
            let keys_again_at = self.keys.next_at();
            tokio::select! {
                biased;
                // Time first: under endless completions holds must still be extended.
                () = sleep_until(self.extend_at) => self.extend().await,
                // Before what is new, and each time only what gathered meanwhile: neither waits for long.
                () = self.keys.has_work(takes), if self.keys_first => {
                    self.keys_first = false;
                    self.send_keys().await;
                }
                () = next(keys_again_at) => self.send_keys().await,
                ended = self.turn.over() => self.turn_over(ended),
                () = next(again_at) => {
                    self.send_again().await;
                    // A turn for what is new: what is in trouble must not hold it back.
                    while self.carry.takes_more()
                        && completed.len() < room
                        && let Ok(next) = self.completions.try_recv()
                    {
                        completed.push(next);
                    }
                    self.send_new(&mut completed).await;
                }
                count = self.completions.recv_many(&mut completed, room), if takes => {
                    (open, self.keys_first) = (count > 0, true);
                    self.send_new(&mut completed).await;
                }
                () = self.keys.has_work(takes), if !self.keys_first => self.send_keys().await,
                () = self.handover.holds.released(), if takes => {
                    self.send_new(&mut completed).await;
                }
                () = claims_over(&self.handover, claims) => self.settle_overtaken(),
            }
        }
        self.handover.keys.let_all_go();
        while self.keys.is_busy() {
            if let Some(at) = self.keys.next_at() {
                until(at).await;
            }
            self.send_keys().await;
        }
        self.settle_overtaken();
        let held = self.handover.holds.take_all_but(&self.carry.ids());
        self.carry.add(held.into_iter().map(release).collect(), Instant::now());
        while let Some(at) = self.carry.next_at() {
            tokio::select! {
                biased;
                // What is settled last may be busy for long, and is held for as long.
                () = sleep_until(self.extend_at) => self.extend().await,
                ended = self.turn.over() => self.turn_over(ended),
                () = until(at) => self.send_again().await,
            }
        }
    }

    async fn send_keys(&mut self) {
        if Instant::now() >= self.extend_at {
            self.extend().await;
        }
        let fenced = self.keys.send().await;
        self.count_fenced(fenced);
    }

    /// How many completions to take for one statement.
    fn room(&self) -> usize {
        let fit = self.carry.fit();
        let others = if self.handover.holds.has_released() { fit / SHARE } else { 0 };
        fit - others
    }

    /// Sends what completed, with releases and with what was busy and is to be tried again now.
    async fn send_new(&mut self, completed: &mut Vec<Completion>) {
        if completed.is_empty() && !self.carry.takes_more() {
            return;
        }
        let fit = self.carry.fit();
        let mut batch: Vec<Carried> = Vec::with_capacity(completed.len());
        for completion in completed.drain(..) {
            // The token as it is now: an extension may have changed it since the run began.
            let Some(held) = completion.ticket.held() else {
                self.overtaken.lost(completion, &self.handover.holds.looks);
                continue;
            };
            let Completion { ticket, attempt, outcome } = completion;
            batch.push(Item::new(held, outcome, Some(attempt), Some(ticket)));
        }
        self.settle_overtaken();
        let room = fit.saturating_sub(batch.len());
        batch.extend(self.carry.joining(Instant::now(), room.min(fit / SHARE)));
        let released = self.handover.holds.take_released(fit.saturating_sub(batch.len()));
        let rows = released.len();
        batch.extend(released.into_iter().map(release));
        if !batch.is_empty() {
            self.send(batch).await;
        }
        if rows > 0 {
            debug!(rows, "holds released");
            if self.handover.holds.rings() {
                self.handover.alarm.ring();
            }
        }
        self.count_unreleased();
        self.handover.observer.tell(|metrics| metrics.lane_depths(self.handover.lanes.depths()));
    }

    /// Sends what could not be settled the last time and is to be tried again now.
    async fn send_again(&mut self) {
        let batch = self.carry.due(Instant::now());
        if !batch.is_empty() {
            self.send(batch).await;
        }
    }

    /// A settlement that fails is not a failed delivery: it is tried until it is taken.
    async fn send(&mut self, mut batch: Vec<Carried>) {
        if Instant::now() >= self.extend_at {
            self.extend().await;
        }
        let waits = |item: &mut Carried| self.turn.row() == Some(item.id());
        let waiting = batch.extract_if(.., waits).collect();
        self.carry.put_back(waiting, Instant::now());
        if batch.is_empty() {
            return;
        }
        for item in &mut batch {
            let held = item.bearer.as_ref().and_then(Ticket::held);
            held.into_iter().for_each(|held| item.go_by(held));
        }
        let answer = send(&*self.store, &batch, self.pace.statement_limit).await;
        let ended = self.carry.answered(batch, decided(&answer), Instant::now());
        self.finish(ended).await;
    }

    async fn finish(&mut self, ended: Vec<Over<Carried>>) {
        let (mut fenced, mut refused) = (0, Vec::new());
        for over in ended {
            let over = match over.fate {
                Fate::Fenced | Fate::InDoubt => {
                    self.overtaken.fenced(over, &self.handover.holds.looks)
                }
                _ => Some(over),
            };
            let Some(Over { item, fate }) = over else { continue };
            let held = item.settlement.held;
            let joined = item.bearer.as_ref().map_or(Joined::No, Ticket::joined);
            if fate == Fate::Applied && joined == Joined::Succeeded {
                warn!(event.id = %held.id, "{DID_NOT_COMMIT}");
            }
            if fate == Fate::Applied {
                self.handover.waiters.settled(held.id, &item.settlement.outcome);
            }
            match (fate, &item.settlement.outcome) {
                // What was only to be released was not delivered here.
                (Fate::Fenced, outcome) => {
                    fenced += usize::from(!outcome.is_released() && joined == Joined::No)
                }
                // Who waits for a handler waits for another node's.
                (Fate::Applied, Outcome::Wait { waits_for: WaitsFor::Handler, .. }) => {}
                (Fate::Applied, Outcome::Retry { delay, .. } | Outcome::Wait { delay, .. }) => {
                    self.handover.alarm.ring_after(*delay);
                }
                (Fate::Applied, Outcome::Dead { .. }) => {
                    self.handover.observer.tell(|metrics| metrics.dead(1));
                }
                // What is released runs out by itself.
                (Fate::Refused, outcome) if !outcome.is_released() => refused.push(held),
                _ => {}
            }
            if let Some(ticket) = item.bearer {
                ticket.settled(held);
            }
        }
        self.count_fenced(fenced);
        self.settle_overtaken();
        put_off(&*self.store, refused, self.pace.statement_limit).await;
    }

    /// Settles by their newer holds what this node claimed again, and counts what others have.
    fn settle_overtaken(&mut self) {
        let Known { again, fenced } = self.overtaken.known(&self.handover.holds.looks);
        self.carry.add(again, Instant::now());
        self.count_fenced(fenced);
    }

    fn count_fenced(&self, count: usize) {
        if count > 0 {
            self.handover.observer.tell(|metrics| metrics.fenced(count as u64));
            warn!(count, "settlements fenced: the rows were no longer held");
        }
    }

    fn count_unreleased(&self) {
        let count = self.handover.holds.take_overflow();
        if count > 0 {
            self.handover.observer.tell(|metrics| metrics.unreleased(count));
            warn!(count, "too many rows to release: they are visible when their holds end");
        }
    }

    async fn extend(&mut self) {
        let in_doubt = self.carry.in_doubt();
        let in_turn = self.turn.row();
        let spared = |id| in_doubt.contains(&id) || in_turn == Some(id);
        let Pace { hold, statement_limit, .. } = self.pace;
        let terms = (hold, statement_limit);
        let holds = &self.handover.holds;
        // A run that settles its event itself waits for the statement about that, and for none before it.
        let renew = |part| holds.renew(part);
        let answered = |part: ExtendedPart| holds.extended(&part.asked, &part.held, part.until);
        let ending = holds.ending(spared);
        let extension = self.extender.extend(&*self.store, ending, terms, renew, answered).await;
        let keys = self.keys.extend(hold).await;
        // What is busy, or had no answer, soon again: it may have little time left.
        let failed = extension.failed.is_some() || keys == KeysExtended::Failed;
        let longest = match failed {
            true => self.pace.extend_every(),
            false => self.pace.longest_wait(),
        };
        if failed || !extension.busy.is_empty() || keys == KeysExtended::Busy {
            self.extend_at = Instant::now() + self.extend_pause.min(longest);
            self.extend_pause = (self.extend_pause * 2).min(longest).max(FIRST_PAUSE);
        } else {
            // What is taken in after this look has almost all of its time left.
            let idle = self.handover.holds.is_empty() && self.handover.keys.is_empty();
            let idle = if idle { 2 } else { 1 };
            self.extend_at = Instant::now() + self.pace.extend_every() * idle;
            self.extend_pause = FIRST_PAUSE;
        }
        let (store, holds) = (self.store.clone(), self.handover.holds.clone());
        self.turn.wait(extension.busy, InTurn { store, holds, hold, limit: statement_limit });
    }

    /// What is only busy is sent again if a lock is gone; a row that is locked still is waited for again.
    fn turn_over(&mut self, ended: Ended) {
        let now = Instant::now();
        match ended {
            Ended::Free => self.carry.hurry(now),
            Ended::Locked => self.extend_at = now,
            Ended::Unknown => {
                self.extend_at = self.extend_at.min(now + self.extend_pause);
                self.extend_pause =
                    (self.extend_pause * 2).min(self.pace.longest_wait()).max(FIRST_PAUSE);
            }
        }
    }
}

fn release(held: Held) -> Carried {
    Item::new(held, Outcome::Released, None, None)
}

async fn claims_over(handover: &Handover, claims: Option<Mark>) {
    match claims {
        Some(claims) => handover.holds.looks.over(claims).await,
        None => std::future::pending().await,
    }
}

async fn next(at: Option<Instant>) {
    match at {
        Some(at) => until(at).await,
        None => std::future::pending().await,
    }
}
