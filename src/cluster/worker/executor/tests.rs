use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::SystemTime;

use content::{NameHints, Upload};
use tempfile::TempDir;
use wire::functions::{ExecuteConfig, RuntimeConfig};

use super::*;
use crate::identity::Identity;
use crate::worker::LIMITS_DEFAULT;

/// Never returns.
const ENDLESS: &str = r#"(module (memory (export "memory") 2)
    (func (export "_start") (loop $on (br $on)))
    (func (export "other")))"#;

/// Module that creates the file "a" in its directory or traps.
const KEEPS_A_FILE: &str = r#"(module
    (import "wasi_snapshot_preview1" "path_open"
        (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
    (memory (export "memory") 1) (data (i32.const 0) "a")
    (func (export "_start")
        (if (call $open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 1)
            (i64.const 64) (i64.const 64) (i32.const 0) (i32.const 100)) (then unreachable))))"#;

/// An executor, its function and their directory.
struct Bench {
    root: TempDir,
    executor: Executor,
    function: Function,
}

impl Bench {
    async fn new(
        wat: &str,
        limits: Limits,
        options: impl FnOnce(&Path) -> ExecutionOptions,
    ) -> Self {
        let root = tempfile::tempdir().unwrap();
        Self::within(root, wat, limits, options).await
    }

    async fn within(
        root: TempDir,
        wat: &str,
        limits: Limits,
        options: impl FnOnce(&Path) -> ExecutionOptions,
    ) -> Self {
        let functions = Functions::open(root.path().join("functions")).await.unwrap();
        let module = wat::parse_str(wat).unwrap();
        let function = functions.add("f.wasm".parse().unwrap(), module).await.unwrap();
        let executor =
            Executor::new(functions, NonZeroU32::MIN, limits, options(root.path())).unwrap();
        Self { root, executor, function }
    }

    fn call(settings: RuntimeConfig) -> FunctionCall {
        let config = ExecuteConfig { runtime: Some(settings), ..ExecuteConfig::default() };
        FunctionCall::new("f.wasm".parse().unwrap(), Vec::new(), &config)
    }

    async fn run(&self, settings: RuntimeConfig) -> Result<NodeResult, ExecutorError> {
        let call = Self::call(settings);
        let identity = Identity::random();
        let (function, peer_id) = (&self.function, identity.peer_id());
        let result = self.executor.run(function, call, "0a1b", Arc::default(), peer_id).await?;
        Ok(result.unwrap())
    }
}

fn nothing(_root: &Path) -> ExecutionOptions {
    ExecutionOptions::default()
}

fn external(program: impl Into<PathBuf>) -> ExternalRuntime {
    ExternalRuntime { program: program.into(), variables: BTreeSet::new() }
}

fn workspace(root: &Path) -> ExecutionOptions {
    ExecutionOptions { workspace: Some(root.join("work")), ..ExecutionOptions::default() }
}

#[tokio::test]
async fn request_can_lower_but_not_raise_the_limits_of_the_node() {
    let usual = RuntimeConfig::default;
    let short = Limits { wall: Duration::from_millis(200), ..LIMITS_DEFAULT };
    let fueled = Limits { fuel: Some(10_000), ..LIMITS_DEFAULT };
    let small = Limits { memory_bytes: 64 * 1024, ..LIMITS_DEFAULT };
    for (limits, asked, exit_code) in [
        (LIMITS_DEFAULT, RuntimeConfig { run_time_ms: 200, ..usual() }, 15),
        (LIMITS_DEFAULT, RuntimeConfig { limited_fuel: 10_000, ..usual() }, 1),
        (LIMITS_DEFAULT, RuntimeConfig { limited_memory_pages: 1, ..usual() }, 16),
        (LIMITS_DEFAULT, RuntimeConfig { entry: "other".to_owned(), ..usual() }, 0),
        (short, RuntimeConfig { run_time_ms: 3_600_000, ..usual() }, 15),
        (fueled, RuntimeConfig { limited_fuel: u64::MAX, ..usual() }, 1),
        (small, RuntimeConfig { limited_memory_pages: u64::MAX, ..usual() }, 16),
    ] {
        let bench = Bench::new(ENDLESS, limits, nothing).await;
        let result = bench.run(asked).await.unwrap().result;
        assert_eq!(result.exit_code, exit_code, "{}", result.stderr);
    }
}

#[tokio::test]
async fn code_compiled_ahead_is_used_by_runs_with_and_without_a_fuel_limit() {
    for fuel in [None, Some(10_000)] {
        let bench = Bench::new(ENDLESS, Limits { fuel, ..LIMITS_DEFAULT }, nothing).await;
        let function = &bench.function;
        let call = Bench::call(RuntimeConfig::default());
        assert!(!bench.executor.is_compiled(function, &call).await.unwrap());
        assert!(bench.executor.compile_ahead(function, &Arc::default()).await.unwrap());
        assert!(bench.executor.is_compiled(function, &call).await.unwrap(), "{fuel:?}");
    }
}

#[tokio::test]
async fn run_result_contains_time_and_memory_usage() {
    let limits = Limits { wall: Duration::from_millis(300), ..LIMITS_DEFAULT };
    let bench = Bench::new(ENDLESS, limits, nothing).await;
    let usage = bench.run(RuntimeConfig::default()).await.unwrap().usage;
    assert!(usage.wall_clock_ns >= 300_000_000 && usage.cpu_user_ns > 0, "{usage:?}");
    assert_eq!(usage.memory_max_kib, 128);
}

