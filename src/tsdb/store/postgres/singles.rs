//! Single buckets in their table, which win over those in chunks.

use db::postgres::fault::unsigned;
use model::{resolution::Resolution, row::Bucket, timestamp::Timestamp};
use sqlx::{AssertSqlSafe, PgConnection};

use super::{Result, tail::bounds};
use crate::{
    span::{Order, Span},
    store::series::{SeriesId, code, direction},
};

/// A row of the table, from `t` on.
type Columns = (i64, f64, f64, f64, f64, f64, i64);

/// The same behind its resolution.
type Placed = (i64, i64, f64, f64, f64, f64, f64, i64);

fn bucket(columns: Columns) -> Result<Bucket> {
    let (t, open, high, low, close, volume, count) = columns;
    let timestamp = Timestamp::from_micros(t);
    Ok(Bucket { timestamp, open, high, low, close, volume, count: unsigned(count)? })
}

/// The first `limit` buckets of a span in the given order, oldest first.
pub(super) async fn read(
    c: &mut PgConnection,
    series: SeriesId,
    span: Span,
    order: Order,
    limit: i64,
) -> Result<Vec<Bucket>> {
    let (dataset, resolution, first, last) = series.within(span);
    let sql = format!(
        "SELECT t, open, high, low, close, volume, count FROM buckets
         WHERE dataset = $1 AND resolution = $2 AND t BETWEEN $3 AND $4 ORDER BY t {} LIMIT $5",
        direction(order)
    );
    let rows: Vec<Columns> = sqlx::query_as(AssertSqlSafe(sql))
        .bind(dataset)
        .bind(resolution)
        .bind(first)
        .bind(last)
        .bind(limit)
        .fetch_all(c)
        .await?;
    let mut found = rows.into_iter().map(bucket).collect::<Result<Vec<_>>>()?;
    if order == Order::Descending {
        found.reverse();
    }
    Ok(found)
}

/// The buckets of several spans, oldest first.
pub(super) async fn read_spans(
    c: &mut PgConnection,
    series: SeriesId,
    spans: &[Span],
) -> Result<Vec<Bucket>> {
    let (dataset, resolution) = series.key();
    let (first, last) = bounds(spans);
    let rows: Vec<Columns> = sqlx::query_as(
        "SELECT t, open, high, low, close, volume, count
         FROM unnest($3::bigint[], $4::bigint[]) AS s (first, last) CROSS JOIN LATERAL (
             SELECT * FROM buckets
             WHERE dataset = $1 AND resolution = $2 AND t BETWEEN s.first AND s.last OFFSET 0
         ) AS b ORDER BY t",
    )
    .bind(dataset)
    .bind(resolution)
    .bind(first)
    .bind(last)
    .fetch_all(c)
    .await?;
    rows.into_iter().map(bucket).collect()
}

/// The buckets of one span of each of some series of a dataset, oldest first.
pub(super) async fn read_each(
    c: &mut PgConnection,
    spans: &[(SeriesId, Span)],
) -> Result<Vec<Vec<Bucket>>> {
    let Some((series, _)) = spans.first() else { return Ok(Vec::new()) };
    let resolutions: Vec<i64> = spans.iter().map(|(series, _)| series.key().1).collect();
    let only: Vec<Span> = spans.iter().map(|(_, span)| *span).collect();
    let (first, last) = bounds(&only);
    let rows: Vec<Placed> = sqlx::query_as(
        "SELECT b.resolution, t, open, high, low, close, volume, count
         FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) AS s (resolution, first, last)
         CROSS JOIN LATERAL (
             SELECT * FROM buckets WHERE dataset = $1 AND buckets.resolution = s.resolution
             AND t BETWEEN s.first AND s.last OFFSET 0
         ) AS b ORDER BY t",
    )
    .bind(series.dataset.get())
    .bind(&resolutions)
    .bind(first)
    .bind(last)
    .fetch_all(c)
    .await?;
    let mut found = vec![Vec::new(); spans.len()];
    for (resolution, t, open, high, low, close, volume, count) in rows {
        let place = resolutions.iter().position(|known| *known == resolution);
        if let Some(found) = place.and_then(|place| found.get_mut(place)) {
            found.push(bucket((t, open, high, low, close, volume, count))?);
        }
    }
    Ok(found)
}

/// Buckets to be written, as the lists that a statement takes.
#[derive(Debug, Default)]
pub(super) struct BucketLists {
    pub(super) resolutions: Vec<i64>,
    pub(super) times: Vec<i64>,
    pub(super) opens: Vec<f64>,
    pub(super) highs: Vec<f64>,
    pub(super) lows: Vec<f64>,
    pub(super) closes: Vec<f64>,
    pub(super) volumes: Vec<f64>,
    pub(super) counts: Vec<i64>,
}

impl BucketLists {
    pub(super) fn add(&mut self, resolution: Resolution, bucket: &Bucket) {
        self.resolutions.push(code(resolution));
        self.times.push(bucket.timestamp.micros());
        self.opens.push(bucket.open);
        self.highs.push(bucket.high);
        self.lows.push(bucket.low);
        self.closes.push(bucket.close);
        self.volumes.push(bucket.volume);
        self.counts.push(i64::try_from(bucket.count).unwrap_or(i64::MAX));
    }
}

/// Puts buckets of several resolutions in their places.
pub(super) async fn put(c: &mut PgConnection, buckets: &[(SeriesId, Bucket)]) -> Result<()> {
    let Some((series, _)) = buckets.first() else { return Ok(()) };
    let mut lists = BucketLists::default();
    for (series, bucket) in buckets {
        lists.add(series.resolution, bucket);
    }
    sqlx::query(
        "INSERT INTO buckets (dataset, resolution, t, open, high, low, close, volume, count)
         SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::float8[], $5::float8[],
             $6::float8[], $7::float8[], $8::float8[], $9::bigint[])
         ON CONFLICT (dataset, resolution, t) DO UPDATE SET open = excluded.open,
             high = excluded.high, low = excluded.low, close = excluded.close,
             volume = excluded.volume, count = excluded.count",
    )
    .bind(series.dataset.get())
    .bind(lists.resolutions)
    .bind(lists.times)
    .bind(lists.opens)
    .bind(lists.highs)
    .bind(lists.lows)
    .bind(lists.closes)
    .bind(lists.volumes)
    .bind(lists.counts)
    .execute(c)
    .await?;
    Ok(())
}

/// Removes the buckets of a span.
pub(super) async fn remove(c: &mut PgConnection, series: SeriesId, span: Span) -> Result<()> {
    let (dataset, resolution, first, last) = series.within(span);
    sqlx::query(
        "DELETE FROM buckets WHERE dataset = $1 AND resolution = $2 AND t BETWEEN $3 AND $4",
    )
    .bind(dataset)
    .bind(resolution)
    .bind(first)
    .bind(last)
    .execute(c)
    .await?;
    Ok(())
}
