//! Compares a store in a database with hand-written tables: a table with a row for each bar, and a table
//! with buckets of the same five resolutions. Both tables are in the same database, with the same
//! durability and number of connections. Store and tables are measured alternately, batch by batch and
//! page by page, so that other load on the machine affects store and tables equally. The embedded store
//! is measured in the same run.

use db::postgres::connections::{Connections, ConnectionsOptions, Snapshot};
use db::postgres::schema::Schema;
use futures::FutureExt as _;
use futures::executor::block_on;
use futures::future::BoxFuture;
use model::dataset::DatasetId;
use sqlx::{AssertSqlSafe, PgConnection};
use test_bench::{Outcome, Table, to_f64};
use tokio::runtime::{Builder, Runtime};
use tokio::task::unconstrained;
use tokio::time::Instant;
use tsdb::store::StoreError;

use super::bars::{Bars, random};
use super::store::{Bar, Figures, Page};
use super::{START, median};

/// Number of pages per round, of which the median duration is used.
const PAGES: usize = 250;

/// Number of rounds. The first round fills caches and is not measured.
const ROUNDS: usize = 41;

/// Number of runtime threads for the connections of the plain table, the same as for the store.
const THREADS: usize = 2;

/// A row of the plain table, without its timestamp.
type Row = (f64, f64, f64, f64, f64, f64, f64, f64);

/// Number of rows of a batch.
const BATCH_ROWS: usize = 5000;

/// The hand-written tables: rows with buckets of five resolutions, and a table of rows without buckets.
const TABLES: &str = "CREATE TABLE plain_rows (
    dataset bigint NOT NULL, t timestamptz NOT NULL,
    open float8, high float8, low float8, close float8, volume float8, notional float8, trades float8,
    PRIMARY KEY (dataset, t)
);
CREATE TABLE plain_buckets (
    dataset bigint NOT NULL, resolution interval NOT NULL, t timestamptz NOT NULL,
    open float8, high float8, low float8, close float8, volume float8, count bigint,
    PRIMARY KEY (dataset, resolution, t)
);
CREATE TABLE bare_rows (LIKE plain_rows INCLUDING ALL)";

/// Computes the buckets of a resolution that contain rows from `$1` on.
const FOLD: &str = "INSERT INTO plain_buckets
    SELECT 1, $2::interval, date_bin($2::interval, t, 'epoch') AS start,
        (array_agg(open ORDER BY t))[1], max(high), min(low), (array_agg(close ORDER BY t DESC))[1],
        sum(volume), count(*)
    FROM plain_rows WHERE dataset = 1 AND t >= date_bin($2::interval, $1, 'epoch') GROUP BY start
    ON CONFLICT (dataset, resolution, t) DO UPDATE SET open = excluded.open, high = excluded.high,
        low = excluded.low, close = excluded.close, volume = excluded.volume, count = excluded.count";

/// Resolutions of buckets, as SQL intervals.
const RESOLUTIONS: [&str; 5] = ["5 min", "15 min", "1 hour", "4 hours", "1 day"];

/// Measures a store in the database at `url`, plain tables in the same database, and the store
/// `embedded`, which has the dataset `id` with `n` rows.
pub(crate) async fn measure(
    url: &str,
    embedded: &Figures,
    id: DatasetId,
    n: usize,
    table: &mut Table,
) -> Outcome<()> {
    let store = Figures::open_database(url)?;
    let shared = store.create("btcusd_1min").await?;
    let plain = Plain::open(url)?;
    let Taken { ours, by_hand, bare } = ingest(&store, shared, &plain, n).await?;
    table.add("ingest in PostgreSQL", to_f64(n) / ours / 1e6, "M rows/s");
    let name = "ingest in PostgreSQL over hand-written SQL with the same buckets";
    table.at_least(name, by_hand / ours, 1.0, "x");
    table.at_least("ingest in PostgreSQL over COPY of bare rows", bare / ours, 0.5, "x");
    let n_bytes = plain.bytes()?;
    table.add("disk in PostgreSQL, with indexes and buckets", n_bytes / to_f64(n), "bytes a row");

    let n_minutes = i64::try_from(n)?;
    let mut draw = random(7);
    let mut minute = || START + draw(n_minutes.unsigned_abs()).cast_signed() * 9 / 10;
    let own = median(PAGES, || embedded.page(id, Page::After(minute()), 250).map(|_| ()))?;
    let page = pages(&store, shared, &plain, &mut minute, table)?;
    table.add("page of 250 in PostgreSQL over embedded", page / own, "x");

    let (scan, _) = seconds(async || Ok(store.scan(shared)?)).await?;
    let (own, _) = seconds(async || Ok(embedded.scan(id)?)).await?;
    let (by_hand, _) = seconds(async || plain.scan()).await?;
    table.add("scan in PostgreSQL", to_f64(n) / scan / 1e6, "M rows/s");
    table.add("scan in PostgreSQL over embedded, time", scan / own, "x");
    table.add("scan in PostgreSQL over a plain table, time", scan / by_hand, "x");

    let (days, n_days) = seconds(async || Ok(store.days(shared)?)).await?;
    let (own, _) = seconds(async || Ok(embedded.days(id)?)).await?;
    let (by_hand, n_plain) = seconds(async || plain.days()).await?;
    if n_days != n_plain {
        return Err(format!("{n_days} days are {n_plain} by hand").into());
    }
    table.add("all buckets of a day in PostgreSQL", days * 1e3, "ms");
    table.add("buckets of a day in PostgreSQL over embedded, time", days / own, "x");
    table.at_most("buckets of a day in PostgreSQL over a plain table", days / by_hand, 0.1, "x");
    Ok(())
}

