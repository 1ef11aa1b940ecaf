//! Reads of rows and buckets: pages, spans, scans, and rows committed after a certain row.

use db::postgres::fault::unsigned;
use futures::TryStreamExt as _;
use model::block::{Block, Rows};
use model::dataset::DatasetId;
use model::resolution::Resolution;
use model::timestamp::Timestamp;
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, PgConnection, Row as _};

use super::binary::{ROW_COLUMNS, RowReader, read_bucket};
use super::buckets::code;
use super::head::Head;
use super::time::{Time, bounds, lists};
use super::{Result, StoreError};
use crate::span::{Order, Span};
use crate::store::series::{self, direction};
use crate::store::session::{self, Session as _};
use crate::store::{Count, PAGE_TEXT_BYTES_MAX, PageOfRows, PageRead, Since};

/// Maximum number of rows that a statement returns. With the longest texts, this many rows are twice as
/// large as [`PAGE_TEXT_BYTES_MAX`]. The overhead of another statement is equal to the cost of a hundred
/// rows.
pub(super) const STATEMENT_ROWS: usize = 2048;

/// Number of latest rows from which the size of all rows is estimated.
const SAMPLE_ROWS: i64 = 256;

/// Number of bytes that a row occupies in its page and in the index, in addition to its arrays.
const ROW_BYTES: i64 = 92;

/// Number of commits that a query reads to locate their rows.
const COMMITS_STEP: i64 = 4096;

/// SQL for the column types of dataset `$1`, in the order of the columns.
const DTYPES: &str =
    "ARRAY(SELECT dtype FROM datasets.columns WHERE dataset = $1 ORDER BY position)";

/// SQL that is true if dataset `d` has archived rows.
const HAS_ARCHIVED: &str = "(d.archived_until IS NOT NULL AND EXISTS
     (SELECT FROM datasets.archived WHERE dataset = d.id AND state = 1))";

/// Index of the first column of a row or bucket in the result of [`page_sql`].
const ROW_IDX: usize = 4;

/// Returns the SQL statement of a page. The first record of its result has the revision, the column
/// types, the number of matches if `is_counted`, and [`HAS_ARCHIVED`] for rows. It is missing if the
/// dataset is missing. Each further record has a row or a bucket, after four nulls.
///
/// PostgreSQL executes the parts of `UNION ALL` in their order, and never in parallel if a part has a
/// `LIMIT`. A join of both parts would need another sort, and takes a fifth longer.
fn page_sql(resolution: Resolution, order: Order, is_counted: bool) -> String {
    let bucket = "r.ts, r.open, r.high, r.low, r.close, r.volume, r.count";
    let (table, columns, dtypes, has_archived) = match resolution {
        Resolution::Raw => ("rows", ROW_COLUMNS, DTYPES, HAS_ARCHIVED),
        _ => ("buckets", bucket, "NULL::text[]", "false"),
    };
    let series = match resolution {
        // Rows have no resolution. Both statements have the same parameters.
        Resolution::Raw => "AND $6::integer IS NOT NULL",
        _ => "AND r.resolution = $6",
    };
    let matches =
        format!("FROM datasets.{table} r WHERE r.dataset = $1 AND r.ts BETWEEN $2 AND $3 {series}");
    let count =
        if is_counted { format!("(SELECT count(*) {matches})") } else { "NULL::bigint".into() };
    let nulls = ", NULL".repeat(columns.split(',').count());
    let direction = direction(order);
    format!(
        "SELECT d.revision, {dtypes}, {count}, {has_archived}{nulls}
         FROM datasets.datasets d WHERE d.id = $1
         UNION ALL
         (SELECT NULL, NULL, NULL, NULL, {columns} {matches}
         ORDER BY r.ts {direction} OFFSET $4 LIMIT $5)"
    )
}

