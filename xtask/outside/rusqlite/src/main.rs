//! Settings in an SQLite file of the application's own, orders and events in PostgreSQL.

use sendoff::postgres::PostgresStore;
use sendoff::{Delivery, Event, HandlerResult, Outbox};
use serde::{Deserialize, Serialize};
use tokio_postgres::NoTls;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[derive(Serialize, Deserialize, Event)]
#[event(type = "order.placed")]
struct OrderPlaced {
    total: i32,
}

fn price(settings: &rusqlite::Connection) -> rusqlite::Result<i32> {
    settings.query_row("select value from settings where name = 'price'", [], |row| row.get(0))
}

async fn ship(placed: OrderPlaced, delivery: Delivery) -> HandlerResult {
    println!("shipping {} for {}", delivery.id(), placed.total);
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let total = price(&rusqlite::Connection::open("settings.db")?)?;
    let url = std::env::var("DATABASE_URL")?;
    let store = PostgresStore::connect(&url).await?;
    let outbox = Outbox::builder(store).on_event::<OrderPlaced>(ship).start().await?;

    let (mut client, connection) = tokio_postgres::connect(&url, NoTls).await?;
    tokio::spawn(connection);
    let mut tx = outbox.begin(&mut client).await?;
    tx.execute("insert into orders (total) values ($1)", &[&total]).await?;
    tx.emit(OrderPlaced { total })?;
    tx.commit().await?;
    outbox.close().await;
    Ok(())
}
