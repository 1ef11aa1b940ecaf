//! The steps of a move. Each can be done again.

use futures::FutureExt as _;
use sqlx::{AssertSqlSafe, PgConnection};

use super::{
    super::{Result, StoreError, columns_copy::StoredColumns, delete, servers::FIRST},
    Move, OnProgress, Step,
    copy::{
        ChunkCopies, check_logs, check_small, put_logs, put_small, receive_logs, receive_small,
    },
    lock_stated, raise, stated, stored_place,
};

/// Passes over the chunks while the source is written. Each has as much less to do as the one before was
/// shorter, and what the last one leaves is copied behind the fence.
const LIVE_PASSES: usize = 3;

/// Tables of which the source's rows go at once, and not bit by bit as those of a deleted dataset do: what
/// such rows stand for outside of the database is the target's by then, and is not to be removed with
/// them.
const RELEASED: [&str; 4] = ["batches", "unsettled", "segments", "objects"];

/// The generation of the state that a further server has of a dataset which it is to get.
const NEW_GENERATION: i64 = 1;

/// Changed chunks that are copied behind the fence without another pass: they take milliseconds.
const FENCED_CHUNKS: usize = 16;

/// The state of a dataset as its server has it: revision, last row, newest row, start, rows and buckets to
/// pack, the commit before a column was renamed, last change, and number of moves.
type StoredHead = (i64, i64, Option<i64>, Option<i64>, i64, i64, i64, i64, i64, i64);

impl Move {
    /// Records how far it is, and where the dataset is once that is the target.
    pub(super) async fn record(&self, step: Step) -> Result<()> {
        let (dataset, place) = (self.dataset.get(), stored_place(self.target.place));
        let (id, overtaken) = (self.id, self.overtaken());
        let write = self.first.connections.write(move |c| {
            async move {
                if step == Step::Clean {
                    let sql = "UPDATE head SET place = $2 WHERE dataset = $1";
                    sqlx::query(sql).bind(dataset).bind(place).execute(&mut *c).await?;
                }
                let sql = "UPDATE moves SET step = $2,
                     touched_at = (extract(epoch FROM now()) * 1000000)::bigint
                     WHERE id = $1 AND step <> $3";
                let record = sqlx::query(sql).bind(id).bind(step.to_string());
                let record = record.bind(Step::Cancel.to_string());
                let is_recorded = record.execute(c).await?.rows_affected() > 0;
                if is_recorded { Ok(()) } else { Err(overtaken) }
            }
            .boxed()
        });
        write.await
    }

    /// Removes what the target has of the dataset, and makes its place there.
    pub(super) async fn purge(&mut self) -> Result<()> {
        let dataset = self.dataset;
        let is_further = self.target.place != FIRST;
        let (awaited, overtaken) = (self.awaited, self.overtaken());
        self.write_target(Step::Purge, move |c| {
            async move {
                match lock_stated(c, dataset).await? {
                    Some((Some(_), generation)) if Some(generation) == awaited => {}
                    // A creation that went to another server left it: what was moved there has a
                    // higher number.
                    Some((None, NEW_GENERATION)) if awaited == Some(NEW_GENERATION) => {}
                    None if awaited.is_none() => {}
                    _ => return Err(overtaken),
                }
                if is_further {
                    delete::dataset(c, dataset).await?;
                } else {
                    raise(c, dataset).await?;
                }
                delete::doom(c, dataset).await
            }
            .boxed()
        })
        .await?;
        self.awaited = if is_further { Some(NEW_GENERATION) } else { awaited.map(|it| it + 1) };
        delete::finish(&self.target.connections, dataset).await?;
        if !is_further {
            return Ok(());
        }
        let source = self.source.place;
        let make = self.write_target(Step::Purge, move |c| {
            async move {
                let sql = "INSERT INTO datasets
                         (id, name, folded, description, searched, created_at)
                     OVERRIDING SYSTEM VALUE VALUES ($1, $1::text, $1::text, '', '',
                         (extract(epoch FROM now()) * 1000000)::bigint)";
                sqlx::query(sql).bind(dataset.get()).execute(&mut *c).await?;
                let sql = "INSERT INTO head (dataset, place, generation, updated_at)
                     VALUES ($1, $2, $3, 0)";
                let insert = sqlx::query(sql).bind(dataset.get()).bind(source);
                insert.bind(NEW_GENERATION).execute(c).await?;
                Ok(())
            }
            .boxed()
        });
        make.await
    }

    /// Whether the target has the dataset.
    pub(super) async fn is_active(&self) -> Result<bool> {
        let missing = StoreError::NoDataset { dataset: self.dataset };
        Ok(stated(&self.target, self.dataset).await?.ok_or(missing)?.0.is_none())
    }

    /// Copies all of the dataset, behind the fence in the end, and activates the target.
    pub(super) async fn copy(&self, on_progress: &OnProgress) -> Result<()> {
        let mut chunks = ChunkCopies::find(self).await?;
        if stated(&self.source, self.dataset).await?.is_some_and(|(place, _)| place.is_none()) {
            for _ in 0..LIVE_PASSES {
                let n_changed = chunks.copy(self, on_progress).await?;
                self.record(Step::Copy).await?;
                if n_changed <= FENCED_CHUNKS {
                    break;
                }
            }
            self.copy_logs_live().await?;
            self.fence().await?;
        }
        chunks.copy(self, on_progress).await?;
        self.activate(chunks.len()).await
    }

