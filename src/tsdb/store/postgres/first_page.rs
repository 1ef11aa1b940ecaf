//! A page of raw rows by one statement, which sees one snapshot in one round trip instead of five.
//!
//! Defended by the row "page of 250 in PostgreSQL" of the bench `figures`. It finds most pages: those out
//! of two chunks at most, and the tail. The others are read by `pages`. A chunk is most of what the
//! answer carries, so the second comes along only if the first one seems to have too few of the rows.

use std::ops::Range;

use db::postgres::fault::unsigned;
use model::{
    block::{Block, Rows},
    dataset::{DatasetId, Dtype},
    resolution::Resolution,
    timestamp::Timestamp,
};
use sqlx::{AssertSqlSafe, PgConnection};

use super::{
    Result, StoreError,
    chunks::{Chunk, select_first},
    head::check_place,
    tail, texts,
};
use crate::{
    span::{Order, Span},
    store::{
        Count, PAGE_TEXT_BYTES_MAX, PageOfRows, PageRead,
        series::{SeriesId, direction},
    },
};

/// Rows of a page that is worth it: more are in more chunks.
const LIMIT_MAX: usize = 1024;

/// The part of the rows that a chunk should have of a span, by how much of its time is in it, that it is
/// expected to have: rows do not come evenly, and a page that lacks some is read again in full.
const EVEN: f64 = 0.8;

/// Chunks that are read at most: a page of the usual 250 rows is in two at most, where chunks are long.
const CHUNKS: usize = 2;

/// The kind of the record of the dataset's state, which the statement writes and its reader knows.
const HEAD: i32 = 0;

/// The kind of the records that are rows of the tail.
const ROW: i32 = 1;

/// The kind of the records that are chunks.
const CHUNK: i32 = 2;

/// The kind of the record of the first segment, in the order of the page, that touches the span.
const SEGMENT: i32 = 3;

/// The place of a dataset that is on this server: others count from 0.
const HERE: i64 = -1;

/// A record of one kind: the revision or a number, timestamps or ends, the rows of a chunk, its times
/// and body, or the types of the columns. That of the state has place and generation for timestamps.
type Found = (i32, i64, i64, i64, i64, Option<Vec<u8>>, Option<Vec<u8>>, Option<Vec<String>>);

/// What was read for a page, as it is stored.
#[derive(Debug)]
pub(super) struct Packed {
    revision: u64,
    empty: Block,
    /// Rows of the tail, oldest first.
    tail: Vec<(i64, Vec<u8>)>,
    /// At most [`CHUNKS`], oldest first.
    chunks: Vec<Chunk>,
    /// Whether no other chunk touches the span.
    is_all: bool,
    /// What the first segment covers that touches the span.
    segment: Option<Span>,
}

/// Whether a page may be found by one statement: it is not counted, and skips nothing.
pub(super) fn suits(read: &PageRead) -> bool {
    let PageRead { resolution, span, skip, limit, count, .. } = *read;
    resolution == Resolution::Raw
        && count == Count::Nothing
        && skip == 0
        && limit <= LIMIT_MAX
        && span.first <= span.last
}

/// Reads what a page is likely made of.
pub(super) async fn read(
    c: &mut PgConnection,
    dataset: DatasetId,
    PageRead { span, order, limit, .. }: PageRead,
) -> Result<Packed> {
    let (id, resolution, first, last) = SeriesId::rows(dataset).within(span);
    let found: Vec<Found> = sqlx::query_as(AssertSqlSafe(statement(order)))
        .bind(id)
        .bind(resolution)
        .bind(first)
        .bind(last)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .bind(EVEN)
        .fetch_all(c)
        .await?;
    let mut head = None;
    let (mut tail, mut chunks, mut is_all, mut segment) = (Vec::new(), Vec::new(), true, None);
    for (kind, id, first, last, n, times, body, dtypes) in found {
        match (kind, body) {
            (HEAD, _) => {
                check_place(dataset, Some(first).filter(|place| *place != HERE), last)?;
                head = Some((id, dtypes.unwrap_or_default()));
            }
            (SEGMENT, _) => {
                let (first, last) = (Timestamp::from_micros(first), Timestamp::from_micros(last));
                segment = Some(Span { first, last });
            }
            (CHUNK, None) => is_all = false,
            (CHUNK, Some(body)) => {
                let times = times.unwrap_or_default();
                chunks.push(Chunk::new((id, first, last, n, times, body))?);
            }
            (_, body) => tail.push((first, body.unwrap_or_default())),
        }
    }
    is_all &= chunks.len() < CHUNKS;
    let (revision, dtypes) = head.ok_or(StoreError::NoDataset { dataset })?;
    let dtypes: Vec<Dtype> = dtypes.iter().map(|text| texts::dtype(text)).collect::<Result<_>>()?;
    if order == Order::Descending {
        chunks.reverse();
        tail.reverse();
    }
    let (revision, empty) = (unsigned(revision)?, Block::new(&dtypes));
    Ok(Packed { revision, empty, tail, chunks, is_all, segment })
}

