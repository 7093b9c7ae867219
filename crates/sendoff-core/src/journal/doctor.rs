//! What is wrong with a journal, judged by what was found out about it at one moment.

use std::fmt;
use std::time::Duration;

use super::position::Position;
use super::publish::{CursorStatus, PairId, WaitsAt};
use super::tail::{Holder, Sequence, Server, Unsafe};
use crate::timestamp::Timestamp;

/// What was found out about a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkup {
    /// The server that was asked.
    pub server: Server,
    /// How its positions are counted.
    pub sequence: Sequence,
    /// The last position taken.
    pub head: Position,
    /// Its clock, and what else only it knows.
    pub vitals: Vitals,
    /// Who has an append open.
    pub holders: Vec<Holder>,
    /// Every pair of topic and publisher.
    pub pairs: Vec<PairCheckup>,
}

/// What is asked of a server for a checkup only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vitals {
    /// Its clock.
    pub now: Timestamp,
    /// Isolation levels above READ COMMITTED that sessions begin with, where the server keeps such
    /// settings.
    pub stricter: Vec<StricterDefault>,
    /// Settings under which a crash of the server takes back what it had committed.
    pub forgetful: Vec<ForgetfulSetting>,
}

/// A setting of the server under which its crash takes back commits that were answered, and an event
/// may have been delivered that is gone then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForgetfulSetting {
    /// Its name.
    pub name: String,
    /// What it is set to.
    pub value: String,
    /// What keeps every commit.
    pub durable: String,
}

impl fmt::Display for ForgetfulSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, value, durable } = self;
        write!(
            f,
            "{name} is {value}: a crash of the server takes back transactions whose events may have \
             been delivered; set it to {durable}"
        )
    }
}

/// An isolation level that sessions begin with and that appends with a condition are refused at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StricterDefault {
    /// Whose sessions: `database shop`, `role app`.
    pub whose: String,
    /// The level.
    pub level: String,
}

/// What was found out about a pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairCheckup {
    /// The pair.
    pub pair: PairId,
    /// Whether it is worked.
    pub status: CursorStatus,
    /// Where it is.
    pub position: Position,
    /// By how many positions it lags: from its own to the last one taken.
    pub lag: u64,
    /// How often it failed since it last succeeded.
    pub errors: u32,
    /// Why, the last time.
    pub last_error: Option<String>,
    /// The fact that it waits at, where it failed.
    pub waits_at: Option<WaitsAt>,
    /// When something was published last.
    pub published_at: Option<Timestamp>,
    /// Who leads it.
    pub leader: Leader,
    /// What it parked.
    pub parked: ParkedCount,
}

/// Who leads a pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Leader {
    /// Nobody.
    None,
    /// A node that is not alive any more.
    Gone(String),
    /// A node that is.
    Alive(String),
}

impl Leader {
    /// Its name.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::None => None,
            Self::Gone(name) | Self::Alive(name) => Some(name),
        }
    }

    /// Whether there is one that is alive.
    pub const fn is_alive(&self) -> bool {
        matches!(self, Self::Alive(_))
    }
}

/// How many facts a pair parked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ParkedCount {
    /// Those that are tried again by themselves.
    pub retried: u64,
    /// Those that wait for somebody.
    pub given_up: u64,
    /// Whether there are more that were not counted.
    pub more: bool,
}

/// From when on something is wrong that is only normal before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tolerance {
    /// How long an append may be open.
    pub open: Duration,
    /// How many positions a pair may lag.
    pub lag: u64,
}

impl Default for Tolerance {
    /// 10 s, and 10,000 positions.
    fn default() -> Self {
        Self { open: Duration::from_secs(10), lag: 10_000 }
    }
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It works; somebody may want to know.
    Advice,
    /// It does not work, or not for long.
    Wrong,
}

