//! People with psql read in views what the store reads.

use std::cell::Cell;

use model::{block::Series, dataset::Dtype, row::Value};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};

use super::*;
use crate::{
    codec,
    span::Order,
    store::{
        objects::Objects,
        series::{self, ALL},
    },
};

/// Columns of a body: place, floats, numbers and texts.
type BodyColumn =
    (i32, Option<Vec<Option<f64>>>, Option<Vec<Option<i64>>>, Option<Vec<Option<String>>>);

/// Runs a statement, whose error is returned as people see it.
fn try_run(url: &str, sql: &str) -> Result<(), String> {
    with_connection(url, async |mut c| {
        let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut c).await;
        done.map(drop).map_err(|error| error.to_string())
    })
}

/// The floats of a series by their bits, so that the two zeros differ, or its other values.
fn exact(series: &Series) -> Vec<String> {
    match series {
        Series::Float(values) => {
            values.iter().map(|value| format!("{:?}", value.map(f64::to_bits))).collect()
        }
        Series::Integer(values) => values.iter().map(|value| format!("{value:?}")).collect(),
        Series::String(values) => values.iter().map(|value| format!("{value:?}")).collect(),
        Series::Boolean(values) => values.iter().map(|value| format!("{value:?}")).collect(),
    }
}

/// The series of values that SQL unpacked, as `like` has them.
fn series_of(like: &Series, n: usize, column: BodyColumn) -> Series {
    let (_, floats, numbers, texts) = column;
    let numbers = || numbers.clone().unwrap_or_else(|| vec![None; n]);
    match like {
        Series::Float(_) => Series::Float(floats.unwrap_or_else(|| vec![None; n])),
        Series::Integer(_) => Series::Integer(numbers()),
        Series::Boolean(_) => {
            Series::Boolean(numbers().into_iter().map(|number| number.map(|n| n != 0)).collect())
        }
        Series::String(_) => {
            let texts = texts.unwrap_or_else(|| vec![None; n]);
            Series::String(texts.into_iter().map(|text| text.map(Into::into)).collect())
        }
    }
}

/// Checks that the functions unpack all ways in which a block is written.
async fn check_unpacked(c: &mut PgConnection, block: &Block) {
    let micros = |times: &[Timestamp]| times.iter().map(|time| time.micros()).collect::<Vec<_>>();
    for encoded in codec::tests::forms(block) {
        let n = i32::try_from(block.len()).unwrap();
        let times = micros(&block.times);
        let unpacked: Vec<i64> = sqlx::query_scalar("SELECT datasets.times($1, $2, $3, $4)")
            .bind(&encoded.times)
            .bind(i64::from(n))
            .bind(times.first())
            .bind(times.last())
            .fetch_one(&mut *c)
            .await
            .unwrap();
        assert_eq!(unpacked, times);
        let sql = "SELECT place, floats, numbers, texts FROM datasets.body_columns($1, $2)";
        let mut columns: Vec<BodyColumn> =
            sqlx::query_as(sql).bind(&encoded.body).bind(n).fetch_all(&mut *c).await.unwrap();
        let numbers = |column: BodyColumn| -> Vec<i64> {
            column.2.unwrap().into_iter().map(Option::unwrap).collect()
        };
        if n > 0 {
            assert_eq!(numbers(columns.remove(0)), block.ids);
            assert_eq!(numbers(columns.remove(0)), micros(&block.created));
        }
        assert_eq!(columns.len(), block.columns.len());
        for (series, column) in block.columns.iter().zip(columns) {
            assert_eq!(exact(&series_of(series, block.len(), column)), exact(series));
        }
    }
}

#[test]
#[ignore = "needs a PostgreSQL server"]
fn any_block_is_unpacked_by_sql() {
    let url = new_database();
    drop(open(&url));
    let blocks = prop_oneof![codec::tests::block(), codec::tests::numbers()];
    let n = Cell::new(0);
    let config = Config { cases: 96, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&blocks, |block| {
        n.set(n.get() + 1);
        with_connection(&url, async |mut c| check_unpacked(&mut c, &block).await);
        Ok(())
    });
    assert!(outcome.is_ok() && n.get() >= 96, "{outcome:?}");
}

