//! An HTTP service on PostgreSQL whose orders and events are one transaction.
//!
//! `cargo xtask example axum_service` starts it with a PostgreSQL of its own, on port 3000. With yours:
//! `DATABASE_URL=postgres://app@localhost/shop cargo run -p sendoff --example axum_service --features postgres-sqlx`.
//! Then
//!
//! ```text
//! curl -X POST localhost:3000/orders -H 'content-type: application/json' -d '{"item":"tea"}'
//! curl localhost:3000/orders/1
//! ```
//!
//! Ctrl-C ends it in order. With `-- --self-test` it makes these requests to itself, and ends.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use sendoff::postgres::PostgresStore;
use sendoff::{Delivery, Event, EventHandler, HandlerResult, Outbox};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

#[derive(Clone)]
struct Shop {
    pool: PgPool,
    outbox: Outbox<PostgresStore>,
}

#[derive(Deserialize)]
struct NewOrder {
    item: String,
}

#[derive(Serialize)]
struct Order {
    id: i64,
    item: String,
    state: String,
}

#[derive(Serialize, Deserialize, Event)]
#[event(type = "order.placed")]
struct OrderPlaced {
    order: i64,
}

/// Order and event, both or none. The event is on its way when the answer is.
async fn place(
    State(shop): State<Shop>,
    Json(new): Json<NewOrder>,
) -> Result<(StatusCode, Json<Order>), Failed> {
    let mut tx = shop.outbox.begin(&shop.pool).await?;
    let id = sqlx::query_scalar("insert into orders (item) values ($1) returning id")
        .bind(&new.item)
        .fetch_one(&mut **tx)
        .await?;
    tx.emit(OrderPlaced { order: id })?;
    tx.commit().await?;
    let order = Order { id, item: new.item, state: "placed".into() };
    Ok((StatusCode::CREATED, Json(order)))
}

async fn show(State(shop): State<Shop>, Path(id): Path<i64>) -> Result<Response, Failed> {
    let order: Option<(i64, String, String)> =
        sqlx::query_as("select id, item, state from orders where id = $1")
            .bind(id)
            .fetch_optional(&shop.pool)
            .await?;
    Ok(match order {
        Some((id, item, state)) => Json(Order { id, item, state }).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    })
}

/// What a request fails with. The client is told that, not why.
struct Failed(anyhow::Error);

impl<E: Into<anyhow::Error>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        eprintln!("request failed: {:#}", self.0);
        StatusCode::INTERNAL_SERVER_ERROR.into_response()
    }
}

/// The handler: here it could call a carrier. To set a state twice is to set it once, so a second
/// delivery does no harm.
struct Ship(PgPool);

impl EventHandler<OrderPlaced> for Ship {
    async fn handle(&self, placed: OrderPlaced, _: Delivery) -> HandlerResult {
        sqlx::query("update orders set state = 'shipped' where id = $1")
            .bind(placed.order)
            .execute(&self.0)
            .await?;
        println!("shipped order {}", placed.order);
        Ok(())
    }
}

/// Serves until `stop`, then ends in order.
async fn serve(
    url: &str,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<()> {
    let pool = PgPool::connect(url).await?;
    sqlx::query(
        "create table if not exists orders (
             id    bigint generated always as identity primary key,
             item  text not null,
             state text not null default 'placed'
         )",
    )
    .execute(&pool)
    .await?;
    let store = PostgresStore::connect(url).await?;
    store.migrate().await?; // makes the tables where they are missing, and brings older ones up to date
    let outbox =
        Outbox::builder(store.clone()).on_event::<OrderPlaced>(Ship(pool.clone())).start().await?;

    let shop = Shop { pool: pool.clone(), outbox: outbox.clone() };
    let routes = Router::new()
        .route("/orders", post(place))
        .route("/orders/{id}", get(show))
        .with_state(shop);
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, routes).with_graceful_shutdown(stop).await?;

    // No request is left that could write. Deliver what is in the lanes, release the rest.
    let closed = outbox.close().await;
    println!("closed, everything in time: {}", !closed.cut_off && !closed.unsettled);
    pool.close().await;
    store.close().await;
    Ok(())
}

/// Starts the service on a free port, places an order, waits until it is shipped, and stops.
pub(crate) async fn run(url: &str) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let url = url.to_owned();
    let service = tokio::spawn(async move {
        let stop = async move {
            let _ = stopped.await;
        };
        serve(&url, listener, stop).await
    });

    let placed = request(address, "POST /orders", r#"{"item":"tea"}"#).await?;
    println!("{placed}");
    ensure!(placed.contains("201 Created"), "{placed}");
    let id = placed.split(r#""id":"#).nth(1).and_then(|rest| rest.split(',').next());
    let order = format!("GET /orders/{}", id.context("an order has an id")?);
    let shipped = async {
        loop {
            let order = request(address, &order, "").await?;
            if order.contains("shipped") {
                return anyhow::Ok(order);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    println!("{}", tokio::time::timeout(Duration::from_secs(20), shipped).await??);
    let missing = request(address, "GET /orders/0", "").await?;
    ensure!(missing.contains("404 Not Found"), "{missing}");

    let _ = stop.send(());
    service.await?
}

/// One request over a connection of its own.
async fn request(address: SocketAddr, line: &str, body: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let length = body.len();
    let head = format!(
        "{line} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    stream.write_all((head + body).as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("DATABASE_URL").context("DATABASE_URL is not set")?;
    match std::env::args().nth(1).as_deref() {
        Some("--self-test") => run(&url).await,
        argument => {
            let port = argument.unwrap_or("3000").parse().context("a port, or --self-test")?;
            let listener = TcpListener::bind(("127.0.0.1", port)).await?;
            let interrupted = async {
                let _ = tokio::signal::ctrl_c().await;
            };
            serve(&url, listener, interrupted).await
        }
    }
}
