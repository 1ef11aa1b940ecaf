//! A run in a process of its own.

use std::path::PathBuf;

use bytes::Bytes;
use model::function::FunctionId;
use runtime::run::Limits;

use crate::function_call::FunctionCall;

/// What is run, and how.
#[derive(Debug)]
#[cfg_attr(not(unix), expect(dead_code, reason = "nothing runs it"))]
pub(super) struct ExternalRun {
    /// The request it belongs to.
    pub(super) request_id: String,
    pub(super) function: FunctionId,
    /// The module that the call names.
    pub(super) content: Bytes,
    /// The folder with all files of the function, the module among them; none if that is all.
    pub(super) function_dir: Option<PathBuf>,
    pub(super) call: FunctionCall,
    /// Its limits. The program gets the time limit as a flag only where the call asks for one.
    pub(super) limits: Limits,
}
