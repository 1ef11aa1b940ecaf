//! Keeping buckets right after rows changed.
//!
//! As in the embedded store they are recomputed, never added to: those of five minutes from the rows in
//! the order of their timestamps, each longer one from shorter ones. What a change needs of a
//! resolution is read with one statement for chunks and one for what lies over them.

use std::collections::{BTreeMap, BTreeSet};

use model::{block::Block, resolution::Resolution, row::Bucket, timestamp::Timestamp};
use sqlx::PgConnection;

use super::{
    Result,
    chunks::{self, CHUNK_ROWS},
    head::Head,
    pages::buckets_of,
    singles, tail,
};
use crate::{
    rollup::{Fold, coarsen, coarser},
    span::{Order, Span},
    store::series::{self, KEPT, SETTLED, SeriesId},
};

/// New buckets that are worth a chunk. As single records they cost a writer twenty times as much.
const NEW_CHUNK_MIN: usize = 64;

/// Touched buckets whose starts are at most so many apart are folded from one reading.
const GAP_MAX: i64 = 12;

/// Single buckets over chunks that are laid into them at a time: each may be in a chunk of its own, and
/// writers of the dataset wait meanwhile.
const OVER_STEP: i64 = 256;

/// Buckets of one length, by their start; none for one without rows that have a number.
type Folded = Vec<(Timestamp, Option<Bucket>)>;

/// Buckets to be stored, of each of [`KEPT`].
#[derive(Debug, Default)]
pub(super) struct Rebuilt(Vec<Folded>);

/// A sum may overflow to infinity, and then to no number at all.
fn as_stored(bucket: Bucket) -> Bucket {
    let volume = if bucket.volume.is_nan() { 0.0 } else { bucket.volume };
    Bucket { volume, ..bucket }
}

/// The stored buckets of some spans, which are in order and apart, oldest first.
async fn read_stored(
    c: &mut PgConnection,
    series: SeriesId,
    spans: &[Span],
) -> Result<Vec<Bucket>> {
    if spans.is_empty() {
        return Ok(Vec::new());
    }
    let single = singles::read_spans(c, series, spans).await?;
    let mut under = Block::from([].as_slice());
    for chunk in chunks::read_spans(c, series, spans).await? {
        let from = spans.partition_point(|span| span.last < chunk.place.span.first);
        for span in spans.iter().skip(from) {
            if span.first > chunk.place.span.last {
                break;
            }
            chunk.decode(series.dataset, *span, &mut under, None)?;
        }
    }
    if under.is_empty() {
        return Ok(single);
    }
    Ok(buckets_of(&under.merge(&Block::from(single.as_slice()))))
}

/// Folds rows, which come after all rows before them, onto the last buckets, and stores these.
pub(super) async fn extend(
    c: &mut PgConnection,
    head: &mut Head,
    fold: Fold,
    rows: &Block,
) -> Result<()> {
    let Some(first) = rows.times.first() else { return Ok(()) };
    let [finest, ..] = KEPT;
    let mut before = read_open(c, head, *first).await?;
    let start = finest.bucket_start(*first);
    let last = before
        .first_mut()
        .and_then(|finest_ones| finest_ones.pop_if(|bucket| bucket.timestamp == start));
    put_extended(c, head, before, fold.buckets(rows, finest, last)).await
}

/// Stores new buckets of the finest resolution, which come after all that are there, and the longer
/// ones that follow from them.
pub(super) async fn extend_finest(
    c: &mut PgConnection,
    head: &mut Head,
    new: Vec<Bucket>,
) -> Result<()> {
    let Some(first) = new.first() else { return Ok(()) };
    let before = read_open(c, head, first.timestamp).await?;
    put_extended(c, head, before, new).await
}

