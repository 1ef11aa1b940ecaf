//! `triptych up`: its output, how it restarts its processes, and commands that find the stack.

use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::command::Home;
use crate::support::http::Http;
use crate::support::process::{self, Signal};
use crate::support::running::Running;
use crate::support::wait;

/// Maximum time until a process of the stack responds.
const READY_WITHIN: Duration = Duration::from_mins(1);

#[test]
fn up_command_prints_addresses_and_one_key_before_log_lines() {
    let folder = TempDir::new().unwrap();
    let up = Running::start(&["up", "--data-dir", &folder.path().display().to_string()]);
    let head = &up.wait_lines(1)[0];
    assert!(head.starts_with("head       http://127.0.0.1:"), "{head}");
    let lines = wait::until("a log line follows", READY_WITHIN, || {
        let lines = up.stdout();
        if lines.iter().any(|line| line.starts_with('{')) { Ok(lines) } else { Err(lines) }
    });
    let n_shown = lines.iter().take_while(|line| !line.starts_with('{')).count();
    let (shown, logged) = lines.split_at(n_shown);
    for start in ["datasets   http://127.0.0.1:", "inference  http://127.0.0.1:", "API key    UP-"]
    {
        assert!(shown.iter().any(|line| line.starts_with(start)), "{start}: {shown:?}");
    }
    assert_eq!(lines.iter().filter(|line| line.contains("UP-")).count(), 1, "the key, once");
    for line in logged {
        let line: Value = serde_json::from_str(line).unwrap();
        for member in ["process", "level", "time", "message"] {
            assert!(line[member].is_string(), "{member}: {line}");
        }
    }
}

#[test]
fn up_command_with_log_level_error_starts_and_prints_no_info_lines() {
    let folder = TempDir::new().unwrap();
    let data_dir = folder.path().display().to_string();
    let mut up = Running::start(&["up", "--log-level", "error", "--data-dir", &data_dir]);
    up.wait_lines(4);
    process::signal(up.pid(), Signal::Terminate);
    assert_eq!(up.wait_exit(), Some(0));
    let lines = up.stdout();
    assert!(lines.iter().any(|line| line.starts_with("inference  http")), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("\"level\":\"info\"")), "{lines:?}");
}

#[tokio::test]
async fn up_command_restarts_only_the_killed_process() {
    let folder = TempDir::new().unwrap();
    let up = Running::start(&["up", "--json", "--data-dir", &folder.path().display().to_string()]);
    let line: Value = serde_json::from_str(&up.wait_lines(1)[0]).unwrap();
    let head = Http::new(line["head"].as_str().unwrap(), None);
    let pid = |idx: usize| u32::try_from(line["nodes"][idx]["pid"].as_u64().unwrap()).unwrap();
    let before = process::descendants(up.pid());
    // Nodes are listed in the order in which they were started: first the head, then the workers.
    for (name, idx) in [("worker-1", 1), ("head", 0)] {
        process::signal(pid(idx), Signal::Kill);
        let restarted = up.wait_log(&format!("the {name} restarted"));
        assert_ne!(restarted["pid"].as_u64(), Some(pid(idx).into()), "{restarted}");
        let connected = task::wait::until(READY_WITHIN, || async {
            let nodes = head.try_get("/api/v1/nodes").await?;
            let is_up = |node: &&Value| node["connected"] == true && node["role"] == "worker";
            let n_workers = nodes["nodes"].as_array().into_iter().flatten().filter(is_up).count();
            if n_workers == 3 { Ok(()) } else { Err(nodes.to_string()) }
        });
        connected.await.unwrap();
    }
    let left = process::descendants(up.pid());
    assert_eq!(before.intersection(&left).count(), before.len() - 2, "the others keep running");
}

