//! The child process that compiles one program: its limits, its input and its output.
//!
//! ```text
//! input    header (limits, settings), program
//! output   status byte, compiled code or reason of the failure
//! ```

use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

use super::compile_checked;
use crate::program::Program;
use crate::settings::{Fuel, MemoryPlace, Settings};
use crate::system::{self, ProcessLimits};

/// Argument with which the parent process makes this executable compile a program. Not for users.
pub const COMMAND: &str = "compile-module";

/// First bytes of the input.
const MAGIC: [u8; 8] = *b"compile1";

/// Size of the header: magic and four numbers.
const HEADER_BYTES: usize = MAGIC.len() + 4 * size_of::<u64>();

/// Maximum size of a reason in the output. A message of the compiler names one function and one offset.
const REASON_BYTES_MAX: usize = 4 * 1024;

/// Niceness of the child. Running guests must not be slowed down, whereas a first run can wait.
const NICENESS: i32 = 10;

/// The part of the child's input that precedes the program.
#[derive(Clone, Copy)]
pub(super) struct Header {
    /// Limits of the child.
    pub(super) limits: ProcessLimits,
    /// Settings of the engine.
    pub(super) settings: Settings,
}

/// Outcome of a compilation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::FromRepr)]
#[repr(u8)]
pub(super) enum Status {
    Compiled = 1,
    Refused = 2,
}

impl Header {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let Settings { fuel, memory } = self.settings;
        let numbers = [
            self.limits.address_space_bytes,
            self.limits.cpu_s,
            u64::from(fuel == Fuel::Counted),
            u64::from(memory == MemoryPlace::OnDemand),
        ];
        let numbers = numbers.map(u64::to_le_bytes);
        [&MAGIC[..], numbers.as_flattened()].concat()
    }

    fn read(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let numbers = bytes.strip_prefix(&MAGIC)?;
        let [address_space_bytes, cpu_s, fuel, memory] = numbers.as_chunks().0 else {
            return None;
        };
        let is_on_demand = u64::from_le_bytes(*memory) != 0;
        let is_counted = u64::from_le_bytes(*fuel) != 0;
        Some(Self {
            limits: ProcessLimits {
                address_space_bytes: u64::from_le_bytes(*address_space_bytes),
                cpu_s: u64::from_le_bytes(*cpu_s),
            },
            settings: Settings {
                fuel: if is_counted { Fuel::Counted } else { Fuel::Free },
                memory: if is_on_demand { MemoryPlace::OnDemand } else { MemoryPlace::Reserved },
            },
        })
    }
}

/// Compiles the program on standard input for the parent that started this process. Blocks.
///
/// Returns success if the output is complete, even if the program was refused. The parent ignores the
/// output of a child that failed.
pub fn run() -> ExitCode {
    if serve().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn serve() -> io::Result<()> {
    let mut input = io::stdin().lock();
    let mut header = [0; HEADER_BYTES];
    input.read_exact(&mut header)?;
    let header = Header::read(&header).ok_or(io::ErrorKind::InvalidData)?;
    system::limit_process(header.limits, NICENESS)?;
    let mut program = Vec::new();
    input.read_to_end(&mut program)?;
    let program = Program::new(program);
    let engine = header.settings.compiling_engine().map_err(io::Error::other)?;
    let (status, mut output) = match compile_checked(&engine, &program) {
        Ok(code) => (Status::Compiled, code),
        Err(reason) => (Status::Refused, reason.into_bytes()),
    };
    if status != Status::Compiled {
        // The cut can split a character. The parent replaces incomplete characters.
        output.truncate(REASON_BYTES_MAX);
    }
    let mut stdout = io::stdout().lock();
    stdout.write_all(&[status as u8])?;
    stdout.write_all(&output)?;
    stdout.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_for_the_compiler_process_round_trips_and_other_input_is_rejected() {
        let limits = ProcessLimits { address_space_bytes: 1 << 40, cpu_s: 7 };
        for (fuel, memory) in
            [(Fuel::Counted, MemoryPlace::Reserved), (Fuel::Free, MemoryPlace::OnDemand)]
        {
            let settings = Settings { fuel, memory };
            let header = Header { limits, settings };
            let mut bytes: [u8; HEADER_BYTES] = header.bytes().try_into().unwrap();
            let read = Header::read(&bytes).unwrap();
            assert_eq!(read.settings, settings);
            assert_eq!((read.limits.address_space_bytes, read.limits.cpu_s), (1 << 40, 7));
            bytes[0] ^= 1;
            assert!(Header::read(&bytes).is_none());
        }
    }
}