/// Stores new buckets of the finest resolution, and the longer ones that follow from them and from those
/// `before` them in the same longer buckets.
async fn put_extended(
    c: &mut PgConnection,
    head: &mut Head,
    before: Vec<Vec<Bucket>>,
    new: Vec<Bucket>,
) -> Result<()> {
    let mut all = vec![new];
    for (resolution, mut finer) in KEPT.into_iter().skip(1).zip(before) {
        let Some(new) = all.last().filter(|new| !new.is_empty()) else { break };
        finer.extend_from_slice(new);
        all.push(coarsen(&finer, resolution));
    }
    let mut put = Vec::new();
    for (place, (resolution, new)) in KEPT.into_iter().zip(&all).enumerate() {
        let series = SeriesId { dataset: head.dataset, resolution };
        // What the next rows need again stays out of chunks.
        let longer = KEPT.get(place + 1).zip(new.last());
        let open = longer.map(|(longer, last)| longer.bucket_start(last.timestamp));
        let n_closed = open.map_or(0, |open| new.partition_point(|bucket| bucket.timestamp < open));
        let (closed, rest) = new.split_at_checked(n_closed).unwrap_or((&[], new));
        let single = if put_chunk(c, head, series, closed).await? { rest } else { new.as_slice() };
        head.n_loose += single.len();
        put.extend(single.iter().map(|bucket| (series, as_stored(*bucket))));
    }
    singles::put(c, &put).await
}

/// Reads the buckets that rows from `first` on are folded with: of each of [`KEPT`] but the last those
/// in the longer bucket that is open then, up to the one of `first`.
async fn read_open(
    c: &mut PgConnection,
    head: &Head,
    first: Timestamp,
) -> Result<Vec<Vec<Bucket>>> {
    let span = |pair: &[Resolution]| match pair {
        [finer, longer] => {
            let series = SeriesId { dataset: head.dataset, resolution: *finer };
            let start = finer.bucket_start(first);
            Some((series, Span { first: longer.bucket_start(first), last: start }))
        }
        _ => None,
    };
    let spans: Vec<(SeriesId, Span)> = KEPT.windows(2).filter_map(span).collect();
    let mut found = singles::read_each(c, &spans).await?;
    for ((series, span), found) in spans.into_iter().zip(&mut found) {
        if head.bucket_end(series.resolution).is_some_and(|end| end >= span.first) {
            *found = read_stored(c, series, &[span]).await?;
        }
        // The one of `first` itself is folded again, but for the finest.
        if Some(&series.resolution) != KEPT.first() {
            found.pop_if(|bucket| bucket.timestamp == span.last);
        }
    }
    Ok(found)
}

/// Writes new buckets as chunks, if they are enough and do not begin within one; whether it did.
async fn put_chunk(
    c: &mut PgConnection,
    head: &mut Head,
    series: SeriesId,
    new: &[Bucket],
) -> Result<bool> {
    let (Some(first), Some(last)) = (new.first(), new.last()) else { return Ok(false) };
    let is_within = head.bucket_end(series.resolution).is_some_and(|end| first.timestamp <= end);
    if new.len() < NEW_CHUNK_MIN || is_within {
        return Ok(false);
    }
    // The first one may have been single before.
    singles::remove(c, series, Span { first: first.timestamp, last: last.timestamp }).await?;
    let new: Vec<Bucket> = new.iter().copied().map(as_stored).collect();
    chunks::insert(c, series, &Block::from(new.as_slice())).await?;
    // Short chunks are packed, too.
    head.n_loose += NEW_CHUNK_MIN * 4;
    Ok(true)
}

/// Folds all buckets that `rows`, which are not stored yet, fall into, from the stored rows and these,
/// which win.
pub(super) async fn rebuild(
    c: &mut PgConnection,
    head: &Head,
    fold: Fold,
    rows: &Block,
) -> Result<Rebuilt> {
    let [finest, ..] = KEPT;
    let starts = starts_of(finest, rows.times.iter().copied());
    let mut spans: Vec<Span> = Vec::new();
    for start in &starts {
        let span = series::span(finest, *start);
        match spans.last_mut() {
            Some(before)
                if span.first.micros() - before.last.micros()
                    <= GAP_MAX * series::micros(finest) =>
            {
                before.last = span.last;
            }
            _ => spans.push(span),
        }
    }
    let folded = fold_rows(c, head, fold, &spans, Some(rows)).await?;
    let found = |start: &Timestamp| {
        let idx = folded.binary_search_by_key(start, |bucket| bucket.timestamp);
        (*start, idx.ok().and_then(|idx| folded.get(idx)).copied())
    };
    let mut rebuilt = Rebuilt(vec![starts.iter().map(found).collect()]);
    for pair in KEPT.windows(2) {
        let ([finer, resolution], Some(changed)) = (pair, rebuilt.0.last()) else { continue };
        let finer = SeriesId { dataset: head.dataset, resolution: *finer };
        let longer = coarsened(c, finer, *resolution, changed).await?;
        rebuilt.0.push(longer);
    }
    Ok(rebuilt)
}

