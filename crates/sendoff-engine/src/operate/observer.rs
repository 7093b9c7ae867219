use std::sync::Arc;

use tracing::error;

use super::metrics::Metrics;
use crate::sink::{discard, shielded};

/// Who is told what happens, behind the shield: metrics are somebody else's code, and a panic in them
/// must not stop a stage of ours. Cheap to clone. The default is nobody.
#[derive(Clone, Default)]
pub(crate) struct Observer(Option<Arc<dyn Metrics>>);

impl Observer {
    /// Nobody, if these metrics are not enabled.
    pub(crate) fn new(metrics: Arc<dyn Metrics>) -> Self {
        let enabled = shielded(|| metrics.enabled()).unwrap_or_else(|panic| {
            error!(error = panic.report(), "a metrics method panicked: metrics are off");
            false
        });
        if enabled {
            return Self(Some(metrics));
        }
        discard(metrics);
        Self(None)
    }

    /// Whether anything has to be measured.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn tell(&self, tell: impl FnOnce(&dyn Metrics)) {
        if let Some(metrics) = &self.0
            && let Err(panic) = shielded(|| tell(&**metrics))
        {
            error!(error = panic.report(), "a metrics method panicked");
        }
    }
}
