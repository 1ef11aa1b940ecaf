//! Hostile guests and guests that behave like them.

use super::*;

/// Low limits, so that tests reach them quickly.
const TIGHT: Limits = Limits {
    wall: Duration::from_millis(300),
    memory_bytes: 4 * 65536,
    output_bytes: 100,
    fuel: None,
};

/// WASI error number for a descriptor that is not open or of the wrong kind.
const BAD_DESCRIPTOR: i32 = 8;

/// Grows the memory page by page until growth is denied, then executes the instructions that follow.
const BOMB: &str = "(loop $more (br_if $more (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))";

async fn finished(program: &Program, limits: Limits) -> RunOutcome {
    runtime(1).execute(program, bare(limits)).await.unwrap()
}

async fn refused(program: &Program) -> ProgramError {
    match runtime(1).execute(program, bare(TIGHT)).await {
        Err(RunError::Program(error)) => error,
        other => panic!("ran: {other:?}"),
    }
}

/// Runs a command with `body` as the body of `_start` and checks its outcome.
async fn check(body: &str, ended: RunEnd, exit_code: i32, stderr: &str) {
    let finished = finished(&command(body), LIMITS).await;
    assert_eq!((finished.ended, finished.exit_code), (ended, exit_code), "{body}");
    assert_eq!(text(&finished.stderr), stderr, "{body}");
}

async fn check_trap(fields: &str, trap: Trap, exit_code: i32) {
    let finished = finished(&module(fields), LIMITS).await;
    assert_eq!((finished.ended, finished.exit_code), (RunEnd::Trapped(Some(trap)), exit_code));
    assert_eq!(text(&finished.stderr), finished.ended.reason(&LIMITS).unwrap());
}

#[tokio::test]
async fn guest_at_a_limit_ends_with_an_exit_code_and_a_message() {
    const OUT_OF_MEMORY: &str = "runtime: memory limit of 262144 bytes reached\n";
    let endless = "(loop $on (br $on))";
    let fueled = Limits { fuel: Some(100_000), ..LIMITS };
    // A guest that handles denied growth can exit with its own code, or continue.
    let fails = format!("{BOMB} unreachable");
    let exits = format!("{BOMB} (call $exit (i32.const 9))");
    for (body, limits, ended, exit_code, stderr) in [
        (endless, TIGHT, RunEnd::TimedOut, 15, "runtime: time limit of 300ms reached\n"),
        (endless, fueled, RunEnd::OutOfFuel, 1, "runtime: fuel limit of 100000 reached\n"),
        (fails.as_str(), TIGHT, RunEnd::OutOfMemory, 16, OUT_OF_MEMORY),
        (exits.as_str(), TIGHT, RunEnd::OutOfMemory, 9, OUT_OF_MEMORY),
        (BOMB, TIGHT, RunEnd::Exited, 0, ""),
    ] {
        let finished = finished(&command(body), limits).await;
        assert_eq!((finished.ended, finished.exit_code), (ended, exit_code), "{body}");
        assert_eq!(text(&finished.stderr), stderr, "{body}");
        assert!(ended != RunEnd::TimedOut || finished.wall >= limits.wall);
        assert!(!body.starts_with(BOMB) || finished.memory_peak_bytes == limits.memory_bytes);
    }
}

/// The clock of the caller is paused, but the clock of the guest is not.
#[tokio::test(start_paused = true)]
async fn long_sleep_is_stopped_at_the_deadline() {
    // A subscription of 48 bytes: its tag at 8 (0, a clock), the clock at 16 (1, monotonic), nanoseconds
    // at 24, and flags at 40 (0, relative).
    let sleep = "(i32.store (i32.const 16) (i32.const 1))
        (i64.store (i32.const 24) (i64.const 3600000000000))
        (drop (call $poll (i32.const 0) (i32.const 64) (i32.const 1) (i32.const 128)))";
    let finished = finished(&command(sleep), TIGHT).await;
    assert_eq!((finished.ended, finished.exit_code), (RunEnd::TimedOut, 15));
}

