//! Checks of a program before it is compiled: the number of its functions, and its imports. The compiler
//! would report a missing import only after it had compiled all functions.
//!
//! To check the imports, only the types and imports are compiled and linked, which takes milliseconds.
//! In a component these are the sections before its first module. A component may also import interfaces
//! that contain only types.

use wasmparser::{ComponentExternalKind, Encoding, Parser, Payload, SectionLimited};
use wasmtime::component::{self, Component};
use wasmtime::{Engine, Linker, Module};

use crate::guest;
use crate::program::Program;

/// Maximum number of functions of a program. Each costs the process that loads the program some
/// hundred bytes. Large programs have some ten thousand.
const FUNCTIONS_MAX: u64 = 100_000;

/// Maximum total number of a program's types, imports, globals, exports and segments. Each uses some
/// hundred bytes in the process that loads the program.
const ITEMS_MAX: u64 = 200_000;

/// First bytes of a module: magic and version 1.
const MODULE_HEADER: [u8; 8] = *b"\0asm\x01\0\0\0";

/// Number of the section with the types of a module.
const TYPE_SECTION: u8 = 1;

/// Number of the section with the imports of a module.
const IMPORT_SECTION: u8 = 2;

/// Name of the module of WASI preview 0. Its functions have other types and are not offered.
const PREVIEW_0: &str = "wasi_unstable";

/// The interface that a component of a command exports.
const RUN: &str = "wasi:cli/run";

/// Version of WASI preview 2, without the revision.
const VERSION: &str = "0.2";

/// Checks the number of functions and other items in a module or component, including nested modules.
/// The process that loads the compiled code allocates memory for each item. The limits of the compiling
/// child do not apply to that memory.
///
/// # Errors
/// The reason, with the number.
pub(super) fn check_items(program: &[u8]) -> Result<(), String> {
    let (mut n_functions, mut n_items) = (0_u64, 0_u64);
    for payload in Parser::new(0).parse_all(program).map_while(Result::ok) {
        match payload {
            Payload::FunctionSection(section) => n_functions += u64::from(section.count()),
            Payload::TypeSection(section) => n_items += u64::from(section.count()),
            Payload::ImportSection(section) => n_items += u64::from(section.count()),
            Payload::GlobalSection(section) => n_items += u64::from(section.count()),
            Payload::ExportSection(section) => n_items += u64::from(section.count()),
            Payload::ElementSection(section) => n_items += u64::from(section.count()),
            Payload::DataSection(section) => n_items += u64::from(section.count()),
            _ => {}
        }
    }
    if n_functions > FUNCTIONS_MAX {
        return Err(format!("{n_functions} functions exceed the maximum of {FUNCTIONS_MAX}"));
    }
    if n_items > ITEMS_MAX {
        return Err(format!(
            "{n_items} types, imports, globals, exports and segments exceed the maximum of {ITEMS_MAX}"
        ));
    }
    Ok(())
}

/// Checks that all imports of `program` are offered, as far as this is known before compilation. A
/// malformed program passes the check, since the compiler will report the error.
///
/// # Errors
/// The reason, which names the import.
pub(super) fn check(engine: &Engine, program: &Program) -> wasmtime::Result<()> {
    if program.is_component() {
        check_component(engine, &program.bytes)
    } else {
        check_module(engine, &program.bytes)
    }
}

fn check_module(engine: &Engine, program: &[u8]) -> wasmtime::Result<()> {
    let Some(imports) = imports_only(program) else { return Ok(()) };
    let Ok(module) = Module::new(engine, imports) else { return Ok(()) };
    if module.imports().any(|import| import.module() == PREVIEW_0) {
        wasmtime::bail!("`{PREVIEW_0}` is not supported: build the module for wasm32-wasip1");
    }
    let mut linker = Linker::new(engine);
    guest::commands::offer(&mut linker)?;
    linker.instantiate_pre(&module).map(drop)
}

