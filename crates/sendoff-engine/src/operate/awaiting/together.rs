//! One question for all who ask at the same time.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::lock::lock;

/// How far apart two questions begin, whoever asks: a thousand who wait are no thousand questions.
const APART: Duration = Duration::from_millis(50);
/// How long the first one waits for others who ask at the same time.
const GATHER: Duration = Duration::from_millis(2);

/// Asks the database once for all who ask while the last question is not answered yet, or was asked a moment ago.
///
/// Each question is a task of its own, so that nobody waits for somebody else to be polled.
#[derive(Debug)]
pub(crate) struct Together<Q, A> {
    /// Who asks next; nobody where there is none.
    next: Mutex<Option<Round<Q, A>>>,
    /// Whose turn it is, and when the last question began.
    turn: tokio::sync::Mutex<Option<Instant>>,
}

#[derive(Debug)]
struct Round<Q, A> {
    asked: Vec<Q>,
    answer: watch::Receiver<Option<A>>,
}

impl<Q, A> Default for Together<Q, A> {
    fn default() -> Self {
        Self { next: Mutex::new(None), turn: tokio::sync::Mutex::default() }
    }
}

impl<Q: Send + 'static, A: Clone + Send + Sync + 'static> Together<Q, A> {
    /// Asks with the others, by a question that begins after this call; `None` where it was cut off with its
    /// runtime. Cancel-safe: what was asked is answered to the others.
    pub(crate) async fn ask<F>(
        self: &Arc<Self>,
        asked: impl IntoIterator<Item = Q>,
        question: impl FnOnce(Vec<Q>) -> F + Send + 'static,
    ) -> Option<A>
    where
        F: Future<Output = A> + Send + 'static,
    {
        let mut answer = self.join(asked, question);
        let told = answer.wait_for(Option::is_some).await.ok()?;
        told.clone()
    }

    fn join<F>(
        self: &Arc<Self>,
        asked: impl IntoIterator<Item = Q>,
        question: impl FnOnce(Vec<Q>) -> F + Send + 'static,
    ) -> watch::Receiver<Option<A>>
    where
        F: Future<Output = A> + Send + 'static,
    {
        let mut next = lock(&self.next);
        // One whose task is gone answers nobody any more.
        if let Some(round) = next.as_mut().filter(|round| round.answer.has_changed().is_ok()) {
            round.asked.extend(asked);
            return round.answer.clone();
        }
        let (tell, answer) = watch::channel(None);
        *next = Some(Round { asked: asked.into_iter().collect(), answer: answer.clone() });
        drop(next);
        let (together, gathered) = (Arc::clone(self), Instant::now() + GATHER);
        tokio::spawn(async move {
            let mut turn = together.turn.lock().await;
            sleep_until(turn.map_or(gathered, |last| gathered.max(last + APART))).await;
            *turn = Some(Instant::now());
            // From here on whoever asks is for the next question: this one may not see what they mean.
            let round = lock(&together.next).take();
            if let Some(round) = round {
                tell.send_replace(Some(question(round.asked).await));
            }
        });
        answer
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::future::join_all;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_asks_at_one_time_is_answered_together_and_not_by_an_older_question() {
        let together: Arc<Together<u32, Vec<u32>>> = Arc::default();
        let questions = Arc::new(AtomicUsize::new(0));
        let ask = |number: u32| {
            let questions = questions.clone();
            let answered = move |asked: Vec<u32>| async move {
                questions.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_secs(1)).await;
                asked
            };
            let together = together.clone();
            async move { together.ask([number], answered).await }
        };
        let first = tokio::spawn(ask(1));
        tokio::time::sleep(Duration::from_millis(500)).await;
        let others = join_all((2..100).map(&ask)).await;
        assert_eq!(first.await.ok().flatten(), Some(vec![1]));
        let all: Vec<u32> = (2..100).collect();
        assert!(others.iter().all(|told| told.as_ref() == Some(&all)), "{others:?}");
        assert_eq!(questions.load(Ordering::SeqCst), 2);
    }

    /// A future that is not polled any more keeps nobody waiting.
    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_one_who_asked_and_went_away() {
        let together: Arc<Together<u32, u32>> = Arc::default();
        let mut left = Box::pin(together.ask([1], |_| async { 1 }));
        assert!(futures_util::poll!(&mut left).is_pending());
        let told = together.ask([2], |_| async { 2 }).await;
        assert!(told.is_some(), "the question of the first was asked for both");
        drop(left);
    }
}
