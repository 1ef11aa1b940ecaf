//! Buckets that a write reads or changes, in the tables of PostgreSQL.

use futures::TryStreamExt as _;
use model::dataset::DatasetId;
use model::resolution::Resolution;
use model::row::Bucket;
use model::timestamp::Timestamp;
use sqlx::postgres::PgBindIterExt as _;
use sqlx::{PgConnection, Row as _};

use super::Result;
use super::binary::read_bucket;
use super::head::Head;
use super::time::{Time, bounds, lists};
use crate::rollup::{Refolded, coarsen_changed};
use crate::span::Span;
use crate::store::series;

/// Stored buckets from which longer buckets are computed.
#[derive(Debug, Default)]
pub(super) struct Sources {
    /// Stored buckets of five minutes.
    pub(super) finest: Vec<Bucket>,
    /// Stored buckets of an hour.
    pub(super) hours: Vec<Bucket>,
}

/// Changed buckets of a write, for each resolution.
#[derive(Debug, Default)]
pub(super) struct Levels(Vec<(Resolution, Refolded)>);

/// Returns the number that represents a resolution in the tables.
pub(super) fn code(resolution: Resolution) -> i32 {
    i32::try_from(series::code(resolution)).unwrap_or(i32::MAX)
}

/// Reads the buckets of five minutes in the hours around `times`, and the buckets of an hour in the days
/// around `times`, which are sorted.
pub(super) async fn read_sources(
    c: &mut PgConnection,
    head: &Head,
    times: &[Timestamp],
) -> Result<Sources> {
    let mut spans: Vec<(i32, Span)> = Vec::new();
    for (finer, longer) in
        [(Resolution::FiveMinutes, Resolution::Hour), (Resolution::Hour, Resolution::Day)]
    {
        let starts = times.iter().map(|time| longer.bucket_start(*time));
        for start in starts.filter(|start| head.buckets_end().is_some_and(|end| *start <= end)) {
            let span = (code(finer), series::span(longer, start));
            if spans.last() != Some(&span) {
                spans.push(span);
            }
        }
    }
    let mut sources = Sources::default();
    if spans.is_empty() {
        return Ok(sources);
    }
    let (codes, spans): (Vec<i32>, Vec<Span>) = spans.into_iter().unzip();
    let (firsts, lasts) = lists(&spans);
    let mut rows = sqlx::query(
        "SELECT b.resolution, b.ts, b.open, b.high, b.low, b.close, b.volume, b.count
         FROM unnest($2::integer[], $3::timestamptz[], $4::timestamptz[]) AS s (resolution, first, last)
         CROSS JOIN LATERAL (
             SELECT * FROM datasets.buckets b WHERE b.dataset = $1 AND b.resolution = s.resolution
                 AND b.ts BETWEEN s.first AND s.last OFFSET 0
         ) AS b ORDER BY b.ts",
    )
    .bind(head.dataset.get())
    .bind(codes)
    .bind(firsts)
    .bind(lasts)
    .fetch(c);
    while let Some(row) = rows.try_next().await? {
        let resolution: i32 = row.try_get(0)?;
        let bucket = read_bucket(&row, 1)?;
        if resolution == code(Resolution::Hour) {
            sources.hours.push(bucket);
        } else {
            sources.finest.push(bucket);
        }
    }
    Ok(sources)
}

/// Deletes the buckets that lie completely within a span.
pub(super) async fn delete_within(
    c: &mut PgConnection,
    dataset: DatasetId,
    span: Span,
) -> Result<()> {
    let (first, last) = bounds(span);
    sqlx::query(
        "DELETE FROM datasets.buckets WHERE dataset = $1 AND resolution = ANY($2)
         AND ts BETWEEN $3 AND $4
         AND ts + resolution * interval '1 second' <= $4 + interval '1 microsecond'",
    )
    .bind(dataset.get())
    .bind(Resolution::ALL.map(code).to_vec())
    .bind(first)
    .bind(last)
    .execute(c)
    .await?;
    Ok(())
}

impl Levels {
    /// Computes the longer buckets that contain any of the `changed` buckets of five minutes or any of
    /// `times`. `stored` provides the buckets that did not change. All arguments are sorted.
    pub(super) fn refold(times: &[Timestamp], changed: Refolded, stored: &Sources) -> Self {
        let longer = |resolution| coarsen_changed(&stored.finest, &changed, times, resolution);
        let (quarters, hours) = (longer(Resolution::FifteenMinutes), longer(Resolution::Hour));
        let longest = |resolution| coarsen_changed(&stored.hours, &hours, times, resolution);
        let (four_hours, days) = (longest(Resolution::FourHours), longest(Resolution::Day));
        Self(vec![
            (Resolution::FiveMinutes, changed),
            (Resolution::FifteenMinutes, quarters),
            (Resolution::Hour, hours),
            (Resolution::FourHours, four_hours),
            (Resolution::Day, days),
        ])
    }

    /// Stores the changed buckets and deletes buckets without rows.
    pub(super) async fn put(self, c: &mut PgConnection, dataset: DatasetId) -> Result<()> {
        let (mut stored, mut gone) = (Vec::new(), Vec::new());
        for (resolution, buckets) in self.0 {
            for (start, bucket) in buckets {
                match bucket {
                    Some(bucket) => stored.push((code(resolution), bucket)),
                    None => gone.push((code(resolution), Time(start))),
                }
            }
        }
        if !stored.is_empty() {
            put(c, dataset, &stored).await?;
        }
        if !gone.is_empty() {
            let (codes, starts): (Vec<i32>, Vec<Time>) = gone.into_iter().unzip();
            let sql = "DELETE FROM datasets.buckets b
                 USING unnest($2::integer[], $3::timestamptz[]) AS g (resolution, ts)
                 WHERE b.dataset = $1 AND b.resolution = g.resolution AND b.ts = g.ts";
            sqlx::query(sql).bind(dataset.get()).bind(codes).bind(starts).execute(c).await?;
        }
        Ok(())
    }
}

/// Inserts or replaces buckets.
async fn put(c: &mut PgConnection, dataset: DatasetId, buckets: &[(i32, Bucket)]) -> Result<()> {
    let numbers = |number: fn(&Bucket) -> f64| {
        buckets.iter().map(move |(_, bucket)| number(bucket)).bind_iter()
    };
    sqlx::query(
        "INSERT INTO datasets.buckets
             (dataset, resolution, ts, open, high, low, close, volume, count)
         SELECT $1, * FROM unnest($2::integer[], $3::timestamptz[], $4::float8[], $5::float8[],
             $6::float8[], $7::float8[], $8::float8[], $9::bigint[])
         ON CONFLICT (dataset, resolution, ts) DO UPDATE SET open = excluded.open,
             high = excluded.high, low = excluded.low, close = excluded.close,
             volume = excluded.volume, count = excluded.count",
    )
    .bind(dataset.get())
    .bind(buckets.iter().map(|(code, _)| *code).bind_iter())
    .bind(buckets.iter().map(|(_, bucket)| Time(bucket.timestamp)).bind_iter())
    .bind(numbers(|bucket| bucket.open))
    .bind(numbers(|bucket| bucket.high))
    .bind(numbers(|bucket| bucket.low))
    .bind(numbers(|bucket| bucket.close))
    .bind(numbers(|bucket| bucket.volume))
    .bind(buckets.iter().map(|(_, bucket)| bucket.count.cast_signed()).bind_iter())
    .execute(c)
    .await?;
    Ok(())
}
