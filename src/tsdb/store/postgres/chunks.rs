//! Chunks in their table: the long runs of rows, and of buckets.

use std::ops::Range;

use db::postgres::fault::unsigned;
use model::{block::Block, dataset::DatasetId, resolution::Resolution, timestamp::Timestamp};
use sqlx::{AssertSqlSafe, PgConnection};

use super::{
    Result, StoreError,
    cold::{self, Fetched, in_objects},
    place::{At, Place},
    tail::bounds,
};
use crate::{
    codec::{DecodeError, Packing, Timestamps, decode_rows, encode},
    span::{Order, Span},
    store::series::{SeriesId, code, direction},
};

/// Rows of a new chunk, as in the embedded store.
pub(super) const CHUNK_ROWS: usize = 1024;

/// Rows that are worth a chunk. Fewer wait in the tail for more to come.
pub(super) const CHUNK_ROWS_MIN: usize = CHUNK_ROWS / 2;

/// Bytes of chunks that one statement reads at most, give or take one chunk: a page may be of chunks
/// full of long texts.
pub(super) const READ_BYTES_MAX: i64 = 4 << 20;

/// A chunk that was read, packed as it is.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) place: Place,
    times: Vec<u8>,
    body: Vec<u8>,
}

/// The columns of a chunk, from `id` to `body`.
pub(super) type Columns = (i64, i64, i64, i64, Vec<u8>, Vec<u8>);

/// The same, and how many chunks were found in all.
type Counted = (i64, i64, i64, i64, Vec<u8>, Vec<u8>, i64);

impl Chunk {
    pub(super) fn new(columns: Columns) -> Result<Self> {
        let (id, first, last, n, times, body) = columns;
        Ok(Self { place: Place::new((id, first, last, n), At::Table)?, times, body })
    }

    /// A chunk out of an object; none if its bytes were not fetched.
    pub(super) fn from_fetched(place: Place, fetched: &Fetched) -> Option<Self> {
        let At::Object(extent) = place.at else { return None };
        let (times, body) = extent.split(fetched.get(&extent.key())?);
        Some(Self { place, times: times.to_vec(), body: body.to_vec() })
    }

    /// Adds the rows of a span to `block`, with values of some columns alone if they are `wanted`.
    pub(super) fn decode(
        &self,
        dataset: DatasetId,
        span: Span,
        block: &mut Block,
        wanted: Option<&[usize]>,
    ) -> Result<()> {
        let mut read = || {
            let timestamps = self.timestamps()?;
            let rows = within(&timestamps, span);
            if rows.is_empty() {
                return Ok(());
            }
            decode_rows(block, &timestamps, &self.body, rows, wanted)
        };
        read().map_err(|source| StoreError::Damaged { dataset, source })
    }

    /// The places of the rows of a span.
    pub(super) fn rows_within(&self, dataset: DatasetId, span: Span) -> Result<Range<usize>> {
        let timestamps = self.timestamps();
        let timestamps = timestamps.map_err(|source| StoreError::Damaged { dataset, source })?;
        Ok(within(&timestamps, span))
    }

    /// Adds the rows at some places to `block`.
    pub(super) fn decode_part(
        &self,
        dataset: DatasetId,
        rows: Range<usize>,
        block: &mut Block,
    ) -> Result<()> {
        let read = || decode_rows(block, &self.timestamps()?, &self.body, rows, None);
        read().map_err(|source| StoreError::Damaged { dataset, source })
    }

    fn timestamps(&self) -> Result<Timestamps<'_>, DecodeError> {
        let Place { span, n, .. } = self.place;
        let timestamps = Timestamps::read(&self.times, n)?;
        let ends = timestamps.get(0).zip(n.checked_sub(1).and_then(|last| timestamps.get(last)));
        let is_it = ends == Some((span.first, span.last));
        if is_it { Ok(timestamps) } else { Err(DecodeError::MISSING) }
    }
}

/// The places of the timestamps that lie in `span`.
fn within(timestamps: &Timestamps<'_>, span: Span) -> Range<usize> {
    let start = timestamps.partition_point(|timestamp| timestamp < span.first);
    let end = timestamps.partition_point(|timestamp| timestamp <= span.last);
    start..end.max(start)
}

