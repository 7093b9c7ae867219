//! The demo in a schema of its own, on PostgreSQL.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, ensure};
use sendoff::any::AnyStore;
use sendoff::postgres::PostgresStore;
use sendoff::{EventId, HandlerResult, Ident, Outbox, Status};
use tokio::runtime::Handle;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, NoTls, Row, Statement};

use super::desk::{Desk, Earlier, End, NewOrder, OutboxRow, PlacedOrder};
use super::text::{self, in_schema};
use crate::demo::options::Options;
use crate::demo::record::Received;
use crate::demo::stand::Stand;

const IS_OURS: &str = include_str!("../sql/postgres/is_ours.sql");
const LOCK: &str = include_str!("../sql/postgres/lock.sql");
const MAKE: &str = include_str!("../sql/postgres/make.sql");
const PENDING: &str = include_str!("../sql/postgres/pending.sql");
const REMOVE: &str = include_str!("../sql/postgres/remove.sql");
const ROWS_AFTER: &str = include_str!("../sql/postgres/rows_after.sql");

/// How long the session of a killed demo may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Server {
    url: String,
    schema: Ident,
    pub(super) store: AnyStore,
    /// Has the lock that keeps other demos away.
    session: Client,
}

impl Server {
    pub(super) async fn prepare(
        options: &Options,
        url: &str,
        store: AnyStore,
    ) -> anyhow::Result<Self> {
        let (schema, session) = (options.name.clone(), connect(url).await?);
        let patience = format!("set lock_timeout = {}", PATIENCE.as_millis());
        session.batch_execute(&patience).await?;
        session
            .batch_execute(&in_schema(LOCK, &schema))
            .await
            .with_context(|| format!("another demo is at work in the schema {schema}"))?;
        let server = Self { url: url.to_owned(), schema, store, session };
        if options.resume {
            server.check_resumable().await?
        } else {
            server.make().await?
        }
        server.store.migrate().await?;
        Ok(server)
    }

    /// All or nothing: the statements are one transaction.
    async fn make(&self) -> anyhow::Result<()> {
        let schema = &self.schema;
        let made = self.session.batch_execute(&in_schema(MAKE, schema)).await;
        let there =
            |error: &tokio_postgres::Error| error.code() == Some(&SqlState::DUPLICATE_SCHEMA);
        made.map_err(|error| match there(&error) {
            true => anyhow::anyhow!(
                "the schema {schema} is there already and was left as it is; add --resume to go on \
                 with an earlier demo, or give another --name"
            ),
            false => anyhow::Error::new(error)
                .context(format!("the schema {schema} could not be made for the demo")),
        })
    }

    async fn check_resumable(&self) -> anyhow::Result<()> {
        let schema = &self.schema;
        let ours = self.session.query_opt(&in_schema(IS_OURS, schema), &[]).await?;
        let row = ours.with_context(|| format!("--resume: there is no schema {schema}"))?;
        let ours: bool = row.get(0);
        ensure!(ours, "--resume: the schema {schema} is not a demo's; it was left as it is");
        Ok(())
    }

    pub(super) fn described(&self) -> String {
        format!("the schema {} of that PostgreSQL database", self.schema)
    }

    pub(super) fn what_is_left(&self) -> String {
        let schema = &self.schema;
        format!(
            "the schema {schema} is left in the database: go on with --resume, or `drop schema \
             {schema} cascade`"
        )
    }

    pub(super) async fn remove(&self) -> anyhow::Result<String> {
        let schema = &self.schema;
        self.session
            .batch_execute(&in_schema(REMOVE, schema))
            .await
            .with_context(|| format!("the schema {schema} could not be removed"))?;
        Ok(format!("the schema {schema}, with all the demo made, was removed"))
    }

    pub(super) async fn desk(&self, outbox: &Outbox<AnyStore>) -> anyhow::Result<Box<dyn Desk>> {
        let outbox = AnyStore::through_postgres(outbox).context("no store of PostgreSQL")?;
        let client = connect(&self.url).await?;
        let place = client.prepare(&in_schema(text::PLACE, &self.schema)).await?;
        let pending = client.prepare(&in_schema(PENDING, &self.schema)).await?;
        let (runtime, schema) = (Handle::current(), self.schema.clone());
        Ok(Box::new(ServerDesk { runtime, schema, client, place, pending, outbox }))
    }

    pub(super) async fn record(&self) -> anyhow::Result<ServerRecord> {
        let client = connect(&self.url).await?;
        let receive = client.prepare(&in_schema(text::RECEIVE, &self.schema)).await?;
        Ok(ServerRecord { client, receive, received: in_schema(text::RECEIVED, &self.schema) })
    }
}

/// A connection of the demo's own; its task ends with it.
async fn connect(url: &str) -> anyhow::Result<Client> {
    let connected = tokio_postgres::connect(url, NoTls).await;
    let (client, connection) = connected.context("the shop's connections use no TLS")?;
    tokio::spawn(connection);
    Ok(client)
}

