//! One guest: the host it sees, and its run from start to end.

use std::{convert::Infallible, io};

use tokio::{runtime::Builder, sync::oneshot, time::Instant};
use wasmtime::{InstancePre, Linker, Store};
use wasmtime_wasi::{
    I32Exit, WasiCtxBuilder,
    p1::{self, WasiP1Ctx},
    p2::pipe::MemoryInputPipe,
};

use crate::{
    exit::{Exit, Stop, reason},
    memory::MemoryLimit,
    output::Output,
    run::{Finished, Run},
};

/// The function that a WASI command exports.
pub(crate) const START: &str = "_start";

/// The module name that WASI preview 1 is imported from.
const WASI: &str = "wasi_snapshot_preview1";

/// What the host holds for one guest.
pub(crate) struct Guest {
    wasi: WasiP1Ctx,
    memory: MemoryLimit,
}

/// Waits for the one who waits for the guest to go away: nothing is ever sent.
pub(crate) type Abandoned = oneshot::Receiver<Infallible>;

/// Offers a guest WASI preview 1 and nothing else.
///
/// # Errors
/// The engine's, which names the function that cannot be offered.
pub(crate) fn offer_wasi(linker: &mut Linker<Guest>) -> wasmtime::Result<()> {
    p1::add_to_linker_async(linker, |guest| &mut guest.wasi)?;
    // The library's own traps on codes above 125, which C's `exit(-1)` has.
    linker.allow_shadowing(true);
    linker.func_wrap(WASI, "proc_exit", |code: i32| -> wasmtime::Result<()> {
        Err(I32Exit(code).into())
    })?;
    linker.allow_shadowing(false);
    Ok(())
}

/// Runs a guest to its end, its deadline, or until nobody waits for it any more: then none.
///
/// Blocks the thread, which must not be one that drives futures. The guest's clock is a driver of
/// its own, so that its sleeps end with it, whatever the caller's runtime does.
///
/// # Errors
/// The system's, where it refuses that driver.
pub(crate) fn run(
    program: &InstancePre<Guest>,
    run: Run,
    abandoned: Abandoned,
) -> io::Result<Option<Finished>> {
    let driver = Builder::new_current_thread().enable_time().build()?;
    Ok(driver.block_on(run_until_stopped(program, run, abandoned)))
}

async fn run_until_stopped(
    program: &InstancePre<Guest>,
    run: Run,
    abandoned: Abandoned,
) -> Option<Finished> {
    let limits = run.limits;
    let output = Output::new(limits.output_bytes);
    let guest = Guest { wasi: wasi(run, &output), memory: MemoryLimit::new(limits.memory_bytes) };
    let mut store = Store::new(program.module().engine(), guest);
    store.limiter(|guest| &mut guest.memory);
    store.epoch_deadline_async_yield_and_update(1);
    store.set_epoch_deadline(1);

    let started = Instant::now();
    let stop = tokio::select! {
        biased;
        _ = abandoned => return None,
        result = call(program, &mut store) => Stop::Ended(result),
        () = tokio::time::sleep(limits.wall) => Stop::Deadline,
    };
    let wall = started.elapsed();

    let mut written = output.take();
    let memory = &store.data().memory;
    let exit = Exit::of(&stop, memory, &written);
    if let Some(reason) = reason(exit.ended, &limits, memory) {
        if written.stderr.last().is_some_and(|last| *last != b'\n') {
            written.stderr.push(b'\n');
        }
        written.stderr.extend_from_slice(reason.as_bytes());
    }
    Some(Finished {
        stdout: written.stdout,
        stderr: written.stderr,
        exit_code: exit.code,
        ended: exit.ended,
        wall,
        memory_peak_bytes: memory.peak_bytes(),
    })
}

async fn call(program: &InstancePre<Guest>, store: &mut Store<Guest>) -> wasmtime::Result<()> {
    let instance = program.instantiate_async(&mut *store).await?;
    let start = instance.get_typed_func::<(), ()>(&mut *store, START)?;
    start.call_async(&mut *store, ()).await
}

/// No directories, no network, and of the environment what the run says.
fn wasi(run: Run, output: &Output) -> WasiP1Ctx {
    let mut wasi = WasiCtxBuilder::new();
    wasi.arg(run.name).args(&run.arguments);
    for (name, value) in &run.environment {
        wasi.env(name, value);
    }
    wasi.stdin(MemoryInputPipe::new(run.stdin)).stdout(output.stdout()).stderr(output.stderr());
    wasi.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);
    wasi.build_p1()
}