/// The condition for chunks of series `$1`, `$2` that touch the span from `$3` to `$4`. The last line
/// keeps a walk through the index from going on to its end.
const TOUCHES: &str = "dataset = $1 AND resolution = $2 AND t_last >= $3 AND t_first <= $4
     AND t_last <= coalesce((SELECT min(t_last) FROM chunks
         WHERE dataset = $1 AND resolution = $2 AND t_last >= $4), 9223372036854775807)";

/// Selects the first `limit` chunks, in an order, of those that touch the span from `$3` to `$4`; or the
/// first segments, where they are in that `table`.
///
/// Spans of chunks do not overlap, so that a walk through the index from one end of the span meets these
/// first, backward after one that may begin behind the span. The other end is tested after the walk: of
/// chunks between two ends the planner expects so few that it would read and sort all of them.
pub(super) fn select_first(table: &str, order: Order, limit: &str) -> String {
    let (from_end, n_read) = match order {
        Order::Ascending => ("t_last >= $3".to_owned(), limit.to_owned()),
        Order::Descending => (
            format!(
                "t_last <= coalesce((SELECT min(t_last) FROM {table}
                 WHERE dataset = $1 AND resolution = $2 AND t_last >= $4), 9223372036854775807)"
            ),
            format!("{limit} + 1"),
        ),
    };
    let order = direction(order);
    format!(
        "SELECT * FROM (SELECT * FROM {table} WHERE dataset = $1 AND resolution = $2 AND {from_end}
             ORDER BY t_last {order} LIMIT {n_read}) AS nearest
         WHERE t_last >= $3 AND t_first <= $4 ORDER BY t_last {order} LIMIT {limit}"
    )
}

/// The timestamp at which the last chunk ends.
pub(super) async fn end(c: &mut PgConnection, series: SeriesId) -> Result<Option<Timestamp>> {
    let (dataset, resolution) = series.key();
    let sql = "SELECT greatest(
         (SELECT max(t_last) FROM chunks WHERE dataset = $1 AND resolution = $2),
         (SELECT max(t_last) FROM segments WHERE dataset = $1 AND resolution = $2))";
    let end: Option<i64> =
        sqlx::query_scalar(sql).bind(dataset).bind(resolution).fetch_one(c).await?;
    Ok(end.map(Timestamp::from_micros))
}

/// The places of the first `limit` chunks that touch a span, oldest first.
pub(super) async fn places(
    c: &mut PgConnection,
    series: SeriesId,
    span: Span,
    limit: i64,
) -> Result<Vec<Place>> {
    let first = select_first("chunks", Order::Ascending, "$5");
    let sql = format!("SELECT id, t_first, t_last, n FROM ({first}) AS first_ones ORDER BY t_last");
    let mut places = fetch_places(c, sql, series, span, limit).await?;
    if series.resolution == Resolution::Raw {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        places.extend(cold::places(c, series, span, Order::Ascending, limit).await?);
        places.sort_unstable_by_key(|place| place.span.last);
        places.truncate(limit);
    }
    Ok(places)
}

/// The places of all chunks that touch a span, oldest first; those in a segment as one.
pub(super) async fn all_places(
    c: &mut PgConnection,
    series: SeriesId,
    span: Span,
) -> Result<Vec<Place>> {
    let sql = format!(
        "SELECT id, t_first, t_last, n FROM chunks WHERE {TOUCHES} ORDER BY t_last LIMIT $5"
    );
    let mut places = fetch_places(c, sql, series, span, i64::MAX).await?;
    if series.resolution == Resolution::Raw {
        places.extend(cold::all_places(c, series, span).await?);
        places.sort_unstable_by_key(|place| place.span.last);
    }
    Ok(places)
}

async fn fetch_places(
    c: &mut PgConnection,
    sql: String,
    series: SeriesId,
    span: Span,
    limit: i64,
) -> Result<Vec<Place>> {
    let (dataset, resolution, first, last) = series.within(span);
    let rows: Vec<(i64, i64, i64, i64)> = sqlx::query_as(AssertSqlSafe(sql))
        .bind(dataset)
        .bind(resolution)
        .bind(first)
        .bind(last)
        .bind(limit)
        .fetch_all(c)
        .await?;
    rows.into_iter().map(|columns| Place::new(columns, At::Table)).collect()
}

