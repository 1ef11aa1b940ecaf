//! `triptych datasets verify`: whether a store holds what it should.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;
use model::{
    count::{counted, counted_short},
    escape::escape_line,
};
use serde_json::json;
use stack::{data_dir::DataDir, running::running_folder};
use tokio::task::spawn_blocking;
use transfer::event::Reporter as _;
use tsdb::admin::{self, Report};

use super::progress::Drawn;
use crate::cli::output::{print, print_body, tell};

/// The flags that name a store.
#[derive(Debug, Clone, Args)]
pub(super) struct StoreFlags {
    /// The services' data folder [default: the platform's folder for data]
    #[arg(long, env = "TRIPTYCH_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// This file, not the one of the data folder
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// The flags of `datasets verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyCommand {
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreFlags,
}

impl StoreFlags {
    /// The store's file.
    ///
    /// # Errors
    /// If the data folder is not known, or cannot be made.
    pub(super) fn path(self) -> anyhow::Result<PathBuf> {
        match self.file {
            Some(file) => Ok(file),
            None => Ok(DataDir::of_services(self.data_dir)?.datasets()),
        }
    }

    /// As [`Self::path`], to read: if no flag names a store, that of the local stack that runs, as
    /// other commands use its services.
    ///
    /// # Errors
    /// As [`Self::path`].
    pub(super) fn path_to_read(self) -> anyhow::Result<PathBuf> {
        let is_named = self.file.is_some() || self.data_dir.is_some();
        let stack = if is_named { None } else { running_folder() };
        Self { data_dir: self.data_dir.or(stack), ..self }.path()
    }
}

/// Verifies.
///
/// # Errors
/// If the store cannot be read, or is not as it should be.
pub(super) async fn run(command: VerifyCommand) -> anyhow::Result<()> {
    let path = command.store.path_to_read()?;
    let shown = path.display().to_string();
    let mut progress = Drawn::alone().begin(format!("verifying {shown}"), 0);
    let (report, progress) = spawn_blocking(move || {
        let report = admin::verify(&path, &mut |done| {
            // Each row is looked at twice.
            #[expect(clippy::cast_precision_loss, reason = "a share for people")]
            let share = Some(done.n_done as f64 / done.n_all.max(1) as f64);
            progress.update(done.n_done / 2, share);
        });
        (report, progress)
    })
    .await?;
    let report = report.context("verify")?;
    progress.finish(report.n_rows, &format!("verified {shown}"));
    print_report(&report, command.json)?;
    if report.is_sound() {
        return Ok(());
    }
    let faults = counted(report.n_faults, "fault");
    bail!("find {shown} sound: {faults}; restore a backup, or import again")
}

fn print_report(report: &Report, is_json: bool) -> anyhow::Result<()> {
    let faults: Vec<String> =
        report.faults.iter().map(|fault| escape_line(&fault.to_string()).into()).collect();
    let Report { n_datasets, n_rows, n_buckets, n_faults, .. } = report;
    if is_json {
        let report = json!({
            "datasets": n_datasets,
            "rows": n_rows,
            "buckets": n_buckets,
            "faults": faults,
            "total_faults": n_faults,
        });
        return print_body(&report);
    }
    let (datasets, rows) = (counted(*n_datasets, "dataset"), counted_short(*n_rows, "row"));
    tell(&format!("{datasets}, {rows}, {}", counted_short(*n_buckets, "bucket")));
    for fault in faults {
        print(&fault)?;
    }
    Ok(())
}
