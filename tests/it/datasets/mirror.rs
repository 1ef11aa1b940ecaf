//! `triptych datasets mirror`: copies datasets of another service row by row, however often it is
//! killed.

use std::time::Duration;

use serde_json::{Value, json};

use super::{create, insert, minute_row, timestamp};
use crate::support::command::Home;
use crate::support::datasets::Service;
use crate::support::server;

/// Maximum time until a copy has all rows, on a busy machine.
const CAUGHT_UP_WITHIN: Duration = Duration::from_mins(1);

/// A source service, a target service, and a home directory for commands that copy from the source to
/// the target.
struct Pair {
    source: Service,
    target: Service,
    home: Home,
}

impl Pair {
    fn start() -> Self {
        let (source, target) = (Service::start(), Service::start());
        let home = target.home().with("TRIPTYCH_SOURCE_API_KEY", source.key());
        Self { source, target, home }
    }

    fn arguments<'a>(url: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        [&["datasets", "mirror", url], more].concat()
    }

    /// Waits until dataset `copy` of the target has the same rows as dataset `name` of the source.
    async fn caught_up(&self, name: &str, copy: &str) {
        let look = || async {
            let (want, got) = (self.source.n_rows(name).await, self.target.n_rows(copy).await);
            if got == want && self.target.rows(copy).await == self.source.rows(name).await {
                Ok(())
            } else {
                Err(format!("{got} of {want} rows"))
            }
        };
        task::wait::until(CAUGHT_UP_WITHIN, look).await.unwrap();
    }
}

