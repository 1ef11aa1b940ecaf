//! Commands that list the nodes of a cluster and its events.

use crate::support::cluster::Node;
use crate::support::command::{Home, demo};

/// Minimum number of events that a run on one node causes.
const N_EVENTS: usize = 3;

/// Maximum number of runs that are started until the command prints events.
const RUNS_MAX: usize = 100;

#[tokio::test]
async fn nodes_and_events_can_be_printed_as_text_or_json() {
    let head = Node::head(&[]);
    let worker = Node::worker(&head, &["--topic", "gpu"]);
    head.has_workers(1).await;
    let url = head.rest_api();
    let home = Home::new().with("TRIPTYCH_HEAD", &url);

    let listed = home.run_ok(&["nodes"]);
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines.len() == 3 && lines[0].starts_with("PEER"), "{listed}");
    let of_worker = lines.iter().find(|line| line.starts_with(&worker.id())).unwrap();
    assert!(of_worker.contains("worker") && of_worker.contains("gpu"), "{listed}");
    let json: serde_json::Value = serde_json::from_str(&home.run_ok(&["nodes", "--json"])).unwrap();
    assert_eq!(json["nodes"].as_array().unwrap().len(), 2);

    let id = home.run_ok(&["function", "add", &demo("hello.wasm")]);
    let request = home.run_ok(&["function", "run", id.trim(), "--async"]);
    home.run_ok(&["function", "result", request.trim(), "--wait"]);
    // An execution that is complete has no further events.
    assert_eq!(home.run_ok(&["function", "events", request.trim(), "--json"]), "");
    let unknown = home.run_err(&["function", "events", "no-such-request"]);
    assert!(unknown.contains("the head has no execution"), "{unknown}");

    let following = home.start_in_background(&["function", "events", "--json"]);
    // Events before the command has connected are not printed, so functions are run until there is
    // output.
    let lines = (0..RUNS_MAX).find_map(|_| {
        home.run_ok(&["function", "run", id.trim()]);
        following.try_lines(N_EVENTS)
    });
    let lines = lines.expect("events of one of the runs");
    assert!(lines.iter().all(|line| line.contains("\"event\"")), "{lines:?}");
    assert_eq!(following.interrupt(), Some(0), "the command runs until it is interrupted");

    let every = home.start_in_background(&["nodes", "--every", "1", "--json"]);
    assert_eq!(every.wait_lines(2).len(), 2, "the command lists the nodes again");
    assert_eq!(every.interrupt(), Some(0));
}
