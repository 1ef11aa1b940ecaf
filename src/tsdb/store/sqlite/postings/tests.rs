//! Sets of numbers, in memory and through their bytes.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn ids(numbers: &BTreeSet<i64>) -> Ids {
    let mut ids = Ids::default();
    for number in numbers {
        assert!(ids.insert(*number) && !ids.insert(*number));
    }
    ids
}

/// Numbers close together and far apart, so that blocks are dense, sparse and missing.
fn numbers() -> impl Strategy<Value = BTreeSet<i64>> {
    let dense = (0..40_000_i64, 1..3000_usize, 1..3_i64)
        .prop_map(|(first, n, step)| (0..).map(|idx| first + idx * step).take(n).collect());
    let sparse = prop::collection::btree_set(1..5_000_000_i64, 0..50);
    let both = (dense, sparse).prop_map(|(dense, sparse): (BTreeSet<i64>, _)| &dense | &sparse);
    both.prop_map(|numbers| numbers.into_iter().filter(|number| *number > 0).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_set_has_what_was_put_in(a in numbers(), b in numbers(), skip in 0..4000_usize, limit in 0..900_usize) {
        let set = ids(&a);
        prop_assert_eq!(set.len(), a.len());
        prop_assert!(a.iter().all(|number| set.has(*number)));
        let want: Vec<i64> = a.iter().copied().skip(skip).take(limit).collect();
        prop_assert_eq!(set.page(skip, limit), want);
        let both = ids(&a).and(&ids(&b));
        prop_assert_eq!(both.page(0, usize::MAX), (&a & &b).into_iter().collect::<Vec<_>>());
        for block in set.blocks.values() {
            let mut read = Block::empty();
            read.unite_encoded(&block.encoded());
            prop_assert_eq!(&read, block);
            prop_assert!(block.encoded().len() <= BLOCK_WORDS * 8);
        }
    }
}
