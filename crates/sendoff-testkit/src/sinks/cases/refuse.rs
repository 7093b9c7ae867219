//! What is not taken, and what becomes of it.

use sendoff_core::{Delivery, Failure, FailureClass, Sink};

use super::{
    batch, builder, deliver, delivered_at_last, delivery, event, fact, is_unavailable, there, tried,
};
use crate::sinks::SinkGround;

/// Wherever it stands in its batch; the others are done.
pub async fn one_bad_event_fails_alone<G: SinkGround>(ground: &G) {
    let sink = ground.sink().await;
    let mut all = batch(15);
    for at in [0, 7, 14] {
        all[at] = delivery(&ground.poison(&all[at].event).await);
    }
    let verdicts = deliver(&sink, &all).await;
    let mut good = Vec::new();
    for (at, (delivery, verdict)) in all.into_iter().zip(verdicts).enumerate() {
        match verdict {
            Ok(()) => {
                assert!(![0, 7, 14].contains(&at), "number {at} was said to be poison");
                good.push(delivery);
            }
            Err(failure) => {
                assert!(
                    [0, 7, 14].contains(&at),
                    "number {at} failed with its neighbours: {failure}"
                );
                assert_eq!(failure.class(), FailureClass::Dead, "{failure}");
            }
        }
    }
    // One by itself hurts nobody either, and neither do batches of nothing else.
    let alone = delivery(&ground.poison(&builder().json(&1).build().unwrap()).await);
    let verdicts = deliver(&sink, &[alone.clone(), alone]).await;
    assert!(verdicts.iter().all(Result::is_err) && sink.is_healthy());
    delivered_at_last(&sink, &good[..1]).await;
    there(ground, &good, false).await;
}

/// Facts have one order (J6): what comes after one that the sink finds it cannot send waits with it.
pub async fn no_fact_overtakes_one_that_cannot_be_sent<G: SinkGround>(ground: &G) {
    let sink = ground.sink().await;
    let mut events: Vec<_> = (0..7).map(event).collect();
    events[2] = ground.poison(&events[2]).await;
    let facts: Vec<_> = (1..).zip(events).map(|(at, event)| fact(at, event)).collect();
    // As a publisher does: where a sink has no more time to begin facts, the next batch goes on there.
    let mut done = 0;
    let mut failures = loop {
        let verdicts = tried(&sink, &facts[done..]).await;
        let taken = verdicts.iter().take_while(|verdict| verdict.is_ok()).count();
        done += taken;
        if taken < verdicts.len() {
            break verdicts.into_iter().skip(taken);
        }
    };
    assert_eq!(done, 2, "up to the one that cannot be sent");
    let failure = failures.next().unwrap().unwrap_err();
    assert_eq!(failure.class(), FailureClass::Dead, "{failure}");
    for verdict in failures {
        let failure = verdict.expect_err("nothing after it is said to be done");
        assert!(is_unavailable(&failure), "{failure}");
    }
    there(ground, &facts[..2], false).await;
    // By itself it holds up nobody else's.
    delivered_at_last(&sink, &facts[3..]).await;
}

/// Fault 36: errors are stored and logged.
pub async fn errors_tell_neither_payloads_nor_headers<G: SinkGround>(ground: &G) {
    let sink = ground.sink().await;
    let (payload, header) = ("canary-of-the-payload", "canary-of-the-header");
    let event = builder().header("token", header).json(&payload).build().unwrap();
    let poison = ground.poison(&event).await;
    let verdicts = deliver(&sink, &[delivery(&poison), delivery(&event)]).await;
    let failure = verdicts.into_iter().next().unwrap().unwrap_err();
    let told = format!("{} {failure:?}", failure.report());
    assert!(!told.contains("canary"), "{told}");
}

/// Each way to refuse is what it is said to be, and passes: then the same events are done.
pub async fn refusals_are_classified_and_pass<G: SinkGround>(ground: &G) {
    let sink = ground.sink().await;
    let refusals = ground.refusals();
    assert!(!refusals.is_empty(), "a ground without refusals lists the group in CANNOT");
    let mut all: Vec<Delivery> = Vec::new();
    for refusal in refusals {
        // Large, so that no room that is left somewhere is enough.
        let large = |_| delivery(&builder().bytes(vec![b'x'; 64 * 1024]).build().unwrap());
        let events: Vec<_> = (0..3).map(large).collect();
        ground.refuse(&refusal).await;
        for verdict in deliver(&sink, &events).await {
            let class = verdict.as_ref().map_err(Failure::class);
            let Err(class) = class else { panic!("{}: an event was taken", refusal.name) };
            assert!(refusal.expected.is(class), "{}: {class:?}: {verdict:?}", refusal.name);
        }
        ground.allow().await;
        all.extend(events.iter().cloned());
        // What was refused now may be refused a moment longer; what uses up attempts is not asked about here.
        let begun = tokio::time::Instant::now();
        let mut left = events;
        while !left.is_empty() {
            assert!(begun.elapsed() < super::PLENTY, "{}: it does not pass", refusal.name);
            let mut verdicts = deliver(&sink, &left).await.into_iter();
            left.retain(|_| verdicts.next().unwrap().is_err());
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        there(ground, &all, false).await;
    }
}

/// The sink does not start, and the error names the option.
pub async fn wrong_credentials_are_misconfigured_and_no_secret_is_told<G: SinkGround>(ground: &G) {
    let wrong = ground.wrong_credentials().await;
    let error = wrong.error.expect("a sink does not start with wrong credentials");
    assert!(error.contains(wrong.path), "{error}");
    assert!(!error.contains(&wrong.secret), "the secret is told");
}

/// Events wait, uncounted, and flow when it was put right, without a restart.
pub async fn credentials_that_are_revoked_lose_nothing<G: SinkGround>(ground: &G) {
    let sink = ground.sink().await;
    let all = batch(30);
    delivered_at_last(&sink, &all[..10]).await;
    ground.revoke().await;
    let mut refused = 0;
    for verdict in deliver(&sink, &all[10..20]).await {
        match verdict {
            // What was under way when they were revoked may be done.
            Ok(()) => {}
            Err(failure) => {
                assert!(is_unavailable(&failure), "{failure:?}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0, "nothing was refused");
    ground.restore().await;
    delivered_at_last(&sink, &all[10..]).await;
    there(ground, &all, false).await;
}
