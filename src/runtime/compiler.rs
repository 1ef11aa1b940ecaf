//! Compiling programs, contained: in a child process with limits on its time and memory.
//!
//! Compiling takes time and memory that a few bytes of a module can make large, and it cannot be
//! interrupted. So each program is compiled by a child: this same program, called with
//! [`child::COMMAND`], which limits itself before it reads the program (see `child.rs`), and which
//! is killed when its time is up or nobody waits for it any more. Few children run at once:
//! programs that look costly leave one of their places to small ones, and each client one to
//! others. A program that took too much by itself is remembered for a while, and refused at once.

mod bounds;
pub mod child;
mod cpu;
mod imports;
mod permits;
mod process;

use std::{
    collections::VecDeque, error::Error as StdError, io, path::PathBuf, sync::Arc, time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;
use wasmtime::Engine;

use self::permits::{Compilation, CompilePermits, CompileSize};
use crate::{
    error::{CompileStep, ProgramError},
    program::{Program, ProgramKey},
    seal::AuthenticCode,
    settings::Settings,
    system,
};

/// How long a program that took too much is refused without another try. The machine may have been
/// busy with other things.
const REFUSED_FOR: Duration = Duration::from_mins(10);

/// Programs that are remembered as having taken too much. The one noted longest ago goes first.
const REFUSED_MAX: usize = 1024;

/// The largest program that may count as small, its data included. Larger ones are not walked in
/// this process.
const SMALL_PROGRAM_BYTES_MAX: usize = 1024 * 1024;

/// Where programs are compiled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CompileIn {
    /// In a child process of `program`, which must call [`child::run`] where its only argument is
    /// [`child::COMMAND`].
    Child {
        /// The program's file.
        program: PathBuf,
    },
    /// In this process, without any limit: for tests and benches of rooms, which are no such program.
    /// Never for programs of others.
    #[default]
    ThisProcess,
}

impl CompileIn {
    /// In a child process of the program that runs now, also where its file was replaced since.
    ///
    /// # Errors
    /// If the system does not tell which file that is, or cannot limit a process.
    pub fn own_child() -> io::Result<Self> {
        if !system::LIMITS_PROCESSES {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "limit a child process"));
        }
        Ok(Self::Child { program: task::process::own_program()? })
    }
}

/// Why a program has no compiled code.
#[derive(Debug, Clone)]
pub(crate) enum CompileError {
    /// The program is at fault.
    Program(ProgramError),
    /// The child could not be started, or did not work.
    Child(Arc<io::Error>),
    /// Its time was up, most of which the processors spent on other work.
    Busy,
    /// No one waited for it any more, while it was at this step.
    Unwanted(CompileStep),
}

/// Who waits for a compilation.
pub(crate) struct Requester<'a> {
    /// On whose behalf it is.
    pub(crate) client: &'a Arc<str>,
    /// Returns false once no one waits for it any more.
    pub(crate) is_wanted: &'a dyn Fn() -> bool,
    /// Takes what is being waited for.
    pub(crate) note_step: &'a dyn Fn(CompileStep),
}

/// Compiles programs, a few at a time.
#[derive(Debug)]
pub(crate) struct Compiler {
    place: CompileIn,
    /// How long a program may take.
    pub(crate) within: Duration,
    permits: CompilePermits,
    refused: Mutex<VecDeque<Refused>>,
}

/// A program that took too much.
#[derive(Debug)]
struct Refused {
    program: ProgramKey,
    /// Who had it compiled.
    client: Arc<str>,
    error: ProgramError,
    at: Instant,
}

impl Compiler {
    /// Compiles in `place`, each program within `within`.
    pub(crate) fn new(place: CompileIn, within: Duration) -> Self {
        let permits = CompilePermits::of_machine(system::memory_bytes());
        Self { place, within, permits, refused: Mutex::default() }
    }

    /// Returns the code of `program` for `engine`, which has these `settings`. Blocks until it is
    /// compiled, until its time is up, or until soon after no one wants it; the child is gone by then.
    ///
    /// # Errors
    /// [`CompileError`], of which the program's own are the same on every host of this kind.
    pub(crate) fn compile(
        &self,
        engine: &Engine,
        settings: Settings,
        program: &Program,
        requester: &Requester<'_>,
    ) -> Result<AuthenticCode, CompileError> {
        let Requester { client, is_wanted, note_step } = requester;
        if let Some(error) = self.refusal(program) {
            return Err(CompileError::Program(error));
        }
        let compilation = Compilation {
            client: Arc::clone(client),
            size: compile_size(program),
            memory_bytes: process::memory_bytes(program),
            is_suspect: self.is_suspect(client),
        };
        note_step(CompileStep::Queued);
        let _permit = self
            .permits
            .acquire(compilation, is_wanted)
            .ok_or(CompileError::Unwanted(CompileStep::Queued))?;
        note_step(CompileStep::Compiling);
        match &self.place {
            CompileIn::ThisProcess => compile_checked(engine, program)
                .map(AuthenticCode::compiled_here)
                .map_err(|refusal| CompileError::Program(refusal.into())),
            CompileIn::Child { program: path } => {
                let compiled = process::compile(path, settings, program, self.within, is_wanted);
                if let Err(CompileError::Program(
                    error @ (ProgramError::CompileTime { .. } | ProgramError::CompileMemory { .. }),
                )) = &compiled
                {
                    self.note_refusal(program, client, error);
                }
                compiled
            }
        }
    }

