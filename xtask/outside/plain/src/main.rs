//! Orders and events in one transaction, with PostgreSQL alone.

use sendoff::postgres::PostgresStore;
use sendoff::{Delivery, HandlerResult, Outbox};
use tokio_postgres::{Client, NoTls};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

async fn ship(delivery: Delivery) -> HandlerResult {
    println!("shipping {}", delivery.id());
    Ok(())
}

async fn place(outbox: &Outbox<PostgresStore>, client: &mut Client, total: i32) -> Result<()> {
    let mut tx = outbox.begin(client).await?;
    tx.execute("insert into orders (total) values ($1)", &[&total]).await?;
    tx.emit(("order.placed", format!(r#"{{"total":{total}}}"#)))?;
    tx.commit().await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let url = std::env::var("DATABASE_URL")?;
    let store = PostgresStore::connect(&url).await?;
    store.migrate().await?;
    let outbox = Outbox::builder(store).on("order.placed", ship).start().await?;

    let (mut client, connection) = tokio_postgres::connect(&url, NoTls).await?;
    tokio::spawn(connection);
    place(&outbox, &mut client, 990).await?;
    outbox.close().await;
    Ok(())
}
