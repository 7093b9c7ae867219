//! Through sqlx, for each version of it: `sqlx_08.rs`, `sqlx_09.rs`.

use sendoff_core::{BoxError, Event};
use sendoff_engine::Outbox;
use sendoff_mysql::MysqlStore;
use sendoff_testkit::capture::Written;

use super::version::driver::mysql::{MySqlConnectOptions, MySqlConnection};
use super::version::driver::{Executor, MySql};
use super::version::{self, Pooled, SqlxDatabase, ours};
use crate::place::{MARIADB, MYSQL};
use crate::through::Orders;

pub(crate) type Sqlx = version::Sqlx<Orders, MySql>;

impl SqlxDatabase<MySql> for Orders {
    fn options(&self) -> MySqlConnectOptions {
        self.place.url.parse().unwrap()
    }

    async fn sql(conn: &mut MySqlConnection, text: &str) -> Result<(), BoxError> {
        conn.execute(ours(text)).await?;
        Ok(())
    }

    async fn write(
        conn: &mut MySqlConnection,
        outbox: &Outbox<MysqlStore>,
        events: &[Event],
    ) -> Written {
        outbox.write_all(conn, events).await
    }
}

mod on_mariadb {
    use super::*;

    sendoff_testkit::capture_suite!(Sqlx::on(Orders::open(MARIADB).await));

    mod acceptance {
        use super::*;

        sendoff_testkit::acceptance_suite!(Pooled(Sqlx::on(Orders::open(MARIADB).await)));
    }

    mod a_broken_link {
        use super::*;

        sendoff_testkit::link_suite!(Sqlx::on(Orders::open(MARIADB).await));
    }
}

mod on_mysql {
    use super::*;

    sendoff_testkit::capture_suite!(Sqlx::on(Orders::open(MYSQL).await));

    mod acceptance {
        use super::*;

        sendoff_testkit::acceptance_suite!(Pooled(Sqlx::on(Orders::open(MYSQL).await)));
    }

    mod a_broken_link {
        use super::*;

        sendoff_testkit::link_suite!(Sqlx::on(Orders::open(MYSQL).await));
    }
}