#[tokio::test]
async fn sufficient_fuel_does_not_change_the_result() {
    let limits = Limits { fuel: Some(100_000_000), ..LIMITS };
    let runtime = runtime(1);
    let with = runtime.execute(&demo("hello"), bare(limits)).await.unwrap();
    let without = runtime.execute(&demo("hello"), bare(LIMITS)).await.unwrap();
    assert_eq!((with.stdout, with.exit_code), (without.stdout, without.exit_code));
}

#[tokio::test]
async fn growth_of_wasm_tables_is_limited() {
    // Grows each of four tables until growth is denied and reports the size of the last table.
    let grow = |table| {
        format!(
            "(loop $more (br_if $more (i32.ne
                (table.grow {table} (ref.null func) (i32.const 1000)) (i32.const -1))))"
        )
    };
    let body: String = ["$a", "$b"].map(grow).concat();
    let program = module(&format!(
        "(table $a 0 funcref) (table $b 0 funcref) (memory (export \"memory\") 1)
        (func (export \"_start\") {body} (call $exit (i32.div_u
            (i32.add (table.size $a) (table.size $b)) (i32.const 1000))))"
    ));
    assert_eq!(finished(&program, LIMITS).await.exit_code, 100);
}

#[tokio::test]
async fn processor_time_of_a_busy_guest_is_reported() {
    let busy = finished(&command("(loop $on (br $on))"), TIGHT).await;
    // On a busy machine the guest has a processor for only a part of its time.
    assert!(
        busy.cpu_user > TIGHT.wall / 20 && busy.cpu_user <= busy.wall,
        "{:?} of {:?}",
        busy.cpu_user,
        busy.wall
    );
    assert!(finished(&command(""), TIGHT).await.cpu_user < busy.cpu_user);
}

#[tokio::test]
async fn module_does_not_start_if_its_initial_memory_exceeds_the_limit() {
    let finished = finished(&module("(memory 5) (func (export \"_start\"))"), TIGHT).await;
    assert_eq!((finished.ended, finished.exit_code), (RunEnd::OutOfMemory, 16));
    let want = "runtime: memory limit of 262144 bytes is below the module's first size\n";
    assert_eq!(text(&finished.stderr), want);
}

#[tokio::test]
async fn guest_output_is_truncated_at_its_limit() {
    // Writes a vector of 7 bytes to `fd` forever.
    let flood = |fd| {
        command(&format!(
            "(i32.store (i32.const 4) (i32.const 7)) (loop $on
            (drop (call $write (i32.const {fd}) (i32.const 0) (i32.const 1) (i32.const 8)))
            (br $on))"
        ))
    };
    let out = finished(&flood(1), TIGHT).await;
    assert_eq!((out.ended, out.exit_code), (RunEnd::OutputFull, 255));
    assert_eq!(out.stdout.len(), TIGHT.output_bytes);
    assert_eq!(text(&out.stderr), "runtime: output limit of 100 bytes reached\n");
    let error = finished(&flood(2), TIGHT).await;
    assert_eq!(error.ended, RunEnd::OutputFull);
    assert_eq!(error.stdout.len(), 0);
    let tail = error.stderr.get(TIGHT.output_bytes..).unwrap();
    assert_eq!(text(tail), "\nruntime: output limit of 100 bytes reached\n");
}

#[tokio::test]
async fn guest_without_directory_cannot_open_files() {
    // Tries to open "../x" relative to each descriptor up to 9. Exits with 100 if this succeeds,
    // else with the last error number.
    let program = module(
        r#"(memory (export "memory") 1) (data (i32.const 0) "../x")
        (func (export "_start") (local $fd i32) (local $error i32)
            (loop $next
                (local.set $error (call $open (local.get $fd) (i32.const 0) (i32.const 0)
                    (i32.const 4) (i32.const 0) (i64.const 2) (i64.const 2) (i32.const 0)
                    (i32.const 16)))
                (if (i32.eqz (local.get $error)) (then (call $exit (i32.const 100))))
                (local.set $fd (i32.add (local.get $fd) (i32.const 1)))
                (br_if $next (i32.lt_u (local.get $fd) (i32.const 10))))
            (call $exit (local.get $error)))"#,
    );
    let finished = finished(&program, LIMITS).await;
    assert_eq!((finished.ended, finished.exit_code), (RunEnd::Exited, BAD_DESCRIPTOR));
}

