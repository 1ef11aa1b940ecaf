//! Segments in their table: finding the chunks in them, and taking chunks out of them.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use model::{dataset::DatasetId, timestamp::Timestamp};
use sqlx::{AssertSqlSafe, PgConnection};
use uuid::Uuid;

use super::{in_objects, index};
use crate::{
    span::{Order, Span},
    store::{
        postgres::{
            Result,
            chunks::select_first,
            place::{At, Extent, ExtentKey, Place},
            tail::bounds,
        },
        series::{SeriesId, direction},
    },
};

/// Segments whose indexes are read at a time: one has as many chunks as most reads need.
const STEP: i64 = 4;

/// A segment with its index: its number, its object and the index.
type Found = (i64, String, Vec<u8>);

fn decode(dataset: DatasetId, found: &[Found]) -> Result<Vec<Vec<Place>>> {
    let decode = |(id, object, bytes): &Found| index::decode(dataset, *id, object, bytes);
    found.iter().map(decode).collect()
}

fn touches(place: &Place, span: Span) -> bool {
    place.span.last >= span.first && place.span.first <= span.last
}

/// The places of the first `limit` chunks in segments, in an order, of those that touch a span.
pub(in super::super) async fn places(
    c: &mut PgConnection,
    series: SeriesId,
    mut span: Span,
    order: Order,
    limit: usize,
) -> Result<Vec<Place>> {
    let first_ones = select_first("segments", order, &STEP.to_string());
    let sql = format!(
        "SELECT id, object::text, index FROM ({first_ones}) AS first_ones ORDER BY t_last {}",
        direction(order)
    );
    let mut places = Vec::new();
    while places.len() < limit && span.first <= span.last {
        let (dataset, resolution, first, last) = series.within(span);
        let found: Vec<Found> = sqlx::query_as(AssertSqlSafe(sql.as_str()))
            .bind(dataset)
            .bind(resolution)
            .bind(first)
            .bind(last)
            .fetch_all(&mut *c)
            .await?;
        let mut end = None;
        for mut segment in decode(series.dataset, &found)? {
            if order == Order::Descending {
                segment.reverse();
            }
            end = segment.last().map(|place| place.span);
            places.extend(segment.into_iter().filter(|place| touches(place, span)));
        }
        let is_last = i64::try_from(found.len()).is_ok_and(|n| n < STEP);
        let Some(end) = end.filter(|_| !is_last) else { break };
        match order {
            Order::Ascending => {
                span.first = Timestamp::from_micros(end.last.micros().saturating_add(1));
            }
            Order::Descending => {
                span.last = Timestamp::from_micros(end.first.micros().saturating_sub(1));
            }
        }
    }
    places.truncate(limit);
    Ok(places)
}

/// The segments that touch a span as a place each, oldest first.
pub(in super::super) async fn all_places(
    c: &mut PgConnection,
    series: SeriesId,
    span: Span,
) -> Result<Vec<Place>> {
    let (dataset, resolution, first, last) = series.within(span);
    let sql = "SELECT id, t_first, t_last, n FROM segments
         WHERE dataset = $1 AND resolution = $2 AND t_last >= $3 AND t_first <= $4 ORDER BY t_last";
    let found: Vec<(i64, i64, i64, i64)> = sqlx::query_as(sql)
        .bind(dataset)
        .bind(resolution)
        .bind(first)
        .bind(last)
        .fetch_all(c)
        .await?;
    found.into_iter().map(|columns| Place::new(columns, At::Segment)).collect()
}

/// The places of the chunks of segments that touch a span, in their order.
pub(in super::super) async fn expand(
    c: &mut PgConnection,
    dataset: DatasetId,
    segments: Vec<i64>,
    span: Span,
) -> Result<Vec<Place>> {
    let all = load(c, dataset, segments).await?.into_iter().flatten();
    Ok(all.filter(|place| touches(place, span)).collect())
}

/// The chunks of segments, one after another.
async fn load(
    c: &mut PgConnection,
    dataset: DatasetId,
    segments: Vec<i64>,
) -> Result<Vec<Vec<Place>>> {
    if segments.is_empty() {
        return Ok(Vec::new());
    }
    let sql = "SELECT id, object::text, index FROM segments
         WHERE id = ANY($1) AND dataset = $2 ORDER BY t_last";
    let found: Vec<Found> =
        sqlx::query_as(sql).bind(segments).bind(dataset.get()).fetch_all(c).await?;
    decode(dataset, &found)
}

