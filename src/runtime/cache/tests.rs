use std::{
    sync::{
        Barrier,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use super::*;

const CAPACITY: Capacity = Capacity { n_values_max: 3, bytes_max: 100 };

/// Asks for each key in turn, of the given weight, and checks which had to be made.
#[track_caller]
fn check(asked: &[(char, usize)], want_made: &str) {
    let cache = Cache::<char, char, ()>::new(CAPACITY);
    let mut made = String::new();
    for (key, bytes) in asked {
        let make = || {
            made.push(*key);
            Ok(*key)
        };
        assert_eq!(cache.get_or_make(*key, make, |_| *bytes), Ok(*key));
    }
    assert_eq!(made, want_made);
}

#[test]
fn what_is_kept_is_not_made_again() {
    check(&[('a', 10), ('b', 10), ('a', 10), ('b', 10)], "ab");
}

#[test]
fn the_value_asked_for_least_recently_goes_first() {
    check(&[('a', 1), ('b', 1), ('c', 1), ('a', 1), ('d', 1), ('a', 1), ('b', 1)], "abcdb");
}

#[test]
fn heavy_values_push_out_several() {
    check(&[('a', 40), ('b', 40), ('c', 70), ('a', 1), ('c', 1), ('b', 1)], "abcab");
}

#[test]
fn a_value_heavier_than_the_cache_is_returned_but_not_kept() {
    check(&[('a', 101), ('a', 101)], "aa");
}

#[test]
fn a_failure_is_told_but_not_kept() {
    let cache = Cache::new(CAPACITY);
    assert_eq!(cache.get_or_make(1, || Err("broken"), |_: &u8| 1), Err("broken"));
    assert_eq!(cache.get_or_make(1, || Ok(7), |_| 1), Ok(7));
}

#[test]
fn many_who_ask_at_once_wait_for_one_maker() {
    const N_THREADS: usize = 8;
    let cache = Cache::<u8, usize, ()>::new(CAPACITY);
    let (n_made, start) = (AtomicUsize::new(0), Barrier::new(N_THREADS));
    let ask = || {
        start.wait();
        cache.get_or_make(1, || Ok(n_made.fetch_add(1, Ordering::SeqCst)), |_| 1)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..N_THREADS).map(|_| scope.spawn(ask)).collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), Ok(0));
        }
    });
    assert_eq!(n_made.into_inner(), 1);
}
