//! The Data screen with a dataset service that restarts or limits the rate of requests.

use serde_json::{Value, json};
use vt100::Screen;

use super::{N_SIZES, PAINT_WITHIN, SHOWN_WITHIN};
use crate::support::TUI;
use crate::support::datasets::Service;
use crate::support::http::Http;
use crate::support::pty::{Session, WIDE, text};

/// Returns the timestamp of a minute of 2026-03-01, first as services write it and then as the table
/// shows it.
fn timestamp(minute: u32) -> (String, String) {
    let (hour, minute) = (minute / 60, minute % 60);
    (
        format!("2026-03-01T{hour:02}:{minute:02}:00Z"),
        format!("2026-03-01 {hour:02}:{minute:02}:00"),
    )
}

async fn insert(http: &Http, dataset: &Value, minutes: std::ops::Range<u32>) {
    let row = |minute| json!({"timestamp": timestamp(minute).0, "values": {"load": minute}});
    let rows: Vec<_> = minutes.map(row).collect();
    let body = json!({"dataset": dataset, "rows": rows});
    let (status, body) = http.post("/api/rows/bulk_insert/", &body).await;
    assert!(status.is_success(), "{status}: {body}");
}

async fn create(http: &Http) -> Value {
    let columns = json!([{"name": "load", "dtype": "float"}]);
    let body = json!({"name": "live-load", "description": "a load", "columns": columns});
    let (status, body) = http.post("/api/datasets/", &body).await;
    assert!(status.is_success(), "{status}: {body}");
    body["id"].clone()
}

fn open(service: &Service) -> Session {
    let arguments = ["--datasets", &service.address()];
    let session =
        Session::start_with(TUI, &arguments, WIDE, &[("TRIPTYCH_API_KEY", service.key())]);
    session.wait_text("1 Cluster", PAINT_WITHIN);
    session.press("3");
    session.wait_text("live-load", SHOWN_WITHIN);
    session
}

/// Column at which the table of rows begins on a wide terminal.
const TABLE_FROM: usize = 57;

/// Returns the timestamps in the table of rows, from top to bottom.
fn timestamps(screen: &Screen) -> Vec<String> {
    let text = text(screen);
    let row = |line: &str| {
        // The part to the left is excluded, since the tape contains dates, too.
        let table: String = line.chars().skip(TABLE_FROM).collect();
        let start = table.find("2026-03-01 ")?;
        table.get(start..start + 19).map(str::to_owned)
    };
    // Only times of whole minutes count, since the summary contains dates without times.
    text.lines().filter_map(row).filter(|time| time.ends_with(":00")).collect()
}

/// Waits until the table shows `minute` and the earlier minutes, each minute once, with the latest
/// first.
#[track_caller]
fn wait_contiguous(session: &Session, minute: u32) {
    session.wait_for(&format!("rows up to minute {minute}, each once"), SHOWN_WITHIN, |screen| {
        let shown = timestamps(screen);
        let n_rows = u32::try_from(shown.len()).unwrap();
        let want: Vec<_> =
            (0..n_rows).filter_map(|n| Some(timestamp(minute.checked_sub(n)?).1)).collect();
        (n_rows > 20 && shown == want).then_some(())
    });
}

#[tokio::test]
async fn screen_resumes_its_stream_after_a_restart_without_gaps_or_duplicates() {
    let mut service = Service::start();
    let dataset = create(&service.http()).await;
    insert(&service.http(), &dataset, 0..200).await;
    let session = open(&service);
    session.wait_text("rows of 2026-03-01", SHOWN_WITHIN);
    session.press("#");
    wait_contiguous(&session, 199);

    insert(&service.http(), &dataset, 200..203).await;
    wait_contiguous(&session, 202);
    service.stop();
    let shown = session.wait_text("reconnecting in", SHOWN_WITHIN);
    assert!(shown.contains("stale "), "the age of the data is shown:\n{shown}");
    wait_contiguous(&session, 202);
    service.start_again();
    // Inserts more rows than a stream replays. All of them may be stored before the screen has
    // reconnected.
    insert(&service.http(), &dataset, 203..420).await;
    session.wait_text("rows of 2026-03-01", SHOWN_WITHIN);
    wait_contiguous(&session, 419);

    insert(&service.http(), &dataset, 420..425).await;
    wait_contiguous(&session, 424);
    for step in 0..N_SIZES {
        session.resize((1 + step * 7 % 200, 1 + step * 5 % 60));
        let minute = 425 + u32::from(step);
        insert(&service.http(), &dataset, minute..minute + 1).await;
    }
    session.resize(WIDE);
    wait_contiguous(&session, 424 + u32::from(N_SIZES));
    // The original size is restored before the next frame is drawn.
    for size in [(20, 5), WIDE, (150, 40), WIDE] {
        session.resize(size);
    }
    wait_contiguous(&session, 424 + u32::from(N_SIZES));
    session.press("q");
    session.wait_exit(SHOWN_WITHIN);
    session.assert_restored();
    session.assert_no_key();
}

#[tokio::test]
async fn screen_retries_rate_limited_requests_later() {
    let mut service = Service::start();
    let dataset = create(&service.http()).await;
    insert(&service.http(), &dataset, 0..50).await;
    service.stop();
    service.start_again_with(&["--rate", "1", "--burst", "2"]);
    let session = open(&service);
    session.wait_text("429 · retry", SHOWN_WITHIN);
    session.wait_for("rows", SHOWN_WITHIN, |screen| {
        let text = text(screen);
        (text.contains("rows of 2026-03-01") && text.contains("00:49:00")).then_some(())
    });
}
