//! Programs in other languages, doing what the guide says.

use mysql_async::Opts;
use mysql_async::prelude::Queryable;
use sendoff_mysql::{JournalOptions, MysqlOptions, journal_migration_sql, migration_sql};
use sendoff_testkit::clients::{delivered, every_byte, order_and_scan, succeed};
use sendoff_testkit::guide::{block, blocks, statements};

use crate::journal::journal;
use crate::place::{MARIADB, MYSQL, Place, try_connect};

const PAGE: &str = "other-languages.md";

/// The client that comes with MariaDB, which speaks to both servers.
fn mariadb(place: &Place, script: &str) -> String {
    let opts = Opts::from_url(&place.url).unwrap();
    let (port, user) = (format!("-P{}", opts.tcp_port()), format!("-u{}", opts.user().unwrap()));
    let arguments = [
        "--no-defaults",
        "-h127.0.0.1",
        &port,
        &user,
        "-N",
        "--default-character-set=utf8mb4",
        &place.database,
    ];
    succeed("mariadb", "mariadb-client", &arguments, script)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_client_commits_is_delivered_and_what_it_rolls_back_is_not() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        place.run("create table orders (id int)").await;
        let committed = block(PAGE, "sql mysql-client");
        mariadb(&place, &committed);
        mariadb(&place, &committed.replace("commit;", "rollback;").replace("4711", "1"));
        let bytes = every_byte();
        let options = "{\"content_type\": \"application/octet-stream\"}";
        mariadb(&place, &format!("call sendoff_emit('scan.done', x'{bytes}', '{options}', @id)"));
        assert_eq!(delivered(store, 2).await, order_and_scan());
        assert_eq!(place.number("select count(*) from orders").await, 1);
    }
}

/// The printed scripts are for this client: it knows where a procedure ends.
#[tokio::test]
async fn a_client_runs_the_printed_scripts() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        for _ in 0..2 {
            mariadb(&place, &migration_sql(&MysqlOptions::default()).unwrap());
            mariadb(&place, &journal_migration_sql(&JournalOptions::default()).unwrap());
        }
        mariadb(&place, "call sendoff_emit('t', '1', null, @id)");
        mariadb(&place, "begin; call journal_append('t', '1', null, null, @place); commit");
        assert_eq!(place.rows().await, 1);
        assert_eq!(place.number("select count(*) from journal_event").await, 1);
    }
}

/// Every statement of the page runs, by a user who has what the page grants, and nothing else.
#[tokio::test]
async fn a_user_with_the_rights_of_the_guide_can_do_what_it_says() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let _store = place.store().await;
        let _journal = journal(&place).await;
        let user = &place.database[..20];
        let mut root = place.conn().await;
        root.query_drop(format!("create user {user}")).await.unwrap();
        for fence in ["sql mysql-grants", "sql mysql-journal-grants"] {
            for grant in statements(&block(PAGE, fence)) {
                let grant = grant.replace("shop.", &format!("{}.", place.database));
                root.query_drop(grant.replace("emitter", user)).await.unwrap();
            }
        }
        let url = place.url.replace("root@", &format!("{user}@"));
        let mut conn = try_connect(&url).await.unwrap();
        for fence in ["sql mysql", "sql mysql-journal"] {
            for statement in statements(&block(PAGE, fence)) {
                if let Err(error) = conn.query_drop(&statement).await {
                    panic!("{statement}: {error}");
                }
            }
        }
        for refused in ["select payload from outbox_event", "delete from outbox_event"] {
            assert!(conn.query_drop(refused).await.is_err(), "{refused}");
        }
        assert_eq!(place.rows().await, 3);
        assert_eq!(place.number("select count(*) from journal_event").await, 3);
        root.query_drop(format!("drop user {user}")).await.unwrap();
    }
}

/// What stands under `sql` alone is for every database.
#[tokio::test]
async fn statements_for_operators_run() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let _store = place.store().await;
        let mut conn = place.conn().await;
        let pages = ["dead-letters.md", "operating.md", "order.md"];
        let shown = pages.iter().flat_map(|page| blocks(page, "sql"));
        for statement in shown.flat_map(|block| statements(&block)) {
            if let Err(error) = conn.query_drop(&statement).await {
                panic!("{statement}: {error}");
            }
        }
    }
}