/// Reads a page, and counts all matches if requested. `is_all` is true if the page must have all rows,
/// not only those that are not archived.
///
/// # Errors
/// [`StoreError::NoDataset`] if the dataset does not exist. [`StoreError::NoArchive`] if all rows are
/// required, but some are archived.
pub(super) async fn page(
    c: &mut PgConnection,
    dataset: DatasetId,
    read: PageRead,
    is_all: bool,
) -> Result<PageOfRows> {
    let mut page = statement_page(c, dataset, &read, is_all).await?;
    let mut rest = PageRead { skip: 0, count: Count::Nothing, ..read };
    while let Rows::Raw(rows) = &mut page.rows
        && let Some(last) = rows.times.last().copied()
    {
        let is_full = rows.text_bytes() > PAGE_TEXT_BYTES_MAX;
        if is_full || rows.len() >= read.limit || rows.len() % STATEMENT_ROWS != 0 {
            break;
        }
        rest.limit = read.limit - rows.len();
        rest.span = rest.span.split(read.order, last).1;
        let Rows::Raw(more) = statement_page(c, dataset, &rest, is_all).await?.rows else { break };
        if more.is_empty() {
            break;
        }
        rows.extend_from(&more, 0..more.len());
    }
    Ok(page)
}

/// Reads at most [`STATEMENT_ROWS`] rows from the start of a page, with one statement.
async fn statement_page(
    c: &mut PgConnection,
    dataset: DatasetId,
    read: &PageRead,
    is_all: bool,
) -> Result<PageOfRows> {
    let PageRead { resolution, span, order, skip, limit, count } = *read;
    let limit = if resolution == Resolution::Raw { limit.min(STATEMENT_ROWS) } else { limit };
    let (first, last) = bounds(span);
    let sql = page_sql(resolution, order, count == Count::All);
    let mut records = sqlx::query(AssertSqlSafe(sql))
        .bind(dataset.get())
        .bind(first)
        .bind(last)
        .bind(i64::try_from(skip).unwrap_or(i64::MAX))
        .bind(i64::try_from(limit).unwrap_or(i64::MAX))
        .bind(code(resolution))
        .fetch(c);
    let head = records.try_next().await?.ok_or(StoreError::NoDataset { dataset })?;
    // The rows of a dataset that was just deleted may still exist.
    let Some(revision) = head.try_get(0)? else { return Err(StoreError::NoDataset { dataset }) };
    let count = head.try_get::<Option<i64>, _>(2)?.map(unsigned).transpose()?;
    if is_all && head.try_get(3)? {
        return Err(StoreError::NoArchive);
    }
    let rows = if resolution == Resolution::Raw {
        let dtypes: Vec<String> = head.try_get(1)?;
        let reader = RowReader::named(&dtypes)?;
        let mut block = reader.empty.clone();
        while let Some(record) = records.try_next().await? {
            reader.read_into(&record, ROW_IDX, &mut block)?;
        }
        Rows::Raw(block)
    } else {
        let mut buckets = Vec::new();
        while let Some(record) = records.try_next().await? {
            buckets.push(read_bucket(&record, ROW_IDX)?);
        }
        Rows::Buckets(buckets)
    };
    Ok(PageOfRows { count, rows, revision: unsigned(revision)? })
}

/// Executes a query that returns rows of a dataset, and collects them in a block.
async fn collect(
    c: &mut PgConnection,
    reader: &RowReader,
    query: Query<'_, sqlx::Postgres, PgArguments>,
) -> Result<Block> {
    let mut block = reader.empty.clone();
    let mut records = query.fetch(c);
    while let Some(record) = records.try_next().await? {
        reader.read_into(&record, 0, &mut block)?;
    }
    Ok(block)
}

/// Returns `columns` of the stored rows within disjoint, sorted spans.
pub(super) async fn rows_within(
    c: &mut PgConnection,
    head: &Head,
    columns: &str,
    spans: &[Span],
) -> Result<Block> {
    let reader = RowReader::new(&head.dtypes);
    if spans.is_empty() {
        return Ok(reader.empty);
    }
    let (firsts, lasts) = lists(spans);
    let query = sqlx::query(AssertSqlSafe(spans_sql(columns, "ts")))
        .bind(head.dataset.get())
        .bind(firsts)
        .bind(lasts)
        .bind(0_i64)
        .bind(i64::MAX)
        .bind(i64::MAX);
    collect(c, &reader, query).await
}

