//! Objects that no database has on record are deleted after the grace period, and no others.

use super::{
    segments::{READS, create_long, eager, keys, open_cold},
    *,
};
use crate::store::objects::Objects;

const AGE: &str = "UPDATE datasets.objects SET at = at - 86400000000 WHERE state = 'dead'";

/// The key of a new object of a dataset.
async fn put_object(objects: &Objects, dataset: i64) -> String {
    let key = format!("{dataset}/{}", uuid::Uuid::new_v4());
    objects.put(&key, "of no use".into()).await.unwrap();
    key
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn objects_that_are_on_no_record_go_after_the_grace_period() {
    let (url, objects) = (new_database(), Objects::in_memory());
    let store = open_cold(&url, eager(&objects));
    let (id, want) = create_long(&store, "kept").await;
    let (deleted, _) = create_long(&store, "deleted").await;
    store.settle().await.unwrap();
    store.delete(deleted).await.unwrap();
    store.settle().await.unwrap();
    run(&url, AGE);
    store.settle().await.unwrap();
    let (_, needed) = keys(&url, &objects);
    assert_eq!(needed.len(), 1);
    // As services leave them that were paused until the record was gone, or a newer backup.
    let unknown = [put_object(&objects, id.get()).await, put_object(&objects, deleted.get()).await];
    // Of a catalog that is newer than this one.
    let newer = put_object(&objects, deleted.get() + 1).await;
    objects.put("of/others", "not ours".into()).await.unwrap();
    store.settle().await.unwrap();
    let all: BTreeSet<String> = needed.iter().chain(&unknown).cloned().collect();
    let (on_record, stored) = keys(&url, &objects);
    assert_eq!(on_record, all);
    assert!(stored.is_superset(&all), "they stay for the grace period");
    run(&url, AGE);
    store.settle().await.unwrap();
    let left: BTreeSet<String> = needed.into_iter().chain([newer, "of/others".into()]).collect();
    assert_eq!(keys(&url, &objects).1, left);
    contract::compare(&store, id, &want, &READS);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn objects_of_datasets_on_further_servers_are_looked_for_there() {
    let (urls, objects) = ([new_database(), new_database()], Objects::in_memory());
    let store = open_cold(&urls[0], eager(&objects));
    store.add_store("second", &urls[1]).await.unwrap();
    let (id, want) = create_long(&store, "moved").await;
    store.settle().await.unwrap();
    store.move_dataset(id, "second", Arc::new(|_| {})).await.unwrap();
    // What a creation that went to another server left there says that it has the dataset.
    run(&urls[0], "UPDATE datasets.head SET generation = 1");
    let unknown = put_object(&objects, id.get()).await;
    store.settle().await.unwrap();
    let (on_first, stored) = keys(&urls[0], &objects);
    let (on_second, _) = keys(&urls[1], &objects);
    assert_eq!((on_first.len(), stored.len()), (0, 2));
    assert_eq!(on_second, stored);
    run(&urls[1], AGE);
    store.settle().await.unwrap();
    let stored = keys(&urls[1], &objects).1;
    assert!(stored.len() == 1 && !stored.contains(&unknown), "{stored:?}");
    contract::compare(&store, id, &want, &READS);
}
