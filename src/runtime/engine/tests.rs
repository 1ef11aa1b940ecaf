//! Tests with honest guests, hostile guests, and many concurrent guests. This module contains their
//! shared parts.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use wasi_preview1_component_adapter_provider as adapter;
use wasmtime::Trap;
use wit_component::ComponentEncoder;

use super::*;
use crate::compiler::CompileIn;
use crate::error::ProgramError;
use crate::run::{Limits, RunEnd, START};

mod compiled;
mod components;
mod demos;
mod files;
mod hostile;
mod many;
mod quota;

/// Limits that suffice for all well-behaved guests of these tests.
const LIMITS: Limits = Limits {
    wall: Duration::from_mins(1),
    memory_bytes: 16 * 1024 * 1024,
    output_bytes: 64 * 1024,
    fuel: None,
};

fn options(runs_max: u32) -> RuntimeOptions {
    RuntimeOptions::for_runs(NonZeroU32::new(runs_max).unwrap(), CompileIn::ThisProcess)
}

fn runtime(runs_max: u32) -> Runtime {
    Runtime::new(options(runs_max)).unwrap()
}

/// Returns a runtime that keeps compiled code next to the test program, so that later test processes do
/// not compile the same programs again. Only for programs that are valid in any case.
fn caching_runtime(runs_max: u32) -> Runtime {
    let folder = std::env::current_exe().unwrap().with_file_name("compiled-functions");
    Runtime::new(RuntimeOptions { compiled_folder: Some(folder), ..options(runs_max) }).unwrap()
}

/// Returns a run without arguments, environment or input.
fn bare(limits: Limits) -> Run {
    Run {
        name: "guest.wasm".to_owned(),
        entry: START.to_owned(),
        arguments: Vec::new(),
        environment: BTreeMap::new(),
        stdin: Vec::new(),
        files: None,
        limits,
        client: Arc::default(),
    }
}

/// Loads a demo function as committed.
fn demo(name: &str) -> Program {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/functions");
    Program::new(std::fs::read(format!("{folder}/{name}.wasm")).unwrap())
}

/// Returns a command with one page of memory, `body` as the body of `_start`, and the imports that it
/// uses.
fn command(body: &str) -> Program {
    module(&format!("(memory (export \"memory\") 1) (func (export \"_start\") {body})"))
}

/// Imports that guests of these tests use, with their names.
const IMPORTS: [(&str, &str, &str); 13] = [
    ("$exit", "proc_exit", "(param i32)"),
    ("$write", "fd_write", "(param i32 i32 i32 i32) (result i32)"),
    ("$seek", "fd_seek", "(param i32 i64 i32 i32) (result i32)"),
    ("$resize", "fd_filestat_set_size", "(param i32 i64) (result i32)"),
    ("$put", "fd_pwrite", "(param i32 i32 i32 i64 i32) (result i32)"),
    ("$unlink", "path_unlink_file", "(param i32 i32 i32) (result i32)"),
    ("$rename", "path_rename", "(param i32 i32 i32 i32 i32 i32) (result i32)"),
    ("$close", "fd_close", "(param i32) (result i32)"),
    ("$mkdir", "path_create_directory", "(param i32 i32 i32) (result i32)"),
    ("$symlink", "path_symlink", "(param i32 i32 i32 i32 i32) (result i32)"),
    ("$poll", "poll_oneoff", "(param i32 i32 i32 i32) (result i32)"),
    ("$random", "random_get", "(param i32 i32) (result i32)"),
    ("$open", "path_open", "(param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)"),
];

/// Returns a module of `fields` in text format, with the imports that they use.
fn module(fields: &str) -> Program {
    let named = IMPORTS.iter().filter(|(name, ..)| fields.contains(name));
    let imports: Vec<_> = named
        .map(|(name, function, shape)| {
            format!(r#"(import "wasi_snapshot_preview1" "{function}" (func {name} {shape}))"#)
        })
        .collect();
    Program::new(wat::parse_str(format!("(module {} {fields})", imports.concat())).unwrap())
}

/// Converts `command` to a preview 2 component with the adapter that compilers use.
fn component(command: &Program) -> Program {
    let mut encoder = ComponentEncoder::default().module(&command.bytes).unwrap();
    encoder = encoder
        .adapter(
            adapter::WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME,
            adapter::WASI_SNAPSHOT_PREVIEW1_COMMAND_ADAPTER,
        )
        .unwrap();
    Program::new(encoder.encode().unwrap())
}

fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).unwrap()
}
