//! Redis Streams by redis.

use anyhow::Result;
use async_trait::async_trait;
use redis::aio::MultiplexedConnection;

use super::{ByHand, Outgoing};

pub(crate) const STREAM: &str = "bench";

/// A connection.
pub(crate) struct Redis {
    conn: MultiplexedConnection,
}

impl Redis {
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let client = redis::Client::open(url)?;
        let conn = client.get_multiplexed_async_connection_with_config(&config).await?;
        Ok(Self { conn })
    }
}

#[async_trait]
impl ByHand for Redis {
    async fn publish(&self, batch: &[Outgoing]) -> Result<()> {
        let mut pipe = redis::pipe();
        for Outgoing { attributes, body, .. } in batch {
            let add = pipe.cmd("XADD").arg(STREAM).arg("*");
            for (name, value) in attributes {
                add.arg(name).arg(value);
            }
            add.arg("data").arg(&body[..]).ignore();
        }
        let () = pipe.query_async(&mut self.conn.clone()).await?;
        Ok(())
    }

    async fn clear(&self) -> Result<()> {
        redis::cmd("DEL").arg(STREAM).exec_async(&mut self.conn.clone()).await?;
        Ok(())
    }
}