/// All chunks in segments that touch any of some spans, oldest first.
pub(in super::super) async fn touching(
    c: &mut PgConnection,
    series: SeriesId,
    spans: &[Span],
) -> Result<Vec<Place>> {
    let (dataset, resolution) = series.key();
    let (first, last) = bounds(spans);
    let sql =
        "SELECT DISTINCT touched.id FROM unnest($3::bigint[], $4::bigint[]) AS s (first, last)
         CROSS JOIN LATERAL (
             SELECT id FROM segments WHERE dataset = $1 AND resolution = $2
             AND t_last >= s.first AND t_first <= s.last
             AND t_last <= coalesce((SELECT min(t_last) FROM segments
                 WHERE dataset = $1 AND resolution = $2 AND t_last >= s.last),
                 9223372036854775807)
         ) AS touched";
    let segments: Vec<i64> = sqlx::query_scalar(sql)
        .bind(dataset)
        .bind(resolution)
        .bind(first)
        .bind(last)
        .fetch_all(&mut *c)
        .await?;
    let mut all: Vec<Place> = load(c, series.dataset, segments).await?.concat();
    all.retain(|place| spans.iter().any(|span| touches(place, *span)));
    Ok(all)
}

/// The chunks in segments that `times`, which are in order, fall into, where no chunk in the database
/// ends between: each the first that does not end before it.
pub(in super::super) async fn covering(
    c: &mut PgConnection,
    series: SeriesId,
    times: &[Timestamp],
) -> Result<Vec<Place>> {
    let (dataset, resolution) = series.key();
    let times: Vec<i64> = times.iter().map(|time| time.micros()).collect();
    let sql = "SELECT s.t, segment.id FROM unnest($3::bigint[]) AS s (t) CROSS JOIN LATERAL (
             SELECT id, t_last FROM segments WHERE dataset = $1 AND resolution = $2 AND t_last >= s.t
             ORDER BY t_last LIMIT 1
         ) AS segment
         WHERE NOT EXISTS (SELECT FROM chunks WHERE dataset = $1 AND resolution = $2
             AND t_last >= s.t AND t_last < segment.t_last)
         ORDER BY s.t";
    let found: Vec<(i64, i64)> =
        sqlx::query_as(sql).bind(dataset).bind(resolution).bind(times).fetch_all(&mut *c).await?;
    let segments: BTreeSet<i64> = found.iter().map(|(_, segment)| *segment).collect();
    let all = load(c, series.dataset, segments.into_iter().collect()).await?.concat();
    let mut covering: Vec<Place> = Vec::new();
    for (time, _) in found {
        let idx = all.partition_point(|place| place.span.last.micros() < time);
        let place = all.get(idx).filter(|place| covering.last() != Some(*place));
        covering.extend(place.copied());
    }
    Ok(covering)
}

/// The chunks in segments with rows of numbers above `after`; at most `limit`.
pub(in super::super) async fn since(
    c: &mut PgConnection,
    dataset: DatasetId,
    after: i64,
    limit: i64,
) -> Result<Vec<Place>> {
    let sql = "SELECT id, object::text, index FROM segments
         WHERE dataset = $1 AND last_row > $2 AND resolution = 0 LIMIT $3";
    let found: Vec<Found> =
        sqlx::query_as(sql).bind(dataset.get()).bind(after).bind(limit).fetch_all(c).await?;
    let all = decode(dataset, &found)?.into_iter().flatten();
    let is_after = |place: &Place| matches!(place.at, At::Object(at) if at.last_row > after);
    Ok(all.filter(is_after).take(usize::try_from(limit).unwrap_or(usize::MAX)).collect())
}

