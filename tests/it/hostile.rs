//! Services that respond with terminal control sequences. No command may print these.

use model::text::is_unprintable;
use serde_json::{Value, json};

use crate::support::command::{Home, demo};
use crate::support::pty::{Place, Session};
use crate::support::running::WITHIN;
use crate::support::{TRIPTYCH, server};

/// Size of the terminal, wide enough that lines do not wrap.
const SIZE: (u16, u16) = (200, 50);

/// Sequences that clear the screen, write to the clipboard, set the title, forge a line and reverse
/// text.
const HOSTILE: &str = "a\u{1b}[2J\u{1b}]52;c;cHduZWQ=\u{7}b\u{9b}31m\u{9d}0;t\u{9c}c\r\nd\u{202e}e\u{2066}f\u{200b}g\u{feff}h\u{7f}";

/// A valid content id, so that commands send their requests.
const CID: &str = "bafkreieturf3xfwhkeqy4taa2r46jqkdlajcuoe2zsqwebnr4tinyx4uoy";

/// Response that is sent to every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reply {
    /// The expected body, with hostile text in every string.
    Valid,
    /// An object of an unexpected form.
    Unknown,
    /// An error with this status and a JSON body.
    JsonError(u16),
    /// An error with this status and a text body.
    TextError(u16),
}

/// Serves `reply` to every request. Returns the address of the service.
fn serve(reply: Reply) -> String {
    server::serve(move |request| {
        let path = request.target().split('?').next().unwrap_or_default();
        let (status, body) = match reply {
            Reply::Valid => (200, valid_body(path).to_string()),
            Reply::Unknown => (200, json!({HOSTILE: HOSTILE, "code": [HOSTILE]}).to_string()),
            Reply::JsonError(status) => {
                (status, json!({"message": HOSTILE, "code": HOSTILE}).to_string())
            }
            Reply::TextError(status) => (status, HOSTILE.to_owned()),
        };
        let is_text = matches!(reply, Reply::TextError(_));
        let kind = if is_text { "text/plain" } else { "application/json" };
        request.respond(&format!("{status} X"), kind, body.as_bytes())
    })
}

