//! Copies of datasets get the numbers of their sources, which deleted datasets may have had.

use std::ops::ControlFlow;

use futures::executor::block_on;

use super::{
    segments::{eager, open_cold},
    servers::{create_on_both, new_pair},
    *,
};
use crate::{
    admin::copy::{
        CopyError, CopyOutcome, CopyProgress, FailedCopy, copy,
        tests::{change, copy_all, copy_some, fill},
    },
    catalog::Refusal,
    store::{
        copying::{CatalogEntry, CopyStore},
        objects::{
            ObjectError, Objects,
            test_server::{Conditions, TestServer},
        },
        sqlite::SqliteStore,
    },
};

/// Opens the store without its maintenance, which would remove at its own time what is left of deleted
/// datasets.
fn connect(url: &str) -> PostgresStore {
    PostgresStore::connect(&url.parse().unwrap()).unwrap()
}

fn entry(store: &PostgresStore, id: DatasetId) -> CatalogEntry {
    store.next_entry(DatasetId::new(id.get() - 1)).unwrap().unwrap()
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_copy_with_the_number_of_a_deleted_dataset_keeps_its_own_rows_alone() {
    let [url, second] = new_pair();
    let store = connect(&url);
    for (id, url) in create_on_both(&store).await.into_iter().zip([&url, &second]) {
        contract::append(&store, id, contract::block((0..9000).map(|n| (n * 9, 1.0)))).await;
        let batch =
            || contract::repeats::named(contract::repeats::id(1, &format!("b{id}")), 90_000);
        assert!(contract::repeats::put(&store, id, batch()).await.is_some());
        let copied = entry(&store, id);
        assert!(store.delete(id).await.unwrap());
        let left = format!("SELECT count(*) FROM datasets.chunks WHERE dataset = {id}");
        assert!(number(url, &left) > 0, "there is something to remove");
        // The same server as before, whatever others there are.
        store.create_copy(copied).await.unwrap();
        assert_eq!(contract::newest(&store, id, 1).0.len(), 0);
        let rows: BTreeMap<i64, f64> = (0..5000).map(|n| (n * 7, 2.0)).collect();
        contract::append(&store, id, contract::block(rows.clone())).await;
        store.settle().await.unwrap();
        contract::compare(&store, id, &rows, &[]);
        let again = contract::repeats::put(&store, id, batch()).await;
        assert!(again.is_some(), "a batch of the deleted dataset is none of this one");
    }
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn no_dataset_is_created_over_what_is_left_of_another_one() {
    let url = new_database();
    let store = connect(&url);
    run(&url, "INSERT INTO datasets.doomed (dataset) VALUES (1)");
    let created = store.create(vec![contract::new_dataset("over")], Timestamp::default()).await;
    let want = Refusal::NumberTaken { dataset: DatasetId::new(1).unwrap() };
    assert!(
        matches!(&created, Err(StoreError::Refused(refusal)) if *refusal == want),
        "{created:?}"
    );
    assert_eq!(contract::create(&store, contract::new_dataset("over")).await.get(), 2);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_number_that_is_taken_is_told_from_a_name() {
    let [url, _] = new_pair();
    let store = connect(&url);
    for id in create_on_both(&store).await {
        let mut copied = entry(&store, id);
        copied.dataset.name = format!("renamed {id}");
        let error = store.create_copy(copied.clone()).await.unwrap_err();
        let want = Refusal::NumberTaken { dataset: id };
        assert!(matches!(&error, StoreError::Refused(refusal) if *refusal == want), "{error}");
        assert!(store.sight(None, &DatasetRef::Id(id)).unwrap().is_some(), "it is still there");
        copied.dataset.id = DatasetId::new(id.get() + 1000).unwrap();
        copied.dataset.name = format!("placed {}", id.get() - 1);
        let error = store.create_copy(copied.clone()).await.unwrap_err();
        let want = Refusal::NameTaken { name: copied.dataset.name };
        assert!(matches!(&error, StoreError::Refused(refusal) if *refusal == want), "{error}");
    }
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_copy_that_is_refused_leaves_the_dataset_of_its_number() {
    let [url, second] = new_pair();
    let store = connect(&url);
    let [_, id] = create_on_both(&store).await;
    contract::append(&store, id, contract::block([(1, 1.0)])).await;
    // The server of the dataset takes no new dataset.
    run(
        &second,
        "CREATE FUNCTION datasets.cut() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN RAISE EXCEPTION 'stopped' USING ERRCODE = '57P01'; END $$;
         CREATE TRIGGER cut BEFORE INSERT ON datasets.datasets
             FOR EACH ROW EXECUTE FUNCTION datasets.cut()",
    );
    let mut copied = entry(&store, id);
    copied.dataset.name = "renamed".to_owned();
    let error = store.create_copy(copied).await.unwrap_err();
    let want = Refusal::NumberTaken { dataset: id };
    assert!(matches!(&error, StoreError::Refused(refusal) if *refusal == want), "{error}");
    contract::compare(&store, id, &[(1, 1.0)].into(), &[]);
}

fn in_file(folder: &tempfile::TempDir, name: &str) -> SqliteStore {
    SqliteStore::open(&folder.path().join(name)).unwrap()
}

/// Opens the store to copy from it, with the objects in a bucket.
fn open_source(url: &str, objects: &Objects) -> PostgresStore {
    PostgresStore::open_source(&url.parse().unwrap(), Some(objects.clone())).unwrap()
}

/// All that the database says of its objects, and when it last claimed them.
fn on_record(url: &str) -> Vec<String> {
    with_connection(url, async |mut c| {
        let sql = "SELECT 'object ' || o::text FROM datasets.objects o
             UNION ALL SELECT 'segment ' || id || object FROM datasets.segments
             UNION ALL SELECT 'claim ' || id FROM datasets.claims ORDER BY 1";
        sqlx::query_scalar(sql).fetch_all(&mut c).await.unwrap()
    })
}

/// A database with the datasets that copies are tested with, whose old rows are on a server of S3.
struct Source {
    url: String,
    server: TestServer,
    services: PostgresStore,
    folder: tempfile::TempDir,
}

impl Source {
    fn new(url: String, fill: impl FnOnce(&PostgresStore)) -> Self {
        let server = TestServer::start(Conditions::Honored);
        let services = open_cold(&url, eager(&server.open()));
        fill(&services);
        let source = Self { url, server, services, folder: tempfile::tempdir().unwrap() };
        source.seal();
        source
    }

    /// Moves all old rows to S3.
    fn seal(&self) {
        block_on(self.services.settle()).unwrap();
    }

    /// Opens it to copy from it.
    fn open(&self) -> PostgresStore {
        open_source(&self.url, &self.server.open())
    }

    /// What a copy must leave alone.
    fn objects(&self) -> (Vec<String>, Vec<String>, u64) {
        let (stored, n_written) = self.server.written();
        (on_record(&self.url), stored, n_written)
    }
}

/// Copies, and calls `act` once the first rows are copied.
fn copy_and(
    from: &dyn CopyStore,
    to: &dyn CopyStore,
    mut act: impl FnMut(),
) -> Result<CopyOutcome, CopyError> {
    let mut is_first = true;
    copy(from, to, &|_| true, &mut |progress| {
        if matches!(progress, CopyProgress::Rows { .. }) && std::mem::take(&mut is_first) {
            act();
        }
        ControlFlow::Continue(())
    })
}

#[test]
#[ignore = "needs a PostgreSQL server"]
fn rows_in_objects_are_copied_and_the_objects_are_left_alone() {
    let source = Source::new(new_database(), |services| fill(services));
    let want = copy_all(&source.services, &in_file(&source.folder, "want.db"));
    let before = source.objects();
    assert!(before.0.len() > 4, "{before:?}");
    let (from, to) = (source.open(), in_file(&source.folder, "to.db"));
    for n_commits in 1..4 {
        copy_some(&from, &to, n_commits);
    }
    assert_eq!(copy_all(&from, &to), want);
    block_on(from.settle()).unwrap();
    assert_eq!(source.objects(), before);

    change(&source.services);
    source.seal();
    let second = copy_all(&from, &to);
    assert_ne!(second, want);
    assert_eq!(copy_all(&source.services, &in_file(&source.folder, "again.db")), second);
}

#[test]
#[ignore = "needs a PostgreSQL server"]
fn no_copy_begins_while_the_objects_of_its_rows_cannot_be_read() {
    let source = Source::new(new_database(), |services| fill(services));
    let check = |objects: Option<Objects>, is_expected: fn(&StoreError) -> bool| {
        let from = PostgresStore::open_source(&source.url.parse().unwrap(), objects).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let to = in_file(&folder, "to.db");
        let outcome = copy_and(&from, &to, || {}).unwrap();
        let failed = |failed: &FailedCopy| match &failed.error {
            CopyError::Read(error) if is_expected(error) => failed.id.get(),
            error => panic!("{error:?}"),
        };
        assert_eq!(outcome.failed.iter().map(failed).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(outcome.n_copied, 2, "rows in the database alone are copied");
        assert_eq!(to.next_entry(None).unwrap().unwrap().dataset.id.get(), 4);
    };
    check(None, StoreError::lacks_objects);
    let is_missing =
        |error: &StoreError| matches!(error.object_error(), Some(ObjectError::Missing { .. }));
    check(Some(TestServer::start(Conditions::Honored).open()), is_missing);
}

#[test]
#[ignore = "needs a PostgreSQL server"]
fn a_copy_ends_where_objects_are_lost_and_goes_on_once_they_are_back() {
    let source = Source::new(new_database(), |services| fill(services));
    let (from, to) = (source.open(), in_file(&source.folder, "to.db"));
    let lost = copy_and(&from, &to, || source.server.lose(true)).unwrap_err();
    let CopyError::Read(error) = &lost else { panic!("{lost:?}") };
    assert!(matches!(error.object_error(), Some(ObjectError::Unreachable(_))), "{error:?}");
    source.server.lose(false);
    let want = copy_all(&source.services, &in_file(&source.folder, "want.db"));
    assert_eq!(copy_all(&from, &to), want);
}

#[test]
#[ignore = "needs a PostgreSQL server"]
fn a_dataset_in_objects_that_is_deleted_meanwhile_keeps_no_others_back() {
    let source = Source::new(new_database(), |services| fill(services));
    let delete = || {
        assert!(block_on(source.services.delete(DatasetId::new(2).unwrap())).unwrap());
        source.seal();
    };
    let outcome = copy_and(&source.open(), &in_file(&source.folder, "to.db"), delete).unwrap();
    let [FailedCopy { id, error: CopyError::Read(StoreError::NoDataset { .. }), .. }] =
        &outcome.failed[..]
    else {
        panic!("{outcome:?}")
    };
    assert_eq!((id.get(), outcome.n_copied), (2, 3));
}

#[test]
#[ignore = "needs a PostgreSQL server"]
fn rows_in_objects_are_copied_from_each_server_and_while_they_move() {
    let [url, _] = new_pair();
    let source = Source::new(url, |services| fill(services));
    let want = copy_all(&source.services, &in_file(&source.folder, "want.db"));
    let before = source.objects().1;
    let (from, to) = (source.open(), in_file(&source.folder, "to.db"));
    // The command that moves knows of no objects, either.
    let mover = open(&source.url);
    for to_store in ["second", "first"] {
        let move_all = || {
            for id in 2..=5 {
                let id = DatasetId::new(id).unwrap();
                block_on(mover.move_dataset(id, to_store, Arc::new(|_| {}))).unwrap();
            }
        };
        let outcome = copy_and(&from, &to, move_all).unwrap();
        assert!(outcome.failed.is_empty(), "{outcome:?}");
        assert_eq!(copy_all(&from, &to), want);
    }
    assert_eq!(source.objects().1, before);
}

#[test]
#[ignore = "needs a PostgreSQL server"]
fn a_copy_whose_own_rows_are_in_objects_is_followed_with_their_bucket() {
    let folder = tempfile::tempdir().unwrap();
    let plain = in_file(&folder, "plain.db");
    fill(&plain);
    let copied = Source::new(new_database(), |services| drop(copy_all(&plain, services)));
    change(&plain);
    let open = |objects| PostgresStore::open_beside(&copied.url.parse().unwrap(), objects).unwrap();
    let outcome = copy_and(&plain, &open(None), || {}).unwrap();
    let failed = |failed: &FailedCopy| matches!(&failed.error, CopyError::Write(error) if error.lacks_objects());
    assert!(!outcome.failed.is_empty() && outcome.failed.iter().all(failed), "{outcome:?}");
    let before = copied.server.written();
    let want = copy_all(&plain, &in_file(&copied.folder, "want.db"));
    assert_eq!(copy_all(&plain, &open(Some(copied.server.open()))), want);
    assert_eq!(copied.server.written(), before, "its services alone write there");
}