/// The first chunks of those that touch a span, in the given order: at most `limit`, and at least one if
/// there is any. Also whether they are all there are.
pub(super) async fn read(
    c: &mut PgConnection,
    series: SeriesId,
    span: Span,
    order: Order,
    limit: i64,
) -> Result<(Vec<Chunk>, bool)> {
    let (dataset, resolution, first, last) = series.within(span);
    let first_ones = select_first("chunks", order, "$5");
    let order = direction(order);
    let sql = format!(
        "SELECT id, t_first, t_last, n, times, body, n_found FROM (
             SELECT *, count(*) OVER () AS n_found,
                 sum(octet_length(body)) OVER (ORDER BY t_last {order}) - octet_length(body) AS passed
             FROM ({first_ones}) AS first_ones
         ) AS sized WHERE passed <= $6 ORDER BY t_last {order}"
    );
    let rows: Vec<Counted> = sqlx::query_as(AssertSqlSafe(sql))
        .bind(dataset)
        .bind(resolution)
        .bind(first)
        .bind(last)
        .bind(limit)
        .bind(READ_BYTES_MAX)
        .fetch_all(c)
        .await?;
    let n_found = rows.first().map_or(0, |(.., n_found)| *n_found);
    let chunks: Vec<Chunk> = rows
        .into_iter()
        .map(|(id, first, last, n, times, body, _)| Chunk::new((id, first, last, n, times, body)))
        .collect::<Result<_>>()?;
    let is_all = n_found < limit && chunks.len() == unsigned::<usize>(n_found)?;
    Ok((chunks, is_all))
}

/// Reads one chunk.
pub(super) async fn read_one(
    c: &mut PgConnection,
    series: SeriesId,
    place: Place,
    fetched: &Fetched,
) -> Result<Chunk> {
    if let At::Object(_) = place.at {
        let chunk = Chunk::from_fetched(place, fetched);
        return chunk.ok_or_else(|| in_objects(series.dataset, vec![place]));
    }
    let id = place.id;
    let sql = "SELECT id, t_first, t_last, n, times, body FROM chunks WHERE id = $1";
    let found: Option<Columns> = sqlx::query_as(sql).bind(id).fetch_optional(c).await?;
    let missing = || StoreError::Damaged { dataset: series.dataset, source: DecodeError::MISSING };
    Chunk::new(found.ok_or_else(missing)?)
}

/// All chunks that touch any of some spans, oldest first.
///
/// # Errors
/// That some are in objects.
pub(super) async fn read_spans(
    c: &mut PgConnection,
    series: SeriesId,
    spans: &[Span],
) -> Result<Vec<Chunk>> {
    if series.resolution == Resolution::Raw {
        let needed = cold::touching(c, series, spans).await?;
        if !needed.is_empty() {
            return Err(in_objects(series.dataset, needed));
        }
    }
    let (dataset, resolution) = series.key();
    let (first, last) = bounds(spans);
    let sql = "SELECT id, t_first, t_last, n, times, body FROM chunks WHERE id IN (
             SELECT touched.id FROM unnest($3::bigint[], $4::bigint[]) AS s (first, last)
             CROSS JOIN LATERAL (
                 SELECT id FROM chunks WHERE dataset = $1 AND resolution = $2
                 AND t_last >= s.first AND t_first <= s.last
                 AND t_last <= coalesce((SELECT min(t_last) FROM chunks
                     WHERE dataset = $1 AND resolution = $2 AND t_last >= s.last),
                     9223372036854775807)
             ) AS touched
         ) ORDER BY t_last";
    let rows: Vec<Columns> = sqlx::query_as(sql)
        .bind(dataset)
        .bind(resolution)
        .bind(first)
        .bind(last)
        .fetch_all(c)
        .await?;
    rows.into_iter().map(Chunk::new).collect()
}

