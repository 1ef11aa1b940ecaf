//! Limits of the output of functions.

use serde_json::Value;

use crate::support::cluster::Node;
use crate::support::command::Home;

/// Number of bytes per write.
const WRITE_BYTES: usize = 64 * 1024;

/// Writes a module that prints `n_mib` MiB of `letter`. Returns the path of the module.
fn writes(home: &Home, n_mib: usize, letter: char) -> String {
    let n_writes = n_mib * 1024 * 1024 / WRITE_BYTES;
    let module = wat::parse_str(format!(
        r#"(module
            (import "wasi_snapshot_preview1" "fd_write"
                (func $write (param i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 2)
            (func (export "_start") (local $n i32)
                (memory.fill (i32.const 65536) (i32.const {}) (i32.const {WRITE_BYTES}))
                (i32.store (i32.const 0) (i32.const 65536))
                (i32.store (i32.const 4) (i32.const {WRITE_BYTES}))
                (loop $on
                    (if (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))
                        (then unreachable))
                    (local.set $n (i32.add (local.get $n) (i32.const 1)))
                    (br_if $on (i32.lt_u (local.get $n) (i32.const {n_writes}))))))"#,
        u32::from(letter)
    ));
    home.write(&format!("writes-{n_mib}-{}.wasm", u32::from(letter)), &module.unwrap())
}

fn run(home: &Home, head: &Node, path: &str) -> Value {
    let rest_api = head.rest_api();
    let output = home.run(&["function", "run", path, "--head", &rest_api, "--json"]);
    serde_json::from_str(&output.out).unwrap_or_else(|error| panic!("{error}: {}", output.err))
}

#[tokio::test]
async fn function_output_up_to_the_limit_arrives_complete() {
    let home = Home::new();
    // The option also limits the response. An unoptimized program needs a second for some megabytes.
    let limit = ["--output-limit", "2"];
    let head = Node::head(&limit);
    let worker = Node::worker(&head, &limit);
    head.has_workers(1).await;
    // The second letter is escaped, so it is six times as long in the response.
    for (letter, n_mib) in [('x', 2), ('\u{1b}', 1)] {
        let reply = run(&home, &head, &writes(&home, n_mib, letter));
        let result = &reply["results"][0]["result"];
        assert_eq!((&reply["code"], &result["exit_code"]), (&"200".into(), &0.into()));
        let stdout = result["stdout"].as_str().unwrap();
        assert_eq!(stdout.len(), n_mib * 1024 * 1024);
        assert!(stdout.chars().all(|c| c == letter));
    }
    let reply = run(&home, &head, &writes(&home, 3, 'x'));
    let result = &reply["results"][0]["result"];
    assert_eq!((&reply["code"], &result["exit_code"]), (&"200".into(), &255.into()));
    let stderr = result["stderr"].as_str().unwrap();
    assert_eq!(stderr, "runtime: output limit of 2097152 bytes reached\n");
    drop(worker);
}

/// The limit of the worker is higher than the limit of the head.
#[tokio::test]
async fn too_long_response_is_an_error_immediately() {
    let home = Home::new();
    let head = Node::head(&["--output-limit", "1"]);
    let worker = Node::worker(&head, &["--output-limit", "32"]);
    head.has_workers(1).await;
    let (long, short) = (writes(&home, 8, 'x'), writes(&home, 1, 'x'));
    for _ in 0..2 {
        let reply = run(&home, &head, &long);
        assert_eq!(reply["code"], "500", "{reply}");
        let message = reply["message"].as_str().unwrap();
        assert!(message.contains(&worker.id()) && message.contains("--output-limit"), "{reply}");
        // The connection is still usable: the next frame on it is read.
        assert_eq!(run(&home, &head, &short)["code"], "200");
    }
}
