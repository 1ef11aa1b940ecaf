//! Input of a run of a function, parsed once from a request or a work order.

use std::collections::BTreeMap;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use model::function::Method;
use runtime::files::Files;
use runtime::run::{Limits, RequestedLimits, Run, RunOutcome, START};
use sha2::{Digest as _, Sha256};
use wire::functions::{ExecuteConfig, Outcome, RuntimeConfig};

/// Input of a run of a function.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionCall {
    /// Module to run.
    pub method: Method,
    /// Arguments after the program name, without empty arguments.
    pub arguments: Vec<String>,
    /// Environment variables. A worker adds the id of its node.
    pub environment: BTreeMap<String, String>,
    /// Standard input. An external runtime distinguishes `None` from empty input.
    pub stdin: Option<String>,
    /// URLs that the function may access, in the syntax of b7s.
    pub permissions: Vec<String>,
    /// Settings of the runtime.
    pub runtime: RuntimeConfig,
}

impl FunctionCall {
    /// Returns the call of `method` with `arguments` that `config` describes.
    pub fn new(method: Method, arguments: Vec<String>, config: &ExecuteConfig) -> Self {
        Self {
            method,
            arguments,
            environment: config.environment(),
            stdin: config.stdin.clone(),
            permissions: config.permissions.clone().unwrap_or_default(),
            runtime: config.runtime.clone().unwrap_or_default(),
        }
    }

    /// Returns the requested limits. A value of 0 sets no limit.
    pub fn requested_limits(&self) -> RequestedLimits {
        let RuntimeConfig { run_time_ms, limited_memory_pages, limited_fuel, .. } = self.runtime;
        RequestedLimits::from_numbers(run_time_ms, limited_memory_pages, limited_fuel)
    }

    /// Returns the name of the exported function to call.
    pub(crate) fn entry(&self) -> &str {
        if self.runtime.entry.is_empty() { START } else { &self.runtime.entry }
    }

    /// Returns a run of this call within `limits`, with `files`, on behalf of `client`.
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

/// Returns the output and exit code of a run. Invalid UTF-8 in the output becomes U+FFFD, and the hash of
/// the output identifies its bytes.
pub fn outcome_body(finished: RunOutcome) -> Outcome {
    let (stdout, stdout_sha256) = text_and_hash(finished.stdout);
    let (stderr, stderr_sha256) = text_and_hash(finished.stderr);
    Outcome { stdout, stderr, exit_code: finished.exit_code, stdout_sha256, stderr_sha256 }
}

/// Returns `output` as text, and its SHA-256 if it is not valid UTF-8.
fn text_and_hash(output: Vec<u8>) -> (String, String) {
    match String::from_utf8(output) {
        Ok(text) => (text, String::new()),
        Err(error) => {
            let hash = HEXLOWER.encode(&Sha256::digest(error.as_bytes()));
            (String::from_utf8_lossy(error.as_bytes()).into_owned(), hash)
        }
    }
}