/// The five-minute buckets of the rows of some spans, which are in order and apart, and of those of
/// `over`, which win and lie within them.
async fn fold_rows(
    c: &mut PgConnection,
    head: &Head,
    fold: Fold,
    spans: &[Span],
    over: Option<&Block>,
) -> Result<Vec<Bucket>> {
    let wanted = fold.columns();
    let mut under = head.empty.clone();
    for chunk in chunks::read_spans(c, head.rows(), spans).await? {
        let from = spans.partition_point(|span| span.last < chunk.place.span.first);
        for span in spans.iter().skip(from) {
            if span.first > chunk.place.span.last {
                break;
            }
            chunk.decode(head.dataset, *span, &mut under, Some(&wanted))?;
        }
    }
    let single = tail::read_spans(c, &head.empty, head.dataset, spans).await?;
    let mut all = if single.is_empty() { under } else { under.merge(&single) };
    if let Some(over) = over {
        all = all.merge(over);
    }
    let [finest, ..] = KEPT;
    Ok(fold.buckets(&all, finest, None).into_iter().map(as_stored).collect())
}

/// Folds the buckets of `resolution` that hold `changed` ones of a finer one, which win over those
/// that are stored.
async fn coarsened(
    c: &mut PgConnection,
    finer: SeriesId,
    resolution: Resolution,
    changed: &Folded,
) -> Result<Folded> {
    let starts = starts_of(resolution, changed.iter().map(|(start, _)| *start));
    let spans: Vec<Span> = starts.iter().map(|start| series::span(resolution, *start)).collect();
    let mut all: BTreeMap<Timestamp, Bucket> = read_stored(c, finer, &spans)
        .await?
        .into_iter()
        .map(|bucket| (bucket.timestamp, bucket))
        .collect();
    for (start, bucket) in changed {
        match bucket {
            Some(bucket) => all.insert(*start, *bucket),
            None => all.remove(start),
        };
    }
    let fold = |span: Span| {
        let within = all.range(span.first..=span.last).map(|(_, bucket)| *bucket);
        (span.first, coarser(span.first, within).map(as_stored))
    };
    Ok(spans.into_iter().map(fold).collect())
}

/// The starts of the buckets that hold `timestamps`, which are in order.
fn starts_of(
    resolution: Resolution,
    timestamps: impl Iterator<Item = Timestamp>,
) -> Vec<Timestamp> {
    let mut starts: Vec<Timestamp> =
        timestamps.map(|timestamp| resolution.bucket_start(timestamp)).collect();
    starts.dedup();
    starts
}

impl Rebuilt {
    /// Puts the buckets where they belong.
    pub(super) async fn put(&self, c: &mut PgConnection, head: &mut Head) -> Result<()> {
        let mut put = Vec::new();
        for (resolution, folded) in KEPT.into_iter().zip(&self.0) {
            let series = SeriesId { dataset: head.dataset, resolution };
            put.extend(folded.iter().filter_map(|(_, bucket)| Some((series, (*bucket)?))));
            for (start, _) in folded.iter().filter(|(_, bucket)| bucket.is_none()) {
                remove(c, series, *start).await?;
            }
        }
        head.n_loose += put.len();
        singles::put(c, &put).await
    }
}

async fn remove(c: &mut PgConnection, series: SeriesId, start: Timestamp) -> Result<()> {
    let here = Span { first: start, last: start };
    singles::remove(c, series, here).await?;
    chunks::cut(c, series, here, &Block::from([].as_slice())).await
}

