//! Where there is no Unix no other program runs work orders: ending all that one started, and its
//! measurement, are what a port adds.

use std::{
    convert::Infallible,
    io,
    path::{Path, PathBuf},
};

use runtime::run::RunOutcome;

use super::external_run::ExternalRun;

/// A runtime that is another program, of which there is none.
#[derive(Debug)]
pub(super) struct External(Infallible);

/// Why a process was not run, which nothing is.
#[derive(Debug, thiserror::Error)]
#[error("run another program")]
pub(super) struct ExternalError(Infallible);

impl External {
    pub(super) fn new(
        _program: &Path,
        _workspace: &Path,
        _compiled_folder: Option<PathBuf>,
    ) -> io::Result<Self> {
        let what = "runtimes that are other programs run on Linux and macOS alone";
        Err(io::Error::new(io::ErrorKind::Unsupported, what))
    }

    #[expect(clippy::unused_async, reason = "as where there is a runtime")]
    pub(super) async fn run(&self, _run: ExternalRun) -> Result<RunOutcome, ExternalError> {
        match self.0 {}
    }
}
