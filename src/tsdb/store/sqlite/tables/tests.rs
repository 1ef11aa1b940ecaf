//! Stores as earlier versions of the program wrote them.

use std::{collections::BTreeMap, path::Path};

use model::{
    block::Block,
    resolution::Resolution,
    row::{Bucket, Value},
    timestamp::Timestamp,
};
use rusqlite::Connection;

use super::*;
use crate::{
    codec::encode,
    rollup::{Fold, coarser},
    store::contract,
};

/// Writes rows at seconds into a store of version 1: a chunk of the first 1500, the others in the
/// tail, and buckets of the three lengths there were.
pub(crate) fn write_version_1(path: &Path, rows: &BTreeMap<i64, f64>) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(FIRST).unwrap();
    connection
        .execute_batch(
            "PRAGMA user_version = 1;
             UPDATE counters SET value = 99999;
             INSERT INTO datasets VALUES (1, 'old', 'About old', 7, 5, 5);
             INSERT INTO columns VALUES (1, 1, 0, 'value', 'float', 5);",
        )
        .unwrap();
    let mut block = contract::block(rows.clone());
    block.ids = (1..).take(block.len()).collect();
    block.created = vec![Timestamp::from_seconds(9); block.len()];
    let in_chunk = |block: &Block, idx: usize| idx < 1500 && block.times[idx].seconds() % 60 == 0;
    let (chunk, tail): (Vec<usize>, Vec<usize>) =
        (0..block.len()).partition(|idx| in_chunk(&block, *idx));
    let mut sealed = block.empty_like();
    for idx in chunk {
        sealed.extend_from(&block, idx..idx + 1);
    }
    let encoded = encode(&sealed, 0..sealed.len());
    let ends = (sealed.times[0].micros(), sealed.times[sealed.len() - 1].micros());
    connection
        .execute(
            "INSERT INTO chunks VALUES (1, 1, 0, ?1, ?2, ?3, ?4, ?5)",
            params![ends.0, ends.1, sealed.len(), encoded.times, encoded.body],
        )
        .unwrap();
    let (mut n_fresh, mut n_late) = (0, 0);
    for idx in tail {
        let time = block.times[idx].micros();
        *if time > ends.1 { &mut n_fresh } else { &mut n_late } += 1;
        connection
            .execute(
                "INSERT INTO tail VALUES (1, ?1, 0, ?2)",
                params![time, encode(&block, idx..idx + 1).body],
            )
            .unwrap();
    }
    // One row of the chunk is replaced by one of the tail.
    let replaced = {
        let mut row = block.part(0..1);
        row.columns[0] = model::block::Series::new(model::dataset::Dtype::Float);
        row.columns[0].push(Value::Float(rows[&0])).unwrap();
        encode(&row, 0..1).body
    };
    connection.execute("INSERT INTO tail VALUES (1, 0, 1, ?1)", [replaced]).unwrap();
    let newest = block.times.last().unwrap().micros();
    connection
        .execute(
            "INSERT INTO progress VALUES (1, 4, ?1, NULL, ?2, ?3)",
            params![newest, n_fresh, n_late + 1],
        )
        .unwrap();
    write_buckets(&connection, &block);
}

fn write_buckets(connection: &Connection, block: &Block) {
    let fold = Fold::Value { value: 0, volume: None };
    let mut buckets = fold.buckets(block, Resolution::FiveMinutes, None);
    for resolution in [Resolution::FiveMinutes, Resolution::Hour, Resolution::Day] {
        let start = |bucket: &Bucket| resolution.bucket_start(bucket.timestamp);
        buckets = buckets
            .chunk_by(|a, b| start(a) == start(b))
            .map(|group| coarser(start(&group[0]), group.to_vec()).unwrap())
            .collect();
        for Bucket { timestamp, open, high, low, close, volume, count } in &buckets {
            connection
                .execute(
                    "INSERT INTO buckets VALUES (1, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                    params![
                        i64::try_from(resolution.bucket().unwrap().as_secs()).unwrap(),
                        timestamp.micros(),
                        open,
                        high,
                        low,
                        close,
                        volume,
                        count
                    ],
                )
                .unwrap();
        }
    }
}