const COLUMNS: [(&str, Dtype); 6] = [
    ("price", Dtype::Float),
    ("near \"it\"", Dtype::Float),
    ("n", Dtype::Integer),
    ("word", Dtype::String),
    ("text", Dtype::String),
    ("is_on", Dtype::Boolean),
];

/// Rows of all types at some seconds, some without values; `round` changes all of them.
fn rows_at(seconds: impl Iterator<Item = i64>, round: i64) -> Block {
    let mut block = Block::new(&COLUMNS.map(|(_, dtype)| dtype));
    for second in seconds {
        block.times.push(Timestamp::from_micros(second * 1_000_000 + second % 3));
        let small = i32::try_from((second * 7919 + round) % 10_007).unwrap();
        let price = match small % 50 {
            0 => -0.0,
            1 => f64::from(small) * 1e290,
            2 => 5e-324 * f64::from(small),
            _ => f64::from(small - 5000) / 100.0,
        };
        let values = [
            Value::Float(price),
            Value::Float(f64::from(small).sqrt() - 50.0),
            Value::Integer(if small % 99 == 0 { i64::MIN + second } else { second * second }),
            Value::String(
                ["buy", "sell", "", "haltéd"][usize::try_from(small % 4).unwrap()].into(),
            ),
            Value::String(format!("{{\"{second}\\ {round}")),
            Value::Boolean(small % 2 == 0),
        ];
        for (idx, (series, value)) in (0..).zip(block.columns.iter_mut().zip(values)) {
            if (small + idx) % 13 == 0 {
                series.push_missing(1);
            } else {
                series.push(value).unwrap();
            }
        }
    }
    block
}

/// A row of the view: timestamp, number, when it was stored, and values.
type ViewRow = (
    i64,
    i64,
    i64,
    Option<f64>,
    Option<f64>,
    Option<i64>,
    Option<String>,
    Option<String>,
    Option<bool>,
    Option<f64>,
);

/// Reads rows from where they are `FROM`, oldest first, with a column that was added.
fn rows_of_view(url: &str, from: &str) -> (Block, Vec<Option<f64>>) {
    let sql = format!(
        r#"SELECT datasets.micros(t), id, datasets.micros(created_at), (values->>'price')::float8,
             (values->>'near "it"')::float8, (values->>'n')::bigint, values->>'word', values->>'text',
             (values->>'is_on')::boolean, (values->>'added')::float8 FROM {from} ORDER BY t"#
    );
    let rows: Vec<ViewRow> = with_connection(url, async |mut c| {
        sqlx::query_as(AssertSqlSafe(sql)).fetch_all(&mut c).await.unwrap()
    });
    let mut block = Block::new(&COLUMNS.map(|(_, dtype)| dtype));
    let mut all_added = Vec::new();
    for (t, id, created, price, near, n, word, text, is_on, added) in rows {
        block.times.push(Timestamp::from_micros(t));
        block.ids.push(id);
        block.created.push(Timestamp::from_micros(created));
        let values = [
            price.map(Value::Float),
            near.map(Value::Float),
            n.map(Value::Integer),
            word.map(Value::String),
            text.map(Value::String),
            is_on.map(Value::Boolean),
        ];
        for (series, value) in block.columns.iter_mut().zip(values) {
            match value {
                Some(value) => series.push(value).unwrap(),
                None => series.push_missing(1),
            }
        }
        all_added.push(added);
    }
    (block, all_added)
}

/// What the store reads of a dataset, oldest first.
fn stored(store: &PostgresStore, id: DatasetId, resolution: Resolution, span: Span) -> Rows {
    let (skip, limit, order) = (0, usize::MAX, Order::Ascending);
    let read = PageRead { resolution, span, order, skip, limit, count: Count::All };
    store.page(id, &read).unwrap().rows
}