/// The chunks that `times`, which are in order, fall into: each the first that does not end before it.
/// Their bodies are left out unless they are asked for.
///
/// # Errors
/// That some are in objects.
pub(super) async fn covering(
    c: &mut PgConnection,
    series: SeriesId,
    times: &[Timestamp],
    has_bodies: bool,
) -> Result<Vec<Chunk>> {
    if series.resolution == Resolution::Raw {
        let needed = cold::covering(c, series, times).await?;
        if !needed.is_empty() {
            return Err(in_objects(series.dataset, needed));
        }
    }
    let (dataset, resolution) = series.key();
    let times: Vec<i64> = times.iter().map(|time| time.micros()).collect();
    let sql = "SELECT id, t_first, t_last, n, times, CASE WHEN $4 THEN body ELSE '' END FROM chunks
         WHERE id IN (
             SELECT covering.id FROM unnest($3::bigint[]) AS s (t) CROSS JOIN LATERAL (
                 SELECT id FROM chunks WHERE dataset = $1 AND resolution = $2 AND t_last >= s.t
                 ORDER BY t_last LIMIT 1
             ) AS covering
         ) ORDER BY t_last";
    let rows: Vec<Columns> = sqlx::query_as(sql)
        .bind(dataset)
        .bind(resolution)
        .bind(times)
        .bind(has_bodies)
        .fetch_all(c)
        .await?;
    rows.into_iter().map(Chunk::new).collect()
}

/// Those of `times`, which are in order, at which chunks have rows.
pub(super) async fn find_held(
    c: &mut PgConnection,
    series: SeriesId,
    times: &[Timestamp],
) -> Result<Vec<Timestamp>> {
    if times.is_empty() {
        return Ok(Vec::new());
    }
    let dataset = series.dataset;
    let mut held = Vec::new();
    for chunk in covering(c, series, times, false).await? {
        let Span { first, last } = chunk.place.span;
        let timestamps =
            chunk.timestamps().map_err(|source| StoreError::Damaged { dataset, source })?;
        let from = times.partition_point(|time| *time < first);
        let to = times.partition_point(|time| *time <= last);
        let here = times.get(from..to).unwrap_or_default().iter();
        held.extend(here.filter(|time| timestamps.contains(**time)));
    }
    Ok(held)
}

/// How many rows a chunk has in a span.
pub(super) async fn n_within(
    c: &mut PgConnection,
    series: SeriesId,
    place: Place,
    span: Span,
    fetched: &Fetched,
) -> Result<usize> {
    if span.first <= place.span.first && place.span.last <= span.last {
        return Ok(place.n);
    }
    let dataset = series.dataset;
    let chunk = read_one(c, series, place, fetched).await?;
    let timestamps =
        chunk.timestamps().map_err(|source| StoreError::Damaged { dataset, source })?;
    Ok(within(&timestamps, span).len())
}

/// Chunks to be written, as the lists that a statement takes.
#[derive(Debug, Default)]
pub(super) struct SealedLists {
    pub(super) resolutions: Vec<i64>,
    pub(super) firsts: Vec<i64>,
    pub(super) lasts: Vec<i64>,
    pub(super) lengths: Vec<i64>,
    pub(super) last_rows: Vec<i64>,
    pub(super) times: Vec<Vec<u8>>,
    pub(super) bodies: Vec<Vec<u8>>,
}

impl SealedLists {
    /// Adds all of `block` as chunks of about [`CHUNK_ROWS`].
    pub(super) fn add(&mut self, resolution: Resolution, block: &Block) {
        let n = block.len();
        let n_chunks = ((n + CHUNK_ROWS / 2) / CHUNK_ROWS).max(1);
        for chunk_idx in 0..n_chunks {
            let rows = n * chunk_idx / n_chunks..n * (chunk_idx + 1) / n_chunks;
            let timestamps = block.times.get(rows.clone()).unwrap_or_default();
            let (Some(first), Some(last)) = (timestamps.first(), timestamps.last()) else {
                continue;
            };
            self.resolutions.push(code(resolution));
            self.firsts.push(first.micros());
            self.lasts.push(last.micros());
            self.lengths.push(i64::try_from(rows.len()).unwrap_or(i64::MAX));
            let ids = block.ids.get(rows.clone()).unwrap_or_default();
            self.last_rows.push(ids.iter().max().copied().unwrap_or_default());
            let encoded = encode(block, rows, Packing::Small);
            self.times.push(encoded.times);
            self.bodies.push(encoded.body);
        }
    }

