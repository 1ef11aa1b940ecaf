//! WASI preview 1 for commands. Calls that add to a guest's files are charged to its quota. Calls that
//! exceed a limit of the host return an error number and do not end the guest.

use wasmtime::{AsContextMut as _, Caller, Extern, Linker};
use wasmtime_wasi::{
    I32Exit, WasiView as _,
    p1::{
        self,
        wasi_snapshot_preview1::{self as preview1, WasiSnapshotPreview1 as _},
    },
};
use wiggle::{GuestMemory, GuestPtr};

use super::Guest;
use crate::{
    host_call::{SUBSCRIPTIONS_MAX, is_out_of_files},
    quota::WRITE_BYTES_MAX,
};

/// Module name of WASI preview 1.
const WASI: &str = "wasi_snapshot_preview1";

/// Error number of preview 1 for success.
const SUCCESS: i32 = 0;

/// Error number of preview 1 for an invalid argument.
const INVALID: i32 = 28;

/// Error number of preview 1 for too many open files.
const TOO_MANY_FILES: i32 = 33;

/// Mask of an exit code, since the code of a process has only eight bits. A guest must have the same
/// code whether it runs in its own process or here.
const EXIT_CODE_BITS: i32 = 0xff;

/// Maximum number of random bytes per call, as in the library.
const RANDOM_BYTES_MAX: u32 = 64 * 1024 * 1024;

/// Flag of `path_open` that creates a file.
const CREATE: i32 = 1;

/// Maximum number of vectors per write, as on Linux.
const VECTORS_MAX: u32 = 1024;

/// Size of a vector: an address and a length.
const VECTOR_BYTES: u32 = 8;

/// Offset of the length in a vector.
const LENGTH_AT: u32 = 4;

/// The vectors of a write, given by their address and number.
#[derive(Clone, Copy)]
struct Vectors {
    at: u32,
    n: u32,
}

/// Check that precedes a call.
#[derive(Clone, Copy)]
enum Check {
    /// The write has a permitted number of vectors.
    Vectors(Vectors),
    /// Another file can be opened.
    Files,
    /// The first number must not exceed the second.
    AtMost(i32, u32),
    Nothing,
}

/// Amount that a call is charged.
#[derive(Clone, Copy)]
enum Charge {
    /// The number of bytes that the call stored at this address of the guest's memory.
    Written(u32),
    /// At most this number of bytes.
    Bytes(u64),
    /// An entry of a directory.
    Entry,
    Nothing,
}

