//! Holds J8: a projection is exact, whatever becomes of the processes that make it.

use std::env;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::journal::publish::PairId;
use sendoff_core::journal::{Fact, Topic};
use sendoff_core::{BoxError, Delivery};
use sendoff_engine::HandlerResult;
use sendoff_engine::journal::publish::{PairOptions, PublishOptions, Publishing, Which};
use sendoff_engine::sink::BatchSink;
use sendoff_testkit::process::say;
use sendoff_testkit::wait::within;

use crate::journal::{Log, journal};
use crate::place::Place;
use crate::process::node_of;

const PATH: &str = "journal::publish::projected::node";
const FACTS: i64 = 1_000;
const PLENTY: Duration = Duration::from_secs(120);

/// Each fact is a row, with the sum of all up to it; and the sum is a row of its own.
const TABLES: &str = "create table entry (position bigint not null, sum bigint not null);
                      create table total (sum bigint not null);
                      insert into total values (0)";

/// Not a test of its own: this program again, as a node that projects. Some of its calls fail after their commit, and
/// some commit nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node() {
    let Ok(schema) = env::var("SENDOFF_TEST_NODE") else { return };
    let place = Place::in_schema(env::var("SENDOFF_POSTGRES_URL").unwrap(), schema);
    // The schema is the parent's.
    let place = Arc::new(ManuallyDrop::new(place));
    let journal = journal(&place).await;
    let publisher = {
        let (journal, place) = (journal.clone(), place.clone());
        move |facts: Vec<Delivery>| {
            let (journal, place) = (journal.clone(), place.clone());
            async move { Ok(project(&journal, &place, &facts).await?) }
        }
    };
    let options = PublishOptions {
        renew: Duration::from_millis(100),
        lease: Duration::from_secs(2),
        ..PublishOptions::default()
    };
    let settles = PairOptions {
        settles_in: true,
        batch: 7,
        interval: Duration::from_millis(20),
        ..PairOptions::default()
    };
    let everything = Topic::builder("everything").build().unwrap();
    let builder = Publishing::builder(&journal).options(options);
    let sink = Arc::new(BatchSink::new("p", publisher));
    let _node = builder.pair_with(&everything, sink, settles).start().await.unwrap();
    say("up");
    std::future::pending::<()>().await;
}

async fn project(journal: &Log, place: &Place, facts: &[Delivery]) -> HandlerResult {
    let mut client = place.client().await;
    client.batch_execute(&format!("set search_path = {}", place.schema)).await?;
    let mut tx = client.transaction().await?;
    for fact in facts {
        let (position, amount) = (fact.position().ok_or("no fact")?, fact.read_json::<i64>()?);
        tx.batch_execute(&format!(
            "update total set sum = sum + {amount};
             insert into entry select {position}, sum from total"
        ))
        .await?;
    }
    journal.settle_in(facts, &mut tx).await?;
    match fastrand::u8(..10) {
        0 => tx.rollback().await?,
        1 => drop(tx),
        2 => {
            tx.commit().await?;
            return Err(BoxError::from("it went wrong after its commit").into());
        }
        3 => {
            tx.commit().await?;
            panic!("after its commit");
        }
        _ => tx.commit().await?,
    }
    Ok(())
}

/// Two nodes, each of which is killed again and again, at no particular moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_projection_of_killed_processes_has_each_fact_once_and_in_order() {
    let place = Place::new();
    let journal = journal(&place).await;
    place.run(TABLES).await;
    let fact = |amount: i64| Fact::builder(("paid", amount.to_string())).build().unwrap();
    let facts: Vec<_> = (1..=FACTS).map(fact).collect();
    for some in facts.chunks(100) {
        journal.append(some.to_vec()).await.unwrap();
    }
    let entries = async || place.number("select count(*) from entry").await;
    let mut random = fastrand::Rng::with_seed(16);
    let mut nodes = [(); 2].map(|()| node_of(PATH, &place, &[]));
    let mut kills = 0;
    while kills < 10 && entries().await < FACTS {
        let victim = &mut nodes[random.usize(..2)];
        victim.says("up");
        let enough = (entries().await + random.i64(1..60)).min(FACTS);
        within(PLENTY, "them to work", async || entries().await >= enough).await;
        victim.signal("-KILL");
        kills += 1;
        *victim = node_of(PATH, &place, &[]);
    }
    let which = Which::pair(&PairId::new("everything", "p").unwrap());
    let done = async || {
        let cursors = journal.publishers().cursors(&which).await.unwrap();
        i64::from(cursors[0].position) >= FACTS
    };
    within(PLENTY, "everything to be projected", done).await;
    assert!(kills > 0);
    assert_eq!(entries().await, FACTS, "after {kills} kills");
    let different = "select count(distinct position) from entry";
    assert_eq!(place.number(different).await, FACTS, "nothing is missing, and nothing twice");
    assert_eq!(place.number("select sum from total").await, FACTS * (FACTS + 1) / 2);
    let wrong = "select count(*) from (select e.sum, sum(convert_from(f.payload, 'utf8')::bigint)
                                         over (order by e.position) as expected
                                         from entry e join journal_event f on f.position = e.position) s
                  where sum <> expected";
    assert_eq!(place.number(wrong).await, 0, "in the order of positions");
}