/// Returns the SQL statement for the rows of dataset `$1` in the spans that begin at `$2` and end at
/// `$3`, with row numbers above `$4` and up to `$5`. The result has at most `$6` rows, sorted by
/// `order`.
fn spans_sql(columns: &str, order: &str) -> String {
    format!(
        "SELECT {columns} FROM unnest($2::timestamptz[], $3::timestamptz[]) AS s (first, last)
         CROSS JOIN LATERAL (
             SELECT * FROM datasets.rows WHERE dataset = $1 AND ts BETWEEN s.first AND s.last
                 AND id > $4 AND id <= $5 OFFSET 0
         ) AS r ORDER BY r.{order} LIMIT $6"
    )
}

/// Returns the timestamp of the row of a span that `n` rows precede. `None` if the span has fewer rows.
pub(super) async fn nth(
    c: &mut PgConnection,
    dataset: i64,
    span: Span,
    n: i64,
) -> Result<Option<Timestamp>> {
    let sql = "SELECT ts FROM datasets.rows WHERE dataset = ?1 AND ts BETWEEN ?2 AND ?3
         ORDER BY ts OFFSET ?4 LIMIT 1";
    let (first, last) = bounds(span);
    let found = c.all(sql, &[&dataset, &first, &last, &n], |row| row.get(0)).await?;
    Ok(found.first().map(|Time(at)| *at))
}

/// Returns the rows with row numbers above `after`, in ascending order and at most `limit`. Returns
/// `None` if the number `after` is unknown or its commit is no longer recorded. `is_all` is the same as
/// for [`page`].
///
/// Finds the rows by the timestamps in the records of commits, since an index by row number would slow
/// down every append.
pub(super) async fn since(
    c: &mut PgConnection,
    dataset: DatasetId,
    after: i64,
    limit: usize,
    is_all: bool,
) -> Result<Option<Since>> {
    let sql = format!(
        "SELECT d.revision, {DTYPES}, d.last_row, {HAS_ARCHIVED} FROM datasets.datasets d
         WHERE id = $1"
    );
    let state: Option<(i64, Vec<String>, i64, bool)> =
        sqlx::query_as(AssertSqlSafe(sql)).bind(dataset.get()).fetch_optional(&mut *c).await?;
    let (revision, dtypes, end, has_archived) = state.ok_or(StoreError::NoDataset { dataset })?;
    if is_all && has_archived {
        return Err(StoreError::NoArchive);
    }
    let reader = RowReader::named(&dtypes)?;
    if !(0..=end).contains(&after) {
        return Ok(None);
    }
    let mut rows = reader.empty.clone();
    let mut reached = after;
    let limit_rows = i64::try_from(limit).unwrap_or(i64::MAX);
    while reached < end && rows.len() <= limit {
        let places = places(c, dataset, reached, limit_rows).await?;
        let Some((spans, last_row)) = places else { return Ok(None) };
        let (firsts, lasts) = lists(&spans);
        let n_left = limit - rows.len();
        let query = sqlx::query(AssertSqlSafe(spans_sql(ROW_COLUMNS, "id")))
            .bind(dataset.get())
            .bind(firsts)
            .bind(lasts)
            .bind(reached)
            .bind(last_row)
            // Requests one additional row to find out if more rows follow.
            .bind(i64::try_from(n_left).unwrap_or(i64::MAX).saturating_add(1));
        let found = collect(c, &reader, query).await?;
        rows.extend_from(&found, 0..found.len());
        reached = last_row;
    }
    let is_all = rows.len() <= limit;
    rows.truncate(limit);
    Ok(Some(Since { rows, is_all, revision: unsigned(revision)? }))
}

