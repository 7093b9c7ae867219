//! The demo in tables under a prefix of its own, on MySQL and MariaDB.

use std::time::Duration;

use anyhow::{Context, ensure};
use mysql_async::prelude::{FromRow, Queryable};
use mysql_async::{Conn, Params, Pool};
use sendoff::any::AnyStore;
use sendoff::mysql::MysqlStore;
use sendoff::{EventId, HandlerResult, Ident, Outbox, Status};
use tokio::runtime::Handle;

use super::desk::{Desk, Earlier, End, NewOrder, OutboxRow, PlacedOrder};
use super::text::{self, under_prefix};
use crate::demo::options::Options;
use crate::demo::record::Received;
use crate::demo::stand::Stand;

const LOCK: &str = include_str!("../sql/mysql/lock.sql");
const MAKE_DELIVERIES: &str = include_str!("../sql/mysql/make_deliveries.sql");
const MAKE_ORDERS: &str = include_str!("../sql/mysql/make_orders.sql");
const PENDING: &str = include_str!("../sql/mysql/pending.sql");
const ROUTINES: &str = include_str!("../sql/mysql/routines.sql");
const ROWS_AFTER: &str = include_str!("../sql/mysql/rows_after.sql");
const TABLES: &str = include_str!("../sql/mysql/tables.sql");

/// What the comment of a demo's table says.
const MARK: &str = "sendoff demo";
/// How long the session of a killed demo may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Server {
    pool: Pool,
    name: Ident,
    pub(super) store: AnyStore,
    /// Has the lock that keeps other demos away.
    _session: Conn,
}

impl Server {
    pub(super) async fn prepare(
        options: &Options,
        url: &str,
        store: AnyStore,
    ) -> anyhow::Result<Self> {
        // The driver knows one name for both.
        let url = url.replacen("mariadb://", "mysql://", 1);
        let pool = Pool::from_url(url).context("--database-url")?;
        let (name, mut session) = (options.name.clone(), pool.get_conn().await?);
        let lock = under_prefix(LOCK, &name);
        let locked: Option<Option<i64>> = session.exec_first(lock, (PATIENCE.as_secs(),)).await?;
        ensure!(locked == Some(Some(1)), "another demo is at work on the tables {name}_*");
        let tables: Vec<Table> = session.query(under_prefix(TABLES, &name)).await?;
        if options.resume {
            let (orders, mark) = (format!("{name}_orders"), MARK.to_owned());
            let ours = |(table, _, comment): &Table| *table == orders && *comment == mark;
            ensure!(
                tables.iter().any(ours),
                "--resume: there are no tables {name}_* that a demo made"
            );
        } else {
            ensure!(
                tables.is_empty(),
                "tables {name}_* are there already and were left as they are; add --resume to go \
                 on with an earlier demo, or give another --name"
            );
            session.query_drop(under_prefix(MAKE_ORDERS, &name)).await?;
        }
        session.query_drop(under_prefix(MAKE_DELIVERIES, &name)).await?;
        store.migrate().await?;
        Ok(Self { pool, name, store, _session: session })
    }

    pub(super) fn described(&self) -> String {
        format!("tables {}_* of that MySQL or MariaDB database", self.name)
    }

    pub(super) fn what_is_left(&self) -> String {
        format!("the tables {}_* are left in the database: go on with --resume", self.name)
    }

    /// Before it, there was nothing under the prefix that a demo had not made.
    pub(super) async fn remove(&self) -> anyhow::Result<String> {
        let name = &self.name;
        let mut conn = self.pool.get_conn().await?;
        let tables: Vec<Table> = conn.query(under_prefix(TABLES, name)).await?;
        let routines: Vec<(String, String)> = conn.query(under_prefix(ROUTINES, name)).await?;
        let kind = |table_type: &str| if table_type == "VIEW" { "view" } else { "table" };
        let tables = tables.iter().map(|(name, table_type, _)| (name, kind(table_type)));
        let routines = routines.iter().map(|(name, routine_type)| (name, routine_type.as_str()));
        for (thing, kind) in tables.chain(routines) {
            // The server gave the name, and it begins with ours.
            let drop = format!("drop {kind} `{}`", thing.replace('`', "``"));
            conn.query_drop(drop).await.with_context(|| format!("{thing} could not be removed"))?;
        }
        Ok(format!("the tables {name}_*, with all the demo made, were removed"))
    }

    pub(super) async fn desk(&self, outbox: &Outbox<AnyStore>) -> anyhow::Result<Box<dyn Desk>> {
        let outbox = AnyStore::through_mysql(outbox).context("no store of MySQL")?;
        let (runtime, name) = (Handle::current(), self.name.clone());
        let conn = self.pool.get_conn().await?;
        let place = under_prefix(text::PLACE, &name);
        Ok(Box::new(ServerDesk { runtime, name, conn, place, outbox }))
    }

