//! `tests/data/datasets/scenarios.http`: requests of real clients and the exact bytes of their
//! responses.
//!
//! The file describes its format. Requests are sent from top to bottom to the program as a user would
//! start it, with rows whose timestamps are fixed and in the past.

use serde_json::{Value, json};
use tempfile::TempDir;

use super::bulk_insert::{new_key_with, serve_with};
use crate::support::http::Http;
use crate::support::scenarios::{Known, check, read_file};

/// Minimum number of scenarios, so that a truncated file does not pass.
const N_SCENARIOS_MIN: usize = 60;

/// Creates the datasets of the scenarios, which get their ids in this order.
async fn seed(owner: &Http) {
    let floats = ["open", "high", "low", "close", "volume", "volume_notional", "trades_done"];
    let floats: Vec<Value> =
        floats.iter().map(|name| json!({"name": name, "dtype": "float"})).collect();
    let typed = json!([
        {"name": "price", "dtype": "float"}, {"name": "trades", "dtype": "integer"},
        {"name": "note", "dtype": "string"}, {"name": "up", "dtype": "boolean"},
    ]);
    let metadata = json!({"source": "tiingo", "ticker": "btcusd",
        "provider": "forge-data-provider", "frequency": "1min"});
    let about = "Tiingo 1-minute OHLCV data for BTCUSD";
    for dataset in [
        json!({"name": "candlegpt_15min_btcusd", "columns": floats, "tags": ["public"]}),
        json!({"name": "typed rows", "columns": typed, "tags": ["public"]}),
        json!({"name": "tiingo_btcusd_1min", "description": about, "metadata": metadata,
            "columns": floats, "tags": ["public"]}),
        json!({"name": "tiingo_ethusd_1min", "columns": floats, "tags": ["premium"]}),
    ] {
        let (status, body) = owner.post("/api/datasets/", &dataset).await;
        assert!(status.is_success(), "{status}: {body}");
    }
    insert(owner, 2, typed_rows()).await;
    insert(owner, 3, (0..1440).map(minute).collect()).await;
    insert(owner, 3, golden()).await;
    insert(owner, 4, vec![minute(0)]).await;
}

async fn insert(owner: &Http, dataset: i64, rows: Vec<Value>) {
    let rows = json!({"dataset": dataset, "rows": rows});
    let (status, body) = owner.post("/api/rows/bulk_insert/", &rows).await;
    assert!(status.is_success(), "{status}: {body}");
}

/// Returns rows of every type, with missing values.
fn typed_rows() -> Vec<Value> {
    let row = |second: u32, values: Value| json!({"timestamp": format!("2026-07-30T12:00:0{second}Z"), "values": values});
    vec![
        row(0, json!({"price": 1.5, "trades": 134, "note": "a \"b\", c", "up": true})),
        row(1, json!({"price": 1e-7})),
        row(2, json!({"trades": -9_007_199_254_740_993_i64, "note": "", "up": false})),
        row(3, json!({"price": 1.25e21, "note": "é\n<&>"})),
    ]
}

/// Returns the row of minute `n` of 2026-07-29. The bar opens at `n` and closes at `n` + 0.5.
fn minute(n: u32) -> Value {
    let open = f64::from(n);
    json!({"timestamp": format!("2026-07-29T{:02}:{:02}:00Z", n / 60, n % 60), "values": {
        "open": open, "high": open + 1.0, "low": open - 1.0, "close": open + 0.5, "volume": 2,
        "volume_notional": 2.0 * open, "trades_done": 7,
    }})
}

/// Returns the three rows that the documentation of the upstream service shows.
fn golden() -> Vec<Value> {
    let rows = [
        (
            57,
            [
                64_651.009_370_829_8,
                64_691.124_488_882_78,
                64_646.852_832_919_416,
                64_679.000_003_959_87,
                2.488_019_44,
                160_922.609_369_612_2,
            ],
            366,
        ),
        (
            58,
            [
                64_682.662_448_725_56,
                64_685.826_365_674_286,
                64_682.054_250_911_155,
                64_682.637_232_449_69,
                1.348_677_519_999_999_9,
                87_236.018_769_719_9,
            ],
            187,
        ),
        (
            59,
            [
                64_693.156_221_765_85,
                64_693.156_307_225_116,
                64_686.020_402_443_67,
                64_688.670_384_160_61,
                0.727_668_32,
                47_071.896_101_475_904,
            ],
            134,
        ),
    ];
    let row =
        |(minute, [open, high, low, close, volume, notional], trades): (u32, [f64; 6], u32)| {
            json!({"timestamp": format!("2026-07-30T21:{minute}:00Z"), "values": {
                "open": open, "high": high, "low": low, "close": close, "volume": volume,
                "volume_notional": notional, "trades_done": trades,
            }})
        };
    rows.map(row).to_vec()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dataset_responses_equal_the_recorded_scenarios_to_the_byte() {
    check_on(&[], &read_file("datasets")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dataset_responses_with_postgresql_equal_the_recorded_scenarios_to_the_byte() {
    let Some(url) = test_postgres::new_database() else { return };
    let text = numbered_by_dataset(&read_file("datasets"));
    check_on(&[("TRIPTYCH_STORE", &url)], &text).await;
}

/// Returns the scenarios with row ids counted per dataset, as in a database that several services write.
/// In a file, ids are counted over all datasets.
fn numbered_by_dataset(text: &str) -> String {
    let row = "{\"id\":";
    let mut parts = text.split(row);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |before, part| {
        let (number, rest) = part.split_once(',').unwrap();
        let n_before = [(2, 0), (3, 4), (4, 1447)].into_iter().find_map(|(dataset, n_before)| {
            let start = format!("\"dataset_id\":{dataset},\"timestamp\"");
            rest.starts_with(&start).then_some(n_before)
        });
        let number = number.parse::<i64>().ok().zip(n_before).map_or_else(
            || number.to_owned(),
            |(number, n_before)| (number - n_before).to_string(),
        );
        format!("{before}{row}{number},{rest}")
    })
}

/// Checks the scenarios with a service that has these environment variables.
async fn check_on(environment: &[(&str, &str)], scenarios: &str) {
    let folder = TempDir::new().unwrap();
    let data_dir = folder.path().display().to_string();
    let mut known = Known::new();
    for name in ["owner", "reader", "nobody"] {
        known.insert(name.to_owned(), new_key_with(&data_dir, name, environment));
    }
    let (_service, owner) = serve_with(&data_dir, &known["owner"], environment);
    seed(&owner).await;
    check(scenarios, owner.base(), known, N_SCENARIOS_MIN).await;
}
