//! What arrives.

use std::collections::BTreeSet;
use std::time::Duration;

use sendoff_core::{Delivery, EventId, Sink};
use tokio::time::timeout;

use super::{EVENT, batch, builder, deliver, delivered, delivered_at_last, delivery, event, there};
use crate::sinks::SinkGround;

/// Nothing is asked of the target.
pub async fn an_empty_batch_is_answered_with_nothing<G: SinkGround>(ground: &G) {
    let sink = ground.sink().await;
    assert!(sink.deliver(&[]).await.is_empty());
    assert!(ground.arrived().await.is_empty());
}

/// One, and then many.
pub async fn what_is_delivered_arrives<G: SinkGround>(ground: &G) {
    let sink = ground.sink().await;
    assert!(sink.is_healthy());
    let all = batch(101);
    delivered(&sink, &all[..1]).await;
    delivered(&sink, &all[1..]).await;
    there(ground, &all, true).await;
}

/// Whatever bytes they are, up to the largest that the target takes.
pub async fn payloads_arrive_to_the_byte<G: SinkGround>(ground: &G) {
    let sink = ground.sink().await;
    let every_byte: Vec<u8> = (0..=255).cycle().take(4_096).collect();
    let payloads: [(&str, Vec<u8>); 11] = [
        ("application/octet-stream", Vec::new()),
        ("application/json", Vec::new()),
        ("application/octet-stream", vec![0]),
        ("text/plain", b"\xff\xfe\xc3\x28".to_vec()),
        ("application/octet-stream", every_byte),
        ("application/json", br#"{ "b":1,"a":1.0,"a":"\u0000\ud800" }"#.to_vec()),
        ("application/json", b"[\r\n\t1e400,\n]".to_vec()),
        ("application/json", b" \n1 \n".to_vec()),
        ("application/json", b"\xef\xbb\xbf{}".to_vec()),
        ("text/plain", "line\nbreak\r\n\u{2028}\u{1f600}".into()),
        ("application/octet-stream", vec![b'x'; ground.payload_bytes()]),
    ];
    let all: Vec<Delivery> = payloads
        .into_iter()
        .map(|(of, bytes)| delivery(&builder().bytes(bytes).content_type(of).build().unwrap()))
        .collect();
    delivered(&sink, &all).await;
    there(ground, &all, true).await;
    for arrived in ground.arrived().await {
        let written = all.iter().find(|delivery| delivery.id() == arrived.id).unwrap();
        assert_eq!(arrived.content_type.as_deref(), Some(written.content_type()));
    }
}

/// And those of each event are its own.
pub async fn headers_key_and_type_arrive<G: SinkGround>(ground: &G) {
    let sink = ground.sink().await;
    let plain = sendoff_core::Event::builder("plain").bytes("1").build().unwrap();
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let value = "v".repeat(1_000);
    let rich = builder().header("X-Shop", "Müller, \"1\"; 100%").header("long", &*value);
    let rich = rich.header("traceparent", parent).ordering_key("order 4711/é").bytes("2");
    let rich = rich.build().unwrap();
    delivered(&sink, &[delivery(&plain), delivery(&rich)]).await;
    let arrived = ground.arrived().await;
    assert_eq!(arrived.len(), 2);
    let of = |id: EventId| arrived.iter().find(|arrived| arrived.id == id).unwrap();
    let (plain, arrived_rich) = (of(plain.id()), of(rich.id()));
    assert_eq!((&*plain.event_type, &plain.key), ("plain", &None));
    assert_eq!(plain.headers.get("region"), None);
    assert_eq!(arrived_rich.event_type, EVENT);
    assert_eq!(arrived_rich.key.as_deref(), Some("order 4711/é"));
    for (name, value) in rich.headers().iter() {
        let found = arrived_rich.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        assert_eq!(found.map(|(_, value)| &**value), Some(value), "{name}");
    }
}

/// Within a key.
pub async fn a_batch_arrives_in_order<G: SinkGround>(ground: &G) {
    let sink = ground.sink().await;
    let all = batch(500);
    for part in all.chunks(100) {
        delivered(&sink, part).await;
    }
    let arrived: Vec<_> = ground.arrived().await.into_iter().map(|arrived| arrived.id).collect();
    let written: Vec<_> = all.iter().map(|delivery| delivery.id()).collect();
    assert!(arrived == written, "not in the order in which they were delivered");
}

/// More at once than a sink has under way, of one sink and of two.
pub async fn batches_side_by_side_arrive_whole<G: SinkGround>(ground: &G) {
    let sink = ground.sink().await;
    let all = batch(2_000);
    let batches: Vec<_> = all
        .chunks(50)
        .map(|part| {
            let (sink, part) = (sink.clone(), part.to_vec());
            tokio::spawn(async move { delivered(&sink, &part).await })
        })
        .collect();
    for batch in batches {
        batch.await.unwrap();
    }
    there(ground, &all, true).await;
}

/// The target has it when the sink says done, not a moment later.
pub async fn what_is_done_is_there_already<G: SinkGround>(ground: &G) {
    let sink = ground.sink().await;
    let mut ids = BTreeSet::new();
    for number in 0..20 {
        let event = event(number);
        delivered(&sink, &[delivery(&event)]).await;
        ids.insert(event.id());
        let arrived = ground.arrived().await.into_iter().map(|arrived| arrived.id);
        assert!(arrived.collect::<BTreeSet<_>>() == ids, "said done before it was there");
    }
}

/// Fault 21: a run that takes too long is dropped wherever it is.
pub async fn a_delivery_that_is_dropped_does_no_harm<G: SinkGround>(ground: &G) {
    let sink = ground.sink().await;
    let all = batch(40);
    for (number, delivery) in all.iter().enumerate() {
        let time = Duration::from_micros(1 << (number % 15));
        let _ = timeout(time, deliver(&sink, std::slice::from_ref(delivery))).await;
    }
    delivered_at_last(&sink, &all).await;
    there(ground, &all, false).await;
}
