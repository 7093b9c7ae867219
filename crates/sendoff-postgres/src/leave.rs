//! Sessions that nobody uses any more: given up, or left half-way.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::CancelToken;

use crate::cancel::cancel;
use crate::connect::Target;

/// How long a statement that was given up may still be answered before the server is asked to end it. Most
/// are: they wait for nothing, it is only that nobody waits for them.
const ANSWER: Duration = Duration::from_millis(250);
/// How long a session that is not answered is kept open. A pooler passes a request to cancel on only while
/// the session that it is about is there.
const LONGEST: Duration = Duration::from_secs(10);
/// How long a new session waits for those that leave.
const TURN: Duration = Duration::from_secs(1);

/// What it takes to end a session.
pub(crate) struct Farewell {
    pub(crate) token: CancelToken,
    pub(crate) target: Arc<Target>,
    pub(crate) connection: AbortHandle,
    /// Closed when the connection is.
    pub(crate) ended: watch::Receiver<()>,
    /// How long connecting may take.
    pub(crate) connect_timeout: Duration,
}

impl Farewell {
    async fn ended(&mut self) {
        while self.ended.changed().await.is_ok() {}
    }

    /// Asks the server to end what it does not answer by itself. A connection whose client was dropped ends
    /// when everything is answered.
    async fn say(mut self) {
        if timeout(ANSWER, self.ended()).await.is_ok() {
            return;
        }
        let (target, token) = (Arc::clone(&self.target), self.token.clone());
        let connecting = self.connect_timeout;
        // Apart, so that it is never cut short: the answer may come before the request was passed on.
        let cancel = tokio::spawn(async move { cancel(&target, &token, connecting).await });
        select(pin!(self.ended()), cancel).await;
    }

    /// Lets the connection end by itself, if it does; called when its client is dropped.
    pub(crate) fn let_end(mut self) {
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move {
                if timeout(LONGEST, self.ended()).await.is_err() {
                    self.connection.abort();
                }
            })),
            Err(_) => self.connection.abort(),
        }
    }
}

/// How many sessions are leaving, of those that one may be opened in place of.
#[derive(Clone, Default)]
pub(crate) struct Leaving(watch::Sender<usize>);

impl Leaving {
    /// One more begins to.
    pub(crate) fn leave(&self, session: Farewell) {
        if let Ok(runtime) = Handle::try_current() {
            let one = One::of(self);
            runtime.spawn(async move {
                session.say().await;
                drop(one);
            });
        }
    }

    /// Waits for them. A statement that nobody waits for may wait for a lock: without this, each that is given
    /// up would leave one more session behind, where no limit of the session's own ends it.
    pub(crate) async fn over(&self) {
        let _ = timeout(TURN, self.0.subscribe().wait_for(|leaving| *leaving == 0)).await;
    }
}

struct One(watch::Sender<usize>);

impl One {
    fn of(leaving: &Leaving) -> Self {
        leaving.0.send_modify(|leaving| *leaving += 1);
        Self(leaving.0.clone())
    }
}

impl Drop for One {
    fn drop(&mut self) {
        self.0.send_modify(|leaving| *leaving -= 1);
    }
}
