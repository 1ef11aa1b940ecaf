//! Compiling programs, contained: in a child process with limits on its time and memory.
//!
//! Compiling takes time and memory that a few bytes of a module can make large, and it cannot be
//! interrupted. So each program is compiled by a child: this same program, called with
//! [`child::COMMAND`], which limits itself before it reads the program (see `child.rs`), and which
//! is killed when its time is up or nobody waits for it any more. Few children run at once. A
//! program that took too much is remembered for a while, and refused at once.

mod bounds;
pub mod child;
mod process;

use std::{
    collections::VecDeque, env, error::Error as StdError, io, path::PathBuf, sync::Arc,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use tokio::time::Instant;
use wasmtime::Engine;

use crate::{
    engine::ProgramError,
    machine::Settings,
    program::{Program, ProgramKey},
    seal::AuthenticCode,
};

/// Children that compile at once. Each takes several processors and up to some gigabytes.
const CHILDREN_MAX: usize = 4;

/// How often a wait looks whether it is still of use.
pub(crate) const WANTED_EVERY: Duration = Duration::from_millis(20);

/// How long a program that took too much is refused without another try. The machine may have been
/// busy with other things.
const REFUSED_FOR: Duration = Duration::from_mins(10);

/// Programs that are remembered as having taken too much. The one noted longest ago goes first.
const REFUSED_MAX: usize = 1024;

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
    /// If the system does not tell which file that is.
    pub fn own_child() -> io::Result<Self> {
        let program = if cfg!(target_os = "linux") {
            PathBuf::from("/proc/self/exe")
        } else {
            env::current_exe()?
        };
        Ok(Self::Child { program })
    }
}

/// Why a program has no compiled code.
#[derive(Debug, Clone)]
pub(crate) enum CompileError {
    /// The program is at fault.
    Program(ProgramError),
    /// The child could not be started, or did not work.
    Child(Arc<io::Error>),
    /// Nobody waited for it any more.
    Unwanted,
}

/// Compiles programs, a few at a time.
#[derive(Debug)]
pub(crate) struct Compiler {
    place: CompileIn,
    within: Duration,
    n_running: Mutex<usize>,
    ended: Condvar,
    refused: Mutex<VecDeque<Refused>>,
}

/// A program that took too much.
#[derive(Debug)]
struct Refused {
    program: ProgramKey,
    error: ProgramError,
    at: Instant,
}

/// A place among those that compile, until this is dropped.
struct Permit<'a>(&'a Compiler);

impl Compiler {
    /// Compiles in `place`, each program within `within`.
    pub(crate) fn new(place: CompileIn, within: Duration) -> Self {
        Self {
            place,
            within,
            n_running: Mutex::default(),
            ended: Condvar::new(),
            refused: Mutex::default(),
        }
    }

    /// How long a program may take.
    pub(crate) const fn within(&self) -> Duration {
        self.within
    }

    /// Returns the code of `program` for `engine`, which has these `settings`. Blocks until it is
    /// compiled, until its time is up, or soon after `is_wanted` says no; the child is gone by then.
    ///
    /// # Errors
    /// [`CompileError`], of which the program's own are the same on every host of this kind.
    pub(crate) fn compile(
        &self,
        engine: &Engine,
        settings: Settings,
        program: &Program,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<AuthenticCode, CompileError> {
        if let Some(error) = self.refusal(program) {
            return Err(CompileError::Program(error));
        }
        let _permit = self.permit(is_wanted).ok_or(CompileError::Unwanted)?;
        match &self.place {
            CompileIn::ThisProcess => compile_bounded(engine, program)
                .map(AuthenticCode::compiled_here)
                .map_err(|error| CompileError::Program(refused(format!("{error:#}")))),
            CompileIn::Child { program: path } => {
                let compiled = process::compile(path, settings, program, (self.within, is_wanted));
                if let Err(CompileError::Program(
                    error @ (ProgramError::CompileTime { .. } | ProgramError::CompileMemory { .. }),
                )) = &compiled
                {
                    self.note_refusal(program, error);
                }
                compiled
            }
        }
    }

    /// Why `program` is not to be compiled: it took too much before.
    fn refusal(&self, program: &Program) -> Option<ProgramError> {
        let mut refused = self.refused.lock();
        refused.retain(|refused| refused.at.elapsed() < REFUSED_FOR);
        let found = refused.iter().find(|refused| refused.program == program.key());
        found.map(|refused| refused.error.clone())
    }

    fn note_refusal(&self, program: &Program, error: &ProgramError) {
        let mut refused = self.refused.lock();
        if refused.len() >= REFUSED_MAX {
            refused.pop_front();
        }
        let (program, error) = (program.key(), error.clone());
        refused.push_back(Refused { program, error, at: Instant::now() });
    }

    /// Waits for a place; none once it is not wanted any more.
    fn permit(&self, is_wanted: &dyn Fn() -> bool) -> Option<Permit<'_>> {
        let mut n_running = self.n_running.lock();
        while *n_running >= CHILDREN_MAX {
            self.ended.wait_for(&mut n_running, WANTED_EVERY);
            if !is_wanted() {
                return None;
            }
        }
        *n_running += 1;
        Some(Permit(self))
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.n_running.lock() -= 1;
        self.0.ended.notify_one();
    }
}

/// Compiles a program that is within the bounds.
fn compile_bounded(engine: &Engine, program: &Program) -> wasmtime::Result<Vec<u8>> {
    bounds::check(program.bytes())?;
    if program.is_component() {
        engine.precompile_component(program.bytes())
    } else {
        engine.precompile_module(program.bytes())
    }
}

/// The refusal of the compiler, as it words it.
fn refused(reason: String) -> ProgramError {
    let source: Box<dyn StdError + Send + Sync> = reason.into();
    ProgramError::Compile { source: source.into() }
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
            compiler.note_refusal(&program(number), &error);
        }
        assert!(compiler.refusal(&program(0)).is_none());
        assert!(compiler.refusal(&program(1)).is_some());
        assert!(compiler.refusal(&program(REFUSED_MAX)).is_some());
    }
}
