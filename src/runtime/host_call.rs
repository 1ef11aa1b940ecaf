//! Limits and errors of host calls.

use wasmtime::Error;
use wasmtime::component::ResourceTableError;
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

/// Returns true if a guest with this table cannot open another file.
pub(crate) fn is_out_of_files(table: &mut ResourceTable) -> bool {
    table.iter_mut().filter(|entry| entry.is::<Descriptor>()).count() >= FILES_MAX
}

/// Describes an `error` of the host, for example `missing required memory export`.
pub(crate) fn describe(error: &Error) -> String {
    match error.downcast_ref() {
        Some(ResourceTableError::Full) => {
            format!("{RESOURCES_MAX} files, streams and events are already open")
        }
        _ => error.root_cause().to_string(),
    }
}