/// Takes chunks out of their segments; those that were still there. The dataset is locked.
pub(in super::super) async fn remove(
    c: &mut PgConnection,
    dataset: DatasetId,
    places: &[Place],
) -> Result<Vec<Place>> {
    let in_objects = places.iter().filter_map(|place| Some((place.id, place.key()?)));
    let (segments, keys): (BTreeSet<i64>, HashSet<ExtentKey>) = in_objects.unzip();
    let is_gone = |place: &Place| place.key().is_some_and(|key| keys.contains(&key));
    let mut removed = Vec::new();
    let mut objects: BTreeMap<i64, Uuid> = BTreeMap::new();
    for segment in load(c, dataset, segments.into_iter().collect()).await? {
        let runs = segment.chunk_by(|a, b| is_gone(a) == is_gone(b));
        let (gone, left): (Vec<_>, Vec<_>) = runs.partition(|run| run.iter().any(is_gone));
        let Some(first) = gone.iter().copied().flatten().next() else { continue };
        let Some((object, _)) = first.key() else { continue };
        let sql = "DELETE FROM segments WHERE id = $1";
        sqlx::query(sql).bind(first.id).execute(&mut *c).await?;
        for run in left {
            insert(c, SeriesId::rows(dataset), object, run).await?;
        }
        objects.insert(first.id, object);
        removed.extend(gone.into_iter().flatten().copied());
    }
    let objects = objects.into_values().map(|object| object.to_string()).collect();
    let_go(c, objects).await?;
    Ok(removed)
}

/// Removes the segments that lie within a span. The dataset is locked.
async fn remove_within(c: &mut PgConnection, series: SeriesId, span: Span) -> Result<()> {
    let (dataset, resolution, first, last) = series.within(span);
    let sql = "DELETE FROM segments WHERE dataset = $1 AND resolution = $2
         AND t_first >= $3 AND t_last BETWEEN $3 AND $4 RETURNING object::text";
    let objects: Vec<String> = sqlx::query_scalar(sql)
        .bind(dataset)
        .bind(resolution)
        .bind(first)
        .bind(last)
        .fetch_all(&mut *c)
        .await?;
    let_go(c, objects).await
}

/// Makes a segment of chunks that are one after another in an object.
pub(super) async fn insert(
    c: &mut PgConnection,
    series: SeriesId,
    object: Uuid,
    places: &[Place],
) -> Result<()> {
    let in_object = |place: &Place| match place.at {
        At::Object(extent) => Some((*place, extent)),
        At::Table | At::Segment => None,
    };
    let chunks: Vec<(Place, Extent)> = places.iter().filter_map(in_object).collect();
    let (Some((first, _)), Some((last, _))) = (chunks.first(), chunks.last()) else {
        return Ok(());
    };
    let (dataset, resolution) = series.key();
    let n_rows: usize = chunks.iter().map(|(place, _)| place.n).sum();
    let sql = "INSERT INTO segments
             (dataset, resolution, t_first, t_last, n, last_row, bytes, object, index)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8::uuid, $9)";
    sqlx::query(sql)
        .bind(dataset)
        .bind(resolution)
        .bind(first.span.first.micros())
        .bind(last.span.last.micros())
        .bind(i64::try_from(n_rows).unwrap_or(i64::MAX))
        .bind(chunks.iter().map(|(_, extent)| extent.last_row).max().unwrap_or_default())
        .bind(chunks.iter().map(|(_, extent)| extent.n_bytes()).sum::<i64>())
        .bind(object.to_string())
        .bind(index::encode(&chunks))
        .execute(c)
        .await?;
    Ok(())
}

/// Notes that those of some objects are not needed any more of which no segment is left.
async fn let_go(c: &mut PgConnection, objects: Vec<String>) -> Result<()> {
    if objects.is_empty() {
        return Ok(());
    }
    let sql = "UPDATE objects SET state = 'dead', at = (extract(epoch FROM now()) * 1000000)::bigint
         WHERE id = ANY($1::uuid[]) AND NOT EXISTS (SELECT FROM segments WHERE object = objects.id)";
    sqlx::query(sql).bind(objects).execute(c).await?;
    Ok(())
}

/// Removes the chunks in objects that lie within a span.
///
/// # Errors
/// That some lie there in part.
pub(in super::super) async fn cut(
    c: &mut PgConnection,
    series: SeriesId,
    span: Span,
) -> Result<()> {
    let is_within = |place: &Place| span.first <= place.span.first && place.span.last <= span.last;
    let segments = all_places(c, series, span).await?;
    let ends = segments.iter().filter(|segment| !is_within(segment)).map(|segment| segment.id);
    let touched = expand(c, series.dataset, ends.collect(), span).await?;
    let (within, partly): (Vec<_>, Vec<_>) = touched.into_iter().partition(is_within);
    if !partly.is_empty() {
        return Err(in_objects(series.dataset, partly));
    }
    remove(c, series.dataset, &within).await?;
    remove_within(c, series, span).await
}