#[tokio::test]
async fn exit_code_is_truncated_to_eight_bits() {
    for (code, want) in
        [(0, 0), (1, 1), (7, 7), (126, 126), (255, 255), (-1, 255), (256, 0), (300, 44)]
    {
        check(&format!("(call $exit (i32.const {code}))"), RunEnd::Exited, want, "").await;
    }
}

#[tokio::test]
async fn host_call_with_excessive_sizes_returns_an_error_number() {
    const INVALID: i32 = 28;
    for (call, error) in [
        ("$poll (i32.const 0) (i32.const 64) (i32.const 1000000) (i32.const 128)", INVALID),
        ("$random (i32.const 0) (i32.const 100000000)", INVALID),
        ("$write (i32.const 1) (i32.const 0) (i32.const 30000000) (i32.const 8)", INVALID),
        ("$random (i32.const 0) (i32.const 1000)", 0),
    ] {
        check(&format!("(call $exit (call {call}))"), RunEnd::Exited, error, "").await;
    }
}

/// Waits for 100 timers of a millisecond, more than the number of files that a guest can have.
#[tokio::test]
async fn guest_waits_for_many_events_at_once() {
    let body = "(local $n i32) (loop $next
            (i32.store (i32.add (i32.mul (local.get $n) (i32.const 48)) (i32.const 16))
                (i32.const 1))
            (i64.store (i32.add (i32.mul (local.get $n) (i32.const 48)) (i32.const 24))
                (i64.const 1000000))
            (local.set $n (i32.add (local.get $n) (i32.const 1)))
            (br_if $next (i32.lt_u (local.get $n) (i32.const 100))))
        (call $exit (call $poll (i32.const 0) (i32.const 8000) (i32.const 100) (i32.const 7000)))";
    check(body, RunEnd::Exited, 0, "").await;
}

#[tokio::test]
async fn too_deep_recursion_only_exhausts_the_stack_of_the_guest() {
    let recursion = r#"(func $deeper (param i32) (result i32)
            (i32.add (call $deeper (i32.add (local.get 0) (i32.const 1))) (i32.const 1)))
        (func (export "_start") (drop (call $deeper (i32.const 0))))"#;
    check_trap(recursion, Trap::StackOverflow, 2).await;
}

