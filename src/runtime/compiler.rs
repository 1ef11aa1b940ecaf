//! Compilation of programs in child processes with limits on time and memory.
//!
//! A few bytes of a module can make its compilation need much time and memory, and the compiler cannot
//! be interrupted. So each program is compiled by a child process: this executable, called with
//! [`child::COMMAND`], which sets its own limits before it reads the program (see `child.rs`). The child
//! is killed at its time limit, or once no caller waits for it. Few children run concurrently: large
//! programs leave one permit to small programs, and each client leaves one permit to other clients. A
//! program that exceeded a limit, or has an import that is not offered, is refused immediately for some
//! minutes.

pub mod child;
mod imports;
mod permits;
mod process;

use std::collections::VecDeque;
use std::error::Error as StdError;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use wasmtime::Engine;

use self::permits::{Compilation, CompilePermits, CompileSize};
use crate::error::{CompileError, CompileStep, ProgramError};
use crate::load::CompiledCode;
use crate::program::{Program, ProgramKey};
use crate::settings::Settings;
use crate::single_flight::Demand;
use crate::system;

/// Duration for which a program is refused without another compilation. Afterwards its compilation is
/// tried again, since the machine may have been busy.
const REFUSED_FOR: Duration = Duration::from_mins(10);

/// Maximum number of refused programs that are remembered. The oldest is forgotten first.
const REFUSED_MAX: usize = 1024;

/// Maximum size of a small program. Its compilation usually takes a fraction of a second.
const SMALL_PROGRAM_BYTES_MAX: usize = 128 * 1024;

/// Process in which programs are compiled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CompileIn {
    /// A child process that runs `program`, which must call [`child::run`] if its only argument is
    /// [`child::COMMAND`].
    Child {
        /// Path of the executable.
        program: PathBuf,
    },
    /// This process, without limits: for tests and benches, which do not call [`child::run`]. Must
    /// not be used for untrusted programs.
    #[default]
    ThisProcess,
}

impl CompileIn {
    /// Returns [`Self::Child`] for the running executable, even if its file has been replaced.
    ///
    /// # Errors
    /// If the path of the executable is unknown.
    pub fn own_child() -> io::Result<Self> {
        Ok(Self::Child { program: task::process::own_program()? })
    }
}

/// Compiles programs, a few concurrently.
#[derive(Debug)]
pub(crate) struct Compiler {
    place: CompileIn,
    /// Time limit of a compilation.
    pub(crate) within: Duration,
    permits: CompilePermits,
    refused: Mutex<VecDeque<Refused>>,
}

/// A program that exceeded a limit of its compilation, or has an import that is not offered.
#[derive(Debug)]
struct Refused {
    program: ProgramKey,
    /// Client that requested the compilation.
    client: Arc<str>,
    error: ProgramError,
    at: Instant,
}

impl Compiler {
    /// Creates a compiler that runs in `place` and limits each compilation to `within`.
    pub(crate) fn new(place: CompileIn, within: Duration) -> Self {
        let permits = CompilePermits::of_machine(system::memory_bytes());
        Self { place, within, permits, refused: Mutex::default() }
    }

    /// Returns the code of `program` for `engine`, which has these `settings`, on behalf of `client`.
    /// Blocks until the program is compiled, the time limit is reached, or no caller waits. In each
    /// case, the child has exited before this returns.
    ///
    /// # Errors
    /// [`CompileError`].
    pub(crate) fn compile(
        &self,
        engine: &Engine,
        settings: Settings,
        program: &Program,
        client: &Arc<str>,
        demand: &Demand,
    ) -> Result<CompiledCode, CompileError> {
        let is_wanted = &|| demand.is_wanted();
        if let Some(error) = self.refusal(program) {
            return Err(CompileError::Program(error));
        }
        let is_suspect = self.is_suspect(client);
        let is_large = is_suspect || program.bytes.len() > SMALL_PROGRAM_BYTES_MAX;
        let compilation = Compilation {
            client: Arc::clone(client),
            size: if is_large { CompileSize::Large } else { CompileSize::Small },
            memory_bytes: process::memory_bytes(program),
            is_suspect,
        };
        demand.note_step(CompileStep::Queued);
        let _permit = self
            .permits
            .acquire(compilation, is_wanted)
            .ok_or(CompileError::Unwanted(CompileStep::Queued))?;
        demand.note_step(CompileStep::Compiling);
        match &self.place {
            CompileIn::ThisProcess => {
                compile_checked(engine, program).map(CompiledCode::trusted).map_err(refused)
            }
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

    /// Returns the error of `program` if it was recently refused.
    fn refusal(&self, program: &Program) -> Option<ProgramError> {
        let mut refused = self.refused.lock();
        refused.retain(|refused| refused.at.elapsed() < REFUSED_FOR);
        let found = refused.iter().find(|refused| refused.program == program.key);
        found.map(|refused| refused.error.clone())
    }

    /// Returns true if a program of `client` recently exceeded a limit. All programs of such a client
    /// count as large, so that they do not take the permit of small programs.
    fn is_suspect(&self, client: &Arc<str>) -> bool {
        let mut refused = self.refused.lock();
        refused.retain(|refused| refused.at.elapsed() < REFUSED_FOR);
        let is_limit = |error: &ProgramError| !matches!(error, ProgramError::Import { .. });
        refused.iter().any(|refused| refused.client == *client && is_limit(&refused.error))
    }

    /// Refuses `program` for [`REFUSED_FOR`] without another compilation.
    pub(crate) fn note_refusal(&self, program: &Program, client: &Arc<str>, error: &ProgramError) {
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

/// Returns the error of a program that cannot be compiled for `reason`.
fn refused(reason: String) -> CompileError {
    let source: Box<dyn StdError + Send + Sync> = reason.into();
    CompileError::Program(ProgramError::Compile { source: source.into() })
}

/// Compiles a program after checking the number of its items. Returns the reason if that is impossible.
fn compile_checked(engine: &Engine, program: &Program) -> Result<Vec<u8>, String> {
    imports::check_items(&program.bytes)?;
    let compiled = if program.is_component() {
        engine.precompile_component(&program.bytes)
    } else {
        engine.precompile_module(&program.bytes)
    };
    compiled.map_err(|error| format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_refused_program_is_forgotten_at_the_limit() {
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
        let import = ProgramError::Import { source: Arc::new(io::Error::other("env::now")) };
        compiler.note_refusal(&program(REFUSED_MAX + 1), &"other".into(), &import);
        assert!(!compiler.is_suspect(&"other".into()));
    }

    /// Runs a compilation with this shell script as its child. Returns its error, and true if the
    /// program is refused afterwards.
    #[cfg(target_os = "linux")]
    fn compile_with(script: &str) -> (CompileError, bool) {
        use std::fs;
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("compiler");
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        let compiler =
            Compiler::new(CompileIn::Child { program: path }, Duration::from_millis(100));
        let settings = Settings {
            fuel: crate::settings::Fuel::Free,
            memory: crate::settings::MemoryPlace::Reserved,
        };
        let engine = settings.compiling_engine().unwrap();
        let program = Program::new(*b"\0asm\x01\0\0\0");
        let client = "client".into();
        let compiled = compiler.compile(&engine, settings, &program, &client, &Demand::new());
        let error = compiled.err().unwrap();
        (error, compiler.refusal(&program).is_some())
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn only_programs_that_exceeded_compiler_limits_are_refused_later() {
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
