use std::path::Path;

use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::connection::RETRIED_OPEN_WAIT;

/// Tables with keys of each kind, and a value of each.
const TABLES: CopiedTables = CopiedTables {
    file: Schema {
        name: "test file",
        version: 1,
        steps: &[],
        pragmas: "PRAGMA foreign_keys = on",
        open_wait: RETRIED_OPEN_WAIT,
        tables: "
CREATE TABLE people (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE things (
    owner INTEGER NOT NULL REFERENCES people (id), name TEXT NOT NULL, weight REAL, body BLOB,
    PRIMARY KEY (owner, name)
) STRICT, WITHOUT ROWID;
",
    },
    database: SharedSchema {
        name: "things",
        version: 1,
        steps: &[],
        tables: "
CREATE TABLE people (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL UNIQUE
);
CREATE TABLE things (
    owner bigint NOT NULL REFERENCES people (id), name text NOT NULL, weight double precision,
    body bytea, PRIMARY KEY (owner, name)
);
CREATE TABLE n_people (n bigint PRIMARY KEY);
",
    },
    finish: "INSERT INTO n_people SELECT count(*) FROM people ON CONFLICT DO NOTHING",
    is_locked: true,
};

/// A file with people, of whom the last is gone, and with things, whose names are not in the order of
/// any language.
fn filled(folder: &TempDir) -> CopyPlace {
    let path = folder.path().join("from.db");
    let file = TABLES.file.open(&path).unwrap();
    let fill = "
INSERT INTO people (name) VALUES ('Zoë'), ('anna'), ('Änne'), ('gone');
DELETE FROM people WHERE name = 'gone';
WITH RECURSIVE n (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 9999)
INSERT INTO things SELECT 1 + n % 3, substr('aBé_Z', 1 + n % 5, 1) || n,
    CASE WHEN n % 7 > 0 THEN n / 3.0 END, CASE WHEN n % 2 THEN randomblob(n % 90) END FROM n;
";
    file.execute_batch(fill).unwrap();
    CopyPlace::File(path)
}

fn file(folder: &TempDir, name: &str) -> CopyPlace {
    CopyPlace::File(folder.path().join(name))
}

/// The rows of a file, as text, and the next number of a person.
fn contents(place: &CopyPlace) -> Vec<String> {
    let CopyPlace::File(path) = place else { panic!("{place:?}") };
    let file = Connection::open(path).unwrap();
    let sql = "SELECT quote(id) || quote(name) FROM people UNION ALL
        SELECT quote(owner) || quote(name) || quote(weight) || quote(body) FROM things UNION ALL
        SELECT 'next' || seq FROM sqlite_sequence";
    let mut rows = file.prepare(sql).unwrap();
    rows.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

async fn copy_all(from: &CopyPlace, to: &CopyPlace) -> Result<u64, CopyError> {
    copy(&TABLES, from, to, &mut |_| ControlFlow::Continue(())).await
}

/// Copies until the first rows of things are there.
async fn copy_some(from: &CopyPlace, to: &CopyPlace) {
    let mut on_progress = |progress: CopyProgress<'_>| match progress {
        CopyProgress::Rows { table: "things", .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let stopped = copy(&TABLES, from, to, &mut on_progress).await;
    assert!(matches!(stopped, Err(CopyError::Stopped)), "{stopped:?}");
}

fn change(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

#[tokio::test]
async fn a_copy_that_was_stopped_goes_on_and_is_equal() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (filled(&folder), file(&folder, "to.db"));
    copy_some(&from, &to).await;
    let n_there = contents(&to).len();
    assert!((4000..9000).contains(&n_there), "{n_there}");
    for _ in 0..2 {
        assert_eq!(copy_all(&from, &to).await.unwrap(), 10_003);
        assert_eq!(contents(&to), contents(&from));
    }
    assert_eq!(
        contents(&to).last().unwrap(),
        "next4",
        "the number of who is gone is not given again"
    );
}

#[tokio::test]
async fn a_store_with_other_rows_is_refused_and_left_as_it_is() {
    for sql in [
        "INSERT INTO people (id, name) VALUES (9, 'other')",
        "UPDATE things SET weight = 0.5 WHERE name = 'a15'",
        "DELETE FROM things WHERE name = 'a15'",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (filled(&folder), file(&folder, "to.db"));
        copy_some(&from, &to).await;
        change(&folder.path().join("to.db"), sql);
        let before = contents(&to);
        let refused = copy_all(&from, &to).await;
        assert!(matches!(refused, Err(CopyError::NotEmpty { .. })), "{sql}: {refused:?}");
        assert_eq!(contents(&to), before, "{sql}");
    }
}

#[tokio::test]
async fn a_file_that_a_service_has_open_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (filled(&folder), file(&folder, "to.db"));
    let _in_use = lock::try_lock(&folder.path().join("from.db.lock")).unwrap().unwrap();
    let refused = copy_all(&from, &to).await;
    assert!(matches!(refused, Err(CopyError::InUse { .. })), "{refused:?}");
}

#[tokio::test]
async fn a_copy_to_postgres_and_back_is_equal() {
    let folder = tempfile::tempdir().unwrap();
    let from = filled(&folder);
    let mut places = vec![from.clone()];
    for _ in 0..2 {
        let Some(url) = test_postgres::new_database() else { return };
        places.push(CopyPlace::Database(url.parse().unwrap()));
    }
    places.push(file(&folder, "back.db"));
    for pair in places.windows(2) {
        let [from, to] = pair else { continue };
        copy_some(from, to).await;
        assert_eq!(copy_all(from, to).await.unwrap(), 10_003);
        assert_eq!(copy_all(from, to).await.unwrap(), 10_003, "again, with nothing to do");
    }
    assert_eq!(contents(&places[3]), contents(&from));
    let another = file(&folder, "another.db");
    let CopyPlace::File(path) = &another else { panic!() };
    drop(TABLES.file.open(path).unwrap());
    change(path, "INSERT INTO people (name) VALUES ('other')");
    let refused = copy_all(&another, &places[1]).await;
    assert!(matches!(refused, Err(CopyError::NotEmpty { .. })), "{refused:?}");
}
