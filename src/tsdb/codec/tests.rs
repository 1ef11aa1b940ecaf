//! Tests of the encoding of blocks.

use model::block::{Block, Series};
use model::dataset::Dtype;
use model::row::{Row, Value};
use model::timestamp::Timestamp;
use proptest::prelude::*;

use super::encode::Encoded;
use super::*;

const DTYPES: [Dtype; 4] = [Dtype::Float, Dtype::Integer, Dtype::String, Dtype::Boolean];

fn row() -> impl Strategy<Value = (i64, [Option<Value>; 4])> {
    let float = prop::option::of((-1e9_f64..1e9).prop_map(Value::Float));
    let integer = prop::option::of(any::<i64>().prop_map(Value::Integer));
    let string = prop::option::of("[a-zé\"]{0,5}".prop_map(Value::String));
    let boolean = prop::option::of(any::<bool>().prop_map(Value::Boolean));
    (0..200_i64, (float, integer, string, boolean).prop_map(|(f, i, s, b)| [f, i, s, b]))
}

/// Generates blocks of rows sorted by unique timestamp.
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

/// Generates blocks with two similar columns of floats and a column of integers.
fn number_columns() -> impl Strategy<Value = Block> {
    (0..8_u8, prop::collection::vec(any::<i64>(), 1..700)).prop_map(|(kind, values)| {
        let n = values.len();
        let floats: Vec<Option<f64>> = values
            .iter()
            .zip(0_i32..)
            .map(|(value, idx)| match kind {
                0 => Some(f64::from_bits(value.cast_unsigned())).filter(|value| value.is_finite()),
                1 => Some(f64::from(i32::try_from(value % 1_000_000).unwrap()) / 100.0),
                2 => Some(100.0 + f64::from(i32::try_from(value % 1000).unwrap()).sin()),
                3 => Some(-0.0),
                4 => (value % 3 != 0).then(|| f64::from(idx) * 1e-9),
                // Sums of decimals, and few numbers that are much longer than the others.
                5 => Some(f64::from(idx) * 0.1 + 0.2),
                6 => Some(if idx % 50 == 7 { 1e300 } else { f64::from(idx) }),
                _ => Some(f64::from(idx).powi(7) * if value % 2 == 0 { -1.0 } else { 1.0 }),
            })
            .collect();
        let mut block = Block::new(&[Dtype::Float, Dtype::Float, Dtype::Integer]);
        let micros = |value: &i64| value % 377_000_000_000_000_000;
        let mut times: Vec<i64> = if kind % 2 == 0 {
            (0..).step_by(60).take(n).collect()
        } else {
            values.iter().map(micros).collect()
        };
        times.sort_unstable();
        block.times = times.iter().map(|micros| Timestamp::from_micros(*micros)).collect();
        block.ids = match kind {
            1 => vec![values[0]; n],
            2 => (0..).take(n).map(|idx: i64| values[0].wrapping_add(idx * 3)).collect(),
            _ => values.clone(),
        };
        block.created = values.iter().map(|value| Timestamp::from_micros(micros(value))).collect();
        let near = floats.iter().map(|value| value.map(|value| value * 1.001)).collect();
        let integer = |(idx, value): (usize, i64)| match kind {
            6 if idx % 50 == 7 => i64::MIN,
            6 => value % 1000,
            _ => value,
        };
        let integers = values.into_iter().enumerate().map(integer).map(Some).collect();
        block.columns = vec![Series::Float(floats), Series::Float(near), Series::Integer(integers)];
        block
    })
}

/// Encodes the block with each packing.
fn forms(block: &Block) -> [Encoded; 2] {
    [Packing::Quick, Packing::Small].map(|packing| encode(block, 0..block.len(), packing))
}

/// Returns the bits of all numbers, which distinguish 0 from -0.
fn exact(block: &Block) -> Vec<Vec<Option<u64>>> {
    let bits = |series: &Series| match series {
        Series::Float(values) => values.iter().map(|value| value.map(f64::to_bits)).collect(),
        Series::Integer(values) => {
            values.iter().map(|value| value.map(i64::cast_unsigned)).collect()
        }
        _ => Vec::new(),
    };
    block.columns.iter().map(bits).collect()
}

fn n_values(series: &Series) -> usize {
    match series {
        Series::Float(values) => values.len(),
        Series::Integer(values) => values.len(),
        Series::String(values) => values.len(),
        Series::Boolean(values) => values.len(),
    }
}

fn rows_of(block: &Block) -> Vec<(i64, Row)> {
    block.ids.iter().copied().zip(block.rows()).collect()
}

/// Encodes a list in the form of stores before format 13.
fn pco_list<T: pco::data_types::Number>(values: &[T]) -> Vec<u8> {
    let pages = values.chunks(512).map(<[T]>::len).collect();
    let config = pco::ChunkConfig::default().with_paging_spec(pco::PagingSpec::Exact(pages));
    let file = pco::wrapped::FileCompressor::default();
    let mut chunk = file.chunk_compressor(values, &config).unwrap();
    let mut list = vec![2];
    put_long(&mut list, |to| {
        file.write_header(&mut *to).unwrap();
        chunk.write_meta(to).unwrap();
    });
    for page_idx in 0..values.len().div_ceil(512) {
        put_long(&mut list, |to| chunk.write_page(page_idx, to).map(drop).unwrap());
    }
    list
}

