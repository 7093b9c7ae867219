//! Putting a publishing node together, starting it and closing it.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::Sink;
use sendoff_core::journal::publish::PairId;
use sendoff_core::journal::{Invalid, Position, Topic};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::complaint::Complaint;
use super::node::Node;
use super::options::{PairOptions, PublishOptions, Start};
use super::pair::{Doing, Pair, Trouble};
use super::statistics::{Counts, Statistics};
use super::store::PublishStore;
use crate::builder::Builder;
use crate::journal::handle::Journal;
use crate::journal::tail::TailOptions;
use crate::operate::Observer;
use crate::options::OptionsError;
use crate::owner::owner;
use crate::sink::{Door, check_deadline, shielded_policy};
use crate::store::{Contact, StoreError, contact_at_start, first_contact, within};

/// Pairs of one node. Each costs memory and a row of every survey.
const PAIRS: usize = 10_000;

/// The pause where a retry policy panics.
const POLICY_FAILED: Duration = Duration::from_secs(60);

/// Why publishing did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishOptionsError {
    /// A name is not acceptable.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// A pair was added twice.
    #[error("the pair {0} was added twice: a publisher gets a topic once")]
    SamePair(PairId),
    /// There is nothing to publish, or too much.
    #[error("{count} pairs were added; a node works between 1 and {limit}")]
    Pairs {
        /// How many.
        count: usize,
        /// How many are allowed.
        limit: usize,
    },
    /// An option is out of range.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Collects what a node publishes.
pub type PublishingBuilder<S> = Builder<PublishOptions, PublishingParts<S>>;

/// What only a publishing node is put together from.
#[expect(missing_debug_implementations, reason = "its builder shows the options")]
pub struct PublishingParts<S> {
    journal: Journal<S>,
    pairs: Vec<(Arc<Topic>, Arc<dyn Sink>, PairOptions)>,
}

impl<S: PublishStore> PublishingBuilder<S> {
    /// Adds a pair: the sink gets what the topic selects, in order. Its name is the publisher's.
    pub fn pair(self, topic: &Topic, sink: Arc<dyn Sink>) -> Self {
        self.pair_with(topic, sink, PairOptions::default())
    }

    /// Adds a pair with options.
    pub fn pair_with(mut self, topic: &Topic, sink: Arc<dyn Sink>, options: PairOptions) -> Self {
        self.parts.pairs.push((Arc::new(topic.clone()), sink, options));
        self
    }

    /// Looks at the journal's tables and rights once, makes the cursors that are missing, and begins.
    ///
    /// A database that is unavailable is no reason not to start: the log says so, and all of it is done as
    /// soon as it answers. What begins [now](Start::Now) begins where the journal ends by then.
    ///
    /// # Errors
    ///
    /// [`PublishOptionsError::Store`] for tables that this version cannot work with and for rights that
    /// are missing, with what to do about it; the others are about what was passed to the builder.
    pub async fn start(self) -> Result<Publishing, PublishOptionsError> {
        let Self {
            options: node_options,
            around,
            parts: PublishingParts { journal, pairs: added },
        } = self;
        node_options.validate()?;
        if added.is_empty() || added.len() > PAIRS {
            return Err(PublishOptionsError::Pairs { count: added.len(), limit: PAIRS });
        }
        let mut known = BTreeSet::new();
        let (mut pairs, mut starts) = (Vec::new(), Vec::new());
        let (interceptors, observer) = (around.interceptors(), Observer::new(around.metrics));
        for (topic, sink, options) in added {
            let id = PairId::new(topic.name(), sink.name())?;
            let of_pair = |error: OptionsError| error.within(&format!("({id})"));
            options.validate().map_err(of_pair)?;
            check_deadline(&*sink).map_err(of_pair)?;
            let shield =
                |policy: Option<_>| policy.map(|policy| shielded_policy(policy, POLICY_FAILED));
            let retry_policy = shield(options.retry_policy);
            let parked_policy = shield(options.parked_policy);
            let options = PairOptions { retry_policy, parked_policy, ..options };
            if !known.insert(id.clone()) {
                return Err(PublishOptionsError::SamePair(id));
            }
            starts.push((id.clone(), options.start));
            pairs.push(Pair {
                key: id.key(),
                id: Arc::new(id),
                topic,
                sink,
                door: Door {
                    interceptors: interceptors.clone(),
                    reactions: around.reactions.clone(),
                    traces: around.traces.clone(),
                    limit: Some(options.publish_timeout),
                    unhealthy_for: options.interval,
                    observer: observer.clone(),
                },
                options,
                held: None,
                doing: Doing::Waiting,
                due: Instant::now(),
                poll_at: Instant::now(),
                empty: 0,
                trouble: Trouble::default(),
                tries: Arc::default(),
                complaint: Complaint::default(),
            });
        }
        let contact = contact_at_start(meet(&journal, &node_options, &starts)).await?;
        let owner = owner(node_options.node.name.as_deref(), fastrand::u64(..));
        let counts = Counts::new(observer);
        let stop = CancellationToken::new();
        let (options, told) = (Arc::new(node_options), stop.clone());
        let node =
            Node::new(journal.clone(), options.clone(), Arc::clone(&owner), pairs, counts.clone());
        let task = tokio::spawn(async move {
            if contact == Contact::Pending {
                let met = first_contact(|| meet(&journal, &options, &starts));
                if told.run_until_cancelled(met).await.is_none() {
                    return;
                }
            }
            node.run(told).await;
        });
        Ok(Publishing { owner, stop, counts, task: tokio::sync::Mutex::new(Some(Task(task))) })
    }
}

