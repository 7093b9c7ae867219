//! A database of its own for each example, on the servers that tests are given.

use std::env;
use std::io::Write;

use mysql_async::prelude::Queryable;
use tokio_postgres::NoTls;

/// The server, or none where this is not CI.
fn server(variable: &str) -> Option<String> {
    let url = env::var(variable).ok();
    if url.is_none() {
        assert!(env::var("CI").is_err(), "{variable} is not set");
        // Not `eprintln!`, which a test runner may capture.
        let _ = writeln!(std::io::stderr(), "SKIPPED: {variable} is not set");
    }
    url
}

/// The same server, another database.
fn with_database(url: &str, name: &str) -> String {
    let at = url.rfind('/').unwrap();
    format!("{}/{name}", &url[..at])
}

pub(crate) async fn postgres(example: &str) -> Option<String> {
    let url = server("SENDOFF_POSTGRES_URL")?;
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    let name = format!("example_{example}_{}", std::process::id());
    client.batch_execute(&format!("create database {name}")).await.unwrap();
    Some(with_database(&url, &name))
}

pub(crate) async fn mariadb(example: &str) -> Option<String> {
    let url = server("SENDOFF_MARIADB_URL")?;
    let mut conn = mysql_async::Conn::from_url(&url).await.unwrap();
    let name = format!("example_{example}_{}", std::process::id());
    conn.query_drop(format!("create database {name}")).await.unwrap();
    Some(with_database(&url, &name))
}
