//! Where simulated nodes publish to.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use sendoff_core::{Delivery, EventId, Sink, Verdict};
use tokio::time::{Instant, sleep};

use super::super::bug::Bug;
use super::super::node::SCRIPTED_PANIC;
use super::super::script::{Ends, Part, act};
use super::line::Line;
use crate::history::FaultKind;

/// How often each fact was tried, by reader; all nodes go on where another was.
#[derive(Debug, Clone, Default)]
pub(super) struct Tried(Arc<Mutex<Runs>>);

type Runs = BTreeMap<(Arc<str>, EventId), u32>;

impl Tried {
    fn again(&self, reader: &Arc<str>, id: EventId) -> u32 {
        let mut tried = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let runs = tried.entry((reader.clone(), id)).or_default();
        *runs += 1;
        *runs
    }
}

/// Where a node publishes a pair to. What arrives there is durable in that moment.
#[derive(Debug, Clone)]
pub(super) struct Target {
    /// The pair, which is the reader of its history.
    pub(super) reader: Arc<str>,
    pub(super) publisher: Arc<str>,
    pub(super) line: Line,
    pub(super) tried: Tried,
    pub(super) seed: u64,
}

#[async_trait]
impl Sink for Target {
    fn name(&self) -> &str {
        &self.publisher
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
        if self.line.ground.bug == Some(Bug::AcknowledgedEarly) {
            let (target, batch) = (self.clone(), deliveries.to_vec());
            tokio::spawn(async move { target.publish(&batch).await });
            return deliveries.iter().map(|_| Ok(())).collect();
        }
        self.publish(deliveries).await
    }
}

impl Target {
    async fn publish(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
        let began = Instant::now();
        let stopped = self.line.gate.pass().await;
        if let (Some(looks), [first, ..]) =
            (self.line.ground.outages.of(&self.publisher), deliveries)
        {
            // In no time, so that no outage ends between two tries.
            self.line.ground.log.delivered(&self.reader, &self.line.node, first, false);
            return vec![Err(looks.failure())];
        }
        let mut verdicts: Vec<Verdict> = Vec::new();
        for delivery in deliveries {
            let id = delivery.id();
            let part = if id.as_bytes()[15] % 50 == 0 { Part::Hangs } else { Part::Ordinary };
            let act = act(part, self.seed, id, self.tried.again(&self.reader, id));
            sleep(act.takes).await;
            self.line.gate.pass().await;
            if stopped || self.line.had_trouble_since(began) || self.line.is_tail_lost() {
                // Somebody else may have the pair by now, and publish it as well.
                self.line.trouble_with(FaultKind::Pause, [id]);
            }
            match act.ends {
                Ends::Well => {
                    self.line.ground.log.delivered(&self.reader, &self.line.node, delivery, true);
                    verdicts.push(Ok(()));
                }
                Ends::Badly(failure) => {
                    self.line.ground.log.delivered(&self.reader, &self.line.node, delivery, false);
                    verdicts.push(Err(failure));
                    return verdicts;
                }
                ends => {
                    // What was published before it nobody hears of.
                    let before =
                        deliveries.iter().take(verdicts.len()).map(|delivery| delivery.id());
                    self.line.trouble_with(FaultKind::LostReply, before.chain([id]));
                    match ends {
                        Ends::InPanic => std::panic::panic_any(SCRIPTED_PANIC),
                        _ => pending().await,
                    }
                }
            }
        }
        verdicts
    }
}
