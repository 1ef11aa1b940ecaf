//! The tail in its table: single rows, which win over the chunks' rows at the same timestamps.

use db::postgres::fault::unsigned;
use model::{block::Block, dataset::DatasetId, timestamp::Timestamp};
use sqlx::{AssertSqlSafe, PgConnection};

use super::{Result, StoreError};
use crate::{
    codec::{Packing, decode_body, encode_body},
    span::{Order, Span},
    store::series::direction,
};

/// Rows of a span, oldest first: the first `limit` of them in the given order.
pub(super) async fn read(
    c: &mut PgConnection,
    empty: &Block,
    dataset: DatasetId,
    span: Span,
    order: Order,
    limit: i64,
) -> Result<Block> {
    let sql = format!(
        "SELECT t, body FROM tail WHERE dataset = $1 AND t BETWEEN $2 AND $3 ORDER BY t {} LIMIT $4",
        direction(order)
    );
    let rows: Vec<(i64, Vec<u8>)> = sqlx::query_as(AssertSqlSafe(sql))
        .bind(dataset.get())
        .bind(span.first.micros())
        .bind(span.last.micros())
        .bind(limit)
        .fetch_all(c)
        .await?;
    match order {
        Order::Ascending => decode(empty, dataset, rows.into_iter()),
        Order::Descending => decode(empty, dataset, rows.into_iter().rev()),
    }
}

/// Rows of any of several spans, oldest first.
pub(super) async fn read_spans(
    c: &mut PgConnection,
    empty: &Block,
    dataset: DatasetId,
    spans: &[Span],
) -> Result<Block> {
    let (first, last) = bounds(spans);
    let sql = "SELECT tail.t, tail.body FROM unnest($2::bigint[], $3::bigint[]) AS s (first, last)
         JOIN tail ON tail.dataset = $1 AND tail.t BETWEEN s.first AND s.last ORDER BY tail.t";
    let rows: Vec<(i64, Vec<u8>)> =
        sqlx::query_as(sql).bind(dataset.get()).bind(first).bind(last).fetch_all(c).await?;
    decode(empty, dataset, rows.into_iter())
}

/// Rows with numbers above `after`, by timestamp.
pub(super) async fn read_after(
    c: &mut PgConnection,
    empty: &Block,
    dataset: DatasetId,
    after: i64,
) -> Result<Block> {
    let sql = "SELECT t, body FROM tail WHERE dataset = $1 AND id > $2 ORDER BY t";
    let rows: Vec<(i64, Vec<u8>)> =
        sqlx::query_as(sql).bind(dataset.get()).bind(after).fetch_all(c).await?;
    decode(empty, dataset, rows.into_iter())
}

/// The bounds of spans, as two lists.
pub(super) fn bounds(spans: &[Span]) -> (Vec<i64>, Vec<i64>) {
    spans.iter().map(|span| (span.first.micros(), span.last.micros())).unzip()
}

/// Decodes rows of the tail, in their order.
pub(super) fn decode(
    empty: &Block,
    dataset: DatasetId,
    rows: impl Iterator<Item = (i64, Vec<u8>)>,
) -> Result<Block> {
    let mut block = empty.clone();
    for (t, body) in rows {
        block.times.push(Timestamp::from_micros(t));
        decode_body(&mut block, 1, &body, 0..1, None)
            .map_err(|source| StoreError::Damaged { dataset, source })?;
    }
    Ok(block)
}

/// Rows to be written, as the lists that a statement takes.
#[derive(Debug, Default)]
pub(super) struct RowLists {
    pub(super) times: Vec<i64>,
    pub(super) ids: Vec<i64>,
    pub(super) replaces: Vec<bool>,
    pub(super) bodies: Vec<Vec<u8>>,
}

impl RowLists {
    /// The lists of `rows`; `held` are the timestamps, in order, at which chunks have rows.
    pub(super) fn new(rows: &Block, held: &[Timestamp]) -> Self {
        let body = |row_idx| encode_body(rows, row_idx..row_idx + 1, Packing::Quick);
        let replaces = rows.times.iter().map(|time| held.binary_search(time).is_ok());
        Self {
            times: rows.times.iter().map(|time| time.micros()).collect(),
            ids: rows.ids.clone(),
            replaces: replaces.collect(),
            bodies: (0..rows.len()).map(body).collect(),
        }
    }
}

/// Puts rows into the tail. `held` are the timestamps, in order, at which chunks have rows.
pub(super) async fn put(
    c: &mut PgConnection,
    dataset: DatasetId,
    rows: &Block,
    held: &[Timestamp],
) -> Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let RowLists { times, ids, replaces, bodies } = RowLists::new(rows, held);
    sqlx::query(
        "INSERT INTO tail (dataset, t, id, replaces, body)
         SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::boolean[], $5::bytea[])
         ON CONFLICT (dataset, t) DO UPDATE
         SET id = excluded.id, replaces = excluded.replaces, body = excluded.body",
    )
    .bind(dataset.get())
    .bind(times)
    .bind(ids)
    .bind(replaces)
    .bind(bodies)
    .execute(c)
    .await?;
    Ok(())
}

/// Takes rows of a span out of the tail, oldest first, at most `limit`.
pub(super) async fn take(
    c: &mut PgConnection,
    empty: &Block,
    dataset: DatasetId,
    span: Span,
    limit: usize,
) -> Result<Block> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let taken = read(c, empty, dataset, span, Order::Ascending, limit).await?;
    if let Some(last) = taken.times.last() {
        remove(c, dataset, Span { first: span.first, last: *last }).await?;
    }
    Ok(taken)
}

/// Removes the rows of a span.
pub(super) async fn remove(c: &mut PgConnection, dataset: DatasetId, span: Span) -> Result<()> {
    sqlx::query("DELETE FROM tail WHERE dataset = $1 AND t BETWEEN $2 AND $3")
        .bind(dataset.get())
        .bind(span.first.micros())
        .bind(span.last.micros())
        .execute(c)
        .await?;
    Ok(())
}

/// How many rows a span has in the tail.
pub(super) async fn count(c: &mut PgConnection, dataset: DatasetId, span: Span) -> Result<usize> {
    let sql = "SELECT count(*) FROM tail WHERE dataset = $1 AND t BETWEEN $2 AND $3";
    let n: i64 = sqlx::query_scalar(sql)
        .bind(dataset.get())
        .bind(span.first.micros())
        .bind(span.last.micros())
        .fetch_one(c)
        .await?;
    Ok(unsigned(n)?)
}

/// The timestamp of the newest row of the tail.
pub(super) async fn newest(c: &mut PgConnection, dataset: DatasetId) -> Result<Option<Timestamp>> {
    let sql = "SELECT max(t) FROM tail WHERE dataset = $1";
    let newest: Option<i64> = sqlx::query_scalar(sql).bind(dataset.get()).fetch_one(c).await?;
    Ok(newest.map(Timestamp::from_micros))
}