    /// Copies the logs as far as they go.
    async fn copy_logs_live(&self) -> Result<()> {
        let mut from = self.source.connections.snapshot().await?;
        let mut to = self.target.connections.begin_write().await?;
        let copied = async {
            receive_logs(&mut from, &mut to, self.dataset).await?;
            self.lock_target(&mut to).await?;
            put_logs(&mut to).await
        };
        let copied = copied.await;
        let copied = to.finish(copied).await;
        from.finish(copied).await
    }

    /// Keeps writers from the source.
    pub(super) async fn fence(&self) -> Result<()> {
        let (dataset, target) = (self.dataset, self.target.place);
        let (fenced, overtaken) = (self.fenced, self.overtaken());
        let fence = self.source.connections.write(move |c| {
            async move {
                let sql = "UPDATE head SET place = $2, generation = $3 WHERE dataset = $1
                     AND (place IS NULL AND generation = $3 - 1 OR place = $2 AND generation = $3)";
                let fence = sqlx::query(sql).bind(dataset.get()).bind(target).bind(fenced);
                let is_fenced = fence.execute(c).await?.rows_affected() > 0;
                if is_fenced { Ok(()) } else { Err(overtaken) }
            }
            .boxed()
        });
        fence.await
    }

    /// Copies what is left, and gives the dataset to the target, where that has all that the source has.
    async fn activate(&self, n_chunks: usize) -> Result<()> {
        let mut from = self.source.connections.snapshot().await?;
        let mut to = self.target.connections.begin_write().await?;
        let activated = async {
            receive_logs(&mut from, &mut to, self.dataset).await?;
            receive_small(&mut from, &mut to, self.dataset).await?;
            self.lock_target(&mut to).await?;
            put_logs(&mut to).await?;
            put_small(&mut to, self.dataset).await?;
            check_small(&mut from, &mut to, self.dataset).await?;
            check_logs(&mut from, &mut to, self.dataset, n_chunks).await?;
            StoredColumns::read(&mut from, self.dataset)
                .await?
                .write(&mut to, self.dataset)
                .await?;
            self.put_head(&mut from, &mut to).await
        };
        let activated = activated.await;
        let activated = to.finish(activated).await;
        from.finish(activated).await
    }

    async fn put_head(&self, from: &mut PgConnection, to: &mut PgConnection) -> Result<()> {
        let sql =
            "SELECT revision, last_row, newest, kept_from, n_fresh, n_late, n_loose, renamed_after,
             updated_at, generation FROM head
             WHERE dataset = $1 AND place = $2 AND generation = $3";
        let read = sqlx::query_as(sql).bind(self.dataset.get()).bind(self.target.place);
        let found: Option<StoredHead> = read.bind(self.fenced).fetch_optional(from).await?;
        let found = found.ok_or_else(|| self.overtaken())?;
        let (revision, last_row, newest, kept_from, n_fresh, ..) = found;
        let (.., n_late, n_loose, renamed_after, updated_at, generation) = found;
        let put = sqlx::query(
            "UPDATE head SET revision = $2, last_row = $3, newest = $4, kept_from = $5, n_fresh = $6,
                 n_late = $7, n_loose = $8, renamed_after = $9, updated_at = $10, generation = $11 + 1,
                 place = NULL
             WHERE dataset = $1",
        )
        .bind(self.dataset.get())
        .bind(revision)
        .bind(last_row)
        .bind(newest)
        .bind(kept_from)
        .bind(n_fresh)
        .bind(n_late)
        .bind(n_loose)
        .bind(renamed_after)
        .bind(updated_at)
        .bind(generation);
        put.execute(&mut *to).await?;
        let sql = "INSERT INTO unsettled (dataset) VALUES ($1) ON CONFLICT DO NOTHING";
        sqlx::query(sql).bind(self.dataset.get()).execute(to).await?;
        Ok(())
    }

    /// Removes what the source has of the dataset, and the record of the move.
    pub(super) async fn clean(&self) -> Result<()> {
        let (dataset, fenced) = (self.dataset, self.fenced);
        let (target, is_further) = (self.target.place, self.source.place != FIRST);
        let clean = self.source.connections.write(move |c| {
            async move {
                // Else it was done, and the dataset may be there again.
                let stated = lock_stated(c, dataset).await?;
                if stated.is_none_or(|it| it.0 != Some(target) || Some(it.1) != fenced) {
                    return Ok(());
                }
                for table in RELEASED {
                    let sql = format!("DELETE FROM {table} WHERE dataset = $1");
                    sqlx::query(AssertSqlSafe(sql)).bind(dataset.get()).execute(&mut *c).await?;
                }
                if is_further {
                    delete::dataset(c, dataset).await?;
                }
                delete::doom(c, dataset).await
            }
            .boxed()
        });
        clean.await?;
        self.forget().await
    }

    /// Removes the record of the move.
    pub(super) async fn forget(&self) -> Result<()> {
        let id = self.id;
        let forget = self.first.connections.write(move |c| {
            let forget = sqlx::query("DELETE FROM moves WHERE id = $1").bind(id);
            async move { Ok::<_, StoreError>(forget.execute(c).await.map(drop)?) }.boxed()
        });
        forget.await
    }
}
