//! What an application says of failed attempts, and wants to hear of them.

use std::sync::Arc;

use sendoff_core::{Delivery, Failure, FailureClass, Verdict};
use tracing::warn;

use super::shield::shielded;
use crate::dispatch::unroutable;

type Classify = Arc<dyn Fn(&Delivery, &Failure) -> FailureClass + Send + Sync>;
type Hook = Arc<dyn Fn(&Delivery, &Failure) + Send + Sync>;

/// The classifier and the hook of whatever delivers. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Reactions {
    classify: Option<Classify>,
    hook: Option<Hook>,
}

impl Reactions {
    pub(crate) fn classify(
        &mut self,
        classify: impl Fn(&Delivery, &Failure) -> FailureClass + Send + Sync + 'static,
    ) {
        self.classify = Some(Arc::new(classify));
    }

    pub(crate) fn on_failure(
        &mut self,
        hook: impl Fn(&Delivery, &Failure) + Send + Sync + 'static,
    ) {
        self.hook = Some(Arc::new(hook));
    }

    /// Gives each failure its class, then tells of it.
    pub(super) fn react(&self, deliveries: &[Delivery], verdicts: &mut [Verdict]) {
        if self.classify.is_none() && self.hook.is_none() {
            return;
        }
        for (delivery, verdict) in deliveries.iter().zip(verdicts) {
            let Err(failure) = verdict else { continue };
            if let Some(class) = self.class(delivery, failure) {
                failure.set_class(class);
            }
            if let Some(hook) = &self.hook
                && let Err(panic) = shielded(|| hook(delivery, failure))
            {
                warn!(error = panic.report(), "the failure hook failed");
            }
        }
    }

    /// The classifier's word; nothing where there is none. That an event has no handler is no failure of
    /// one.
    fn class(&self, delivery: &Delivery, failure: &Failure) -> Option<FailureClass> {
        let classify = self.classify.as_ref().filter(|_| !unroutable(failure))?;
        shielded(|| classify(delivery, failure))
            .inspect_err(|panic| {
                warn!(error = panic.report(), "the failure classifier failed");
            })
            .ok()
    }
}
