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
    commit::Changes,
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

/// The last buckets before some row, of each of [`KEPT`] but the last: those in the longer bucket that is
/// open then, with which the row is folded.
#[derive(Debug, Clone)]
pub(super) struct OpenBuckets(Vec<Vec<Bucket>>);

impl OpenBuckets {
    /// Reads those before a row at `first`.
    pub(super) async fn read(c: &mut PgConnection, head: &Head, first: Timestamp) -> Result<Self> {
        if head.fold.is_none() {
            return Ok(Self(Vec::new()));
        }
        let span = |(finer, span)| (SeriesId { dataset: head.dataset, resolution: finer }, span);
        let spans: Vec<(SeriesId, Span)> = open_spans(first).map(span).collect();
        let mut found = singles::read_each(c, &spans).await?;
        for ((series, span), found) in spans.into_iter().zip(&mut found) {
            if head.bucket_end(series.resolution).is_some_and(|end| end >= span.first) {
                *found = read_stored(c, series, &[span]).await?;
            }
        }
        Ok(Self(found))
    }

    /// Leaves those that a later row at `first` is folded with.
    fn narrow(&mut self, first: Timestamp) {
        for ((_, span), buckets) in open_spans(first).zip(&mut self.0) {
            buckets
                .retain(|bucket| span.first <= bucket.timestamp && bucket.timestamp <= span.last);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }
}

/// Of each of [`KEPT`] but the last: from the start of the longer bucket around `first` to that of the
/// one around it.
fn open_spans(first: Timestamp) -> impl Iterator<Item = (Resolution, Span)> {
    KEPT.into_iter().zip(KEPT.into_iter().skip(1)).map(move |(finer, longer)| {
        (finer, Span { first: longer.bucket_start(first), last: finer.bucket_start(first) })
    })
}

/// Folds rows, which come after all rows before them, onto the last buckets, which are `open`, and adds
/// what is to be written to `changes`. Then `open` are the last ones after these rows.
pub(super) fn extend(head: &mut Head, open: &mut OpenBuckets, rows: &Block, changes: &mut Changes) {
    let (Some(fold), Some(first)) = (head.fold, rows.times.first().copied()) else { return };
    let [finest, ..] = KEPT;
    open.narrow(first);
    let start = finest.bucket_start(first);
    let again = open.0.first_mut().and_then(|ones| ones.pop_if(|one| one.timestamp == start));
    put_extended(head, open, fold.buckets(rows, finest, again), changes);
    open.narrow(rows.times.last().copied().unwrap_or(first));
}

/// Adds new buckets of the finest resolution, which come after all that are there, to `changes`, and the
/// longer ones that follow from them.
pub(super) fn extend_finest(
    head: &mut Head,
    open: &mut OpenBuckets,
    new: Vec<Bucket>,
    changes: &mut Changes,
) {
    let Some(first) = new.first() else { return };
    open.narrow(first.timestamp);
    put_extended(head, open, new, changes);
}

/// Adds new buckets of the finest resolution to `changes`, and the longer ones that follow from them and
/// from the `open` ones before them, among which they are then.
fn put_extended(head: &mut Head, open: &mut OpenBuckets, new: Vec<Bucket>, changes: &mut Changes) {
    let mut all = vec![new];
    for (finer, longer) in open.0.iter_mut().zip(KEPT.into_iter().skip(1)) {
        let Some((new, first)) = all.last().and_then(|new| Some((new, new.first()?))) else {
            break;
        };
        // Those that are folded again.
        finer.truncate(finer.partition_point(|bucket| bucket.timestamp < first.timestamp));
        finer.extend_from_slice(new);
        let longer_ones = coarsen(finer, longer);
        for bucket in finer.iter_mut() {
            *bucket = as_stored(*bucket);
        }
        all.push(longer_ones);
    }
    for (place, (resolution, new)) in KEPT.into_iter().zip(&all).enumerate() {
        let new: Vec<Bucket> = new.iter().copied().map(as_stored).collect();
        // What the next rows need again stays out of chunks.
        let longer = KEPT.get(place + 1).zip(new.last());
        let start = longer.map(|(longer, last)| longer.bucket_start(last.timestamp));
        let n_closed =
            start.map_or(0, |start| new.partition_point(|bucket| bucket.timestamp < start));
        let (closed, rest) = new.split_at_checked(n_closed).unwrap_or((&[], &new));
        let is_chunk = put_chunk(head, resolution, closed, changes);
        let single = if is_chunk { rest } else { new.as_slice() };
        head.n_loose += single.len();
        for bucket in single {
            changes.buckets.add(resolution, bucket);
        }
    }
}

/// Makes chunks of new buckets, if they are enough and do not begin within one; whether it did.
fn put_chunk(
    head: &mut Head,
    resolution: Resolution,
    new: &[Bucket],
    changes: &mut Changes,
) -> bool {
    let (Some(first), Some(last)) = (new.first(), new.last()) else { return false };
    let is_within = head.bucket_end(resolution).is_some_and(|end| first.timestamp <= end);
    if new.len() < NEW_CHUNK_MIN || is_within {
        return false;
    }
    // The first one may have been single before.
    let span = Span { first: first.timestamp, last: last.timestamp };
    changes.replaced.push((SeriesId { dataset: head.dataset, resolution }, span));
    changes.chunks.add(resolution, &Block::from(new));
    head.set_bucket_end(resolution, last.timestamp);
    // Short chunks are packed, too.
    head.n_loose += NEW_CHUNK_MIN * 4;
    true
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
    let places = chunks::all_places(c, series, all).await?;
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