/// Something that somebody should know. Its text says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Finding {
    /// Tails and publishers cannot work here.
    Unsafe(Unsafe),
    /// An append is open for too long, and everybody who reads the journal's end waits for it.
    Held {
        /// Who.
        holder: Holder,
        /// How long it is open; none where the role may not know.
        open: Option<Duration>,
    },
    /// Sessions begin at a level where a condition cannot be checked.
    Isolation(StricterDefault),
    /// A crash of the server takes back what it had committed.
    Forgetful(ForgetfulSetting),
    /// A pair stopped at a fact that it could not publish.
    Failed(PairId, Option<String>),
    /// A pair waits at a fact that fails, and nothing after it is published until it does not.
    Waiting {
        /// The pair.
        pair: PairId,
        /// The fact.
        at: WaitsAt,
        /// For how long by now.
        waited: Duration,
        /// How often it failed.
        errors: u32,
        /// Why, the last time.
        error: Option<String>,
    },
    /// A pair fails, and is tried again; at which fact is not known.
    Failing(PairId, u32, Option<String>),
    /// Nobody who is alive leads a pair.
    Leaderless(PairId, Option<String>),
    /// A pair lags far.
    Lagging(PairId, u64),
    /// Facts wait for somebody to decide.
    GivenUp(PairId, ParkedCount),
    /// Facts are parked and tried again.
    Parked(PairId, ParkedCount),
    /// A pair was paused.
    Paused(PairId, u64),
}

impl Finding {
    /// How bad it is.
    pub const fn severity(&self) -> Severity {
        match self {
            Self::Unsafe(_)
            | Self::Held { open: Some(_), .. }
            | Self::Failed(..)
            | Self::Waiting { .. }
            | Self::Failing(..)
            | Self::Leaderless(..)
            | Self::Lagging(..)
            | Self::GivenUp(..) => Severity::Wrong,
            Self::Held { open: None, .. }
            | Self::Isolation(_)
            | Self::Forgetful(_)
            | Self::Parked(..)
            | Self::Paused(..) => Severity::Advice,
        }
    }

    /// A name for programs; it does not change.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unsafe(Unsafe::Standby) => "standby",
            Self::Unsafe(Unsafe::Sequence(_)) => "sequence",
            Self::Unsafe(_) => "unsafe",
            Self::Held { .. } => "held",
            Self::Isolation(_) => "isolation",
            Self::Forgetful(_) => "forgetful",
            Self::Failed(..) => "failed",
            Self::Waiting { .. } => "waiting",
            Self::Failing(..) => "failing",
            Self::Leaderless(..) => "leaderless",
            Self::Lagging(..) => "lagging",
            Self::GivenUp(..) => "given-up",
            Self::Parked(..) => "parked",
            Self::Paused(..) => "paused",
        }
    }
}

impl Checkup {
    /// What somebody should know, the worst first.
    pub fn findings(&self, tolerance: &Tolerance) -> Vec<Finding> {
        let mut findings = Vec::new();
        if self.server.in_recovery {
            findings.push(Finding::Unsafe(Unsafe::Standby));
        }
        if self.sequence != Sequence::ONE_BY_ONE {
            findings.push(Finding::Unsafe(Unsafe::Sequence(self.sequence)));
        }
        for holder in &self.holders {
            let open = self.open_for(holder);
            if open.is_none_or(|open| open >= tolerance.open) {
                findings.push(Finding::Held { holder: holder.clone(), open });
            }
        }
        findings.extend(self.vitals.stricter.iter().cloned().map(Finding::Isolation));
        findings.extend(self.vitals.forgetful.iter().cloned().map(Finding::Forgetful));
        let now = self.vitals.now;
        self.pairs.iter().for_each(|pair| pair.judge(tolerance, now, &mut findings));
        findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity()));
        findings
    }

    /// How long a holder's append is open, by the server's clock.
    pub fn open_for(&self, holder: &Holder) -> Option<Duration> {
        holder.since.map(|since| self.vitals.now.since(since))
    }
}

