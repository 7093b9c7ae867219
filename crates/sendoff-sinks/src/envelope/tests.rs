use std::sync::Arc;

use sendoff_core::journal::{Fact, Position, Recorded};
use sendoff_core::{Event, EventBuilder, Lane, Origin, Timestamp};
use serde_json::{Value, json};

use super::*;

const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn of(event: EventBuilder) -> Delivery {
    Delivery {
        event: event.build().unwrap(),
        created_at: Timestamp::now(),
        attempt: 1,
        origin: Origin::Row(Lane::Cold),
    }
}

fn order() -> EventBuilder {
    let id = "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap();
    let event = Event::builder("order.placed").id(id).aggregate("order", "47 11").tenant_id("acme");
    let event = event.ordering_key("k").occurred_at(Timestamp::from_micros(1_500_000));
    event.header("region", "eu").header("X-Trace", "1").json_text(r#"{ "total":990 }"#)
}

fn envelope(options: &EnvelopeOptions) -> Envelope {
    options.check("x.envelope").unwrap()
}

fn native() -> Envelope {
    envelope(&EnvelopeOptions::Native)
}

fn binary() -> Envelope {
    envelope(&EnvelopeOptions::CloudEvents(CloudEventsOptions::binary("/shop/{tenant|none}")))
}

fn structured() -> Envelope {
    envelope(&EnvelopeOptions::CloudEvents(CloudEventsOptions::structured("/shop")))
}

fn attributes(message: &Message<'_>) -> Vec<String> {
    message.attributes.iter().map(|(name, value)| format!("{name}: {value}")).collect()
}

#[test]
fn the_native_envelope_has_names_of_ours_and_the_payload_as_it_is() {
    let delivery = of(order());
    let message = native().wrap(&delivery, &Binding::KAFKA).unwrap();
    assert_eq!(
        attributes(&message),
        [
            "sendoff-id: 01890a5d-ac96-774b-bcce-b302099a8057",
            "sendoff-type: order.placed",
            "sendoff-aggregate-type: order",
            "sendoff-aggregate-id: 47 11",
            "sendoff-tenant: acme",
            "sendoff-key: k",
            "sendoff-occurred-at: 1970-01-01T00:00:01.500000Z",
            "content-type: application/json",
            "X-Trace: 1",
            "region: eu",
        ]
    );
    assert_eq!(message.body, delivery.payload());
    assert_eq!(message.body.as_ptr(), delivery.payload().as_ptr(), "not a copy");
}

/// What each binding of CloudEvents says about its names.
#[test]
fn binary_mode_is_named_as_each_wire_has_it() {
    let delivery = of(order());
    for (binding, id, subject, content_type) in [
        (Binding::HTTP, "ce-id", "47%2011", Some("content-type")),
        (Binding::KAFKA, "ce_id", "47 11", Some("content-type")),
        (Binding::NATS, "ce-id", "47 11", Some("ce-datacontenttype")),
        (Binding::AMQP, "cloudEvents_id", "47 11", None),
        (Binding::MQTT, "id", "47 11", None),
        (Binding::REDIS, "ce-id", "47 11", Some("content-type")),
    ] {
        let message = binary().wrap(&delivery, &binding).unwrap();
        let prefixed = |name: &str| format!("{}{name}", binding.cloud_events);
        assert_eq!(message.get(id), Some("01890a5d-ac96-774b-bcce-b302099a8057"));
        for (name, value) in [
            ("specversion", "1.0"),
            ("source", "/shop/acme"),
            ("type", "order.placed"),
            ("subject", subject),
            ("partitionkey", "k"),
            ("time", "1970-01-01T00:00:01.500000Z"),
            ("aggregatetype", "order"),
            ("tenant", "acme"),
        ] {
            assert_eq!(message.get(&prefixed(name)), Some(value), "{name} over {}", binding.wire);
        }
        let found = content_type.and_then(|name| message.get(name));
        assert_eq!(found, content_type.map(|_| "application/json"), "{}", binding.wire);
        assert_eq!(message.content_type, "application/json");
        assert_eq!(message.get(&format!("{}region", binding.own)), Some("eu"));
        assert_eq!(message.body, delivery.payload());
    }
}

#[test]
fn structured_mode_keeps_the_bytes_of_json_and_has_everything_else_in_base64() {
    let data = |event: EventBuilder| {
        let delivery = of(event);
        let message = structured().wrap(&delivery, &Binding::KAFKA).unwrap();
        assert_eq!(message.get("content-type"), Some("application/cloudevents+json"));
        let text = String::from_utf8(message.body.to_vec()).unwrap();
        serde_json::from_str::<serde::de::IgnoredAny>(&text).unwrap();
        text.split_once(r#""data"#).unwrap().1.to_owned()
    };
    let json = |text: &str| Event::builder("e").json_text(text);
    assert!(data(order()).ends_with(r#"":{ "total":990 }}"#));
    // Numbers and repeated names that a parser would lose.
    let odd = r#"{"a":1.00000000000000000001,"a":1e400,"b":"\u0000\ud800"}"#;
    assert!(data(json(odd)).ends_with(&format!("\":{odd}}}")));
    assert!(data(json("1\n")).ends_with(r#"_base64":"MQo="}"#), "blanks would be the object's");
    assert!(data(json("not json")).ends_with(r#"_base64":"bm90IGpzb24="}"#));
    assert!(data(json("")).ends_with(r#"_base64":""}"#));
    let bytes = |bytes: &'static [u8], of: &str| Event::builder("e").bytes(bytes).content_type(of);
    assert!(data(bytes(b"\"\xff\"", "application/json")).contains("_base64"));
    assert!(data(bytes(b"1", "text/plain")).ends_with(r#"_base64":"MQ=="}"#));
    for of in ["application/vnd.shop+json", "Application/JSON; charset=utf-8", "text/json"] {
        assert!(data(bytes(b"1", of)).ends_with("\":1}"), "{of}");
    }
}

#[test]
fn structured_mode_is_whole_by_itself() {
    let delivery =
        of(order().header("data", "no").header("time", "no").header("traceparent", PARENT));
    let message = structured().wrap(&delivery, &Binding::HTTP).unwrap();
    let object: Value = serde_json::from_slice(&message.body).unwrap();
    assert_eq!(
        object,
        json!({
            "specversion": "1.0", "source": "/shop", "id": "01890a5d-ac96-774b-bcce-b302099a8057",
            "type": "order.placed", "aggregatetype": "order", "subject": "47 11", "tenant": "acme",
            "partitionkey": "k", "time": "1970-01-01T00:00:01.500000Z", "traceparent": PARENT,
            "region": "eu", "datacontenttype": "application/json", "data": { "total": 990 },
        })
    );
    // The headers, all of them, are beside it as well.
    assert_eq!(message.get("X-Trace"), Some("1"));
    assert_eq!(message.get("traceparent"), Some(PARENT));
}

#[test]
fn a_line_has_no_line_break_and_the_same_bytes() {
    let delivery = of(order());
    let line = String::from_utf8(native().line(&delivery).unwrap()).unwrap();
    assert_eq!(
        line,
        concat!(
            r#"{"id":"01890a5d-ac96-774b-bcce-b302099a8057","type":"order.placed","aggregate_type":"order","#,
            r#""aggregate_id":"47 11","tenant":"acme","key":"k","occurred_at":"1970-01-01T00:00:01.500000Z","#,
            r#""headers":{"X-Trace":"1","region":"eu"},"content_type":"application/json","data":{ "total":990 }}"#
        )
    );
    let broken = of(Event::builder("e").json_text("{\n}"));
    for envelope in [native(), structured()] {
        let line = envelope.line(&broken).unwrap();
        assert!(!line.contains(&b'\n') && line.ends_with(br#""data_base64":"ewp9"}"#));
    }
}

#[test]
fn of_a_fact_position_tags_and_causes_travel() {
    let event = Event::builder("e").bytes("").build().unwrap();
    let (correlation, causation) = (event.id(), event.id());
    let fact = Fact::builder(event).tag("wallet", "w,1").correlation_id(correlation);
    let fact = fact.causation_id(causation).build().unwrap();
    let position = Position::new(7).unwrap();
    let recorded = Recorded { position, recorded_at: Timestamp::now(), fact };
    let delivery = Delivery::of_fact(&Arc::new(recorded), 1);
    let message = native().wrap(&delivery, &Binding::NATS).unwrap();
    assert_eq!(message.get("sendoff-position"), Some("7"));
    assert_eq!(message.get("sendoff-tags"), Some(r#"["wallet=w,1"]"#));
    assert_eq!(message.get("sendoff-correlation-id"), Some(&*correlation.to_string()));
    let message = binary().wrap(&delivery, &Binding::NATS).unwrap();
    assert_eq!(message.get("ce-causationid"), Some(&*causation.to_string()));
    let line: Value = serde_json::from_slice(&native().line(&delivery).unwrap()).unwrap();
    assert_eq!((&line["position"], &line["tags"]), (&json!(7), &json!(["wallet=w,1"])));
}

/// Nobody can say that an event is another.
#[test]
fn a_header_never_stands_for_a_name_of_ours() {
    let event = order().header("Sendoff-Id", "no").header("ce-id", "no").header("CE_ID", "no");
    let event = event.header("Content-Type", "no").header("id", "no").header("Host", "no");
    let delivery = of(event.header("sendoff-new", "no").header("cloudevents_x", "no"));
    for binding in [Binding::HTTP, Binding::KAFKA, Binding::NATS, Binding::AMQP, Binding::MQTT] {
        for envelope in [native(), binary(), structured()] {
            let message = envelope.wrap(&delivery, &binding).unwrap();
            let mut names: Vec<_> =
                message.attributes.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
            names.sort();
            let all = names.len();
            names.dedup();
            assert_eq!(names.len(), all, "{} twice {names:?}", binding.wire);
            let ours = message.attributes.iter().filter(|(name, _)| {
                let name = name.to_ascii_lowercase();
                name.starts_with("sendoff-")
                    || name.starts_with(&binding.cloud_events.to_lowercase())
            });
            if !binding.cloud_events.is_empty() {
                assert!(ours.clone().all(|(_, value)| value != "no"), "{}", binding.wire);
            }
        }
    }
    let http = native().wrap(&delivery, &Binding::HTTP).unwrap();
    assert_eq!((http.get("Host"), http.get("content-type")), (None, Some("application/json")));
}

/// Where attributes have no prefix, the names of those that an event lacks are ours too.
#[test]
fn a_header_never_stands_for_an_attribute_that_the_event_lacks() {
    let mut event = Event::builder("e").bytes("");
    for name in ["subject", "Tenant", "partitionkey", "position", "dataschema", "datacontenttype"] {
        event = event.header(name, "no");
    }
    let delivery = of(event.header("region", "eu"));
    let message = binary().wrap(&delivery, &Binding::MQTT).unwrap();
    assert!(message.attributes.iter().all(|(_, value)| value != "no"), "{message:?}");
    assert_eq!(message.get("region"), Some("eu"));
    // Beside an object, and on other wires, they are names like any other.
    for (envelope, binding) in [(structured(), Binding::MQTT), (binary(), Binding::KAFKA)] {
        assert_eq!(envelope.wrap(&delivery, &binding).unwrap().get("subject"), Some("no"));
    }
}

#[test]
fn a_trace_is_passed_on_where_it_is_well_formed() {
    let wrap = |parent: &str, state: &str| {
        let delivery = of(order().header("traceparent", parent).header("tracestate", state));
        let find = |envelope: Envelope, name: &str| {
            envelope.wrap(&delivery, &Binding::KAFKA).unwrap().get(name).map(str::to_owned)
        };
        (
            find(native(), "traceparent"),
            find(native(), "tracestate"),
            find(binary(), "ce_traceparent"),
        )
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(wrap(PARENT, "a=1"), (some(PARENT), some("a=1"), some(PARENT)));
    assert_eq!(wrap(PARENT, "A=1"), (some(PARENT), None, some(PARENT)));
    assert_eq!(wrap("00-garbage", "a=1"), (None, None, None));
}

#[test]
fn what_a_wire_cannot_carry_is_named_without_its_value() {
    let refused = |event: EventBuilder, binding: &Binding| {
        native().wrap(&of(event), binding).unwrap_err().to_string()
    };
    let error = refused(order().header("with blank", "canary"), &Binding::HTTP);
    assert!(error.contains("with blank") && !error.contains("canary"), "{error}");
    let error = refused(order().header("a:b", "canary"), &Binding::NATS);
    assert!(error.contains("a:b") && error.contains("NATS"), "{error}");
    let error = refused(order().header("bell", "canary\u{7}"), &Binding::MQTT);
    assert!(error.contains("bell") && !error.contains("canary"), "{error}");
    let long = "é".repeat(128);
    assert!(refused(order().header(&*long, "1"), &Binding::AMQP).contains("255"));
    assert!(native().wrap(&of(order().header(&*long, "\u{7}")), &Binding::KAFKA).is_ok());
}

#[test]
fn a_source_is_checked_at_start_and_escaped_for_each_event() {
    let options = EnvelopeOptions::CloudEvents(CloudEventsOptions::binary("/a b"));
    let error = options.check("nats.envelope").unwrap_err();
    assert_eq!(error.path(), "nats.envelope.cloud_events.source");
    let delivery = of(Event::builder("e").tenant_id("a b{").bytes(""));
    let message = binary().wrap(&delivery, &Binding::KAFKA).unwrap();
    assert_eq!(message.get("ce_source"), Some("/shop/a%20b%7B"));
}

#[test]
fn options_are_read_from_files() {
    let read = |value: Value| serde_json::from_value::<EnvelopeOptions>(value).unwrap();
    assert_eq!(read(json!("native")), EnvelopeOptions::Native);
    let options = CloudEventsOptions::structured("/shop");
    let written = json!({ "cloud_events": { "mode": "structured", "source": "/shop" } });
    assert_eq!(read(written), EnvelopeOptions::CloudEvents(options));
}

/// Its parameters have blanks before them.
#[test]
fn a_media_type_is_never_percent_encoded() {
    let delivery = of(order().content_type("text/plain; charset=\"utf-8\""));
    for envelope in [native(), binary()] {
        let message = envelope.wrap(&delivery, &Binding::HTTP).unwrap();
        assert_eq!(message.get("content-type"), Some("text/plain; charset=\"utf-8\""));
    }
}
