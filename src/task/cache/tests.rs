use super::*;

const CAPACITY: Capacity = Capacity { n_values_max: 3, bytes_max: 100 };

/// Looks up keys in a cache. Inserts each missing key with the given size. Checks that the missing keys
/// are `want_missing`, in this order.
#[track_caller]
fn check(lookups: &[(char, usize)], want_missing: &str) {
    let cache = Cache::<char, char>::new(CAPACITY);
    let mut missing = String::new();
    for (key, bytes) in lookups {
        if let Some(value) = cache.get(key) {
            assert_eq!(value, *key);
        } else {
            cache.put(*key, *key, *bytes);
            missing.push(*key);
        }
    }
    assert_eq!(missing, want_missing);
}

#[test]
fn cached_value_is_found() {
    check(&[('a', 10), ('b', 10), ('a', 10), ('b', 10)], "ab");
}

#[test]
fn least_recently_used_value_is_evicted_first() {
    check(&[('a', 1), ('b', 1), ('c', 1), ('a', 1), ('d', 1), ('a', 1), ('b', 1)], "abcdb");
}

#[test]
fn large_value_evicts_several_smaller_values() {
    check(&[('a', 40), ('b', 40), ('c', 70), ('a', 1), ('c', 1), ('b', 1)], "abcab");
}

#[test]
fn value_larger_than_the_cache_is_not_stored() {
    check(&[('a', 101), ('a', 101)], "aa");
}

#[test]
fn value_larger_than_the_cache_evicts_only_its_own_earlier_value() {
    check(&[('a', 10), ('b', 101), ('a', 10)], "ab");
    let cache = Cache::new(CAPACITY);
    cache.put('a', 'x', 10);
    cache.put('a', 'y', 101);
    assert_eq!(cache.get(&'a'), None);
}

#[test]
fn removing_a_value_frees_its_space() {
    let cache = Cache::new(Capacity { n_values_max: 2, bytes_max: 100 });
    cache.put('a', 'a', 60);
    cache.remove(&'a');
    cache.remove(&'b');
    assert_eq!(cache.get(&'a'), None);
    cache.put('b', 'b', 60);
    cache.put('c', 'c', 40);
    assert_eq!((cache.get(&'b'), cache.get(&'c')), (Some('b'), Some('c')));
}