/// Returns the body that is expected from `path`, with hostile text in every string.
fn valid_body(path: &str) -> Value {
    let time = "2026-07-30T21:57:00Z";
    let page =
        |results: Value| json!({"count": 1, "next": null, "previous": null, "results": results});
    let dataset = json!({"id": 1, "name": HOSTILE, "description": HOSTILE,
        "metadata": {HOSTILE: HOSTILE}, "created_at": time, "updated_at": time});
    let function = json!({"name": HOSTILE, "function_id": HOSTILE, "method": HOSTILE, "bytes": 1});
    let execution = json!({"code": "200", "message": HOSTILE, "request_id": HOSTILE, "state": HOSTILE,
        "id": HOSTILE, "results": [{"result": {"stdout": HOSTILE, "stderr": HOSTILE, "exit_code": 0},
            "peers": [HOSTILE], "frequency": 100.0}],
        "cluster": {"peers": [HOSTILE]}});
    let values = json!([{"label_id": 1, "label_name": HOSTILE, "value": "1.5"}]);
    let bundle = json!({"topic_id": "1", "nonce": "120", "combined_value": values,
        "inferer_values": [{"worker": "allo1aaa", "values": values}], "forecaster_values": [],
        "naive_value": values, "one_out_inferer_values": []});
    match path {
        "/api/v1/nodes" => json!({"nodes": [{"peer_id": HOSTILE, "role": HOSTILE,
            "subgroups": [HOSTILE], "addresses": [HOSTILE], "connected": true, "last_seen": HOSTILE,
            "runs": 1, "agreed": 1, "functions": [HOSTILE]}]}),
        "/api/v1/functions" => json!({"functions": [function]}),
        "/api/datasets/" | "/api/datasets/search/" => page(json!([dataset])),
        "/api/datasets/1/" => dataset,
        "/api/columns/" => {
            page(json!([{"id": 1, "dataset_id": 1, "name": HOSTILE, "dtype": "string",
            "created_at": time}]))
        }
        "/api/rows/" => {
            page(json!([{"id": 1, "dataset_id": 1, "timestamp": time, "created_at": time,
            "values": {HOSTILE: HOSTILE}}]))
        }
        "/api/rows/live/" => json!({"timestamp": time, HOSTILE: HOSTILE}),
        "/api/tags/" | "/api/datasets/1/tags/" => {
            page(json!([{"name": HOSTILE, "is_public": true}]))
        }
        "/api/v1/topics" => json!({"block_height": 1, "block_time_ms": 1000, "topics": [{
            "topic_id": 1, "name": HOSTILE, "topic_type": HOSTILE, "labels": [HOSTILE],
            "dataset": HOSTILE, "column": HOSTILE, "subgroup": HOSTILE, "epoch_length": 1,
            "worker_submission_window": 1, "ground_truth_lag": 1, "next_epoch_height": 1,
            "close_height": null, "last_nonce": null, "n_learned": 1, "actors": [{
                "worker": HOSTILE, "role": HOSTILE, "name": HOSTILE, "weight": 1.0, "regret": 1.0,
                "loss": 1.0, "score": 1.0}]}]}),
        "/api/v1/topics/1/submissions" => json!({"nonce": 120, "worker": HOSTILE}),
        _ if path.starts_with("/api/v1/functions/bafk") => {
            json!({"name": HOSTILE, "function_id": HOSTILE, "method": HOSTILE, "bytes": 1,
                "files": [{"path": HOSTILE, "bytes": 1, "runs": true}]})
        }
        _ if path.starts_with("/api/v1/functions") || path.starts_with("/api/v1/executions") => {
            execution
        }
        _ if path.contains("network_inferences") || path.ends_with("latest") => {
            json!({"network_inferences": bundle, "inference_block_height": "131"})
        }
        _ => json!({"message": HOSTILE}),
    }
}

/// Returns every command that sends requests, except commands that run until they are interrupted.
fn commands(home: &Home) -> Vec<Vec<String>> {
    let topic = home.write(
        "topic.json",
        br#"{"metadata":"m","dataset":"d","column":"c","horizon_seconds":60}"#,
    );
    let rows = home.write("rows.csv", b"timestamp,close\n2026-07-30T21:57:00Z,1\n");
    let module = demo("hello.wasm");
    let lines = [
        "nodes",
        "nodes --json",
        "function list",
        "function list --json",
        "function show CID",
        "function show CID --json",
        "function add MODULE",
        "function run CID",
        "function run CID --json",
        "function run CID --method main.wasm",
        "function run CID --async",
        "function run MODULE --nodes 2",
        "function result REQUEST",
        "function result REQUEST --json",
        "function cancel REQUEST",
        "function install CID",
        "function install http://example.com/manifest.json",
        "function remove CID",
        "datasets list",
        "datasets list --json",
        "datasets list --search x",
        "datasets show 1",
        "datasets show 1 --json",
        "datasets show name",
        "datasets rows 1",
        "datasets rows 1 --json",
        "datasets rows 1 --resolution 1h",
        "datasets create name --column close",
        "datasets create name --column close --json",
        "datasets delete 1 --yes",
        "datasets tags",
        "datasets tags --json",
        "datasets tags 1",
        "datasets tags 1 --add x",
        "datasets tags 1 --remove x",
        "datasets tags --acquire x",
        "datasets tags --release x",
        "datasets import ROWS",
        "datasets import ROWS --dry-run",
        "datasets export 1 -o out.csv",
        "datasets export 1 -o out.json",
        "datasets follow 1 --last 1 --limit 1",
        "datasets follow 1 --last 1 --limit 1 --json",
        "inference show 1",
        "inference show 1 --json",
        "inference show 1 --outlier-resistant",
        "inference topics list",
        "inference topics list --json",
        "inference topics create TOPIC",
        "inference topics settings 1",
        "inference topics update 1 TOPIC",
        "inference topics pause 1",
        "inference topics resume 1",
        "inference submit 1 42",
    ];
    let word = |word: &str| match word {
        "CID" => CID.to_owned(),
        "MODULE" => module.clone(),
        "ROWS" => rows.clone(),
        "TOPIC" => topic.clone(),
        _ => word.to_owned(),
    };
    lines.iter().map(|line| line.split(' ').map(word).collect()).collect()
}

