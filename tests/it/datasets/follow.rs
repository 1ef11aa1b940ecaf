//! `triptych datasets follow`: prints each new row once, even if the service restarts.

use serde_json::{Value, json};

use super::{create, insert, minute_row, timestamp};
use crate::support::datasets::Service;

/// Returns the timestamps in the lines that `follow` printed.
#[track_caller]
fn timestamps(lines: &[String]) -> Vec<String> {
    let timestamp = |line: &String| {
        let row: Value = serde_json::from_str(line).unwrap();
        row["timestamp"].as_str().unwrap().to_owned()
    };
    lines.iter().map(timestamp).collect()
}

fn expected(minutes: impl IntoIterator<Item = u32>) -> Vec<String> {
    minutes.into_iter().map(timestamp).collect()
}

#[tokio::test]
async fn follow_prints_each_row_once_across_a_restart() {
    let (mut service, home) = Service::with_home();
    let dataset = create(&service.http(), "live").await;
    let rows = |minutes: std::ops::Range<u32>| minutes.map(minute_row).collect::<Vec<_>>();
    insert(&service.http(), dataset, &rows(0..120)).await;

    let running = home.start(&["datasets", "follow", "live", "--json", "--last", "5"]);
    assert_eq!(timestamps(&running.wait_lines(5)), expected(115..120));
    insert(&service.http(), dataset, &rows(120..123)).await;
    assert_eq!(timestamps(&running.wait_lines(8)), expected(115..123));
    // Inserts more rows than a stream replays, so that the command has to fill a gap.
    service.restart();
    insert(&service.http(), dataset, &rows(123..400)).await;
    assert_eq!(timestamps(&running.wait_lines(285)), expected(115..400));
    insert(&service.http(), dataset, &rows(400..401)).await;
    assert_eq!(timestamps(&running.wait_lines(286)), expected(115..401));
    assert_eq!(running.interrupt(), Some(0));
}

#[tokio::test]
async fn follow_with_changes_prints_them_across_a_restart() {
    let (mut service, home) = Service::with_home();
    let dataset = create(&service.http(), "live").await;
    insert(&service.http(), dataset, &[minute_row(0), minute_row(1)]).await;
    let delete = |minute: u32| {
        let at = timestamp(minute);
        let range = ["datasets", "delete", "live", "--start", &at, "--end", &at, "--yes"];
        home.run_ok(&range);
    };

    let arguments = ["datasets", "follow", "live", "--json", "--last", "1", "--changes"];
    let running = home.start(&arguments);
    running.wait_lines(1);
    insert(&service.http(), dataset, &[minute_row(2)]).await;
    running.wait_lines(2);
    let corrected = |minute| json!({"timestamp": timestamp(minute), "values": {"close": 7.5}});
    insert(&service.http(), dataset, &[corrected(1)]).await;
    running.wait_lines(3);
    delete(1);
    running.wait_lines(4);
    service.restart();
    insert(&service.http(), dataset, &[corrected(1)]).await;
    delete(0);
    insert(&service.http(), dataset, &[corrected(2)]).await;
    let brief = |line: &String| {
        let event: Value = serde_json::from_str(line).unwrap();
        let at = event["row"].get("timestamp").unwrap_or(&event["start"]).as_str().unwrap();
        format!("{} {at}", event["event"].as_str().unwrap())
    };
    let got: Vec<String> = running.wait_lines(7).iter().map(brief).collect();
    let [zero, one, two] = [0, 1, 2].map(timestamp);
    let want = [
        format!("data {one}"),
        format!("data {two}"),
        format!("correction {one}"),
        format!("deletion {one}"),
        format!("data {one}"),
        format!("deletion {zero}"),
        format!("correction {two}"),
    ];
    assert_eq!(got, want);
    assert_eq!(running.interrupt(), Some(0));
}

#[tokio::test]
async fn follow_prints_rows_from_a_start_up_to_a_limit() {
    let (service, home) = Service::with_home();
    let dataset = create(&service.http(), "live").await;
    // More rows than a pipe holds, so that the command notices that its output is closed.
    let rows: Vec<_> = (0..5000).map(minute_row).collect();
    insert(&service.http(), dataset, &rows).await;
    let since = timestamp(300);
    let arguments = ["datasets", "follow", "live", "--json", "--since", &since, "--limit", "650"];
    let out = home.run_ok(&arguments);
    let lines: Vec<_> = out.lines().map(str::to_owned).collect();
    assert_eq!(timestamps(&lines), expected(300..950));
    let first: Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!(first["close"].as_f64(), minute_row(300)["values"]["close"].as_f64());
    // A closed output is not treated as an error.
    let (line, code) =
        home.run_for_first_line(&["datasets", "follow", "live", "--json", "--since", &since]);
    assert_eq!((timestamps(&[line]), code), (expected([300]), Some(0)));
}

#[test]
fn follow_reports_a_missing_dataset() {
    let service = Service::start();
    let why = service.home().run_err(&["datasets", "follow", "none"]);
    assert!(why.contains("no dataset none") && !why.contains(service.key()), "{why}");
}
