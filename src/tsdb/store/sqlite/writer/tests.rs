use std::sync::mpsc as blocking;

use futures::future::join3;

use super::{super::tables, *};

#[tokio::test]
async fn a_transaction_that_is_undone_as_a_whole_takes_no_more_jobs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("writer.sqlite");
    let mut connection = Connection::open(&path).unwrap();
    tables::set_up(&mut connection).unwrap();
    let files = Arc::new(DatabaseFiles::open(&path).unwrap());
    let writer = Writer::start(connection, files, SpaceWatch::new(&path)).unwrap();
    let insert = |name: &'static str| {
        move |connection: &Connection| {
            connection.execute("INSERT INTO tags (name, is_public) VALUES (?1, 0)", [name])?;
            Ok(())
        }
    };
    // The first job lasts until the others wait, so that all three could share its commit.
    let (go, wait) = blocking::channel::<()>();
    let first = writer.run(
        move |connection| {
            wait.recv().unwrap();
            insert("before")(connection)
        },
        |()| {},
    );
    let undone = writer.run(
        |connection| {
            connection.execute_batch("ROLLBACK")?;
            Err::<(), _>(StoreError::Closed)
        },
        |()| {},
    );
    let after = async {
        let after = writer.run(insert("after"), |()| {});
        go.send(()).unwrap();
        after.await
    };
    let (first, undone, after) = join3(first, undone, after).await;
    assert!(matches!(first, Err(StoreError::Commit { .. })), "{first:?}");
    assert!(matches!(undone, Err(StoreError::Closed)), "{undone:?}");
    after.unwrap();
    let reader = Connection::open(&path).unwrap();
    let mut names = reader.prepare("SELECT name FROM tags WHERE NOT is_public").unwrap();
    let names = names.query_map([], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(names.collect::<Result<Vec<_>, _>>().unwrap(), ["after"]);
}
