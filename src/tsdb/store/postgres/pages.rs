//! Reading a series as one run: its chunks, and the single rows or buckets over them.
//!
//! Buckets in chunks are blocks of columns like rows, so that one walk reads both.

use model::{
    block::{Block, Rows, Series},
    resolution::Resolution,
    row::Bucket,
    timestamp::Timestamp,
};
use sqlx::PgConnection;

use super::{
    Result,
    chunks::{self, CHUNK_ROWS},
    cold::{self, Fetched},
    place::{At, Place},
    singles, tail,
};
use crate::{
    rollup::coarsen,
    span::{Order, Span},
    store::{
        PAGE_TEXT_BYTES_MAX,
        series::{self, ALL, KEPT, SeriesId},
    },
};

/// Which rows of a series to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    pub(super) span: Span,
    pub(super) order: Order,
    pub(super) skip: u64,
    pub(super) limit: usize,
}

impl Wanted {
    pub(super) const fn all(span: Span) -> Self {
        Self { span, order: Order::Ascending, skip: 0, limit: usize::MAX }
    }
}

/// A stored series, and a block like those of it, without rows.
#[derive(Debug, Clone)]
pub(super) struct StoredSeries {
    pub(super) id: SeriesId,
    pub(super) empty: Block,
    /// Chunks in objects that reads may need.
    pub(super) fetched: Fetched,
}

impl StoredSeries {
    /// The buckets of a resolution that is stored.
    pub(super) fn buckets(id: SeriesId) -> Self {
        Self { id, empty: Block::from([].as_slice()), fetched: Fetched::default() }
    }

    /// The first rows of a span in the tail, or single buckets; oldest first.
    async fn singles(
        &self,
        c: &mut PgConnection,
        span: Span,
        order: Order,
        limit: u64,
    ) -> Result<Block> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        if self.id.resolution == Resolution::Raw {
            return tail::read(c, &self.empty, self.id.dataset, span, order, limit).await;
        }
        Ok(Block::from(singles::read(c, self.id, span, order, limit).await?.as_slice()))
    }

    /// The timestamps of single rows or buckets that are in no chunk, too.
    async fn between(&self, c: &mut PgConnection, span: Span) -> Result<Vec<Timestamp>> {
        if self.id.resolution == Resolution::Raw {
            let sql = "SELECT t FROM tail
                 WHERE dataset = $1 AND t BETWEEN $2 AND $3 AND NOT replaces ORDER BY t";
            let times: Vec<i64> = sqlx::query_scalar(sql)
                .bind(self.id.dataset.get())
                .bind(span.first.micros())
                .bind(span.last.micros())
                .fetch_all(c)
                .await?;
            return Ok(times.into_iter().map(Timestamp::from_micros).collect());
        }
        let single = singles::read(c, self.id, span, Order::Ascending, i64::MAX).await?;
        let times: Vec<Timestamp> = single.iter().map(|bucket| bucket.timestamp).collect();
        let held = chunks::find_held(c, self.id, &times).await?;
        Ok(times.into_iter().filter(|time| held.binary_search(time).is_err()).collect())
    }

    /// Rows in the order asked for: fewer than asked for where their text is too long for a page.
    pub(super) async fn read(&self, c: &mut PgConnection, wanted: &Wanted) -> Result<Block> {
        let Wanted { mut span, order, skip, limit } = *wanted;
        let mut page = self.empty.clone();
        let mut skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let mut left = limit;
        let mut n_bytes = 0;
        while left > 0 && span.first <= span.last && n_bytes <= PAGE_TEXT_BYTES_MAX {
            let n_chunks = (skip.saturating_add(left) / CHUNK_ROWS).min(256) + 2;
            let n_chunks = i64::try_from(n_chunks).unwrap_or(2);
            let (chunks, is_all) =
                cold::read(c, self.id, span, order, n_chunks, &self.fetched).await?;
            let end = chunks.last().map(|chunk| chunk.place.span).filter(|_| !is_all);
            let here = match (end, order) {
                (None, _) => span,
                (Some(end), Order::Ascending) => Span { last: end.last.min(span.last), ..span },
                (Some(end), Order::Descending) => Span { first: end.first.max(span.first), ..span },
            };
            let mut under = self.empty.clone();
            let n = chunks.len();
            for nth in 0..n {
                let nth = if order == Order::Ascending { nth } else { n - 1 - nth };
                if let Some(chunk) = chunks.get(nth) {
                    chunk.decode(self.id.dataset, here, &mut under, None)?;
                }
            }
            let n_wanted = u64::try_from(skip.saturating_add(left)).unwrap_or(u64::MAX);
            let over = self.singles(c, here, order, n_wanted).await?;
            let merged = if over.is_empty() { under } else { under.merge(&over) };
            let n = merged.len();
            let (n_skipped, n_taken) = (skip.min(n), left.min(n - skip.min(n)));
            let rows = match order {
                Order::Ascending => n_skipped..n_skipped + n_taken,
                Order::Descending => n - n_skipped - n_taken..n - n_skipped,
            };
            let mut part = if rows == (0..n) { merged } else { merged.part(rows) };
            if order == Order::Descending {
                part.reverse();
            }
            n_bytes += part.text_bytes();
            page.extend_from(&part, 0..part.len());
            (skip, left) = (skip - n_skipped, left - n_taken);
            if end.is_none() {
                break;
            }
            match order {
                Order::Ascending => span.first = after(here.last),
                Order::Descending => span.last = before(here.first),
            }
        }
        Ok(page)
    }

    /// How many rows a span has, and what is left to read of it once the chunks are passed that lie
    /// before the first wanted row.
    pub(super) async fn count(
        &self,
        c: &mut PgConnection,
        wanted: &Wanted,
    ) -> Result<(u64, Wanted)> {
        let span = wanted.span;
        if span.first > span.last {
            return Ok((0, *wanted));
        }
        let between = self.between(c, span).await?;
        let mut places = chunks::all_places(c, self.id, span).await?;
        for idx in [places.len().saturating_sub(1), 0] {
            self.expand(c, &mut places, idx, span).await?;
        }
        // Ends of the span lie in these alone.
        let n_places = places.len();
        for (idx, place) in places.iter_mut().enumerate() {
            if idx == 0 || idx + 1 == n_places {
                place.n = chunks::n_within(c, self.id, *place, span, &self.fetched).await?;
            }
        }
        let n_rows = places.iter().map(|place| place.n).sum::<usize>() + between.len();
        let n_rows = u64::try_from(n_rows).unwrap_or(u64::MAX);
        let (mut left, last) = seek(wanted, &places, &between);
        if left.skip > 0 && self.expand(c, &mut places, last, span).await? {
            (left, _) = seek(wanted, &places, &between);
        }
        Ok((n_rows, left))
    }

    /// Puts the chunks of a segment that touch a span in its place; whether it is one.
    async fn expand(
        &self,
        c: &mut PgConnection,
        places: &mut Vec<Place>,
        idx: usize,
        span: Span,
    ) -> Result<bool> {
        let Some(Place { id, at: At::Segment, .. }) = places.get(idx).copied() else {
            return Ok(false);
        };
        let chunks = cold::expand(c, self.id.dataset, vec![id], span).await?;
        places.splice(idx..=idx, chunks);
        Ok(true)
    }
}

