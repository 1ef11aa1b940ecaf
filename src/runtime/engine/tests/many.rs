//! Many guests: concurrent, waiting, and abandoned.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::*;

/// Limits with a time limit that no test waits for.
const HOUR: Limits = Limits { wall: Duration::from_hours(1), ..LIMITS };

/// Longer than any run takes on a busy machine.
const SOON: Duration = Duration::from_mins(1);

#[tokio::test]
async fn all_waiting_guests_are_executed() {
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
async fn guest_does_not_see_the_memory_of_the_previous_guest() {
    // Writes to an address and exits with the value that the address had before.
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
async fn abandoned_guest_frees_its_slot() {
    let runtime = runtime(1);
    let endless = command("(loop $on (br $on))");
    let abandoned =
        timeout(Duration::from_millis(200), runtime.execute(&endless, bare(HOUR))).await;
    assert!(abandoned.is_err());
    let next = timeout(SOON, runtime.execute(&command(""), bare(LIMITS))).await;
    assert_eq!(next.unwrap().unwrap().exit_code, 0);
}

#[tokio::test]
async fn busy_guest_does_not_block_other_guests() {
    let runtime = runtime(2);
    let endless = command("(loop $on (br $on))");
    let short = async { runtime.execute(&command(""), bare(LIMITS)).await.unwrap() };
    let first = tokio::select! {
        _ = runtime.execute(&endless, bare(HOUR)) => panic!("the endless guest ended"),
        finished = short => finished,
    };
    assert_eq!(first.exit_code, 0);
}

#[tokio::test]
async fn guest_that_is_usually_short_runs_on_the_thread_of_its_caller() {
    // With this limit, every run counts as short. A run might still take longer than a tick and move to
    // another thread, so up to a hundred runs are tried.
    let options = RuntimeOptions { short_cpu: SOON, ..options(1) };
    let (runtime, nothing) = (Runtime::new(options).unwrap(), command(""));
    let is_at_once = async || {
        runtime.execute(&nothing, bare(LIMITS)).await.unwrap();
        assert!(runtime.0.short(&nothing, &bare(LIMITS)).is_some());
        let mut next = pin!(runtime.execute(&nothing, bare(LIMITS)));
        poll_fn(|context| Poll::Ready(next.as_mut().poll(context).is_ready())).await
    };
    for _ in 0..100 {
        if is_at_once().await {
            return;
        }
    }
    panic!("none of them did");
}

#[tokio::test]
async fn guest_with_short_previous_runs_is_still_stopped_at_its_deadline() {
    // Computes forever if it has one argument, and sleeps for an hour if it has two.
    let program = module(
        r#"(import "wasi_snapshot_preview1" "args_sizes_get"
            (func $count (param i32 i32) (result i32)))
        (memory (export "memory") 1)
        (func (export "_start")
            (drop (call $count (i32.const 200) (i32.const 204)))
            (if (i32.gt_u (i32.load (i32.const 200)) (i32.const 2)) (then
                (i32.store (i32.const 16) (i32.const 1))
                (i64.store (i32.const 24) (i64.const 3600000000000))
                (drop (call $poll (i32.const 0) (i32.const 64) (i32.const 1) (i32.const 128)))))
            (if (i32.gt_u (i32.load (i32.const 200)) (i32.const 1)) (then
                (loop $on (br $on)))))"#,
    );
    let runtime = runtime(1);
    let short = Limits { wall: Duration::from_millis(300), ..LIMITS };
    for arguments in [vec!["computes".to_owned()], vec!["sleeps".to_owned(); 2]] {
        for _ in 0..3 {
            let finished = runtime.execute(&program, bare(LIMITS)).await.unwrap();
            assert_eq!(finished.ended, RunEnd::Exited);
        }
        let long = Run { arguments: arguments.clone(), ..bare(short) };
        let finished = runtime.execute(&program, long).await.unwrap();
        assert_eq!(finished.ended, RunEnd::TimedOut);
        assert!(finished.wall >= short.wall && finished.cpu_user <= finished.wall);
        for _ in 0..3 {
            runtime.execute(&program, bare(LIMITS)).await.unwrap();
        }
        let long = Run { arguments, ..bare(HOUR) };
        let abandoned = timeout(Duration::from_millis(100), runtime.execute(&program, long)).await;
        assert!(abandoned.is_err());
        // The slot of the abandoned guest is free again.
        let next = timeout(SOON, runtime.execute(&program, bare(LIMITS))).await;
        assert_eq!(next.unwrap().unwrap().exit_code, 0);
    }
}

#[tokio::test]
async fn dropping_a_runtime_stops_its_thread() {
    let runtime = runtime(1);
    let shared = Arc::downgrade(&runtime.0);
    runtime.execute(&command(""), bare(LIMITS)).await.unwrap();
    drop(runtime);
    assert!(shared.upgrade().is_none());
}
