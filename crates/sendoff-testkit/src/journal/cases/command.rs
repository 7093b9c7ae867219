use sendoff_core::journal::{Fact, Item, Query, Recorded, Tag};
use sendoff_core::{BoxError, Event};
use sendoff_engine::journal::{Decision, ExecuteError, Journal, JournalStore, Model};

use crate::journal::JournalHarness;

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

/// J2, J13: many transfers at once; no wallet is ever overdrawn, nothing is made, nothing is lost.
pub async fn commands_run_again_when_others_were_quicker(harness: impl JournalHarness) {
    let journal = harness.journal();
    for wallet in WALLETS {
        journal.append([moved("deposited", wallet, START)]).await.unwrap();
    }
    let payers: Vec<_> = (0..4_usize)
        .map(|payer| {
            let journal = journal.clone();
            tokio::spawn(async move {
                let mut refused = 0;
                for round in 0..25 {
                    let from = WALLETS[(payer + round) % 3];
                    let to = WALLETS[(payer + round * 2 + 1) % 3];
                    let command = || transfer(journal.clone(), from, to, 70);
                    match journal.execute(command).await {
                        Ok(executed) => assert_eq!(executed.receipts.len(), 2),
                        Err(ExecuteError::Handler(error)) if error.is::<TooPoor>() => refused += 1,
                        Err(ExecuteError::Contended { .. }) => {}
                        Err(error) => panic!("{error:?}"),
                    }
                }
                refused
            })
        })
        .collect();
    let mut refused = 0;
    for payer in payers {
        refused += payer.await.unwrap();
    }
    let mut total = 0;
    for wallet in WALLETS {
        let cents = journal.decide(Balance::of(wallet)).await.unwrap().model.cents;
        assert!(cents >= 0, "{wallet} was overdrawn: {cents}");
        total += cents;
    }
    assert_eq!(total, START * WALLETS.len() as i64);
    assert!(refused > 0, "some were refused, or nothing was tested");
}