/// What is left to read once chunks are passed, and the index of the place that it begins in: of
/// `places`, whose rows are those of the span.
fn seek(wanted: &Wanted, places: &[Place], between: &[Timestamp]) -> (Wanted, usize) {
    let (mut left, mut n_in_chunks, mut last) = (*wanted, 0, 0);
    let n = places.len();
    for nth in 0..n {
        let idx = if wanted.order == Order::Ascending { nth } else { n - 1 - nth };
        let Some(place) = places.get(idx) else { break };
        let n_between = match wanted.order {
            Order::Ascending => between.partition_point(|time| *time < place.span.first),
            Order::Descending => {
                between.len() - between.partition_point(|time| *time <= place.span.last)
            }
        };
        let n_passed = u64::try_from(n_in_chunks + n_between).unwrap_or(u64::MAX);
        if n_passed > wanted.skip {
            break;
        }
        last = idx;
        // The first chunk is left to the reader, as are rows before it.
        if nth > 0 {
            left.skip = wanted.skip - n_passed;
            match wanted.order {
                Order::Ascending => left.span.first = place.span.first,
                Order::Descending => left.span.last = place.span.last,
            }
        }
        n_in_chunks += place.n;
    }
    (left, last)
}

fn after(timestamp: Timestamp) -> Timestamp {
    Timestamp::from_micros(timestamp.micros().saturating_add(1))
}

fn before(timestamp: Timestamp) -> Timestamp {
    Timestamp::from_micros(timestamp.micros().saturating_sub(1))
}

/// The buckets of a block, oldest first or as they lie.
pub(super) fn buckets_of(block: &Block) -> Vec<Bucket> {
    let number = |place: usize, row_idx: usize| match block.columns.get(place) {
        Some(Series::Float(values)) => values.get(row_idx).copied().flatten().unwrap_or_default(),
        _ => 0.0,
    };
    let count = |row_idx: usize| match block.columns.last() {
        Some(Series::Integer(counts)) => counts.get(row_idx).copied().flatten().unwrap_or_default(),
        _ => 0,
    };
    let bucket = |(row_idx, timestamp): (usize, &Timestamp)| Bucket {
        timestamp: *timestamp,
        open: number(0, row_idx),
        high: number(1, row_idx),
        low: number(2, row_idx),
        close: number(3, row_idx),
        volume: number(4, row_idx),
        count: u64::try_from(count(row_idx)).unwrap_or_default(),
    };
    block.times.iter().enumerate().map(bucket).collect()
}

