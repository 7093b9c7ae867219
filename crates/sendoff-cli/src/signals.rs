//! Being told to end.

use std::io;

use tokio_util::sync::CancellationToken;

/// A command was told to end before it had done what it was asked for.
pub(crate) const INTERRUPTED: u8 = 1;

/// Ctrl-C, and the request to end that a service manager sends.
#[derive(Debug)]
pub(crate) struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// Listens from now on: no signal ends the process by itself any more.
    pub(crate) fn listen() -> io::Result<Self> {
        #[cfg(unix)]
        {
            use tokio::signal::unix::{SignalKind, signal};
            let interrupt = signal(SignalKind::interrupt())?;
            let terminate = signal(SignalKind::terminate())?;
            Ok(Self { interrupt, terminate })
        }
        #[cfg(not(unix))]
        Ok(Self {})
    }

    /// The next one. Cancel-safe.
    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
        #[cfg(not(unix))]
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}

/// Cancelled by the first signal; a second one ends the process where it is.
pub(crate) fn cancelled_by_signal() -> io::Result<CancellationToken> {
    let mut signals = Signals::listen()?;
    let cancel = CancellationToken::new();
    tokio::spawn({
        let cancel = cancel.clone();
        async move {
            signals.next().await;
            cancel.cancel();
            signals.next().await;
            std::process::exit(i32::from(INTERRUPTED));
        }
    });
    Ok(cancel)
}
