//! The webhook sink, to a receiver in this process.

mod bounds;
mod delivered;
mod receiver;
#[cfg(feature = "webhook-tls")]
mod tls;

use std::collections::BTreeSet;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use sendoff_core::{
    Delivery, Event, EventBuilder, Failure, FailureClass, Lane, Origin, Sink, StoredEvent,
    Timestamp, Verdict,
};
use sendoff_sinks::envelope::{CloudEventsOptions, EnvelopeOptions};
use sendoff_sinks::link::LinkOptions;
use sendoff_sinks::webhook::{WebhookOptions, WebhookSink};
use sendoff_testkit::sinks::{
    Arrived, Expected, Refusal, Server, SinkGround, WrongCredentials, async_trait,
};
use sendoff_testkit::wait::within;

use receiver::{MOST, Receiver, Says};

sendoff_testkit::sink_suite!(Ground::new().await;
    poison refusals credentials revocation kill durable freeze);

const SECRET: [u8; 32] = [7; 32];

fn secret() -> String {
    format!("whsec_{}", BASE64_STANDARD.encode(SECRET))
}

struct Ground(Receiver);

impl Ground {
    async fn new() -> Self {
        Self(Receiver::start(&SECRET).await)
    }

    /// To it, which is on this host.
    fn options(&self) -> WebhookOptions {
        to(self.0.url())
    }
}

fn to(url: String) -> WebhookOptions {
    WebhookOptions {
        allow_addresses: vec!["127.0.0.1".to_owned()],
        request_within: Duration::from_secs(4),
        link: LinkOptions { deliver_within: Duration::from_secs(20), ..LinkOptions::default() },
        ..WebhookOptions::new(url, secret())
    }
}

/// What is the same for every event of a batch; others depend on what was taken in between.
const REFUSALS: [(Refusal, Says); 4] = [
    (Refusal { name: "503", expected: Expected::Unavailable }, Says(503, Some("1"))),
    (Refusal { name: "429", expected: Expected::Unavailable }, Says(429, None)),
    (Refusal { name: "404", expected: Expected::Unavailable }, Says(404, None)),
    (Refusal { name: "410", expected: Expected::Unavailable }, Says(410, None)),
];

#[async_trait]
impl SinkGround for Ground {
    type Sink = WebhookSink;

    async fn sink(&self) -> WebhookSink {
        WebhookSink::start(self.options()).await.unwrap()
    }

    async fn close(&self, sink: &WebhookSink) -> bool {
        sink.close().await
    }

    async fn arrived(&self) -> Vec<Arrived> {
        self.0.state.arrived.lock().unwrap().clone()
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(20)
    }

    async fn poison(&self, event: &Event) -> Event {
        let mut stored = AsRef::<StoredEvent>::as_ref(event).clone();
        stored.payload = vec![b'x'; MOST + 1].into();
        Event::restore(stored).unwrap()
    }

    fn refusals(&self) -> Vec<Refusal> {
        REFUSALS.map(|(refusal, _)| refusal).to_vec()
    }

    async fn refuse(&self, refusal: &Refusal) {
        let (_, says) = REFUSALS.iter().find(|(known, _)| known.name == refusal.name).unwrap();
        *self.0.state.says.lock().unwrap() = Some(*says);
    }

    async fn allow(&self) {
        *self.0.state.says.lock().unwrap() = None;
    }

    fn server(&self) -> &dyn Server {
        &self.0
    }

    /// No receiver is asked at the start; what can be told of a secret by itself is.
    async fn wrong_credentials(&self) -> WrongCredentials {
        let secret = BASE64_STANDARD.encode([3; 23]);
        let secrets = vec![format!("whsec_{secret}").into()];
        let started = WebhookSink::start(WebhookOptions { secrets, ..self.options() }).await;
        let error = started.err().map(|error| sendoff_core::report(&error));
        WrongCredentials { error, path: "webhook.secrets[0]", secret }
    }

    async fn revoke(&self) {
        *self.0.state.secret.lock().unwrap() = vec![1; 32];
    }

    async fn restore(&self) {
        *self.0.state.secret.lock().unwrap() = SECRET.to_vec();
    }
}

fn delivery(event: EventBuilder) -> Delivery {
    let event = event.json(&1).build().unwrap();
    Delivery { event, created_at: Timestamp::now(), attempt: 1, origin: Origin::Row(Lane::Cold) }
}

