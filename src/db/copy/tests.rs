use rusqlite::Connection;
use tempfile::TempDir;

use task::lock;

use super::*;

/// Tables with keys of each kind and columns of each type.
const TABLES: CopiedTables = CopiedTables {
    file: Schema {
        name: "test file",
        version: 1,
        steps: &[],
        pragmas: "PRAGMA foreign_keys = on",
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

/// Creates a file with people and things. The person with the highest key is deleted, so that the
/// counter is higher than all keys. The names of things are chosen so that no language sorts them by
/// their bytes.
fn create_source(folder: &TempDir) -> CopyPlace {
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

fn open(place: &CopyPlace) -> Connection {
    let CopyPlace::File(path) = place else { panic!("{place:?}") };
    Connection::open(path).unwrap()
}

/// Returns the rows of a file as text, and the last generated key.
fn contents(place: &CopyPlace) -> Vec<String> {
    let file = open(place);
    let sql = "SELECT quote(id) || quote(name) FROM people UNION ALL
        SELECT quote(owner) || quote(name) || quote(weight) || quote(body) FROM things UNION ALL
        SELECT 'last' || seq FROM sqlite_sequence";
    let mut rows = file.prepare(sql).unwrap();
    rows.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
}

async fn copy_all(from: &CopyPlace, to: &CopyPlace) -> Result<u64, CopyError> {
    copy(&TABLES, from, to, &mut |_| ControlFlow::Continue(())).await
}

#[tokio::test]
async fn stopped_copy_leaves_no_rows_in_the_target() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (create_source(&folder), file(&folder, "to.db"));
    let mut on_progress = |progress: CopyProgress<'_>| match progress.table {
        "things" => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    let stopped = copy(&TABLES, &from, &to, &mut on_progress).await;
    assert!(matches!(stopped, Err(CopyError::Stopped)), "{stopped:?}");
    assert!(contents(&to).is_empty());
    for _ in 0..2 {
        assert_eq!(copy_all(&from, &to).await.unwrap(), 10_003);
        assert_eq!(contents(&to), contents(&from));
    }
    assert_eq!(contents(&to).last().unwrap(), "last4", "a deleted key is not generated again");
}

#[tokio::test]
async fn copy_is_rejected_if_the_target_has_rows_that_differ_from_the_source() {
    for sql in [
        "INSERT INTO people (id, name) VALUES (9, 'other')",
        "UPDATE things SET weight = 0.5 WHERE name = 'a15'",
        "DELETE FROM things WHERE name = 'a15'",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (create_source(&folder), file(&folder, "to.db"));
        copy_all(&from, &to).await.unwrap();
        open(&to).execute_batch(sql).unwrap();
        let before = contents(&to);
        let refused = copy_all(&from, &to).await;
        assert!(matches!(refused, Err(CopyError::Differs { .. })), "{sql}: {refused:?}");
        assert_eq!(contents(&to), before, "{sql}");
    }
}

#[tokio::test]
async fn file_in_use_by_another_process_is_not_copied() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (create_source(&folder), file(&folder, "to.db"));
    let _in_use = lock::try_lock(&folder.path().join("from.db.lock")).unwrap().unwrap();
    let refused = copy_all(&from, &to).await;
    let error = std::error::Error::source(&refused.unwrap_err()).unwrap().to_string();
    assert!(error.ends_with("from.db is in use by a service; stop the service first"), "{error}");
}

#[tokio::test]
async fn copy_to_postgres_and_back_equals_its_source() {
    let folder = tempfile::tempdir().unwrap();
    let from = create_source(&folder);
    let mut places = vec![from.clone()];
    for _ in 0..2 {
        let Some(url) = test_postgres::new_database() else { return };
        places.push(CopyPlace::Database(url.parse().unwrap()));
    }
    places.push(file(&folder, "back.db"));
    for pair in places.windows(2) {
        let [from, to] = pair else { continue };
        assert_eq!(copy_all(from, to).await.unwrap(), 10_003);
        assert_eq!(copy_all(from, to).await.unwrap(), 10_003, "compared again");
    }
    assert_eq!(contents(&places[3]), contents(&from));
    let other = file(&folder, "other.db");
    let CopyPlace::File(path) = &other else { panic!() };
    drop(TABLES.file.open(path).unwrap());
    open(&other).execute_batch("INSERT INTO people (name) VALUES ('other')").unwrap();
    let refused = copy_all(&other, &places[1]).await;
    assert!(matches!(refused, Err(CopyError::Differs { .. })), "{refused:?}");
}
