//! A worker with an external runtime: this program in its role as bls-runtime, which is wrapped in a
//! script. Without the script, the worker executes functions itself.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::cluster::Node;
use crate::support::command::{Home, demo};
use crate::support::{CACHE, TRIPTYCH};

/// Writes a script that records each call and then executes `triptych runtime`.
fn write_runtime(home: &Home) -> PathBuf {
    let calls = home.path("calls");
    let script = format!(
        "#!/bin/sh\necho \"$@\" >>'{calls}'\n\
        exec '{TRIPTYCH}' runtime --compiled-folder '{CACHE}/compiled' \"$@\"\n"
    );
    PathBuf::from(home.write_program("runtime/wrapped", &script))
}

/// Starts a head, and a worker that runs functions with `program`.
fn head_and_worker(program: &Path, flags: &[&str]) -> (Node, Node) {
    let (folder, name) = (program.parent().unwrap(), program.file_name().unwrap());
    let (folder, name) = (folder.display().to_string(), name.to_str().unwrap());
    let head = Node::head(&[]);
    let runtime = ["--runtime-path", &folder, "--runtime-cli", name];
    let worker = Node::worker(&head, &[&runtime[..], flags].concat());
    (head, worker)
}

/// Runs hello with an environment variable called `variable`. Returns the response.
fn run_with_variable(home: &Home, head: &Node, variable: &str) -> Value {
    let rest_api = head.rest_api();
    let hello = demo("hello.wasm");
    let run = ["function", "run", &hello, "--head", &rest_api, "--json", "--env", variable];
    serde_json::from_str(&home.run(&run).out).unwrap()
}

#[track_caller]
fn check_refused(reply: &Value, name: &str) {
    let message = reply["message"].as_str().unwrap_or_default();
    assert_eq!(reply["code"], "500", "{name}: {reply}");
    assert!(message.contains("environment variable") && message.contains(name), "{reply}");
    assert_eq!(reply["results"], Value::Null, "{name}: {reply}");
}

/// A request must not set `BASH_ENV`, for example: a shell executes the commands in the file that this
/// variable names before a script.
#[tokio::test]
async fn external_runtime_receives_only_allowed_variables() {
    let home = Home::new();
    let pwned = home.path("pwned");
    let script = format!(
        "#!/bin/bash\nexec '{TRIPTYCH}' runtime --compiled-folder '{CACHE}/compiled' \"$@\"\n"
    );
    let program = home.write_program("runtime/wrapped", &script);
    let (head, _worker) = head_and_worker(Path::new(&program), &["--runtime-env", "COLOR"]);
    head.has_workers(1).await;
    for name in ["BASH_ENV", "BASH_FUNC_exec%%", "LD_PRELOAD", "BLS_LIST_VARS", "SIZE", "A B"] {
        let reply = run_with_variable(&home, &head, &format!("{name}=$(id > {pwned})"));
        check_refused(&reply, name);
        assert!(!Path::new(&pwned).exists(), "{name} ran a command");
    }
    // A long name is shortened, so that the error has one line.
    check_refused(&run_with_variable(&home, &head, "A\nB=1"), r"A\nB");
    let reply = run_with_variable(&home, &head, "COLOR=$(id) `id`; id\nred");
    let stdout = reply["results"][0]["result"]["stdout"].as_str().unwrap();
    assert!(stdout.contains("environment: COLOR=$(id) `id`; id\nred"), "{reply}");
}

/// Code in a directory of compiled code is trusted, so only the operator may name the directory.
#[tokio::test]
async fn worker_that_is_its_own_runtime_passes_variables_to_the_function_but_ignores_them() {
    let home = Home::new();
    let program = PathBuf::from(home.path("bls-runtime"));
    std::os::unix::fs::symlink(TRIPTYCH, &program).unwrap();
    let (head, worker) = head_and_worker(&program, &[]);
    head.has_workers(1).await;
    let planted = home.path("planted");
    for name in ["XDG_CACHE_HOME", "HOME", "COLOR"] {
        let reply = run_with_variable(&home, &head, &format!("{name}={planted}"));
        let stdout = reply["results"][0]["result"]["stdout"].as_str().unwrap();
        assert!(stdout.contains(&format!("environment: {name}={planted}\n")), "{reply}");
        assert_eq!(reply["results"][0]["peers"][0], worker.id(), "{reply}");
        assert!(!Path::new(&planted).exists(), "{name}");
    }
    // When the program is run by hand, it does not take the directory from the environment either.
    let home = home.with("XDG_CACHE_HOME", &planted).with("HOME", &planted);
    home.run_ok(&["runtime", &demo("hello.wasm")]);
    assert!(!Path::new(&planted).exists());
}

#[tokio::test]
async fn external_runtime_returns_the_same_results_as_the_worker_itself() {
    let home = Home::new();
    let runtime = write_runtime(&home);
    let folder = runtime.parent().unwrap().display().to_string();
    let head = Node::head(&[]);
    let inside = Node::worker(&head, &[]);
    let runtime = ["--runtime-path", &folder, "--runtime-cli", "wrapped", "--runtime-env", "COLOR"];
    let outside = Node::worker(&head, &runtime);
    head.has_workers(2).await;

    let rest_api = head.rest_api();
    let run = |path: &str, more: &[&str]| {
        let run = ["function", "run", path, "--head", &rest_api, "--nodes", "2", "--json"];
        let output = home.run_with(&[&run[..], more].concat(), b"rows\n");
        let reply: Value = serde_json::from_str(&output.out).unwrap();
        assert_eq!(reply["code"], "200", "{output:?}");
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
    assert_eq!(calls.lines().count(), 1, "the external runtime was called: {calls}");
    assert!(calls.contains("--run-time 10000") && calls.contains("-- one --help"), "{calls}");

    // The exit codes are equal, too.
    let fails = wat::parse_str(
        r#"(module (memory (export "memory") 1)
        (func (export "_start") unreachable))"#,
    );
    let reply = run(&home.write("fails.wasm", &fails.unwrap()), &[]);
    let codes: Vec<_> = reply["results"].as_array().unwrap().iter().collect();
    assert!(codes.iter().all(|group| group["result"]["exit_code"] == 11), "{reply}");
}