#[tokio::test]
async fn each_kind_of_trap_has_an_exit_code() {
    let body = |body: &str| {
        format!(
            "(memory (export \"memory\") 1) (table 2 2 funcref) (elem (i32.const 0) $other)
            (type $start (func)) (func $other (param i64)) (func (export \"_start\") {body})"
        )
    };
    for (does, trapped, exit_code) in [
        ("(drop (i32.load (i32.const 65533)))", Trap::MemoryOutOfBounds, 3),
        ("(call_indirect (type $start) (i32.const 2))", Trap::TableOutOfBounds, 5),
        ("(call_indirect (type $start) (i32.const 1))", Trap::IndirectCallToNull, 6),
        ("(call_indirect (type $start) (i32.const 0))", Trap::BadSignature, 7),
        ("(drop (i32.div_s (i32.const 0x80000000) (i32.const -1)))", Trap::IntegerOverflow, 8),
        ("(drop (i32.div_s (i32.const 1) (i32.const 0)))", Trap::IntegerDivisionByZero, 9),
        ("(drop (i32.trunc_f64_s (f64.const nan)))", Trap::BadConversionToInteger, 10),
        ("unreachable", Trap::UnreachableCodeReached, 11),
    ] {
        check_trap(&body(does), trapped, exit_code).await;
    }
}

#[tokio::test]
async fn module_that_is_not_a_wasi_command_is_rejected() {
    let error = refused(&Program::new(*b"not a module")).await;
    assert!(matches!(error, ProgramError::Compile { .. }), "{error:?}");
    let error = refused(&module("(memory 1)")).await;
    assert!(matches!(error, ProgramError::NoStart { .. }), "{error:?}");
    let error = refused(&module("(func (export \"_start\") (param i32))")).await;
    assert!(matches!(error, ProgramError::NoStart { .. }), "{error:?}");
    let http = r#"(module (import "blockless_http" "http_req" (func)) (func (export "_start")))"#;
    let error = refused(&Program::new(wat::parse_str(http).unwrap())).await;
    assert!(matches!(error, ProgramError::Import { .. }), "{error:?}");
    let source = StdError::source(&error).unwrap();
    assert!(source.to_string().contains("blockless_http::http_req"), "{source}");
}

#[tokio::test]
async fn too_large_module_is_not_compiled() {
    let options = RuntimeOptions { module_bytes_max: 10, ..options(1) };
    let outcome = Runtime::new(options).unwrap().execute(&Program::new([0; 11]), bare(TIGHT)).await;
    let error = outcome.unwrap_err();
    assert_eq!(error.to_string(), "module has 11 bytes, maximum is 10");
}

#[tokio::test]
async fn uncaught_exception_stops_the_guest_and_a_caught_exception_does_not() {
    let tag = r#"(memory (export "memory") 1) (tag $error (param i32))"#;
    let catches = format!(
        r#"{tag} (func (export "_start")
            (block $caught (result i32)
                (try_table (catch $error $caught) (throw $error (i32.const 7)))
                unreachable)
            (call $exit))"#
    );
    let caught = finished(&module(&catches), LIMITS).await;
    assert_eq!((caught.ended, caught.exit_code), (RunEnd::Exited, 7));
    let throws = format!(r#"{tag} (func (export "_start") (throw $error (i32.const 7)))"#);
    let thrown = finished(&module(&throws), LIMITS).await;
    assert_eq!((thrown.ended, thrown.exit_code), (RunEnd::Thrown, 255));
    assert_eq!(text(&thrown.stderr), "runtime: exception was not caught\n");
}

#[tokio::test]
async fn guest_can_have_two_memories() {
    let two = r#"(memory (export "memory") 1) (memory $other 1)
        (func (export "_start") (i32.store $other (i32.const 0) (i32.const 9))
            (call $exit (i32.load $other (i32.const 0))))"#;
    assert_eq!(finished(&module(two), LIMITS).await.exit_code, 9);
    // Both memories count toward the limit.
    let limits = Limits { memory_bytes: 65536, ..LIMITS };
    assert_eq!(finished(&module(two), limits).await.ended, RunEnd::OutOfMemory);
    let three = module(r#"(memory 1) (memory 1) (memory 1) (func (export "_start"))"#);
    let outcome = runtime(1).execute(&three, bare(LIMITS)).await;
    assert!(outcome.is_err() || outcome.is_ok_and(|outcome| outcome.exit_code != 0));
}

/// Garbage-collected types: an array of bytes and a list of such arrays.
const OBJECTS: &str = r#"(memory (export "memory") 1)
    (type $bytes (array (mut i8)))
    (type $list (struct (field (ref $bytes)) (field (ref null $list))))"#;

#[tokio::test]
async fn unused_gc_objects_are_collected() {
    // Allocates 64 MiB in total of objects that are never referenced.
    let program = module(&format!(
        r#"{OBJECTS} (func (export "_start") (local $n i32)
            (loop $on
                (drop (array.new $bytes (i32.const 1) (i32.const 1048576)))
                (local.set $n (i32.add (local.get $n) (i32.const 1)))
                (br_if $on (i32.lt_u (local.get $n) (i32.const 64))))
            (call $exit (i32.const 5)))"#
    ));
    let limits = Limits { memory_bytes: 16 * 1024 * 1024, ..LIMITS };
    let finished = finished(&program, limits).await;
    assert_eq!((finished.ended, finished.exit_code), (RunEnd::Exited, 5));
    assert!(finished.memory_peak_bytes <= limits.memory_bytes);
}

#[tokio::test]
async fn gc_objects_are_counted_as_memory() {
    let program = module(&format!(
        r#"{OBJECTS} (func (export "_start") (local $all (ref null $list))
            (loop $on
                (local.set $all (struct.new $list
                    (array.new $bytes (i32.const 1) (i32.const 1024)) (local.get $all)))
                (br $on)))"#
    ));
    let limits = Limits { memory_bytes: 4 * 1024 * 1024, ..LIMITS };
    let finished = finished(&program, limits).await;
    assert_eq!((finished.ended, finished.exit_code), (RunEnd::OutOfMemory, 16));
    assert!(finished.memory_peak_bytes <= limits.memory_bytes);
}
