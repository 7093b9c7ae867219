//! Orders and events in one transaction of sqlx 0.8, in PostgreSQL and in MySQL.

use sendoff::mysql::MysqlStore;
use sendoff::postgres::PostgresStore;
use sendoff::{Delivery, Event, HandlerResult, Outbox};
use serde::{Deserialize, Serialize};
use sqlx::{MySqlPool, PgPool};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[derive(Serialize, Deserialize, Event)]
#[event(type = "order.placed")]
struct OrderPlaced {
    total: i32,
}

async fn ship(placed: OrderPlaced, delivery: Delivery) -> HandlerResult {
    println!("shipping {} for {}", delivery.id(), placed.total);
    Ok(())
}

/// In a transaction of the outbox's.
async fn place(outbox: &Outbox<PostgresStore>, pool: &PgPool, total: i32) -> Result<()> {
    let mut tx = outbox.begin(pool).await?;
    let insert = sqlx::query("insert into orders (total) values ($1)").bind(total);
    insert.execute(&mut **tx).await?;
    tx.emit(OrderPlaced { total })?;
    tx.commit().await?;
    Ok(())
}

/// In a transaction of the application's own.
async fn place_in_mysql(outbox: &Outbox<MysqlStore>, pool: &MySqlPool, total: i32) -> Result<()> {
    let mut tx = pool.begin().await?;
    let insert = sqlx::query("insert into orders (total) values (?)").bind(total);
    insert.execute(&mut *tx).await?;
    let staged = outbox.write(&mut tx, OrderPlaced { total }).await?;
    tx.commit().await?;
    staged.release();
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let url = std::env::var("DATABASE_URL")?;
    if url.starts_with("mysql:") {
        let store = MysqlStore::connect(&url).await?;
        let outbox = Outbox::builder(store).on_event::<OrderPlaced>(ship).start().await?;
        place_in_mysql(&outbox, &MySqlPool::connect(&url).await?, 990).await?;
        outbox.close().await;
    } else {
        let store = PostgresStore::connect(&url).await?;
        let outbox = Outbox::builder(store).on_event::<OrderPlaced>(ship).start().await?;
        place(&outbox, &PgPool::connect(&url).await?, 990).await?;
        outbox.close().await;
    }
    Ok(())
}