impl PairCheckup {
    fn judge(&self, tolerance: &Tolerance, now: Timestamp, findings: &mut Vec<Finding>) {
        let Self { pair, lag, errors, last_error, leader, parked, .. } = self;
        match self.status {
            CursorStatus::Failed => {
                findings.push(Finding::Failed(pair.clone(), last_error.clone()))
            }
            // Lagging is what it is paused for.
            CursorStatus::Paused => findings.push(Finding::Paused(pair.clone(), *lag)),
            CursorStatus::Active => {
                if *errors > 0 {
                    let (pair, errors, error) = (pair.clone(), *errors, last_error.clone());
                    findings.push(match self.waits_at {
                        None => Finding::Failing(pair, errors, error),
                        Some(at) => {
                            let waited = now.since(at.since);
                            Finding::Waiting { pair, at, waited, errors, error }
                        }
                    });
                }
                if !leader.is_alive() {
                    let last = leader.name().map(str::to_owned);
                    findings.push(Finding::Leaderless(pair.clone(), last));
                }
                if *lag > tolerance.lag {
                    findings.push(Finding::Lagging(pair.clone(), *lag));
                }
            }
        }
        if parked.given_up > 0 {
            findings.push(Finding::GivenUp(pair.clone(), *parked));
        } else if parked.retried > 0 {
            findings.push(Finding::Parked(pair.clone(), *parked));
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why =
            |error: &Option<String>| error.as_ref().map_or(String::new(), |e| format!(": {e}"));
        match self {
            Self::Unsafe(reason) => reason.fmt(f),
            Self::Held { holder, open } => held(f, holder, *open),
            Self::Isolation(StricterDefault { whose, level }) => write!(
                f,
                "sessions of the {whose} begin at {level}, where an append with a condition is \
                 refused: begin transactions that append at READ COMMITTED"
            ),
            Self::Forgetful(setting) => setting.fmt(f),
            Self::Failed(pair, error) => write!(
                f,
                "{pair} stopped at a fact that could not be published{}; mend the cause and reset it",
                why(error)
            ),
            Self::Waiting { pair, at: WaitsAt { position, since }, waited, errors, error } => {
                write!(
                    f,
                    "{pair} waits at position {position} since {since}, for {} s, after {errors} failures{}; \
                 it goes on by itself when its target takes that fact. To go on without it, put the \
                 pair after it: sendoff journal publishers rewind --topic {} --publisher {} \
                 --to-position {position}",
                    waited.as_secs(),
                    why(error),
                    pair.topic(),
                    pair.publisher()
                )
            }
            Self::Failing(pair, errors, error) => write!(
                f,
                "{pair} failed {errors} times since it last succeeded{}; it goes on by itself when \
                 its target is back",
                why(error)
            ),
            Self::Leaderless(pair, None) => {
                write!(f, "nobody leads {pair}: start a node that publishes it, or pause it")
            }
            Self::Leaderless(pair, Some(last)) => write!(
                f,
                "nobody leads {pair}, its last node {last} is gone: start a node that publishes it, \
                 or pause it"
            ),
            Self::Lagging(pair, lag) => write!(
                f,
                "{pair} lags by {lag} positions: its target is slow, or its batches are small"
            ),
            Self::GivenUp(pair, parked) => write!(
                f,
                "{pair} parked facts that are not tried again, {}{} of them: retry or discard them",
                least(parked),
                parked.given_up
            ),
            Self::Parked(pair, parked) => write!(
                f,
                "{pair} parked {}{} facts, and tries them again",
                least(parked),
                parked.retried
            ),
            Self::Paused(pair, lag) => {
                write!(
                    f,
                    "{pair} is paused and lags by {lag} positions: resume it when it may go on"
                )
            }
        }
    }
}

fn least(parked: &ParkedCount) -> &'static str {
    if parked.more { "at least " } else { "" }
}