async fn one(sink: &WebhookSink, event: EventBuilder) -> Verdict {
    sink.deliver(&[delivery(event)]).await.remove(0)
}

fn class(verdict: &Verdict) -> Option<FailureClass> {
    verdict.as_ref().err().map(sendoff_core::Failure::class)
}

/// Holds fault 40: whoever has either secret can check a request, and an old request can be told by its time.
#[tokio::test]
async fn while_secrets_change_the_receiver_may_have_either() {
    let ground = Ground::new().await;
    let new = format!("whsec_{}", BASE64_STANDARD.encode([9; 32]));
    let key = format!("whsk_{}", BASE64_STANDARD.encode([5; 32]));
    let secrets = vec![new.into(), secret().into(), key.into()];
    let sink = WebhookSink::start(WebhookOptions { secrets, ..ground.options() }).await.unwrap();
    one(&sink, Event::builder("e")).await.unwrap();
    *ground.0.state.secret.lock().unwrap() = vec![9; 32];
    one(&sink, Event::builder("e")).await.unwrap();
    let heads = ground.0.state.heads.lock().unwrap();
    let signature = receiver::text(&heads[0], "webhook-signature").unwrap();
    assert_eq!(
        signature.split(' ').map(|one| one.split(',').next().unwrap()).collect::<Vec<_>>(),
        ["v1", "v1", "v1a"]
    );
}

/// Holds fault 40: an old request can be told by its time, which is the attempt's; the id stays.
#[tokio::test]
async fn each_attempt_is_signed_with_its_own_time() {
    let ground = Ground::new().await;
    let sink = ground.sink().await;
    *ground.0.state.says.lock().unwrap() = Some(Says(500, None));
    let event = [delivery(Event::builder("e"))];
    let told = |name| {
        let heads = ground.0.state.heads.lock().unwrap();
        heads.iter().map(|head| receiver::text(head, name).unwrap()).collect::<BTreeSet<_>>()
    };
    within(Duration::from_secs(60), "the next second", async || {
        assert!(sink.deliver(&event).await[0].is_err());
        told("webhook-timestamp").len() == 2
    })
    .await;
    assert_eq!((told("webhook-signature").len(), told("webhook-id").len()), (2, 1));
}

#[tokio::test]
async fn an_event_cannot_say_what_the_sink_says() {
    let ground = Ground::new().await;
    let headers = [("authorization".to_owned(), "Bearer t".into())].into();
    let sink = WebhookSink::start(WebhookOptions { headers, ..ground.options() }).await.unwrap();
    let event = Event::builder("e").header("Webhook-Id", "other").header("authorization", "mine");
    one(&sink, event.header("Idempotency-Key", "other").header("host", "other")).await.unwrap();
    let head = ground.0.state.heads.lock().unwrap()[0].clone();
    let text = |name| receiver::text(&head, name);
    assert_eq!(text("webhook-id"), text("sendoff-id"));
    assert_eq!(text("idempotency-key"), text("sendoff-id"));
    assert_eq!(text("authorization").as_deref(), Some("Bearer t"));
    assert_eq!(text("host"), Some(ground.0.address.to_string()));
}

fn is_unavailable(failure: &Failure) -> bool {
    matches!(failure.class(), FailureClass::Unavailable { .. })
}

/// Holds fault 7: a receiver that takes nothing may be in trouble, whatever it answers; one that takes others is there.
#[tokio::test]
async fn an_answer_that_may_be_the_events_fault_counts_where_others_were_taken() {
    let ground = Ground::new().await;
    let sink = ground.sink().await;
    let says = |says| *ground.0.state.says.lock().unwrap() = says;
    for (answer, counts) in [
        (Says(500, None), FailureClass::Retry),
        (Says(501, None), FailureClass::Retry),
        (Says(408, Some("2")), FailureClass::RetryAfter { delay: Duration::from_secs(2) }),
    ] {
        says(None);
        one(&sink, Event::builder("e")).await.unwrap();
        says(Some(answer));
        assert_eq!(class(&one(&sink, Event::builder("e")).await), Some(counts), "{answer:?}");
        for _ in 0..20 {
            let failure = one(&sink, Event::builder("e")).await.unwrap_err();
            assert!(is_unavailable(&failure), "{answer:?}: {failure:?}");
        }
    }
    // Nothing was ever taken.
    let sink = ground.sink().await;
    assert!(is_unavailable(&one(&sink, Event::builder("e")).await.unwrap_err()));
}

