//! What is wrong with an outbox, judged by what was found out about it at one moment.

use std::fmt;
use std::time::Duration;

use crate::id::EventId;
use crate::journal::doctor::{ForgetfulSetting, Severity};
use crate::letter::{Letter, LetterCount};
use crate::order::{KeyStanding, KeyState, Parking};
use crate::pause::{Pause, PauseScope};
use crate::timestamp::Timestamp;

/// What was found out about an outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxCheckup {
    /// How many dead letters there are.
    pub dead: LetterCount,
    /// The one that died last.
    pub newest_dead: Option<Letter>,
    /// The event that has been due for longest, if one is.
    pub oldest: Option<Undelivered>,
    /// Whether an older one may be among those that were not looked at.
    pub at_least: bool,
    /// How many keys are parked.
    pub parked: LetterCount,
    /// The first of them.
    pub first_parked: Option<KeyStanding>,
    /// What operators paused.
    pub pauses: Vec<Pause>,
    /// Settings under which a crash of the server takes back what it had committed.
    pub forgetful: Vec<ForgetfulSetting>,
}

/// An event that is not delivered yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undelivered {
    /// Its id.
    pub id: EventId,
    /// Its type.
    pub event_type: String,
    /// For how long it has been due, since it first was.
    pub due_for: Duration,
    /// Attempts that were counted.
    pub attempts: u32,
    /// The last error.
    pub last_error: Option<String>,
    /// Since when it waits for its target.
    pub unavailable_since: Option<Timestamp>,
    /// Since when it waits for a node that has a handler for it.
    pub unroutable_since: Option<Timestamp>,
    /// Who holds it.
    pub held_by: Option<String>,
    /// How its key stands, where it has one.
    pub key: Option<KeyStanding>,
    /// What keeps it from being delivered, of what is paused.
    pub paused: Option<Pause>,
    /// A handler that is paused, and may be its own: who handles an event is known to nodes alone.
    pub perhaps_paused: Option<Pause>,
}

impl Undelivered {
    /// Finds out what keeps it from being delivered, of what is paused.
    #[must_use]
    pub fn beside(mut self, pauses: &[Pause]) -> Self {
        self.paused = pauses.iter().find(|pause| self.waits_for(pause)).cloned();
        let is_handler = |pause: &&Pause| matches!(pause.scope, PauseScope::Handler(_));
        self.perhaps_paused = match self.paused {
            None => pauses.iter().find(is_handler).cloned(),
            Some(_) => None,
        };
        self
    }

    /// Whether it waits for this for certain.
    fn waits_for(&self, pause: &Pause) -> bool {
        match &pause.scope {
            PauseScope::All => true,
            PauseScope::EventType(name) => *name == self.event_type,
            // A handler has the name of its type unless it was given another. A sink that was paused because its target
            // wants no more has the error of its event for the reason.
            PauseScope::Handler(name) => {
                let by_itself = pause.actor == pause.scope.to_string();
                *name == self.event_type || (by_itself && self.failed_with(&pause.reason))
            }
        }
    }

    /// Whether its last error is this, which may be cut off, and of which blanks are not as they were.
    fn failed_with(&self, reason: &str) -> bool {
        let squeezed = |text: &str| -> String {
            text.chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect()
        };
        let (error, reason) = (self.last_error.as_deref().map(squeezed), squeezed(reason));
        error.is_some_and(|error| !reason.is_empty() && error.starts_with(&reason))
    }
}

/// What somebody should know about an outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutboxFinding {
    /// There are dead letters.
    Dead(LetterCount, Option<Letter>),
    /// Keys are parked.
    ParkedKeys(LetterCount, Option<KeyStanding>),
    /// An event is not delivered although it was due long ago.
    Late(Box<Undelivered>),
    /// Something is paused.
    Paused(Pause),
    /// A crash of the server takes back commits.
    Forgetful(ForgetfulSetting),
}

impl OutboxFinding {
    /// How bad it is.
    pub const fn severity(&self) -> Severity {
        match self {
            Self::Dead(..) | Self::ParkedKeys(..) | Self::Late(_) => Severity::Wrong,
            Self::Paused(_) | Self::Forgetful(_) => Severity::Advice,
        }
    }

