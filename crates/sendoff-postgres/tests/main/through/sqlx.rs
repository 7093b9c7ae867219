//! Through sqlx, for each version of it: `sqlx_08.rs`, `sqlx_09.rs`.

use sendoff_core::{BoxError, Event};
use sendoff_engine::Outbox;
use sendoff_postgres::{Doorbell, PostgresStore};
use sendoff_testkit::capture::Written;

use super::version::driver::postgres::{PgConnectOptions, PgConnection};
use super::version::driver::{Executor, Postgres};
use super::version::{self, Pooled, SqlxDatabase, ours};
use crate::place::Place;
use crate::through::Orders;

pub(crate) type Sqlx = version::Sqlx<Orders, Postgres>;

impl SqlxDatabase<Postgres> for Orders {
    fn options(&self) -> PgConnectOptions {
        self.place.url.parse().unwrap()
    }

    async fn sql(conn: &mut PgConnection, text: &str) -> Result<(), BoxError> {
        conn.execute(ours(text)).await?;
        Ok(())
    }

    async fn write(
        conn: &mut PgConnection,
        outbox: &Outbox<PostgresStore>,
        events: &[Event],
    ) -> Written {
        outbox.write_all(conn, events).await
    }
}

sendoff_testkit::capture_suite!(Sqlx::on(Orders::open().await));

mod acceptance {
    use super::*;

    sendoff_testkit::acceptance_suite!(Pooled(Sqlx::on(Orders::open().await)));
}

mod without_session_state {
    use super::*;

    sendoff_testkit::acceptance_suite!(Pooled(Sqlx::on(
        Orders::with(Place::new(), Doorbell::Off).await
    )));
}

mod a_broken_link {
    use super::*;

    sendoff_testkit::link_suite!(Sqlx::on(Orders::open().await));
}
