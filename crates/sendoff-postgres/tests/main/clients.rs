//! Programs in other languages, doing what the guide says.

use sendoff_testkit::clients::{delivered, every_byte, order_and_scan, python, run, succeed};
use sendoff_testkit::guide::{block, fences, statements};
use tempfile::TempDir;

use crate::journal::journal;
use crate::partitions::as_role;
use crate::place::{Place, connect};

const PAGE: &str = "other-languages.md";

/// The URL of this place for clients that are not ours.
fn url(place: &Place) -> String {
    let url = place.url.replace("postgres://", "postgresql://");
    format!("{url}?options=-csearch_path%3D{}", place.schema)
}

fn psql(place: &Place, script: &str) -> String {
    let url = url(place);
    let arguments = ["-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", "-d", &url];
    succeed("psql", "postgresql-client", &arguments, script)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_psql_commits_is_delivered_and_what_it_rolls_back_is_not() {
    let place = Place::new();
    let store = place.store().await;
    place.run("create table orders (id int)").await;
    let committed = block(PAGE, "sql psql");
    psql(&place, &format!("set client_encoding = 'UTF8';\n{committed}"));
    psql(&place, &committed.replace("commit;", "rollback;").replace("4711", "1"));
    let bytes = every_byte();
    psql(&place, &format!("select sendoff_emit('scan.done', '\\x{bytes}'::bytea)"));
    assert_eq!(delivered(store, 2).await, order_and_scan());
    assert_eq!(place.number("select count(*) from orders").await, 1);
}

/// What psql shows of an error has nothing of the payload in it.
#[tokio::test]
async fn an_error_in_psql_shows_no_payload() {
    let place = Place::new();
    let _store = place.store().await;
    let url = url(&place);
    let script = "\\set VERBOSITY verbose\n\\set SHOW_CONTEXT always\n\
                  \\set payload S3CRET\nselect sendoff_emit('t', :'payload');";
    let output = run("psql", "postgresql-client", &["-X", "-q", "-d", &url], script);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("payload is not valid JSON: 6 bytes"), "{said}");
    assert!(!said.contains("S3CRET"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_python_commits_is_delivered_and_what_it_rolls_back_is_not() {
    let place = Place::new();
    let store = place.store().await;
    place.run("create table orders (id int)").await;
    let folder = TempDir::new().unwrap();
    let program = block(PAGE, "python postgres");
    assert!(program.contains("postgresql://app@db/shop"), "the page names its database");
    let program = program.replace("postgresql://app@db/shop", &url(&place));
    let rolled_back = "\ntry:\n    with connection, connection.cursor() as cursor:\n        \
                       cursor.execute('select sendoff_emit(%s, %s)', ('order.placed', '1'))\n        \
                       raise KeyError\nexcept KeyError:\n    pass\n";
    let program = format!("{program}{rolled_back}");
    python("psycopg2", "python3-psycopg2", folder.path(), &program);
    let expected = [
        ("order.placed".to_owned(), b"{\"id\": 4711}".to_vec()),
        ("scan.done".to_owned(), (0..=255).collect()),
    ];
    assert_eq!(delivered(store, 2).await, expected);
    assert_eq!(place.number("select count(*) from orders").await, 1);
}

/// Every statement of the page runs, by a role that has what the page grants, and nothing else.
#[tokio::test]
async fn a_role_with_the_rights_of_the_guide_can_do_what_it_says() {
    let place = Place::new();
    let _store = place.store().await;
    let _journal = journal(&place).await;
    let role = format!("r_{}", place.schema);
    let granted = |fence: &str| {
        let grants =
            block(PAGE, fence).replace("schema public", &format!("schema {}", place.schema));
        grants.replace("emitter", &role)
    };
    place.run(&format!("create role {role} login")).await;
    place.run(&granted("sql postgres-grants")).await;
    place.run(&granted("sql postgres-journal-grants")).await;
    let client = connect(&as_role(&place, &role)).await.unwrap();
    client.batch_execute(&format!("set search_path = {}", place.schema)).await.unwrap();
    for fence in ["sql postgres", "sql postgres-journal"] {
        for statement in statements(&block(PAGE, fence)) {
            if let Err(error) = client.batch_execute(&statement).await {
                panic!("{statement}: {error:?}");
            }
        }
    }
    for refused in ["select payload from outbox_event", "delete from outbox_event"] {
        assert!(client.batch_execute(refused).await.is_err(), "{refused}");
    }
    assert_eq!(place.rows().await, 3);
    assert_eq!(place.number("select count(*) from journal_event").await, 3);
    drop(client);
    place.run(&format!("drop owned by {role}; drop role {role}")).await;
}

#[tokio::test]
async fn an_id_is_new_once_by_the_statements_of_the_guide() {
    let place = Place::new();
    let _store = place.store().await;
    assert_eq!(fences("inbox.md"), ["rust", "sql postgres"], "each is tried by somebody");
    let script = block("inbox.md", "sql postgres");
    for said in ["t", "f"] {
        assert_eq!(psql(&place, &script).trim(), said);
    }
}

/// What stands under `sql` alone is for every database.
#[tokio::test]
async fn statements_for_operators_run() {
    let place = Place::new();
    let _store = place.store().await;
    let client = place.client().await;
    client.batch_execute(&format!("set search_path = {}", place.schema)).await.unwrap();
    let pages = ["dead-letters.md", "operating.md", "order.md"];
    for block in pages.iter().flat_map(|page| sendoff_testkit::guide::blocks(page, "sql")) {
        for statement in statements(&block) {
            if let Err(error) = client.batch_execute(&statement).await {
                panic!("{statement}: {error:?}");
            }
        }
    }
}

/// A block that no test runs would stand here.
#[test]
fn every_block_of_the_page_is_for_a_client_that_is_tested() {
    let known = [
        "python postgres",
        "python sqlite",
        "sql mysql",
        "sql mysql-client",
        "sql mysql-grants",
        "sql mysql-journal",
        "sql mysql-journal-grants",
        "sql postgres",
        "sql postgres-grants",
        "sql postgres-journal",
        "sql postgres-journal-grants",
        "sql psql",
        "sql sqlite",
    ];
    assert_eq!(fences(PAGE), known);
}
