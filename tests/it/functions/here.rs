//! `triptych function run` without a head, and `triptych runtime`: both run modules on this machine.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::TRIPTYCH;
use crate::support::command::{Home, demo};

/// Returns a module with `body` as its start function, in binary format.
fn module(body: &str) -> Vec<u8> {
    wat::parse_str(format!(
        r#"(module
            (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
            (memory (export "memory") 1)
            (func (export "_start") {body}))"#
    ))
    .unwrap()
}

/// Writes a module that exits with `code`. Returns the path of the module.
fn ends_with(home: &Home, code: u8) -> String {
    home.write(&format!("ends-with-{code}.wasm"), &module(&format!("i32.const {code} call $exit")))
}

#[test]
fn run_command_executes_a_module_by_its_path() {
    let home = Home::new();
    let hello = demo("hello.wasm");
    let run = ["function", "run", &hello, "--param", "-1", "--env", "COLOR=blue", "--stdin", "-"];
    let output = home.run_with(&[&run[..], &["--", "two"]].concat(), b"rows\n");
    let want = "result 1 of 1: on this machine, exit code 0\n\
        standard output:\n  Hello from WebAssembly\n  argument 1: -1\n  argument 2: two\n  \
        environment: COLOR=blue\n";
    assert!(output.code == 0 && output.out.starts_with(want), "{output:?}");
    assert!(
        output.out.contains("rows") && output.out.ends_with("standard error: none\n"),
        "{output:?}"
    );

    let reply = home.run_ok(&["function", "run", &hello, "--json"]);
    let reply: Value = serde_json::from_str(&reply).unwrap();
    assert_eq!(reply["results"][0]["result"]["stdout"], "Hello from WebAssembly\n");
    assert_eq!(home.run_ok(&["function", "run", &hello, "--raw"]), "Hello from WebAssembly\n");
}

#[test]
fn raw_output_of_a_function_is_printed_byte_for_byte() {
    let home = Home::new();
    let writes = wat::parse_str(
        r#"(module
            (import "wasi_snapshot_preview1" "fd_write"
                (func $write (param i32 i32 i32 i32) (result i32)))
            (memory (export "memory") 1)
            (data (i32.const 0) "\08\00\00\00\04\00\00\00\ff\00\80\0a")
            (func (export "_start")
                (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 16)))))"#,
    );
    let writes = home.write("writes.wasm", &writes.unwrap());
    assert_eq!(home.run_for_bytes(&["function", "run", &writes, "--raw"]), b"\xff\x00\x80\n");
}

#[test]
fn run_command_executes_a_stored_function_by_its_id() {
    let home = Home::new();
    let id = home.run_ok(&["function", "add", &demo("hello.wasm")]);
    let run = ["function", "run", id.trim(), "--raw"];
    assert_eq!(home.run_ok(&run), "Hello from WebAssembly\n");
    assert_eq!(home.run_ok(&["function", "run", "hello", "--raw"]), "Hello from WebAssembly\n");
    let why = home.run_err(&["function", "run", "hullo"]);
    assert!(why.contains("no function in the function store"), "{why}");
    let renamed = home.run_ok(&[&run[..], &["--method", "other.wasm"]].concat());
    assert_eq!(renamed, "Hello from WebAssembly\n");
    // By default, the module that is named like the directory is run.
    home.write("both/both.wasm", &module("i32.const 0 call $exit"));
    home.write("both/fails.wasm", &module("i32.const 9 call $exit"));
    assert_eq!(home.run(&["function", "run", "both"]).code, 0);
    assert_eq!(home.run(&["function", "run", "both", "--method", "fails.wasm"]).code, 3);
    let why = home.run_err(&["function", "run", "both", "--method", "other.wasm"]);
    assert!(why.contains("has no module other.wasm"), "{why}");
}

#[test]
fn run_command_prints_the_exit_code_of_a_failed_function_and_exits_with_3() {
    let home = Home::new();
    let output = home.run(&["function", "run", &ends_with(&home, 7)]);
    assert!(output.code == 3 && output.out.contains("exit code 7\n"), "{output:?}");
    let endless = home.write("endless.wasm", &module("(loop br 0)"));
    let output = home.run(&["function", "run", &endless, "--run-limit", "1"]);
    assert!(output.code == 3 && output.out.contains("exit code 15\n"), "{output:?}");
    assert!(output.out.contains("time limit of 1s reached"), "{output:?}");
    // Running on other nodes needs a head.
    for more in [&["--nodes", "2"][..], &["--subgroup", "gpu"], &["--async"]] {
        let why = home.run_err(&[&["function", "run", &endless], more].concat());
        assert!(why.contains("--head"), "{why}");
    }
    let why = home.run(&["function", "run", &endless, "--nodes", "0"]);
    assert!(why.code == 2 && why.err.contains("`all`"), "{why:?}");
}

#[test]
fn compiled_code_is_stored_in_the_cache_directory_of_the_user() {
    let home = Home::new();
    let cache = home.path("cache");
    let home = home.with("XDG_CACHE_HOME", &cache);
    home.run_ok(&["function", "run", &demo("hello.wasm")]);
    let compiled = Path::new(&cache).join("triptych/compiled");
    assert!(compiled.read_dir().unwrap().next().is_some(), "{}", compiled.display());
    // A run leaves no files of its own behind.
    let runs = Path::new(&cache).join("triptych/runs");
    assert!(!runs.exists() || runs.read_dir().unwrap().next().is_none());
}

#[test]
fn runtime_command_has_the_exit_codes_of_bls_runtime() {
    let home = Home::new();
    let code = |arguments: &[&str]| home.run(&[&["runtime"], arguments].concat()).code;
    assert_eq!(code(&[&ends_with(&home, 0)]), 0);
    assert_eq!(code(&[&ends_with(&home, 7)]), 7);
    assert_eq!(code(&[&ends_with(&home, 255)]), 255);
    assert_eq!(code(&[&home.write("trap.wasm", &module("unreachable"))]), 11);
    let endless = home.write("endless.wasm", &module("(loop br 0)"));
    assert_eq!(code(&[&endless, "--run-time", "50"]), 15);
    assert_eq!(code(&["--run-time=50", &endless]), 15);
    assert_eq!(code(&[&endless, "--limited-fuel", "1000"]), 1);
    assert_eq!(code(&["nowhere.wasm"]), 255);
    assert_eq!(code(&[&endless, "--no-such-flag"]), 255);
    assert_eq!(code(&[]), 255);
}

#[test]
fn runtime_command_accepts_the_command_line_of_bls_runtime() {
    let home = Home::new().with("BLS_LIST_VARS", "COLOR;SIZE").with("COLOR", "blue");
    let hello = demo("hello.wasm");
    let run = ["runtime", &hello, "--fs-root-path", ".", "--", "--help", "two", "--", "-x"];
    let output = home.run_with(&run, b"rows\n");
    let want = "Hello from WebAssembly\nargument 1: --help\nargument 2: two\nargument 3: --\n\
        argument 4: -x\nenvironment: COLOR=blue\n";
    assert!(output.code == 0 && output.out.starts_with(want), "{output:?}");
    let help = home.run(&["runtime", "--help"]);
    assert!(help.code == 0 && help.out.contains("--limited-fuel <N>"), "{help:?}");
}

#[test]
fn triptych_called_bls_runtime_behaves_like_bls_runtime() {
    let home = Home::new();
    let link = PathBuf::from(home.path("bls-runtime"));
    std::os::unix::fs::symlink(TRIPTYCH, &link).unwrap();
    let path = ends_with(&home, 7);
    assert_eq!(home.with_program(link).run(&[&path]).code, 7);
}
