//! Bounds on what is compiled at all, found by one walk over a module that costs far less than
//! compiling it.
//!
//! A module that is malformed passes as far as it was understood: the compiler says what is wrong.

use std::collections::VecDeque;

use wasmparser::{
    CompositeInnerType, FunctionBody, FunctionSectionReader, Operator, Parser, Payload, RecGroup,
    TypeSectionReader,
};

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

/// The most of a function's square of locals set in loops, times the depth of its nested loops: the
/// time to compile it grows with that, by some seconds for this much in a build without
/// optimizations.
const LOOP_WORK_MAX: u64 = 20_000_000;

/// The most code of a small program, in bytes.
const SMALL_CODE_BYTES_MAX: u64 = 64 * 1024;

/// The most locals times blocks of a small program, over all its functions: a program that prints
/// has a tenth of it.
const SMALL_LOCALS_BY_BLOCKS_MAX: u64 = 500_000;

/// The most loop work of a small program, over all its functions: a fraction of a second.
const SMALL_LOOP_WORK_MAX: u64 = 1_000_000;

/// What compiling a program is expected to cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CompileCost {
    code_bytes: u64,
    locals_by_blocks: u64,
    loop_work: u64,
}

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
    #[error(
        "take function {function_idx} of {n_set} locals set in {depth} nested loops: the square of the locals times the loops is more than {LOOP_WORK_MAX}"
    )]
    LoopWork { function_idx: u64, n_set: u64, depth: u64 },
}

/// What a walk has counted.
#[derive(Default)]
struct Counts {
    functions: u64,
    items: u64,
    bodies: u64,
    cost: CompileCost,
    /// Parameters of each type of the current module.
    params_by_type: Vec<u64>,
    /// Parameters of each function of the current module.
    params: VecDeque<u64>,
}

/// Checks a module or component, and all modules within it.
///
/// # Errors
/// [`BoundsError`] names the bound that is exceeded first.
pub(super) fn check(program: &[u8]) -> Result<CompileCost, BoundsError> {
    let mut counts = Counts::default();
    for payload in Parser::new(0).parse_all(program) {
        let Ok(payload) = payload else { break };
        counts.add(&payload)?;
    }
    Ok(counts.cost)
}

impl CompileCost {
    /// Whether compiling takes a fraction of a second.
    pub(super) const fn is_small(self) -> bool {
        self.code_bytes <= SMALL_CODE_BYTES_MAX
            && self.locals_by_blocks <= SMALL_LOCALS_BY_BLOCKS_MAX
            && self.loop_work <= SMALL_LOOP_WORK_MAX
    }

    const fn add(&mut self, other: Self) {
        self.code_bytes = self.code_bytes.saturating_add(other.code_bytes);
        self.locals_by_blocks = self.locals_by_blocks.saturating_add(other.locals_by_blocks);
        self.loop_work = self.loop_work.saturating_add(other.loop_work);
    }
}