#[tokio::test]
async fn rest_token_from_the_environment_is_required_by_the_head_and_used_by_the_stack() {
    let (folder, token) = (TempDir::new().unwrap(), "correct-horse-battery");
    let data_dir = folder.path().display().to_string();
    let arguments = ["up", "--json", "--data-dir", &data_dir];
    let up = Running::start_with(&arguments, &[("TRIPTYCH_REST_TOKEN", token)]);
    let line: Value = serde_json::from_str(&up.wait_lines(1)[0]).unwrap();
    let head = line["head"].as_str().unwrap();
    assert_eq!(Http::new(head, None).get("/api/v1/nodes").await.0, 401);
    let owner = Home::new().with("TRIPTYCH_HEAD", head).with("TRIPTYCH_REST_TOKEN", token);
    assert_eq!(owner.run_ok(&["nodes"]).lines().count(), 5, "a heading and four nodes");
    // The inference service needs the token, too. Its demo topics have epochs of some seconds.
    let inference = line["inference"].as_str().unwrap();
    let inference = Http::new(inference, line["api_key"].as_str());
    task::wait::until(READY_WITHIN, || async {
        let (status, body) = inference.get("/api/v1/topics/1/latest").await;
        if status == 200 { Ok(()) } else { Err(format!("{status}: {body}")) }
    })
    .await
    .unwrap();
}

#[test]
fn commands_continue_after_a_restart_of_the_stack_at_other_ports() {
    let home = Home::new().with("TRIPTYCH_KEYRING", "off");
    let folder = home.path("");
    let environment = [("HOME", folder.as_str()), ("TRIPTYCH_KEYRING", "off")];
    let start = || {
        let up = Running::start_with(&["up", "--json"], &environment);
        up.wait_lines(1);
        up
    };
    let up = start();
    let follow = home.start(&["datasets", "follow", "synthetic_btcusd", "--json", "--last", "1"]);
    let work =
        home.start(&["inference", "work", "1", "--json", "--command", "echo '{\"value\": 1}'"]);
    let rules = home.write("rules.toml", b"[[rules]]\nservice = 'head'\ndown_for = '1s'\n");
    let watch = home.start(&["watch", "--rules", &rules, "--json"]);
    watch.wait_stderr("watching 1 rule");
    let n_before = [&follow, &work].map(|command| command.wait_lines(1).len());
    let n_new = [10, 2]; // rows of a second, submissions of an epoch
    assert_eq!(up.interrupt(), Some(0));
    assert!(watch.wait_lines(1)[0].contains("firing"));
    let up = start();
    assert!(watch.wait_lines(2)[1].contains("resolved"));
    for (idx, command) in [&follow, &work].into_iter().enumerate() {
        command.wait_lines(n_before[idx] + n_new[idx]);
    }
    for command in [follow, work, watch] {
        assert_eq!(command.interrupt(), Some(0));
    }
    drop(up);
}

#[test]
fn commands_of_the_same_user_find_the_stack_and_its_key() {
    let home = Home::new().with("TRIPTYCH_KEYRING", "off");
    let folder = home.path("");
    let environment = [("HOME", folder.as_str()), ("TRIPTYCH_KEYRING", "off")];
    let up = Running::start_with(&["up", "--json"], &environment);
    let line: Value = serde_json::from_str(&up.wait_lines(1)[0]).unwrap();
    assert_eq!(home.run_ok(&["nodes"]).lines().count(), 5, "a heading and four nodes");
    assert!(home.run_ok(&["datasets", "list"]).contains("machine_cpu"));
    assert!(home.run_ok(&["inference", "topics", "list"]).lines().count() >= 2);
    assert!(home.run(&["datasets", "verify"]).err.contains("/stack/datasets.db"));
    let report = home.run(&["doctor"]).out;
    for wanted in ["head of local stack at", "/stack/datasets.db: is in use by a service"] {
        assert!(report.contains(wanted), "{wanted}: {report}");
    }
    let created = home.run(&["keys", "create", "me"]);
    let datasets = line["datasets"].as_str().unwrap();
    assert!(created.err.contains(&format!("not for the running local stack at {datasets}")));
    assert!(home.run_ok(&["datasets", "list", "--datasets", datasets]).contains("machine_cpu"));
    let inference = line["inference"].as_str().unwrap();
    home.run_ok(&["inference", "topics", "list", "--inference", inference]);
    let elsewhere =
        home.run_err(&["inference", "topics", "list", "--inference", "http://127.0.0.1:1"]);
    assert!(elsewhere.contains("\nhint: check that the service runs"), "{elsewhere}");
    // A key in the configuration is for other services, not for the services of the stack.
    let key = home.run_ok(&["keys", "create", "me"]);
    let home = home.with("TRIPTYCH_API_KEY", key.trim());
    assert!(home.run_err(&["datasets", "list"]).contains("http://127.0.0.1:8081"));
    drop(up);
    let home = home.with("TRIPTYCH_API_KEY", "");
    assert!(home.run_err(&["nodes"]).contains("no head is configured"));
}
