//! Compares columnar files byte by byte. The files in `tests/data/datasets` were read with pyarrow,
//! which returned the rows below.

use std::{env, fs};

use ::parquet::file::metadata::{ParquetMetaDataReader, RowGroupMetaData};
use model::block::Series;
use model::resolution::Resolution;
use model::row::Bucket;
use model::timestamp::Timestamp;

use super::*;
use crate::write::bucket_columns;

const DTYPES: [(&str, Dtype); 5] = [
    ("price", Dtype::Float),
    ("trades_done", Dtype::Integer),
    ("note", Dtype::String),
    ("up", Dtype::Boolean),
    ("empty", Dtype::Float),
];

fn columns() -> Vec<Column> {
    let column = |(name, dtype): (&str, Dtype)| Column {
        id: 1,
        dataset_id: DatasetId::new(3).unwrap(),
        name: name.to_owned(),
        dtype,
        created_at: Timestamp::default(),
    };
    DTYPES.into_iter().map(column).collect()
}

/// Returns rows of every type, with some missing values.
fn block(rows: std::ops::Range<usize>) -> Block {
    let number = |n: usize| f64::from(u32::try_from(n).unwrap());
    let whole = |n: usize| i64::try_from(n).unwrap();
    Block {
        times: rows
            .clone()
            .map(|n| Timestamp::from_micros(1_785_448_620_000_000 + 60_500_000 * whole(n)))
            .collect(),
        ids: rows.clone().map(whole).collect(),
        created: rows.clone().map(|_| Timestamp::default()).collect(),
        columns: vec![
            Series::Float(rows.clone().map(|n| Some(number(n) * 1.25 - 3.0)).collect()),
            Series::Integer(rows.clone().map(|n| (n % 3 != 1).then(|| 134 - whole(n))).collect()),
            Series::String(
                rows.clone().map(|n| (n % 4 != 2).then(|| format!("é{n}").into())).collect(),
            ),
            Series::Boolean(rows.clone().map(|n| (n % 5 != 3).then_some(n % 2 == 0)).collect()),
            Series::Float(rows.map(|_| None).collect()),
        ],
    }
}

fn render(output: Output, resolution: Resolution, pieces: &[Rows]) -> Vec<u8> {
    let dataset = DatasetId::new(3).unwrap();
    let columns = match resolution {
        Resolution::Raw => columns(),
        _ => bucket_columns(dataset, false),
    };
    let buckets = resolution.bucket().map(|_| BucketFile::default());
    let mut document = Document::new(output, dataset, &columns, buckets);
    let mut to = Vec::new();
    document.begin(&mut to);
    for piece in pieces {
        document.rows(&mut to, piece);
    }
    document.end(&mut to);
    to
}

/// Compares a document with a stored file. Updates the file if `UPDATE_FILES` is set.
#[track_caller]
fn check(name: &str, got: &[u8]) {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/datasets");
    let path = format!("{root}/{name}");
    if env::var_os("UPDATE_FILES").is_some() {
        fs::create_dir_all(root).unwrap();
        fs::write(&path, got).unwrap();
    }
    assert!(fs::read(&path).unwrap() == got, "{name} is another file");
}

#[test]
fn columnar_files_equal_recorded_files_that_other_programs_can_read() {
    let rows = || vec![Rows::Raw(block(0..7)), Rows::Raw(block(7..7)), Rows::Raw(block(7..20))];
    check("rows.arrows", &render(Output::Arrow, Resolution::Raw, &rows()));
    check("rows.parquet", &render(Output::Parquet, Resolution::Raw, &rows()));
    check("empty.arrows", &render(Output::Arrow, Resolution::Raw, &[]));
    check("empty.parquet", &render(Output::Parquet, Resolution::Raw, &[]));
    let bucket = |n: u32| Bucket {
        timestamp: Timestamp::from_seconds(1_785_448_800 + 3600 * i64::from(n)),
        open: 1.0,
        high: f64::from(n) + 2.5,
        low: 0.5,
        close: 2.0,
        volume: 10.0,
        count: 60,
    };
    let buckets = || vec![Rows::Buckets((0..3).map(bucket).collect())];
    check("buckets.arrows", &render(Output::Arrow, Resolution::Hour, &buckets()));
    check("buckets.parquet", &render(Output::Parquet, Resolution::Hour, &buckets()));
}

#[test]
fn volume_beyond_the_range_of_floats_is_written_as_the_largest_float() {
    let render = |volume| {
        let timestamp = Timestamp::default();
        let (open, high, low, close) = (1.0, 1.0, 1.0, 1.0);
        let bucket = Bucket { timestamp, open, high, low, close, volume, count: 2 };
        let buckets = Rows::Buckets(vec![bucket]);
        render(Output::Parquet, Resolution::Hour, &[buckets])
    };
    assert!(render(f64::INFINITY) == render(f64::MAX));
    assert!(render(f64::NEG_INFINITY) == render(f64::MIN));
}

#[test]
fn columnar_rows_are_written_in_batches_of_equal_length() {
    let n = 3 * arrow::BATCH_ROWS + 1;
    let mut batched = Batched::new(fields(&columns(), true), None, Vec::new());
    for start in (0..n).step_by(1000) {
        let rows = Rows::Raw(block(start..n.min(start + 1000)));
        batched.rows(&rows, arrow::BATCH_ROWS, |lengths, block| lengths.push(block.len()));
    }
    batched.rest(|lengths, block| lengths.push(block.len()));
    assert_eq!(batched.file, [arrow::BATCH_ROWS, arrow::BATCH_ROWS, arrow::BATCH_ROWS, 1]);
    let mut batched = Batched::new(fields(&columns(), true), None, Vec::new());
    batched.rows(&Rows::Raw(block(0..25)), 10, |lengths, block| lengths.push(block.len()));
    assert_eq!((batched.file, batched.waiting.len()), (vec![10, 10], 5));
}

#[test]
fn wide_rows_are_written_in_smaller_batches() {
    let text: Box<str> = "x".repeat(BATCH_BYTES / 4).into();
    let mut block = block(0..1);
    block.columns[2] = Series::String(vec![Some(text)]);
    let pieces = [(); 9].map(|()| Rows::Raw(block.clone()));
    let file = render(Output::Parquet, Resolution::Raw, &pieces);
    let reader = ParquetMetaDataReader::new();
    let metadata = reader.parse_and_finish(&bytes::Bytes::from(file)).unwrap();
    let n_rows = metadata.row_groups().iter().map(RowGroupMetaData::num_rows);
    assert_eq!(n_rows.collect::<Vec<_>>(), [4, 4, 1]);
}
