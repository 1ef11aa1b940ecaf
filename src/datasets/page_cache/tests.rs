use model::dataset::Dataset;
use model::timestamp::Timestamp;

use super::*;

impl PageCache {
    pub(crate) fn n_pages(&self) -> usize {
        self.pages.n_values()
    }
}

fn span(first: i64, last: i64) -> Span {
    Span { first: Timestamp::from_seconds(first), last: Timestamp::from_seconds(last) }
}

fn key(after: i64) -> PageKey {
    PageKey {
        dataset: DatasetId::new(1).unwrap(),
        columns: ETag::hash(0),
        span: span(after, i64::MAX / 2_000_000),
        params: Params(vec![("dataset".to_owned(), "1".to_owned())]),
    }
}

fn answer(n_bytes: usize) -> CachedPage {
    let body = Bytes::from(vec![b'x'; n_bytes]);
    CachedPage { body, n_rows: 1, revision: 7, depends_on: span(5, 9) }
}

#[test]
fn cached_page_stays_valid_after_a_commit_outside_its_time_range() {
    let cache = PageCache::default();
    let dataset = key(0).dataset;
    cache.put(key(0), answer(3));
    assert_eq!(cache.get(&key(0), 7).unwrap().body, "xxx");
    assert!(cache.get(&key(0), 8).is_none(), "the commit was not recorded");
    cache.record_commit(dataset, 8, span(10, 12));
    assert_eq!(cache.get(&key(0), 8).unwrap().revision, 7);
    cache.record_commit(dataset, 9, span(0, 5));
    assert!(cache.get(&key(0), 9).is_none(), "one of its rows may have changed");
    cache.put(key(0), CachedPage { revision: 9, ..answer(4) });
    assert_eq!(cache.get(&key(0), 9).unwrap().body, "xxxx");
}

#[test]
fn full_cache_evicts_the_page_requested_least_recently() {
    let cache = PageCache::default();
    let n = i64::try_from(4 * BYTES_MAX / PAGE_BYTES_MAX).unwrap();
    for after in 0..n {
        // A page that is cached twice counts only once toward the limit.
        cache.put(key(after), answer(PAGE_BYTES_MAX));
        cache.put(key(after), answer(PAGE_BYTES_MAX));
        assert!(cache.get(&key(0), 7).is_some(), "it is requested all the time");
    }
    assert!(cache.get(&key(1), 7).is_none());
    assert!(cache.get(&key(n - 1), 7).is_some());
}

#[test]
fn page_is_marked_as_linked_after_a_response_links_to_it() {
    let cache = PageCache::default();
    assert!(!cache.is_linked(&key(1)), "there was no link to it");
    cache.add_link(&key(1));
    assert!(!cache.is_linked(&key(2)));
    assert!(cache.is_linked(&key(1)));
}

#[test]
fn page_beyond_the_maximum_length_is_not_cached() {
    let cache = PageCache::default();
    cache.put(key(0), answer(PAGE_BYTES_MAX + 1));
    assert!(cache.get(&key(0), 7).is_none());
}

#[test]
fn cached_access_is_found_only_for_its_key_and_its_store_version() {
    let cache = PageCache::default();
    let id = DatasetId::new(1).unwrap();
    let who = (KeyId::new(1), DatasetRef::Id(id));
    let dataset = Dataset {
        id,
        name: "one".to_owned(),
        description: String::new(),
        metadata: std::collections::BTreeMap::new(),
        created_at: Timestamp::default(),
        updated_at: Timestamp::default(),
    };
    let (matching_tags, columns) = (Vec::new(), Vec::new());
    let sight = Sight {
        dataset,
        owner: None,
        is_owner: true,
        matching_tags,
        columns,
        revision: 3,
        newest: None,
        kept_from: None,
    };
    cache.put_sight(4, who.clone(), Arc::new(sight));
    assert_eq!(cache.sight(4, &who).unwrap().revision, 3);
    assert!(cache.sight(5, &who).is_none());
    assert!(cache.sight(4, &(KeyId::new(2), who.1)).is_none());
}
