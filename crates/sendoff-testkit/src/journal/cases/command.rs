//! Commands that decide and append, many at once.

use std::future::Future;
use std::time::Duration;

use sendoff_core::journal::{Append, Fact, Item, Position, Query, Recorded, Tag};
use sendoff_core::{BoxError, Event};
use sendoff_engine::journal::{
    Basis, Decision, ExecuteError, Journal, JournalStore, Model, Page, fold,
};

use tokio::task::JoinSet;

use super::tag;
use crate::journal::{Ending, JournalHarness};

const WALLETS: [&str; 3] = ["a", "b", "c"];
const START: i64 = 100;

struct Balance {
    wallet: Tag,
    cents: i64,
}

impl Balance {
    fn of(wallet: &str) -> Self {
        Self { wallet: Tag::new("wallet_id", wallet).unwrap(), cents: 0 }
    }
}

impl Model for Balance {
    fn query(&self) -> Query {
        let moves = Item::any().of_type("deposited").of_type("withdrawn");
        Query::of(moves.tagged(self.wallet.clone()))
    }

    fn apply(&mut self, fact: &Recorded) -> Result<(), BoxError> {
        let cents: i64 = fact.event().read_json()?;
        self.cents += if fact.event().event_type() == "deposited" { cents } else { -cents };
        Ok(())
    }
}

fn moved(event_type: &str, wallet: &str, cents: i64) -> Fact {
    let event = Event::json(event_type, &cents).unwrap();
    Fact::builder(event).tag("wallet_id", wallet).build().unwrap()
}

#[derive(Debug, thiserror::Error)]
#[error("there is not enough in the wallet")]
struct TooPoor;

async fn transfer<S: JournalStore>(
    journal: Journal<S>,
    from: &str,
    to: &str,
    cents: i64,
) -> Result<Decision, BoxError> {
    let decided = journal.decide(Balance::of(from)).await?;
    if decided.model.cents < cents {
        return Err(TooPoor.into());
    }
    let decision = Decision::given(decided.condition);
    Ok(decision.fact(moved("withdrawn", from, cents))?.fact(moved("deposited", to, cents))?)
}

/// One of the payments that are made at once.
struct Payment {
    round: usize,
    from: &'static str,
    to: &'static str,
}

/// Four pay one another at once, each many times. No wallet is ever overdrawn, nothing is made, nothing
/// is lost; says how many payments were refused.
async fn refused_of_many<S, F>(
    journal: &Journal<S>,
    pay: impl Fn(Journal<S>, Payment) -> F + Copy + Send + Sync + 'static,
) -> u32
where
    S: JournalStore,
    F: Future<Output = bool> + Send,
{
    for wallet in WALLETS {
        journal.append([moved("deposited", wallet, START)]).await.unwrap();
    }
    let mut payers = JoinSet::new();
    for payer in 0..4 {
        let journal = journal.clone();
        payers.spawn(async move {
            let mut refused = 0;
            for round in 0..25 {
                let from = WALLETS[(payer + round) % 3];
                let to = WALLETS[(payer + round * 2 + 1) % 3];
                if !pay(journal.clone(), Payment { round, from, to }).await {
                    refused += 1;
                }
            }
            refused
        });
    }
    let refused = payers.join_all().await.iter().sum();
    let mut total = 0;
    for wallet in WALLETS {
        let cents = journal.decide(Balance::of(wallet)).await.unwrap().model.cents;
        assert!(cents >= 0, "{wallet} was overdrawn: {cents}");
        total += cents;
    }
    assert_eq!(total, START * WALLETS.len() as i64);
    refused
}