/// Checks that the views have the rows and buckets of the store.
fn compare_views(url: &str, store: &PostgresStore, id: DatasetId) {
    let some =
        Span { first: Timestamp::from_seconds(123_456), last: Timestamp::from_seconds(234_567) };
    let between = |span: Span| {
        let [first, last] = [span.first, span.last].map(Timestamp::micros);
        format!("_between({id}, datasets.at({first}), datasets.at({last}))")
    };
    for (from, span) in [
        (format!("datasets.rows WHERE dataset = {id}"), ALL),
        (format!("datasets.rows{}", between(some)), some),
    ] {
        let Rows::Raw(mut want) = stored(store, id, Resolution::Raw, span) else {
            panic!("not rows")
        };
        assert!(want.len() > 100);
        let (rows, added) = rows_of_view(url, &from);
        if let Some(Series::Float(want)) = want.columns.get(6) {
            assert_eq!(&added, want);
        }
        want.columns.truncate(6);
        assert_eq!(
            (&rows.times, &rows.ids, &rows.created),
            (&want.times, &want.ids, &want.created)
        );
        for (series, want) in rows.columns.iter().zip(&want.columns) {
            assert_eq!(exact(series), exact(want));
        }
    }
    for resolution in [Resolution::FiveMinutes, Resolution::Hour, Resolution::Day] {
        let length = format!("length = '{} s'", series::code(resolution));
        for (from, span) in [
            (format!("datasets.bars WHERE dataset = {id} AND {length}"), ALL),
            (format!("datasets.bars{} WHERE {length}", between(some)), some),
        ] {
            let sql = format!(
                "SELECT datasets.micros(t), open, high, low, close, volume, count FROM {from} ORDER BY t"
            );
            let bars: Vec<(i64, f64, f64, f64, f64, f64, i64)> =
                with_connection(url, async |mut c| {
                    sqlx::query_as(AssertSqlSafe(sql)).fetch_all(&mut c).await.unwrap()
                });
            let bars: Vec<String> = bars.iter().map(|bar| format!("{bar:?}")).collect();
            let Rows::Buckets(want) = stored(store, id, resolution, span) else {
                panic!("not buckets")
            };
            assert!(!want.is_empty());
            let text = |b: &model::row::Bucket| {
                let bar = (b.timestamp.micros(), b.open, b.high, b.low, b.close, b.volume, b.count);
                format!("{bar:?}")
            };
            assert_eq!(bars, want.iter().map(text).collect::<Vec<_>>(), "{resolution}");
        }
    }
}

