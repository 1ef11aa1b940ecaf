//! Bounds on what is compiled at all, found by one walk over a module that costs far less than
//! compiling it.
//!
//! A module that is malformed passes as far as it was understood: the compiler says what is wrong.

use wasmparser::{FunctionBody, Operator, Parser, Payload};

/// The most functions of a program. Large ones have some ten thousand.
const FUNCTIONS_MAX: u64 = 100_000;

/// The most types, imports, globals, exports and segments of a program, together. Each costs the
/// process that loads the program some hundred bytes.
const ITEMS_MAX: u64 = 200_000;

/// The most locals of a function times its blocks. Each local may have a value of its own in each
/// block. Interpreters, which are the largest functions there are, have a few million.
const LOCALS_BY_BLOCKS_MAX: u64 = 20_000_000;

/// The most locals of a function times the depth of its nested loops. Each loop hands each local on
/// to the loops in it, and the time to compile grows with the square. Code that people write nests
/// a dozen loops at most.
const LOCALS_BY_LOOPS_MAX: u64 = 100_000;

/// Why a program is too large to be compiled.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BoundsError {
    #[error("take {n_functions} functions, more than {FUNCTIONS_MAX}")]
    Functions { n_functions: u64 },
    #[error("take {n_items} types, imports, globals, exports and segments, more than {ITEMS_MAX}")]
    Items { n_items: u64 },
    #[error(
        "take function {function_idx} of {n_locals} locals and {n_blocks} blocks, whose product is more than {LOCALS_BY_BLOCKS_MAX}"
    )]
    Blocks { function_idx: u64, n_locals: u64, n_blocks: u64 },
    #[error(
        "take function {function_idx} of {n_locals} locals and {depth} nested loops, whose product is more than {LOCALS_BY_LOOPS_MAX}"
    )]
    Loops { function_idx: u64, n_locals: u64, depth: u64 },
}

/// What a walk has counted.
#[derive(Default)]
struct Counts {
    functions: u64,
    items: u64,
    bodies: u64,
}

/// Checks a module or component, and all modules within it.
///
/// # Errors
/// [`BoundsError`] names the bound that is exceeded first.
pub(super) fn check(program: &[u8]) -> Result<(), BoundsError> {
    let mut counts = Counts::default();
    for payload in Parser::new(0).parse_all(program) {
        let Ok(payload) = payload else { return Ok(()) };
        counts.add(&payload)?;
    }
    Ok(())
}

impl Counts {
    fn add(&mut self, payload: &Payload<'_>) -> Result<(), BoundsError> {
        let n_items = match payload {
            Payload::FunctionSection(section) => {
                self.functions += u64::from(section.count());
                0
            }
            Payload::CodeSectionEntry(body) => {
                self.bodies += 1;
                check_body(self.bodies - 1, body)?;
                0
            }
            Payload::TypeSection(section) => section.count(),
            Payload::ImportSection(section) => section.count(),
            Payload::GlobalSection(section) => section.count(),
            Payload::ExportSection(section) => section.count(),
            Payload::ElementSection(section) => section.count(),
            Payload::DataSection(section) => section.count(),
            Payload::TableSection(section) => section.count(),
            Payload::MemorySection(section) => section.count(),
            Payload::TagSection(section) => section.count(),
            Payload::ComponentTypeSection(section) => section.count(),
            Payload::CoreTypeSection(section) => section.count(),
            Payload::ComponentImportSection(section) => section.count(),
            Payload::ComponentExportSection(section) => section.count(),
            Payload::ComponentAliasSection(section) => section.count(),
            Payload::ComponentCanonicalSection(section) => section.count(),
            Payload::ComponentInstanceSection(section) => section.count(),
            Payload::InstanceSection(section) => section.count(),
            _ => 0,
        };
        self.items += u64::from(n_items);
        if self.functions > FUNCTIONS_MAX {
            return Err(BoundsError::Functions { n_functions: self.functions });
        }
        if self.items > ITEMS_MAX {
            return Err(BoundsError::Items { n_items: self.items });
        }
        Ok(())
    }
}