impl Counts {
    fn add(&mut self, payload: &Payload<'_>) -> Result<(), BoundsError> {
        let n_items = match payload {
            Payload::FunctionSection(section) => {
                self.functions += u64::from(section.count());
                if self.functions <= FUNCTIONS_MAX {
                    self.add_params(section.clone());
                }
                0
            }
            Payload::CodeSectionEntry(body) => {
                self.bodies += 1;
                let n_params = self.params.pop_front().unwrap_or(0);
                self.cost.add(check_body(self.bodies - 1, n_params, body)?);
                0
            }
            Payload::TypeSection(section) => {
                self.add_types(section.clone());
                section.count()
            }
            Payload::Version { .. } => {
                self.params_by_type.clear();
                self.params.clear();
                0
            }
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

    fn add_types(&mut self, section: TypeSectionReader<'_>) {
        let types = section.into_iter().map_while(Result::ok).flat_map(RecGroup::into_types);
        let n_params = types.map(|of_type| match of_type.composite_type.inner {
            CompositeInnerType::Func(function) => function.params().len() as u64,
            _ => 0,
        });
        let n_free = ITEMS_MAX.saturating_sub(self.params_by_type.len() as u64);
        self.params_by_type.extend(n_params.zip(0..n_free).map(|(n_params, _)| n_params));
    }

    fn add_params(&mut self, section: FunctionSectionReader<'_>) {
        let types = section.into_iter().map_while(Result::ok);
        let n_params = types.map(|type_idx| {
            let found = usize::try_from(type_idx).ok().and_then(|i| self.params_by_type.get(i));
            found.copied().unwrap_or(0)
        });
        self.params.extend(n_params);
    }
}

fn check_body(
    function_idx: u64,
    n_params: u64,
    body: &FunctionBody<'_>,
) -> Result<CompileCost, BoundsError> {
    let mut cost = CompileCost { code_bytes: body.range().len() as u64, ..Default::default() };
    let Ok(locals) = body.get_locals_reader() else { return Ok(cost) };
    let n_declared: u64 = locals.into_iter().flatten().map(|(count, _)| u64::from(count)).sum();
    let n_locals = n_params.saturating_add(n_declared);
    let Ok(operators) = body.get_operators_reader() else { return Ok(cost) };
    let mut n_set = 0_u64;
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
            Operator::LocalSet { .. } | Operator::LocalTee { .. } if depth > 0 => n_set += 1,
            Operator::End if open.pop() == Some(true) => depth -= 1,
            _ => {}
        }
    }
    let n_set = n_set.min(n_locals);
    cost.locals_by_blocks = n_locals.saturating_mul(n_blocks);
    cost.loop_work = n_set.saturating_mul(n_set).saturating_mul(depth_max);
    if cost.locals_by_blocks > LOCALS_BY_BLOCKS_MAX {
        return Err(BoundsError::Blocks { function_idx, n_locals, n_blocks });
    }
    if depth_max > 1 && n_locals.saturating_mul(depth_max) > LOCALS_BY_LOOPS_MAX {
        return Err(BoundsError::Loops { function_idx, n_locals, depth: depth_max });
    }
    if depth_max > 1 && cost.loop_work > LOOP_WORK_MAX {
        return Err(BoundsError::LoopWork { function_idx, n_set, depth: depth_max });
    }
    Ok(cost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_fields(fields: &str, want: &Result<(), BoundsError>) {
        let module = wat::parse_str(format!("(module {fields})")).unwrap();
        assert_eq!(&check(&module).map(drop), want);
    }

    /// A function of `n_locals` locals whose body is `n_blocks` times `open`, then as often `)`.
    fn nested(n_locals: usize, n_blocks: usize, open: &str) -> String {
        let locals = "i64 ".repeat(n_locals);
        format!("(func (local {locals}) {}{})", open.repeat(n_blocks), ")".repeat(n_blocks))
    }

    #[test]
    fn common_compiler_output_is_within_bounds() {
        for name in ["hello", "whoami"] {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/functions");
            let module = std::fs::read(format!("{folder}/{name}.wasm")).unwrap();
            assert!(check(&module).is_ok_and(CompileCost::is_small), "{:?}", check(&module));
        }
        check_fields(&nested(2000, 30, "(loop "), &Ok(()));
        check_fields(&nested(2000, 5000, "(block "), &Ok(()));
        // Loops beside one another are not nested.
        let locals = "i64 ".repeat(2000);
        check_fields(&format!("(func (local {locals}) {})", "(loop)".repeat(500)), &Ok(()));
        assert_eq!(check(b"not a module"), Ok(CompileCost::default()));
    }

    #[test]
    fn loops_in_loops_of_many_locals_are_refused() {
        let want = BoundsError::Loops { function_idx: 1, n_locals: 1000, depth: 300 };
        check_fields(&format!("(func) {}", nested(1000, 300, "(loop ")), &Err(want));
    }

    /// A function with `n_loops` nested loops that set `n_locals` locals.
    fn setting(n_locals: usize, n_loops: usize) -> String {
        let locals = "i64 ".repeat(n_locals);
        let sets = "(local.set 0 (i64.const 1))".repeat(n_locals);
        let (open, close) = ("(loop ".repeat(n_loops), ")".repeat(n_loops));
        format!("(func (local {locals}) {open} {sets} {close})")
    }

    #[test]
    fn loops_that_set_many_locals_are_large_and_then_refused() {
        let check_setting = |n_locals, n_loops| {
            let function = setting(n_locals, n_loops);
            check(&wat::parse_str(format!("(module {function})")).unwrap())
        };
        assert!(check_setting(100, 10).is_ok_and(CompileCost::is_small));
        assert!(check_setting(1000, 12).is_ok_and(|cost| !cost.is_small()));
        let want = BoundsError::LoopWork { function_idx: 0, n_set: 1000, depth: 90 };
        assert_eq!(check_setting(1000, 90), Err(want));
    }

    #[test]
    fn parameters_count_as_locals() {
        let want = BoundsError::Loops { function_idx: 0, n_locals: 1000, depth: 300 };
        let function = nested(100, 300, "(loop ");
        let params = "i64 ".repeat(900);
        let function = function.replacen("(func", &format!("(func (param {params})"), 1);
        check_fields(&function, &Err(want));
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
