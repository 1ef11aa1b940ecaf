//! What a move copies: chunks one by one, logs from where they were copied to, and small tables whole.

use std::collections::{BTreeMap, HashMap, HashSet};

use db::postgres::connections::Snapshot;
use futures::{FutureExt as _, TryStreamExt as _};
use model::dataset::DatasetId;
use sqlx::{AssertSqlSafe, PgConnection};

use super::{
    super::{Result, StoreError, chunks, servers::Server},
    Move, MoveProgress, OnProgress,
};

/// Tables that only grow, by revision. A table of what a dataset has is here, in [`SMALL`] or `chunks`, or
/// it is not moved.
pub(super) const LOGS: [&str; 2] = ["feed", "batches"];

/// Tables that are copied whole behind the fence.
pub(super) const SMALL: [&str; 4] = ["tail", "buckets", "segments", "objects"];

/// Bytes of chunks that are copied in one transaction, give or take one chunk.
const STEP_BYTES: i64 = 4 << 20;

/// Chunks that are copied in one transaction at most.
const STEP_CHUNKS: usize = 256;

/// Chunks of one page of a list.
const PAGE_CHUNKS: i64 = 20_000;

/// The same of a list with digests, for which their bytes are read.
const PAGE_DIGESTS: i64 = 1_000;

/// The digest of a chunk without its number.
const DIGEST: &str =
    "hash_record_extended(ROW(resolution, t_first, t_last, n, last_row, times, body), 0)";

/// Number, resolution, end, bytes and digest of a chunk; the digest is 0 where it is not asked for.
type ListedChunk = (i64, i64, i64, i64, i64);

/// A chunk with its digest, from `id` to `body`.
type StoredChunk = (i64, i64, i64, i64, i64, i64, Vec<u8>, Vec<u8>, i64);

/// Which chunks of the source are on the target, by their numbers here and there.
#[derive(Debug)]
pub(super) struct ChunkCopies(HashMap<i64, i64>);

impl ChunkCopies {
    /// Finds the chunks that were copied before, and removes others from the target.
    pub(super) async fn find(moved: &Move) -> Result<Self> {
        let there = list(moved, &moved.target, true).await?;
        if there.is_empty() {
            return Ok(Self(HashMap::new()));
        }
        let here = list(moved, &moved.source, true).await?;
        let key = |chunk: &ListedChunk| (chunk.1, chunk.2, chunk.4);
        let here: HashMap<_, i64> = here.iter().map(|chunk| (key(chunk), chunk.0)).collect();
        let mut copies = HashMap::new();
        let mut gone = Vec::new();
        for chunk in &there {
            match here.get(&key(chunk)) {
                Some(source) => drop(copies.insert(*source, chunk.0)),
                None => gone.push(chunk.0),
            }
        }
        remove(moved, gone).await?;
        Ok(Self(copies))
    }

    /// How many chunks are on the target.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Copies chunks that are not on the target, and removes those there that the source has no more; how
    /// many there were.
    pub(super) async fn copy(&mut self, moved: &Move, on_progress: &OnProgress) -> Result<usize> {
        let all = list(moved, &moved.source, false).await?;
        let live: HashSet<i64> = all.iter().map(|chunk| chunk.0).collect();
        let gone: Vec<(i64, i64)> = self.0.extract_if(|source, _| !live.contains(source)).collect();
        let new: Vec<_> = all.iter().filter(|chunk| !self.0.contains_key(&chunk.0)).collect();
        let n_changed = gone.len() + new.len();
        remove(moved, gone.into_iter().map(|copy| copy.1).collect()).await?;
        let n_all = u64::try_from(all.len()).unwrap_or(u64::MAX);
        let mut ids = Vec::new();
        let mut n_bytes = 0;
        for (idx, chunk) in new.iter().enumerate() {
            ids.push(chunk.0);
            n_bytes += chunk.3;
            if n_bytes >= STEP_BYTES || ids.len() >= STEP_CHUNKS || idx + 1 == new.len() {
                self.0.extend(copy_some(moved, std::mem::take(&mut ids)).await?);
                n_bytes = 0;
                let n_chunks = u64::try_from(self.0.len()).unwrap_or(u64::MAX);
                on_progress(MoveProgress { n_chunks, n_all });
                moved.touch().await?;
            }
        }
        Ok(n_changed)
    }
}

/// The chunks of the dataset on a server.
async fn list(moved: &Move, server: &Server, has_digests: bool) -> Result<Vec<ListedChunk>> {
    let (digest, page) =
        if has_digests { (DIGEST, PAGE_DIGESTS) } else { ("0::bigint", PAGE_CHUNKS) };
    let mut all: Vec<ListedChunk> = Vec::new();
    loop {
        let (resolution, end) = all.last().map_or((i64::MIN, i64::MIN), |last| (last.1, last.2));
        let sql = format!(
            "SELECT id, resolution, t_last, (octet_length(times) + octet_length(body))::bigint, {digest}
             FROM chunks WHERE dataset = $1 AND (resolution, t_last) > ($2, $3)
             ORDER BY resolution, t_last LIMIT $4"
        );
        let read = server.connections.read_here(Snapshot::Statement, |c| {
            let list = sqlx::query_as(AssertSqlSafe(sql.clone())).bind(moved.dataset.get());
            let list = list.bind(resolution).bind(end).bind(page);
            async move { Ok::<Vec<ListedChunk>, StoreError>(list.fetch_all(c).await?) }.boxed()
        });
        let found = read.await?;
        if found.is_empty() {
            return Ok(all);
        }
        all.extend(found);
        moved.touch().await?;
    }
}