/// An ingress knows of no path for a while, as in a deploy: no event is dead for that, at its first attempt or later.
#[tokio::test]
async fn at_one_host_a_path_that_is_not_there_ends_no_event() {
    let ground = Ground::new().await;
    let sink = WebhookSink::start(to(format!("{}/{{type}}", ground.0.url()))).await.unwrap();
    let says = |says| *ground.0.state.says.lock().unwrap() = says;
    for status in [404, 405, 410, 301, 308] {
        one(&sink, Event::builder("e")).await.unwrap();
        says(Some(Says(status, None)));
        let verdict = one(&sink, Event::builder("e")).await;
        assert_eq!(class(&verdict), Some(FailureClass::Retry), "{status}: {verdict:?}");
        for _ in 0..20 {
            let failure = one(&sink, Event::builder("e")).await.unwrap_err();
            assert!(is_unavailable(&failure), "{status}: {failure:?}");
        }
        says(None);
    }
    says(Some(Says(401, None)));
    assert!(is_unavailable(&one(&sink, Event::builder("e")).await.unwrap_err()));
    says(Some(Says(422, None)));
    assert_eq!(class(&one(&sink, Event::builder("e")).await), Some(FailureClass::Dead));
}

/// Holds fault 9: other events are no way around a wait that the receiver asked for.
#[tokio::test]
async fn a_receiver_that_asked_to_be_left_alone_gets_nothing_meanwhile() {
    let ground = Ground::new().await;
    let sink = ground.sink().await;
    let requests = || ground.0.state.heads.lock().unwrap().len();
    *ground.0.state.says.lock().unwrap() = Some(Says(429, Some("3600")));
    one(&sink, Event::builder("e")).await.unwrap_err();
    *ground.0.state.says.lock().unwrap() = None;
    let batch: Vec<_> = (0..5).map(|_| delivery(Event::builder("e"))).collect();
    for verdict in sink.deliver(&batch).await {
        let Some(FailureClass::Unavailable { delay }) = class(&verdict) else {
            panic!("{verdict:?}")
        };
        let asked = Duration::from_secs(3_600);
        assert!(delay <= asked && delay > asked / 2, "{delay:?}");
    }
    assert_eq!(requests(), 1);
    // Where events have paths of their own, one path speaks for itself.
    let sink = WebhookSink::start(to(format!("{}/{{type}}", ground.0.url()))).await.unwrap();
    *ground.0.state.says.lock().unwrap() = Some(Says(429, Some("3600")));
    one(&sink, Event::builder("e")).await.unwrap_err();
    *ground.0.state.says.lock().unwrap() = None;
    one(&sink, Event::builder("other")).await.unwrap();
}

/// Whoever finds an event wrong is there: that disables nothing.
#[tokio::test]
async fn events_that_are_found_wrong_do_not_disable_the_sink() {
    let ground = Ground::new().await;
    let options = WebhookOptions { disable_after: Duration::from_secs(1), ..ground.options() };
    let sink = WebhookSink::start(options).await.unwrap();
    *ground.0.state.says.lock().unwrap() = Some(Says(422, None));
    let begun = std::time::Instant::now();
    while begun.elapsed() < Duration::from_millis(1_500) {
        let verdict = one(&sink, Event::builder("e")).await;
        assert_eq!(class(&verdict), Some(FailureClass::Dead), "{verdict:?}");
    }
    *ground.0.state.says.lock().unwrap() = Some(Says(500, None));
    let failure = one(&sink, Event::builder("e")).await.unwrap_err();
    assert!(!failure.disables(), "{failure:?}");
}