    /// A name for programs; it does not change.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Dead(..) => "dead",
            Self::ParkedKeys(..) => "parked-keys",
            Self::Late(_) => "late",
            Self::Paused(_) => "outbox-paused",
            // As of a journal, whose server it may be as well.
            Self::Forgetful(_) => "forgetful",
        }
    }
}

impl OutboxCheckup {
    /// What somebody should know, the worst first. An event may be due for so long before it is late.
    pub fn findings(&self, late: Duration) -> Vec<OutboxFinding> {
        let mut findings = Vec::new();
        if self.dead.counted() > 0 {
            findings.push(OutboxFinding::Dead(self.dead, self.newest_dead.clone()));
        }
        if self.parked.counted() > 0 {
            findings.push(OutboxFinding::ParkedKeys(self.parked, self.first_parked.clone()));
        }
        let oldest = self.oldest.iter().filter(|oldest| oldest.due_for >= late);
        findings.extend(oldest.cloned().map(|event| OutboxFinding::Late(Box::new(event))));
        findings.extend(self.pauses.iter().cloned().map(OutboxFinding::Paused));
        findings.extend(self.forgetful.iter().cloned().map(OutboxFinding::Forgetful));
        findings
    }
}

impl fmt::Display for OutboxFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dead(count, newest) => {
                write!(f, "{count} dead letter{}", if count.counted() == 1 { "" } else { "s" })?;
                if let Some(Letter { event_type, last_error, .. }) = newest {
                    write!(f, ", the last one of type {event_type}")?;
                    if let Some(error) = last_error {
                        write!(f, ": {}", shortened(error))?;
                    }
                }
                f.write_str(
                    "; `sendoff events list` shows them: mend the cause, then `sendoff events requeue` or \
                     `discard`",
                )
            }
            Self::ParkedKeys(count, first) => parked(f, *count, first.as_ref()),
            Self::Late(event) => late(f, event),
            Self::Paused(pause) => {
                write!(f, "{}; {} ends that", IsPaused(pause), Resume(&pause.scope))
            }
            Self::Forgetful(setting) => setting.fmt(f),
        }
    }
}

/// What is paused, since when, by whom and why.
struct IsPaused<'p>(&'p Pause);

impl fmt::Display for IsPaused<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pause { scope, since, actor, reason } = self.0;
        match *actor == scope.to_string() {
            true => write!(f, "{scope} has paused itself since {since} ({reason})"),
            false => write!(f, "{scope} is paused by {actor} since {since} ({reason})"),
        }
    }
}

/// The command that ends a pause.
struct Resume<'p>(&'p PauseScope);

impl fmt::Display for Resume<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`sendoff resume ")?;
        match self.0 {
            PauseScope::All => f.write_str("--all")?,
            PauseScope::EventType(name) => write!(f, "--type {name}")?,
            PauseScope::Handler(name) => write!(f, "--handler {name}")?,
        }
        f.write_str(" --reason …`")
    }
}

fn parked(
    f: &mut fmt::Formatter<'_>,
    count: LetterCount,
    first: Option<&KeyStanding>,
) -> fmt::Result {
    match count {
        LetterCount::Exactly(1) => f.write_str("1 key is parked")?,
        count => write!(f, "{count} keys are parked")?,
    }
    if let Some((standing, parking)) = first.and_then(|first| Some((first, first.parking()?))) {
        let KeyStanding { key, events, .. } = standing;
        let Parking { event, since, letter } = parking;
        write!(
            f,
            ", as {key}, where {events} events wait since {since} for the dead event {event}"
        )?;
        if let Some(letter) = letter {
            write!(f, " of type {}", letter.event_type)?;
            if let Some(error) = &letter.last_error {
                write!(f, " ({})", shortened(error))?;
            }
        }
    }
    f.write_str(
        "; `sendoff keys list` shows them: requeue or discard the dead event, which keeps the order, or let \
         the key go on without it by `sendoff keys resume`",
    )
}