/// Defines a function of preview 1 that is checked before the call and charged after it.
macro_rules! charged {
    ($linker:ident, $module:ident::$name:ident($($arg:ident: $kind:ty),+), $check:expr, $added:expr) => {
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
                    let check: Check = $check;
                    if let Some(code) = check.refusal(guest) {
                        return Ok(code);
                    }
                    let shortened = match check {
                        Check::Vectors(vectors) if guest.quota.is_some() => {
                            shorten(&mut memory, vectors)
                        }
                        _ => None,
                    };
                    let code = $module::$name(&mut guest.wasi, &mut memory, $($arg),+).await?;
                    if let Some((length, n_bytes)) = shortened {
                        memory.write(length, n_bytes)?;
                    }
                    if code == SUCCESS {
                        charge(guest, &memory, $added)?;
                    }
                    Ok(code)
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
    charged!(
        linker,
        preview1::fd_write(file: i32, vectors: i32, n_vectors: i32, n_written: i32),
        Check::Vectors(Vectors::new(vectors, n_vectors)),
        Charge::Written(n_written.cast_unsigned())
    );
    charged!(
        linker,
        preview1::fd_pwrite(file: i32, vectors: i32, n_vectors: i32, at: i64, n_written: i32),
        Check::Vectors(Vectors::new(vectors, n_vectors)),
        Charge::Written(n_written.cast_unsigned())
    );
    charged!(
        linker,
        preview1::fd_filestat_set_size(file: i32, size: i64),
        Check::Nothing,
        Charge::Bytes(size.cast_unsigned())
    );
    charged!(
        linker,
        preview1::path_open(
            folder: i32, lookup: i32, path: i32, n_path: i32, how: i32, rights: i64,
            inherited: i64, flags: i32, opened: i32
        ),
        Check::Files,
        if how & CREATE == 0 { Charge::Nothing } else { Charge::Entry }
    );
    charged!(
        linker,
        preview1::path_create_directory(folder: i32, path: i32, n_path: i32),
        Check::Nothing,
        Charge::Entry
    );
    charged!(
        linker,
        preview1::path_symlink(target: i32, n_target: i32, folder: i32, path: i32, n_path: i32),
        Check::Nothing,
        Charge::Entry
    );
    charged!(
        linker,
        preview1::path_link(
            folder: i32, lookup: i32, path: i32, n_path: i32, new_folder: i32, new_path: i32,
            n_new_path: i32
        ),
        Check::Nothing,
        Charge::Entry
    );
    charged!(
        linker,
        preview1::poll_oneoff(subscriptions: i32, events: i32, n_subscriptions: i32, n_events: i32),
        Check::AtMost(n_subscriptions, SUBSCRIPTIONS_MAX),
        Charge::Nothing
    );
    charged!(
        linker,
        immediate::random_get(at: i32, n_bytes: i32),
        Check::AtMost(n_bytes, RANDOM_BYTES_MAX),
        Charge::Nothing
    );
    linker.allow_shadowing(false);
    Ok(())
}

impl Vectors {
    const fn new(at: i32, n: i32) -> Self {
        Self { at: at.cast_unsigned(), n: n.cast_unsigned() }
    }
}

impl Check {
    /// Returns the error number for a call that exceeds a limit.
    fn refusal(self, guest: &mut Guest) -> Option<i32> {
        let (is_refused, code) = match self {
            Self::Vectors(vectors) => (vectors.n > VECTORS_MAX, INVALID),
            Self::Files => (is_out_of_files(guest.wasi.ctx().table), TOO_MANY_FILES),
            Self::AtMost(n, n_max) => (n.cast_unsigned() > n_max, INVALID),
            Self::Nothing => return None,
        };
        is_refused.then_some(code)
    }
}

/// Shortens the first non-empty vector to the maximum of a write, so that the other vectors are not
/// written. Returns the address of its length, and the previous length. Unreadable vectors are reported
/// by the call itself.
fn shorten(memory: &mut GuestMemory<'_>, vectors: Vectors) -> Option<(GuestPtr<u32>, u32)> {
    for n in 0..vectors.n {
        let at = vectors.at.checked_add(n.checked_mul(VECTOR_BYTES)?)?.checked_add(LENGTH_AT)?;
        let length = GuestPtr::<u32>::new(at);
        let n_bytes = memory.read(length).ok()?;
        if n_bytes > WRITE_BYTES_MAX {
            memory.write(length, WRITE_BYTES_MAX).ok()?;
            return Some((length, n_bytes));
        }
        if n_bytes > 0 {
            return None;
        }
    }
    None
}

/// Charges a guest's quota, if it has one, and records its open files.
fn charge(guest: &mut Guest, memory: &GuestMemory<'_>, added: Charge) -> wasmtime::Result<()> {
    let Some(quota) = &guest.quota else { return Ok(()) };
    match added {
        Charge::Written(at) => {
            let n_bytes = memory.read(GuestPtr::<u32>::new(at))?;
            quota.wrote(n_bytes.into())?;
        }
        Charge::Bytes(n_bytes) => quota.wrote(n_bytes)?,
        Charge::Entry => {
            quota.note_open(guest.wasi.ctx().table);
            quota.charge_entry()?;
        }
        Charge::Nothing => quota.note_open(guest.wasi.ctx().table),
    }
    Ok(())
}
