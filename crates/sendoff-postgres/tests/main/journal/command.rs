//! Commands: wallets and transfers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use sendoff_core::BoxError;
use sendoff_core::journal::{Fact, Item, Query, Recorded, Tag};
use sendoff_engine::journal::{AppendError, Decision, ExecuteError, Model};

use super::{Log, fact, journal};
use crate::place::Place;

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

fn moved(event_type: &str, wallet: &str, cents: i64) -> Result<Fact, BoxError> {
    let event = sendoff_core::Event::json(event_type, &cents)?;
    Ok(Fact::builder(event).tag("wallet_id", wallet).build()?)
}

#[derive(Debug, thiserror::Error)]
#[error("there is not enough in the wallet")]
struct TooPoor;

async fn transfer(journal: Log, from: &str, to: &str, cents: i64) -> Result<Decision, BoxError> {
    let decided = journal.decide(Balance::of(from)).await?;
    if decided.model.cents < cents {
        return Err(TooPoor.into());
    }
    let decision = Decision::given(decided.condition);
    Ok(decision.fact(moved("withdrawn", from, cents)?)?.fact(moved("deposited", to, cents)?)?)
}

/// Holds J2 and J13: many at once, none ever overdrawn, nothing made and nothing lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_run_again_when_others_were_quicker() {
    const WALLETS: [&str; 3] = ["a", "b", "c"];
    let place = Place::new();
    let journal = journal(&place).await;
    for wallet in WALLETS {
        journal.append([moved("deposited", wallet, 100).unwrap()]).await.unwrap();
    }
    let refused = Arc::new(AtomicU32::new(0));
    let payers: Vec<_> = (0..4_usize)
        .map(|payer| {
            let (journal, refused) = (journal.clone(), Arc::clone(&refused));
            tokio::spawn(async move {
                for round in 0..25 {
                    let from = WALLETS[(payer + round) % 3];
                    let to = WALLETS[(payer + round * 2 + 1) % 3];
                    let command = || transfer(journal.clone(), from, to, 70);
                    match journal.execute(command).await {
                        Ok(executed) => assert_eq!(executed.receipts.len(), 2),
                        Err(ExecuteError::Handler(error)) if error.is::<TooPoor>() => {
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(ExecuteError::Contended { .. }) => {}
                        Err(error) => panic!("{error:?}"),
                    }
                }
            })
        })
        .collect();
    for payer in payers {
        payer.await.unwrap();
    }
    let mut total = 0;
    for wallet in WALLETS {
        let cents = journal.decide(Balance::of(wallet)).await.unwrap().model.cents;
        assert!(cents >= 0, "{wallet} was overdrawn: {cents}");
        total += cents;
    }
    assert_eq!(total, 300);
    assert!(refused.load(Ordering::Relaxed) > 0, "some were refused, or nothing was tested");
}

/// Holds J13: a typed error, and nothing stored, when others are quicker every time.
#[tokio::test]
async fn a_command_that_loses_every_time_says_so() {
    let place = Place::new();
    let journal = journal(&place).await;
    let runs = AtomicU32::new(0);
    let handler = || async {
        runs.fetch_add(1, Ordering::Relaxed);
        let decided = journal.decide(Balance::of("a")).await?;
        // The rival.
        journal.append([moved("deposited", "a", 1)?]).await?;
        Ok::<_, BoxError>(Decision::given(decided.condition).fact(fact("lost", &["w=1"]))?)
    };
    let answer = journal.execute(handler).await;
    let Err(ExecuteError::Contended { tries, last: AppendError::Conflict(_) }) = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(tries, runs.load(Ordering::Relaxed));
    let found = journal.decide(Balance::of("a")).await.unwrap().model.cents;
    assert_eq!(found, i64::from(tries));
    assert_eq!(place.number("select count(*) from journal_tag where tag = 'w=1'").await, 0);
    let nothing = journal.execute(|| async { Ok::<_, BoxError>(Decision::nothing()) }).await;
    assert!(nothing.unwrap().receipts.is_empty());
}
