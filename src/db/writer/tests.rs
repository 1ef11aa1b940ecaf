//! Tests of jobs that share a commit, with a file on disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc as blocking;
use std::time::Duration;

use futures::future::join3;

use super::*;
use crate::format::FormatError;

const SCHEMA: Schema = Schema {
    name: "test file",
    version: 1,
    steps: &[],
    tables: "CREATE TABLE names (name TEXT NOT NULL) STRICT",
    pragmas: "",
};

#[derive(Debug, thiserror::Error)]
enum TestError {
    #[error(transparent)]
    Commit(#[from] FileError),
    #[error("own")]
    Own,
}

impl From<rusqlite::Error> for TestError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Commit(error.into())
    }
}

impl WorkError for TestError {
    fn is_full(&self) -> bool {
        matches!(self, Self::Commit(FileError::Full))
    }
}

fn start() -> (tempfile::TempDir, PathBuf, Writer<TestError>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("names.sqlite");
    let connection = SCHEMA.open(&path).unwrap();
    let files = Arc::new(DatabaseFiles::open(&path).unwrap());
    let in_use = task::lock::try_lock(&folder.path().join("lock")).unwrap().unwrap();
    let writer = Writer::start(&SCHEMA, connection, files, in_use).unwrap();
    (folder, path, writer)
}

fn insert(name: &'static str) -> impl FnOnce(&Connection) -> Result<(), TestError> {
    move |connection| {
        connection.execute("INSERT INTO names (name) VALUES (?1)", [name])?;
        Ok(())
    }
}

#[track_caller]
fn check_names(path: &Path, want: &[&str]) {
    let reader = SCHEMA.open_read_only(path).unwrap();
    let mut names = reader.prepare("SELECT name FROM names ORDER BY rowid").unwrap();
    let names = names.query_map([], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(names.collect::<Result<Vec<_>, _>>().unwrap(), want);
}

#[tokio::test]
async fn failed_job_does_not_affect_other_jobs_of_its_transaction() {
    let (_folder, path, writer) = start();
    let (go, wait) = blocking::channel::<()>();
    // The first job runs until the other two are queued, so that all three share a commit.
    let first = writer.run(
        move |connection| {
            wait.recv().unwrap();
            insert("first")(connection)
        },
        |()| {},
    );
    let failed = writer.run(
        |connection| {
            insert("undone")(connection)?;
            Err::<(), _>(TestError::Own)
        },
        |()| {},
    );
    let last = async {
        let last = writer.run(insert("last"), |()| {});
        go.send(()).unwrap();
        last.await
    };
    let (first, failed, last) = join3(first, failed, last).await;
    assert!(matches!(failed, Err(TestError::Own)), "{failed:?}");
    first.and(last).unwrap();
    check_names(&path, &["first", "last"]);
}

#[tokio::test]
async fn jobs_after_a_rolled_back_transaction_run_in_a_new_transaction() {
    let (_folder, path, writer) = start();
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
            Err::<(), _>(TestError::Own)
        },
        |()| {},
    );
    let after = async {
        let after = writer.run(insert("after"), |()| {});
        go.send(()).unwrap();
        after.await
    };
    let (first, undone, after) = join3(first, undone, after).await;
    assert!(matches!(first, Err(TestError::Commit(FileError::Commit(_)))), "{first:?}");
    assert!(matches!(undone, Err(TestError::Own)), "{undone:?}");
    after.unwrap();
    check_names(&path, &["after"]);
}

#[tokio::test]
async fn writes_to_a_replaced_file_fail() {
    let (folder, path, writer) = start();
    writer.run_blocking(insert("kept")).unwrap();
    fs::rename(&path, folder.path().join("moved")).unwrap();
    for _ in 0..2 {
        let refused = writer.run_blocking(insert("lost"));
        assert!(matches!(refused, Err(TestError::Commit(FileError::Replaced))), "{refused:?}");
    }
}

#[tokio::test]
async fn writes_fail_after_a_newer_program_upgraded_the_file() {
    let (_folder, path, writer) = start();
    writer.run(insert("before"), |()| {}).await.unwrap();
    let newer = Schema { version: 2, steps: &["ALTER TABLE names ADD COLUMN note TEXT"], ..SCHEMA };
    drop(newer.open(&path).unwrap());
    for _ in 0..2 {
        let refused = writer.run(insert("after"), |()| {}).await;
        let want = matches!(
            refused,
            Err(TestError::Commit(FileError::Version(FormatError { found: 2, .. })))
        );
        assert!(want, "{refused:?}");
    }
    let health = writer.check().await;
    assert!(matches!(health, Err(TestError::Commit(FileError::Version(_)))), "{health:?}");
    check_names(&path, &["before"]);
}

#[tokio::test]
async fn check_fails_after_a_job_panicked() {
    let (_folder, _path, writer) = start();
    writer.check().await.unwrap();
    let ended = writer.run(|_| -> Result<(), TestError> { panic!("in a job") }, |()| {}).await;
    assert!(matches!(ended, Err(TestError::Commit(FileError::Closed))), "{ended:?}");
    // The thread may still be unwinding.
    let checked = loop {
        match writer.check().await {
            Ok(()) => tokio::time::sleep(Duration::from_millis(1)).await,
            Err(error) => break error,
        }
    };
    assert!(matches!(checked, TestError::Commit(FileError::Closed)), "{checked:?}");
}
