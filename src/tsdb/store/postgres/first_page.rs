//! A page of raw rows by one statement, which sees one snapshot in one round trip instead of five.
//!
//! Defended by the row "page of 250 in PostgreSQL" of the bench `figures`. It finds most pages: those out
//! of two chunks at most, and the tail. The others are read by `pages`.

use db::postgres::fault::unsigned;
use model::{
    block::{Block, Rows},
    dataset::{DatasetId, Dtype},
    timestamp::Timestamp,
};
use sqlx::{AssertSqlSafe, PgConnection};

use super::{
    Result, StoreError,
    chunks::{Chunk, TOUCHES},
    tail, texts,
};
use crate::{
    span::{Order, Span},
    store::{
        PAGE_TEXT_BYTES_MAX, PageOfRows, PageRead,
        series::{SeriesId, direction},
    },
};

/// Chunks that are read: a page of the usual 250 rows is in two at most, where chunks are long.
const CHUNKS: i64 = 2;

/// Rows of a page that is worth it: more are in more chunks.
const LIMIT_MAX: usize = 1024;

/// The revision, the types of the columns, rows of the tail, and chunks by their columns.
type Found = (
    i64,
    Vec<String>,
    Vec<i64>,
    Vec<Vec<u8>>,
    Vec<i64>,
    Vec<i64>,
    Vec<i64>,
    Vec<Vec<u8>>,
    Vec<Vec<u8>>,
);

/// Reads a page that is not counted and skips nothing; none if that takes more than one statement.
pub(super) async fn read(
    c: &mut PgConnection,
    dataset: DatasetId,
    read: &PageRead,
) -> Result<Option<PageOfRows>> {
    let PageRead { span, order, limit, .. } = *read;
    if limit > LIMIT_MAX || span.first > span.last {
        return Ok(None);
    }
    let order_sql = direction(order);
    let sql = format!(
        "WITH some_chunks AS MATERIALIZED (
             SELECT * FROM chunks WHERE {TOUCHES} ORDER BY t_last {order_sql} LIMIT $5
         ), some_tail AS MATERIALIZED (
             SELECT t, body FROM tail WHERE dataset = $1 AND t BETWEEN $3 AND $4
             ORDER BY t {order_sql} LIMIT $6
         )
         SELECT revision, ARRAY(SELECT dtype FROM columns WHERE dataset = $1 ORDER BY ordinal),
             ARRAY(SELECT t FROM some_tail ORDER BY t), ARRAY(SELECT body FROM some_tail ORDER BY t),
             ARRAY(SELECT t_first FROM some_chunks ORDER BY t_last),
             ARRAY(SELECT t_last FROM some_chunks ORDER BY t_last),
             ARRAY(SELECT n FROM some_chunks ORDER BY t_last),
             ARRAY(SELECT times FROM some_chunks ORDER BY t_last),
             ARRAY(SELECT body FROM some_chunks ORDER BY t_last)
         FROM head WHERE dataset = $1"
    );
    let (id, resolution, first, last) = SeriesId::rows(dataset).within(span);
    let found: Option<Found> = sqlx::query_as(AssertSqlSafe(sql))
        .bind(id)
        .bind(resolution)
        .bind(first)
        .bind(last)
        .bind(CHUNKS)
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .fetch_optional(c)
        .await?;
    let (revision, dtypes, tail_times, tail_bodies, firsts, lasts, lengths, times, bodies) =
        found.ok_or(StoreError::NoDataset { dataset })?;
    let dtypes: Vec<Dtype> = dtypes.iter().map(|text| texts::dtype(text)).collect::<Result<_>>()?;
    let empty = Block::new(&dtypes);
    let is_all = i64::try_from(firsts.len()).unwrap_or(CHUNKS) < CHUNKS;
    let here = covered_span(span, order, &firsts, &lasts).filter(|_| !is_all).unwrap_or(span);
    let mut under = empty.clone();
    let places = firsts.into_iter().zip(lasts).zip(lengths);
    for (((first, last), n), (times, body)) in places.zip(times.into_iter().zip(bodies)) {
        Chunk::new((0, first, last, n, times, body))?.decode(dataset, here, &mut under, None)?;
    }
    let over = tail::decode(&empty, dataset, tail_times.into_iter().zip(tail_bodies))?;
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
    let mut page = merged.part(wanted);
    if order == Order::Descending {
        page.reverse();
    }
    Ok(Some(PageOfRows { count: None, rows: Rows::Raw(page), revision: unsigned(revision)? }))
}

/// The part of a span up to the end of the chunks that were read in order.
fn covered_span(span: Span, order: Order, firsts: &[i64], lasts: &[i64]) -> Option<Span> {
    Some(match order {
        Order::Ascending => {
            Span { last: Timestamp::from_micros(*lasts.last()?).min(span.last), ..span }
        }
        Order::Descending => {
            Span { first: Timestamp::from_micros(*firsts.first()?).max(span.first), ..span }
        }
    })
}
