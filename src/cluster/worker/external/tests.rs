use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;

use task::wait::until;
use tempfile::TempDir;
use tokio::time::timeout;
use wire::functions::{ExecuteConfig, RuntimeConfig};

use bytes::Bytes;

use super::*;
use crate::function_call::FunctionCall;

const LIMITS: Limits = Limits {
    wall: Duration::from_secs(20),
    memory_bytes: 16 * 1024 * 1024,
    output_bytes: 64 * 1024,
    fuel: None,
};

/// Time limit of each step. It is generous, since the machine might be busy.
const WITHIN: Duration = Duration::from_secs(20);

/// A shell script as a runtime, with its workspace.
struct Script {
    root: TempDir,
    external: External,
}

/// Returns a runtime with `variables` allowed.
fn allowing(program: &Path, variables: &[&str]) -> ExternalRuntime {
    let variables = variables.iter().map(|&name| name.to_owned()).collect();
    ExternalRuntime { program: program.to_owned(), variables }
}

impl Script {
    fn new(body: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let program = root.path().join("bls-runtime");
        fs::write(&program, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        let external =
            External::new(allowing(&program, &["A", "B"]), &root.path().join("work")).unwrap();
        Self { root, external }
    }

    fn workspace(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap().join("work")
    }

    /// Waits until no execution has a directory.
    async fn check_clean(&self) {
        let places = self.workspace().join("t");
        let look = || {
            let n_left = fs::read_dir(&places).map_or(0, Iterator::count);
            async move { if n_left == 0 { Ok(()) } else { Err(n_left) } }
        };
        until(WITHIN, look).await.unwrap();
    }

    /// Waits until the process with the id in `file` has exited.
    async fn check_gone(&self, file: &str) {
        let path = self.root.path().join(file);
        let look = || {
            let number = fs::read_to_string(&path).unwrap_or_default();
            let stat = format!("/proc/{}/stat", number.trim());
            // A zombie is no longer running.
            let state = fs::read_to_string(stat).unwrap_or_default();
            let is_gone = !number.trim().is_empty() && (state.is_empty() || state.contains(") Z "));
            async move { if is_gone { Ok(()) } else { Err(state) } }
        };
        until(WITHIN, look).await.unwrap();
    }
}

fn call() -> FunctionCall {
    FunctionCall::new("m.wasm".parse().unwrap(), Vec::new(), &ExecuteConfig::default())
}

fn run(limits: Limits) -> ExternalRun {
    with(call(), limits)
}

fn with(call: FunctionCall, limits: Limits) -> ExternalRun {
    ExternalRun {
        request_id: "0a1b".to_owned(),
        function: FunctionId::from_module(b"module"),
        content: Bytes::from_static(b"module"),
        function_dir: None,
        call,
        limits,
    }
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}

async fn finished(script: &Script, run: ExternalRun) -> RunOutcome {
    let finished = timeout(WITHIN, script.external.run(run)).await.unwrap().unwrap();
    script.check_clean().await;
    finished
}

#[tokio::test]
async fn external_runtime_gets_the_arguments_that_b7s_passes() {
    let script = Script::new("for word in \"$@\"; do echo \"$word\"; done; cat \"$1\"");
    let runtime = RuntimeConfig {
        entry: "main".to_owned(),
        debug_info: true,
        run_time_ms: 2000,
        ..RuntimeConfig::default()
    };
    let call = FunctionCall {
        permissions: vec!["file://a.go".to_owned(), "https://x.org/".to_owned()],
        arguments: ["a", "--b", "c d"].map(str::to_owned).to_vec(),
        runtime,
        ..call()
    };
    let limits = Limits { wall: Duration::from_secs(2), fuel: Some(900), ..LIMITS };
    let finished = finished(&script, with(call, limits)).await;
    let (workspace, id) = (script.workspace(), FunctionId::from_module(b"module"));
    let (workspace, root) = (workspace.display(), workspace.parent().unwrap().display());
    let want = format!(
        "{workspace}/{id}/m.wasm\n--entry\nmain\n--run-time\n2000\n--debug-info\n\
        --fs-root-path\n{workspace}/t/0a1b/fs\n--drivers-root-path\n{root}/extensions\n\
        --limited-fuel\n900\n--limited-memory\n256\n--permission\nfile://a.go\n\
        --permission\nhttps://x.org/\n--\na\n--b\nc d\nmodule"
    );
    assert_eq!(text(&finished.stdout), want);
    assert_eq!((finished.exit_code, finished.ended), (0, RunEnd::Exited));
}

#[tokio::test]
async fn runtime_is_started_through_its_symbolic_link() {
    let mut script = Script::new("echo \"$0\"");
    let link = script.root.path().join("called-so");
    std::os::unix::fs::symlink("bls-runtime", &link).unwrap();
    script.external =
        External::new(allowing(&link, &[]), &script.root.path().join("work")).unwrap();
    let finished = finished(&script, run(LIMITS)).await;
    assert_eq!(text(&finished.stdout).trim_end(), link.display().to_string());
}

#[test]
fn runtime_that_is_missing_or_not_executable_is_rejected_at_start() {
    let root = tempfile::tempdir().unwrap();
    let program = root.path().join("bls-runtime");
    fs::write(&program, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o600)).unwrap();
    let refused = |program: &Path| {
        let work = root.path().join("work");
        External::new(allowing(program, &[]), &work).unwrap_err().to_string()
    };
    assert_eq!(refused(&program), "the file is not executable");
    refused(&root.path().join("none"));
    refused(root.path());
}

