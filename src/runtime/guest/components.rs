//! WASI preview 2 for components. Only the call that opens a file differs from the library's.

use wasmtime::StoreContextMut;
use wasmtime::component::{Linker, Resource};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemView as _};
use wasmtime_wasi::p2::bindings::filesystem::types::{
    DescriptorFlags, ErrorCode, Host as _, HostDescriptor as _, OpenFlags, PathFlags,
};
use wasmtime_wasi::{WasiView as _, p2};

use super::Guest;
use crate::host_call::is_out_of_files;

/// Interface of files in the library's version.
const FILES: &str = "wasi:filesystem/types@0.2.12";

/// Arguments of the call: directory, lookup of links, path, and how to open it.
type Opening = (Resource<Descriptor>, PathFlags, String, OpenFlags, DescriptorFlags);

/// Adds WASI preview 2 to a linker.
///
/// # Errors
/// The engine's error, which names the function.
pub(crate) fn offer(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    p2::add_to_linker_async(linker)?;
    linker.allow_shadowing(true);
    linker.instance(FILES)?.func_wrap_async(
        "[method]descriptor.open-at",
        |mut store: StoreContextMut<'_, Guest>, opening: Opening| {
            Box::new(async move { Ok((open(store.data_mut(), opening).await?,)) })
        },
    )?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Opens a file or directory, unless too many are open.
async fn open(
    guest: &mut Guest,
    (folder, lookup, path, how, flags): Opening,
) -> wasmtime::Result<Result<Resource<Descriptor>, ErrorCode>> {
    if is_out_of_files(guest.wasi.ctx().table) {
        // Preview 2 has no error for too many open files.
        return Ok(Err(ErrorCode::InsufficientMemory));
    }
    let mut files = guest.wasi.filesystem();
    let opened = match files.open_at(folder, lookup, path, how, flags).await {
        Ok(opened) => opened,
        Err(error) => return files.convert_error_code(error).map(Err),
    };
    if let Some(quota) = &mut guest.quota {
        // A stream keeps the file open after its descriptor is dropped.
        quota.note_open(guest.wasi.ctx().table);
    }
    Ok(Ok(opened))
}
