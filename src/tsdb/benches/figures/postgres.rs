//! The store in a database beside what one writes by hand: a table with a row for each bar, in the same
//! database, with the same durability, batch by batch and page by page in turns, so that a busy machine
//! is as slow for the one as for the other. The embedded store is measured in the same run.

use model::dataset::DatasetId;
use sqlx::{Connection as _, PgConnection};
use tokio::time::Instant;

use super::{
    BATCH, Outcome, START,
    bars::{Bars, random},
    median,
    store::{Bar, Figures, Page},
    table::Table,
    to_f64,
};

/// Pages of one kind, of which the median counts.
const PAGES: usize = 2000;

/// A row of the plain table, from its time on.
type Row = (i64, f64, f64, f64, f64, f64, f64, f64);

/// The table that one writes by hand.
const TABLE: &str = "CREATE TABLE plain_rows (
    dataset bigint NOT NULL, t bigint NOT NULL,
    open float8, high float8, low float8, close float8, volume float8, notional float8, trades float8,
    PRIMARY KEY (dataset, t)
)";

/// Measures a store in the database at `url`, a plain table there, and `embedded` with its dataset `id`
/// of `n` rows.
pub(crate) async fn measure(
    url: &str,
    embedded: &Figures,
    id: DatasetId,
    n: usize,
    table: &mut Table,
) -> Outcome<()> {
    let store = Figures::open_database(url)?;
    let shared = store.create("btcusd_1min").await?;
    let mut plain = Plain { connection: PgConnection::connect(url).await? };
    let (taken, by_hand) = ingest(&store, shared, &mut plain, n).await?;
    table.say("ingest in PostgreSQL", to_f64(n) / taken / 1e6, "M rows/s");
    table.at_least("ingest in PostgreSQL over a plain table", by_hand / taken, 1.0, "x");

    let n_minutes = i64::try_from(n)?;
    let mut draw = random(7);
    let mut minute = || START + draw(n_minutes.unsigned_abs()).cast_signed() * 9 / 10;
    let own = median(PAGES, || embedded.page(id, Page::After(minute()), 250).map(|_| ()))?;
    let (mut pages, mut by_hand) = (Vec::new(), Vec::new());
    for _ in 0..PAGES {
        let minute = minute();
        let (taken, _) =
            seconds(async || Ok(store.page(shared, Page::After(minute), 250)?)).await?;
        pages.push(taken);
        by_hand.push(seconds(async || plain.page(minute).await).await?.0);
    }
    let (page, by_hand) = (middle(pages), middle(by_hand));
    table.say("page of 250 in PostgreSQL", page * 1e6, "us");
    table.say("page of 250 in PostgreSQL over embedded", page / own, "x");
    table.at_most("page of 250 in PostgreSQL over a plain table", page / by_hand, 1.0, "x");

    let (scan, _) = seconds(async || Ok(store.scan(shared)?)).await?;
    let (own, _) = seconds(async || Ok(embedded.scan(id)?)).await?;
    let (by_hand, _) = seconds(async || plain.scan().await).await?;
    table.say("scan in PostgreSQL", to_f64(n) / scan / 1e6, "M rows/s");
    table.say("scan in PostgreSQL over embedded, time", scan / own, "x");
    table.at_most("scan in PostgreSQL over a plain table, time", scan / by_hand, 1.0, "x");

    let (days, n_days) = seconds(async || Ok(store.days(shared)?)).await?;
    let (own, _) = seconds(async || Ok(embedded.days(id)?)).await?;
    let (by_hand, n_plain) = seconds(async || plain.days().await).await?;
    if n_days != n_plain {
        return Err(format!("{n_days} days are {n_plain} by hand").into());
    }
    table.say("all buckets of a day in PostgreSQL", days * 1e3, "ms");
    table.say("buckets of a day in PostgreSQL over embedded, time", days / own, "x");
    table.at_most("buckets of a day in PostgreSQL over a plain table", days / by_hand, 1.0, "x");
    Ok(())
}

/// Appends `n` bars to a dataset and to a plain table, a batch at a time in turns; the seconds of each.
async fn ingest(
    store: &Figures,
    id: DatasetId,
    plain: &mut Plain,
    n: usize,
) -> Outcome<(f64, f64)> {
    sqlx::raw_sql(TABLE).execute(&mut plain.connection).await?;
    let mut bars = Bars::new();
    let (mut ours, mut by_hand) = (0.0, 0.0);
    for _ in 0..n / BATCH {
        let batch: Vec<Bar> = bars.by_ref().take(BATCH).collect();
        ours += seconds(async || Ok(store.append(id, &batch).await?)).await?.0;
        by_hand += seconds(async || plain.append(&batch).await).await?.0;
    }
    sqlx::raw_sql("ANALYZE plain_rows").execute(&mut plain.connection).await?;
    Ok((ours, by_hand))
}

fn middle(mut taken: Vec<f64>) -> f64 {
    taken.sort_unstable_by(f64::total_cmp);
    taken.get(taken.len() / 2).copied().unwrap_or_default()
}

/// How many seconds `work` takes, and what it returns.
async fn seconds<T>(work: impl AsyncFnOnce() -> Outcome<T>) -> Outcome<(f64, T)> {
    let start = Instant::now();
    let done = work().await?;
    Ok((start.elapsed().as_secs_f64(), done))
}

/// A plain table.
struct Plain {
    connection: PgConnection,
}

impl Plain {
    async fn append(&mut self, batch: &[Bar]) -> Outcome<()> {
        let times: Vec<i64> = batch.iter().map(|(minute, _)| minute * 60_000_000).collect();
        let mut insert = sqlx::query(
            "INSERT INTO plain_rows SELECT 1, * FROM unnest($1::bigint[], $2::float8[],
                 $3::float8[], $4::float8[], $5::float8[], $6::float8[], $7::float8[], $8::float8[])",
        )
        .bind(times);
        for place in 0..7 {
            let values = batch.iter().map(|(_, values)| values.get(place).copied());
            insert = insert.bind(values.collect::<Vec<Option<f64>>>());
        }
        insert.execute(&mut self.connection).await?;
        Ok(())
    }

    async fn page(&mut self, minute: i64) -> Outcome<usize> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT t, open, high, low, close, volume, notional, trades FROM plain_rows
             WHERE dataset = 1 AND t > $1 ORDER BY t LIMIT 250",
        )
        .bind(minute * 60_000_000)
        .fetch_all(&mut self.connection)
        .await?;
        Ok(rows.len())
    }

    async fn scan(&mut self) -> Outcome<usize> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT t, open, high, low, close, volume, notional, trades FROM plain_rows
             WHERE dataset = 1 ORDER BY t",
        )
        .fetch_all(&mut self.connection)
        .await?;
        Ok(rows.len())
    }

    async fn days(&mut self) -> Outcome<usize> {
        let rows: Vec<(i64, f64, f64, f64, f64, f64, i64)> = sqlx::query_as(
            "SELECT t / 86400000000 AS day, (array_agg(open ORDER BY t))[1], max(high), min(low),
                 (array_agg(close ORDER BY t DESC))[1], sum(volume), count(*)
             FROM plain_rows WHERE dataset = 1 GROUP BY day ORDER BY day",
        )
        .fetch_all(&mut self.connection)
        .await?;
        Ok(rows.len())
    }
}