/// Removes chunks from the target.
async fn remove(moved: &Move, ids: Vec<i64>) -> Result<()> {
    if ids.is_empty() {
        return Ok(());
    }
    let mut to = moved.target.connections.begin_write().await?;
    let removed = async {
        moved.lock_target(&mut to).await?;
        chunks::remove(&mut to, ids).await
    };
    let removed = removed.await;
    to.finish(removed).await
}

/// Copies chunks; their numbers on the source and on the target. Those that the source has no more are left
/// out.
async fn copy_some(moved: &Move, ids: Vec<i64>) -> Result<Vec<(i64, i64)>> {
    let sql = format!(
        "SELECT id, resolution, t_first, t_last, n, last_row, times, body, {DIGEST}
         FROM chunks WHERE id = ANY($1)"
    );
    let read = moved.source.connections.read_here(Snapshot::Statement, |c| {
        let read = sqlx::query_as(AssertSqlSafe(sql.clone())).bind(ids.clone());
        async move { Ok::<Vec<StoredChunk>, StoreError>(read.fetch_all(c).await?) }.boxed()
    });
    let chunks = read.await?;
    let sources: BTreeMap<(i64, i64), (i64, i64)> =
        chunks.iter().map(|chunk| ((chunk.1, chunk.3), (chunk.0, chunk.8))).collect();
    let mut to = moved.target.connections.begin_write().await?;
    let inserted = async {
        moved.lock_target(&mut to).await?;
        insert(&mut to, moved.dataset, chunks).await
    };
    let inserted = inserted.await;
    let mut copies = Vec::new();
    for (id, resolution, end, digest) in to.finish(inserted).await? {
        match sources.get(&(resolution, end)) {
            Some((source, read)) if *read == digest => copies.push((*source, id)),
            _ => return Err(unequal(moved.dataset, "chunks")),
        }
    }
    Ok(copies)
}

/// Inserts chunks; the number, resolution, end and digest of each.
async fn insert(
    c: &mut PgConnection,
    dataset: DatasetId,
    chunks: Vec<StoredChunk>,
) -> Result<Vec<(i64, i64, i64, i64)>> {
    let sql = format!(
        "INSERT INTO chunks (dataset, resolution, t_first, t_last, n, last_row, times, body)
         SELECT $1, * FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
             $6::bigint[], $7::bytea[], $8::bytea[])
         RETURNING id, resolution, t_last, {DIGEST}"
    );
    let number = |read: fn(&StoredChunk) -> i64| chunks.iter().map(read).collect::<Vec<i64>>();
    let inserted = sqlx::query_as(AssertSqlSafe(sql))
        .bind(dataset.get())
        .bind(number(|chunk| chunk.1))
        .bind(number(|chunk| chunk.2))
        .bind(number(|chunk| chunk.3))
        .bind(number(|chunk| chunk.4))
        .bind(number(|chunk| chunk.5))
        .bind(chunks.iter().map(|chunk| chunk.6.as_slice()).collect::<Vec<_>>())
        .bind(chunks.iter().map(|chunk| chunk.7.as_slice()).collect::<Vec<_>>());
    Ok(inserted.fetch_all(c).await?)
}

/// Receives the entries of logs from the last revision on that the target has of them, for [`put_logs`].
pub(super) async fn receive_logs(
    from: &mut PgConnection,
    to: &mut PgConnection,
    dataset: DatasetId,
) -> Result<()> {
    for table in LOGS {
        let sql = format!("SELECT coalesce(max(revision), 0) FROM {table} WHERE dataset = $1");
        let last = sqlx::query_scalar(AssertSqlSafe(sql)).bind(dataset.get());
        let last: i64 = last.fetch_one(&mut *to).await?;
        receive(from, to, table, &format!("dataset = {dataset} AND revision >= {last}")).await?;
    }
    Ok(())
}

/// Receives tables whole, for [`put_small`].
pub(super) async fn receive_small(
    from: &mut PgConnection,
    to: &mut PgConnection,
    dataset: DatasetId,
) -> Result<()> {
    for table in SMALL {
        receive(from, to, table, &format!("dataset = {dataset}")).await?;
    }
    Ok(())
}

/// Adds the entries that were received to the tables of [`LOGS`], but for those that are there.
pub(super) async fn put_logs(to: &mut PgConnection) -> Result<()> {
    for table in LOGS {
        put(to, table).await?;
    }
    Ok(())
}