/// Buckets in the order asked for, of any resolution.
pub(super) async fn buckets(
    c: &mut PgConnection,
    id: SeriesId,
    wanted: &Wanted,
) -> Result<Vec<Bucket>> {
    if KEPT.contains(&id.resolution) {
        let series = StoredSeries::buckets(id);
        return Ok(buckets_of(&series.read(c, wanted).await?));
    }
    let Some(finer) = id.resolution.source() else { return Ok(Vec::new()) };
    let n_finer = series::code(id.resolution) / series::code(finer).max(1);
    let n_finer = usize::try_from(n_finer).unwrap_or(1);
    let skip = usize::try_from(wanted.skip).unwrap_or(usize::MAX);
    // So many hold all that are wanted; of the last one some may be missing, which is one too many.
    let limit = skip.saturating_add(wanted.limit).saturating_mul(n_finer);
    let finer = StoredSeries::buckets(SeriesId { resolution: finer, ..id });
    let wide = Wanted { span: widened(id.resolution, wanted.span), skip: 0, limit, ..*wanted };
    let mut found = buckets_of(&finer.read(c, &wide).await?);
    if wanted.order == Order::Descending {
        found.reverse();
    }
    let mut coarse = coarsen(&found, id.resolution);
    if wanted.order == Order::Descending {
        coarse.reverse();
    }
    Ok(coarse.into_iter().skip(skip).take(wanted.limit).collect())
}

/// How many buckets a span has, of any resolution.
pub(super) async fn count_buckets(
    c: &mut PgConnection,
    id: SeriesId,
    wanted: &Wanted,
) -> Result<(u64, Wanted)> {
    if KEPT.contains(&id.resolution) {
        return StoredSeries::buckets(id).count(c, wanted).await;
    }
    let all = buckets(c, id, &Wanted::all(wanted.span)).await?;
    Ok((u64::try_from(all.len()).unwrap_or(u64::MAX), *wanted))
}

/// The timestamps of all buckets that start within `span`.
fn widened(resolution: Resolution, span: Span) -> Span {
    let floor = resolution.bucket_start(span.first);
    let first =
        if floor == span.first { floor } else { after(series::span(resolution, floor).last) };
    Span { first, last: series::span(resolution, resolution.bucket_start(span.last)).last }
}

/// Buckets that a scan hands on at a time.
const BATCH_BUCKETS: usize = 4096;

/// The next buckets of a scan of `span`, oldest first, and what is left of it after them; `None` after
/// the last ones.
pub(super) async fn next_buckets(
    c: &mut PgConnection,
    id: SeriesId,
    span: Span,
) -> Result<Option<(Rows, Span)>> {
    let found = buckets(c, id, &Wanted { limit: BATCH_BUCKETS, ..Wanted::all(span) }).await?;
    let Some(last) = found.last() else { return Ok(None) };
    let first = after(series::span(id.resolution, last.timestamp).last);
    Ok(Some((Rows::Buckets(found), Span { first, ..span })))
}

/// The end of the five minutes in which the last chunk ends that is not among the newest of `n_bytes`
/// together: rows are let go up to such an end.
pub(super) async fn newest_within(
    c: &mut PgConnection,
    series: SeriesId,
    n_bytes: u64,
) -> Result<Option<Timestamp>> {
    let (dataset, resolution) = series.key();
    let n_bytes = i64::try_from(n_bytes).unwrap_or(i64::MAX);
    // The first chunks or segments with which they are more, and the bytes of those after each.
    let found: Vec<(i64, Option<i64>, i64, i64)> = sqlx::query_as(
        "SELECT t_last, segment, nth, n_bytes - size FROM (
             SELECT t_last, segment, size, row_number() OVER newest AS nth,
                 (sum(size) OVER newest)::bigint AS n_bytes
             FROM (
                 SELECT t_last, NULL::bigint AS segment,
                     (octet_length(times) + octet_length(body))::bigint AS size
                 FROM chunks WHERE dataset = $1 AND resolution = $2
                 UNION ALL
                 SELECT t_last, id, bytes FROM segments WHERE dataset = $1 AND resolution = $2
             ) AS each WINDOW newest AS (ORDER BY t_last DESC)
         ) AS sized WHERE (nth > 1 OR segment IS NOT NULL) AND n_bytes > $3
         ORDER BY t_last DESC LIMIT 2",
    )
    .bind(dataset)
    .bind(resolution)
    .bind(n_bytes)
    .fetch_all(&mut *c)
    .await?;
    let [finest, ..] = KEPT;
    let end = |last| finest.bucket_start(last) + finest.bucket().unwrap_or_default();
    for (last, segment, nth, after) in found {
        let Some(segment) = segment else { return Ok(Some(end(Timestamp::from_micros(last)))) };
        let chunks = cold::expand(c, series.dataset, vec![segment], ALL).await?;
        // That of the newest chunk alone may have none.
        if let Some(last) = first_beyond(&chunks, nth == 1, n_bytes - after) {
            return Ok(Some(end(last)));
        }
    }
    Ok(None)
}

/// The end of the newest of some chunks of a segment with which they are more than `n_bytes`; without
/// the last one where that `is_newest` of all.
fn first_beyond(chunks: &[Place], is_newest: bool, n_bytes: i64) -> Option<Timestamp> {
    let mut n_passed = 0;
    for (nth, place) in chunks.iter().rev().enumerate() {
        n_passed += place.n_bytes_fetched();
        if n_passed > n_bytes && !(is_newest && nth == 0) {
            return Some(place.span.last);
        }
    }
    None
}
