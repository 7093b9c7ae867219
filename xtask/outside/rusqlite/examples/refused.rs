//! What does not compile, and what the compiler has to say of it: each line after `//~`.

use sendoff::Outbox;
use sendoff::journal::{Fact, Journal};
use sendoff::postgres::{PostgresJournal, PostgresStore};

struct OrderPlaced;

//~ error[E0277]: the outbox on `PostgresStore` begins no transaction on `&mut rusqlite::Connection`
//~ `&PgPool` or `&mut PgConnection` of sqlx 0.9 (`postgres-sqlx`) or 0.8 (`postgres-sqlx-08`)
//~ `&MySqlPool` or `&mut MySqlConnection` of sqlx 0.9 (`mysql-sqlx`) or 0.8 (`mysql-sqlx-08`)
//~ rusqlite blocks: `begin_blocking(&mut connection)`
async fn begin(outbox: &Outbox<PostgresStore>, conn: &mut rusqlite::Connection) {
    let _ = outbox.begin(conn).await;
}

//~ error[E0277]: the outbox on `PostgresStore` does not write into `rusqlite::Transaction<'_>`
//~ sea-orm 2 (`postgres-sea-orm`)
//~ diesel-async in a transaction (`postgres-diesel-async`)
async fn write(outbox: &Outbox<PostgresStore>, tx: &mut rusqlite::Transaction<'_>) {
    let _ = outbox.write(tx, ("order.placed", "{}")).await;
}

//~ error[E0277]: the journal on `PostgresJournal` does not append in `rusqlite::Transaction<'_>`
async fn append(journal: &Journal<PostgresJournal>, tx: &mut rusqlite::Transaction<'_>) {
    let _ = journal.append_in(tx, Vec::<Fact>::new(), None).await;
}

//~ error[E0277]: `OrderPlaced` is no event
//~ `#[derive(serde::Serialize, sendoff::Event)]` and `#[event(type = "order.placed")]`
//~ `emit_json("order.placed", &value)`
async fn emit(outbox: &Outbox<PostgresStore>, client: &mut tokio_postgres::Client) {
    let mut tx = outbox.begin(client).await.unwrap();
    let _ = tx.emit(OrderPlaced);
}

//~ error[E0277]: `Client` is no store of events
//~ a `PostgresStore` (feature `postgres` of `sendoff`), a `MysqlStore` (`mysql`) or an `SqliteStore` (`sqlite`)
fn build(client: tokio_postgres::Client) {
    let _ = Outbox::builder(client);
}

fn main() {}