/// Reads pages that begin at random minutes, in rounds and alternately from the store and the plain
/// table. Returns the median duration of the store.
fn pages(
    store: &Figures,
    id: DatasetId,
    plain: &Plain,
    mut minute: impl FnMut() -> i64,
    table: &mut Table,
) -> Outcome<f64> {
    let (mut all, mut all_by_hand, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (mut pages, mut by_hand) = (Vec::new(), Vec::new());
        for page_idx in 0..PAGES {
            let minute = minute();
            let mut read = |is_plain: bool| {
                let start = Instant::now();
                if is_plain {
                    plain.page(minute)?;
                } else {
                    store.page(id, Page::After(minute), 250)?;
                }
                let taken = if is_plain { &mut by_hand } else { &mut pages };
                taken.push(start.elapsed().as_secs_f64());
                Outcome::Ok(())
            };
            let is_plain_first = page_idx % 2 == 0;
            read(is_plain_first)?;
            read(!is_plain_first)?;
        }
        if round > 0 {
            ratios.push(part(&mut pages, 0.5) / part(&mut by_hand, 0.5));
            all.append(&mut pages);
            all_by_hand.append(&mut by_hand);
        }
    }
    let n_behind = ratios.iter().filter(|ratio| **ratio > 1.0).count();
    let behind = to_f64(n_behind) / to_f64(ratios.len());
    let page = part(&mut all, 0.5);
    let name = "page of 250 in PostgreSQL";
    table.add(name, page * 1e6, "us");
    let ratio = page / part(&mut all_by_hand, 0.5);
    table.at_most(&format!("{name} over a plain table"), ratio, 1.2, "x");
    let ratio = part(&mut all, 0.95) / part(&mut all_by_hand, 0.95);
    table.add(&format!("{name} over a plain table, 95th percentile"), ratio, "x");
    table.add(&format!("{name} over a plain table, best round"), part(&mut ratios, 0.0), "x");
    table.add(&format!("{name} over a plain table, worst round"), part(&mut ratios, 1.0), "x");
    table.add(&format!("{name}, rounds behind a plain table"), behind, "of 1");
    Ok(page)
}

/// Duration of an ingest into each destination, in seconds.
struct Taken {
    ours: f64,
    by_hand: f64,
    bare: f64,
}

/// Appends `n` bars to a dataset and to plain tables, alternating after each batch.
async fn ingest(store: &Figures, id: DatasetId, plain: &Plain, n: usize) -> Outcome<Taken> {
    plain.write(|c| sqlx::raw_sql(TABLES).execute(c).map(done).boxed())?;
    let mut bars = Bars::new();
    let mut taken = Taken { ours: 0.0, by_hand: 0.0, bare: 0.0 };
    for _ in 0..n / BATCH_ROWS {
        let batch: Vec<Bar> = bars.by_ref().take(BATCH_ROWS).collect();
        taken.ours += seconds(async || Ok(store.append(id, &batch).await?)).await?.0;
        taken.by_hand += seconds(async || plain.append(&batch)).await?.0;
        taken.bare += seconds(async || plain.copy(&batch)).await?.0;
    }
    plain.write(|c| sqlx::raw_sql("ANALYZE plain_rows").execute(c).map(done).boxed())?;
    Ok(taken)
}

/// Returns the quantile `part` of the values: 0 is the minimum and 1 the maximum.
fn part(values: &mut [f64], part: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a place in the list"
    )]
    let place = (to_f64(values.len().saturating_sub(1)) * part).round() as usize;
    values.get(place).copied().unwrap_or_default()
}

fn done<T>(result: Result<T, sqlx::Error>) -> Result<(), StoreError> {
    result.map(drop).map_err(StoreError::from)
}

/// Runs `work` and returns its duration in seconds and its result.
async fn seconds<T>(work: impl AsyncFnOnce() -> Outcome<T>) -> Outcome<(f64, T)> {
    let start = Instant::now();
    let done = work().await?;
    Ok((start.elapsed().as_secs_f64(), done))
}

/// A plain table. Reads and writes block, as in the store.
struct Plain {
    connections: Connections,
    /// `None` only while the value is dropped.
    runtime: Option<Runtime>,
}

impl Drop for Plain {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Plain {
    fn open(url: &str) -> Outcome<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
        let schema = Schema { name: "public", version: 1, steps: &[], tables: "" };
        let options = ConnectionsOptions { schema, is_read_only: false, n_max: 16, n_writers: 12 };
        let connections = {
            let _context = runtime.enter();
            Connections::new(&url.parse()?, options)
        };
        Ok(Self { connections, runtime: Some(runtime) })
    }

