//! What the log says of targets that fail and of leaders that change.

use std::sync::Arc;

use sendoff_core::Failure;
use sendoff_core::journal::Topic;
use sendoff_engine::NodeOptions;
use sendoff_engine::journal::publish::{PublishOptions, Publishing};
use sendoff_engine::sink::StatisticsSink;
use sendoff_testkit::journal::Latch;
use sendoff_testkit::logs::Lines;
use sendoff_testkit::wait::within;
use serde_json::Value;
use tokio::time::sleep;

use super::{MINUTE, append, everything, journal};
use crate::SECOND;
use crate::operate::logging;

const WAITS: &str = "a fact could not be published: the pair waits at it, and tries again";
const GOES_ON: &str = "the pair goes on";
const FAILED: &str = "the pair stopped as FAILED; reset it";
const PARKED: &str = "a fact was parked";
const LEADS: &str = "this node leads pairs that nobody led";
const TOOK_OVER: &str = "this node took over pairs of a node that is gone";
const LOST: &str = "another node leads pairs that this node led";
const RELEASED: &str = "this node released pairs to others";
const SILENT: &str = "this node could not say that it is alive";
const ALIVE: &str = "this node says again that it is alive";

/// Lines with a message, as values.
fn said(lines: &Lines, message: &str) -> Vec<Value> {
    let all = lines.text();
    let all = all.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|line| line["fields"]["message"] == message).collect()
}

fn levels(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["level"].as_str().unwrap()).collect()
}

/// Holds M6: at the first failure, no more than once a minute after that, summed up, and when it is over.
#[tokio::test(start_paused = true)]
async fn a_target_that_fails_and_is_back_is_told_of_once_a_minute() {
    let (lines, _guard) = logging();
    let (journal, latch) = (journal(), Latch::new("p"));
    append(&journal, 7).await;
    latch.refuse(|fact| (fact.position.get() >= 3).then(|| Failure::retry("no such mailbox")));
    let node = Publishing::builder(&journal).pair(&everything(), latch.publisher());
    let node = node.start().await.unwrap();
    latch.wait_for(2).await;
    let first = said(&lines, WAITS);
    assert_eq!(levels(&first), ["WARN"], "at once");
    sleep(150 * SECOND).await;
    let told = said(&lines, WAITS);
    assert_eq!(levels(&told), ["WARN"; 3], "{told:#?}");
    let [.., last] = &told[..] else { panic!("three") };
    let field = |name: &str| last["fields"][name].clone();
    assert_eq!((field("pair"), field("position")), ("everything:p".into(), "3".into()));
    assert!(field("failures").as_u64().unwrap() >= 4, "summed up: {last}");
    assert!(field("next_try").as_str().unwrap().ends_with('s'), "{last}");
    assert!(field("error").as_str().unwrap().contains("no such mailbox"), "{last}");
    assert!(said(&lines, GOES_ON).is_empty());
    latch.accept();
    latch.wait_for(7).await;
    assert_eq!(levels(&said(&lines, GOES_ON)), ["INFO"]);
    node.close().await;
}

/// Holds M6: also where it fails and is back every second.
#[tokio::test(start_paused = true)]
async fn a_target_that_comes_and_goes_is_told_of_once_a_minute() {
    let (lines, _guard) = logging();
    let (journal, latch) = (journal(), Latch::new("p"));
    let node = Publishing::builder(&journal).pair(&everything(), latch.publisher());
    let node = node.start().await.unwrap();
    for round in 1..=100 {
        latch.refuse(|_| Some(Failure::retry("away")));
        append(&journal, 1).await;
        sleep(SECOND).await;
        latch.accept();
        latch.wait_for(round).await;
    }
    let (waits, goes_on) = (said(&lines, WAITS).len(), said(&lines, GOES_ON).len());
    assert!((2..=6).contains(&waits) && goes_on == waits, "{waits} and {goes_on} lines");
    node.close().await;
}

/// Holds M6: who leads, who takes over from whom, who lost what, and who released it: a line for all pairs of
/// a node together.
#[tokio::test(start_paused = true)]
async fn leaders_that_change_and_takeovers_are_told_of() {
    let (lines, _guard) = logging();
    let journal = journal();
    let start = async |name: &str| {
        let mut builder = Publishing::builder(&journal).options(PublishOptions {
            node: NodeOptions { name: Some(name.into()), ..NodeOptions::default() },
            ..PublishOptions::default()
        });
        for nth in 0..10 {
            let topic = Topic::builder(format!("topic-{nth}")).build().unwrap();
            builder = builder.pair(&topic, Arc::new(StatisticsSink::default()));
        }
        builder.start().await.unwrap()
    };
    let first = start("first").await;
    let leads = async |node: &Publishing, pairs| {
        within(2 * MINUTE, "it leads", async || node.statistics().leading == pairs).await;
    };
    leads(&first, 10).await;
    let told = said(&lines, LEADS);
    assert_eq!(levels(&told), ["INFO"], "one line for all");
    assert_eq!(told[0]["fields"]["count"], 10);
    assert!(told[0]["fields"]["pairs"].as_str().unwrap().starts_with("topic-0:statistics, "));
    drop(first);
    let second = start("second").await;
    leads(&second, 10).await;
    let told = said(&lines, TOOK_OVER);
    assert_eq!(levels(&told), ["WARN"], "{told:#?}");
    assert_eq!(told[0]["fields"]["count"], 10);
    assert!(told[0]["fields"]["node"].as_str().unwrap().starts_with("first"));
    let third = start("third").await;
    leads(&third, 5).await;
    assert_eq!(levels(&said(&lines, RELEASED)), ["INFO"]);
    second.close().await;
    third.close().await;
    assert_eq!(levels(&said(&lines, RELEASED)), ["INFO"; 3]);
}

/// Holds M6: what is promised stands in the guide, word for word.
#[test]
fn the_guide_has_every_line() {
    let guide = include_str!("../../../../../docs/guide/operating.md");
    for message in [WAITS, GOES_ON, FAILED, PARKED, LEADS, TOOK_OVER, LOST, RELEASED, SILENT, ALIVE]
    {
        assert!(guide.contains(&format!("`{message}`")), "{message}");
    }
}
