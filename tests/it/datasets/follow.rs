//! `triptych datasets follow`: each new row, once, through a restart of the service.

use serde_json::Value;

use super::{create, insert, minute_row, timestamp};
use crate::support::datasets::Service;

/// The minutes of lines that `follow` printed.
#[track_caller]
fn moments(lines: &[String]) -> Vec<String> {
    let moment = |line: &String| {
        let row: Value = serde_json::from_str(line).unwrap();
        row["timestamp"].as_str().unwrap().to_owned()
    };
    lines.iter().map(moment).collect()
}

fn wanted(minutes: impl IntoIterator<Item = u32>) -> Vec<String> {
    minutes.into_iter().map(timestamp).collect()
}

#[tokio::test]
async fn rows_are_printed_once_each_through_a_restart_with_many_new_ones() {
    let mut service = Service::start();
    let home = service.home();
    let dataset = create(&service.http(), "live").await;
    let rows = |minutes: std::ops::Range<u32>| minutes.map(minute_row).collect::<Vec<_>>();
    insert(&service.http(), dataset, &rows(0..120)).await;

    let running = home.start(&["datasets", "follow", "live", "--json", "--last", "5"]);
    assert_eq!(moments(&running.wait_lines(5)), wanted(115..120));
    insert(&service.http(), dataset, &rows(120..123)).await;
    assert_eq!(moments(&running.wait_lines(8)), wanted(115..123));
    // Longer than the replay, so that there is a gap to fill.
    service.restart();
    insert(&service.http(), dataset, &rows(123..400)).await;
    assert_eq!(moments(&running.wait_lines(285)), wanted(115..400));
    insert(&service.http(), dataset, &rows(400..401)).await;
    assert_eq!(moments(&running.wait_lines(286)), wanted(115..401));
    assert_eq!(running.interrupt(), Some(0));
}

#[tokio::test]
async fn it_begins_where_it_is_told_to_and_ends_when_it_is_enough() {
    let service = Service::start();
    let home = service.home();
    let dataset = create(&service.http(), "live").await;
    let rows: Vec<_> = (0..1000).map(minute_row).collect();
    insert(&service.http(), dataset, &rows).await;
    let since = timestamp(300);
    let arguments = ["datasets", "follow", "live", "--json", "--since", &since, "--limit", "650"];
    let out = home.run_ok(&arguments);
    let lines: Vec<_> = out.lines().map(str::to_owned).collect();
    assert_eq!(moments(&lines), wanted(300..950));
    let first: Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!(first["close"].as_f64(), minute_row(300)["values"]["close"].as_f64());
    // Nobody reads on: that is no failure.
    let (line, code) =
        home.run_for_first_line(&["datasets", "follow", "live", "--json", "--since", &since]);
    assert_eq!((moments(&[line]), code), (wanted([300]), Some(0)));
}

#[test]
fn a_dataset_that_is_not_there_is_told() {
    let service = Service::start();
    let why = service.home().run_err(&["datasets", "follow", "none"]);
    assert!(why.contains("find dataset none") && !why.contains(service.key()), "{why}");
}