/// The statement that finds the head, the rows of the tail, and chunks in the order of the page. A chunk
/// that seems not to be needed comes without its body.
fn statement(order: Order) -> String {
    let first_ones = select_first("chunks", order, &CHUNKS.to_string());
    let first_segment = select_first("segments", order, "1");
    let direction = direction(order);
    format!(
        "SELECT {HEAD}, revision, coalesce(place, {HERE}), generation, 0::bigint,
             NULL::bytea, NULL::bytea,
             ARRAY(SELECT dtype FROM columns WHERE dataset = $1 ORDER BY ordinal)
         FROM head WHERE dataset = $1
         UNION ALL (SELECT {ROW}, id, t, 0, 0, NULL, body, NULL
             FROM tail WHERE dataset = $1 AND t BETWEEN $3 AND $4 ORDER BY t {direction} LIMIT $5)
         UNION ALL (SELECT {CHUNK}, id, t_first, t_last, n, times,
                 CASE WHEN coalesce(n_before, 0) < $5 THEN body END, NULL
             FROM (SELECT *, sum(n * $6 * (least(t_last, $4)::float8 - greatest(t_first, $3)::float8)
                     / greatest(t_last::float8 - t_first::float8, 1)) OVER (
                     ORDER BY t_last {direction} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                 ) AS n_before
                 FROM ({first_ones}) AS first_ones
             ) AS estimated ORDER BY t_last {direction})
         UNION ALL (SELECT {SEGMENT}, id, t_first, t_last, 0, NULL, NULL, NULL
             FROM ({first_segment}) AS first_segment)"
    )
}

impl Packed {
    /// The page; none if what was read is not enough.
    pub(super) fn page(self, dataset: DatasetId, read: &PageRead) -> Result<Option<PageOfRows>> {
        let PageRead { span, order, limit, .. } = *read;
        let Self { revision, empty, tail, chunks, is_all, segment } = self;
        let here = match (chunks.as_slice(), order) {
            _ if is_all => span,
            ([.., last], Order::Ascending) => Span { last: last.place.span.last, ..span },
            ([first, ..], Order::Descending) => Span { first: first.place.span.first, ..span },
            ([], _) => span,
        };
        let mut here = Span { first: here.first.max(span.first), last: here.last.min(span.last) };
        if let Some(segment) = segment {
            // From there on its rows are missing.
            match order {
                Order::Ascending => here.last = here.last.min(just_before(segment.first)),
                Order::Descending => here.first = here.first.max(just_after(segment.last)),
            }
        }
        let is_all = is_all && segment.is_none();
        let under = first_rows(&chunks, dataset, here, order, limit, &empty)?;
        if under.len() >= limit {
            // No row beyond these is of the page, whatever the tail has.
            match order {
                Order::Ascending => here.last = under.times.last().copied().unwrap_or(here.last),
                Order::Descending => {
                    here.first = under.times.first().copied().unwrap_or(here.first);
                }
            }
        }
        let over = tail::decode(&empty, dataset, tail.into_iter())?;
        let over = over.part(over.first_not_before(here.first)..over.first_after(here.last));
        let merged = if over.is_empty() { under } else { under.merge(&over) };
        let n = merged.len();
        if (n < limit && !is_all) || merged.text_bytes() > PAGE_TEXT_BYTES_MAX {
            return Ok(None);
        }
        let wanted = match order {
            Order::Ascending => 0..n.min(limit),
            Order::Descending => n - n.min(limit)..n,
        };
        let mut page = if wanted == (0..n) { merged } else { merged.part(wanted) };
        if order == Order::Descending {
            page.reverse();
        }
        Ok(Some(PageOfRows { count: None, rows: Rows::Raw(page), revision }))
    }
}

/// The first rows of a span in chunks, which are oldest first, as are the rows.
fn first_rows(
    chunks: &[Chunk],
    dataset: DatasetId,
    span: Span,
    order: Order,
    limit: usize,
    empty: &Block,
) -> Result<Block> {
    let mut parts = Vec::with_capacity(chunks.len());
    for chunk in chunks {
        parts.push((chunk, chunk.rows_within(dataset, span)?));
    }
    let mut left = limit;
    let mut trim = |rows: &mut Range<usize>| {
        let n = rows.len().min(left);
        left -= n;
        match order {
            Order::Ascending => rows.end = rows.start + n,
            Order::Descending => rows.start = rows.end - n,
        }
    };
    match order {
        Order::Ascending => parts.iter_mut().for_each(|(_, rows)| trim(rows)),
        Order::Descending => parts.iter_mut().rev().for_each(|(_, rows)| trim(rows)),
    }
    let mut under = empty.clone();
    for (chunk, rows) in parts {
        chunk.decode_part(dataset, rows, &mut under)?;
    }
    Ok(under)
}

fn just_before(timestamp: Timestamp) -> Timestamp {
    Timestamp::from_micros(timestamp.micros().saturating_sub(1))
}

fn just_after(timestamp: Timestamp) -> Timestamp {
    Timestamp::from_micros(timestamp.micros().saturating_add(1))
}