    pub(super) async fn record(&self) -> anyhow::Result<ServerRecord> {
        let text = |text| under_prefix(text, &self.name);
        let (receive, received) = (text(text::RECEIVE), text(text::RECEIVED));
        Ok(ServerRecord { pool: self.pool.clone(), receive, received })
    }
}

/// A table's name, its kind, and its comment.
type Table = (String, String, String);

#[derive(Debug)]
struct ServerDesk {
    runtime: Handle,
    name: Ident,
    conn: Conn,
    place: String,
    outbox: Outbox<MysqlStore>,
}

impl ServerDesk {
    fn rows<T>(&mut self, text: &str, params: impl Into<Params> + Send) -> anyhow::Result<Vec<T>>
    where
        T: FromRow + Send + 'static,
    {
        let text = under_prefix(text, &self.name);
        Ok(self.runtime.block_on(self.conn.exec(text, params.into()))?)
    }

    fn row<T>(&mut self, text: &str, params: impl Into<Params> + Send) -> anyhow::Result<T>
    where
        T: FromRow + Send + 'static,
    {
        self.rows(text, params)?.pop().context("no answer")
    }
}

impl Desk for ServerDesk {
    fn transact(&mut self, order: &NewOrder<'_>, end: End) -> anyhow::Result<()> {
        let Self { runtime, conn, place, outbox, .. } = self;
        runtime.block_on(async {
            let mut tx = outbox.begin(conn).await?;
            let (number, digest) = (order.number(), order.digest());
            let (id, cents) = (order.event.id(), order.total_cents);
            tx.exec_drop(&*place, (number, id.as_bytes(), digest, order.customer, cents)).await?;
            tx.emit(order.event)?;
            match end {
                End::Commit => drop(tx.commit().await?),
                End::RollBack => tx.rollback().await?,
            }
            Ok(())
        })
    }

    fn is_placed(&mut self, id: EventId) -> anyhow::Result<bool> {
        self.row(text::IS_PLACED, (id.as_bytes().to_vec(),))
    }

    fn earlier(&mut self) -> anyhow::Result<Earlier> {
        let (written, last_order, dead) = self.row(text::EARLIER, ())?;
        Ok(Earlier { written, last_order, dead })
    }

    fn stand(&mut self) -> anyhow::Result<Stand> {
        let mut stand = Stand::default();
        for (status, count, micros) in self.rows::<(i64, u64, i64)>(PENDING, ())? {
            let age = Duration::from_micros(micros.try_into().unwrap_or_default());
            stand.add(Status::try_from(status)?, count, age);
        }
        Ok(stand)
    }

    fn orders_after(&mut self, number: u64) -> anyhow::Result<Vec<PlacedOrder>> {
        let rows: Vec<(i64, Vec<u8>, i64)> = self.rows(text::ORDERS_AFTER, (number,))?;
        let order = |(number, id, digest): (i64, Vec<u8>, i64)| {
            Ok(PlacedOrder::new(number, id[..].try_into()?, digest))
        };
        rows.into_iter().map(order).collect()
    }

    fn rows_after(&mut self, seq: i64) -> anyhow::Result<Vec<OutboxRow>> {
        let rows: Vec<(i64, Vec<u8>, i64, u32)> = self.rows(ROWS_AFTER, (seq,))?;
        let row = |(seq, id, status, attempts): (i64, Vec<u8>, i64, u32)| {
            let id = EventId::from_bytes(id[..].try_into()?);
            Ok(OutboxRow { seq, id, status: Status::try_from(status)?, attempts })
        };
        rows.into_iter().map(row).collect()
    }

    fn forget_orders(&mut self, up_to: u64) -> anyhow::Result<()> {
        self.rows::<mysql_async::Row>(text::FORGET_ORDERS, (up_to,)).map(drop)
    }
}

/// A table that plays the handler's own system.
#[derive(Debug)]
pub(crate) struct ServerRecord {
    pool: Pool,
    receive: String,
    received: String,
}

impl ServerRecord {
    pub(crate) async fn load(&self) -> anyhow::Result<Vec<Received>> {
        let mut conn = self.pool.get_conn().await?;
        let rows: Vec<(Vec<u8>, i64, i64, i64)> = conn.exec(&self.received, ()).await?;
        let received = |(id, run, attempt, digest): (Vec<u8>, i64, i64, i64)| {
            Received::read(id[..].try_into()?, run, attempt, digest)
        };
        rows.into_iter().map(received).collect()
    }

    pub(crate) async fn add(&self, received: Received) -> HandlerResult {
        let (id, run, attempt, digest) = received.columns();
        let mut conn = self.pool.get_conn().await?;
        conn.exec_drop(&self.receive, (id, run, attempt, digest)).await?;
        Ok(())
    }
}