proptest! {
    #[test]
    fn lists_of_older_formats_are_read(
        values in prop::collection::vec(-1_000_000_000_000_i64..1_000_000_000_000, 1..1300),
        ends in any::<[prop::sample::Index; 2]>(),
        damage in any::<(prop::sample::Index, u8)>(),
    ) {
        let n = values.len();
        let [a, b] = ends.map(|end| end.index(n + 1));
        let rows = a.min(b)..a.max(b);
        #[expect(clippy::cast_precision_loss, reason = "the value is arbitrary")]
        let floats = |scale: f64| values.iter().map(move |value| *value as f64 / scale);
        let integers = pco_list(&values);
        let decimals = [&[3, 2], &*integers].concat();
        let mantissas = pco_list(&floats(3.0).collect::<Vec<_>>());
        let read = |list: &[u8]| {
            let mut read = Vec::new();
            numbers::read_floats(&mut read, list, n, &rows, |float| float).map(|()| read)
        };
        let mut numbers = Vec::new();
        read_numbers(&mut numbers, &integers, n, &rows, |number| number).unwrap();
        prop_assert_eq!(&numbers, &values[rows.clone()]);
        for (list, scale) in [(decimals, 100.0), (mantissas, 3.0)] {
            let want: Vec<f64> = floats(scale).skip(rows.start).take(rows.len()).collect();
            prop_assert_eq!(read(&list).unwrap(), want);
            let mut damaged = list;
            let at = damage.0.index(damaged.len());
            damaged[at] = damage.1;
            prop_assert!(read(&damaged).is_err() || read(&damaged).unwrap().len() == rows.len());
        }
    }

    #[test]
    fn any_range_of_rows_of_a_block_round_trips(
        block in block(), a in 0..40_usize, b in 0..40_usize,
    ) {
        let (a, b) = (a.min(block.len()), b.min(block.len()));
        let rows = a.min(b)..a.max(b);
        for encoded in forms(&block) {
            let timestamps = decode_times(&encoded.times, block.len()).unwrap();
            let mut decoded = Block::new(&DTYPES);
            decode_rows(&mut decoded, &timestamps, &encoded.body, rows.clone(), None).unwrap();
            prop_assert_eq!(&decoded, &block.part(rows.clone()));
        }
    }

    #[test]
    fn blocks_of_any_numbers_round_trip(
        block in number_columns(),
        a in any::<prop::sample::Index>(),
        b in any::<prop::sample::Index>(),
    ) {
        let n = block.len();
        let (a, b) = (a.index(n), b.index(n));
        let rows = a.min(b)..a.max(b);
        for packing in [Packing::Quick, Packing::Small] {
            let encoded = encode(&block, 0..n, packing);
            let timestamps = decode_times(&encoded.times, n).unwrap();
            let mut decoded = block.empty_like();
            decode_rows(&mut decoded, &timestamps, &encoded.body, rows.clone(), None).unwrap();
            let part = block.part(rows.clone());
            prop_assert_eq!(exact(&decoded), exact(&part));
            prop_assert_eq!((&decoded.times, &decoded.ids, &decoded.created), (&part.times, &part.ids, &part.created));
            let mut behind = decoded.clone();
            decode_rows(&mut behind, &timestamps, &encoded.body, rows.clone(), None).unwrap();
            prop_assert_eq!(exact(&behind.part(rows.len()..2 * rows.len())), exact(&part));
            let mut one = block.empty_like();
            decode_body(&mut one, n, &encoded.body, rows.clone(), Some(&[1])).unwrap();
            prop_assert_eq!(&one.columns[1], &decoded.columns[1]);
            prop_assert!(one.columns[0].number(0).is_none());
        }
    }

    #[test]
    fn blocks_of_any_timestamps_round_trip(
        mut micros in prop::collection::vec(-377_000_000_000_000_000..253_000_000_000_000_000_i64, 1..700),
        even in any::<bool>(),
    ) {
        let n = micros.len();
        if even {
            micros = (micros[0]..).step_by(60_000_000).take(n).collect();
        }
        micros.sort_unstable();
        let mut block = Block::new(&[]);
        block.times = micros.into_iter().map(Timestamp::from_micros).collect();
        block.ids = vec![0; n];
        block.created = vec![Timestamp::default(); n];
        let encoded = encode(&block, 0..n, Packing::Small);
        let timestamps = decode_times(&encoded.times, n).unwrap();
        prop_assert_eq!(&timestamps, &block.times);
    }

    #[test]
    fn decoding_damaged_bytes_is_rejected_without_panic(
        block in block(), cut in any::<prop::sample::Index>(), flip in any::<u8>(),
    ) {
        for mut encoded in forms(&block) {
            let at = cut.index(encoded.body.len());
            let mut decoded = Block::new(&DTYPES);
            let n = block.len();
            prop_assert!(decode_body(&mut decoded, n, &encoded.body[..at], 0..n, None).is_err());
            encoded.body[at] ^= flip;
            let mut decoded = Block::new(&DTYPES);
            let read = decode_body(&mut decoded, n, &encoded.body, 0..n, None);
            prop_assert!(flip == 0 || read.is_err());
            let at = cut.index(encoded.times.len().max(1));
            if let Some(byte) = encoded.times.get_mut(at) {
                *byte ^= flip;
                let read = decode_times(&encoded.times, n);
                prop_assert!(flip == 0 || read.is_err());
            }
        }
    }

    #[test]
    fn decoding_invalid_bytes_with_a_correct_checksum_does_not_panic(
        block in prop_oneof![block(), number_columns()],
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let n = block.len();
        for Encoded { times, body } in forms(&block) {
            let damaged = [times, body].map(|mut bytes| {
                for (at, byte) in &damage {
                    let at = 5 + at.index(bytes.len() - 5);
                    bytes[at] = *byte;
                }
                if let Some(cut) = cut {
                    bytes.truncate(5 + cut.index(bytes.len() - 5));
                }
                put_sum(&mut bytes);
                bytes
            });
            let [times, body] = &damaged;
            if let Ok(timestamps) = decode_times(times, n) {
                prop_assert_eq!(timestamps.len(), n);
            }
            let mut decoded = block.empty_like();
            if decode_body(&mut decoded, n, body, 0..n, None).is_ok() {
                prop_assert!(decoded.columns.iter().all(|series| n_values(series) == n));
            }
        }
    }

    #[test]
    fn merged_block_contains_rows_of_the_second_block_if_timestamps_are_equal(
        under in block(), over in block(),
    ) {
        let merged = under.merge(&over);
        let mut want: std::collections::BTreeMap<_, _> = rows_of(&under)
            .into_iter().map(|row| (row.1.timestamp, row)).collect();
        want.extend(rows_of(&over).into_iter().map(|row| (row.1.timestamp, row)));
        prop_assert_eq!(rows_of(&merged), want.into_values().collect::<Vec<_>>());
    }
}