/// Returns environment variables with which every service is at `address`.
fn environment(address: &str) -> [(&'static str, String); 4] {
    [
        ("TRIPTYCH_HEAD", address.to_owned()),
        ("TRIPTYCH_DATASETS", format!("{address}/api")),
        ("TRIPTYCH_INFERENCE", address.to_owned()),
        ("TRIPTYCH_API_KEY", "UP-000000000000000000000000".to_owned()),
    ]
}

/// Runs every command with a service that sends each of these replies. Checks that all output is
/// escaped.
#[track_caller]
fn check(reply: Reply) {
    let address = serve(reply);
    let home = environment(&address)
        .iter()
        .fold(Home::new(), |home, (name, value)| home.with(name, value));
    let mut raw = Vec::new();
    for arguments in commands(&home) {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = home.run(&arguments);
        assert_ne!(output.code, 2, "valid command line: {arguments:?}: {output:?}");
        let is_raw = |letter: char| is_unprintable(letter) && letter != '\n';
        // A line feed in a name must not begin a line that looks like a line of the program.
        let is_forged = |line: &str| line.starts_with(r"d\u{202e}");
        let mut lines = output.out.lines().chain(output.err.lines());
        if output.out.contains(is_raw) || output.err.contains(is_raw) || lines.any(is_forged) {
            raw.push(format!("{arguments:?}: {output:?}"));
        }
    }
    assert!(
        raw.is_empty(),
        "{reply:?}: {} commands print raw text:\n{}",
        raw.len(),
        raw.join("\n")
    );
}

#[test]
fn commands_escape_valid_responses_of_hostile_services() {
    check(Reply::Valid);
}

#[test]
fn commands_escape_malformed_responses_of_hostile_services() {
    check(Reply::Unknown);
}

#[test]
fn commands_escape_error_responses_of_hostile_services() {
    for reply in [Reply::JsonError(400), Reply::JsonError(404), Reply::TextError(400)] {
        check(reply);
    }
}

#[test]
fn terminal_gets_no_control_sequences_of_hostile_services() {
    for reply in [Reply::Valid, Reply::TextError(400)] {
        let address = serve(reply);
        let variables = environment(&address);
        let variables: Vec<(&str, &str)> =
            variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let home = Home::new();
        // `--raw` prints bytes unchanged, but only into a pipe.
        let raw_result = ["function", "result", "REQUEST", "--raw"].map(str::to_owned).to_vec();
        for arguments in commands(&home).iter().chain([&raw_result]) {
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let place = Place { size: SIZE, environment: &variables, ..Place::default() };
            let session = Session::start_in(&place, TRIPTYCH, &arguments);
            session.wait_exit(WITHIN);
            let written = String::from_utf8(session.written()).unwrap();
            // Removes what the terminal and the program may write: the terminal turns LF into CR LF, and
            // progress redraws its own line.
            let written = written.replace("\r\n", "\n").replace("\x1b[K", "").replace('\r', "");
            let raw = written.find(|letter: char| is_unprintable(letter) && letter != '\n');
            assert_eq!(raw, None, "{reply:?} {arguments:?}: {written:?}");
        }
    }
}

#[test]
fn long_running_commands_escape_errors_in_their_log() {
    let address = serve(Reply::TextError(500));
    let home = environment(&address)
        .iter()
        .fold(Home::new(), |home, (name, value)| home.with(name, value));
    for arguments in [&["function", "events"][..], &["inference", "watch", "1"]] {
        let running = home.start(arguments);
        running.wait_stderr(r"\u{1b}]52;c;cHduZWQ=\u{7}b\u{9b}31m");
    }
}
