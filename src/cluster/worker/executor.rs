//! Running a work order in this process, in room `runtime`.

use std::num::NonZeroU32;

use model::node::PeerId;
use parking_lot::Mutex;
use runtime::{
    engine::{RunError, Runtime, RuntimeError, RuntimeOptions},
    program::Program,
    run::{Finished, Limits, Run},
};
use wire::functions::OutcomeBody;

use crate::{
    functions::{Function, Functions, FunctionsError, loaded::Loaded},
    message::{Code, NodeResult, Usage, WorkOrder},
};

/// The variable that tells a function on which node it runs.
const PEER_ID: &str = "PEER_ID";

/// Why a worker has no runtime.
#[derive(Debug, thiserror::Error)]
#[error("set up the runtime")]
pub struct StartError(#[from] RuntimeError);

/// Why a function was not run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum ExecutorError {
    /// Its content could not be read.
    #[error("read its content")]
    Content(#[from] FunctionsError),
    /// It is no program, or the host cannot run it.
    #[error("start it")]
    Run(#[from] RunError),
}

/// Runs functions.
pub(super) struct Executor {
    functions: Functions,
    runtime: Runtime,
    programs: Mutex<Loaded<Program>>,
    limits: Limits,
}

impl Executor {
    pub(super) fn new(
        functions: Functions,
        concurrency: NonZeroU32,
        limits: Limits,
    ) -> Result<Self, StartError> {
        let runtime = Runtime::new(RuntimeOptions::for_runs(concurrency))?;
        Ok(Self { functions, runtime, programs: Mutex::new(Loaded::new()), limits })
    }

    /// Runs `function` as `order` says, on the node `peer_id`. Returns what it left behind, or none
    /// if its content is not here any more. Dropping it ends the run.
    pub(super) async fn run(
        &self,
        function: &Function,
        order: &WorkOrder,
        peer_id: &PeerId,
    ) -> Result<Option<NodeResult>, ExecutorError> {
        let Some(program) = self.program(function).await? else { return Ok(None) };
        let mut environment = order.config.environment();
        environment.insert(PEER_ID.to_owned(), peer_id.to_string());
        let parameters = order.parameters.as_deref().unwrap_or_default();
        let values = parameters.iter().map(|parameter| parameter.value.clone());
        let run = Run {
            name: order.method.clone(),
            arguments: values.filter(|value| !value.is_empty()).collect(),
            environment,
            stdin: order.config.stdin.clone().unwrap_or_default().into_bytes(),
            limits: self.limits,
        };
        Ok(Some(result(self.runtime.execute(&program, run).await?)))
    }

    async fn program(&self, function: &Function) -> Result<Option<Program>, ExecutorError> {
        if let Some(program) = self.programs.lock().get(function.id) {
            return Ok(Some(program));
        }
        let Some(content) = self.functions.content(function.id).await? else { return Ok(None) };
        let program = Program::new(content.as_ref());
        self.programs.lock().put(function.id, program.clone(), content.len());
        Ok(Some(program))
    }
}

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor").field("limits", &self.limits).finish_non_exhaustive()
    }
}

fn result(finished: Finished) -> NodeResult {
    NodeResult {
        code: if finished.exit_code == 0 { Code::OK } else { Code::ERROR },
        usage: Usage {
            wall_clock_ns: u64::try_from(finished.wall.as_nanos()).unwrap_or(u64::MAX),
            memory_max_kib: u64::try_from(finished.memory_peak_bytes / 1024).unwrap_or(u64::MAX),
        },
        result: OutcomeBody {
            stdout: text(finished.stdout),
            stderr: text(finished.stderr),
            exit_code: finished.exit_code,
        },
    }
}

/// Output is text on the wire; bytes that are no UTF-8 become U+FFFD.
fn text(output: Vec<u8>) -> String {
    String::from_utf8(output)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
