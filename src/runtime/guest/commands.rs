//! WASI preview 1 for commands. Calls that exceed a limit of the host return an error number and do not
//! end the guest.

use wasmtime::{AsContextMut as _, Caller, Extern, Linker};
use wasmtime_wasi::{
    I32Exit, WasiView as _,
    p1::{
        self,
        wasi_snapshot_preview1::{self as preview1, WasiSnapshotPreview1 as _},
    },
};
use wiggle::GuestMemory;

use super::Guest;
use crate::host_call::{SUBSCRIPTIONS_MAX, is_out_of_files};

/// Module name of WASI preview 1.
const WASI: &str = "wasi_snapshot_preview1";

/// Error number of preview 1 for an invalid argument.
const INVALID: i32 = 28;

/// Error number of preview 1 for too many open files.
const TOO_MANY_FILES: i32 = 33;

/// Mask of an exit code, since the code of a process has only eight bits. A guest must have the same
/// code whether it runs in its own process or here.
const EXIT_CODE_BITS: i32 = 0xff;

/// Maximum number of random bytes per call, as in the library.
const RANDOM_BYTES_MAX: u32 = 64 * 1024 * 1024;

/// Maximum number of vectors per write, as on Linux.
const VECTORS_MAX: u32 = 1024;

/// Defines a function of preview 1 that returns the error number `$code` if `$is_refused` returns true.
macro_rules! limited {
    ($linker:ident, $module:ident::$name:ident($($arg:ident: $kind:ty),+), $is_refused:expr, $code:ident) => {
        $linker.func_wrap_async(
            WASI,
            stringify!($name),
            |mut caller: Caller<'_, Guest>, ($($arg,)+): ($($kind,)+)| {
                Box::new(async move {
                    let memory = caller.get_export("memory");
                    let fuel = caller.as_context_mut().hostcall_fuel();
                    let (mut memory, guest) = match &memory {
                        Some(Extern::Memory(memory)) => {
                            let (bytes, guest) = memory.data_and_store_mut(&mut caller);
                            (GuestMemory::Unshared(bytes), guest)
                        }
                        Some(Extern::SharedMemory(memory)) => {
                            (GuestMemory::Shared(memory.data()), caller.data_mut())
                        }
                        _ => wasmtime::bail!("missing required memory export"),
                    };
                    guest.wasi.set_hostcall_fuel(fuel);
                    let is_refused: fn(&mut Guest, $($kind),+) -> bool = $is_refused;
                    if is_refused(guest, $($arg),+) {
                        return Ok($code);
                    }
                    $module::$name(&mut guest.wasi, &mut memory, $($arg),+).await
                })
            },
        )?;
    };
}

/// Synchronous versions of preview 1 functions, with the signatures of the asynchronous functions.
mod immediate {
    use std::future::{Ready, ready};

    use wasmtime_wasi::p1::WasiP1Ctx;

    use super::{GuestMemory, preview1};

    pub(super) fn random_get(
        wasi: &mut WasiP1Ctx,
        memory: &mut GuestMemory<'_>,
        at: i32,
        n_bytes: i32,
    ) -> Ready<wasmtime::Result<i32>> {
        ready(preview1::random_get(wasi, memory, at, n_bytes))
    }
}

/// Adds WASI preview 1 to a linker.
///
/// # Errors
/// The engine's error, which names the function.
pub(crate) fn offer(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    p1::add_to_linker_async(linker, |guest| &mut guest.wasi)?;
    linker.allow_shadowing(true);
    // The library's version traps for codes above 125, such as C's `exit(-1)`.
    linker.func_wrap(WASI, "proc_exit", |code: i32| -> wasmtime::Result<()> {
        Err(I32Exit(code & EXIT_CODE_BITS).into())
    })?;
    limited!(
        linker,
        preview1::fd_write(file: i32, vectors: i32, n_vectors: i32, n_written: i32),
        |_, _, _, n_vectors, _| n_vectors.cast_unsigned() > VECTORS_MAX,
        INVALID
    );
    limited!(
        linker,
        preview1::fd_pwrite(file: i32, vectors: i32, n_vectors: i32, at: i64, n_written: i32),
        |_, _, _, n_vectors, _, _| n_vectors.cast_unsigned() > VECTORS_MAX,
        INVALID
    );
    limited!(
        linker,
        preview1::path_open(
            folder: i32, lookup: i32, path: i32, n_path: i32, how: i32, rights: i64,
            inherited: i64, flags: i32, opened: i32
        ),
        |guest, _, _, _, _, _, _, _, _, _| is_out_of_files(guest.wasi.ctx().table),
        TOO_MANY_FILES
    );
    limited!(
        linker,
        preview1::poll_oneoff(subscriptions: i32, events: i32, n_subscriptions: i32, n_events: i32),
        |_, _, _, n_subscriptions, _| n_subscriptions.cast_unsigned() > SUBSCRIPTIONS_MAX,
        INVALID
    );
    limited!(
        linker,
        immediate::random_get(at: i32, n_bytes: i32),
        |_, _, n_bytes| n_bytes.cast_unsigned() > RANDOM_BYTES_MAX,
        INVALID
    );
    linker.allow_shadowing(false);
    Ok(())
}