/// Replaces what the tables of [`SMALL`] have of the dataset by the rows that were received.
pub(super) async fn put_small(to: &mut PgConnection, dataset: DatasetId) -> Result<()> {
    for table in SMALL {
        let sql = format!("DELETE FROM {table} WHERE dataset = $1");
        sqlx::query(AssertSqlSafe(sql)).bind(dataset.get()).execute(&mut *to).await?;
        put(to, table).await?;
    }
    Ok(())
}

/// Receives the rows of a table for which `condition` holds, in a table of the transaction. The transaction
/// must have no locks that others wait for: no time limit of the server ends one that waits for rows, as
/// it does while the mover is paused.
async fn receive(
    from: &mut PgConnection,
    to: &mut PgConnection,
    table: &str,
    condition: &str,
) -> Result<()> {
    let columns = list_columns(to, table).await?;
    let make = format!(
        "DROP TABLE IF EXISTS pg_temp.incoming_{table};
         CREATE TEMP TABLE incoming_{table} ON COMMIT DROP
         AS SELECT {columns} FROM {table} WITH NO DATA"
    );
    sqlx::raw_sql(AssertSqlSafe(make)).execute(&mut *to).await?;
    let out =
        format!("COPY (SELECT {columns} FROM {table} WHERE {condition}) TO STDOUT (FORMAT binary)");
    let mut rows = from.copy_out_raw(&out).await?;
    let copy_in = format!("COPY pg_temp.incoming_{table} ({columns}) FROM STDIN (FORMAT binary)");
    let mut into = to.copy_in_raw(&copy_in).await?;
    while let Some(bytes) = rows.try_next().await? {
        into.send(bytes).await?;
    }
    into.finish().await?;
    Ok(())
}

/// Adds the rows that were received of a table, but for those that are there.
async fn put(to: &mut PgConnection, table: &str) -> Result<()> {
    let columns = list_columns(to, table).await?;
    let sql = format!(
        "INSERT INTO {table} ({columns}) SELECT {columns} FROM pg_temp.incoming_{table}
         ON CONFLICT DO NOTHING"
    );
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(to).await?;
    Ok(())
}

/// The columns of a table, but for numbers that each server gives itself.
async fn list_columns(c: &mut PgConnection, table: &str) -> Result<String> {
    let sql = "SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute
         WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attidentity = ''";
    Ok(sqlx::query_scalar(sql).bind(table).fetch_one(c).await?)
}

/// Checks that the small tables are equal on both servers.
pub(super) async fn check_small(
    from: &mut PgConnection,
    to: &mut PgConnection,
    dataset: DatasetId,
) -> Result<()> {
    for table in SMALL {
        let columns = list_columns(to, table).await?;
        let sql = format!(
            "SELECT count(*), coalesce(sum(hash_record_extended(ROW({columns}), 0)), 0)::text
             FROM {table} WHERE dataset = $1"
        );
        check_equal(from, to, dataset, table, &sql).await?;
    }
    Ok(())
}

/// Checks that the target has all chunks, which were compared one by one, and all commits on record.
pub(super) async fn check_logs(
    from: &mut PgConnection,
    to: &mut PgConnection,
    dataset: DatasetId,
    n_chunks: usize,
) -> Result<()> {
    let sql = "SELECT count(*), coalesce(sum(hash_record_extended(
             ROW(resolution, t_first, t_last, n, last_row), 0)), 0)::text
         FROM chunks WHERE dataset = $1";
    let n_found = check_equal(from, to, dataset, "chunks", sql).await?;
    if usize::try_from(n_found) != Ok(n_chunks) {
        return Err(unequal(dataset, "chunks"));
    }
    // By one clock: what is old enough is so on both servers.
    let sql = "SELECT (extract(epoch FROM now()) * 1000000)::bigint - 3600 * 1000000::bigint";
    let since: i64 = sqlx::query_scalar(sql).fetch_one(&mut *from).await?;
    let sql = format!(
        "SELECT count(*), coalesce(sum(hash_record_extended(f, 0)), 0)::text
         FROM feed f WHERE dataset = $1 AND at > {since}"
    );
    check_equal(from, to, dataset, "feed", &sql).await?;
    Ok(())
}

/// Checks that a count and a digest are equal on both servers; the count.
async fn check_equal(
    from: &mut PgConnection,
    to: &mut PgConnection,
    dataset: DatasetId,
    table: &'static str,
    sql: &str,
) -> Result<i64> {
    let mut found: Vec<(i64, String)> = Vec::new();
    for c in [from, to] {
        let read = sqlx::query_as(AssertSqlSafe(sql.to_owned())).bind(dataset.get());
        found.push(read.fetch_one(c).await?);
    }
    match found.as_slice() {
        [here, there] if here == there => Ok(here.0),
        _ => Err(unequal(dataset, table)),
    }
}

/// A copy is not what was copied: another service moves the dataset at the same time, or a server has a
/// fault.
fn unequal(dataset: DatasetId, table: &str) -> StoreError {
    let reason = format!("the {table} of dataset {dataset} are not equal on both servers");
    StoreError::Commit { reason }
}