fn late(f: &mut fmt::Formatter<'_>, event: &Undelivered) -> fmt::Result {
    let Undelivered { id, event_type, due_for, attempts, last_error, .. } = event;
    let seconds = due_for.as_secs();
    write!(f, "event {id} of type {event_type} has been due for {seconds} s")?;
    let error = || last_error.as_deref().map_or(String::new(), |e| format!(" ({})", shortened(e)));
    if let Some(pause) = &event.paused {
        let (paused, resume) = (IsPaused(pause), Resume(&pause.scope));
        return write!(f, ": {paused}; it waits for {resume}");
    }
    if let Some(since) = event.unroutable_since {
        return write!(
            f,
            ": no handler was found for it since {since}; start a node that has one{}",
            error()
        );
    }
    if let Some(since) = event.unavailable_since {
        write!(
            f,
            ": its target is unavailable since {since}{}; it goes on by itself when that is back",
            error()
        )?;
        return match &event.perhaps_paused {
            None => Ok(()),
            Some(pause) => {
                let (paused, resume) = (IsPaused(pause), Resume(&pause.scope));
                write!(f, ", unless it is of {}: {paused}, until {resume}", pause.scope)
            }
        };
    }
    if let Some(KeyStanding { key, state, .. }) = &event.key {
        match state {
            KeyState::Parked(Parking { event, since, .. }) => {
                return write!(
                    f,
                    ": its key {key} is parked since {since} behind the dead event {event}; `sendoff keys \
                     show` says why"
                );
            }
            KeyState::Held { by, .. } if event.held_by.is_none() => {
                return write!(
                    f,
                    ": {by} holds its key {key}; a handler may hang, or that node may have died{}",
                    error()
                );
            }
            _ => {}
        }
    }
    match (&event.held_by, attempts) {
        (Some(holder), _) => {
            write!(
                f,
                ": {holder} holds it; a handler may hang, or that node may have died{}",
                error()
            )
        }
        (None, 0) => match &event.perhaps_paused {
            None => f.write_str(": nobody takes it; is a node running that delivers?"),
            Some(Pause { scope, .. }) => {
                write!(
                    f,
                    ": nobody takes it; is a node running that delivers, or is it of {scope}, which is paused?"
                )
            }
        },
        (None, attempts) => write!(f, ": {attempts} attempts failed{}", error()),
    }
}

/// Characters of an error that are shown of it here.
const SHOWN: usize = 200;

