//! A run of the demo from opening its file to the checker's verdict.

use std::sync::Arc;
use std::time::{Duration, Instant};

use indicatif::{HumanCount, MultiProgress};
use sendoff::any::AnyStore;
use sendoff::metrics::Counters;
use sendoff::options::{CircuitOptions, HandlerOptions, RetryOptions};
use sendoff::{Outbox, OutboxOptions, Timestamp};
use tokio::sync::watch;
use tokio::task::{JoinSet, block_in_place};

use super::book::Book;
use super::chance::Chance;
use super::crash::Milestone;
use super::handler::DemoHandler;
use super::judge::{Ended, Judge, MAX_ATTEMPTS};
use super::options::{Amount, Options};
use super::place::{Desk, Earlier, Place};
use super::quota::{Quota, Rest};
use super::record::Record;
use super::report::Report;
use super::shop::{OrderPlaced, Shop};
use super::stand::Stand;
use super::tally::Tally;
use super::view::{Phase, Snapshot, View};

/// How often the view is drawn and the end looked for.
const TICK: Duration = Duration::from_millis(50);
/// How long what was written is delivered after Ctrl-C, before the demo ends anyway.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long what a killed demo had in hand stays out of reach.
const HOLD: Duration = Duration::from_secs(5);

/// Everything that takes part.
#[derive(Debug)]
pub(crate) struct Stage<'o> {
    options: &'o Options,
    place: Place,
    outbox: Outbox<AnyStore>,
    counters: Arc<Counters>,
    quota: Arc<Quota>,
    book: Arc<Book>,
    tally: Arc<Tally>,
    record: Arc<Record>,
    judge: Judge,
    chance: Chance,
    /// Looks at how things stand.
    desk: Box<dyn Desk>,
    earlier: Earlier,
    /// Deliveries of earlier runs.
    received: u64,
    milestone: Option<Milestone>,
}

impl<'o> Stage<'o> {
    pub(crate) async fn set(options: &'o Options, place: Place) -> anyhow::Result<Self> {
        let mut record = place.record().await?;
        let received = record.load().await?;
        // Neither of these writes.
        let looking = Outbox::writer_only(place.store().clone());
        let mut desk = place.desk(&looking).await?;
        let judging = place.desk(&looking).await?;
        let earlier = block_in_place(|| desk.earlier())?;

        let (book, tally) = (Arc::new(Book::default()), Arc::new(Tally::default()));
        let judge = Judge::new(judging, book.clone());
        let run = judge.recall(&received);
        let chance = Chance {
            seed: options.seed.unwrap_or_else(|| fastrand::u64(..)),
            rollback_percent: options.rollback,
            failure_percent: options.failures,
        };
        let record = Arc::new(record);
        let handler = DemoHandler {
            run,
            since: Timestamp::now(),
            record: record.clone(),
            book: book.clone(),
            tally: tally.clone(),
            chance,
        };
        let counters = Arc::new(Counters::default());
        let outbox = Outbox::builder(place.store().clone())
            .options(outbox_options(options))
            .metrics(counters.clone())
            .on_aggregate(OrderPlaced::AGGREGATE_TYPE, OrderPlaced::EVENT_TYPE, handler)
            .start()
            .await?;
        let first = earlier.last_order + 1;
        let (amount, rate) = (options.amount_after(earlier.written), options.rate());
        let quota = Arc::new(Quota::new(first, amount, rate, options.check_every));
        Ok(Self {
            options,
            place,
            outbox,
            counters,
            quota,
            book,
            tally,
            record,
            judge,
            chance,
            desk,
            earlier,
            received: received.len() as u64,
            milestone: options.chapter.and_then(Milestone::at),
        })
    }

    /// What is going to happen, for people.
    pub(crate) fn announcement(&self) -> String {
        let Options { writers, workers, rollback, failures, .. } = self.options;
        let place = self.place.described();
        let orders = match (self.options.amount(), self.options.rate()) {
            (Amount::Exactly(0), _) => "no new orders".to_owned(),
            (Amount::Exactly(count), _) => format!("{} orders", HumanCount(count)),
            (Amount::Endless, None) => "orders without end".to_owned(),
            (Amount::Endless, Some(rate)) => format!("{rate} orders a second"),
        };
        let mut text = format!(
            "sendoff demo: {orders} in {place}\n  \
             writers: {writers}, {rollback} % rolled back on purpose; \
             workers: {workers}, {failures} % of the attempts fail"
        );
        if !self.options.exit {
            text.push_str("\n  Ctrl-C ends it, when what was written is delivered");
        }
        if self.options.resume {
            let (written, delivered) = (self.earlier.written, self.received);
            text.push_str(&format!(
                "\n  found {} orders and {} deliveries of earlier runs; what was on its way then is \
                 held for up to {} s more",
                HumanCount(written),
                HumanCount(delivered),
                HOLD.as_secs()
            ));
        }
        text
    }

