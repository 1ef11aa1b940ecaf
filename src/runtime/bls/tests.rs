use std::path::Path;

use super::*;

fn parsed(line: &str) -> Result<Command, clap::Error> {
    Command::try_parse_from(line.split_whitespace())
}

#[test]
fn module_path_is_the_only_required_argument() {
    for line in ["m.wasm", "m.wasm --"] {
        let command = parsed(line).unwrap();
        assert_eq!(
            (command.module.as_path(), command.entry.as_str()),
            (Path::new("m.wasm"), START)
        );
        assert_eq!(command.requested_limits(), RequestedLimits::default());
        assert_eq!(command.arguments, Vec::<String>::new());
    }
}

/// Flags in the order in which b7s passes them.
#[test]
fn command_line_of_b7s_is_parsed() {
    let line = "m.wasm --entry main --run-time 1500 --debug-info --fs-root-path /w/t/1/fs \
        --drivers-root-path /opt/extensions --limited-fuel 9000 --limited-memory 32 \
        --runtime-logger log.txt --permission file://a.go --permission https://x.org/ -- a --b c";
    let command = parsed(line).unwrap();
    assert_eq!(command.entry, "main");
    let asked = RequestedLimits {
        wall: Some(Duration::from_millis(1500)),
        memory_bytes: Some(2 * 1024 * 1024),
        fuel: Some(9000),
    };
    assert_eq!(command.requested_limits(), asked);
    assert_eq!(command.fs_root_path, Some("/w/t/1/fs".into()));
    assert_eq!(command.arguments, ["a", "--b", "c"]);
}

#[test]
fn flag_value_after_equals_sign_and_argument_after_module_are_parsed() {
    let command = parsed("--env=A=1=2 --env B=x --run-time=0 m.wasm one").unwrap();
    let want = [("A", "1=2"), ("B", "x")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(command.env, want);
    assert_eq!(command.requested_limits().wall, None);
    assert_eq!(command.arguments, ["one"]);
}

#[test]
fn directory_of_compiled_modules_is_parsed() {
    let command = parsed("m.wasm --compiled-folder /c/d").unwrap();
    assert_eq!(command.compiled_folder, Some("/c/d".into()));
}

#[test]
fn error_names_the_invalid_argument() {
    for (line, want) in [
        ("", "<MODULE>"),
        ("m.wasm --fast", "'--fast'"),
        ("m.wasm --entry", "'--entry <NAME>'"),
        ("m.wasm --run-time soon", "'soon'"),
        ("m.wasm --env A", "invalid variable \"A\", expected NAME=VALUE"),
    ] {
        let error = parsed(line).unwrap_err().to_string();
        assert!(error.contains(want), "{line}: {error}");
    }
}

#[test]
fn run_of_a_missing_module_exits_with_255() {
    assert_eq!(run(["/nonexistent/m.wasm".to_owned()], CompileIn::ThisProcess), EXIT_OTHER);
    assert_eq!(run(["--fast".to_owned()], CompileIn::ThisProcess), EXIT_OTHER);
}

/// Runs the command line with the module's path as its first word and checks its exit code.
#[track_caller]
fn check_code(module: &str, flags: &str, exit_code: i32) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.wasm");
    fs::write(&path, wat::parse_str(module).unwrap()).unwrap();
    let words = flags.split_whitespace().map(str::to_owned);
    let line = [path.to_str().unwrap().to_owned()].into_iter().chain(words);
    assert_eq!(run(line, CompileIn::ThisProcess), exit_code, "{flags}");
}

#[test]
fn exit_codes_equal_the_exit_codes_of_bls_runtime() {
    let endless = r#"(module (memory 2) (func (export "_start") (loop $on (br $on)))
        (func (export "other")) (func (export "bad") unreachable))"#;
    check_code(endless, "--run-time 100", 15);
    check_code(endless, "--limited-fuel 10000", 1);
    check_code(endless, "--limited-memory 1", 16);
    check_code(endless, "--entry other", 0);
    check_code(endless, "--entry bad", 11);
    check_code(endless, "--entry none", EXIT_OTHER);
    let exits = r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (memory (export "memory") 1) (func (export "_start") (call $exit (i32.const 7))))"#;
    check_code(exits, "--debug-info -- x", 7);
    let http = r#"(module (import "blockless_http" "http_req" (func)) (func (export "_start")))"#;
    check_code(http, "", EXIT_OTHER);
}

#[test]
fn directory_named_by_a_flag_is_used_and_not_removed() {
    let keeps_a_file = r#"(module
        (import "wasi_snapshot_preview1" "path_open"
            (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
        (memory (export "memory") 1) (data (i32.const 0) "a")
        (func (export "_start")
            (if (call $open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 1)
                (i64.const 64) (i64.const 64) (i32.const 0) (i32.const 100)) (then unreachable))))"#;
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("fs");
    check_code(keeps_a_file, &format!("--fs-root-path {}", root.display()), 0);
    assert!(root.join("a").is_file());
    check_code(keeps_a_file, "--fs-root-path /proc/none", EXIT_CONFIG);
    check_code(keeps_a_file, "", 11);
}

#[test]
fn guest_sees_only_listed_variables() {
    let host = [(LIST_VARS, "A;;B;MISSING"), ("A", "1"), ("B", "x;y"), ("HOME", "/root")];
    let variable = |name: &str| {
        host.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    };
    let want = [("A", "1"), ("B", "x;y")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(listed(variable), BTreeMap::from(want));
    assert_eq!(listed(|_| None), BTreeMap::new());
}