fn shortened(error: &str) -> &str {
    crate::limits::truncate(error, SHOWN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undelivered(due_for: u64) -> Undelivered {
        Undelivered {
            id: EventId::generate(),
            event_type: "mail.wanted".to_owned(),
            due_for: Duration::from_secs(due_for),
            attempts: 0,
            last_error: None,
            unavailable_since: None,
            unroutable_since: None,
            held_by: None,
            key: None,
            paused: None,
            perhaps_paused: None,
        }
    }

    fn pause(scope: &str, actor: &str, reason: &str) -> Pause {
        let since = Timestamp::from_micros(0);
        Pause {
            scope: scope.parse().unwrap(),
            since,
            actor: actor.to_owned(),
            reason: reason.to_owned(),
        }
    }

    /// What waits for a person does not go on by itself.
    #[test]
    fn a_late_event_that_is_paused_waits_for_whoever_resumes_it() {
        let late = Undelivered {
            unavailable_since: Some(Timestamp::from_micros(0)),
            last_error: Some("the receiver answered 410:\n gone for good".to_owned()),
            ..undelivered(99)
        };
        let says = |pauses: &[Pause]| {
            OutboxFinding::Late(Box::new(late.clone().beside(pauses))).to_string()
        };
        let gone = "the receiver answered 410: gone";
        for pause in [
            pause("handler:crm", "handler:crm", gone),
            pause("handler:mail.wanted", "ann", "an incident"),
            pause("type:mail.wanted", "ann", "an incident"),
            pause("all", "ann", "an incident"),
        ] {
            let said = says(std::slice::from_ref(&pause));
            assert!(!said.contains("by itself when"), "{said}");
            assert!(said.contains("it waits for `sendoff resume --"), "{said}");
            assert!(said.contains(&pause.reason), "{said}");
            let by_itself = pause.actor.starts_with("handler:");
            assert_eq!(said.contains("handler:crm has paused itself"), by_itself, "{said}");
        }
        let others = [
            pause("type:other", "ann", "an incident"),
            pause("handler:crm", "handler:crm", "the receiver answered 410: another"),
            pause("handler:crm", "ann", gone),
        ];
        let said = says(&others);
        assert!(
            said.contains("by itself when that is back, unless it is of handler:crm"),
            "{said}"
        );
        assert!(says(&others[..1]).ends_with("by itself when that is back"), "{said}");
        let untried = OutboxFinding::Late(Box::new(undelivered(99).beside(&others))).to_string();
        assert!(untried.contains("or is it of handler:crm, which is paused?"), "{untried}");
    }

    fn checkup(dead: u64, oldest: Undelivered) -> OutboxCheckup {
        OutboxCheckup {
            dead: LetterCount::Exactly(dead),
            newest_dead: None,
            oldest: Some(oldest),
            at_least: false,
            parked: LetterCount::Exactly(0),
            first_parked: None,
            pauses: Vec::new(),
            forgetful: Vec::new(),
        }
    }

    #[test]
    fn dead_letters_and_late_events_are_wrong_and_named_with_what_to_do() {
        let minute = Duration::from_secs(60);
        assert!(checkup(0, undelivered(59)).findings(minute).is_empty());
        let found = checkup(3, undelivered(60)).findings(minute);
        let codes: Vec<_> = found.iter().map(OutboxFinding::code).collect();
        assert_eq!(codes, ["dead", "late"]);
        assert!(found.iter().all(|finding| finding.severity() == Severity::Wrong));
        assert!(found[0].to_string().contains("sendoff events requeue"), "{}", found[0]);
        assert!(found[1].to_string().contains("is a node running"), "{}", found[1]);
    }

    #[test]
    fn a_server_that_forgets_commits_is_advice_with_the_remedy() {
        let (name, value, durable) = ("sync_binlog".into(), "0".into(), "1".into());
        let forgetful = vec![ForgetfulSetting { name, value, durable }];
        let checkup = OutboxCheckup { forgetful, ..checkup(0, undelivered(0)) };
        let found = checkup.findings(Duration::from_secs(60));
        assert_eq!((found[0].code(), found[0].severity()), ("forgetful", Severity::Advice));
        let said = found[0].to_string();
        assert!(said.contains("sync_binlog is 0") && said.contains("set it to 1"), "{said}");
    }

    #[test]
    fn a_late_event_says_what_it_waits_for() {
        let since = Some(Timestamp::from_micros(0));
        let (late, error) = (undelivered(99), Some("refused".to_owned()));
        let says = |event: Undelivered| OutboxFinding::Late(Box::new(event)).to_string();
        let away = Undelivered { unavailable_since: since, last_error: error, ..late.clone() };
        assert!(says(away.clone()).contains("target is unavailable since 1970"), "{}", says(away));
        let nobody = Undelivered { unroutable_since: since, ..late.clone() };
        assert!(says(nobody).contains("start a node that has one"));
        let held = Undelivered { held_by: Some("node-1".to_owned()), ..late.clone() };
        assert!(says(held).contains("node-1 holds it"));
        let parked = Undelivered { key: Some(parked_key()), ..late.clone() };
        assert!(says(parked.clone()).contains("key order:7 is parked"), "{}", says(parked));
        let until = Timestamp::from_micros(9);
        let state = KeyState::Held { by: "node-2".to_owned(), until };
        let busy = Undelivered { key: Some(KeyStanding { state, ..parked_key() }), ..late };
        assert!(says(busy.clone()).contains("node-2 holds its key order:7"), "{}", says(busy));
    }

    fn parked_key() -> KeyStanding {
        let letter = crate::order::ParkingLetter {
            event_type: "order.placed".to_owned(),
            attempts: 10,
            last_error: Some("refused".to_owned()),
        };
        let since = Timestamp::from_micros(0);
        let parking = Parking { event: EventId::generate(), since, letter: Some(letter) };
        let (state, events) = (KeyState::Parked(parking), LetterCount::AtLeast(1_000));
        KeyStanding { key: "order:7".to_owned(), state, events, first: None }
    }

    #[test]
    fn parked_keys_are_wrong_and_named_with_both_ways_out() {
        let quiet = checkup(0, undelivered(0));
        let first_parked = Some(parked_key());
        let parked = LetterCount::Exactly(2);
        let found = OutboxCheckup { parked, first_parked, ..quiet }.findings(Duration::MAX);
        let [finding] = &found[..] else { panic!("{found:?}") };
        assert_eq!((finding.code(), finding.severity()), ("parked-keys", Severity::Wrong));
        let said = finding.to_string();
        for part in [
            "2 keys are parked, as order:7",
            "at least 1000 events",
            "order.placed (refused)",
            "sendoff keys resume",
        ] {
            assert!(said.contains(part), "{said}");
        }
    }
}