    pub(crate) async fn play(
        mut self,
        screen: &MultiProgress,
        mut stopped: watch::Receiver<bool>,
    ) -> anyhow::Result<Report> {
        let began = Instant::now();
        let mut view = View::new(screen);
        let mut writers = self.open_shop().await?;
        let ended = self.until_the_end(&mut view, &mut writers, &mut stopped).await?;
        let took = began.elapsed();

        self.quota.stop();
        while let Some(writer) = writers.join_next().await {
            writer??;
        }
        self.outbox.close().await;
        block_in_place(|| self.judge.judge(ended))?;
        view.clear();
        self.place.store().close().await;
        let found = self.judge.found();
        // What is owed or wrong is left for whoever goes on with it or looks at it.
        let left = if self.options.keep || found.pending > 0 || found.violations > 0 {
            self.place.what_is_left()
        } else {
            self.place.remove().await?
        };
        Ok(Report::new(found, &self.tally, took, self.chance.seed, left))
    }

    async fn open_shop(&self) -> anyhow::Result<JoinSet<anyhow::Result<()>>> {
        let shop = Arc::new(Shop {
            quota: self.quota.clone(),
            book: self.book.clone(),
            tally: self.tally.clone(),
            chance: self.chance,
        });
        let mut writers = JoinSet::new();
        for _ in 0..self.options.writers {
            let (shop, mut desk) = (shop.clone(), self.place.desk(&self.outbox).await?);
            writers.spawn_blocking(move || shop.write(&mut *desk));
        }
        Ok(writers)
    }

    /// Watches, and judges one window after the other, until there is nothing more to come or
    /// somebody has seen enough.
    async fn until_the_end(
        &mut self,
        view: &mut View,
        writers: &mut JoinSet<anyhow::Result<()>>,
        stopped: &mut watch::Receiver<bool>,
    ) -> anyhow::Result<Ended> {
        let mut leaving = None::<Instant>;
        loop {
            // In this order: what was written before the writers came to rest is in the table.
            let rest = self.quota.rest();
            let stand = block_in_place(|| self.desk.stand())?;
            let drained = stand.pending() == 0;
            let phase = match (rest, drained) {
                _ if leaving.is_some() => Phase::Closing,
                (Rest::Busy, _) => Phase::Writing,
                (Rest::Window, _) => Phase::Checking,
                (Rest::End, false) => Phase::Delivering,
                (Rest::End, true) => Phase::Idle,
            };
            match (rest, drained) {
                (Rest::End, true) if self.options.exit || leaving.is_some() => {
                    return Ok(Ended::Drained);
                }
                (Rest::Window, true) => {
                    view.show(&self.snapshot(phase, stand));
                    block_in_place(|| self.next_window())?;
                }
                _ => view.show(&self.snapshot(phase, stand)),
            }
            self.tell()?;
            if leaving.is_some_and(|since| since.elapsed() > PATIENCE) {
                return Ok(Ended::Early);
            }
            tokio::select! {
                biased;
                // Its sender outlives this; an end of it would be a request to stop as well.
                _ = stopped.wait_for(|&stopped| stopped), if leaving.is_none() => {
                    leaving = Some(Instant::now());
                    self.quota.stop();
                }
                Some(writer) = writers.join_next() => writer??,
                () = tokio::time::sleep(TICK) => {}
            }
        }
    }

    fn next_window(&mut self) -> anyhow::Result<()> {
        self.judge.judge(Ended::Drained)?;
        if let Record::File(record) = &*self.record
            && self.options.forgets()
        {
            self.judge.forget(record)?;
        }
        self.quota.open_window();
        Ok(())
    }

    /// Tells whoever waits for it that it has come so far.
    fn tell(&mut self) -> anyhow::Result<()> {
        let counted = self.tally.counted();
        let written = self.earlier.written + counted.written;
        let delivered = self.received + counted.delivered();
        match &mut self.milestone {
            Some(milestone) => milestone.passed(written, delivered),
            None => Ok(()),
        }
    }

    fn snapshot(&self, phase: Phase, stand: Stand) -> Snapshot {
        let (counted, earlier) = (self.tally.counted(), self.earlier);
        let total = match self.options.amount_after(earlier.written) {
            Amount::Exactly(count) => Some(earlier.written + count),
            Amount::Endless => None,
        };
        Snapshot {
            phase,
            written: earlier.written + counted.written,
            delivered: self.received + counted.delivered(),
            total,
            rolled_back: counted.rolled_back,
            failed: counted.failed,
            new: stand.new,
            retry: stand.retry,
            dead: earlier.dead + self.counters.values().dead,
            lanes: self.outbox.lane_depths(),
            lag: stand.lag,
        }
    }
}

/// Impatient: whoever kills the demo and resumes it waits for the holds of the dead process to run
/// out, and whoever watches a retry wants to see it succeed.
fn outbox_options(options: &Options) -> OutboxOptions {
    OutboxOptions {
        workers: usize::from(options.workers),
        retry: RetryOptions {
            max_attempts: MAX_ATTEMPTS,
            base: Duration::from_millis(50),
            max: Duration::from_secs(1),
        },
        // It makes events fail by themselves, and shows what becomes of them: no target is unavailable.
        handler: HandlerOptions { circuit: CircuitOptions::off(), ..HandlerOptions::default() },
        poll_interval: Duration::from_millis(500),
        hot_grace: Duration::from_secs(3),
        hold: HOLD,
        ..OutboxOptions::default()
    }
}
