//! The guide: a page for each thing that one wants to know. [`examples`] are programs to run and to copy from.
//!
//! | | |
//! |---|---|
//! | [`writing_events`] | what an event is; in a transaction of ours, in one of yours, with the driver you have |
//! | [`handling_events`] | handlers, what may fail, retries, circuits, interceptors, traces |
//! | [`order`] | events with an ordering key |
//! | [`inbox`] | effects that are made exactly once |
//! | [`dead_letters`] | events and keys that wait for a person |
//! | [`relaying`] | events in batches, and the topic worker |
//! | [`replay`] | delivered events once more; waiting until events are delivered |
//! | [`sinks`] | Kafka, NATS, RabbitMQ, Redis, MQTT, webhooks, files |
//! | [`journal`] | an event log with appends under conditions (DCB), and publishers in exact order |
//! | [`admin`] | dead letters, keys, pauses and publishers over HTTP |
//! | [`stores`] | a store of your own |
//! | [`configuration`] | every option |
//! | [`operating`] | the program, metrics, the log, retention, what goes wrong at night |
//! | [`performance`] | what was measured |
//! | [`testing`] | tests of your application, and of a store of yours |
//! | [`other_languages`] | writing from SQL, Python and others |
//!
//! In the repository these pages are in `docs/guide`; the crate has a copy of them (`cargo xtask copies`). As modules they
//! are here for the documentation alone, and their programs are compiled by its tests.

/// A module of each page.
macro_rules! pages {
    ($($name:ident $file:literal;)*) => {$(
        // First, so that links between pages lead to these modules: of two definitions of a link the first is taken,
        // and those that a page ends with are for readers of the repository.
        #[doc = include_str!("links.md")]
        // Their programs need every store and every sink.
        #[cfg_attr(
            any(not(doctest), feature = "full"),
            doc = include_str!(concat!("../../guide/", $file))
        )]
        #[allow(
            rustdoc::redundant_explicit_links,
            reason = "in the repository a link must say where it leads"
        )]
        pub mod $name {}
    )*};
}

pages! {
    writing_events "writing-events.md";
    handling_events "handling-events.md";
    order "order.md";
    inbox "inbox.md";
    dead_letters "dead-letters.md";
    relaying "relaying.md";
    replay "replay.md";
    sinks "sinks.md";
    journal "journal.md";
    admin "admin.md";
    stores "stores.md";
    configuration "configuration.md";
    operating "operating.md";
    performance "performance.md";
    testing "testing.md";
    other_languages "other-languages.md";
}

#[cfg(not(doctest))]
pub mod examples;
