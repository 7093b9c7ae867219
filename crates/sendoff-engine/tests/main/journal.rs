//! The journal's handle, over the store in memory.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt;
use sendoff_core::BoxError;
use sendoff_core::journal::{Fact, Invalid, Position, Query, Recorded};
use sendoff_engine::journal::{
    AppendError, Decision, ExecuteError, Journal, MemoryJournal, Model, TailOptions, fold,
};

fn journal() -> Journal<MemoryJournal> {
    Journal::new(MemoryJournal::new())
}

fn fact(event_type: &str, wallet: u32) -> Fact {
    Fact::builder((event_type, "{}")).tag("wallet", wallet).build().unwrap()
}

fn wallet(number: u32) -> Query {
    Query::tagged(format!("wallet={number}").parse().unwrap())
}

fn types(facts: &[Recorded]) -> Vec<&str> {
    facts.iter().map(|fact| fact.event().event_type()).collect()
}

/// Holds J1 and J2.
#[tokio::test]
async fn what_is_appended_is_read_by_what_it_is_about() {
    let journal = journal();
    journal.append([fact("a", 1), fact("b", 2)]).await.unwrap();
    journal.append([fact("c", 1)]).await.unwrap();
    let read = async |query: Query, after: u64| -> Vec<Recorded> {
        journal.read(query, Position::new(after).unwrap()).try_collect().await.unwrap()
    };
    assert_eq!(types(&read(wallet(1), 0).await), ["a", "c"]);
    assert_eq!(types(&read(wallet(1), 1).await), ["c"]);
    assert_eq!(types(&read(Query::all(), 0).await), ["a", "b", "c"]);

    let nothing = journal.append::<Fact>([]).await;
    assert!(matches!(nothing, Err(AppendError::Invalid(Invalid::NoFacts))), "{nothing:?}");
    let wrong = journal.append([Fact::builder(("t", "{")).tag("a", 1)]).await;
    assert!(matches!(wrong, Err(AppendError::Invalid(_))), "{wrong:?}");
}

/// Holds J2: a tuple of models is one, and each of them gets what it asked for.
#[tokio::test]
async fn composed_models_are_read_once_and_each_sees_its_own() {
    let journal = journal();
    journal.append([fact("a", 1), fact("b", 2), fact("a", 2)]).await.unwrap();
    let names = |query| {
        fold(query, Vec::new(), |names: &mut Vec<String>, fact: &Recorded| {
            names.push(fact.event().event_type().to_owned());
            Ok(())
        })
    };
    let both = (names(wallet(2)), names(Query::of_type("a")));
    let decided = journal.decide(both).await.unwrap();
    assert_eq!(decided.model.0.state, ["b", "a"]);
    assert_eq!(decided.model.1.state, ["a", "a"]);
    let condition = decided.condition;
    journal.append_if([fact("c", 3)], condition.clone()).await.unwrap();
    journal.append([fact("b", 2)]).await.unwrap();
    let late = journal.append_if([fact("d", 3)], condition).await;
    assert!(matches!(late, Err(AppendError::Conflict(_))), "{late:?}");
}

/// Holds J13.
#[tokio::test(start_paused = true)]
async fn a_command_runs_again_until_nobody_was_quicker() {
    struct Nothing;
    impl Model for Nothing {
        fn query(&self) -> Query {
            wallet(1)
        }
        fn apply(&mut self, _: &Recorded) -> Result<(), BoxError> {
            Ok(())
        }
    }
    let (journal, runs) = (journal(), AtomicU32::new(0));
    let losing = |times: u32| {
        let (journal, runs) = (&journal, &runs);
        runs.store(0, Ordering::Relaxed);
        journal.execute(move || async move {
            let condition = journal.decide(Nothing).await?.condition;
            if runs.fetch_add(1, Ordering::Relaxed) < times {
                journal.append([fact("rival", 1)]).await?;
            }
            Ok::<_, BoxError>(Decision::given(condition).fact(fact("mine", 1))?)
        })
    };
    let executed = losing(3).await.unwrap();
    assert_eq!((executed.tries, executed.receipts.len()), (4, 1));
    let contended = losing(100).await;
    let Err(ExecuteError::Contended { tries, .. }) = contended else { panic!("{contended:?}") };
    assert_eq!(tries, runs.load(Ordering::Relaxed));

    let refused = journal.execute(|| async { Err::<Decision, _>("no") }).await;
    assert!(matches!(refused, Err(ExecuteError::Handler("no"))), "{refused:?}");
}

/// Holds J6.
#[tokio::test(start_paused = true)]
async fn a_tail_passes_on_what_is_there_and_waits_for_what_comes() {
    let journal = journal();
    journal.append([fact("a", 1), fact("b", 1)]).await.unwrap();
    let hour = Duration::from_secs(3_600);
    let options = TailOptions { batch: 1, interval: hour, ..TailOptions::default() };
    let mut reader = journal.tail(Position::START, options).await.unwrap();
    let mut now = journal.tail_from_now(options).await.unwrap();
    for number in 1..=2 {
        assert_eq!(reader.next().await.unwrap().up_to.get(), number);
    }
    let started = tokio::time::Instant::now();
    let (next, fresh, appended) =
        tokio::join!(reader.next(), now.next(), journal.append([fact("c", 1)]));
    appended.unwrap();
    for batch in [next.unwrap(), fresh.unwrap()] {
        assert_eq!(batch.rows[0].position.get(), 3);
    }
    assert_eq!(started.elapsed(), Duration::ZERO, "woken, not by the interval");
}
