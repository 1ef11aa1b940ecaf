//! Measures inserts over HTTP by one client, as NDJSON and as Parquet, relative to `PostgreSQL`'s COPY
//! of the same rows.
//!
//! While the service commits a body, the client already sends the next body, as `datasets import` does.

use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, TimeUnit, Type as Physical};
use parquet::data_type::{DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use test_bench::http::Request;
use test_bench::{Row, note, per_second};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::market::{COLUMNS, Market};
use crate::program::Bench;
use crate::rows::{Options, millions};
use crate::{Outcome, postgres};

/// Number of rows of each inserted body.
const BATCH_ROWS: usize = 20_000;

/// Number of bodies that are sent concurrently.
const IN_FLIGHT: usize = 3;

/// Maximum number of rows of each format. Inserting so many rows takes some seconds.
const ROWS_MAX: usize = 2_000_000;

/// Minimum speed of each format, relative to COPY.
const BARS: [(&str, &str, f64); 2] =
    [("NDJSON", "application/x-ndjson", 1.5), ("Parquet", "application/vnd.apache.parquet", 3.0)];

/// Inserts the same rows in each format.
pub(crate) async fn all(bench: &Bench, options: &Options) -> Outcome<Vec<Row>> {
    let n_rows = options.n_rows.min(ROWS_MAX);
    let copied = postgres::copy(options, n_rows).await?;
    let mut rows = Vec::new();
    if let Some([plain, keyed]) = copied {
        let value = format!("{}; with a key {}", millions(plain), millions(keyed));
        rows.push(Row::without_bar("PostgreSQL, COPY of plain rows", value));
    }
    for (form, kind, bar) in BARS {
        let rate = insert(bench, form, kind, n_rows).await?;
        let name = format!("bulk_insert, {form} of {BATCH_ROWS} rows, one client");
        rows.push(match copied {
            None => Row::without_bar(&name, millions(rate)),
            Some([plain, _]) => {
                let value = format!("{} / COPY = {:.2}", millions(rate), rate / plain);
                Row::new(&name, value, &format!("{bar} at least"), rate >= bar * plain)
            }
        });
    }
    Ok(rows)
}

async fn insert(bench: &Bench, form: &str, kind: &str, n_rows: usize) -> Outcome<f64> {
    let dataset = bench.create(&format!("bench_{form}"), &COLUMNS).await?;
    let path = format!("/api/rows/bulk_insert/?dataset={dataset}");
    let mut market = Market::new();
    let mut requests = Vec::new();
    for _ in 0..n_rows.div_ceil(BATCH_ROWS) {
        let body = match form {
            "Parquet" => file(&mut market)?,
            _ => market.lines(BATCH_ROWS).into_bytes(),
        };
        requests.push(Request::post(&path, &bench.key, kind, &body));
    }
    let n_requests = requests.len();
    requests.reverse();
    let requests = Arc::new(Mutex::new(requests));
    let (began, cpu) = (Instant::now(), bench.cpu()?);
    let mut clients = JoinSet::new();
    for _ in 0..IN_FLIGHT {
        let (mut connection, requests) = (bench.connect().await?, Arc::clone(&requests));
        clients.spawn(async move {
            while let Some(request) = { requests.lock().await.pop() } {
                connection.send(&request).await?.ok()?;
            }
            Ok(())
        });
    }
    while let Some(ended) = clients.join_next().await {
        let ended: Outcome<()> = ended?;
        ended?;
    }
    let (took, cpu) = (began.elapsed(), bench.cpu()?.saturating_sub(cpu));
    let rate = per_second(n_requests * BATCH_ROWS, took);
    note(&format!("{form}: {took:.1?}, {rate:.0} rows/s, {cpu:.1?} of processor time"))?;
    Ok(rate)
}

/// Writes the next rows to a Parquet file, in the form that pyarrow writes.
fn file(market: &mut Market) -> Outcome<Vec<u8>> {
    let timestamp = Type::primitive_type_builder("timestamp", Physical::INT64)
        .with_logical_type(Some(LogicalType::timestamp(true, TimeUnit::MICROS)));
    let mut fields = vec![Arc::new(timestamp.build()?)];
    for name in COLUMNS {
        fields.push(Arc::new(Type::primitive_type_builder(name, Physical::DOUBLE).build()?));
    }
    let schema = Type::group_type_builder("schema").with_fields(fields).build()?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
    let (times, columns) = market.columns(BATCH_ROWS);
    let mut group = writer.next_row_group()?;
    if let Some(mut column) = group.next_column()? {
        column.typed::<Int64Type>().write_batch(&times, Some(&vec![1; times.len()]), None)?;
        column.close()?;
    }
    for values in columns {
        let Some(mut column) = group.next_column()? else { break };
        column.typed::<DoubleType>().write_batch(&values, Some(&vec![1; values.len()]), None)?;
        column.close()?;
    }
    group.close()?;
    Ok(writer.into_inner()?)
}
