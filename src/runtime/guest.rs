//! A guest: its WASI context and its run.

pub(crate) mod commands;
pub(crate) mod components;

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use wasmtime::{Engine, InstancePre, Linker, Module, Store, component};
use wasmtime_wasi::p1::WasiP1Ctx;
use wasmtime_wasi::p2::bindings::CommandPre;
use wasmtime_wasi::p2::pipe::MemoryInputPipe;
use wasmtime_wasi::{FsPerms, WasiCtxBuilder, WasiCtxView, WasiView};

use crate::driver::{self, FirstPoll};
use crate::error::{ProgramError, RunError};
use crate::exit::{Exit, Stop, reason};
use crate::files::{FUNCTION_DIR, Folder};
use crate::memory::MemoryLimit;
use crate::output::{Output, Streams};
use crate::program::Program;
use crate::quota::Quota;
use crate::run::{Limits, Run, RunEnd, RunOutcome};
use crate::{host_call, system};

/// Prefix of the names of WASI preview 2's file interfaces.
const WASI_FILES: &str = "wasi:filesystem/";

/// Host-side state of a guest.
pub(crate) struct Guest {
    wasi: WasiP1Ctx,
    memory: MemoryLimit,
    /// Quota of the guest's files; `None` if they are unlimited or the guest has no files.
    quota: Option<Quota>,
}

/// A compiled and linked program.
pub(crate) struct Ready {
    form: Form,
    /// True if the program imports functions for files. Otherwise its runs need no directory.
    has_files: bool,
    /// Maximum processor time of a short run.
    short_cpu: Duration,
    /// True if the program's latest run was short.
    was_short: AtomicBool,
}

/// Kind of a program.
enum Form {
    /// A WASI preview 1 command.
    Command(InstancePre<Guest>),
    /// A WASI preview 2 component.
    Component(CommandPre<Guest>),
}

/// Closed once no caller waits for the guest. No value is ever sent.
pub(crate) type Abandoned = oneshot::Receiver<Infallible>;

impl WasiView for Guest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        self.wasi.ctx()
    }
}

impl Ready {
    /// Links a command. A run counts as short if it uses at most `short_cpu`.
    ///
    /// # Errors
    /// The engine's error, which names the missing import.
    pub(crate) fn command(
        linker: &Linker<Guest>,
        module: &Module,
        short_cpu: Duration,
    ) -> wasmtime::Result<Self> {
        let has_files = module.imports().any(|import| import.name().starts_with("path_"));
        let form = Form::Command(linker.instantiate_pre(module)?);
        Ok(Self { form, has_files, short_cpu, was_short: AtomicBool::new(false) })
    }

    /// Links a component. A run counts as short if it uses at most `short_cpu`.
    ///
    /// # Errors
    /// The engine's error, which names the missing import or export.
    pub(crate) fn component(
        linker: &component::Linker<Guest>,
        component: &component::Component,
        short_cpu: Duration,
    ) -> wasmtime::Result<Self> {
        let names = component.component_type();
        let has_files =
            names.imports(linker.engine()).any(|(name, _)| name.starts_with(WASI_FILES));
        let command = CommandPre::new(linker.instantiate_pre(component)?)?;
        let form = Form::Component(command);
        Ok(Self { form, has_files, short_cpu, was_short: AtomicBool::new(false) })
    }

    /// Returns the size of the compiled code in memory.
    pub(crate) fn n_bytes(&self) -> usize {
        let image = match &self.form {
            Form::Command(command) => command.module().image_range(),
            Form::Component(component) => component.instance_pre().component().image_range(),
        };
        image.end.addr().saturating_sub(image.start.addr())
    }

    /// Checks that a run can start at `entry`.
    ///
    /// # Errors
    /// [`ProgramError::NoStart`] if `entry` is not an exported function without arguments and results.
    pub(crate) fn check_entry(&self, entry: &str) -> Result<(), ProgramError> {
        let Form::Command(command) = &self.form else { return Ok(()) };
        let export = command.module().get_export(entry);
        let function = export.as_ref().and_then(|export| export.func());
        match function {
            Some(function) if function.params().len() == 0 && function.results().len() == 0 => {
                Ok(())
            }
            _ => Err(ProgramError::NoStart { entry: entry.to_owned() }),
        }
    }

    /// Returns true if the program can run with [`begin`]: its latest run was short, and it never waits
    /// for files.
    pub(crate) fn is_short(&self) -> bool {
        matches!(self.form, Form::Command(_))
            && !self.has_files
            && self.was_short.load(Ordering::Relaxed)
    }

    fn engine(&self) -> &Engine {
        match &self.form {
            Form::Command(command) => command.module().engine(),
            Form::Component(component) => component.engine(),
        }
    }

    /// Runs the guest until it returns. Returns its exit code.
    async fn call(&self, store: &mut Store<Guest>, entry: &str) -> wasmtime::Result<i32> {
        match &self.form {
            Form::Command(command) => {
                let instance = command.instantiate_async(&mut *store).await?;
                store.data_mut().memory.has_started = true;
                let start = instance.get_typed_func::<(), ()>(&mut *store, entry)?;
                start.call_async(&mut *store, ()).await.map(|()| 0)
            }
            Form::Component(component) => {
                let command = component.instantiate_async(&mut *store).await?;
                store.data_mut().memory.has_started = true;
                let outcome = command.wasi_cli_run().call_run(&mut *store).await?;
                Ok(i32::from(outcome.is_err()))
            }
        }
    }
}

