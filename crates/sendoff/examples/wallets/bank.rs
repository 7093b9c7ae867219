//! Wallets: what happens to them, what is known of them, and what may be done.

use sendoff::journal::{
    DecideError, Decision, ExecuteError, Executed, Invalid, Item, Journal, JournalStore, Model,
    Query, Recorded, Tag,
};
use sendoff::{BoxError, Event};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize, Event)]
#[event(type = "wallet.opened")]
pub(crate) struct WalletOpened {
    #[event(tag = "wallet_id")]
    pub(crate) wallet: String,
}

#[derive(Debug, Serialize, Deserialize, Event)]
#[event(type = "money.deposited")]
pub(crate) struct MoneyDeposited {
    #[event(tag = "wallet_id")]
    pub(crate) wallet: String,
    pub(crate) cents: i64,
}

/// One fact with the tags of both wallets: money cannot leave one and not arrive at the other.
#[derive(Debug, Serialize, Deserialize, Event)]
#[event(type = "money.transferred")]
pub(crate) struct MoneyTransferred {
    #[event(tag = "wallet_id")]
    pub(crate) from: String,
    #[event(tag = "wallet_id")]
    pub(crate) to: String,
    pub(crate) cents: i64,
}

/// Why a command is not carried out.
#[derive(Debug)]
pub(crate) enum Refused {
    AlreadyOpen,
    NoSuchWallet,
    Amount,
    SameWallet,
    Insufficient { balance: i64 },
    Journal(BoxError),
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AlreadyOpen => f.write_str("the wallet is open already"),
            Self::NoSuchWallet => f.write_str("there is no such wallet"),
            Self::Amount => f.write_str("the amount must be more than nothing"),
            Self::SameWallet => f.write_str("both wallets are the same"),
            Self::Insufficient { balance } => write!(f, "the balance is {balance}"),
            Self::Journal(error) => write!(f, "{error}"),
        }
    }
}

impl From<DecideError> for Refused {
    fn from(error: DecideError) -> Self {
        Self::Journal(error.into())
    }
}

impl From<Invalid> for Refused {
    fn from(error: Invalid) -> Self {
        Self::Journal(error.into())
    }
}

/// Whether a wallet is open. Money that moves does not change it, so it stands in nobody's way.
pub(crate) struct IsOpen {
    tag: Tag,
    open: bool,
}

/// What is in a wallet.
pub(crate) struct Balance {
    wallet: String,
    tag: Tag,
    open: bool,
    cents: i64,
}

impl IsOpen {
    fn of(wallet: &str) -> Result<Self, Invalid> {
        Ok(Self { tag: Tag::new("wallet_id", wallet)?, open: false })
    }
}

impl Balance {
    fn of(wallet: &str) -> Result<Self, Invalid> {
        let tag = Tag::new("wallet_id", wallet)?;
        Ok(Self { wallet: wallet.to_owned(), tag, open: false, cents: 0 })
    }
}

impl Model for IsOpen {
    fn query(&self) -> Query {
        Query::of(Item::any().of_event::<WalletOpened>().tagged(self.tag.clone()))
    }

    fn apply(&mut self, _: &Recorded) -> Result<(), BoxError> {
        self.open = true;
        Ok(())
    }
}

impl Model for Balance {
    fn query(&self) -> Query {
        let about = Item::any()
            .of_event::<WalletOpened>()
            .of_event::<MoneyDeposited>()
            .of_event::<MoneyTransferred>();
        Query::of(about.tagged(self.tag.clone()))
    }

    fn apply(&mut self, fact: &Recorded) -> Result<(), BoxError> {
        for (wallet, cents) in changes(fact)? {
            self.open = true;
            if wallet == self.wallet {
                self.cents += cents;
            }
        }
        Ok(())
    }
}

/// What a fact changes about which wallet; nothing where it is only opened.
pub(crate) fn changes(fact: &Recorded) -> Result<Vec<(String, i64)>, BoxError> {
    let event = fact.event();
    Ok(match event.event_type() {
        WalletOpened::EVENT_TYPE => vec![(event.read_json::<WalletOpened>()?.wallet, 0)],
        MoneyDeposited::EVENT_TYPE => {
            let MoneyDeposited { wallet, cents } = event.read_json()?;
            vec![(wallet, cents)]
        }
        MoneyTransferred::EVENT_TYPE => {
            let MoneyTransferred { from, to, cents } = event.read_json()?;
            vec![(from, -cents), (to, cents)]
        }
        _ => Vec::new(),
    })
}

type Answer = Result<Executed, ExecuteError<Refused>>;

/// Opens a wallet that is not open.
pub(crate) async fn open<S: JournalStore>(journal: &Journal<S>, wallet: &str) -> Answer {
    let decide = async || {
        let decided = journal.decide(IsOpen::of(wallet)?).await?;
        if decided.model.open {
            return Err(Refused::AlreadyOpen);
        }
        let opened = WalletOpened { wallet: wallet.to_owned() };
        Ok(Decision::given(decided.condition).fact(opened)?)
    };
    journal.execute(decide).await
}

/// Puts money into a wallet that is open.
pub(crate) async fn deposit<S: JournalStore>(
    journal: &Journal<S>,
    wallet: &str,
    cents: i64,
) -> Answer {
    let decide = async || {
        if cents <= 0 {
            return Err(Refused::Amount);
        }
        let decided = journal.decide(IsOpen::of(wallet)?).await?;
        if !decided.model.open {
            return Err(Refused::NoSuchWallet);
        }
        let deposited = MoneyDeposited { wallet: wallet.to_owned(), cents };
        Ok(Decision::given(decided.condition).fact(deposited)?)
    };
    journal.execute(decide).await
}

/// Moves money that is there. Two models make one decision: what is in the one wallet must not change
/// before the transfer is appended; of the other one only matters that it is open.
pub(crate) async fn transfer<S: JournalStore>(
    journal: &Journal<S>,
    from: &str,
    to: &str,
    cents: i64,
) -> Answer {
    let decide = async || {
        if cents <= 0 {
            return Err(Refused::Amount);
        }
        if from == to {
            return Err(Refused::SameWallet);
        }
        let decided = journal.decide((Balance::of(from)?, IsOpen::of(to)?)).await?;
        let (source, target) = &decided.model;
        if !source.open || !target.open {
            return Err(Refused::NoSuchWallet);
        }
        if source.cents < cents {
            return Err(Refused::Insufficient { balance: source.cents });
        }
        let moved = MoneyTransferred { from: from.to_owned(), to: to.to_owned(), cents };
        Ok(Decision::given(decided.condition).fact(moved)?)
    };
    journal.execute(decide).await
}
