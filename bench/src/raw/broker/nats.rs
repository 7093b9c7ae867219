//! JetStream by async-nats.

use std::time::Duration;

use anyhow::Result;
use async_nats::jetstream::{self, Context, message::PublishMessage};
use async_nats::{ConnectOptions, HeaderMap};
use async_trait::async_trait;
use futures_util::future::try_join_all;

use super::{ByHand, Outgoing};

pub(crate) const STREAM: &str = "BENCH";
pub(crate) const SUBJECT: &str = "bench.order";

/// A stream, and a connection.
pub(crate) struct Nats {
    context: Context,
}

impl Nats {
    /// Makes the stream.
    pub(crate) async fn connect(server: &str, user: &str, password: &str) -> Result<Self> {
        let options = ConnectOptions::with_user_and_password(user.into(), password.into());
        let context = jetstream::context::ContextBuilder::new()
            .max_ack_inflight(100_000)
            // A server that syncs each message has some hundred of them in a second.
            .ack_timeout(Duration::from_secs(120))
            .build(options.connect(server).await?);
        let subjects = vec!["bench.>".to_owned()];
        let config =
            jetstream::stream::Config { name: STREAM.into(), subjects, ..Default::default() };
        context.create_stream(config).await?;
        Ok(Self { context })
    }
}

#[async_trait]
impl ByHand for Nats {
    async fn publish(&self, batch: &[Outgoing]) -> Result<()> {
        let mut acks = Vec::with_capacity(batch.len());
        for Outgoing { id, attributes, body } in batch {
            let mut headers = HeaderMap::new();
            for (name, value) in attributes {
                headers.insert(&**name, &**value);
            }
            let message = PublishMessage::build().payload(body.clone().into()).headers(headers);
            let message = message.message_id(id).expected_stream(STREAM);
            acks.push(self.context.send_publish(SUBJECT, message).await?.into_future());
        }
        try_join_all(acks).await?;
        Ok(())
    }

    async fn clear(&self) -> Result<()> {
        self.context.get_stream(STREAM).await?.purge().await?;
        Ok(())
    }
}
