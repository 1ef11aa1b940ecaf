//! WASI preview 1 for commands, where calls that add to a guest's files are charged to its quota.

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
use crate::quota::WRITE_BYTES_MAX;

/// The module name that WASI preview 1 is imported from.
const WASI: &str = "wasi_snapshot_preview1";

/// The code of preview 1 for a call that did well.
const SUCCESS: i32 = 0;

/// The code of preview 1 for an argument that makes no sense.
const INVALID: i32 = 28;

/// The bit of `path_open` that has it make a file.
const CREATE: i32 = 1;

/// Vectors that one call may write, as many as Linux takes.
const VECTORS_MAX: u32 = 1024;

/// The size of a vector: an address and a length.
const VECTOR_BYTES: u32 = 8;

/// Where the length is in a vector.
const LENGTH_AT: u32 = 4;

/// The vectors of a write: where they are, and how many.
#[derive(Clone, Copy)]
struct Vectors {
    at: u32,
    n: u32,
}

/// What a call is charged for.
#[derive(Clone, Copy)]
enum Charge {
    /// Bytes, as many as it says at this address of the guest's memory.
    Written(u32),
    /// Bytes, up to as many.
    Bytes(u64),
    /// An entry of a folder.
    Entry,
    Nothing,
}

/// Defines a function of preview 1 that is charged. It writes `$vectors`, if these are some.
macro_rules! charged {
    ($linker:ident, $name:ident($($arg:ident: $kind:ty),+), $vectors:expr, $added:expr) => {
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
                    let vectors: Option<Vectors> = $vectors;
                    let shortened = match vectors.filter(|_| guest.quota.is_some()) {
                        Some(vectors) if vectors.n > VECTORS_MAX => return Ok(INVALID),
                        Some(vectors) => shorten(&mut memory, vectors),
                        None => None,
                    };
                    let code =
                        preview1::$name(&mut guest.wasi, &mut memory, $($arg),+).await?;
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

/// Offers a command WASI preview 1 and nothing else.
///
/// # Errors
/// The engine's, which names the function that cannot be offered.
pub(crate) fn offer(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    p1::add_to_linker_async(linker, |guest| &mut guest.wasi)?;
    linker.allow_shadowing(true);
    // The library's own traps on codes above 125, which C's `exit(-1)` has.
    linker.func_wrap(WASI, "proc_exit", |code: i32| -> wasmtime::Result<()> {
        Err(I32Exit(code).into())
    })?;
    charged!(
        linker,
        fd_write(file: i32, vectors: i32, n_vectors: i32, n_written: i32),
        Some(Vectors::new(vectors, n_vectors)),
        Charge::Written(n_written.cast_unsigned())
    );
    charged!(
        linker,
        fd_pwrite(file: i32, vectors: i32, n_vectors: i32, at: i64, n_written: i32),
        Some(Vectors::new(vectors, n_vectors)),
        Charge::Written(n_written.cast_unsigned())
    );
    charged!(
        linker,
        fd_filestat_set_size(file: i32, size: i64),
        None,
        Charge::Bytes(size.cast_unsigned())
    );
    charged!(
        linker,
        path_open(
            folder: i32, lookup: i32, path: i32, n_path: i32, how: i32, rights: i64,
            inherited: i64, flags: i32, opened: i32
        ),
        None,
        if how & CREATE == 0 { Charge::Nothing } else { Charge::Entry }
    );
    charged!(
        linker,
        path_create_directory(folder: i32, path: i32, n_path: i32),
        None,
        Charge::Entry
    );
    charged!(
        linker,
        path_symlink(target: i32, n_target: i32, folder: i32, path: i32, n_path: i32),
        None,
        Charge::Entry
    );
    charged!(
        linker,
        path_link(
            folder: i32, lookup: i32, path: i32, n_path: i32, new_folder: i32, new_path: i32,
            n_new_path: i32
        ),
        None,
        Charge::Entry
    );
    linker.allow_shadowing(false);
    Ok(())
}

impl Vectors {
    const fn new(at: i32, n: i32) -> Self {
        Self { at: at.cast_unsigned(), n: n.cast_unsigned() }
    }
}

/// Shortens the vector that is written, the first that is not empty, if it is longer than a write may
/// be. Returns where its length is, and what that was. What cannot be read, the call itself refuses.
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

/// Charges a guest's quota, if it has one, and notes which files are open.
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
