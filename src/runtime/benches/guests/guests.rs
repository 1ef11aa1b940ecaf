//! Prints how many guests run per second, for the smallest guest and for hello, on threads and through
//! tokio.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{self, Write as _};
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use runtime::compiler::CompileIn;
use runtime::engine::Runtime;
use runtime::options::RuntimeOptions;
use runtime::program::Program;
use runtime::run::{Limits, Run, START};
use tokio::time::Instant;

mod measure;

use self::measure::Load;

/// Maximum number of concurrent guests: the default of a node.
const RUNS_MAX: NonZeroU32 = NonZeroU32::new(10).unwrap();

/// Number of threads that run guests.
const THREADS: NonZeroUsize = NonZeroUsize::new(2).unwrap();

/// Duration of each measurement.
const PERIOD: Duration = Duration::from_secs(3);

fn main() -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new(RuntimeOptions::for_runs(RUNS_MAX, CompileIn::ThisProcess))?;
    let run = Run {
        name: "guest.wasm".to_owned(),
        entry: START.to_owned(),
        arguments: Vec::new(),
        environment: BTreeMap::new(),
        stdin: Vec::new(),
        files: None,
        limits: Limits {
            wall: Duration::from_secs(18),
            memory_bytes: 256 * 1024 * 1024,
            output_bytes: 1024 * 1024,
            fuel: None,
        },
        client: std::sync::Arc::default(),
    };
    let hello = concat!(env!("CARGO_MANIFEST_DIR"), "/../../assets/functions/hello.wasm");
    let mut stdout = io::stdout().lock();
    let folder = tempfile::tempdir()?;
    for how in ["compiled", "found compiled on the disk"] {
        let options = RuntimeOptions {
            compiled_folder: Some(folder.path().to_owned()),
            ..RuntimeOptions::for_runs(RUNS_MAX, CompileIn::ThisProcess)
        };
        let fresh = Runtime::new(options)?;
        let program = Program::new(std::fs::read(hello)?);
        let began = Instant::now();
        fresh.execute_here(&program, run.clone())?;
        writeln!(stdout, "hello, {how}: first run after {:.2?}", began.elapsed())?;
    }
    for (name, program) in
        [("trivial", measure::trivial()), ("hello", Program::new(std::fs::read(hello)?))]
    {
        let rate = measure::measure_threads(
            &runtime,
            &program,
            &run,
            Load { n_at_once: THREADS, period: PERIOD },
        )?;
        writeln!(stdout, "{name}, on {THREADS} threads: {rate}")?;
        let driver = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS.get())
            .enable_time()
            .build()?;
        for n_callers in [NonZeroUsize::MIN, NonZeroUsize::try_from(RUNS_MAX)?] {
            let rate = driver.block_on(measure::measure_callers(
                &runtime,
                &program,
                &run,
                Load { n_at_once: n_callers, period: PERIOD },
            ))?;
            writeln!(stdout, "{name}, for {n_callers} callers: {rate}")?;
        }
    }
    Ok(())
}