/// A dataset with all types, without its own maintenance.
async fn create_mixed(url: &str) -> (PostgresStore, DatasetId) {
    let store = PostgresStore::connect(&url.parse().unwrap()).unwrap();
    let columns = COLUMNS.map(|(name, dtype)| (name.to_owned(), dtype)).to_vec();
    let dataset = NewDataset { columns, ..contract::new_dataset("mixed") };
    let id = contract::create(&store, dataset).await;
    (store, id)
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn views_have_the_rows_and_buckets_of_the_store() {
    let url = new_database();
    let (store, id) = create_mixed(&url).await;
    // Other datasets are not in the way.
    let other = contract::create(&store, contract::new_dataset("other")).await;
    contract::append(&store, other, contract::block((0..3000).map(|n| (n * 60, 1.0)))).await;
    let now = Timestamp::from_seconds(1_800_000_000);
    contract::append(&store, id, rows_at((0..30_000).map(|n| n * 60), 0)).await;
    compare_views(&url, &store, id);
    // Corrections and late rows, then rows that stay in the tail.
    contract::append(&store, id, rows_at((0..400).map(|n| n * 4260), 1)).await;
    contract::append(&store, id, rows_at((0..100).map(|n| n * 900 + 7), 2)).await;
    contract::append(&store, id, rows_at((30_000..30_100).map(|n| n * 60), 3)).await;
    let span =
        Span { first: Timestamp::from_seconds(200_000), last: Timestamp::from_seconds(222_222) };
    assert!(store.delete_rows(id, span, now, Box::new(|_| {})).await.unwrap() > 0);
    let tail = "SELECT count(*) FROM datasets.tail WHERE replaces";
    assert!(number(&url, tail) > 100, "corrections are over chunks");
    compare_views(&url, &store, id);
    let added = DatasetChange::NewColumns(vec![("added".to_owned(), Dtype::Float)]);
    store.change(id, added, now).await.unwrap();
    let mut newer = rows_at((30_100..30_200).map(|n| n * 60), 4);
    newer.columns.push(Series::Float((0..100).map(|n| Some(f64::from(n))).collect()));
    contract::append(&store, id, newer).await;
    compare_views(&url, &store, id);
    let first = &store.servers.first().connections;
    maintenance::settle_all(first, None, Unsettled::Any).await.unwrap();
    compare_views(&url, &store, id);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn chunks_that_are_not_asked_for_are_not_unpacked_and_damaged_ones_are_named() {
    let url = new_database();
    let (store, id) = create_mixed(&url).await;
    let other = contract::create(&store, contract::new_dataset("other")).await;
    for dataset in [id, other] {
        let rows = if dataset == id {
            rows_at((0..5000).map(|n| n * 60), 0)
        } else {
            contract::block((0..5000).map(|n| (n * 60, 1.0)))
        };
        contract::append(&store, dataset, rows).await;
    }
    let early = |column: &str, value: &str| {
        let sql = format!(
            "UPDATE datasets.chunks SET {column} = {value} WHERE id = (SELECT id FROM datasets.chunks
                 WHERE dataset = {id} AND resolution = 0 ORDER BY t_last LIMIT 1)"
        );
        run(&url, &sql);
    };
    let all = format!("SELECT count(values::text) FROM datasets.rows WHERE dataset = {id}");
    let check = |want: &str| {
        let error = try_run(&url, &all).unwrap_err();
        assert!(error.contains(&format!("decode a chunk: {want}")), "{error}");
        // Other datasets, and other times of this one.
        let others = "SELECT count(values::text) FROM datasets.rows WHERE name = 'other'";
        assert_eq!(number(&url, others), 5000);
        let later = format!(
            "SELECT count(values::text) FROM datasets.rows_between({id},
                 'epoch'::timestamptz + interval '200000 s', 'infinity')"
        );
        assert_eq!(number(&url, &later), 1666);
    };
    assert_eq!(number(&url, &all), 5000);
    for (column, damaged, undo, want) in [
        ("body", "set_byte(body, 0, 7)", "set_byte(body, 0, 2)", "unknown version 7"),
        ("times", "set_byte(times, 0, 1)", "set_byte(times, 0, 2)", "unknown version 1"),
        ("n", "n + 1", "n - 1", "it is not where it should be"),
        ("t_first", "t_first + 1", "t_first - 1", "it is not where it should be"),
        (
            "body",
            "set_byte(body, 5, get_byte(body, 5) # 1)",
            "set_byte(body, 5, get_byte(body, 5) # 1)",
            "another number of rows",
        ),
        ("body", "substring(body FOR octet_length(body) - 9)", "body", "it ends too early"),
    ] {
        early(column, damaged);
        check(want);
        early(column, undo);
    }
}

/// The views of a database as programs made them that showed single buckets alone.
const OLDER: &str = "DROP VIEW datasets.overview, datasets.rows, datasets.bars;
    COMMENT ON TABLE datasets.format IS NULL;
    CREATE VIEW datasets.overview AS SELECT id, name, description FROM datasets.datasets;
    CREATE VIEW datasets.bars AS
    SELECT d.name, b.dataset, make_interval(secs => b.resolution) AS length, datasets.at(b.t) AS t,
        b.open, b.high, b.low, b.close, b.volume, b.count
    FROM datasets.buckets b JOIN datasets.datasets d ON d.id = b.dataset";

