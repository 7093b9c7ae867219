use tokio::sync::watch;

/// Where a stopped node stands still: nothing it does reaches the outside while the gate is shut.
#[derive(Debug, Clone)]
pub(super) struct Gate(watch::Sender<bool>);

impl Gate {
    pub(super) fn open() -> Self {
        Self(watch::Sender::new(true))
    }

    pub(super) fn set(&self, open: bool) {
        self.0.send_replace(open);
    }

    pub(super) async fn pass(&self) {
        // The sender is ours, so the channel cannot be closed.
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}
