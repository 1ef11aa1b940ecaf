use super::*;

const CAPACITY: Capacity = Capacity { n_values_max: 3, bytes_max: 100 };

/// Asks for each key in turn, puts those that are missing, of the given weight, and checks which
/// these were.
#[track_caller]
fn check(asked: &[(char, usize)], want_put: &str) {
    let cache = Cache::<char, char>::new(CAPACITY);
    let mut put = String::new();
    for (key, bytes) in asked {
        if let Some(value) = cache.get(key) {
            assert_eq!(value, *key);
        } else {
            cache.put(*key, *key, *bytes);
            put.push(*key);
        }
    }
    assert_eq!(put, want_put);
}

#[test]
fn a_cached_value_is_found() {
    check(&[('a', 10), ('b', 10), ('a', 10), ('b', 10)], "ab");
}

#[test]
fn the_least_recently_used_value_is_evicted_first() {
    check(&[('a', 1), ('b', 1), ('c', 1), ('a', 1), ('d', 1), ('a', 1), ('b', 1)], "abcdb");
}

#[test]
fn a_large_value_evicts_several() {
    check(&[('a', 40), ('b', 40), ('c', 70), ('a', 1), ('c', 1), ('b', 1)], "abcab");
}

#[test]
fn a_value_larger_than_the_cache_is_not_cached() {
    check(&[('a', 101), ('a', 101)], "aa");
}

#[test]
fn a_removed_value_is_not_found_and_takes_no_room() {
    let cache = Cache::new(Capacity { n_values_max: 2, bytes_max: 100 });
    cache.put('a', 'a', 60);
    cache.remove(&'a');
    cache.remove(&'b');
    assert_eq!(cache.get(&'a'), None);
    cache.put('b', 'b', 60);
    cache.put('c', 'c', 40);
    assert_eq!((cache.get(&'b'), cache.get(&'c')), (Some('b'), Some('c')));
}