struct ServerDesk {
    runtime: Handle,
    schema: Ident,
    client: Client,
    place: Statement,
    pending: Statement,
    outbox: Outbox<PostgresStore>,
}

impl fmt::Debug for ServerDesk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerDesk").field("schema", &self.schema).finish_non_exhaustive()
    }
}

impl ServerDesk {
    fn rows(&self, text: &str, params: &[&(dyn ToSql + Sync)]) -> anyhow::Result<Vec<Row>> {
        let text = in_schema(text, &self.schema);
        Ok(self.runtime.block_on(self.client.query(&text, params))?)
    }

    fn row(&self, text: &str, params: &[&(dyn ToSql + Sync)]) -> anyhow::Result<Row> {
        self.rows(text, params)?.pop().context("no answer")
    }
}

impl Desk for ServerDesk {
    fn transact(&mut self, order: &NewOrder<'_>, end: End) -> anyhow::Result<()> {
        let Self { runtime, client, place, outbox, .. } = self;
        runtime.block_on(async {
            let mut tx = outbox.begin(client).await?;
            let (number, digest) = (order.number(), order.digest());
            let (id, cents) = (order.event.id(), i64::from(order.total_cents));
            tx.execute(&*place, &[&number, &&id.as_bytes()[..], &digest, &order.customer, &cents])
                .await?;
            tx.emit(order.event)?;
            match end {
                End::Commit => drop(tx.commit().await?),
                End::RollBack => tx.rollback().await?,
            }
            Ok(())
        })
    }

    fn is_placed(&mut self, id: EventId) -> anyhow::Result<bool> {
        Ok(self.row(text::IS_PLACED, &[&&id.as_bytes()[..]])?.try_get(0)?)
    }

    fn earlier(&mut self) -> anyhow::Result<Earlier> {
        let row = self.row(text::EARLIER, &[])?;
        let number =
            |column| Ok::<_, tokio_postgres::Error>(row.try_get::<_, i64>(column)?.cast_unsigned());
        Ok(Earlier { written: number(0)?, last_order: number(1)?, dead: number(2)? })
    }

    fn stand(&mut self) -> anyhow::Result<Stand> {
        let mut stand = Stand::default();
        for row in self.runtime.block_on(self.client.query(&self.pending, &[]))? {
            let (count, micros): (i64, i64) = (row.try_get(1)?, row.try_get(2)?);
            let age = Duration::from_micros(micros.try_into().unwrap_or_default());
            stand.add(Status::try_from(row.try_get::<_, i64>(0)?)?, count.cast_unsigned(), age);
        }
        Ok(stand)
    }

    fn orders_after(&mut self, number: u64) -> anyhow::Result<Vec<PlacedOrder>> {
        let rows = self.rows(text::ORDERS_AFTER, &[&number.cast_signed()])?;
        let order = |row: &Row| {
            let id: &[u8] = row.try_get(1)?;
            Ok(PlacedOrder::new(row.try_get(0)?, id.try_into()?, row.try_get(2)?))
        };
        rows.iter().map(order).collect()
    }

    fn rows_after(&mut self, seq: i64) -> anyhow::Result<Vec<OutboxRow>> {
        let rows = self.rows(ROWS_AFTER, &[&seq])?;
        let row = |row: &Row| {
            let id: &[u8] = row.try_get(1)?;
            Ok(OutboxRow {
                seq: row.try_get(0)?,
                id: EventId::from_bytes(id.try_into()?),
                status: Status::try_from(row.try_get::<_, i64>(2)?)?,
                attempts: row.try_get::<_, i64>(3)?.try_into()?,
            })
        };
        rows.iter().map(row).collect()
    }

    fn forget_orders(&mut self, up_to: u64) -> anyhow::Result<()> {
        self.rows(text::FORGET_ORDERS, &[&up_to.cast_signed()]).map(drop)
    }
}

/// A table that plays the handler's own system.
pub(crate) struct ServerRecord {
    client: Client,
    receive: Statement,
    received: String,
}

impl fmt::Debug for ServerRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerRecord").finish_non_exhaustive()
    }
}

impl ServerRecord {
    pub(crate) async fn load(&self) -> anyhow::Result<Vec<Received>> {
        let rows = self.client.query(&self.received, &[]).await?;
        let received = |row: &Row| {
            let id: &[u8] = row.try_get(0)?;
            Received::read(id.try_into()?, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?)
        };
        rows.iter().map(received).collect()
    }

    pub(crate) async fn add(&self, received: Received) -> HandlerResult {
        let (id, run, attempt, digest) = received.columns();
        let params: [&(dyn ToSql + Sync); 4] = [&&id[..], &run, &attempt, &digest];
        self.client.execute(&self.receive, &params).await?;
        Ok(())
    }
}