/// Returns a module with only the types and imports of `program`, or `None` if it has no imports or is
/// malformed.
fn imports_only(program: &[u8]) -> Option<Vec<u8>> {
    let mut module = MODULE_HEADER.to_vec();
    for payload in Parser::new(0).parse_all(program) {
        match payload.ok()? {
            Payload::TypeSection(section) => {
                add_section(&mut module, TYPE_SECTION, program, &section)?;
            }
            Payload::ImportSection(section) => {
                add_section(&mut module, IMPORT_SECTION, program, &section)?;
                return Some(module);
            }
            Payload::CodeSectionStart { .. } => return None,
            _ => {}
        }
    }
    None
}

fn add_section<T>(
    module: &mut Vec<u8>,
    number: u8,
    program: &[u8],
    section: &SectionLimited<'_, T>,
) -> Option<()> {
    let content = program.get(section.range())?;
    module.push(number);
    // Appends the length as LEB128.
    let mut rest = content.len();
    while rest > 0x7f {
        module.push(u8::try_from(rest & 0x7f).ok()? | 0x80);
        rest >>= 7;
    }
    module.push(u8::try_from(rest).ok()?);
    module.extend_from_slice(content);
    Some(())
}

fn check_component(engine: &Engine, program: &[u8]) -> wasmtime::Result<()> {
    // Sections of nested modules and components have the same kinds, so only exports at depth 1 belong
    // to the program.
    let mut depth = 0_usize;
    let mut has_run = false;
    for payload in Parser::new(0).parse_all(program) {
        let Ok(payload) = payload else { return Ok(()) };
        match payload {
            Payload::Version { encoding: Encoding::Module | Encoding::Component, .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentExportSection(section) if depth == 1 => {
                has_run |= section.into_iter().filter_map(Result::ok).any(|export| {
                    export.kind == ComponentExternalKind::Instance
                        && is_version_of(export.name.name, RUN)
                });
            }
            _ => {}
        }
    }
    if let Ok(component) = Component::new(engine, component_imports(program)) {
        let mut linker = component::Linker::new(engine);
        guest::components::offer(&mut linker)?;
        linker.instantiate_pre(&component)?;
    }
    if !has_run {
        wasmtime::bail!("no exported instance named `{RUN}`");
    }
    Ok(())
}

/// Returns the start of a component, up to its first section that is neither types, imports nor
/// aliases of these.
fn component_imports(program: &[u8]) -> &[u8] {
    let mut end = 0;
    for payload in Parser::new(0).parse_all(program) {
        end = match payload {
            Ok(Payload::Version { range, .. }) => range.end,
            Ok(Payload::ComponentTypeSection(section)) => section.range().end,
            Ok(Payload::CoreTypeSection(section)) => section.range().end,
            Ok(Payload::ComponentImportSection(section)) => section.range().end,
            Ok(Payload::ComponentAliasSection(section)) => section.range().end,
            Ok(Payload::CustomSection(section)) => section.range().end,
            _ => break,
        };
    }
    program.get(..end).unwrap_or_default()
}

/// Returns true if `name` is the name of `interface` in any revision of preview 2.
fn is_version_of(name: &str, interface: &str) -> bool {
    let version = name.strip_prefix(interface).and_then(|rest| rest.strip_prefix('@'));
    let revision = version.and_then(|version| version.strip_prefix(VERSION));
    revision.is_some_and(|revision| revision.is_empty() || revision.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use super::*;
    use crate::compiler::CompileIn;
    use crate::engine::Runtime;
    use crate::options::RuntimeOptions;
    use crate::program::Program;
    use crate::settings::{Fuel, MemoryPlace, Settings};

    fn check_text(wat: &str) -> Result<(), String> {
        let settings = Settings { fuel: Fuel::Free, memory: MemoryPlace::OnDemand };
        let engine = settings.compiling_engine().unwrap();
        let program = Program::new(wat::parse_str(wat).unwrap());
        check(&engine, &program).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn functions_and_items_of_all_modules_of_a_component_are_counted() {
        let half = format!("(core module {})", "(func)".repeat(60_000));
        let component = wat::parse_str(format!("(component {half} {half})")).unwrap();
        assert!(check_items(&component).unwrap_err().contains("120000 functions"));
        let exports: Vec<String> =
            (0..150_000).map(|n| format!(r#"(export "e{n}" (func 0))"#)).collect();
        let exports = exports.concat();
        let globals = "(global i32 (i32.const 0))".repeat(60_000);
        let module = wat::parse_str(format!("(module (func) {exports} {globals})")).unwrap();
        assert!(check_items(&module).unwrap_err().starts_with("210001 types"));
        let module = wat::parse_str("(module (func))").unwrap();
        assert_eq!(check_items(&module), Ok(()));
    }

    #[test]
    fn imports_of_a_module_are_checked_by_name_and_type() {
        let exit = |shape: &str| {
            format!(r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func {shape})))"#)
        };
        assert_eq!(check_text(&exit("(param i32)")), Ok(()));
        assert!(check_text(&exit("(param i64)")).unwrap_err().contains("proc_exit"));
        let unknown = r#"(module (import "env" "now" (func)) (func unreachable))"#;
        assert!(check_text(unknown).unwrap_err().contains("env::now"));
        assert_eq!(check_text("(module (func))"), Ok(()));
    }

    /// Returns a command component with these imports.
    fn command(imports: &str) -> String {
        format!(
            r#"(component {imports}
            (core module $run (func (export "run") (result i32) i32.const 0))
            (core instance $run (instantiate $run))
            (func $lifted (result (result)) (canon lift (core func $run "run")))
            (instance $cli (export "run" (func $lifted)))
            (export "wasi:cli/run@0.2.0" (instance $cli)))"#
        )
    }

    const OFFERED: &str = r#"
        (import "wasi:random/random@0.2.3" (instance
            (export "get-random-u64" (func (result u64)))))
        (import "wasi:cli/environment@0.2.0" (instance))
        (import "example:shapes/types" (instance $types
            (type $point (record (field "x" f64)))
            (export "point" (type (eq $point)))))
        (alias export $types "point" (type $point))
        (import "example:shapes/empty" (instance))"#;

    #[test]
    fn component_that_imports_all_supported_functions_and_types_is_accepted() {
        assert_eq!(check_text(&command(OFFERED)), Ok(()));
        let runs_max = NonZeroU32::MIN;
        let options = RuntimeOptions::for_runs(runs_max, CompileIn::ThisProcess);
        let program = Program::new(wat::parse_str(command(OFFERED)).unwrap());
        let run = crate::run::Run {
            name: String::new(),
            entry: String::new(),
            arguments: Vec::new(),
            environment: std::collections::BTreeMap::new(),
            stdin: Vec::new(),
            files: None,
            limits: crate::run::Limits {
                wall: Duration::from_mins(1),
                memory_bytes: 1 << 20,
                output_bytes: 1 << 10,
                fuel: None,
            },
            client: std::sync::Arc::default(),
        };
        assert_eq!(
            Runtime::new(options).unwrap().execute_here(&program, run).unwrap().exit_code,
            0
        );
    }

    #[test]
    fn component_with_an_unsupported_import_or_without_a_run_export_is_refused() {
        for (import, named) in [
            (r#"(import "a:b/c" (instance (export "f" (func))))"#, "a:b/c"),
            (r#"(import "wasi:random/random@0.2.3" (instance (export "f" (func))))"#, "f"),
            (
                r#"(import "wasi:random/random@0.3.0" (instance
                    (export "get-random-u64" (func (result u64)))))"#,
                "wasi:random/random@0.3.0",
            ),
        ] {
            let refusal = check_text(&command(import)).unwrap_err();
            assert!(refusal.contains(named), "{import}: {refusal}");
        }
        let inner = r#"(component (core module $m (func)) (component (import "a" (func))))"#;
        assert!(check_text(inner).unwrap_err().contains("wasi:cli/run"));
    }

    #[test]
    fn module_for_wasi_preview_0_is_refused_with_advice() {
        let old = r#"(module (import "wasi_unstable" "proc_exit" (func (param i32))))"#;
        let refusal = check_text(old).unwrap_err();
        assert!(refusal.contains("wasm32-wasip1"), "{refusal}");
    }
}