fn held(f: &mut fmt::Formatter<'_>, holder: &Holder, open: Option<Duration>) -> fmt::Result {
    write!(f, "{holder} holds the tail back")?;
    match (open, holder.since) {
        (Some(open), Some(since)) => {
            write!(f, ": it has an append open since {since}, for {} s", open.as_secs())?;
        }
        _ => f.write_str(
            ": it has an append open, and since when is not for this role to know; grant it \
             pg_read_all_stats",
        )?,
    }
    match &holder.gid {
        Some(gid) => {
            let gid = gid.replace('\'', "''");
            write!(f, "; end it with COMMIT PREPARED '{gid}' or ROLLBACK PREPARED '{gid}'")
        }
        None => f.write_str("; commit it or roll it back, or end its session"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::HolderId;

    fn healthy() -> Checkup {
        Checkup {
            server: Server { started_at: Timestamp::from_micros(0), in_recovery: false },
            sequence: Sequence::ONE_BY_ONE,
            head: Position::new(100).unwrap(),
            vitals: Vitals {
                now: Timestamp::from_micros(60_000_000),
                stricter: Vec::new(),
                forgetful: Vec::new(),
            },
            holders: Vec::new(),
            pairs: vec![pair()],
        }
    }

    fn pair() -> PairCheckup {
        PairCheckup {
            pair: PairId::new("wallets", "kafka").unwrap(),
            status: CursorStatus::Active,
            position: Position::new(90).unwrap(),
            lag: 10,
            errors: 0,
            last_error: None,
            waits_at: None,
            published_at: None,
            leader: Leader::Alive("n1".into()),
            parked: ParkedCount::default(),
        }
    }

    fn holder(since: Option<i64>) -> Holder {
        Holder {
            id: HolderId::new("4/2"),
            pid: Some(4711),
            gid: None,
            since: since.map(|seconds| Timestamp::from_micros(seconds * 1_000_000)),
            application: Some("shop".into()),
        }
    }

    fn codes(checkup: &Checkup) -> Vec<(&'static str, Severity)> {
        let findings = checkup.findings(&Tolerance::default());
        findings.iter().map(|finding| (finding.code(), finding.severity())).collect()
    }

    #[test]
    fn a_healthy_journal_has_no_findings() {
        assert!(codes(&healthy()).is_empty());
        let young = Checkup { holders: vec![holder(Some(55))], ..healthy() };
        assert!(codes(&young).is_empty(), "an append takes a moment");
    }

    #[test]
    fn whoever_holds_the_tail_back_is_named_with_what_to_do() {
        let at_the_limit = Checkup { holders: vec![holder(Some(50))], ..healthy() };
        assert_eq!(codes(&at_the_limit), [("held", Severity::Wrong)]);
        let text = at_the_limit.findings(&Tolerance::default())[0].to_string();
        assert!(text.contains("process 4711") && text.contains("for 10 s"), "{text}");

        let prepared = Holder { pid: None, gid: Some("o'clock".into()), ..holder(Some(1)) };
        let prepared = Checkup { holders: vec![prepared], ..healthy() };
        let text = prepared.findings(&Tolerance::default())[0].to_string();
        assert!(text.contains("ROLLBACK PREPARED 'o''clock'"), "{text}");

        let hidden = Checkup { holders: vec![holder(None)], ..healthy() };
        assert_eq!(codes(&hidden), [("held", Severity::Advice)]);
    }

    #[test]
    fn what_the_tail_relies_on_is_checked() {
        let mut ill = healthy();
        ill.server.in_recovery = true;
        ill.sequence.cache = 20;
        ill.vitals.stricter =
            vec![StricterDefault { whose: "role app".into(), level: "serializable".into() }];
        let wrong = Severity::Wrong;
        let expected = [("standby", wrong), ("sequence", wrong), ("isolation", Severity::Advice)];
        assert_eq!(codes(&ill), expected);
    }

    #[test]
    fn a_pair_that_waits_at_a_fact_is_named_with_where_since_when_why_and_what_to_do() {
        let mut checkup = healthy();
        let (position, since) = (Position::new(91).unwrap(), Timestamp::from_micros(18_000_000));
        let waits = &mut checkup.pairs[0];
        waits.waits_at = Some(WaitsAt { position, since });
        assert!(codes(&checkup).is_empty(), "it went on since");
        (checkup.pairs[0].errors, checkup.pairs[0].last_error) =
            (7, Some("no such account".into()));
        assert_eq!(codes(&checkup), [("waiting", Severity::Wrong)]);
        let text = checkup.findings(&Tolerance::default())[0].to_string();
        for part in [
            "wallets:kafka waits at position 91 since 1970-01-01T00:00:18",
            "for 42 s, after 7 failures: no such account; it goes on by itself",
            "rewind --topic wallets --publisher kafka --to-position 91",
        ] {
            assert!(text.contains(part), "{text}");
        }
        checkup.pairs[0].status = CursorStatus::Paused;
        assert_eq!(codes(&checkup), [("paused", Severity::Advice)], "that is what somebody wanted");
    }

    #[test]
    fn a_pair_is_judged_by_what_it_should_be_doing() {
        let with = |change: fn(&mut PairCheckup)| {
            let mut checkup = healthy();
            change(&mut checkup.pairs[0]);
            codes(&checkup).into_iter().map(|(code, _)| code).collect::<Vec<_>>()
        };
        assert_eq!(with(|pair| pair.status = CursorStatus::Failed), ["failed"]);
        assert_eq!(with(|pair| pair.errors = 1), ["failing"]);
        assert_eq!(with(|pair| pair.leader = Leader::None), ["leaderless"]);
        assert_eq!(with(|pair| pair.leader = Leader::Gone("n2".into())), ["leaderless"]);
        assert!(with(|pair| pair.lag = 10_000).is_empty());
        assert_eq!(with(|pair| pair.lag = 10_001), ["lagging"]);
        assert_eq!(with(|pair| pair.parked.retried = 2), ["parked"]);
        assert_eq!(with(|pair| pair.parked.given_up = 2), ["given-up"]);
        let paused = with(|pair| {
            pair.status = CursorStatus::Paused;
            (pair.lag, pair.leader) = (1_000_000, Leader::None);
        });
        assert_eq!(paused, ["paused"], "that is what somebody wanted");
    }
}
