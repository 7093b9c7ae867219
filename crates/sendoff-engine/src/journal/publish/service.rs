use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use sendoff_core::journal::publish::PairId;
use sendoff_core::journal::{Invalid, Position, Topic};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::metrics::{NoPublishMetrics, PublishMetrics};
use super::node::Node;
use super::options::{PairOptions, PublishOptions, Start};
use super::pair::{Pair, Trouble};
use super::publisher::Publisher;
use super::statistics::{Counts, Statistics};
use super::store::PublishStore;
use crate::journal::handle::Journal;
use crate::journal::tail::TailOptions;
use crate::options::OptionsError;
use crate::owner::owner;
use crate::store::StoreError;

/// Pairs of one node. Each costs memory and a row of every survey.
const PAIRS: usize = 10_000;

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
    /// An option has a value that cannot work.
    #[error("{field} {reason}")]
    Option {
        /// Which.
        field: &'static str,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// An option is out of range.
    #[error(transparent)]
    OutOfRange(#[from] OptionsError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Collects what a node publishes.
#[must_use = "nothing is published before `start`"]
pub struct PublishingBuilder<S> {
    journal: Journal<S>,
    options: PublishOptions,
    metrics: Arc<dyn PublishMetrics>,
    pairs: Vec<(Arc<Topic>, Arc<dyn Publisher>, PairOptions)>,
}

impl<S: PublishStore> PublishingBuilder<S> {
    /// How the node works.
    pub fn options(mut self, options: PublishOptions) -> Self {
        self.options = options;
        self
    }

    /// Where to count.
    pub fn metrics(mut self, metrics: Arc<dyn PublishMetrics>) -> Self {
        self.metrics = metrics;
        self
    }

    /// Adds a pair: the publisher gets what the topic selects.
    pub fn pair(self, topic: &Topic, publisher: Arc<dyn Publisher>) -> Self {
        self.pair_with(topic, publisher, PairOptions::default())
    }

    /// Adds a pair with options.
    pub fn pair_with(
        mut self,
        topic: &Topic,
        publisher: Arc<dyn Publisher>,
        options: PairOptions,
    ) -> Self {
        self.pairs.push((Arc::new(topic.clone()), publisher, options));
        self
    }

    /// Makes the cursors that are missing, and begins.
    pub async fn start(self) -> Result<Publishing, PublishOptionsError> {
        self.options.check()?;
        if self.pairs.is_empty() || self.pairs.len() > PAIRS {
            return Err(PublishOptionsError::Pairs { count: self.pairs.len(), limit: PAIRS });
        }
        let mut known = BTreeSet::new();
        let (mut pairs, mut starts) = (Vec::new(), Vec::new());
        for (topic, publisher, options) in self.pairs {
            options.check()?;
            let id = PairId::new(topic.name(), publisher.name())?;
            if !known.insert(id.clone()) {
                return Err(PublishOptionsError::SamePair(id));
            }
            starts.push((id.clone(), options.start));
            pairs.push(Pair {
                key: id.key(),
                id: Arc::new(id),
                topic,
                publisher,
                options,
                held: None,
                free: None,
                busy: false,
                due: Instant::now(),
                poll_at: Instant::now(),
                resting: false,
                empty: 0,
                trouble: Trouble::default(),
                tries: Arc::default(),
            });
        }
        register(&self.journal, &self.options, starts).await?;
        let owner = owner(self.options.name.as_deref(), fastrand::u64(..));
        let counts = Counts::new(self.metrics);
        let stop = CancellationToken::new();
        let options = Arc::new(self.options);
        let node = Node::new(self.journal, options, Arc::clone(&owner), pairs, counts.clone());
        let task = tokio::spawn(node.run(stop.clone()));
        Ok(Publishing { owner, stop, counts, task: tokio::sync::Mutex::new(Some(Task(task))) })
    }
}

/// Makes cursors. One that begins now begins where everything before it is decided.
async fn register<S: PublishStore>(
    journal: &Journal<S>,
    options: &PublishOptions,
    starts: Vec<(PairId, Start)>,
) -> Result<(), StoreError> {
    let mut now = None;
    let mut pairs = Vec::with_capacity(starts.len());
    for (id, start) in starts {
        let position = match start {
            Start::Beginning => Position::START,
            Start::After(position) => position,
            Start::Now => match now {
                Some(known) => known,
                None => *now.insert(proved_head(journal, options).await?),
            },
        };
        pairs.push((id, position));
    }
    let register = journal.store().register(&pairs);
    timeout(options.statement_limit(), register).await.unwrap_or(Err(StoreError::Timeout))
}

/// The last position of now, once everything up to it is decided.
pub(super) async fn proved_head<S: PublishStore>(
    journal: &Journal<S>,
    options: &PublishOptions,
) -> Result<Position, StoreError> {
    let mut reader = journal.tail_from_now(TailOptions::default()).await?;
    while reader.is_starting() {
        let look = timeout(options.statement_limit(), reader.look()).await;
        let look = look.unwrap_or_else(|_| Err(StoreError::Timeout.into()));
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
/// use sendoff_engine::journal::publish::{Publishing, StatisticsPublisher};
/// use sendoff_engine::journal::{Journal, MemoryJournal};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let journal = Journal::new(MemoryJournal::new());
/// let wallets = Topic::builder("wallets").required_tags(["wallet_id"]).build()?;
/// let statistics = StatisticsPublisher::default();
/// let publishing =
///     Publishing::builder(&journal).pair(&wallets, Arc::new(statistics.clone())).start().await?;
///
/// journal.append([Fact::builder(("opened", "{}")).tag("wallet_id", "w1")]).await?;
/// while statistics.seen().facts < 1 {
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
        PublishingBuilder {
            journal: journal.clone(),
            options: PublishOptions::default(),
            metrics: Arc::new(NoPublishMetrics),
            pairs: Vec::new(),
        }
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

impl<S> fmt::Debug for PublishingBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PublishingBuilder")
            .field("pairs", &self.pairs.len())
            .finish_non_exhaustive()
    }
}

/// A task that ends with whoever started it.
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