fn check_body(function_idx: u64, body: &FunctionBody<'_>) -> Result<(), BoundsError> {
    let Ok(locals) = body.get_locals_reader() else { return Ok(()) };
    let n_locals: u64 = locals.into_iter().flatten().map(|(count, _)| u64::from(count)).sum();
    let Ok(operators) = body.get_operators_reader() else { return Ok(()) };
    let (mut n_blocks, mut depth, mut depth_max) = (0_u64, 0_u64, 0_u64);
    // Whether each open block is a loop.
    let mut open = Vec::new();
    for operator in operators {
        let Ok(operator) = operator else { break };
        match operator {
            Operator::Loop { .. } => {
                depth += 1;
                depth_max = depth_max.max(depth);
                open.push(true);
                n_blocks += 1;
            }
            Operator::Block { .. } | Operator::If { .. } | Operator::TryTable { .. } => {
                open.push(false);
                n_blocks += 1;
            }
            Operator::Else => n_blocks += 1,
            Operator::End if open.pop() == Some(true) => depth -= 1,
            _ => {}
        }
    }
    if n_locals.saturating_mul(n_blocks) > LOCALS_BY_BLOCKS_MAX {
        return Err(BoundsError::Blocks { function_idx, n_locals, n_blocks });
    }
    if depth_max > 1 && n_locals.saturating_mul(depth_max) > LOCALS_BY_LOOPS_MAX {
        return Err(BoundsError::Loops { function_idx, n_locals, depth: depth_max });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_fields(fields: &str, want: &Result<(), BoundsError>) {
        let module = wat::parse_str(format!("(module {fields})")).unwrap();
        assert_eq!(&check(&module), want);
    }

    /// A function of `n_locals` locals whose body is `n_blocks` times `open`, then as often `)`.
    fn nested(n_locals: usize, n_blocks: usize, open: &str) -> String {
        let locals = "i64 ".repeat(n_locals);
        format!("(func (local {locals}) {}{})", open.repeat(n_blocks), ")".repeat(n_blocks))
    }

    #[test]
    fn what_people_compile_passes() {
        for name in ["hello", "whoami"] {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/functions");
            let module = std::fs::read(format!("{folder}/{name}.wasm")).unwrap();
            assert_eq!(check(&module), Ok(()));
        }
        check_fields(&nested(2000, 30, "(loop "), &Ok(()));
        check_fields(&nested(2000, 5000, "(block "), &Ok(()));
        // Loops beside one another are not nested.
        let locals = "i64 ".repeat(2000);
        check_fields(&format!("(func (local {locals}) {})", "(loop)".repeat(500)), &Ok(()));
        assert_eq!(check(b"not a module"), Ok(()));
    }

    #[test]
    fn loops_in_loops_of_many_locals_are_refused() {
        let want = BoundsError::Loops { function_idx: 1, n_locals: 1000, depth: 300 };
        check_fields(&format!("(func) {}", nested(1000, 300, "(loop ")), &Err(want));
    }

    #[test]
    fn blocks_of_many_locals_are_refused() {
        let want = BoundsError::Blocks { function_idx: 0, n_locals: 5000, n_blocks: 5000 };
        check_fields(&nested(5000, 5000, "(block "), &Err(want));
    }

    #[test]
    fn functions_and_items_are_counted_over_all_modules() {
        let n_functions = FUNCTIONS_MAX + 1;
        let functions = "(func)".repeat(usize::try_from(n_functions).unwrap());
        check_fields(&functions, &Err(BoundsError::Functions { n_functions }));
        let n_items = ITEMS_MAX + 1;
        let globals = "(global i32 (i32.const 0))".repeat(usize::try_from(n_items).unwrap());
        check_fields(&globals, &Err(BoundsError::Items { n_items }));
        let half = format!("(core module {})", "(func)".repeat(60_000));
        let component = wat::parse_str(format!("(component {half} {half})")).unwrap();
        assert_eq!(check(&component), Err(BoundsError::Functions { n_functions: 120_000 }));
    }
}