/// The first contact with the database: its tables are looked at, then the cursors are made.
async fn meet<S: PublishStore>(
    journal: &Journal<S>,
    options: &PublishOptions,
    starts: &[(PairId, Start)],
) -> Result<(), StoreError> {
    within(options.statement_limit(), journal.store().check_ready()).await?;
    register(journal, options, starts).await
}

/// Makes cursors. One that begins now begins where everything before it is decided.
async fn register<S: PublishStore>(
    journal: &Journal<S>,
    options: &PublishOptions,
    starts: &[(PairId, Start)],
) -> Result<(), StoreError> {
    let mut now = None;
    let mut pairs = Vec::with_capacity(starts.len());
    for (id, start) in starts {
        let position = match start {
            Start::Beginning => Position::START,
            Start::After(position) => *position,
            Start::Now => match now {
                Some(known) => known,
                None => *now.insert(proved_head(journal, options).await?),
            },
        };
        pairs.push((id.clone(), position));
    }
    let register = journal.store().register(&pairs);
    within(options.statement_limit(), register).await
}

/// The last position of now, once everything up to it is decided.
pub(super) async fn proved_head<S: PublishStore>(
    journal: &Journal<S>,
    options: &PublishOptions,
) -> Result<Position, StoreError> {
    let mut reader = journal.tail_from_now(TailOptions::default()).await?;
    while reader.is_starting() {
        let look = within(options.statement_limit(), reader.look()).await;
        let batch = look.map_err(|error| match error {
            crate::journal::TailError::Store(error) => error,
            other => StoreError::Refused(other.into()),
        })?;
        if !batch.waits_for.is_empty() {
            tokio::time::sleep(options.gap_interval).await;
        }
    }
    Ok(reader.at())
}

/// A node that publishes.
///
/// ```
/// use std::sync::Arc;
///
/// use sendoff_core::journal::{Fact, Topic};
/// use sendoff_engine::journal::publish::Publishing;
/// use sendoff_engine::journal::{Journal, MemoryJournal};
/// use sendoff_engine::sink::StatisticsSink;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let journal = Journal::new(MemoryJournal::new());
/// let wallets = Topic::builder("wallets").required_tags(["wallet_id"]).build()?;
/// let statistics = StatisticsSink::default();
/// let publishing =
///     Publishing::builder(&journal).pair(&wallets, Arc::new(statistics.clone())).start().await?;
///
/// journal.append([Fact::builder(("opened", "{}")).tag("wallet_id", "w1")]).await?;
/// while statistics.seen().events < 1 {
///     tokio::task::yield_now().await;
/// }
/// publishing.close().await;
/// # Ok(())
/// # }
/// ```
///
/// Dropping it stops it where it is; what was under way is published again,
/// by whoever leads next, when the lease has run out. [`close`](Self::close) ends it in order.
pub struct Publishing {
    owner: Arc<str>,
    stop: CancellationToken,
    counts: Counts,
    task: tokio::sync::Mutex<Option<Task>>,
}

impl Publishing {
    /// Begins to collect what a node publishes.
    pub fn builder<S: PublishStore>(journal: &Journal<S>) -> PublishingBuilder<S> {
        let parts = PublishingParts { journal: journal.clone(), pairs: Vec::new() };
        Builder::of(PublishOptions::default(), parts)
    }

    /// The name under which it leads pairs, with its incarnation.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// What it has published and how it went, since it started. Always on.
    pub fn statistics(&self) -> Statistics {
        self.counts.statistics()
    }

    /// Begins nothing new, waits for what is under way, stores it, and gives every pair up, so that
    /// others can go on at once.
    pub async fn close(&self) {
        self.stop.cancel();
        let mut task = self.task.lock().await;
        if let Some(running) = task.as_mut() {
            let _ = (&mut running.0).await;
        }
        *task = None;
    }
}

impl fmt::Debug for Publishing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publishing").field("owner", &self.owner).finish_non_exhaustive()
    }
}

/// A task that ends with whoever started it.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
