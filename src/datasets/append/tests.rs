//! In which order rows end up.

use model::{block::Series, dataset::Dtype};

use super::*;

#[test]
fn rows_are_sorted_and_the_last_of_a_timestamp_is_kept() {
    let mut block = Block::new(&[Dtype::Integer]);
    block.times = [3, 1, 3, 2].map(Timestamp::from_seconds).to_vec();
    block.columns = vec![Series::Integer(vec![Some(1), Some(2), Some(3), None])];
    let sorted = sort_rows(&block, AppendMode::Replace);
    assert_eq!(sorted.times, [1, 2, 3].map(Timestamp::from_seconds));
    assert_eq!(sorted.columns, [Series::Integer(vec![Some(2), None, Some(3)])]);
}