const COUNT_BARS: &str = "SELECT count(*) FROM datasets.bars WHERE length = '5 minutes'";

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn an_older_database_gets_the_views_from_services_that_start_at_once() {
    let url = new_database();
    let (store, id) = create_mixed(&url).await;
    contract::append(&store, id, rows_at((0..3000).map(|n| n * 600), 0)).await;
    run(&url, OLDER);
    assert!(number(&url, COUNT_BARS) < 1000);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| drop(open(&url)));
        }
    });
    assert!(number(&url, COUNT_BARS) > 2000);
    assert_eq!(number(&url, "SELECT count(*) FROM datasets.rows"), 3000);
    assert_eq!(number(&url, "SELECT rows::bigint FROM datasets.overview"), 3000);
}

#[test]
#[ignore = "needs a PostgreSQL server"]
fn views_that_cannot_be_replaced_now_keep_no_service_from_starting() {
    let url = new_database();
    drop(open(&url));
    let is_other = "SELECT count(*) FROM pg_class WHERE oid = 'datasets.format'::regclass
         AND obj_description(oid) = 'of another text'";
    run(&url, "COMMENT ON TABLE datasets.format IS 'of another text'");
    with_connection(&url, async |mut reader| {
        let read = "BEGIN; SELECT count(*) FROM datasets.overview";
        sqlx::raw_sql(read).execute(&mut reader).await.unwrap();
        drop(open(&url));
    });
    assert_eq!(number(&url, is_other), 1, "a reader is in the way");
    let database = url.rsplit('/').next().unwrap();
    let set = |value: &str| {
        let sql = format!("ALTER DATABASE {database} SET default_transaction_read_only = {value}");
        run(&url, &format!("BEGIN READ WRITE; {sql}; COMMIT"));
    };
    set("on");
    drop(open(&url));
    set("off");
    assert_eq!(number(&url, is_other), 1, "it takes no writes");
    drop(open(&url));
    assert_eq!(number(&url, is_other), 0);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn what_is_on_another_server_is_not_counted_as_nothing() {
    let urls = servers::new_pair();
    let store = open(&urls[0]);
    let ids = servers::create_on_both(&store).await;
    for id in ids {
        contract::append(&store, id, contract::block((0..700).map(|n| (n, 1.0)))).await;
    }
    let line = |id: DatasetId, url: &str| -> (Option<i64>, Option<String>) {
        let sql = format!("SELECT rows::bigint, place FROM datasets.overview WHERE id = {id}");
        with_connection(url, async |mut c| {
            sqlx::query_as(AssertSqlSafe(sql)).fetch_one(&mut c).await.unwrap()
        })
    };
    assert_eq!(line(ids[0], &urls[0]), (Some(700), None));
    assert_eq!(line(ids[1], &urls[0]), (None, Some("second".to_owned())));
    assert_eq!(line(ids[1], &urls[1]), (Some(700), None));
    for (id, url) in ids.iter().zip(&urls) {
        let sql = format!("SELECT count(*) FROM datasets.rows WHERE dataset = {id}");
        assert_eq!(number(url, &sql), 700);
    }
    assert_eq!(number(&urls[0], "SELECT count(*) FROM datasets.rows"), 700);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn rows_in_objects_are_counted_and_not_shown() {
    let (url, objects) = (new_database(), Objects::in_memory());
    let store = segments::open_cold(&url, segments::eager(&objects));
    let (id, _) = segments::create_long(&store, "cold").await;
    segments::seal(&store).await.unwrap();
    contract::append(&store, id, contract::block([(9_999_999, 1.0)])).await;
    let sql = "SELECT rows_in_objects::bigint FROM datasets.overview";
    let n = number(&url, sql);
    assert!(n > 9000, "{n}");
    assert_eq!(number(&url, "SELECT rows::bigint FROM datasets.overview"), 10_241);
    assert_eq!(number(&url, "SELECT count(*) FROM datasets.rows"), 10_241 - n);
}