#[tokio::test]
async fn a_receiver_that_is_gone_disables_the_sink() {
    let ground = Ground::new().await;
    *ground.0.state.says.lock().unwrap() = Some(Says(410, None));
    let sink = ground.sink().await;
    let failure = one(&sink, Event::builder("e")).await.unwrap_err();
    assert!(failure.disables(), "{failure:?}");
    // What took nothing for too long is, too.
    *ground.0.state.says.lock().unwrap() = Some(Says(500, None));
    let options = WebhookOptions { disable_after: Duration::from_secs(1), ..ground.options() };
    let sink = WebhookSink::start(options).await.unwrap();
    let begun = std::time::Instant::now();
    let failure = loop {
        let failure = one(&sink, Event::builder("e")).await.unwrap_err();
        match failure.disables() {
            true => break failure,
            false => assert!(is_unavailable(&failure), "{failure:?}"),
        }
        assert!(begun.elapsed() < Duration::from_secs(60));
    };
    assert!(failure.report().contains("webhook.disable_after"), "{failure}");
}

/// Holds fault 34: whoever writes events does not choose whom this process talks to.
#[tokio::test]
async fn a_host_comes_from_an_event_only_where_that_is_allowed() {
    let ground = Ground::new().await;
    let port = ground.0.address.port();
    for url in [
        "http://{header.host}/in",
        "http://127.0.0.1{header.host}/",
        "http://a.{tenant}",
        "{header.host}",
    ] {
        let error = WebhookSink::start(to(url.to_owned())).await.unwrap_err();
        assert_eq!(error.path(), "webhook.url", "{url}");
        assert!(error.to_string().contains("webhook.host_from_event"), "{error}");
    }
    let url = format!("http://{{header.host}}:{port}/in/{{type}}");
    let options = WebhookOptions { host_from_event: true, ..to(url) };
    let sink = WebhookSink::start(options).await.unwrap();
    let sent = |host: &'static str| one(&sink, Event::builder("e").header("host", host));
    sent("127.0.0.1").await.unwrap();
    for host in [
        "127.0.0.2",
        "169.254.169.254",
        "2130706433",
        "0x7f.1",
        "127.1",
        "a@127.0.0.1",
        "127.0.0.1/x?",
        "[::1]",
        "",
    ] {
        let verdict = sent(host).await;
        assert_eq!(class(&verdict), Some(FailureClass::Dead), "{host}: {verdict:?}");
        let told = verdict.unwrap_err().report();
        assert!(host.is_empty() || !told.contains(host), "{told}");
    }
    assert_eq!(ground.0.state.heads.lock().unwrap().len(), 1);
    // A name that leads there may lead elsewhere tomorrow.
    let only = WebhookOptions {
        allow_addresses: Vec::new(),
        host_from_event: true,
        ..to(format!("http://{{header.host}}:{port}/"))
    };
    let sink = WebhookSink::start(only).await.unwrap();
    let verdict = one(&sink, Event::builder("e").header("host", "localhost")).await;
    assert_eq!(class(&verdict), Some(FailureClass::Retry), "{verdict:?}");
    assert!(verdict.unwrap_err().report().contains("webhook.allow_addresses"));
}

/// As an object, the event is whole by itself, and signed like any other.
#[tokio::test]
async fn a_structured_cloud_event_arrives_as_one_object() {
    let ground = Ground::new().await;
    let envelope = EnvelopeOptions::CloudEvents(CloudEventsOptions::structured("/shop"));
    let sink = WebhookSink::start(WebhookOptions { envelope, ..ground.options() }).await.unwrap();
    let json = r#"{ "total": 990.00, "a": 1, "a": 2 }"#;
    let event = Event::builder("order.placed").aggregate("order", "4711").tenant_id("acme");
    one(&sink, event.header("region", "eu")).await.unwrap();
    let event = Event::builder("order.placed").json_text(json).build().unwrap();
    let id = event.id();
    let origin = Origin::Row(Lane::Cold);
    let odd = Delivery { event, created_at: Timestamp::now(), attempt: 1, origin };
    let bytes = Event::builder("b").bytes(vec![0, 255]).build().unwrap();
    let bytes = Delivery { event: bytes, ..odd.clone() };
    for verdict in sink.deliver(&[odd]).await.into_iter().chain(sink.deliver(&[bytes]).await) {
        verdict.unwrap();
    }
    let (objects, heads) =
        (ground.0.state.objects.lock().unwrap(), ground.0.state.heads.lock().unwrap());
    let read = |at: usize| serde_json::from_slice::<serde_json::Value>(&objects[at]).unwrap();
    let first = read(0);
    for (name, value) in [
        ("specversion", "1.0"),
        ("source", "/shop"),
        ("type", "order.placed"),
        ("subject", "4711"),
        ("aggregatetype", "order"),
        ("tenant", "acme"),
        ("region", "eu"),
        ("datacontenttype", "application/json"),
    ] {
        assert_eq!(first[name], value, "{name}");
    }
    assert_eq!(first["id"].as_str(), receiver::text(&heads[0], "webhook-id").as_deref());
    assert_eq!(first["data"], 1);
    assert_eq!(receiver::text(&heads[0], "ce-id"), None, "what is in the object is nowhere else");
    assert_eq!(read(1)["id"], id.to_string());
    assert!(std::str::from_utf8(&objects[1]).unwrap().ends_with(&format!("\"data\":{json}}}")));
    assert_eq!((&read(2)["data_base64"], &read(2)["data"]), (&"AP8=".into(), &().into()));
}

