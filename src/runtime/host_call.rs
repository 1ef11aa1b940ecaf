//! Why a host call ended its guest: the call's name, and the host's error.

use wasmparser::{BinaryReader, Operator, OperatorsReader, Parser, Payload, TypeRef};
use wasmtime::{Error, FrameInfo, WasmBacktrace, component::ResourceTableError};

/// What a guest may have open at once, its standard streams among it: each open file is one of this
/// process, which has some thousand for all.
pub(crate) const RESOURCES_MAX: usize = 64;

/// The longest name of a call that is shown, in bytes. Those of WASI have some 50; a component may
/// name its own imports.
const NAME_BYTES_MAX: usize = 100;

/// Describes the host's `error`, which is no trap of the guest's own code, as `path_open: 64 files
/// and streams are open already`. Without the call's name where the guest called indirectly.
pub(crate) fn describe(error: &Error, program: &[u8]) -> String {
    let reason = match error.downcast_ref() {
        Some(ResourceTableError::Full) => {
            format!("{RESOURCES_MAX} files and streams are open already")
        }
        _ => error.root_cause().to_string(),
    };
    let frame = error.downcast_ref::<WasmBacktrace>().and_then(|trace| trace.frames().first());
    let call = frame.and_then(FrameInfo::module_offset);
    match call.and_then(|offset| import_called_at(program, offset)) {
        Some(name) => format!("{name}: {reason}"),
        None => reason,
    }
}

/// Returns the name of the import that the instruction at `offset` of `program` calls. None if it
/// calls none, or does so through a table.
fn import_called_at(program: &[u8], offset: usize) -> Option<&str> {
    let mut imports = Vec::new();
    for payload in Parser::new(0).parse_all(program) {
        match payload.ok()? {
            // A component has modules within it.
            Payload::Version { .. } => imports.clear(),
            Payload::ImportSection(section) => {
                let functions = section
                    .into_imports()
                    .filter_map(Result::ok)
                    .filter(|import| matches!(import.ty, TypeRef::Func(_) | TypeRef::FuncExact(_)));
                imports.extend(functions.map(|import| import.name));
            }
            Payload::CodeSectionEntry(body) if body.range().contains(&offset) => {
                let rest = program.get(offset..body.range().end)?;
                let mut operators = OperatorsReader::new(BinaryReader::new(rest, offset));
                let (Operator::Call { function_index } | Operator::ReturnCall { function_index }) =
                    operators.read().ok()?
                else {
                    return None;
                };
                let name: &str = imports.get(usize::try_from(function_index).ok()?)?;
                let is_plain = name.bytes().all(|byte| byte.is_ascii_graphic());
                return Some(name).filter(|name| is_plain && name.len() <= NAME_BYTES_MAX);
            }
            _ => {}
        }
    }
    None
}
