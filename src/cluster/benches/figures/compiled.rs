//! A large module and the time to compile it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::time::Duration;

use cluster::worker::LIMITS_DEFAULT;
use runtime::compiler::CompileIn;
use runtime::engine::Runtime;
use runtime::options::RuntimeOptions;
use runtime::program::Program;
use runtime::run::{Run, START};
use tokio::time::Instant;

use crate::Outcome;

/// Number of functions in the module. With [`N_STEPS`] steps in each function, the module has 1 MiB.
const N_FUNCTIONS: usize = 595;
/// Number of steps of each function.
const N_STEPS: usize = 50;

/// Returns a valid module of 1 MiB that runs all its loads, stores, branches, arithmetic and calls
/// before it prints the greeting. Each `seed` gives a different module.
pub(crate) fn module(seed: usize) -> Outcome<Vec<u8>> {
    let mut text = String::from(
        r#"(module
        (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 4)
        (data (i32.const 0) "\10\00\00\00\06\00\00\00")
        (data (i32.const 16) "hello\n")"#,
    );
    for function in 0..N_FUNCTIONS {
        write!(text, "(func $f{function} (param $x i32) (result i32) (local $y i32)")?;
        for step in 0..N_STEPS {
            let at = 1024 + (function * 97 + step * 8) % 60_000;
            let number = (function * 7919 + step * 104_729 + seed) % 100_000;
            write!(
                text,
                "(if (i32.lt_u (local.get $x) (i32.const {number}))
                   (then (local.set $y (i32.xor (local.get $y) (i32.load (i32.const {at})))))
                   (else (i32.store (i32.const {at}) (i32.add (local.get $x) (local.get $y)))))"
            )?;
        }
        text.push_str("(i32.add (local.get $x) (local.get $y)))");
    }
    text.push_str("(func (export \"_start\") (local $x i32)");
    for function in 0..N_FUNCTIONS {
        write!(text, "(local.set $x (call $f{function} (local.get $x)))")?;
    }
    text.push_str("(drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))");
    Ok(wat::parse_str(text)?)
}

/// Returns the time that a separate runtime needs to compile and run `module`.
pub(crate) fn compile_time(module: Vec<u8>) -> Outcome<Duration> {
    let runtime = Runtime::new(RuntimeOptions::for_runs(NonZeroU32::MIN, CompileIn::ThisProcess))?;
    let run = Run {
        name: "large.wasm".to_owned(),
        entry: START.to_owned(),
        arguments: Vec::new(),
        environment: BTreeMap::new(),
        stdin: Vec::new(),
        files: None,
        limits: LIMITS_DEFAULT,
        client: std::sync::Arc::default(),
    };
    let began = Instant::now();
    let finished = runtime.execute_here(&Program::new(module), run)?;
    let elapsed = began.elapsed();
    if finished.stdout == b"hello\n" { Ok(elapsed) } else { Err("large module failed".into()) }
}