    fn read<T: Send>(
        &self,
        read: impl for<'c> Fn(&'c mut PgConnection) -> BoxFuture<'c, Result<T, StoreError>> + Sync,
    ) -> Outcome<T> {
        let _context = self.runtime.as_ref().map(Runtime::enter);
        Ok(block_on(unconstrained(self.connections.read(Snapshot::Statement, read)))?)
    }

    fn write(
        &self,
        write: impl for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<(), StoreError>> + Send,
    ) -> Outcome<()> {
        let _context = self.runtime.as_ref().map(Runtime::enter);
        Ok(block_on(unconstrained(self.connections.write(write)))?)
    }

    /// Inserts rows and updates the buckets of these rows, in one transaction.
    fn append(&self, batch: &[Bar]) -> Outcome<()> {
        let times: Vec<i64> = batch.iter().map(|(minute, _)| minute * 60).collect();
        let first = times.first().copied().unwrap_or_default();
        let mut insert = sqlx::query(
            "INSERT INTO plain_rows SELECT 1, to_timestamp(t), o, h, l, c, v, n, d
             FROM unnest($1::bigint[], $2::float8[], $3::float8[], $4::float8[], $5::float8[],
                 $6::float8[], $7::float8[], $8::float8[]) AS s (t, o, h, l, c, v, n, d)",
        )
        .bind(times);
        for place in 0..7 {
            let values = batch.iter().map(|(_, values)| values.get(place).copied());
            insert = insert.bind(values.collect::<Vec<Option<f64>>>());
        }
        self.write(move |c| {
            async move {
                insert.execute(&mut *c).await?;
                let start = format!("to_timestamp({first})");
                for resolution in RESOLUTIONS {
                    let fold = FOLD.replace("$1", &start).replace("$2", &format!("'{resolution}'"));
                    sqlx::raw_sql(AssertSqlSafe(fold)).execute(&mut *c).await?;
                }
                Ok(())
            }
            .boxed()
        })
    }

    /// Inserts rows into the table without buckets, by a binary `COPY`.
    fn copy(&self, batch: &[Bar]) -> Outcome<()> {
        const EPOCH_MICROS: i64 = 946_684_800_000_000;
        let mut bytes = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
        for (minute, values) in batch {
            bytes.extend_from_slice(&9_i16.to_be_bytes());
            let keys = [1, minute * 60_000_000 - EPOCH_MICROS].map(i64::to_be_bytes);
            for field in keys.into_iter().chain(values.map(f64::to_be_bytes)) {
                bytes.extend_from_slice(&8_i32.to_be_bytes());
                bytes.extend_from_slice(&field);
            }
        }
        bytes.extend_from_slice(&(-1_i16).to_be_bytes());
        self.write(move |c| {
            async move {
                let statement = "COPY bare_rows FROM STDIN (FORMAT binary)";
                let mut copy = c.copy_in_raw(statement).await?;
                copy.send(bytes).await?;
                copy.finish().await?;
                Ok(())
            }
            .boxed()
        })
    }

    /// Returns the size on disk of the store's rows and buckets.
    fn bytes(&self) -> Outcome<f64> {
        self.read(|c| {
            async move {
                let sql = "SELECT (pg_total_relation_size('datasets.rows')
                     + pg_total_relation_size('datasets.buckets'))::float8";
                Ok(sqlx::query_scalar(sql).fetch_one(c).await?)
            }
            .boxed()
        })
    }

    fn page(&self, minute: i64) -> Outcome<usize> {
        self.read(|c| {
            async move {
                let rows: Vec<Row> = sqlx::query_as(
                    "SELECT extract(epoch FROM t)::float8, open, high, low, close, volume, notional, trades
                     FROM plain_rows WHERE dataset = 1 AND t > to_timestamp($1::float8)
                     ORDER BY t LIMIT 250",
                )
                .bind(minute * 60)
                .fetch_all(c)
                .await?;
                Ok(rows.len())
            }
            .boxed()
        })
    }

    fn scan(&self) -> Outcome<usize> {
        self.read(|c| {
            async move {
                let rows: Vec<Row> = sqlx::query_as(
                    "SELECT extract(epoch FROM t)::float8, open, high, low, close, volume, notional, trades
                     FROM plain_rows WHERE dataset = 1 ORDER BY t",
                )
                .fetch_all(c)
                .await?;
                Ok(rows.len())
            }
            .boxed()
        })
    }

    fn days(&self) -> Outcome<usize> {
        self.read(|c| {
            async move {
                let rows: Vec<(i64, f64, f64, f64, f64, f64, i64)> = sqlx::query_as(
                    "SELECT extract(epoch FROM date_bin('1 day', t, 'epoch'))::bigint AS day, (array_agg(open ORDER BY t))[1], max(high),
                         min(low), (array_agg(close ORDER BY t DESC))[1], sum(volume), count(*)
                     FROM plain_rows WHERE dataset = 1 GROUP BY day ORDER BY day",
                )
                .fetch_all(c)
                .await?;
                Ok(rows.len())
            }
            .boxed()
        })
    }
}
