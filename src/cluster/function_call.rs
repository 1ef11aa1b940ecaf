//! Input of one run of a function, read once from a request or a work order.

use std::{collections::BTreeMap, sync::Arc};

use model::function::Method;
use runtime::{
    files::Files,
    run::{Limits, RequestedLimits, Run, RunOutcome, START},
};
use wire::functions::{ExecuteConfig, Outcome, Parameter, RuntimeConfig};

/// What one run of a function gets.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionCall {
    /// The file to run.
    pub method: Method,
    /// Arguments after the name, none of them empty.
    pub arguments: Vec<String>,
    /// Environment variables; a worker adds the id of its node.
    pub environment: BTreeMap<String, String>,
    /// Standard input; `None` is not the same as empty for a runtime of its own.
    pub stdin: Option<String>,
    /// URLs that the function may reach, by the wording of b7s.
    pub permissions: Vec<String>,
    /// What is asked of the runtime.
    pub runtime: RuntimeConfig,
}

impl FunctionCall {
    /// The call of `method` that `parameters` and `config` describe.
    pub fn new(method: Method, parameters: Option<&[Parameter]>, config: &ExecuteConfig) -> Self {
        let values = parameters.unwrap_or_default().iter().map(|parameter| &parameter.value);
        Self {
            method,
            arguments: values.filter(|value| !value.is_empty()).cloned().collect(),
            environment: config.environment(),
            stdin: config.stdin.clone(),
            permissions: config.permissions.clone().unwrap_or_default(),
            runtime: config.runtime.clone().unwrap_or_default(),
        }
    }

    /// The limits that the call asks for; 0 asks for none.
    pub fn requested_limits(&self) -> RequestedLimits {
        let RuntimeConfig { run_time_ms, limited_memory_pages, limited_fuel, .. } = self.runtime;
        RequestedLimits::from_numbers(run_time_ms, limited_memory_pages, limited_fuel)
    }

    /// The function in the module that is called.
    pub(crate) fn entry(&self) -> &str {
        if self.runtime.entry.is_empty() { START } else { &self.runtime.entry }
    }

    /// The run of this call within `limits`, with `files`, for `client`.
    pub fn into_run(self, limits: Limits, files: Option<Files>, client: Arc<str>) -> Run {
        Run {
            name: self.method.to_string(),
            entry: self.entry().to_owned(),
            arguments: self.arguments,
            environment: self.environment,
            stdin: self.stdin.unwrap_or_default().into_bytes(),
            files,
            limits,
            client,
        }
    }
}

/// Output and exit code of a run. Output is text on the wire; bytes that are no UTF-8 become U+FFFD.
pub fn outcome_body(finished: RunOutcome) -> Outcome {
    let text = |output: Vec<u8>| {
        String::from_utf8(output)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    };
    Outcome {
        stdout: text(finished.stdout),
        stderr: text(finished.stderr),
        exit_code: finished.exit_code,
    }
}
