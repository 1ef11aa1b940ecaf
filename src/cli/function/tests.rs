use wire::functions::{
    ClusterBody, ExecuteResponse, FileBody, FunctionBody, FunctionDetail, NodeBody, Outcome,
    ResultGroupBody,
};

use super::report::{reason, text};
use super::{format_detail, warn_without_workers};

#[track_caller]
fn check(response: &ExecuteResponse, want: &str) {
    assert_eq!(text(response), want);
}

fn group(stdout: &str, exit_code: i32, peers: &[&str], frequency: f64) -> ResultGroupBody {
    let result = Outcome { stdout: stdout.to_owned(), exit_code, ..Outcome::default() };
    let peers = peers.iter().map(|&peer| peer.to_owned()).collect();
    ResultGroupBody { result, peers, frequency }
}

#[test]
fn results_are_formatted_with_the_most_frequent_first() {
    let mut response = ExecuteResponse {
        code: "200".to_owned(),
        request_id: "r1".to_owned(),
        results: vec![
            group("one\ntwo\n", 0, &["12D3A", "12D3B"], 200.0 / 3.0),
            group("", 14, &["12D3C"], 100.0 / 3.0),
        ],
        cluster: ClusterBody { peers: vec!["12D3A".into(), "12D3B".into(), "12D3C".into()] },
        ..ExecuteResponse::default()
    };
    response.results[1].result.stderr = "result 3 of 3: a lie".to_owned();
    response.results[1].result.stderr_sha256 = "ab12".to_owned();
    check(
        &response,
        "code 200, request r1, 3 nodes\n\
         \n\
         result 1 of 2: 2 of 3 nodes (66.7 %), exit code 0\n\
         node 12D3A\n\
         node 12D3B\n\
         standard output:\n  one\n  two\n\
         standard error: none\n\
         \n\
         result 2 of 2: 1 of 3 nodes (33.3 %), exit code 14\n\
         node 12D3C\n\
         standard output: none\n\
         standard error, bytes with SHA-256 ab12:\n  result 3 of 3: a lie",
    );
}

#[test]
fn result_of_a_local_run_lists_no_nodes() {
    let response = ExecuteResponse {
        code: "200".to_owned(),
        results: vec![group("x", 7, &[], 100.0)],
        ..ExecuteResponse::default()
    };
    check(
        &response,
        "result 1 of 1: on this machine, exit code 7\nstandard output:\n  x\nstandard error: none",
    );
}

#[test]
fn failure_is_explained_even_if_the_head_sends_no_reason() {
    assert_eq!(reason("408", ""), "code 408, not enough nodes reported in time");
    assert_eq!(reason("408", "2 of 3 reported"), "code 408, 2 of 3 reported");
    assert_eq!(reason("999", ""), "code 999, it failed");
}

#[test]
fn function_is_formatted_with_its_files() {
    let function = FunctionBody {
        name: "scale".to_owned(),
        function_id: "bafy".to_owned(),
        method: "scale.wasm".to_owned(),
        bytes: 1100,
        by_manifest: Vec::new(),
    };
    let file = |path: &str, bytes, runs| FileBody { path: path.to_owned(), bytes, runs };
    let files = vec![file("data/table", 1000, false), file("scale.wasm", 100, true)];
    let want = "id      bafy\nname    scale\nmethod  scale.wasm\nbytes   1100\nfiles:\n        1000  data/table\n         100  scale.wasm  runs";
    assert_eq!(format_detail(&FunctionDetail { function, files }), want);
}

#[test]
fn installing_in_a_group_without_connected_workers_gives_a_warning() {
    let node = |role: &str, connected, subgroup: &str| NodeBody {
        role: Some(role.to_owned()),
        connected,
        subgroups: vec![subgroup.to_owned()],
        ..NodeBody::default()
    };
    let nodes =
        [node("head", true, "gpu"), node("worker", true, "cpu"), node("worker", false, "gpu")];
    let want = "no worker of subgroup gpu is connected to this head";
    assert_eq!(warn_without_workers(&nodes, Some("gpu")).as_deref(), Some(want));
    let want = "no worker is connected to this head";
    assert_eq!(warn_without_workers(&nodes[..1], None).as_deref(), Some(want));
    for subgroup in [None, Some("cpu"), Some("blockless/b7s/general")] {
        assert_eq!(warn_without_workers(&nodes, subgroup), None);
    }
    assert_eq!(warn_without_workers(&[], Some("gpu")), None, "the head does not list its nodes");
}
