//! Check of the number of items of a program before it is compiled.

use wasmparser::{Parser, Payload};

/// Maximum number of functions of a program. Each costs the process that loads the program some
/// hundred bytes. Large programs have some ten thousand.
const FUNCTIONS_MAX: u64 = 100_000;

/// Maximum total number of a program's types, imports, globals, exports and segments. Each uses some
/// hundred bytes in the process that loads the program.
const ITEMS_MAX: u64 = 200_000;

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

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use super::*;
    use crate::compiler::CompileIn;
    use crate::engine::Runtime;
    use crate::options::RuntimeOptions;
    use crate::program::Program;

    /// Runs a program, which must exit with code 0.
    fn check_text(wat: &str) -> Result<(), String> {
        let options = RuntimeOptions::for_runs(NonZeroU32::MIN, CompileIn::ThisProcess);
        let run = crate::run::Run {
            name: String::new(),
            entry: crate::run::START.to_owned(),
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
        let program = Program::new(wat::parse_str(wat).unwrap());
        let outcome = Runtime::new(options).unwrap().execute_here(&program, run);
        let outcome = outcome.map_err(|error| task::causes::chain(&error))?;
        assert_eq!(outcome.exit_code, 0);
        Ok(())
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
            format!(
                r#"(module (import "wasi_snapshot_preview1" "proc_exit" (func {shape}))
                (func (export "_start")))"#
            )
        };
        assert_eq!(check_text(&exit("(param i32)")), Ok(()));
        assert!(check_text(&exit("(param i64)")).unwrap_err().contains("proc_exit"));
        let unknown = r#"(module (import "env" "now" (func)) (func (export "_start")))"#;
        assert!(check_text(unknown).unwrap_err().contains("env::now"));
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