#[tokio::test]
async fn a_part_of_a_path_stays_a_part() {
    let ground = Ground::new().await;
    let sink = WebhookSink::start(to(format!("{}/{{tenant}}/x", ground.0.url()))).await.unwrap();
    one(&sink, Event::builder("e").tenant_id("a/b?c#d")).await.unwrap();
    for dots in ["..", "."] {
        let verdict = one(&sink, Event::builder("e").tenant_id(dots)).await;
        assert_eq!(class(&verdict), Some(FailureClass::Dead), "{verdict:?}");
    }
}

#[tokio::test]
async fn options_that_are_wrong_are_named() {
    let url = || "http://127.0.0.1:9/in".to_owned();
    let refused = async |options: WebhookOptions| {
        let error = WebhookSink::start(options).await.unwrap_err();
        let told = sendoff_core::report(&error);
        assert!(!told.contains("canary"), "{told}");
        error.path().to_owned()
    };
    for wrong in [
        "",
        "hooks.example",
        "ftp://a/",
        "http://u:canary@a/",
        "http://2130706433/",
        "http://a/#x",
        "http://10.0.0.1/",
        "http://localhost:9/",
        "http://a/../b",
    ] {
        let options = WebhookOptions { allow_addresses: Vec::new(), ..to(wrong.to_owned()) };
        assert_eq!(refused(options).await, "webhook.url", "{wrong}");
    }
    let secrets = Vec::new();
    assert_eq!(refused(WebhookOptions { secrets, ..to(url()) }).await, "webhook.secrets");
    let secrets = vec![secret().into(); 5];
    assert_eq!(refused(WebhookOptions { secrets, ..to(url()) }).await, "webhook.secrets");
    let secrets = vec![secret().into(), "canary".into()];
    assert_eq!(refused(WebhookOptions { secrets, ..to(url()) }).await, "webhook.secrets[1]");
    for name in ["host", "webhook-id", "a b"] {
        let headers = [(name.to_owned(), "canary".into())].into();
        let options = WebhookOptions { headers, ..to(url()) };
        assert_eq!(refused(options).await, format!("webhook.headers.{name}"));
    }
    let headers = [("x".to_owned(), "canary\n".into())].into();
    assert_eq!(refused(WebhookOptions { headers, ..to(url()) }).await, "webhook.headers.x");
    let allow_addresses = vec!["127.0.0.1".to_owned(), "10.0.0.1/8".to_owned()];
    let options = WebhookOptions { allow_addresses, ..to(url()) };
    assert_eq!(refused(options).await, "webhook.allow_addresses[1]");
    let request_within = Duration::from_secs(21);
    let options = WebhookOptions { request_within, ..to(url()) };
    assert_eq!(refused(options).await, "webhook.request_within");
    assert_eq!(
        refused(WebhookOptions { batch_events: 0, ..to(url()) }).await,
        "webhook.batch_events"
    );
}

#[test]
fn options_are_read_from_files() {
    let written = serde_json::json!({
        "url": "https://hooks.example/in",
        "secrets": [secret()],
        "request_within": "5s",
        "allow_addresses": ["10.0.0.0/8"],
    });
    let options: WebhookOptions = serde_json::from_value(written).unwrap();
    let expected = WebhookOptions {
        request_within: Duration::from_secs(5),
        allow_addresses: vec!["10.0.0.0/8".to_owned()],
        ..WebhookOptions::new("https://hooks.example/in", secret())
    };
    assert_eq!(options, expected);
    assert!(!format!("{options:?}").contains(&secret()));
}