    /// Adds a chunk of rows as it was stored before.
    pub(super) fn add_stored(&mut self, place: &Place, last_row: i64, times: &[u8], body: &[u8]) {
        self.resolutions.push(code(Resolution::Raw));
        self.firsts.push(place.span.first.micros());
        self.lasts.push(place.span.last.micros());
        self.lengths.push(i64::try_from(place.n).unwrap_or(i64::MAX));
        self.last_rows.push(last_row);
        self.times.push(times.to_vec());
        self.bodies.push(body.to_vec());
    }
}

/// Writes all of `block` as chunks of about [`CHUNK_ROWS`].
pub(super) async fn insert(c: &mut PgConnection, series: SeriesId, block: &Block) -> Result<()> {
    let mut sealed = SealedLists::default();
    sealed.add(series.resolution, block);
    insert_lists(c, series, sealed).await
}

/// Writes chunks of a series.
pub(super) async fn insert_lists(
    c: &mut PgConnection,
    series: SeriesId,
    sealed: SealedLists,
) -> Result<()> {
    if sealed.firsts.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO chunks (dataset, resolution, t_first, t_last, n, last_row, times, body)
         SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
             $6::bigint[], $7::bytea[], $8::bytea[])",
    )
    .bind(series.dataset.get())
    .bind(sealed.resolutions)
    .bind(sealed.firsts)
    .bind(sealed.lasts)
    .bind(sealed.lengths)
    .bind(sealed.last_rows)
    .bind(sealed.times)
    .bind(sealed.bodies)
    .execute(c)
    .await?;
    Ok(())
}

/// Removes chunks, wherever they are.
pub(super) async fn remove_places(
    c: &mut PgConnection,
    dataset: DatasetId,
    places: &[Place],
) -> Result<()> {
    let in_table = places.iter().filter(|place| place.at == At::Table);
    remove(c, in_table.map(|place| place.id).collect()).await?;
    cold::remove(c, dataset, places).await.map(drop)
}

/// Removes the chunks of these numbers from the table.
pub(super) async fn remove(c: &mut PgConnection, ids: Vec<i64>) -> Result<()> {
    if !ids.is_empty() {
        sqlx::query("DELETE FROM chunks WHERE id = ANY($1)").bind(ids).execute(c).await?;
    }
    Ok(())
}

/// Lays `late` over the chunks that cover its timestamps. Each of its rows is at the end of the last
/// chunk or before it.
pub(super) async fn overlay(c: &mut PgConnection, series: SeriesId, late: &Block) -> Result<()> {
    let covering = covering(c, series, &late.times, true).await?;
    remove(c, covering.iter().map(|chunk| chunk.place.id).collect()).await?;
    let mut start = 0;
    for chunk in covering {
        let end = late.first_after(chunk.place.span.last);
        let mut under = late.empty_like();
        chunk.decode(series.dataset, chunk.place.span, &mut under, None)?;
        insert(c, series, &under.merge(&late.part(start..end))).await?;
        start = end;
    }
    if start == late.len() {
        return Ok(());
    }
    Err(StoreError::Damaged { dataset: series.dataset, source: DecodeError::MISSING })
}

/// Removes the rows of a span. What a chunk has outside of it becomes chunks of their own.
pub(super) async fn cut(
    c: &mut PgConnection,
    series: SeriesId,
    span: Span,
    empty: &Block,
) -> Result<()> {
    if span.first > span.last {
        return Ok(());
    }
    if series.resolution == Resolution::Raw {
        cold::cut(c, series, span).await?;
    }
    let (dataset, resolution, first, last) = series.within(span);
    sqlx::query(
        "DELETE FROM chunks WHERE dataset = $1 AND resolution = $2
         AND t_first >= $3 AND t_last BETWEEN $3 AND $4",
    )
    .bind(dataset)
    .bind(resolution)
    .bind(first)
    .bind(last)
    .execute(&mut *c)
    .await?;
    // Those at the ends of the span, or one around it.
    let ends = read_spans(c, series, &[span]).await?;
    remove(c, ends.iter().map(|chunk| chunk.place.id).collect()).await?;
    for chunk in ends {
        let mut rows = empty.clone();
        chunk.decode(series.dataset, chunk.place.span, &mut rows, None)?;
        for left in [0..rows.first_not_before(span.first), rows.first_after(span.last)..rows.len()]
        {
            insert(c, series, &rows.part(left)).await?;
        }
    }
    Ok(())
}