#[tokio::test]
async fn mirror_copies_datasets_with_columns_tags_and_rows() {
    let pair = Pair::start();
    let http = pair.source.http();
    let typed = json!({
        "name": "typed", "description": "All there is", "metadata": {"ticker": "btc"},
        "columns": [
            {"name": "f", "dtype": "float"}, {"name": "i", "dtype": "integer"},
            {"name": "s", "dtype": "string"}, {"name": "b", "dtype": "boolean"},
        ],
    });
    let (status, body) = http.post("/api/datasets/", &typed).await;
    assert!(status.is_success(), "{body}");
    let rows = [
        json!({"timestamp": "1969-12-31T23:59:59.5Z", "values": {"f": 0.1, "i": 9_007_199_254_740_993_i64}}),
        json!({"timestamp": "2026-03-01T00:00:00Z", "values": {"s": "a \"b\" {ü}", "b": false}}),
        json!({"timestamp": "2026-03-31T00:00:00.000001Z", "values": {"f": -1e300}}),
    ];
    insert(&http, body["id"].as_i64().unwrap(), &rows).await;
    let bars = create(&http, "bars").await;
    // The rows are so far apart in time that several downloads are needed.
    let rows: Vec<_> = (0..900).map(|hour| minute_row(hour * 47)).collect();
    insert(&http, bars, &rows).await;
    create(&http, "empty").await;

    let url = pair.source.address();
    let output = pair.home.run(&Pair::arguments(&url, &["--prefix", "my_", "--once"]));
    assert_eq!(output.code, 0, "{output:?}");
    assert!(
        output.err.contains("copying 3 datasets") && output.err.contains("900 rows received"),
        "{output:?}"
    );
    for name in ["typed", "bars", "empty"] {
        let copy = format!("my_{name}");
        assert_eq!(pair.target.rows(&copy).await, pair.source.rows(name).await, "{name}");
    }
    let shown = pair.home.run_ok(&["datasets", "show", "my_typed", "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["description"], "All there is");
    assert_eq!(shown["metadata"], json!({"ticker": "btc", "value_column": ""}));
    let dtypes: Vec<_> =
        shown["columns"].as_array().unwrap().iter().map(|it| it["dtype"].clone()).collect();
    assert_eq!(dtypes, ["float", "integer", "string", "boolean"]);

    // The second run copies only new rows, and updates the dataset's description.
    let again = ["datasets", "list", "--search", "my_bars", "--json"];
    let change = json!({"metadata": {"frequency": "1min"}});
    let (status, body) = http.patch(&format!("/api/datasets/{bars}/"), &change).await;
    assert!(status.is_success(), "{body}");
    insert(&http, bars, &[minute_row(44_000)]).await;
    let output = pair.home.run(&Pair::arguments(&url, &["bars", "--prefix", "my_", "--once"]));
    assert!(
        output.code == 0 && output.err.contains("bars is copied: 1 row received"),
        "{output:?}"
    );
    assert_eq!(pair.target.rows("my_bars").await, pair.source.rows("bars").await);
    let listed: Value = serde_json::from_str(&pair.home.run_ok(&again)).unwrap();
    assert_eq!(listed["metadata"], json!({"frequency": "1min", "value_column": ""}));
}

#[tokio::test]
async fn repeated_mirror_copies_only_new_rows_unless_its_start_option_is_given_or_removed() {
    let pair = Pair::start();
    let http = pair.source.http();
    let bars = create(&http, "bars").await;
    let rows: Vec<_> = (0..30).map(|day| minute_row(day * 1_440)).collect();
    insert(&http, bars, &rows).await;
    let url = pair.source.address();
    let once = |more: &[&str], n_rows: usize| {
        let output = pair.home.run(&Pair::arguments(&url, &[&["bars", "--once"], more].concat()));
        let want = format!("bars is copied: {n_rows} rows received");
        assert!(output.code == 0 && output.err.contains(&want), "{want}: {output:?}");
    };
    let start = timestamp(20 * 1_440);
    once(&["--start", &start], 10);
    // There is an unwanted row before the start, a late row and a correction.
    let mut corrected = minute_row(25 * 1_440);
    corrected["values"]["close"] = json!(1234.5);
    insert(&http, bars, &[minute_row(7), minute_row(23 * 1_440 + 7), corrected]).await;
    once(&["--start", &start], 11);
    once(&[], 32);
    assert_eq!(pair.target.rows("bars").await, pair.source.rows("bars").await);
    insert(&http, bars, &[minute_row(44_000), minute_row(44_001)]).await;
    once(&[], 2);
    assert_eq!(pair.target.rows("bars").await, pair.source.rows("bars").await);
    once(&[], 0);
}

#[tokio::test]
async fn rows_in_the_future_are_mirrored_and_shown() {
    let pair = Pair::start();
    let http = pair.source.http();
    let bars = create(&http, "bars").await;
    let mut rows: Vec<_> = (0..20).map(minute_row).collect();
    rows.extend((2100..2103).map(
        |year| json!({"timestamp": format!("{year}-01-01T00:00:00Z"), "values": {"close": 1.0}}),
    ));
    insert(&http, bars, &rows).await;
    let page = http.get_ok(&format!("/api/rows/?dataset={bars}&limit=1&ordering=-timestamp")).await;
    assert_eq!(page["results"][0]["timestamp"], timestamp(19), "{page}");
    let output = pair.home.run(&Pair::arguments(&pair.source.address(), &["bars", "--once"]));
    assert!(
        output.code == 0 && output.err.contains("bars is copied: 23 rows received"),
        "{output:?}"
    );
    assert_eq!(pair.target.rows("bars").await, pair.source.rows("bars").await);
    let shown = pair.home.run_ok(&["datasets", "show", "bars"]);
    assert!(shown.contains("latest row   2102-01-01T00:00:00Z"), "{shown}");
}

/// Changes the only checkpoint in the state directory `state` of a mirror.
fn change_checkpoint(state: &str, change: impl FnOnce(&mut Value)) {
    let folder = std::fs::read_dir(state).unwrap().next().unwrap().unwrap().path();
    let file = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let mut kept: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    change(&mut kept);
    std::fs::write(&file, kept.to_string()).unwrap();
}

/// Earlier versions recorded the id of an event on a stream without deletions.
#[tokio::test]
async fn mirror_with_an_unknown_position_copies_late_rows() {
    let pair = Pair::start();
    let http = pair.source.http();
    let bars = create(&http, "bars").await;
    let rows: Vec<_> = (0..200).map(|hour| minute_row(hour * 60)).collect();
    insert(&http, bars, &rows).await;
    let (url, state) = (pair.source.address(), pair.home.path("state"));
    let arguments = Pair::arguments(&url, &["bars", "--state-dir", &state]);
    let running = pair.home.start(&arguments);
    pair.caught_up("bars", "bars").await;
    insert(&http, bars, &[minute_row(200 * 60)]).await;
    pair.caught_up("bars", "bars").await;
    assert_eq!(running.interrupt(), Some(0));
    change_checkpoint(&state, |kept| {
        let id = kept["last_event_id"].as_str().unwrap();
        let (without_revision, _) = id.rsplit_once('-').unwrap();
        kept["last_event_id"] = json!(without_revision);
    });
    // A late row that is older than the rows that a stream replays.
    insert(&http, bars, &[minute_row(7), minute_row(201 * 60)]).await;
    let running = pair.home.start(&arguments);
    pair.caught_up("bars", "bars").await;
    running.wait_stderr("bars is copied: 203 rows received");
    assert_eq!(running.interrupt(), Some(0));
}

/// The state of a killed mirror is written by hand, since it cannot be killed at an exact row.
#[tokio::test]
async fn killed_mirror_continues_its_download_when_restarted() {
    let pair = Pair::start();
    let http = pair.source.http();
    let bars = create(&http, "bars").await;
    let rows: Vec<_> = (0..240).map(|hour| minute_row(hour * 60)).collect();
    insert(&http, bars, &rows).await;
    let (url, state) = (pair.source.address(), pair.home.path("state"));
    let arguments = Pair::arguments(&url, &["bars", "--once", "--state-dir", &state]);
    let once = |n_rows: usize| {
        let output = pair.home.run(&arguments);
        let want = format!("bars is copied: {n_rows} rows received");
        assert!(output.code == 0 && output.err.contains(&want), "{want}: {output:?}");
    };
    once(240);
    change_checkpoint(&state, |kept| {
        let through: model::timestamp::Timestamp = timestamp(229 * 60).parse().unwrap();
        (kept["is_whole"], kept["through"]) = (json!(false), json!(through.micros()));
    });
    once(10);
    assert_eq!(pair.target.rows("bars").await, pair.source.rows("bars").await);
}

#[tokio::test]
async fn mirror_copies_every_row_again_to_an_emptied_target() {
    let mut pair = Pair::start();
    let http = pair.source.http();
    let bars = create(&http, "bars").await;
    let rows: Vec<_> = (0..40).map(minute_row).collect();
    insert(&http, bars, &rows).await;
    let url = pair.source.address();
    let arguments = Pair::arguments(&url, &["bars", "--once"]);
    pair.home.run_ok(&arguments);
    pair.target.delete_datasets();
    assert_eq!(pair.target.n_rows("bars").await, 0);
    let output = pair.home.run(&arguments);
    assert!(output.code == 0 && output.err.contains("40 rows received"), "{output:?}");
    assert_eq!(pair.target.rows("bars").await, pair.source.rows("bars").await);
}

#[test]
fn mirror_rejects_the_same_source_and_target() {
    let service = Service::start();
    let home = service.home().with("TRIPTYCH_SOURCE_API_KEY", service.key());
    let why = home.run_err(&["datasets", "mirror", &service.address(), "--once"]);
    assert!(why.contains("--prefix"), "{why}");
}

#[tokio::test]
async fn every_row_is_mirrored_once_despite_repeated_kills() {
    /// Number of rows. They are stored in several steps of some thousands of rows.
    const ROWS: u32 = 12_000;
    let mut pair = Pair::start();
    let http = pair.source.http();
    let dataset = create(&http, "bars").await;
    // The rows are so far apart in time that several downloads are needed.
    let row = |row: u32| minute_row(row * 3);
    let rows: Vec<_> = (0..ROWS).map(row).collect();
    insert(&http, dataset, &rows).await;
    let url = pair.source.address();
    let arguments = Pair::arguments(&url, &["bars"]);
    let (mut n_before, mut next) = (0, ROWS);
    for _ in 0..4 {
        let running = pair.home.start(&arguments);
        while pair.target.n_rows("bars").await <= n_before {}
        running.kill();
        n_before = pair.target.n_rows("bars").await;
        // New rows are stored while the mirror does not run.
        let rows: Vec<_> = (next..next + 150).map(row).collect();
        insert(&http, dataset, &rows).await;
        next += 150;
    }
    let running = pair.home.start(&arguments);
    pair.caught_up("bars", "bars").await;
    // The mirror follows the source live, even if either service restarts.
    insert(&http, dataset, &[row(next)]).await;
    pair.caught_up("bars", "bars").await;
    pair.target.restart();
    insert(&http, dataset, &[row(next + 1)]).await;
    pair.caught_up("bars", "bars").await;
    pair.source.restart();
    // A new client, since the restart has closed the connections of the old client.
    let http = pair.source.http();
    let rows: Vec<_> = (next + 2..next + 200).map(row).collect();
    insert(&http, dataset, &rows).await;
    pair.caught_up("bars", "bars").await;
    // A correction of a very old row, and a new column.
    let mut corrected = row(5);
    corrected["values"]["close"] = json!(1234.5);
    insert(&http, dataset, &[corrected]).await;
    pair.caught_up("bars", "bars").await;
    assert_eq!(running.interrupt(), Some(0));
    assert_eq!(pair.target.n_rows("bars").await, (next + 200) as usize);
}

#[tokio::test]
async fn rows_deleted_at_the_source_are_deleted_in_the_copy() {
    let pair = Pair::start();
    let http = pair.source.http();
    let dataset = create(&http, "bars").await;
    let rows: Vec<_> = (0..240).map(minute_row).collect();
    insert(&http, dataset, &rows).await;
    let delete = async |first: u32, last: u32| {
        let range = format!("start={}&end={}", timestamp(first), timestamp(last));
        let (status, body) = http.delete(&format!("/api/rows/?dataset={dataset}&{range}")).await;
        assert!(status.is_success(), "{body}");
    };
    let url = pair.source.address();
    let arguments = Pair::arguments(&url, &["bars"]);
    let running = pair.home.start(&arguments);
    pair.caught_up("bars", "bars").await;
    delete(10, 19).await;
    let mut corrected = minute_row(15);
    corrected["values"]["close"] = json!(1234.5);
    insert(&http, dataset, &[corrected]).await;
    pair.caught_up("bars", "bars").await;
    assert_eq!(pair.target.n_rows("bars").await, 231);
    assert_eq!(running.interrupt(), Some(0));
    // Deletions while the mirror does not run are copied when it continues.
    delete(100, 239).await;
    insert(&http, dataset, &[minute_row(300)]).await;
    let running = pair.home.start(&arguments);
    pair.caught_up("bars", "bars").await;
    assert_eq!(running.interrupt(), Some(0));
}

/// The rows are stored after the mirror has read the range of the dataset, and before its stream begins.
#[tokio::test]
async fn rows_stored_while_a_mirror_opens_its_stream_are_copied() {
    let pair = Pair::start();
    let http = pair.source.http();
    let dataset = create(&http, "bars").await;
    let rows: Vec<_> = (0..40).map(minute_row).collect();
    insert(&http, dataset, &rows).await;
    let insert_more = move || {
        let http = http.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(insert(&http, dataset, &[minute_row(40), minute_row(41)]));
        })
        .join()
        .unwrap();
    };
    let base = pair.source.address();
    let url = format!("{}/api", server::forward_after(base.trim_end_matches("/api"), insert_more));
    let running = pair.home.start(&Pair::arguments(&url, &["bars"]));
    pair.caught_up("bars", "bars").await;
    assert_eq!(running.interrupt(), Some(0));
}

