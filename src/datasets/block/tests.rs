//! Blocks merge and survive being bytes.

use proptest::prelude::*;

use model::row::Row;

use super::{codec::*, *};

const DTYPES: [Dtype; 4] = [Dtype::Float, Dtype::Integer, Dtype::String, Dtype::Boolean];

fn row() -> impl Strategy<Value = (i64, [Option<Value>; 4])> {
    let float = prop::option::of((-1e9_f64..1e9).prop_map(Value::Float));
    let integer = prop::option::of(any::<i64>().prop_map(Value::Integer));
    let string = prop::option::of("[a-zé\"]{0,5}".prop_map(Value::String));
    let boolean = prop::option::of(any::<bool>().prop_map(Value::Boolean));
    (0..200_i64, (float, integer, string, boolean).prop_map(|(f, i, s, b)| [f, i, s, b]))
}

/// A block of rows in order, one at a moment.
fn block() -> impl Strategy<Value = Block> {
    prop::collection::btree_map(0..200_i64, row(), 0..40).prop_map(|rows| {
        let mut block = Block::new(&DTYPES);
        for (second, (id, values)) in rows {
            block.times.push(Timestamp::from_seconds(second));
            block.ids.push(id);
            block.created.push(Timestamp::from_micros(id * 7));
            for (series, value) in block.columns.iter_mut().zip(values) {
                match value {
                    Some(value) => series.push(value).unwrap(),
                    None => series.push_missing(1),
                }
            }
        }
        block
    })
}

fn rows_of(block: &Block) -> Vec<(i64, Row)> {
    block.ids.iter().copied().zip(block.rows()).collect()
}

proptest! {
    #[test]
    fn any_part_of_a_block_survives_being_bytes(block in block(), a in 0..40_usize, b in 0..40_usize) {
        let encoded = encode(&block, 0..block.len());
        let times = decode_times(&encoded.times).unwrap();
        let (a, b) = (a.min(block.len()), b.min(block.len()));
        let rows = a.min(b)..a.max(b);
        let mut decoded = Block::new(&DTYPES);
        decode_into(&mut decoded, &times, &encoded.body, rows.clone()).unwrap();
        prop_assert_eq!(decoded, block.part(rows));
    }

    #[test]
    fn broken_bytes_are_refused_and_never_panic(block in block(), cut in any::<prop::sample::Index>(), flip in any::<u8>()) {
        let mut encoded = encode(&block, 0..block.len());
        let at = cut.index(encoded.body.len());
        let mut decoded = Block::new(&DTYPES);
        prop_assert!(decode_into(&mut decoded, &block.times, &encoded.body[..at], 0..block.len()).is_err());
        encoded.body[at] ^= flip;
        let mut decoded = Block::new(&DTYPES);
        decode_into(&mut decoded, &block.times, &encoded.body, 0..block.len()).ok();
    }

    #[test]
    fn merging_lets_the_upper_row_win(under in block(), over in block()) {
        let merged = under.merged(&over);
        let mut want: std::collections::BTreeMap<_, _> = rows_of(&under)
            .into_iter().map(|row| (row.1.timestamp, row)).collect();
        want.extend(rows_of(&over).into_iter().map(|row| (row.1.timestamp, row)));
        prop_assert_eq!(rows_of(&merged), want.into_values().collect::<Vec<_>>());
    }
}

#[test]
fn a_column_added_later_has_no_values_in_an_older_block() {
    let mut older = Block::new(&[Dtype::Float]);
    older.times.push(Timestamp::from_seconds(1));
    older.ids.push(1);
    older.created.push(Timestamp::from_seconds(2));
    older.columns[0].push(Value::Integer(3)).unwrap();
    let encoded = encode(&older, 0..1);
    let mut decoded = Block::new(&[Dtype::Float, Dtype::String]);
    decode_into(&mut decoded, &older.times, &encoded.body, 0..1).unwrap();
    assert_eq!(decoded.row(0).unwrap().values, [Some(Value::Float(3.0)), None]);
}