/// Runs a guest until it exits or reaches its deadline. Returns `None` if it is abandoned.
///
/// Blocks the thread, which must not drive futures.
///
/// # Errors
/// [`RunError`] if the guest's files or its clock cannot be set up.
pub(crate) fn run(
    ready: &Ready,
    program: &Program,
    run: Run,
    streams: Streams,
    abandoned: Abandoned,
) -> Result<Option<RunOutcome>, RunError> {
    driver::block_on(run_until_stopped(ready, program, run, streams, abandoned))
        .map_err(|source| RunError::Clock { source })?
}

/// Runs a guest in this thread, even if the thread also drives futures, until the guest exits or waits,
/// or a tick has passed. Another thread runs the rest.
///
/// # Errors
/// As [`run`].
pub(crate) fn begin(
    ready: Arc<Ready>,
    program: Program,
    run: Run,
    abandoned: Abandoned,
) -> Result<FirstPoll<Result<Option<RunOutcome>, RunError>>, RunError> {
    let run =
        async move { run_until_stopped(&ready, &program, run, Streams::Kept, abandoned).await };
    driver::begin(Box::pin(run)).map_err(|source| RunError::Clock { source })
}

async fn run_until_stopped(
    ready: &Ready,
    program: &Program,
    mut run: Run,
    streams: Streams,
    abandoned: Abandoned,
) -> Result<Option<RunOutcome>, RunError> {
    let limits = run.limits;
    let folder = match run.files.take() {
        Some(files) if ready.has_files => {
            Some(Folder::make(files).map_err(|source| RunError::Files { source })?)
        }
        _ => None,
    };
    let output = Output::new(streams, limits.output_bytes);
    let wasi = wasi(&mut run, folder.as_ref(), &output)
        .map_err(|error| RunError::Files { source: std::io::Error::other(error) })?;
    let quota = folder.as_ref().and_then(|folder| Quota::new(&folder.0));
    let mut guest = Guest { wasi, memory: MemoryLimit::new(limits.memory_bytes), quota };
    guest.ctx().table.set_max_capacity(host_call::RESOURCES_MAX);
    let mut store = Store::new(ready.engine(), guest);
    store.limiter(|guest| &mut guest.memory);
    store.epoch_deadline_async_yield_and_update(1);
    store.set_epoch_deadline(1);
    if let Some(fuel) = limits.fuel {
        store
            .set_fuel(fuel)
            .map_err(|error| RunError::Fuel { source: error.into_boxed_dyn_error() })?;
    }

    let (started, mut cpu) = (Instant::now(), Duration::ZERO);
    let stop = {
        let mut call = pin!(ready.call(&mut store, &run.entry));
        // The processor time is measured in each poll, since the run may continue in another thread.
        let call = poll_fn(|context| {
            let cpu_started = system::thread_cpu();
            let polled = call.as_mut().poll(context);
            cpu += system::thread_cpu().saturating_sub(cpu_started);
            polled
        });
        tokio::select! {
            biased;
            _ = abandoned => return Ok(None),
            result = call => Stop::Ended(result),
            () = tokio::time::sleep(limits.wall) => Stop::Deadline,
        }
    };
    let wall = started.elapsed();
    ready.was_short.store(cpu <= ready.short_cpu, Ordering::Relaxed);
    let usage = TimeUsed { wall, cpu };
    Ok(Some(outcome(&stop, program, &output, &store.data().memory, limits, usage)))
}

/// Time used by a run.
#[derive(Clone, Copy)]
struct TimeUsed {
    wall: Duration,
    cpu: Duration,
}

fn outcome(
    stop: &Stop,
    program: &Program,
    output: &Output,
    memory: &MemoryLimit,
    limits: Limits,
    time: TimeUsed,
) -> RunOutcome {
    let mut written = output.take();
    let exit = Exit::new(stop, memory, &written);
    let host_error = match exit.ended {
        RunEnd::Trapped(_) => stop.host_error(),
        _ => None,
    };
    let trap = host_error.map(|error| {
        format!("runtime: trap in a host call: {}\n", host_call::describe(error, &program.bytes))
    });
    if let Some(reason) = trap.or_else(|| reason(exit.ended, &limits, memory)) {
        if written.stderr.last().is_some_and(|last| *last != b'\n') {
            written.stderr.push(b'\n');
        }
        written.stderr.extend_from_slice(reason.as_bytes());
    }
    RunOutcome {
        stdout: written.stdout,
        stderr: written.stderr,
        exit_code: exit.code,
        ended: exit.ended,
        wall: time.wall,
        cpu_user: time.cpu,
        cpu_system: Duration::ZERO,
        memory_peak_bytes: memory.peak_bytes,
    }
}

/// Returns a WASI context without network, with the directory `folder` and the environment of the run.
fn wasi(run: &mut Run, folder: Option<&Folder>, output: &Output) -> wasmtime::Result<WasiP1Ctx> {
    let mut wasi = WasiCtxBuilder::new();
    wasi.arg(&run.name).args(&run.arguments);
    for (name, value) in &run.environment {
        wasi.env(name, value);
    }
    match output.streams {
        Streams::Kept => wasi.stdin(MemoryInputPipe::new(std::mem::take(&mut run.stdin))),
        Streams::Process => wasi.inherit_stdin(),
    };
    wasi.stdout(output.stdout()).stderr(output.stderr());
    wasi.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);
    if let Some(folder) = folder {
        // Opening the directories may block the thread, since a run with files has its own thread. Later
        // calls may not: a sleep that blocks would not end at the deadline.
        wasi.allow_blocking_current_thread(true);
        wasi.preopened_dir(&folder.0.folder, "/", FsPerms::ReadWrite)?;
        if let Some(function) = &folder.0.function {
            wasi.preopened_dir(function, FUNCTION_DIR, FsPerms::ReadOnly)?;
        }
        wasi.allow_blocking_current_thread(false);
    }
    Ok(wasi.build_p1())
}
