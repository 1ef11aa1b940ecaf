//! Limits and errors of host calls.

use wasmparser::{BinaryReader, Operator, OperatorsReader, Parser, Payload, TypeRef};
use wasmtime::component::ResourceTableError;
use wasmtime::{Error, FrameInfo, WasmBacktrace};
use wasmtime_wasi::ResourceTable;
use wasmtime_wasi::filesystem::Descriptor;

/// Maximum number of open files and directories of a guest. This process can open some thousand for all
/// guests.
const FILES_MAX: usize = 64;

/// Maximum number of events that a guest can wait for at a time. A file or a clock rarely has more than
/// two.
pub(crate) const SUBSCRIPTIONS_MAX: u32 = 256;

/// Maximum number of a guest's handles: its open files, plus a stream and an event for each
/// subscription, which do not use open files of this process.
pub(crate) const RESOURCES_MAX: usize = FILES_MAX + 2 * SUBSCRIPTIONS_MAX as usize;

/// Maximum length of a call's name in error messages. Names of WASI have about 50 bytes, but a component
/// can choose the names of its own imports.
const NAME_BYTES_MAX: usize = 100;

/// Returns true if a guest with this table cannot open another file.
pub(crate) fn is_out_of_files(table: &mut ResourceTable) -> bool {
    table.iter_mut().filter(|entry| entry.is::<Descriptor>()).count() >= FILES_MAX
}

/// Describes an `error` of the host, for example `fd_write: missing required memory export`. The call's
/// name is omitted if the guest called indirectly.
pub(crate) fn describe(error: &Error, program: &[u8]) -> String {
    let reason = match error.downcast_ref() {
        Some(ResourceTableError::Full) => {
            format!("{RESOURCES_MAX} files, streams and events are already open")
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

/// Returns the name of the import that the instruction at `offset` of `program` calls. `None` if it is
/// not a direct call of an import.
fn import_called_at(program: &[u8], offset: usize) -> Option<&str> {
    let mut imports = Vec::new();
    for payload in Parser::new(0).parse_all(program) {
        match payload.ok()? {
            // A component contains several modules, each with its own imports.
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
