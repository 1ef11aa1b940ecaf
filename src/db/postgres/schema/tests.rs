//! Tests of the upgrade of tables that several services use.

use futures::FutureExt as _;
use test_postgres::{new_database, run};

use super::*;
use crate::postgres::connections::{Connections, ConnectionsOptions};

/// Tables of the first format.
const OLDER: Schema = Schema {
    name: "things",
    version: 3,
    steps: &[],
    tables: "CREATE TABLE things.things (id bigint PRIMARY KEY)",
};

/// Tables after two changes: a new column is added, then filled with a value.
const NEWER: Schema = Schema {
    version: 5,
    steps: &[
        "ALTER TABLE things.things ADD COLUMN name text",
        "UPDATE things.things SET name = 'old'",
    ],
    tables: "CREATE TABLE things.things (id bigint PRIMARY KEY, name text)",
    ..OLDER
};

fn connect(url: &str, schema: Schema) -> Connections {
    let options = ConnectionsOptions { schema, is_read_only: false, n_max: 2, n_writers: 1 };
    Connections::new(&url.parse().unwrap(), options)
}

async fn insert(connections: &Connections, id: i64) -> Result<(), sqlx::Error> {
    let sql = sqlx::query("INSERT INTO things.things (id) VALUES ($1)").bind(id);
    connections.write(|c| async move { sql.execute(c).await.map(drop) }.boxed()).await
}

async fn read_text(url: &str, sql: &'static str) -> Option<String> {
    let connections = connect(url, OLDER);
    let mut transaction = connections.begin_read().await.unwrap();
    sqlx::query_scalar(sql).fetch_one(&mut *transaction).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_services_upgrade_tables_once_and_services_of_the_earlier_format_stop_writing() {
    let Some(url) = new_database() else { return };
    let older = connect(&url, OLDER);
    older.open_tables().await.unwrap();
    insert(&older, 1).await.unwrap();
    let newer: Vec<Connections> = (0..4).map(|_| connect(&url, NEWER)).collect();
    let opened = newer.iter().map(Connections::open_tables);
    let eras = futures::future::try_join_all(opened).await.unwrap();
    assert!(eras.iter().all(|era| *era == eras[0]), "{eras:?}");
    let refused = insert(&older, 2).await.unwrap_err();
    let is_newer = |error| {
        matches!(
            SchemaError::of(error),
            Some(SchemaError::Version(FormatError { found: 5, known: 3, .. }))
        )
    };
    assert!(is_newer(&refused), "{refused}");
    for (id, connections) in (3..).zip(&newer) {
        insert(connections, id).await.unwrap();
    }
    let names = "SELECT string_agg(id || coalesce(name, '-'), ' ' ORDER BY id) FROM things.things";
    assert_eq!(read_text(&url, names).await.as_deref(), Some("1old 3- 4- 5- 6-"));
    let error = connect(&url, OLDER).open_tables().await.unwrap_err();
    assert!(is_newer(&error), "{error}");
}

/// The upgrade waits for an open writing transaction and preserves its write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn upgrade_waits_for_writes_of_the_older_format() {
    let Some(url) = new_database() else { return };
    let older = connect(&url, OLDER);
    older.open_tables().await.unwrap();
    let mut write = older.begin_write().await.unwrap();
    sqlx::raw_sql("INSERT INTO things.things (id) VALUES (1)").execute(&mut *write).await.unwrap();
    let newer = connect(&url, NEWER);
    let finish = async {
        let n_waiting = "SELECT count(*)::text FROM pg_locks WHERE NOT granted";
        while read_text(&url, n_waiting).await.as_deref() == Some("0") {}
        write.finish(Ok::<_, sqlx::Error>(())).await.unwrap();
    };
    let (upgraded, ()) = futures::join!(newer.open_tables(), finish);
    upgraded.unwrap();
    let names = "SELECT string_agg(id || name, ' ') FROM things.things";
    assert_eq!(read_text(&url, names).await.as_deref(), Some("1old"));
}

#[tokio::test]
async fn failed_upgrade_changes_nothing() {
    const BROKEN: Schema =
        Schema { steps: &["DROP TABLE things.things", "DROP TABLE things.missing"], ..NEWER };
    let Some(url) = new_database() else { return };
    let older = connect(&url, OLDER);
    older.open_tables().await.unwrap();
    assert!(matches!(connect(&url, BROKEN).open_tables().await, Err(sqlx::Error::Database(_))));
    insert(&older, 1).await.unwrap();
    run(&url, "UPDATE things.format SET version = 2");
    let error = connect(&url, NEWER).open_tables().await.unwrap_err();
    assert!(error.to_string().contains("with the version that wrote it"), "{error}");
}
