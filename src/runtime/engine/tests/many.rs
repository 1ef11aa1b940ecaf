//! Many guests: side by side, in turn, and given up on.

use tokio::{task::JoinSet, time::timeout};

use super::*;

/// An hour, which no test waits for.
const HOUR: Limits = Limits { wall: Duration::from_hours(1), ..LIMITS };

/// Longer than any run here takes on a busy machine.
const SOON: Duration = Duration::from_mins(1);

#[tokio::test]
async fn guests_that_wait_for_a_place_all_get_one() {
    let (runtime, hello) = (runtime(2), demo("hello"));
    let mut runs = JoinSet::new();
    for run_idx in 0..12 {
        let (runtime, hello) = (runtime.clone(), hello.clone());
        let run = Run { arguments: vec![format!("run {run_idx}")], ..bare(LIMITS) };
        runs.spawn(async move { (run_idx, runtime.execute(&hello, run).await.unwrap()) });
    }
    for (run_idx, finished) in runs.join_all().await {
        let want = format!("Hello from WebAssembly\nargument 1: run {run_idx}\n");
        assert_eq!(text(&finished.stdout), want);
    }
    assert_eq!(runtime.0.places.available_permits(), 2);
}

#[tokio::test]
async fn memory_of_one_guest_is_not_seen_by_the_next() {
    // Leaves with what it finds at an address, after it wrote there.
    let program = command(
        "(local $found i32) (local.set $found (i32.load8_u (i32.const 5000)))
        (i32.store8 (i32.const 5000) (i32.const 77)) (call $exit (local.get $found))",
    );
    let runtime = runtime(1);
    for _ in 0..3 {
        assert_eq!(runtime.execute(&program, bare(LIMITS)).await.unwrap().exit_code, 0);
    }
}

#[tokio::test]
async fn a_guest_nobody_waits_for_gives_its_place_away() {
    let runtime = runtime(1);
    let endless = command("(loop $on (br $on))");
    let abandoned =
        timeout(Duration::from_millis(200), runtime.execute(&endless, bare(HOUR))).await;
    assert!(abandoned.is_err());
    let hello = timeout(SOON, runtime.execute(&demo("hello"), bare(LIMITS))).await;
    assert_eq!(hello.unwrap().unwrap().exit_code, 0);
}

#[tokio::test]
async fn a_guest_that_computes_does_not_hold_up_another() {
    let runtime = runtime(2);
    let endless = command("(loop $on (br $on))");
    let hello = async { runtime.execute(&demo("hello"), bare(LIMITS)).await.unwrap() };
    let first = tokio::select! {
        _ = runtime.execute(&endless, bare(HOUR)) => panic!("the endless guest ended"),
        finished = hello => finished,
    };
    assert_eq!(first.exit_code, 0);
}

#[tokio::test]
async fn a_program_stays_compiled() {
    let (runtime, hello) = (runtime(1), demo("hello"));
    runtime.execute(&hello, bare(LIMITS)).await.unwrap();
    let never = || Err(ProgramError::NoStart);
    assert!(runtime.0.programs.get_or_make(hello.key(), never, n_code_bytes).is_ok());
}

#[tokio::test]
async fn a_runtime_that_is_dropped_ends_its_thread() {
    let runtime = runtime(1);
    let shared = Arc::downgrade(&runtime.0);
    runtime.execute(&demo("whoami"), bare(LIMITS)).await.unwrap();
    drop(runtime);
    assert!(shared.upgrade().is_none());
}