/// Decoding bytes with a wrong row count must not allocate memory for this number of rows.
#[test]
fn block_with_an_excessive_row_count_is_rejected() {
    let mut block = Block::new(&[Dtype::Integer]);
    block.times = vec![Timestamp::default(); 3];
    block.columns = vec![Series::Integer(vec![Some(7); 3])];
    let Encoded { times, mut body } = encode(&block, 0..3, Packing::Small);
    for n in [ROWS_MAX + 1, u32::MAX as usize] {
        body[5..9].copy_from_slice(&u32::try_from(n).unwrap().to_le_bytes());
        put_sum(&mut body);
        let mut decoded = block.empty_like();
        assert_eq!(decode_body(&mut decoded, n, &body, 0..n, None), Err(damaged("too many rows")));
        assert_eq!(decode_times(&times, n).unwrap_err(), damaged("too many rows"));
    }
}

#[test]
fn blocks_packed_for_size_are_smaller_than_blocks_packed_for_speed() {
    let mut block = Block::new(&[Dtype::Float; 2]);
    let cents = |n: i32| f64::from(6_500_000 + n * 7919 % 401 - n % 37) / 100.0;
    block.times = (0..1024).map(|minute| Timestamp::from_seconds(minute * 60)).collect();
    block.columns = [0, 3]
        .map(|shift| Series::Float((0..1024).map(|n| Some(cents(n + shift))).collect()))
        .into();
    let [quick, small] = forms(&block).map(|encoded| encoded.times.len() + encoded.body.len());
    assert!(quick > 16 * 1024 && small < 3 * 1024, "{quick} and {small} bytes");
}

#[test]
fn column_added_after_a_block_has_no_values_in_the_block() {
    let mut older = Block::new(&[Dtype::Float]);
    older.times.push(Timestamp::from_seconds(1));
    older.ids.push(1);
    older.created.push(Timestamp::from_seconds(2));
    older.columns[0].push(Value::Integer(3)).unwrap();
    let encoded = encode(&older, 0..1, Packing::Quick);
    let mut decoded = Block::new(&[Dtype::Float, Dtype::String]);
    let timestamps = decode_times(&encoded.times, 1).unwrap();
    decode_rows(&mut decoded, &timestamps, &encoded.body, 0..1, None).unwrap();
    assert_eq!(decoded.row(0).unwrap().values, [Some(Value::Float(3.0)), None]);
}

#[test]
fn column_of_few_values_is_compressed_in_a_new_chunk() {
    let mut block = Block::new(&[Dtype::Float]);
    block.times = (0..1024).map(Timestamp::from_seconds).collect();
    let value = |row: usize| row.is_multiple_of(100).then_some(0.1 + 0.2);
    block.columns = vec![Series::Float((0..1024).map(value).collect())];
    let body = encode_body(&block, 0..1024, Packing::Quick);
    assert!(body.len() < 600, "{}", body.len());
    let mut decoded = Block::new(&[Dtype::Float]);
    decode_body(&mut decoded, 1024, &body, 0..1024, None).unwrap();
    assert_eq!(decoded.columns, block.columns);
}
