//! Files of functions, which guests read and write with host calls.

use serde_json::Value;

use crate::support::cluster::Node;
use crate::support::command::Home;

/// Returns a module with `body` and the imports that these guests need.
fn module(body: &str) -> Vec<u8> {
    wat::parse_str(format!(
        r#"(module
            (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
            (import "wasi_snapshot_preview1" "fd_prestat_dir_name"
                (func $name (param i32 i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "fd_read"
                (func $read (param i32 i32 i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "fd_write"
                (func $write (param i32 i32 i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "path_open" (func $open
                (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
            {body})"#
    ))
    .unwrap()
}

/// Prints the name of its second preopened directory and the content of `data/words.txt` in it. Then
/// tries to change that directory. Exits with a code other than 0 if reading fails or writing succeeds.
const READS_ITS_FILES: &str = r#"
    (memory (export "memory") 1)
    (data (i32.const 0) "data/words.txt") (data (i32.const 100) "new")
    (func $fail_if (param i32 i32) (if (local.get 0) (then (call $exit (local.get 1)))))
    (func $open_file (param $path i32) (param $n i32) (param $how i32) (param $rights i64)
        (result i32)
        (call $open (i32.const 4) (i32.const 0) (local.get $path) (local.get $n) (local.get $how)
            (local.get $rights) (i64.const 0) (i32.const 0) (i32.const 200)))
    (func (export "_start")
        (call $fail_if (call $name (i32.const 4) (i32.const 1000) (i32.const 9)) (i32.const 90))
        (call $fail_if (call $open_file (i32.const 0) (i32.const 14) (i32.const 0) (i64.const 2))
            (i32.const 91))
        (i32.store (i32.const 300) (i32.const 1009)) (i32.store (i32.const 304) (i32.const 64))
        (call $fail_if (call $read (i32.load (i32.const 200)) (i32.const 300) (i32.const 1)
            (i32.const 308)) (i32.const 92))
        (i32.store (i32.const 300) (i32.const 1000))
        (i32.store (i32.const 304) (i32.add (i32.const 9) (i32.load (i32.const 308))))
        (drop (call $write (i32.const 1) (i32.const 300) (i32.const 1) (i32.const 308)))
        (call $fail_if (i32.eqz (call $open_file (i32.const 0) (i32.const 14) (i32.const 0)
            (i64.const 64))) (i32.const 93))
        (call $fail_if (i32.eqz (call $open_file (i32.const 100) (i32.const 3) (i32.const 1)
            (i64.const 64))) (i32.const 94)))"#;

/// Runs the function at `path` on a worker. Returns the result.
async fn run_on_worker(home: &Home, path: &str) -> Value {
    let head = Node::head(&[]);
    let _worker = Node::worker(&head, &[]);
    head.has_workers(1).await;
    let rest_api = head.rest_api();
    let output = home.run(&["function", "run", path, "--head", &rest_api, "--json"]);
    let reply: Value = serde_json::from_str(&output.out).unwrap();
    reply["results"][0]["result"].clone()
}

#[tokio::test]
async fn function_can_read_but_not_change_its_own_files() {
    let home = Home::new();
    home.write("words/words.wasm", &module(READS_ITS_FILES));
    home.write("words/data/words.txt", b": some words\n");
    let result = run_on_worker(&home, "words").await;
    assert_eq!(result["stdout"], "/function: some words\n", "{result}");
    assert_eq!(result["exit_code"], 0, "{result}");
}

#[test]
fn function_can_read_its_own_files_without_a_head() {
    let home = Home::new();
    let cache = home.path("cache");
    let home = home.with("XDG_CACHE_HOME", &cache);
    home.write("words/words.wasm", &module(READS_ITS_FILES));
    home.write("words/data/words.txt", b": some words\n");
    let wants = |run: &str| {
        assert_eq!(home.run_ok(&["function", "run", run, "--raw"]), "/function: some words\n");
    };
    wants("words");
    let id = home.run_ok(&["function", "add", "words"]);
    wants(id.split_whitespace().next().unwrap());
    let runs = std::path::Path::new(&cache).join("triptych/runs");
    assert!(runs.read_dir().unwrap().next().is_none(), "the runs leave no files");
}