    /// Why `program` is not to be compiled: it took too much before.
    fn refusal(&self, program: &Program) -> Option<ProgramError> {
        let mut refused = self.refused.lock();
        refused.retain(|refused| refused.at.elapsed() < REFUSED_FOR);
        let found = refused.iter().find(|refused| refused.program == program.key);
        found.map(|refused| refused.error.clone())
    }

    /// Whether a program of `client` took too much lately.
    fn is_suspect(&self, client: &Arc<str>) -> bool {
        let mut refused = self.refused.lock();
        refused.retain(|refused| refused.at.elapsed() < REFUSED_FOR);
        refused.iter().any(|refused| refused.client == *client)
    }

    fn note_refusal(&self, program: &Program, client: &Arc<str>, error: &ProgramError) {
        let mut refused = self.refused.lock();
        if refused.len() >= REFUSED_MAX {
            refused.pop_front();
        }
        refused.push_back(Refused {
            program: program.key,
            client: Arc::clone(client),
            error: error.clone(),
            at: Instant::now(),
        });
    }
}

/// How much `program` is expected to cost to compile.
fn compile_size(program: &Program) -> CompileSize {
    if program.bytes.len() > SMALL_PROGRAM_BYTES_MAX {
        return CompileSize::Large;
    }
    match bounds::check(&program.bytes) {
        Ok(cost) if !cost.is_small() => CompileSize::Large,
        // One beyond the bounds is refused at once.
        Ok(_) | Err(_) => CompileSize::Small,
    }
}

/// Why a program is not compiled, in the words of who found out.
#[derive(Debug)]
enum Refusal {
    /// It imports what is not offered.
    Import(String),
    /// It is malformed, or exceeds a bound.
    Compile(String),
}

impl From<Refusal> for ProgramError {
    fn from(refusal: Refusal) -> Self {
        let source = |reason: String| Box::<dyn StdError + Send + Sync>::from(reason).into();
        match refusal {
            Refusal::Import(reason) => Self::Import { source: source(reason) },
            Refusal::Compile(reason) => Self::Compile { source: source(reason) },
        }
    }
}

/// Compiles a program that is within the bounds and is offered what it imports.
fn compile_checked(engine: &Engine, program: &Program) -> Result<Vec<u8>, Refusal> {
    bounds::check(&program.bytes).map_err(|error| Refusal::Compile(error.to_string()))?;
    imports::check(engine, program).map_err(|error| Refusal::Import(format!("{error:#}")))?;
    let compiled = if program.is_component() {
        engine.precompile_component(&program.bytes)
    } else {
        engine.precompile_module(&program.bytes)
    };
    compiled.map_err(|error| Refusal::Compile(format!("{error:#}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_took_too_much_are_remembered_and_the_first_forgotten_first() {
        let compiler = Compiler::new(CompileIn::ThisProcess, Duration::from_secs(1));
        let program = |number: usize| Program::new(number.to_le_bytes());
        let error = ProgramError::CompileTime { within: Duration::from_secs(1) };
        for number in 0..=REFUSED_MAX {
            compiler.note_refusal(&program(number), &"client".into(), &error);
        }
        assert!(compiler.refusal(&program(0)).is_none());
        assert!(compiler.refusal(&program(1)).is_some());
        assert!(compiler.refusal(&program(REFUSED_MAX)).is_some());
        assert!(compiler.is_suspect(&"client".into()));
        assert!(!compiler.is_suspect(&"other".into()));
    }

    /// How a compilation ends whose child runs this shell script.
    #[cfg(target_os = "linux")]
    fn compile_with(script: &str) -> (CompileError, bool) {
        use std::{fs, os::unix::fs::PermissionsExt as _};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("compiler");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        let compiler =
            Compiler::new(CompileIn::Child { program: path }, Duration::from_millis(100));
        let settings = Settings {
            stack_bytes: 1 << 19,
            fuel: crate::settings::Fuel::Free,
            memory: crate::settings::MemoryPlace::Reserved,
        };
        let engine = settings.compiling_engine().unwrap();
        let program = Program::new(*b"\0asm\x01\0\0\0");
        let client = "client".into();
        let requester = Requester { client: &client, is_wanted: &|| true, note_step: &|_| () };
        let compiled = compiler.compile(&engine, settings, &program, &requester);
        let error = compiled.err().unwrap();
        (error, compiler.refusal(&program).is_some())
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_programs_that_used_up_their_own_limits_are_remembered() {
        let (error, is_remembered) = compile_with("exec /bin/sleep 60");
        assert!(matches!(error, CompileError::Busy) && !is_remembered, "{error:?}");
        let (error, is_remembered) = compile_with("kill -KILL $$");
        assert!(matches!(error, CompileError::Child(_)) && !is_remembered, "{error:?}");
        for signal in ["XCPU", "ABRT"] {
            let (error, is_remembered) = compile_with(&format!("kill -{signal} $$"));
            assert!(matches!(error, CompileError::Program(_)) && is_remembered, "{error:?}");
        }
    }
}