/// Prints its directory, its environment and the content of the directory.
const PRINT_ALL: &str = "pwd; env | sort | grep -v -e ^PWD= -e ^_= -e ^SHLVL=; ls";

fn two_variables() -> BTreeMap<String, String> {
    [("A", "1"), ("B", "x y")].map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

#[tokio::test]
async fn environment_of_the_runtime_is_fixed_except_for_requested_variables() {
    let script = Script::new(PRINT_ALL);
    let call = FunctionCall { environment: two_variables(), ..call() };
    let finished = finished(&script, with(call, LIMITS)).await;
    let want = format!(
        "{}/t/0a1b\nA=1\nB=x y\nBLS_LIST_VARS=A;B\nLANG=C.UTF-8\n\
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nfs\n",
        script.workspace().display()
    );
    assert_eq!(text(&finished.stdout), want);
}

#[tokio::test]
async fn variable_that_is_not_allowed_is_rejected_before_the_program_starts() {
    let script = Script::new("echo ran >\"${0%/*}/ran\"");
    for name in ["LD_PRELOAD", "BASH_ENV", "XDG_CACHE_HOME", "BLS_LIST_VARS", "", "A=B", "A;B"] {
        let environment = [(name.to_owned(), "x".to_owned())].into();
        let run = with(FunctionCall { environment, ..call() }, LIMITS);
        let error = script.external.run(run).await.unwrap_err();
        assert!(matches!(error, ExternalError::Variable(_)), "{name}: {error:?}");
    }
    script.check_clean().await;
    assert!(!script.root.path().join("ran").exists());
}

#[tokio::test]
async fn runtime_reads_standard_input_and_returns_its_exit_code() {
    let long = "x".repeat(1024 * 1024);
    for (script, stdin, want) in [
        ("cat; echo oops >&2; exit 14", Some("one\ntwo"), ("one\ntwo", "oops\n", 14)),
        // The input is not read.
        ("exit 3", Some(long.as_str()), ("", "", 3)),
        ("cat; kill -9 $$", None, ("", "", 137)),
    ] {
        let call = FunctionCall { stdin: stdin.map(str::to_owned), ..call() };
        let finished = finished(&Script::new(script), with(call, LIMITS)).await;
        let got = (text(&finished.stdout), text(&finished.stderr), finished.exit_code);
        assert_eq!((got, finished.ended), (want, RunEnd::Exited), "{script}");
    }
}

#[tokio::test]
async fn usage_of_the_process_is_reported() {
    let script = Script::new("i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done");
    let finished = finished(&script, run(LIMITS)).await;
    assert!(finished.cpu_user > Duration::ZERO && finished.wall >= finished.cpu_user / 2);
    assert!(finished.memory_peak_bytes > 100 * 1024);
}

#[tokio::test]
async fn runtime_is_killed_with_its_children_at_its_deadline() {
    let script = Script::new("sleep 1000 & echo $! > \"${0%/*}/child\"; echo early; sleep 1000");
    let limits = Limits { wall: Duration::from_millis(500), ..LIMITS };
    let finished = finished(&script, run(limits)).await;
    assert_eq!((finished.exit_code, finished.ended), (15, RunEnd::TimedOut));
    assert_eq!(text(&finished.stdout), "early\n");
    assert_eq!(text(&finished.stderr), "runtime: time limit of 500ms reached\n");
    script.check_gone("child").await;
}

#[tokio::test]
async fn runtime_that_closes_its_output_still_has_a_deadline() {
    let script = Script::new("exec >/dev/null 2>&1; sleep 1000");
    let limits = Limits { wall: Duration::from_millis(300), ..LIMITS };
    assert_eq!(finished(&script, run(limits)).await.ended, RunEnd::TimedOut);
}

#[tokio::test]
async fn output_is_truncated_at_the_limit() {
    for (script, n_out) in
        [("while :; do echo flood; done", 1000), ("while :; do echo flood; done >&2", 0)]
    {
        let limits = Limits { output_bytes: 1000, ..LIMITS };
        let finished = finished(&Script::new(script), run(limits)).await;
        assert_eq!((finished.exit_code, finished.ended), (255, RunEnd::OutputFull));
        assert_eq!(finished.stdout.len(), n_out);
        let stderr = text(&finished.stderr);
        assert!(stderr.ends_with("runtime: output limit of 1000 bytes reached\n"), "{stderr}");
    }
}

#[tokio::test]
async fn child_processes_of_a_run_are_killed() {
    let script = Script::new("sleep 1000 & echo $! > \"${0%/*}/child\"; echo done");
    let finished = finished(&script, run(LIMITS)).await;
    assert_eq!((text(&finished.stdout), finished.exit_code), ("done\n", 0));
    assert!(finished.wall < WITHIN);
    script.check_gone("child").await;
}

#[tokio::test]
async fn run_is_killed_when_its_future_is_dropped() {
    let script = Script::new("echo $$ > \"${0%/*}/self\"; sleep 1000");
    let path = script.root.path().join("self");
    tokio::select! {
        outcome = script.external.run(run(LIMITS)) => panic!("the run completed: {outcome:?}"),
        seen = until(WITHIN, || {
            let is_there = fs::read_to_string(&path).is_ok_and(|number| number.ends_with('\n'));
            async move { if is_there { Ok(()) } else { Err("no process") } }
        }) => seen.unwrap(),
    }
    script.check_gone("self").await;
    script.check_clean().await;
}

#[tokio::test]
async fn runs_of_one_request_have_separate_directories() {
    let both_run = "until [ $(ls \"${0%/*}\" | grep -c ^run-) = 2 ]; do sleep 0.01; done";
    let script =
        Script::new(&format!("pwd; touch fs/mine; ls fs; touch \"${{0%/*}}/run-$$\"; {both_run}"));
    let runs = [run(LIMITS), run(LIMITS)].map(|run| script.external.run(run));
    let [first, second] = runs;
    let (first, second) = tokio::join!(first, second);
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_ne!(first.stdout, second.stdout);
    script.check_clean().await;
}