/// J2, J13: many transfers at once.
pub async fn commands_run_again_when_others_were_quicker(harness: impl JournalHarness) {
    let pay = |journal: Journal<_>, Payment { round, from, to }| async move {
        // Now and then more than there is in all of them.
        let cents = if round % 5 == 0 { START * 4 } else { 70 };
        let command = || transfer(journal.clone(), from, to, cents);
        match journal.execute(command).await {
            Ok(executed) => assert_eq!(executed.receipts.len(), 2),
            Err(ExecuteError::Handler(error)) if error.is::<TooPoor>() => return false,
            Err(ExecuteError::Contended { .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
        true
    };
    let refused = refused_of_many(harness.journal(), pay).await;
    assert!(refused > 0, "some were refused, or nothing was tested");
}

/// J2, J13: the same, each in its turn: nobody loses, everybody comes to it.
/// From the last closing on a wallet is what the closing says.
pub async fn commands_decided_under_locks_wait_for_their_turn(harness: impl JournalHarness) {
    let journal = harness.journal();
    let pay = |journal: Journal<_>, Payment { round, from, to }| async move {
        // Now and then more than there is in all of them.
        let cents = if round % 5 == 0 { START * 4 } else { 70 };
        // Of all that is appended to: who locks crosswise deadlocks, and tries again.
        let both = || (Balance::of(from), Balance::of(to));
        let pays = |(balance, _): (Balance, Balance)| {
            if balance.cents < cents {
                return Err(TooPoor);
            }
            Ok(vec![moved("withdrawn", from, cents), moved("deposited", to, cents)])
        };
        match journal.execute_locked(both, pays).await {
            Ok(executed) => assert_eq!((executed.receipts.len(), executed.tries), (2, 1)),
            Err(ExecuteError::Handler(TooPoor)) => return false,
            Err(error) => panic!("{error:?}"),
        }
        true
    };
    let refused = refused_of_many(journal, pay).await;
    assert!(refused >= 20, "whoever wanted too much was refused");
    let nothing =
        journal.execute_locked(|| Balance::of(WALLETS[0]), |_| Ok::<_, TooPoor>(Vec::new()));
    assert!(nothing.await.unwrap().receipts.is_empty());
}

/// J2: two who each append what the other decides by, so that they lock crosswise: whoever is ended in
/// favour of the other tries again, and both come to an end.
pub async fn commands_that_lock_crosswise_try_again_under_locks(harness: impl JournalHarness) {
    const ROUNDS: i64 = 4;
    let journal = harness.journal();
    for wallet in ["a", "b"] {
        journal.append([moved("deposited", wallet, START)]).await.unwrap();
    }
    let pay = |from: &'static str, to: &'static str| {
        let journal = journal.clone();
        tokio::spawn(async move {
            for _ in 0..ROUNDS {
                let pays = |balance: Balance| {
                    assert!(balance.cents >= START - ROUNDS);
                    Ok::<_, TooPoor>(vec![moved("withdrawn", from, 1), moved("deposited", to, 1)])
                };
                let executed = journal.execute_locked(|| Balance::of(from), pays).await.unwrap();
                assert_eq!(executed.receipts.len(), 2);
            }
        })
    };
    let (there, back) = (pay("a", "b"), pay("b", "a"));
    there.await.unwrap();
    back.await.unwrap();
    for wallet in ["a", "b"] {
        let cents = journal.decide(Balance::of(wallet)).await.unwrap().model.cents;
        assert_eq!(cents, START, "{wallet}");
    }
}

/// However large facts are, what is read at once from a closing on, and under locks, is bounded in bytes,
/// and nothing is left out for that.
pub async fn what_is_read_from_the_last_closing_on_is_bounded_in_bytes(
    harness: impl JournalHarness,
) {
    let journal = harness.journal();
    let wallet = || tag("wallet_id=w1");
    let (query, closing) =
        (Query::tagged(wallet()), Query::of(Item::any().of_type("closed").tagged(wallet())));
    for event_type in ["old", "closed", "new", "new"] {
        let event = Event::builder(event_type).bytes(vec![b'x'; 60_000]);
        let fact = Fact::builder(event).tag("wallet_id", "w1").build().unwrap();
        journal.append([fact]).await.unwrap();
    }
    let page = |after| Page { after, up_to: Position::END, limit: 100, bytes: 100_000 };
    let (store, first) = (journal.store(), page(Position::START));
    let basis = Basis { query: &query, closing: Some(&closing), page: first };
    let found = store.read_from_last(basis).await.unwrap();
    assert_eq!((found.facts.len(), found.more), (1, true));
    if let Some(mut locked) = store.lock(basis).await.unwrap() {
        let mut types = Vec::new();
        loop {
            assert_eq!(locked.found.facts.len(), 1);
            let fact = &locked.found.facts[0];
            types.push(fact.event().event_type().to_owned());
            if !locked.found.more {
                break;
            }
            let next = page(fact.position);
            locked.found = locked.transaction.read(&query, next).await.unwrap();
        }
        locked.transaction.release().await;
        assert_eq!(types, ["closed", "new", "new"]);
    }
}

/// J2: a command that is carried out a second time, with the same fact, changes nothing, and the next decision counts
/// that fact once.
pub async fn a_command_that_is_repeated_counts_once(harness: impl JournalHarness) {
    let journal = harness.journal();
    let (deposit, interest) = (moved("deposited", "a", 10), moved("deposited", "a", 1));
    let deposited = |fact: &Fact| {
        let fact = fact.clone();
        let journal = journal.clone();
        async move {
            let fact = || Ok::<_, TooPoor>(vec![fact.clone()]);
            journal.execute_locked(|| Balance::of("a"), |_| fact()).await.unwrap().receipts
        }
    };
    assert!(deposited(&deposit).await[0].fresh);
    // By somebody else, and then again by whoever does not know of it.
    journal.append([interest.clone()]).await.unwrap();
    for fact in [&deposit, &interest, &deposit, &interest] {
        assert!(!deposited(fact).await[0].fresh);
        let seen = journal.execute_locked(
            || Balance::of("a"),
            |balance| {
                assert_eq!(balance.cents, 11);
                Ok::<_, TooPoor>(Vec::new())
            },
        );
        seen.await.unwrap();
    }
    let withdrawn = journal.execute_locked(
        || Balance::of("a"),
        |balance| {
            if balance.cents < 12 { Err(TooPoor) } else { Ok(vec![moved("withdrawn", "a", 12)]) }
        },
    );
    assert!(matches!(withdrawn.await, Err(ExecuteError::Handler(TooPoor))));
}

/// J2: conditions by a tag and by a type, of appends that have both, so that each excludes the other: they wait for one
/// another, and nobody is ended for it.
pub async fn appends_whose_conditions_cross_do_not_deadlock(harness: impl JournalHarness) {
    const EACH: usize = 25;
    let journal = harness.journal();
    let run = journal.decide(Balance::of("a")).await.unwrap().condition.run;
    let holds = |query: Query| query.none_after(Position::END).read_in(run);
    let by_tag = holds(Query::tagged(Tag::new("wallet_id", "a").unwrap()));
    let by_type = holds(Query::of_type("deposited"));
    let mut clients = JoinSet::new();
    for (condition, event_type) in [(by_tag, "deposited"), (by_type, "withdrawn")] {
        for _ in 0..2 {
            let (journal, condition) = (journal.clone(), condition.clone());
            clients.spawn(async move {
                for _ in 0..EACH {
                    let fact = moved(event_type, "a", 1);
                    journal.append_if([fact], condition.clone()).await.unwrap();
                }
            });
        }
    }
    while let Some(done) = clients.join_next().await {
        done.unwrap();
    }
}

/// A model that is closed now and then is made of what came since.
pub async fn a_model_is_made_from_its_last_closing_on(harness: impl JournalHarness) {
    let journal = harness.journal();
    let balance = || {
        let closing = Query::of(Item::any().of_type("closed").tagged(tag("wallet_id=w1")));
        let apply = |(cents, facts): &mut (i64, u32), fact: &Recorded| {
            let amount: i64 = fact.event().read_json()?;
            *cents = if fact.event().event_type() == "closed" { amount } else { *cents + amount };
            *facts += 1;
            Ok(())
        };
        fold(Query::tagged(tag("wallet_id=w1")), (0, 0), apply).from_last(closing)
    };
    journal.append([moved("deposited", "w1", 5), moved("deposited", "w2", 7)]).await.unwrap();
    assert_eq!(journal.decide(balance()).await.unwrap().model.state, (5, 1));
    journal.append([moved("closed", "w2", 70), moved("closed", "w1", 50)]).await.unwrap();
    journal.append([moved("deposited", "w1", 1), moved("closed", "w1", 60)]).await.unwrap();
    journal.append([moved("deposited", "w1", 2), moved("deposited", "w1", 3)]).await.unwrap();
    assert_eq!(journal.decide(balance()).await.unwrap().model.state.0, 65);
    let locked = journal.execute_locked(balance, |model| {
        assert_eq!(model.state.0, 65);
        Ok::<_, TooPoor>(vec![moved("deposited", "w1", 4)])
    });
    assert_eq!(locked.await.unwrap().receipts[0].position.get(), 9);
    assert_eq!(journal.decide(balance()).await.unwrap().model.state.0, 69);
}

/// J2: whatever the decision before has read, the next one under locks is made of all that came since: by
/// whoever, in whatever transaction, from the last closing on.
pub async fn a_decision_under_locks_sees_all_that_came_since_the_last(
    harness: impl JournalHarness,
) {
    let journal = harness.journal();
    let history = || {
        let closing = Query::of(Item::any().of_type("closed").tagged(tag("wallet_id=w1")));
        let apply = |facts: &mut Vec<Recorded>, fact: &Recorded| {
            facts.push(fact.clone());
            Ok(())
        };
        fold(Query::tagged(tag("wallet_id=w1")), Vec::new(), apply).from_last(closing)
    };
    let mut seen: Vec<Recorded> = Vec::new();
    let steps = [
        "deposited",
        "deposited",
        "rolled back",
        "closed",
        "deposited",
        "closed closed",
        "deposited",
        "",
    ];
    for step in steps {
        let mut facts: Vec<_> = step.split(' ').filter(|step| !step.is_empty()).collect();
        if step == "rolled back" {
            facts = vec!["closed"];
        }
        let facts: Vec<_> = facts.into_iter().map(|step| moved(step, "w1", 5)).collect();
        if step == "rolled back" {
            let append = Append::new(facts, None).unwrap();
            harness.append_in(&append, Duration::ZERO, Ending::RollBack).await.unwrap();
        } else if !facts.is_empty() {
            journal.append(facts).await.unwrap();
        }
        // Two, so that the second one finds what the first has read and appended.
        for _ in 0..2 {
            let read = journal.decide(history()).await.unwrap().model.state;
            let from = read.iter().rposition(|fact| fact.event().event_type() == "closed");
            let expected = read[from.unwrap_or(0)..].to_vec();
            let locked = journal.execute_locked(history, |model| {
                seen = model.state;
                Ok::<_, TooPoor>(vec![moved("withdrawn", "w1", 1)])
            });
            locked.await.unwrap();
            let from = seen.iter().rposition(|fact| fact.event().event_type() == "closed");
            assert_eq!(seen[from.unwrap_or(0)..], expected, "after {step:?}");
        }
    }
}