/// Removes the buckets of a span whose rows are gone, and folds again those at its ends from what is
/// left. Those before `kept_from`, whose rows are not there, stay unless the span covers them.
pub(super) async fn cut(c: &mut PgConnection, head: &mut Head, span: Span) -> Result<()> {
    let Some(fold) = head.fold else { return Ok(()) };
    let mut finer: Option<SeriesId> = None;
    for resolution in KEPT {
        let series = SeriesId { dataset: head.dataset, resolution };
        let length = series::micros(resolution);
        let last = Timestamp::from_micros(span.last.micros() - (length - 1));
        if span.first <= last {
            let whole = Span { first: span.first, last };
            singles::remove(c, series, whole).await?;
            chunks::cut(c, series, whole, &Block::from([].as_slice())).await?;
        }
        let ends = BTreeSet::from([span.first, span.last].map(|end| resolution.bucket_start(end)));
        for start in ends {
            let bucket = series::span(resolution, start);
            // The end of the last bucket there is may be later than a timestamp can be.
            let bucket_last = bucket.first.micros().saturating_add(length - 1);
            if span.first <= bucket.first && bucket_last <= span.last.micros() {
                continue;
            }
            let folded = match finer {
                None if head.kept_from.is_some_and(|kept_from| start < kept_from) => continue,
                None => fold_rows(c, head, fold, &[bucket], None).await?.pop(),
                Some(finer) => coarser(start, read_stored(c, finer, &[bucket]).await?),
            };
            match folded {
                Some(bucket) => singles::put(c, &[(series, as_stored(bucket))]).await?,
                None => remove(c, series, start).await?,
            }
        }
        finer = Some(series);
    }
    Ok(())
}

/// Packs buckets before the newest ones of a dataset: single ones into chunks, short chunks into
/// longer ones. Returns whether there may be more.
pub(super) async fn settle(c: &mut PgConnection, head: &mut Head) -> Result<bool> {
    let Some(newest) = head.newest else {
        head.n_loose = 0;
        return Ok(false);
    };
    for (resolution, longer) in SETTLED.into_iter().zip(KEPT.into_iter().skip(1)) {
        let series = SeriesId { dataset: head.dataset, resolution };
        let end = chunks::end(c, series).await?.unwrap_or(Timestamp::MIN);
        let over = Span { first: Timestamp::MIN, last: end };
        let some = singles::read(c, series, over, Order::Ascending, OVER_STEP).await?;
        if let (Some(first), Some(last)) = (some.first(), some.last()) {
            let span = Span { first: first.timestamp, last: last.timestamp };
            chunks::overlay(c, series, &Block::from(some.as_slice())).await?;
            singles::remove(c, series, span).await?;
            return Ok(true);
        }
        // What the next rows need again stays single.
        let before = Timestamp::from_micros(longer.bucket_start(newest).micros() - 1);
        let fresh = Span { first: end, last: before };
        let fresh_ones = singles::read(c, series, fresh, Order::Ascending, i64::MAX).await?;
        if fresh_ones.len() >= NEW_CHUNK_MIN {
            singles::remove(c, series, fresh).await?;
            chunks::insert(c, series, &Block::from(fresh_ones.as_slice())).await?;
        }
        join_short(c, series).await?;
    }
    head.n_loose = 0;
    Ok(false)
}

/// Makes long chunks of runs of short ones.
async fn join_short(c: &mut PgConnection, series: SeriesId) -> Result<()> {
    let all = Span { first: Timestamp::MIN, last: Timestamp::MAX };
    let places = chunks::places(c, series, all, i64::MAX).await?;
    for run in places.chunk_by(|a, b| a.n < CHUNK_ROWS / 2 && b.n < CHUNK_ROWS / 2) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        if run.len() < 2 || run.iter().map(|place| place.n).sum::<usize>() < CHUNK_ROWS {
            continue;
        }
        let span = Span { first: first.span.first, last: last.span.last };
        let mut joined = Block::from([].as_slice());
        for chunk in chunks::read_spans(c, series, &[span]).await? {
            chunk.decode(series.dataset, span, &mut joined, None)?;
        }
        chunks::remove(c, run.iter().map(|place| place.id).collect()).await?;
        chunks::insert(c, series, &joined).await?;
    }
    Ok(())
}
