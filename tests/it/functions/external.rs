//! A worker that runs functions with another program: our own, in its role as bls-runtime.

use std::path::PathBuf;

use serde_json::Value;

use crate::support::{
    CACHE, TRIPTYCH,
    cluster::Node,
    command::{Home, demo},
};

/// Writes a program that notes each call and then is `triptych runtime`.
fn write_runtime(home: &Home) -> PathBuf {
    let calls = home.path("calls");
    // A worker passes on nothing of its own environment.
    let script = format!(
        "#!/bin/sh\necho \"$@\" >>'{calls}'\n\
        XDG_CACHE_HOME='{CACHE}' exec '{TRIPTYCH}' runtime \"$@\"\n"
    );
    let path = PathBuf::from(home.write("runtime/wrapped", script.as_bytes()));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    path
}

#[tokio::test]
async fn a_worker_with_another_program_returns_what_one_without_returns() {
    let home = Home::new();
    let runtime = write_runtime(&home);
    let folder = runtime.parent().unwrap().display().to_string();
    let head = Node::head(&[]);
    let inside = Node::worker(&head, &[]);
    let outside = Node::worker(&head, &["--runtime-path", &folder, "--runtime-cli", "wrapped"]);
    head.has_workers(2).await;

    let rest_api = head.rest_api();
    let run = |path: &str, more: &[&str]| {
        let run = ["function", "run", path, "--head", &rest_api, "--nodes", "2", "--json"];
        let said = home.run_with(&[&run[..], more].concat(), b"rows\n");
        let reply: Value = serde_json::from_str(&said.out).unwrap();
        assert_eq!(reply["code"], "200", "{said:?}");
        reply
    };
    let reply = run(
        &demo("hello.wasm"),
        &["--env", "COLOR=blue", "--stdin", "-", "--run-limit", "10", "--", "one", "--help"],
    );
    let groups = reply["results"].as_array().unwrap();
    let [group] = groups.as_slice() else { panic!("one group: {reply}") };
    let stdout = group["result"]["stdout"].as_str().unwrap();
    for want in ["argument 2: --help\n", "environment: COLOR=blue\n", "rows\n"] {
        assert!(stdout.contains(want), "`{want}` is in {stdout}");
    }
    let mut peers = [inside.id(), outside.id()];
    peers.sort_unstable();
    assert_eq!(reply["cluster"]["peers"], serde_json::json!(peers));
    let calls = std::fs::read_to_string(home.path("calls")).unwrap();
    assert_eq!(calls.lines().count(), 1, "the one ran it with the program: {calls}");
    assert!(calls.contains("--run-time 10000") && calls.contains("-- one --help"), "{calls}");

    // How it ended is the same, too.
    let fails = wat::parse_str(
        r#"(module (memory (export "memory") 1)
        (func (export "_start") unreachable))"#,
    );
    let reply = run(&home.write("fails.wasm", &fails.unwrap()), &[]);
    let codes: Vec<_> = reply["results"].as_array().unwrap().iter().collect();
    assert!(codes.iter().all(|group| group["result"]["exit_code"] == 11), "{reply}");
}