/// The source sends events without ids and without deletions, limits time ranges and rates, and closes
/// connections early.
#[tokio::test]
async fn mirror_copies_from_a_service_with_strict_limits() {
    let pair = Pair::start();
    let http = pair.source.http();
    let dataset = create(&http, "bars").await;
    // A row for every 90 minutes of some weeks.
    let rows: Vec<_> = (0..400).map(|row| minute_row(row * 90)).collect();
    insert(&http, dataset, &rows).await;
    let url =
        format!("{}/api", server::forward_strictly(pair.source.address().trim_end_matches("/api")));
    let running = pair.home.start(&Pair::arguments(&url, &["bars"]));
    pair.caught_up("bars", "bars").await;
    running.wait_stderr("the source does not send the deletions of bars");
    running.wait_stderr("bars is copied: 400 rows received");
    insert(&http, dataset, &[minute_row(36_001), minute_row(36_002)]).await;
    pair.caught_up("bars", "bars").await;
    running.kill();
    // More rows than a stream replays.
    let rows: Vec<_> = (36_003..36_123).map(minute_row).collect();
    insert(&http, dataset, &rows).await;
    let running = pair.home.start(&Pair::arguments(&url, &["bars"]));
    pair.caught_up("bars", "bars").await;
    insert(&http, dataset, &[minute_row(36_123)]).await;
    pair.caught_up("bars", "bars").await;
    assert_eq!(running.interrupt(), Some(0));
}

#[test]
fn mirror_does_not_send_the_key_of_the_target_to_the_source() {
    let (source, target) = (Service::start(), Service::start());
    let why = target.home().run_err(&["datasets", "mirror", &source.address(), "--once"]);
    assert!(why.contains("TRIPTYCH_SOURCE_API_KEY"), "{why}");
    let home = target.home().with("TRIPTYCH_SOURCE_API_KEY", target.key());
    let why = home.run_err(&["datasets", "mirror", &source.address(), "--once"]);
    assert!(why.contains("401") && !why.contains(target.key()), "{why}");
    let home = target.home().with("TRIPTYCH_SOURCE_API_KEY", source.key());
    let output = home.run(&["datasets", "mirror", &source.address(), "--once"]);
    assert!(output.code == 1 && output.err.contains("no matching datasets"), "{output:?}");
}
