//! Preview 2 components: commands of the other tests, wrapped by the adapter that compilers use.

use super::*;

/// Limits that suffice for the adapter, but not for a guest that allocates all it can.
const TIGHT: Limits =
    Limits { wall: Duration::from_secs(5), memory_bytes: 8 * 65536, output_bytes: 100, fuel: None };

/// Runs a command as a component. Checks its exit code and its outcome.
async fn check(command: &Program, limits: Limits, (ended, exit_code): (RunEnd, i32)) -> RunOutcome {
    let finished = caching_runtime(1).execute(&component(command), bare(limits)).await.unwrap();
    let told = text(&finished.stderr);
    assert_eq!((finished.ended, finished.exit_code), (ended, exit_code), "{told}");
    finished
}

#[tokio::test]
async fn component_and_command_of_one_program_have_the_same_outcome() {
    let runtime = caching_runtime(1);
    let run = Run {
        arguments: vec!["x".to_owned(), "y z".to_owned()],
        environment: [("ZONE".to_owned(), "b".to_owned())].into(),
        stdin: b"one\ntwo".to_vec(),
        ..bare(LIMITS)
    };
    for (name, exit_code) in [("hello", 0), ("whoami", 1)] {
        let command = demo(name);
        let plain = runtime.execute(&command, run.clone()).await.unwrap();
        let component = runtime.execute(&component(&command), run.clone()).await.unwrap();
        assert_eq!(text(&component.stdout), text(&plain.stdout), "{name}");
        assert_eq!(text(&component.stderr), text(&plain.stderr), "{name}");
        assert_eq!((component.exit_code, component.ended), (exit_code, RunEnd::Exited), "{name}");
    }
}

#[tokio::test]
async fn failed_component_exits_with_code_1() {
    check(&command("(call $exit (i32.const 0))"), LIMITS, (RunEnd::Exited, 0)).await;
    check(&command("(call $exit (i32.const 9))"), LIMITS, (RunEnd::Exited, 1)).await;
}

#[tokio::test]
async fn endless_component_is_stopped_at_its_deadline_or_without_fuel() {
    let endless = command("(loop $on (br $on))");
    let limits = Limits { wall: Duration::from_millis(300), ..TIGHT };
    check(&endless, limits, (RunEnd::TimedOut, 15)).await;
    let limits = Limits { fuel: Some(100_000), ..TIGHT };
    check(&endless, limits, (RunEnd::OutOfFuel, 1)).await;
}

#[tokio::test]
async fn component_is_denied_memory_like_a_command() {
    let bomb = command(
        "(loop $more (br_if $more (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
        unreachable",
    );
    let finished = check(&bomb, TIGHT, (RunEnd::OutOfMemory, 16)).await;
    assert_eq!(finished.memory_peak_bytes, TIGHT.memory_bytes);
}

#[tokio::test]
async fn output_of_a_component_is_truncated_and_its_traps_are_reported() {
    let flood = command(
        "(i32.store (i32.const 4) (i32.const 7)) (loop $on
        (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))
        (br $on))",
    );
    let finished = check(&flood, TIGHT, (RunEnd::OutputFull, 255)).await;
    assert_eq!(finished.stdout.len(), TIGHT.output_bytes);
    let divides = command("(drop (i32.div_s (i32.const 1) (i32.const 0)))");
    check(&divides, TIGHT, (RunEnd::Trapped(Some(Trap::IntegerDivisionByZero)), 9)).await;
    let recursion = module(
        r#"(memory (export "memory") 1)
        (func $deeper (param i32) (result i32)
            (i32.add (call $deeper (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))
        (func (export "_start") (drop (call $deeper (i32.const 0))))"#,
    );
    check(&recursion, TIGHT, (RunEnd::Trapped(Some(Trap::StackOverflow)), 2)).await;
}

#[tokio::test]
async fn memory_limit_applies_to_all_memories_of_a_component_together() {
    // Three pages for each memory, with a limit of four pages in total.
    let wat = r#"(component
        (core module $m (memory 3))
        (core instance (instantiate $m))
        (core instance (instantiate $m))
        (core module $run (func (export "run") (result i32) i32.const 0))
        (core instance $run (instantiate $run))
        (func $lifted (result (result)) (canon lift (core func $run "run")))
        (instance $cli (export "run" (func $lifted)))
        (export "wasi:cli/run@0.2.0" (instance $cli)))"#;
    let program = Program::new(wat::parse_str(wat).unwrap());
    let limits = Limits { memory_bytes: 4 * 65536, ..LIMITS };
    let finished = runtime(1).execute(&program, bare(limits)).await.unwrap();
    assert_eq!((finished.ended, finished.exit_code), (RunEnd::OutOfMemory, 16));
    let finished = runtime(1).execute(&program, bare(LIMITS)).await.unwrap();
    assert_eq!((finished.ended, finished.exit_code), (RunEnd::Exited, 0));
}

#[tokio::test]
async fn component_with_an_unsupported_import_is_rejected() {
    let wat = r#"(component
        (import "wasi:http/outgoing-handler@0.2.0" (instance (export "handle" (func)))))"#;
    let program = Program::new(wat::parse_str(wat).unwrap());
    let error = runtime(1).execute(&program, bare(LIMITS)).await.unwrap_err();
    let RunError::Program(error @ ProgramError::Import { .. }) = error else {
        panic!("{error:?}");
    };
    let source = StdError::source(&error).unwrap().to_string();
    assert!(source.contains("wasi:http/outgoing-handler@0.2.0"), "{source}");
}

#[tokio::test]
async fn component_without_a_run_export_is_rejected() {
    let program = Program::new(wat::parse_str("(component)").unwrap());
    let error = runtime(1).execute(&program, bare(LIMITS)).await.unwrap_err();
    assert!(matches!(error, RunError::Program(ProgramError::Import { .. })), "{error:?}");
}