#[tokio::test]
async fn execution_directory_exists_only_during_the_execution() {
    let bench = Bench::new(KEEPS_A_FILE, LIMITS_DEFAULT, workspace).await;
    for _ in 0..2 {
        let result = bench.run(RuntimeConfig::default()).await.unwrap().result;
        assert_eq!((result.stderr.as_str(), result.exit_code), ("", 0));
        assert_eq!(fs::read_dir(bench.root.path().join("work/t")).unwrap().count(), 0);
    }
    let bench = Bench::new(KEEPS_A_FILE, LIMITS_DEFAULT, nothing).await;
    assert_eq!(bench.run(RuntimeConfig::default()).await.unwrap().result.exit_code, 11);
}

#[tokio::test]
async fn directory_that_was_evicted_before_a_run_does_not_run_without_its_files() {
    let mut bench = Bench::new(KEEPS_A_FILE, LIMITS_DEFAULT, workspace).await;
    let path = bench.root.path().join("folder");
    fs::create_dir_all(&path).unwrap();
    fs::write(path.join("f.wasm"), wat::parse_str(KEEPS_A_FILE).unwrap()).unwrap();
    let Upload { car, .. } = Functions::pack_path(&path).await.unwrap();
    let functions = bench.executor.functions.clone();
    bench.function = functions.add_car(NameHints::default(), car).await.unwrap();
    bench.run(RuntimeConfig::default()).await.unwrap();
    functions.remove(bench.function.id).await.unwrap();
    fs::remove_dir_all(bench.root.path().join("work/f")).unwrap();
    let (call, identity) = (Bench::call(RuntimeConfig::default()), Identity::random());
    let run = bench.executor.run(&bench.function, call, "0a1b", Arc::default(), identity.peer_id());
    assert!(run.await.unwrap().is_none());
}

#[tokio::test]
async fn directories_of_an_earlier_process_are_removed_at_start() {
    let root = tempfile::tempdir().unwrap();
    let left = root.path().join("work/t/0190a1b2-0000-4000-8000-000000000007-3/fs");
    fs::create_dir_all(&left).unwrap();
    let bench = Bench::within(root, KEEPS_A_FILE, LIMITS_DEFAULT, workspace).await;
    assert!(!left.exists());
    assert_eq!(bench.run(RuntimeConfig::default()).await.unwrap().result.exit_code, 0);
}

#[tokio::test]
async fn nodes_share_compiled_functions() {
    let options = |root: &Path| ExecutionOptions {
        compiled_folder: Some(root.join("compiled")),
        ..ExecutionOptions::default()
    };
    let root = tempfile::tempdir().unwrap();
    let first = Bench::within(root, KEEPS_A_FILE, LIMITS_DEFAULT, options).await;
    first.run(RuntimeConfig::default()).await.unwrap();
    let mut entries = fs::read_dir(first.root.path().join("compiled/code")).unwrap();
    let path = entries.next().unwrap().unwrap().path();
    let entry = fs::File::options().write(true).open(path).unwrap();
    entry.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    let second = Bench::within(first.root, KEEPS_A_FILE, LIMITS_DEFAULT, options).await;
    second.run(RuntimeConfig::default()).await.unwrap();
    // The modification time of an entry is the time of its last use. A new entry would be another file.
    assert!(entry.metadata().unwrap().modified().unwrap() > SystemTime::UNIX_EPOCH);
}

#[tokio::test]
async fn functions_are_executed_by_the_external_runtime() {
    let options = |root: &Path| {
        let program = root.join("bls-runtime");
        fs::write(&program, "#!/bin/sh\necho \"$PEER_ID\"; echo \"$2 $3\"; exit 7\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        ExecutionOptions { external: Some(external(program)), ..workspace(root) }
    };
    let bench = Bench::new(ENDLESS, LIMITS_DEFAULT, options).await;
    let settings = RuntimeConfig { entry: "other".to_owned(), ..RuntimeConfig::default() };
    let result = bench.run(settings).await.unwrap();
    let mut lines = result.result.stdout.lines();
    assert!(lines.next().unwrap().starts_with("12D3KooW"));
    assert_eq!(lines.next(), Some("--entry other"));
    assert_eq!((result.code, result.result.exit_code), (Code::ERROR, 7));
    assert!(result.usage.wall_clock_ns > 0 && result.usage.memory_max_kib > 0);
}

#[tokio::test]
async fn functions_run_in_this_process_if_its_program_is_the_external_runtime() {
    let options = |root: &Path| {
        let program = std::env::current_exe().unwrap();
        ExecutionOptions { external: Some(external(program)), ..workspace(root) }
    };
    let bench = Bench::new(ENDLESS, LIMITS_DEFAULT, options).await;
    let settings = RuntimeConfig { entry: "other".to_owned(), ..RuntimeConfig::default() };
    assert_eq!(bench.run(settings).await.unwrap().result.exit_code, 0);
}

#[tokio::test]
async fn external_runtime_without_a_program_or_workspace_is_rejected() {
    let root = tempfile::tempdir().unwrap();
    let functions = Functions::open(root.path().join("functions")).await.unwrap();
    for options in [
        ExecutionOptions { external: Some(external("/nonexistent")), ..workspace(root.path()) },
        ExecutionOptions { external: Some(external("/bin/sh")), ..ExecutionOptions::default() },
    ] {
        let outcome = Executor::new(functions.clone(), NonZeroU32::MIN, LIMITS_DEFAULT, options);
        assert!(matches!(outcome, Err(WorkerError::External { .. })));
    }
}
