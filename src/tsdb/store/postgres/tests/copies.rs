//! Copies of datasets get the numbers of their sources, which deleted datasets may have had.

use super::{
    servers::{create_on_both, new_pair},
    *,
};
use crate::{
    catalog::Refusal,
    store::copying::{CatalogEntry, CopyStore as _},
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