/// Record of a commit: last row number, number of rows, first and last timestamp, timestamps of late
/// rows.
type Commit = (i64, i64, Option<Time>, Option<Time>, Option<Vec<Time>>);

/// Locates about `limit_rows` rows with row numbers above `after`. Returns disjoint spans that contain
/// all of their timestamps, in any order, and the highest row number. Returns `None` if the commit that
/// follows `after` is not recorded.
async fn places(
    c: &mut PgConnection,
    dataset: DatasetId,
    after: i64,
    limit_rows: i64,
) -> Result<Option<(Vec<Span>, i64)>> {
    let commits: Vec<Commit> = sqlx::query_as(
        "SELECT last_row, n_rows, first_ts, last_ts, late FROM (
             SELECT *, sum(n_rows) OVER (ORDER BY last_row) - n_rows AS n_before FROM (
                 SELECT * FROM datasets.commits
                 WHERE dataset = $1 AND last_row > $2 AND n_rows > 0 ORDER BY last_row LIMIT $3
             ) AS next
         ) AS counted WHERE n_before <= $4 ORDER BY last_row",
    )
    .bind(dataset.get())
    .bind(after)
    .bind(COMMITS_STEP)
    .bind(limit_rows)
    .fetch_all(c)
    .await?;
    let (mut spans, mut times): (Vec<Span>, Vec<Timestamp>) = Default::default();
    let Some((last_row, ..)) = commits.last() else { return Ok(None) };
    let last_row = *last_row;
    let is_next = commits.first().is_some_and(|(last, n_rows, ..)| last - n_rows <= after);
    for (_, _, first, last, late) in commits {
        match (late, spans.first_mut(), first.zip(last)) {
            (Some(late), ..) => times.extend(late.into_iter().map(|Time(at)| at)),
            // Extends the common span: without late rows, a commit comes after all rows that existed
            // when it was made.
            (None, Some(span), Some((Time(first), Time(last)))) => {
                *span = Span { first: span.first.min(first), last: span.last.max(last) };
            }
            (None, None, Some((Time(first), Time(last)))) => spans.push(Span { first, last }),
            (None, _, None) => {}
        }
    }
    times.sort_unstable();
    times.dedup();
    let is_apart =
        |at: &Timestamp| spans.first().is_none_or(|span| *at < span.first || span.last < *at);
    times.retain(is_apart);
    spans.extend(times.into_iter().map(|at| Span { first: at, last: at }));
    Ok(is_next.then_some((spans, last_row)))
}

/// Returns the timestamp at which to prune so that the remaining rows, with their buckets and index
/// entries, need about `n_bytes`. Returns `None` if all rows fit. The size is estimated from some of the
/// latest rows.
pub(super) async fn newest_within(
    c: &mut PgConnection,
    dataset: DatasetId,
    n_bytes: u64,
) -> Result<Option<Timestamp>> {
    let sql = "SELECT avg(?3 + coalesce(pg_column_size(numbers), 0) + coalesce(pg_column_size(integers), 0)
             + coalesce(pg_column_size(texts), 0))::float8
         FROM (SELECT * FROM datasets.rows WHERE dataset = ?1 ORDER BY ts DESC LIMIT ?2) AS newest";
    let average = |row: &session::Row<'_>| row.get::<Option<f64>>(0);
    let sizes = c.all(sql, &[&dataset.get(), &SAMPLE_ROWS, &ROW_BYTES], average).await?;
    let row_bytes = sizes.into_iter().flatten().next().unwrap_or(1.0);
    let sql = "SELECT ts FROM datasets.rows WHERE dataset = ?1 ORDER BY ts DESC
         OFFSET greatest(least(?2::float8 / ?3, 9e18)::bigint, 1) LIMIT 1";
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let n_bytes = n_bytes as f64;
    let found = c.all(sql, &[&dataset.get(), &n_bytes, &row_bytes], |row| row.get(0)).await?;
    Ok(found.first().map(|Time(at)| series::bucket_end(Resolution::FiveMinutes, *at)))
}
