//! `triptych inference work` with programs that infer, over real sockets.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::{Value, json};
use task::wait;

use crate::support::command::Home;
use crate::support::process;
use crate::support::up::Up;

/// Maximum time for a few epochs of twelve blocks.
const EPOCHS_WITHIN: Duration = Duration::from_mins(2);

/// Shell command that prints the latest load.
const NEWEST: &str = r#"tail -n 1 | sed 's/.*"load_percent":\([0-9.]*\).*/{"value":"\1"}/'"#;

/// Creates a topic, and a home directory for commands that use the services.
fn topic(up: &Up) -> (Home, String) {
    let home = Home::new()
        .with("TRIPTYCH_API_KEY", up.text("api_key"))
        .with("TRIPTYCH_INFERENCE", up.text("inference"))
        .with("TRIPTYCH_DATASETS", up.text("datasets"));
    let settings = json!({"metadata": "programs", "dataset": "machine_cpu",
        "column": "load_percent", "horizon_seconds": 60, "ground_truth_lag": 60});
    home.write("topic.json", settings.to_string().as_bytes());
    let created = home.run_ok(&["inference", "topics", "create", "topic.json"]);
    let created: Value = serde_json::from_str(&created).unwrap();
    let id = created["id"].as_str().unwrap().to_owned();
    (home, id)
}

/// Returns the arguments of the command for a worker.
fn work<'a>(topic: &'a str, model: &'a str, command: &'a str) -> Vec<&'a str> {
    vec!["inference", "work", topic, "--model", model, "--command", command, "--json"]
}

fn lines(out: &str) -> Vec<Value> {
    out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn program_of_the_work_command_submits_in_each_epoch() {
    let up = Up::shared();
    let (home, id) = topic(&up);
    let out = home.run_ok(&[work(&id, "newest", NEWEST), vec!["--limit", "2"]].concat());
    let [first, second] = &lines(&out)[..] else { panic!("{out}") };
    assert_ne!(first["nonce"], second["nonce"], "{out}");
    let (worker, nonce) = (&first["worker"], &first["nonce"]);
    let http = up.inference();
    let path = format!("/emissions/v10/network_inferences/{id}/last_inference/{nonce}");
    let look = || async {
        match http.get_json(&path).await {
            (StatusCode::OK, body) => Ok(body),
            other => Err(other),
        }
    };
    let body = wait::until(EPOCHS_WITHIN, look).await.unwrap();
    let own = &body["network_inferences"]["inferer_values"][0];
    assert_eq!(&own["worker"], worker, "{body}");
    let bits = |text: &Value| text.as_str().unwrap().parse::<f64>().unwrap().to_bits();
    assert_eq!(bits(&own["values"][0]["value"]), bits(&first["values"]["y"]), "{body}");
}

#[test]
fn program_of_the_work_command_is_restarted_after_a_failure() {
    let up = Up::shared();
    let (home, id) = topic(&up);
    // A program that fails the first time, after it has written to standard error.
    let marker = home.path("marker");
    let fails =
        format!("[ -e {marker} ] || {{ touch {marker}; echo no luck >&2; exit 3; }}; {NEWEST}");
    let said = home.run(&[work(&id, "unlucky", &fails), vec!["--limit", "1"]].concat());
    assert_eq!((said.code, lines(&said.out).len()), (0, 1), "{said:?}");
    let why = "the program exited with code 3; its last error line: no luck; retrying in";
    assert!(said.err.contains("program: no luck") && said.err.contains(why), "{said:?}");
}

#[test]
fn persistent_program_gets_a_line_per_epoch_and_is_restarted_after_an_exit() {
    let up = Up::shared();
    let (home, id) = topic(&up);
    // A program that counts its starts and exits after two responses.
    let starts = home.path("starts");
    let twice = format!(
        "echo x >> {starts}; for i in 1 2; do read -r epoch; \
         echo \"$epoch\" | sed 's/.*\"nonce\":\\([0-9]*\\).*/{{\"value\":\\1}}/'; done"
    );
    let arguments = [work(&id, "large", &twice), vec!["--limit", "3", "--keep-running"]].concat();
    let said = home.run(&arguments);
    assert_eq!(said.code, 0, "{said:?}");
    let submitted = lines(&said.out);
    let own: Vec<Value> = submitted.iter().map(|line| json!(line["nonce"].to_string())).collect();
    let values: Vec<&Value> = submitted.iter().map(|line| &line["values"]["y"]).collect();
    assert_eq!((values, own.len()), (own.iter().collect(), 3), "{said:?}");
    assert_eq!(std::fs::read_to_string(&starts).unwrap(), "x\nx\n", "{said:?}");
}

#[test]
fn program_that_loads_longer_than_a_submission_window_submits_in_a_later_window() {
    let up = Up::shared();
    let (home, id) = topic(&up);
    // Loading takes longer than the window, which is open for 7 of 12 seconds.
    let loads = "sleep 14; while read -r epoch; do echo '{\"value\":1}'; done";
    let arguments = [work(&id, "heavy", loads), vec!["--limit", "2", "--keep-running"]].concat();
    let said = home.run(&arguments);
    assert_eq!((said.code, lines(&said.out).len()), (0, 2), "{said:?}");
}

#[test]
fn silent_or_verbose_program_is_killed_with_its_children() {
    let up = Up::shared();
    let (home, id) = topic(&up);
    let started = home.path("started");
    let sleeps = format!("echo $$ >> {started}; sleep 600 & echo $! >> {started}; wait");
    let slow = [work(&id, "slow", &sleeps), vec!["--time-limit", "1"]].concat();
    let running = home.start(&slow);
    running.wait_stderr("the program did not respond within 1.0 s");
    assert_eq!(running.interrupt(), Some(0));
    let started = std::fs::read_to_string(&started).unwrap();
    let started: Vec<u32> = started.lines().map(|pid| pid.parse().unwrap()).collect();
    assert!(started.len() >= 2, "{started:?}");
    process::wait_gone(started);

    let running = home.start(&work(&id, "loud", "yes | tr -d '\\n'"));
    running.wait_stderr("printed 1048576 bytes or more");
}

#[test]
fn work_command_rejects_invalid_arguments() {
    let up = Up::shared();
    let (home, id) = topic(&up);
    let unknown = home.run_err(&work("4711", "any", NEWEST));
    assert!(unknown.contains("no topic 4711, only 1, 2, "), "{unknown}");
    let running = home.start(&work(&id, "absent", "/no/such/model"));
    running.wait_stderr("the command cannot be run (exit code 127)");
    let running = home.start(&work(&id, "wordy", "echo hello"));
    running.wait_stderr(
        "the program printed `hello`, expected {\"value\":42.5}, or {} for no submission",
    );
    let keyless = home.with("TRIPTYCH_API_KEY", "UP-000000000000000000000000");
    let refused = keyless.run_err(&work(&id, "keyless", NEWEST));
    assert!(refused.contains("read the topics"), "{refused}");
}
